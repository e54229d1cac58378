//! `; test: run`: launches on everything that runs IR, compared with what the file says.
//!
//! The interpreter runs the module as it is and as it is after each pass of the pipeline, in order and in
//! random orders; backends run what the whole pipeline gives. All of them have to agree with the file, bit
//! for bit.

use super::TestFile;
use super::commands::{comes_back, module};
use super::run_line::{self, Entry, Side, Target};
use crate::sparse::{self, Cells, LoweredMovers};
use wuji_compile::{Cx, Math, Options, PASSES, run_pass};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{ArrayView, Config, Machine, Order};
use wuji_ir::module::{Module, SiteKind};
use wuji_ir::text::constant;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::verify::verify;

/// What a launch starts from.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) seed: u64,
    pub(super) launch: u64,
    /// The scalars of all parameters.
    pub(super) params: Vec<Imm>,
    pub(super) fields: Vec<(Field, Vec<Imm>)>,
    pub(super) elements: Vec<(Field, Vec<i64>, Vec<Imm>)>,
    /// What exists of fields below sparse nodes.
    pub(super) sparse: Vec<(Field, Cells)>,
    /// The memory that arrays lie in.
    pub(super) buffers: Vec<Vec<u8>>,
    pub(super) arrays: Vec<Bound>,
}

/// An array and where it lies, in bytes.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub(super) array: Array,
    pub(super) buffer: usize,
    pub(super) base: i64,
    pub(super) extents: Vec<i64>,
    pub(super) strides: Vec<i64>,
    /// What it starts with; `None` for one in the memory of another.
    values: Option<Vec<Imm>>,
}

/// What a launch has left, in a form that can be asked.
pub(super) trait Left {
    fn field(&self, field: Field) -> Result<Vec<Imm>, String>;
    fn element(&self, field: Field, at: &[i64]) -> Result<Vec<Imm>, String>;
    /// The contents of all fields below sparse nodes.
    fn sparse(&self) -> &[(Field, Cells)];
    fn array(&self, array: Array) -> Result<Vec<Imm>, String>;
    fn result(&self) -> Option<Vec<Imm>>;
    /// The kinds of problems, each once, sorted.
    fn reports(&self) -> Vec<String>;
    fn prints(&self) -> Vec<String>;
}

pub(super) fn runs(file: &TestFile, _: &str) -> Result<Option<String>, String> {
    let module = module(file)?;
    let mut lines = Vec::new();
    for (number, line) in &file.runs {
        let at = |e: String| format!("line {number}: {e}");
        let (before, after) = run_line::read(line).map_err(at)?;
        let start = start(&module, &before).map_err(at)?;
        lines.push((*number, start, after));
    }
    let options = Options {
        math: Math::Strict,
        vector_bits: 128,
        ..Options::default()
    };
    let movers = match sparse::fields(&module)[..] {
        [] => None,
        _ => Some(LoweredMovers::new(&module, &options).map_err(|e| e.to_string())?),
    };
    let each = |m: &Module, stage: &str, lowered: bool, orders: &[Order]| -> Result<(), String> {
        if !sparse::is_runnable(m, lowered) {
            return Ok(());
        }
        let movers = movers.as_ref().filter(|_| lowered);
        for (number, start, after) in &lines {
            for order in orders {
                let how = Interpret {
                    lowered,
                    order: *order,
                    movers,
                };
                interpret(m, how, start, after).map_err(|e| {
                    format!("line {number}: interpreter, {stage}, {order:?}: {e}\n{m}")
                })?;
            }
        }
        Ok(())
    };
    each(
        &module,
        "as written",
        false,
        &[
            Order::Serial,
            Order::Shuffled(1),
            Order::Shuffled(2),
            Order::Shuffled(3),
        ],
    )?;
    let all_options = [
        options.clone(),
        // With calls instead of lowered accesses, so that what is done about calls is tested by every file too.
        Options {
            without: ["access_lowering", "vector_cost"].map(str::to_owned).into(),
            ..options
        },
    ];
    for options in all_options {
        let mut cx = Cx::new(&options);
        let mut m = module.clone();
        let mut lowered = false;
        for pass in PASSES {
            let stage = format!("after {}, without {:?}", pass.name, options.without);
            run_pass(pass.name, &mut m, &mut cx).map_err(|e| format!("{stage}: {e}"))?;
            verify(&m).map_err(|e| format!("{stage}: {e}\n{m}"))?;
            comes_back(&m).map_err(|e| format!("{stage}: {e}"))?;
            lowered |= pass.name == "lower_access";
            if lowered || options.without.is_empty() {
                each(&m, &stage, lowered, &[Order::Serial, Order::Shuffled(4)])?;
            }
        }
        super::native::launches(&module, &options.without, &lines)?;
    }
    Ok(None)
}

