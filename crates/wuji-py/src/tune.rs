//! The search for the types of fields.

use crate::convert::parse_plain;
use crate::error::{OrRaise, raised};
use crate::field::Field;
use crate::world::World;
use pyo3::prelude::*;
use std::sync::Arc;
use wuji::Error;
use wuji::tune;
use wuji_ir::types::Type;

/// Observes the ranges of fields.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Watch {
    watch: Arc<tune::Watch>,
}

#[pymethods]
impl Watch {
    #[new]
    fn new(world: &World) -> Watch {
        let watch = Arc::<tune::Watch>::default();
        watch.start(&world.world);
        Watch { watch }
    }

    fn add(&self, name: &str) {
        self.watch.add_name(name);
    }

    /// Smallest and largest number, least magnitude but zero, and whether a number was not finite.
    fn range(&self, field: &Field) -> PyResult<(f64, f64, f64, bool)> {
        let range = self.watch.range_of(&field.field).or_raise()?;
        Ok((range.min, range.max, range.least, range.not_finite))
    }

    #[staticmethod]
    fn stop(world: &World) {
        tune::Watch::stop(&world.world);
    }
}

/// A field: name, compute type, extents of an element, number of the node, elements, range.
type FieldRow = (
    String,
    String,
    Vec<usize>,
    usize,
    u64,
    (f64, f64, f64, bool),
);
/// An output: name and numbers.
type OutputRow = (String, Vec<f64>);
/// A type: name of the field, `plain`, `int`, `fixed`, `float` or `shared`, and its numbers.
type TypeRow = (String, &'static str, (u32, u32, bool, f64));
/// A word: the number of its node, its bits, and the names and components of the fields in it.
type WordRow = (usize, u32, Vec<(String, Vec<usize>)>);

/// What stops a search.
enum Failed {
    Core(Error),
    Python(PyErr),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Core(error)
    }
}

/// The result of a search.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Tuned {
    tuned: tune::Tuned,
}

#[pymethods]
impl Tuned {
    fn report(&self) -> String {
        self.tuned.report()
    }

    fn table(&self) -> String {
        self.tuned.table()
    }

    fn svg(&self) -> String {
        self.tuned.svg()
    }

    fn rust(&self) -> String {
        self.tuned.rust()
    }

    fn python(&self) -> String {
        self.tuned.python()
    }

    /// Bytes with the compute types.
    #[getter]
    fn reference_bytes(&self) -> u64 {
        self.tuned.reference_bytes
    }

    /// Memory, error and types of the points of the front.
    #[getter]
    fn front(&self) -> Vec<(u64, f64, Vec<TypeRow>)> {
        let points = self.tuned.front.iter();
        points.map(|p| (p.bytes, p.error, types(&p.plan))).collect()
    }

    /// The number of the chosen point.
    #[getter]
    fn chosen(&self) -> usize {
        self.tuned.chosen
    }

    #[getter]
    fn runs(&self) -> usize {
        self.tuned.runs
    }
}

fn types(plan: &tune::StoragePlan) -> Vec<TypeRow> {
    let row = |(name, storage): &(String, tune::Storage)| {
        let (kind, numbers) = match *storage {
            tune::Storage::Plain => ("plain", (0, 0, true, 0.0)),
            tune::Storage::Int { bits, signed } => ("int", (bits, 0, signed, 0.0)),
            tune::Storage::Fixed {
                bits,
                signed,
                max_value,
            } => ("fixed", (bits, 0, signed, max_value)),
            tune::Storage::Float {
                exponent,
                fraction,
                signed,
            } => ("float", (exponent, fraction, signed, 0.0)),
            tune::Storage::SharedExponent {
                exponent,
                fraction,
                signed,
            } => ("shared", (exponent, fraction, signed, 0.0)),
        };
        (name.clone(), kind, numbers)
    };
    plan.fields.iter().map(row).collect()
}

