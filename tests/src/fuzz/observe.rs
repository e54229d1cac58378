//! The observable results of a run, and their comparison.

use super::program::{Inputs, Program};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{ArrayView, Buffer, Config, Machine, Order, Outcome};
use wuji_ir::module::{Module, SiteKind};
use wuji_ir::ops::Place;
use wuji_ir::types::{Imm, Scalar};
use wuji_ir::{Error, Result};
use wuji_tools::script::elements::{self, Cells, LoweredMovers};

/// The observable results of a run. All NaNs are equal.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Observation {
    /// Empty for fields whose elements may be inactive.
    pub fields: Vec<Vec<Imm>>,
    pub sparse: Vec<(Field, Cells)>,
    pub buffers: Vec<Vec<u8>>,
    pub result: Option<Vec<Imm>>,
    /// The kinds of problems reported, sorted and without duplicates.
    pub reports: Vec<String>,
    /// Iteration and text, by task.
    pub printed: Vec<(u64, String)>,
}

/// Fields without sparse nodes that have contents of their own.
pub(crate) fn dense_fields(m: &Module) -> Vec<Field> {
    let dense = m.fields.iter().filter(|(id, f)| {
        m.trees[f.tree].sparse_path(f.node).is_empty() && elements::has_contents(m, *id)
    });
    dense.map(|(id, _)| id).collect()
}

/// Runs a program on the interpreter, at some stage of the pipeline.
pub(crate) fn interpret(
    m: &Module,
    lowered: bool,
    order: Order,
    inputs: &Inputs,
    max_steps: u64,
    movers: Option<&LoweredMovers>,
) -> Result<Observation> {
    let config = Config {
        order,
        seed: inputs.seed,
        launch: inputs.launch,
        max_steps,
        check_reads: false,
    };
    let mut machine = if lowered {
        Machine::lowered(m, config)?
    } else {
        Machine::new(m, config)?
    };
    machine.watch_races = true;
    for field in dense_fields(m) {
        machine.fill(field, inputs.field(field))?;
    }
    match movers.filter(|_| lowered) {
        Some(movers) => movers.write(&mut machine, &inputs.sparse)?,
        None => elements::write(&mut machine, &inputs.sparse)?,
    }
    let buffers: Vec<Buffer> = inputs
        .buffers
        .iter()
        .map(|bytes| machine.add_buffer(bytes.clone()))
        .collect();
    for (k, view) in inputs.views.iter().enumerate() {
        let view = ArrayView {
            buffer: buffers[view.buffer],
            base: view.base,
            extents: view.extents.clone(),
            strides: view.strides.clone(),
        };
        machine.bind(Array::from_u32(k as u32), view)?;
    }
    // An empty kernel has no tasks.
    let empty = m.kernel.is_none() && m.tasks.is_empty();
    let mut outcome = Outcome::default();
    for again in 0..=inputs.again {
        if !empty {
            machine.config.launch = inputs.launch + again;
            add(&mut outcome, machine.run(&inputs.params)?);
        }
    }
    let mut reports: Vec<String> = outcome.reports.iter().map(|r| report(m, &r.kind)).collect();
    reports.sort();
    reports.dedup();
    let mut fields = vec![Vec::new(); m.fields.len()];
    for field in dense_fields(m) {
        fields[field.as_u32() as usize] = machine.field(field)?;
    }
    let mut seen = Observation {
        fields,
        sparse: match movers.filter(|_| lowered) {
            Some(movers) => movers.read(&mut machine)?,
            None => elements::read(&machine)?,
        },
        buffers: buffers
            .iter()
            .map(|b| machine.buffer(*b).to_vec())
            .collect(),
        result: outcome.result,
        reports,
        printed: outcome
            .printed
            .into_iter()
            // Tasks are numbered anew where a serial loop becomes part of the code around it.
            .map(|p| (p.iteration, p.text))
            .collect(),
    };
    seen.forget_nans(m, inputs);
    Ok(seen)
}

/// Adds the results of one more launch.
pub(crate) fn add(all: &mut Outcome, one: Outcome) {
    all.result = one.result;
    all.reports.extend(one.reports);
    all.printed.extend(one.printed);
}

/// The part of a report that passes preserve. Compiled code names the components of a split field.
pub(crate) fn report(m: &Module, kind: &SiteKind) -> String {
    match kind {
        SiteKind::OutOfRange(Place::Field(f)) => format!("out of range: {}", whole(m, *f)),
        SiteKind::OutOfRange(Place::Array(a)) => format!("out of range: {a}"),
        SiteKind::OutOfRange(Place::Temp(t)) => format!("out of range: {t}"),
        SiteKind::OutOfRange(Place::Local(_)) => "out of range: local".to_owned(),
        SiteKind::ReadOutOfRange(_) => "read out of range".to_owned(),
        SiteKind::BadIndex { len } => format!("bad index: {len}"),
        SiteKind::Assert(m) => format!("assert {m}"),
        SiteKind::Print(m) => format!("print {m}"),
        SiteKind::TooDeep(_) => "too deep".to_owned(),
        SiteKind::OutOfMemory(..) => "out of memory".to_owned(),
        SiteKind::ListFull(f) => format!("list full: {}", whole(m, first_of_list(m, *f))),
    }
}