fn start(m: &Module, side: &Side) -> Result<Start, String> {
    let mut params: Vec<Imm> = Vec::new();
    for p in &m.params {
        params.extend(m.structs.flatten(p.ty).into_iter().map(Imm::zero));
    }
    let slots = m.param_slots();
    let mut start = Start {
        seed: 0,
        launch: 0,
        params,
        fields: Vec::new(),
        elements: Vec::new(),
        sparse: sparse::fields(m)
            .into_iter()
            .map(|f| (f, Cells::new()))
            .collect(),
        buffers: Vec::new(),
        arrays: Vec::new(),
    };
    for entry in &side.entries {
        match &entry.target {
            Target::Seed => start.seed = whole(entry)?,
            Target::Launch => start.launch = whole(entry)?,
            Target::Param(n) => {
                let p = m.params.get(*n).ok_or(format!("there is no p{n}"))?;
                let values = scalars(&m.structs.flatten(p.ty), Some(1), entry)?;
                start.params[slots[*n]..][..values.len()].copy_from_slice(&values);
            }
            Target::Field(f) => {
                let data = m.fields.get(*f).ok_or(format!("there is no {f}"))?;
                let cells = data.domain(&m.trees).iter().map(|d| d.1).product::<u64>();
                let elem = m.structs.flatten(data.elem);
                let values = scalars(&elem, Some(cells as usize), entry)?;
                match start.sparse.iter_mut().find(|c| c.0 == *f) {
                    None => start.fields.push((*f, values)),
                    Some(held) => {
                        let values = values.chunks(elem.len().max(1)).map(<[Imm]>::to_vec);
                        held.1 = points(m, *f).into_iter().zip(values).collect();
                    }
                }
            }
            Target::Element(f, at) => {
                let data = m.fields.get(*f).ok_or(format!("there is no {f}"))?;
                let values = scalars(&m.structs.flatten(data.elem), Some(1), entry)?;
                match start.sparse.iter_mut().find(|c| c.0 == *f) {
                    None => start.elements.push((*f, at.clone(), values)),
                    Some(held) => {
                        held.1.insert(at.clone(), values);
                    }
                }
            }
            Target::Active(f) => {
                let zeros: Vec<Imm> = match m.fields.get(*f) {
                    Some(data) => m
                        .structs
                        .flatten(data.elem)
                        .into_iter()
                        .map(Imm::zero)
                        .collect(),
                    None => return Err(format!("there is no {f}")),
                };
                let held = start.sparse.iter_mut().find(|c| c.0 == *f);
                let held = held.ok_or(format!("all elements of {f} exist"))?;
                for at in coordinates(m, *f, entry)? {
                    held.1.entry(at).or_insert_with(|| zeros.clone());
                }
            }
            Target::Array(a, extents) => bind(m, &mut start, *a, extents.as_deref(), entry)?,
            Target::Result | Target::Reports | Target::Prints => {
                return Err("results, reports and prints stand behind `=>`".to_owned());
            }
        }
    }
    Ok(start)
}

/// All coordinates of a field, row-major.
fn points(m: &Module, field: Field) -> Vec<Vec<i64>> {
    let mut out = vec![Vec::new()];
    for (from, extent) in m.fields[field].domain(&m.trees) {
        let longer = |at: &Vec<i64>| -> Vec<Vec<i64>> {
            let next = (from..).take(extent as usize);
            next.map(|c| [&at[..], &[c]].concat()).collect()
        };
        out = out.iter().flat_map(longer).collect();
    }
    out
}