fn words(plan: &tune::StoragePlan) -> Vec<WordRow> {
    let mut rows = Vec::new();
    for (node, layout) in plan.nodes.iter().enumerate() {
        for pack in &layout.packs {
            for word in 0..pack.used.len() {
                let held = pack.fields.iter().filter(|f| f.1.contains(&word));
                let held = held.map(|(n, at)| {
                    let components = (0..at.len()).filter(|k| at[*k] == word);
                    (plan.fields[*n].0.clone(), components.collect())
                });
                rows.push((node, layout.word, held.collect()));
            }
        }
    }
    rows
}

fn observation(fields: Vec<FieldRow>, outputs: Vec<OutputRow>) -> PyResult<tune::Observation> {
    let mut found = tune::Observation::default();
    for (name, compute, shape, node, cells, (min, max, least, not_finite)) in fields {
        let Type::Scalar(compute) = parse_plain(&compute)? else {
            let what = format!("the compute type `{compute}` of field `{name}` is not a scalar");
            return Err(raised(&Error::new("W0160", what)));
        };
        found.fields.push(tune::TunedField {
            name,
            compute,
            shape,
            node,
            cells,
            range: tune::Range {
                min,
                max,
                least,
                not_finite,
            },
        });
    }
    for (name, values) in outputs {
        found.outputs.push(tune::Output { name, values });
    }
    Ok(found)
}

/// Searches types. `run` takes types and words, and returns fields and outputs; `progress` takes how many runs are done, an estimate of
/// all, and what is run next.
#[pyfunction]
#[pyo3(signature = (run, progress, *, error, memory, memory_part, norm, reserve, keep, points))]
pub(crate) fn tune_quant(
    run: &Bound<'_, PyAny>,
    progress: &Bound<'_, PyAny>,
    error: Option<f64>,
    memory: Option<u64>,
    memory_part: Option<f64>,
    norm: &str,
    reserve: f64,
    keep: Vec<String>,
    points: usize,
) -> PyResult<Tuned> {
    let goals = [
        error.map(tune::Goal::Error),
        memory.map(tune::Goal::Bytes),
        memory_part.map(tune::Goal::Part),
    ];
    let goals: Vec<tune::Goal> = goals.into_iter().flatten().collect();
    let [goal] = goals[..] else {
        let what = if goals.is_empty() {
            "the search has no goal"
        } else {
            "the search has more than one goal"
        };
        let help = "give one of `error=1e-3`, `memory=BYTES` and `memory_part=0.5`";
        return Err(raised(&Error::new("W0160", what).help(help)));
    };
    let norm = match norm {
        "rms" => tune::Norm::Rms,
        "max" => tune::Norm::Max,
        other => {
            let what = format!("there is no norm `{other}`");
            return Err(raised(
                &Error::new("W0160", what).help("the norms are `rms` and `max`"),
            ));
        }
    };
    let request = tune::Request {
        goal,
        norm,
        reserve,
        keep,
        points: points.clamp(2, 10_000),
    };
    let mut call = |plan: &tune::StoragePlan| {
        let rows = run.call1((types(plan), words(plan)));
        let rows = rows.and_then(|r| r.extract::<(Vec<FieldRow>, Vec<OutputRow>)>());
        rows.and_then(|(fields, outputs)| observation(fields, outputs))
            .map_err(Failed::Python)
    };
    let mut failed = None;
    let mut show = |step: &tune::Step<'_>| {
        let shown = progress.call1((step.done, step.total, step.note));
        failed = failed.take().or(shown.err());
    };
    let tuned = tune::search(&request, &mut call, &mut show);
    if let Some(exception) = failed {
        return Err(exception);
    }
    match tuned {
        Ok(tuned) => Ok(Tuned { tuned }),
        Err(Failed::Python(exception)) => Err(exception),
        Err(Failed::Core(error)) => Err(raised(&error)),
    }
}
