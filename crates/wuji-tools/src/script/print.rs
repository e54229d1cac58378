//! Prints outputs in the language of runs.

use super::check::{Left, kinds};
use super::start::{cells, points};
use super::subject::Subject;
use std::fmt::Write;
use wuji_ir::Result;
use wuji_ir::types::{Imm, Scalar};

/// The most values that are printed of one output, unless all are requested.
const SHOWN: usize = 32;
/// The most elements that are read of a larger one.
const LOOKED_AT: u64 = 1 << 20;
/// From this number on, equal neighbours are printed with a count.
const COUNTED: u64 = 4;

/// Prints the outputs of a subject, one entry per line. Without `full`, long ones are truncated.
pub fn print_outputs(subject: &Subject<'_>, full: bool) -> Result<String> {
    let instance = subject.instance();
    let m = instance.module();
    let mut out = String::new();
    for (field, data) in &m.fields {
        let elem = m.structs.flatten(data.elem);
        let sparse = subject.sparse().iter().find(|c| c.0 == field);
        let Some((_, held)) = sparse else {
            let total = cells(m, field);
            let mut list = List::new(&elem, data.rank() == 0, full);
            if full || total <= LOOKED_AT {
                let scalars = instance.field(field)?;
                let mut elements = scalars.chunks(elem.len().max(1));
                while let Some(element) = elements.next().filter(|_| list.wants_more()) {
                    list.push(element.to_vec());
                }
            } else {
                for at in points(m, field).take(SHOWN) {
                    list.push(instance.get(field, &at)?);
                }
            }
            let _ = writeln!(out, "{field} = {}", list.end(total));
            continue;
        };
        let shown = if full { held.len() } else { SHOWN };
        let more = held.len().saturating_sub(shown);
        let coords: Vec<String> = held
            .keys()
            .take(shown)
            .map(|at| format!("{at:?}"))
            .collect();
        let _ = write!(out, "active {field} = [{}", coords.join(", "));
        let _ = match more {
            0 => writeln!(out, "]"),
            _ => writeln!(out, ", ...] ; {} elements", held.len()),
        };
        for (at, scalars) in held.iter().take(shown).filter(|_| !elem.is_empty()) {
            let _ = writeln!(out, "{field}{at:?} = {}", element(scalars));
        }
    }
    for (array, data) in &m.arrays {
        let extents = instance.extents(array)?;
        let total = extents.iter().fold(1i64, |n, e| n.saturating_mul(*e));
        let mut list = List::new(&m.structs.flatten(data.elem), data.rank == 0, full);
        for n in 0..total {
            if !list.wants_more() {
                break;
            }
            list.push(instance.array_element(array, n)?);
        }
        let extents: Vec<String> = extents.iter().map(i64::to_string).collect();
        let list = list.end(total as u64);
        let _ = writeln!(out, "{array}({}) = {list}", extents.join(", "));
    }
    if let Some(result) = subject.result() {
        let _ = writeln!(out, "result = {}", element(result));
    }
    let reports = kinds(subject);
    if !reports.is_empty() {
        let _ = writeln!(out, "reports = [{}]", reports.join(", "));
    }
    if !subject.printed().is_empty() {
        let lines = subject.printed().iter().map(|p| quoted(&p.text));
        let lines: Vec<String> = lines.collect();
        let _ = writeln!(out, "prints = [{}]", lines.join(", "));
    }
    Ok(out)
}

/// A string with escapes.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}

/// One element: a scalar, or several in parentheses.
fn element(scalars: &[Imm]) -> String {
    let word = |v: &Imm| {
        if v.as_float().is_some_and(f64::is_nan) {
            // Its bits are unspecified.
            "nan".to_owned()
        } else {
            v.to_string()
        }
    };
    match scalars {
        [one] => word(one),
        all => format!("({})", all.iter().map(word).collect::<Vec<_>>().join(", ")),
    }
}

/// All elements, in brackets.
pub(super) fn values(elem: &[Scalar], scalars: &[Imm]) -> String {
    let mut list = List::new(elem, false, true);
    let width = elem.len().max(1);
    for scalars in scalars.chunks(width) {
        list.push(scalars.to_vec());
    }
    list.end((scalars.len() / width) as u64)
}

/// A list under construction, with equal neighbours counted and consecutive integers as a range.
struct List {
    whole_numbers: bool,
    single: bool,
    full: bool,
    words: Vec<String>,
    last: Option<Stretch>,
    elements: u64,
}

/// Elements that are printed as one item.
struct Stretch {
    first: Vec<Imm>,
    last: Vec<Imm>,
    count: u64,
    step: i128,
}

impl List {
    /// `single`: there is one element, without brackets.
    fn new(elem: &[Scalar], single: bool, full: bool) -> List {
        List {
            whole_numbers: matches!(elem, [s] if s.is_int()),
            single,
            full,
            words: Vec::new(),
            last: None,
            elements: 0,
        }
    }

    fn wants_more(&self) -> bool {
        self.full || self.words.len() < SHOWN && self.elements < LOOKED_AT
    }

    fn push(&mut self, element: Vec<Imm>) {
        self.elements += 1;
        if let Some(stretch) = &mut self.last {
            let step = match (&stretch.last[..], &element[..]) {
                _ if stretch.last == element => Some(0),
                ([a], [b]) if self.whole_numbers => match (a.as_int(), b.as_int()) {
                    (Some(a), Some(b)) if b - a == 1 => Some(1),
                    _ => None,
                },
                _ => None,
            };
            if let Some(step) = step.filter(|s| stretch.count == 1 || stretch.step == *s) {
                stretch.step = step;
                stretch.count += 1;
                stretch.last = element;
                return;
            }
        }
        self.flush();
        self.last = Some(Stretch {
            first: element.clone(),
            last: element,
            count: 1,
            step: 0,
        });
    }

    fn flush(&mut self) {
        let Some(stretch) = self.last.take() else {
            return;
        };
        let first = stretch.first.first().and_then(|v| v.as_int());
        let first = first.unwrap_or(0);
        let end = first + i128::from(stretch.count);
        if stretch.count >= COUNTED && stretch.step == 0 {
            let word = format!("{}*{}", stretch.count, element(&stretch.first));
            self.words.push(word);
        } else if stretch.count >= COUNTED && i64::try_from(end).is_ok() {
            self.words.push(format!("{first}..{end}"));
        } else if stretch.step == 0 {
            let words = (0..stretch.count).map(|_| element(&stretch.first));
            self.words.extend(words);
        } else {
            let numbers = (0..stretch.count).map(|k| (first + i128::from(k)).to_string());
            self.words.extend(numbers);
        }
    }

    fn end(mut self, total: u64) -> String {
        self.flush();
        let more = self.elements < total;
        let mut words = self.words.join(", ");
        if self.single && !more {
            return words;
        }
        if more {
            words.push_str(", ...");
        }
        if more {
            format!("[{words}] ; {total} elements")
        } else {
            format!("[{words}]")
        }
    }
}