/// The coordinates that an entry lists.
fn coordinates(m: &Module, field: Field, entry: &Entry) -> Result<Vec<Vec<i64>>, String> {
    let rank = m.fields[field].rank().max(1);
    let number = |w: &String| w.parse::<i64>().map_err(|_| format!("`{w}` is no number"));
    let numbers: Vec<i64> = entry.words.iter().map(number).collect::<Result<_, _>>()?;
    if !numbers.len().is_multiple_of(rank) {
        return Err(format!("{field} has {rank} indices"));
    }
    Ok(numbers.chunks(rank).map(<[i64]>::to_vec).collect())
}

/// Gives an array memory of its own, or a place in the memory of another one.
fn bind(
    m: &Module,
    start: &mut Start,
    array: Array,
    extents: Option<&[i64]>,
    entry: &Entry,
) -> Result<(), String> {
    let data = m.arrays.get(array).ok_or(format!("there is no {array}"))?;
    let elem = m.structs.scalar_offsets(data.elem);
    let size = m.structs.size_align(data.elem).0;
    let extents = match (extents, data.rank) {
        (Some(extents), _) => extents.to_vec(),
        (None, 0) => Vec::new(),
        (None, 1) if entry.view.is_none() => vec![(entry.words.len() / elem.len().max(1)) as i64],
        (None, _) => return Err(format!("{array} needs extents, like `{array}(2, 3) = ...`")),
    };
    let mut strides = vec![0; extents.len()];
    let mut step = size as i64;
    for (stride, extent) in strides.iter_mut().zip(&extents).rev() {
        *stride = step;
        step *= (*extent).max(1);
    }
    let bound = match &entry.view {
        Some(view) => {
            let owner = start.arrays.iter().find(|b| b.array == view.of);
            let owner = owner.ok_or(format!("{} is not bound before {array}", view.of))?;
            Bound {
                array,
                buffer: owner.buffer,
                base: view.at,
                extents,
                strides: view.strides.clone().unwrap_or(strides),
                values: None,
            }
        }
        None => {
            let types: Vec<Scalar> = elem.iter().map(|e| e.0).collect();
            let count = extents.iter().product::<i64>() as usize;
            let values = scalars(&types, Some(count), entry)?;
            let mut bytes = vec![0; count * size as usize];
            for (k, value) in values.iter().enumerate() {
                let (scalar, offset) = elem[k % elem.len()];
                let at = k / elem.len() * size as usize + offset as usize;
                let width = scalar.bytes() as usize;
                bytes[at..at + width].copy_from_slice(&value.bits().to_le_bytes()[..width]);
            }
            start.buffers.push(bytes);
            Bound {
                array,
                buffer: start.buffers.len() - 1,
                base: 0,
                extents,
                strides,
                values: Some(values),
            }
        }
    };
    start.arrays.push(bound);
    Ok(())
}

fn whole(entry: &Entry) -> Result<u64, String> {
    match &entry.words[..] {
        [word] => word.parse().map_err(|_| format!("`{word}` is no number")),
        _ => Err("expected one number".to_owned()),
    }
}

/// The scalars of `count` elements (of any number of them without).
fn scalars(elem: &[Scalar], count: Option<usize>, entry: &Entry) -> Result<Vec<Imm>, String> {
    let given = entry.words.len();
    let fits = match count {
        Some(count) => given == count * elem.len(),
        None => elem.is_empty() && given == 0 || given.is_multiple_of(elem.len().max(1)),
    };
    if !fits {
        return Err(format!(
            "{:?} gets {given} scalars, not {} times {}",
            entry.target,
            count.unwrap_or(0),
            elem.len()
        ));
    }
    entry
        .words
        .iter()
        .zip(elem.iter().cycle())
        .map(|(word, ty)| constant(word, *ty))
        .collect()
}

/// How the interpreter runs a module.
struct Interpret<'a> {
    lowered: bool,
    order: Order,
    movers: Option<&'a LoweredMovers>,
}

