//! Compares the outputs of a run with the expected ones.

use super::elements::Cells;
use super::print::values;
use super::read::{Entry, Run, ScriptTarget};
use super::start::{
    MISFIT, Start, array_of, cells, coordinates, field, inside, named, points, scalars,
};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{Printed, Report};
use wuji_ir::module::{Module, SiteKind};
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};

/// The outputs differ.
pub(super) const WRONG: &str = "W0410";

/// The outputs of launches.
pub trait Left {
    /// Every scalar of a field without sparse nodes above it.
    fn field(&self, field: Field) -> Result<Vec<Imm>>;
    /// The scalars of an element.
    fn element(&self, field: Field, at: &[i64]) -> Result<Vec<Imm>>;
    /// The contents of all fields below sparse nodes.
    fn sparse(&self) -> &[(Field, Cells)];
    /// The scalars of an array.
    fn array(&self, array: Array) -> Result<Vec<Imm>>;
    /// The scalars of the kernel's result.
    fn result(&self) -> Option<&[Imm]>;
    /// What was reported.
    fn reports(&self) -> &[Report];
    /// What was printed.
    fn printed(&self) -> &[Printed];
}

/// The keyword of the text format for a report.
pub fn site_name(kind: &SiteKind) -> &'static str {
    match kind {
        SiteKind::OutOfRange(_) => "out_of_range",
        SiteKind::ReadOutOfRange(_) => "read_out_of_range",
        SiteKind::BadIndex { .. } => "bad_index",
        SiteKind::Assert(_) => "assert",
        SiteKind::Print(_) => "print",
        SiteKind::TooDeep(_) => "too_deep",
        SiteKind::OutOfMemory(..) => "out_of_memory",
        SiteKind::ListFull(_) => "list_full",
    }
}