/// The first field of a list: which of several appends finds it full depends on the order.
fn first_of_list(m: &Module, field: Field) -> Field {
    let list = (m.fields[field].tree, m.fields[field].node);
    let mut fields = m.fields.iter();
    let first = fields.find(|(_, f)| (f.tree, f.node) == list);
    first.map_or(field, |(first, _)| first)
}

/// The field that a field is a component of, or a component of a component; otherwise the field.
fn whole(m: &Module, field: Field) -> Field {
    let mut fields = m.fields.iter().filter(|(_, f)| f.is_split());
    match fields.find(|(_, f)| f.components.contains(&field)) {
        Some((parent, _)) => whole(m, parent),
        None => field,
    }
}

impl Observation {
    /// Payload and sign of NaNs are unspecified: makes all of them equal.
    pub(crate) fn forget_nans(&mut self, m: &Module, inputs: &Inputs) {
        let cells = self.sparse.iter_mut().flat_map(|c| c.1.values_mut());
        let scalars = self.fields.iter_mut().chain(cells).flatten();
        for imm in scalars.chain(self.result.iter_mut().flatten()) {
            *imm = canonical(*imm);
        }
        for (array, data) in &m.arrays {
            let view = inputs.view(array);
            let bytes = &mut self.buffers[view.buffer];
            let floats: Vec<(Scalar, u64)> = m
                .structs
                .scalar_offsets(data.elem)
                .into_iter()
                .filter(|s| s.0.is_float())
                .collect();
            for at in view.offsets() {
                for (s, offset) in &floats {
                    let at = at as usize + *offset as usize;
                    let width = s.bytes() as usize;
                    let mut raw = [0; 8];
                    raw[..width].copy_from_slice(&bytes[at..at + width]);
                    let imm = canonical(Imm::from_bits(*s, u64::from_le_bytes(raw)));
                    bytes[at..at + width].copy_from_slice(&imm.bits().to_le_bytes()[..width]);
                }
            }
        }
    }

    /// The first difference from `expected`.
    pub(crate) fn difference(&self, expected: &Observation) -> Option<String> {
        for (k, (found, want)) in self.fields.iter().zip(&expected.fields).enumerate() {
            if found != want {
                return Some(format!("f{k}: {}", list_difference(found, want)));
            }
        }
        for ((field, found), (_, want)) in self.sparse.iter().zip(&expected.sparse) {
            if !found.keys().eq(want.keys()) {
                let found: Vec<_> = found.keys().collect();
                let want: Vec<_> = want.keys().collect();
                let list = list_difference(&found, &want);
                return Some(format!("active cells of {field}: {list}"));
            }
            for ((at, found), want) in found.iter().zip(want.values()) {
                if found != want {
                    let list = list_difference(found, want);
                    return Some(format!("{field}{at:?}: {list}"));
                }
            }
        }
        for (k, (found, want)) in self.buffers.iter().zip(&expected.buffers).enumerate() {
            if found != want {
                return Some(format!("buffer {k}: {}", list_difference(found, want)));
            }
        }
        if self.result != expected.result {
            return Some(format!(
                "result: {:?}, expected {:?}",
                self.result, expected.result
            ));
        }
        if self.reports != expected.reports {
            return Some(format!(
                "reports: {:?}, expected {:?}",
                self.reports, expected.reports
            ));
        }
        if self.printed != expected.printed {
            return Some(format!(
                "prints: {}",
                list_difference(&self.printed, &expected.printed)
            ));
        }
        None
    }
}

fn list_difference<T: PartialEq + std::fmt::Debug>(found: &[T], want: &[T]) -> String {
    let at = found.iter().zip(want).position(|(a, b)| a != b);
    match at {
        Some(k) => format!("entry {k} is {:?}, expected {:?}", found[k], want[k]),
        None => format!("{} entries, expected {}", found.len(), want.len()),
    }
}

fn canonical(imm: Imm) -> Imm {
    match imm.as_float() {
        Some(x) if x.is_nan() => Imm::float(imm.ty, f64::NAN),
        _ => imm,
    }
}

/// Whether a run exceeded the step limit.
pub(crate) fn too_long(error: &Error) -> bool {
    error.code == wuji_ir::interp::error::TOO_LONG
}

/// The original program in serial order: the oracle.
pub(crate) fn reference(program: &Program, max_steps: u64) -> Result<Observation> {
    interpret(
        &program.module,
        false,
        Order::Serial,
        &program.inputs,
        max_steps,
        None,
    )
}