/// Runs on the interpreter and compares.
fn interpret(m: &Module, how: Interpret<'_>, start: &Start, after: &Side) -> Result<(), String> {
    let config = Config {
        order: how.order,
        seed: start.seed,
        launch: start.launch,
        ..Config::default()
    };
    let machine = if how.lowered {
        Machine::lowered(m, config)
    } else {
        Machine::new(m, config)
    };
    let show = |e: wuji_ir::Error| e.to_string();
    let mut machine = machine.map_err(show)?;
    for (field, values) in &start.fields {
        machine.fill(*field, values).map_err(show)?;
    }
    for (field, at, values) in &start.elements {
        machine.set(*field, at, values).map_err(show)?;
    }
    let buffers: Vec<_> = start
        .buffers
        .iter()
        .map(|bytes| machine.add_buffer(bytes.clone()))
        .collect();
    for bound in &start.arrays {
        let view = ArrayView {
            buffer: buffers[bound.buffer],
            base: bound.base,
            extents: bound.extents.clone(),
            strides: bound.strides.clone(),
        };
        machine.bind(bound.array, view).map_err(show)?;
    }
    match how.movers {
        Some(movers) => movers.write(&mut machine, &start.sparse),
        None => sparse::write(&mut machine, &start.sparse),
    }
    .map_err(show)?;
    let outcome = machine.run(&start.params).map_err(show)?;
    let held = match how.movers {
        Some(movers) => movers.read(&mut machine),
        None => sparse::read(&machine),
    };
    let left = Interpreted {
        machine,
        outcome,
        sparse: held.map_err(show)?,
    };
    compare(m, start, after, &left)
}

struct Interpreted<'m> {
    machine: Machine<'m>,
    outcome: wuji_ir::interp::Outcome,
    sparse: Vec<(Field, Cells)>,
}

impl Left for Interpreted<'_> {
    fn field(&self, field: Field) -> Result<Vec<Imm>, String> {
        self.machine.field(field).map_err(|e| e.to_string())
    }

    fn element(&self, field: Field, at: &[i64]) -> Result<Vec<Imm>, String> {
        self.machine.get(field, at).map_err(|e| e.to_string())
    }

    fn sparse(&self) -> &[(Field, Cells)] {
        &self.sparse
    }

    fn array(&self, array: Array) -> Result<Vec<Imm>, String> {
        Ok(self.machine.array(array))
    }

    fn result(&self) -> Option<Vec<Imm>> {
        self.outcome.result.clone()
    }

    fn reports(&self) -> Vec<String> {
        let mut kinds: Vec<String> = self
            .outcome
            .reports
            .iter()
            .map(|r| site_name(&r.kind).to_owned())
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    fn prints(&self) -> Vec<String> {
        self.outcome
            .printed
            .iter()
            .map(|p| p.text.clone())
            .collect()
    }
}

/// The word of the text format for what a site reports.
pub(super) fn site_name(kind: &SiteKind) -> &'static str {
    match kind {
        SiteKind::OutOfRange(_) => "out_of_range",
        SiteKind::BadIndex { .. } => "bad_index",
        SiteKind::Assert(_) => "assert",
        SiteKind::Print(_) => "print",
        SiteKind::TooDeep(_) => "too_deep",
        SiteKind::OutOfMemory(..) => "out_of_memory",
        SiteKind::ListFull(_) => "list_full",
    }
}