/// The kinds of problems reported, sorted and without duplicates.
pub(super) fn kinds(left: &dyn Left) -> Vec<String> {
    let reports = left.reports().iter();
    let mut kinds: Vec<String> = reports.map(|r| site_name(&r.kind).to_owned()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Checks that everything the run mentions is as expected, and everything else unchanged.
pub fn check(m: &Module, run: &Run, start: &Start, left: &dyn Left) -> Result<()> {
    let mut expected = Expected::default();
    for entry in &run.after {
        expected.entry(m, entry, left)?;
    }
    expected.reports.sort();
    let texts: Vec<String> = left.printed().iter().map(|p| p.text.clone()).collect();
    let reported = [
        ("reports", &expected.reports, kinds(left)),
        ("prints", &expected.prints, texts),
    ];
    for (what, expected, found) in reported {
        if *expected != found {
            return Err(
                Error::new(WRONG, format!("there are other {what} than expected"))
                    .at(run.at.clone())
                    .note(format!("expected {}", shortened(format!("{expected:?}"))))
                    .note(format!("found    {}", shortened(format!("{found:?}")))),
            );
        }
    }
    expected.unmentioned(m, run, start, left)
}

/// What the entries behind `=>` mention.
#[derive(Default)]
struct Expected {
    reports: Vec<String>,
    prints: Vec<String>,
    fields: Vec<Field>,
    arrays: Vec<Array>,
}

impl Expected {
    /// Compares what one entry says.
    fn entry(&mut self, m: &Module, entry: &Entry, left: &dyn Left) -> Result<()> {
        let misfit = |why: String| entry.error(MISFIT, why);
        if entry.view.is_some() {
            let why = "where an array lies is said before `=>`";
            return Err(misfit(why.to_owned()));
        }
        match &entry.target {
            ScriptTarget::Field(f) => {
                let (what, elem) = field(m, entry, *f)?;
                let found = match contents(left, *f) {
                    None => left.field(*f)?,
                    // Fields below sparse nodes can be too large to list.
                    Some(_)
                        if entry.items.len() != cells(m, *f).saturating_mul(elem.len() as u64) =>
                    {
                        scalars(entry, &what, &elem, cells(m, *f))?
                    }
                    Some(cells) => points(m, *f)
                        .flat_map(|at| element(&elem, cells, &at))
                        .collect(),
                };
                same(entry, &what, &elem, &found)?;
                self.fields.push(*f);
            }
            ScriptTarget::Element(f, at) => {
                let (what, elem) = field(m, entry, *f)?;
                inside(m, entry, *f, at)?;
                let found = match contents(left, *f) {
                    None => left.element(*f, at)?,
                    Some(cells) => element(&elem, cells, at),
                };
                same(entry, &format!("element {at:?} of {what}"), &elem, &found)?;
                self.fields.push(*f);
            }
            ScriptTarget::Active(f) => {
                let (what, _) = field(m, entry, *f)?;
                let cells = contents(left, *f);
                let cells = cells.ok_or_else(|| misfit(format!("all elements of {what} exist")))?;
                let mut expected = coordinates(m, entry, *f)?;
                expected.sort();
                if !cells.keys().eq(&expected) {
                    let found: Vec<_> = cells.keys().collect();
                    return Err(entry
                        .error(
                            WRONG,
                            format!("other elements of {what} exist than expected"),
                        )
                        .note(format!("expected {}", shortened(format!("{expected:?}"))))
                        .note(format!("found    {}", shortened(format!("{found:?}")))));
                }
            }
            ScriptTarget::Array(a, _) => {
                let data = array_of(m, entry, *a)?;
                let elem = m.structs.flatten(data.elem);
                same(entry, &named(a, &data.name), &elem, &left.array(*a)?)?;
                self.arrays.push(*a);
            }
            ScriptTarget::Result => {
                let none = || entry.error(WRONG, "the kernel gave no result");
                let found = left.result().ok_or_else(none)?;
                let elem: Vec<Scalar> = found.iter().map(|v| v.ty).collect();
                same(entry, "the result", &elem, found)?;
            }
            ScriptTarget::Reports => self.reports = entry.items.words().map_err(misfit)?,
            ScriptTarget::Prints => self.prints = entry.items.words().map_err(misfit)?,
            ScriptTarget::Param(_) | ScriptTarget::Seed | ScriptTarget::Launch => {
                return Err(misfit("parameters stand before `=>`".to_owned()));
            }
        }
        Ok(())
    }

    /// Whatever else the kernel has changed is an error.
    fn unmentioned(&self, m: &Module, run: &Run, start: &Start, left: &dyn Left) -> Result<()> {
        let changed = |what: String, found: &[Imm]| {
            Error::new(
                WRONG,
                format!("{what} has changed, which the run does not mention"),
            )
            .at(run.at.clone())
            .note(format!("found {}", shortened(words(found))))
        };
        for (field, values) in &start.fields {
            if !self.fields.contains(field) && left.field(*field)? != *values {
                return Err(changed(
                    named(field, &m.fields[*field].name),
                    &left.field(*field)?,
                ));
            }
        }
        for bound in &start.arrays {
            let Some(values) = &bound.values else {
                continue;
            };
            let array = bound.array;
            if !self.arrays.contains(&array) && left.array(array)? != *values {
                return Err(changed(
                    named(array, &m.arrays[array].name),
                    &left.array(array)?,
                ));
            }
        }
        Ok(())
    }
}

fn contents(left: &dyn Left, field: Field) -> Option<&Cells> {
    let found = left.sparse().iter().find(|c| c.0 == field);
    found.map(|c| &c.1)
}

/// The scalars of an element; zero if it is inactive.
fn element(elem: &[Scalar], cells: &Cells, at: &[i64]) -> Vec<Imm> {
    match cells.get(at) {
        Some(values) => values.clone(),
        None => elem.iter().map(|s| Imm::zero(*s)).collect(),
    }
}

fn same(entry: &Entry, what: &str, elem: &[Scalar], found: &[Imm]) -> Result<()> {
    let elements = found.len() as u64 / (elem.len() as u64).max(1);
    let expected = scalars(entry, what, elem, elements)?;
    let close = |a: Imm, b: Imm| {
        a == b
            || is_nan(a) && is_nan(b)
            || entry.approximate && a.ty == b.ty && ulps(a).abs_diff(ulps(b)) <= 4
    };
    let pairs = expected.iter().zip(found);
    let Some(first) = pairs.clone().position(|(a, b)| !close(*a, *b)) else {
        return Ok(());
    };
    let error = entry
        .error(WRONG, format!("{what} has other values than expected"))
        .note(format!("expected {}", shortened(words(&expected))))
        .note(format!("found    {}", shortened(words(found))));
    if found.len() == 1 {
        return Err(error);
    }
    let wrong = pairs.filter(|(a, b)| !close(**a, **b)).count();
    Err(error.note(format!(
        "{wrong} of {} scalars differ; number {first} is {}, expected {}",
        found.len(),
        found[first],
        expected[first]
    )))
}

fn words(scalars: &[Imm]) -> String {
    let types: Vec<Scalar> = scalars.first().map(|v| v.ty).into_iter().collect();
    values(&types, scalars)
}

/// Truncates text for error messages.
fn shortened(text: String) -> String {
    const SHOWN: usize = 400;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text,
    }
}

fn is_nan(v: Imm) -> bool {
    v.as_float().is_some_and(f64::is_nan)
}

/// Floats as integers in the same order, with adjacent floats one apart; integers unchanged.
fn ulps(v: Imm) -> i128 {
    if let Some(n) = v.as_int() {
        return n;
    }
    let sign = 1u64 << (v.ty.bits() - 1);
    let magnitude = i128::from(v.bits() & (sign - 1));
    if v.bits() & sign == 0 {
        magnitude
    } else {
        -magnitude
    }
}