/// Everything the line mentions is as it says; what it does not mention is as before.
pub(super) fn compare(
    m: &Module,
    start: &Start,
    after: &Side,
    left: &dyn Left,
) -> Result<(), String> {
    let mut reports: Vec<String> = Vec::new();
    let mut prints: Vec<String> = Vec::new();
    let mut fields: Vec<Field> = Vec::new();
    let mut arrays: Vec<Array> = Vec::new();
    for entry in &after.entries {
        match &entry.target {
            Target::Field(f) => {
                let data = m.fields.get(*f).ok_or(format!("there is no {f}"))?;
                let elem = m.structs.flatten(data.elem);
                let found = match contents(left, *f) {
                    None => left.field(*f)?,
                    Some(cells) => points(m, *f)
                        .iter()
                        .flat_map(|at| element(&elem, cells, at))
                        .collect(),
                };
                same(&format!("{f}"), &elem, entry, &found)?;
                fields.push(*f);
            }
            Target::Element(f, at) => {
                let data = m.fields.get(*f).ok_or(format!("there is no {f}"))?;
                let elem = m.structs.flatten(data.elem);
                let found = match contents(left, *f) {
                    None => left.element(*f, at)?,
                    Some(cells) => element(&elem, cells, at),
                };
                same(&format!("{f}{at:?}"), &elem, entry, &found)?;
                fields.push(*f);
            }
            Target::Active(f) => {
                let cells = contents(left, *f).ok_or(format!("all elements of {f} exist"))?;
                let mut expected = coordinates(m, *f, entry)?;
                expected.sort();
                if !cells.keys().eq(&expected) {
                    let found: Vec<_> = cells.keys().collect();
                    return Err(format!(
                        "active elements of {f} differ\n  expected {expected:?}\n  found    {found:?}"
                    ));
                }
            }
            Target::Array(a, _) => {
                let data = m.arrays.get(*a).ok_or(format!("there is no {a}"))?;
                let elem = m.structs.flatten(data.elem);
                same(&format!("{a}"), &elem, entry, &left.array(*a)?)?;
                arrays.push(*a);
            }
            Target::Result => {
                let found = left.result().ok_or("the kernel gave no result")?;
                let elem: Vec<Scalar> = found.iter().map(|v| v.ty).collect();
                same("result", &elem, entry, &found)?;
            }
            Target::Reports => reports = entry.words.clone(),
            Target::Prints => prints = entry.words.clone(),
            Target::Param(_) | Target::Seed | Target::Launch => {
                return Err("parameters stand before `=>`".to_owned());
            }
        }
    }
    reports.sort();
    if reports != left.reports() {
        return Err(format!(
            "reports {:?}, expected {reports:?}",
            left.reports()
        ));
    }
    if prints != left.prints() {
        return Err(format!("prints {:?}, expected {prints:?}", left.prints()));
    }
    for (field, values) in &start.fields {
        if !fields.contains(field) && left.field(*field)? != *values {
            return Err(format!("{field} has changed: {:?}", left.field(*field)?));
        }
    }
    for bound in &start.arrays {
        let Some(values) = &bound.values else {
            continue;
        };
        let array = bound.array;
        if !arrays.contains(&array) && left.array(array)? != *values {
            return Err(format!("{array} has changed: {:?}", left.array(array)?));
        }
    }
    Ok(())
}

fn contents(left: &dyn Left, field: Field) -> Option<&Cells> {
    let found = left.sparse().iter().find(|c| c.0 == field);
    found.map(|c| &c.1)
}

/// The scalars of an element, zero when it does not exist.
fn element(elem: &[Scalar], cells: &Cells, at: &[i64]) -> Vec<Imm> {
    match cells.get(at) {
        Some(values) => values.clone(),
        None => elem.iter().map(|s| Imm::zero(*s)).collect(),
    }
}

fn same(what: &str, elem: &[Scalar], entry: &Entry, found: &[Imm]) -> Result<(), String> {
    let expected = scalars(elem, None, entry)?;
    let close = |a: Imm, b: Imm| {
        a == b
            || is_nan(a) && is_nan(b)
            || entry.approximate && a.ty == b.ty && ulps(a).abs_diff(ulps(b)) <= 4
    };
    let equal =
        expected.len() == found.len() && expected.iter().zip(found).all(|(a, b)| close(*a, *b));
    if equal {
        return Ok(());
    }
    let words = |v: &[Imm]| -> String {
        let words: Vec<String> = v.iter().map(Imm::to_string).collect();
        words.join(", ")
    };
    Err(format!(
        "{what} differs\n  expected [{}]\n  found    [{}]",
        words(&expected),
        words(found)
    ))
}

fn is_nan(v: Imm) -> bool {
    v.as_float().is_some_and(f64::is_nan)
}

/// Floats as integers in the same order, neighbours next to each other; integers as they are.
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
