//! Traced programs for Python.
//!
//! A node of a trace is a number; arrays of nodes are arrays of `u32`. Every call checks that its nodes exist and have the right kind.

use crate::error::{OrRaise, raised};
use crate::numbers::{Plain, length_mismatch, read, write};
use crate::waiting::detached;
use crate::world::World;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wuji::Error;
use wuji_symbolic::arena::Id;
use wuji_symbolic::op::{Binary, Op};
use wuji_symbolic::{
    Csr, Number, Options, Program, Recorder, Simplify, Sym, Trace, gradient, hessian, jacobian,
    project_definite,
};

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<Tracer>()?;
    m.add_class::<SymbolicTrace>()?;
    m.add_class::<SymbolicProgram>()
}

/// Records a trace.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct Tracer {
    /// `None` after the trace has ended.
    recorder: Mutex<Option<Recorder>>,
}

/// A sparse matrix by rows: rows, columns, where rows start, columns of entries, nodes of entries.
type Rows<'py> = (
    usize,
    usize,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
    Bound<'py, PyAny>,
);
/// Where rows start, columns of entries (`i64`), nodes of entries.
type Found<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

fn ended() -> PyErr {
    let error = Error::new("W0802", "a symbolic value is used outside of its trace");
    raised(&error.note("it belongs to a trace that has ended"))
}

fn wrong_kind() -> PyErr {
    PyValueError::new_err("expected nodes of this trace that an operation takes")
}

fn too_large() -> PyErr {
    let error = Error::new("W0805", "the trace has too many operations");
    raised(&error.help("trace a part of the computation, and run it for all parts"))
}

fn packed<'py>(py: Python<'py>, nodes: &[Id]) -> Bound<'py, PyBytes> {
    let mut bytes = Vec::with_capacity(4 * nodes.len());
    for node in nodes {
        bytes.extend_from_slice(&node.0.to_ne_bytes());
    }
    PyBytes::new(py, &bytes)
}

fn packed_indices<'py>(py: Python<'py>, indices: &[usize]) -> Bound<'py, PyBytes> {
    let mut bytes = Vec::with_capacity(8 * indices.len());
    for index in indices {
        bytes.extend_from_slice(&(*index as i64).to_ne_bytes());
    }
    PyBytes::new(py, &bytes)
}

fn read_nodes(value: &Bound<'_, PyAny>) -> PyResult<Vec<Id>> {
    Ok(read::<u32>(value)?.into_iter().map(Id).collect())
}

fn read_indices(value: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let indices = read::<i64>(value)?.into_iter();
    let index = |n: i64| {
        let what = "the indices of a sparse matrix must not be negative";
        usize::try_from(n).map_err(|_| raised(&Error::new("W0806", what)))
    };
    indices.map(index).collect()
}

fn operation(name: &str) -> PyResult<Op> {
    let found = Op::ALL.iter().find(|op| op.name() == name);
    found
        .copied()
        .ok_or_else(|| PyValueError::new_err(format!("unknown operation `{name}`")))
}

/// Symbols of nodes that are numbers.
fn symbols(recorder: &Recorder, nodes: &[Id]) -> PyResult<Vec<Sym>> {
    let symbol = |node: &Id| recorder.symbol(*node).ok_or_else(wrong_kind);
    nodes.iter().map(symbol).collect()
}

fn matrix(recorder: &Recorder, rows: &Rows<'_>) -> PyResult<Csr<Sym>> {
    let (starts, indices) = (read_indices(&rows.2)?, read_indices(&rows.3)?);
    let values = symbols(recorder, &read_nodes(&rows.4)?)?;
    Csr::new(rows.0, rows.1, starts, indices, values).or_raise()
}

fn found<'py>(py: Python<'py>, recorder: &mut Recorder, matrix: &Csr<Sym>) -> PyResult<Found<'py>> {
    let nodes = recorder.nodes(matrix.values()).or_raise()?;
    let (starts, indices) = (matrix.starts(), matrix.indices());
    Ok((
        packed_indices(py, starts),
        packed_indices(py, indices),
        packed(py, &nodes),
    ))
}

impl Tracer {
    fn lock(&self) -> MutexGuard<'_, Option<Recorder>> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<R>(&self, work: impl FnOnce(&mut Recorder) -> PyResult<R>) -> PyResult<R> {
        let mut recorder = self.lock();
        let recorder = recorder.as_mut().ok_or_else(ended)?;
        let result = work(recorder);
        match recorder.arena() {
            Some(arena) if !arena.is_full() => result,
            _ => Err(too_large()),
        }
    }
}

#[pymethods]
impl Tracer {
    /// A trace of inputs with these numbers of elements. Their nodes are numbered from 0, input after input.
    #[new]
    fn new(lengths: Vec<usize>) -> PyResult<Tracer> {
        let recorder = Recorder::new(&lengths).or_raise()?;
        Ok(Tracer {
            recorder: Mutex::new(Some(recorder)),
        })
    }

    /// Nodes of constants.
    fn constants<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let values = read::<f64>(values)?;
        self.with(|recorder| {
            let arena = recorder.arena().ok_or_else(ended)?;
            let nodes: Vec<Id> = values.iter().map(|v| arena.constant(*v)).collect();
            Ok(packed(py, &nodes))
        })
    }

    /// The value of a constant; `None` for other nodes.
    fn value(&self, node: u32) -> PyResult<Option<f64>> {
        self.with(|recorder| {
            let symbol = recorder.symbol(Id(node));
            Ok(symbol.and_then(Sym::as_const))
        })
    }

    /// Applies an operation to arrays of nodes, element by element.
    fn apply<'py>(
        &self,
        py: Python<'py>,
        op: &str,
        operands: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let op = operation(op)?;
        let columns: Vec<Vec<Id>> = operands.iter().map(read_nodes).collect::<PyResult<_>>()?;
        let count = columns.first().map_or(0, Vec::len);
        if let Some(other) = columns.iter().find(|c| c.len() != count) {
            return Err(length_mismatch(count, other.len()));
        }
        self.with(|recorder| {
            let arena = recorder.arena().ok_or_else(ended)?;
            let mut row = Vec::with_capacity(columns.len());
            let mut nodes = Vec::with_capacity(count);
            for n in 0..count {
                row.clear();
                row.extend(columns.iter().map(|c| c[n]));
                nodes.push(arena.apply(op, &row).ok_or_else(wrong_kind)?);
            }
            Ok(packed(py, &nodes))
        })
    }

    /// Reduces each run of `length` nodes to one.
    fn reduce<'py>(
        &self,
        py: Python<'py>,
        op: &str,
        nodes: &Bound<'_, PyAny>,
        length: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let op = operation(op)?;
        let nodes = read_nodes(nodes)?;
        if length == 0 || !nodes.len().is_multiple_of(length) {
            return Err(PyValueError::new_err("the runs have different lengths"));
        }
        self.with(|recorder| {
            let arena = recorder.arena().ok_or_else(ended)?;
            let mut reduced = Vec::with_capacity(nodes.len() / length);
            for run in nodes.chunks(length) {
                let mut result = run[0];
                for term in &run[1..] {
                    result = arena.apply(op, &[result, *term]).ok_or_else(wrong_kind)?;
                }
                reduced.push(result);
            }
            Ok(packed(py, &reduced))
        })
    }

    /// Adds nodes to elements of a target, one after the other.
    fn add_at<'py>(
        &self,
        py: Python<'py>,
        target: &Bound<'_, PyAny>,
        indices: &Bound<'_, PyAny>,
        nodes: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (mut target, nodes) = (read_nodes(target)?, read_nodes(nodes)?);
        let indices = read_indices(indices)?;
        if indices.len() != nodes.len() {
            return Err(length_mismatch(indices.len(), nodes.len()));
        }
        self.with(|recorder| {
            let arena = recorder.arena().ok_or_else(ended)?;
            for (index, node) in indices.iter().zip(&nodes) {
                let Some(sum) = target.get_mut(*index) else {
                    return Err(PyValueError::new_err("an index is out of range"));
                };
                let added = arena.apply(Op::Binary(Binary::Add), &[*sum, *node]);
                *sum = added.ok_or_else(wrong_kind)?;
            }
            Ok(packed(py, &target))
        })
    }

    /// Asks that nodes are computed together.
    fn block(&self, nodes: &Bound<'_, PyAny>) -> PyResult<()> {
        let nodes = read_nodes(nodes)?;
        self.with(|recorder| {
            let symbols = symbols(recorder, &nodes)?;
            recorder
                .record(|| wuji_symbolic::block(&symbols))
                .or_raise()
        })
    }

    /// A sparse matrix from entries in any order; entries at the same position are added.
    fn assemble<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        columns: usize,
        at_rows: &Bound<'_, PyAny>,
        at_columns: &Bound<'_, PyAny>,
        nodes: &Bound<'_, PyAny>,
    ) -> PyResult<Found<'py>> {
        let (at_rows, at_columns) = (read_indices(at_rows)?, read_indices(at_columns)?);
        let nodes = read_nodes(nodes)?;
        if at_rows.len() != nodes.len() || at_columns.len() != nodes.len() {
            return Err(length_mismatch(
                nodes.len(),
                at_rows.len().min(at_columns.len()),
            ));
        }
        self.with(|recorder| {
            let symbols = symbols(recorder, &nodes)?;
            let entries = at_rows.iter().zip(&at_columns).zip(symbols);
            let entries: Vec<_> = entries.map(|((r, c), v)| (*r, *c, v)).collect();
            let built = recorder.record(|| Csr::from_triplets(rows, columns, &entries));
            let built = built.or_raise()?.or_raise()?;
            found(py, recorder, &built)
        })
    }

    /// The product of two sparse matrices.
    fn multiply<'py>(&self, py: Python<'py>, a: Rows<'_>, b: Rows<'_>) -> PyResult<Found<'py>> {
        self.with(|recorder| {
            let (a, b) = (matrix(recorder, &a)?, matrix(recorder, &b)?);
            let product = recorder.record(|| a.mul(&b)).or_raise()?.or_raise()?;
            found(py, recorder, &product)
        })
    }

    /// The sum of two sparse matrices.
    fn add<'py>(&self, py: Python<'py>, a: Rows<'_>, b: Rows<'_>) -> PyResult<Found<'py>> {
        self.with(|recorder| {
            let (a, b) = (matrix(recorder, &a)?, matrix(recorder, &b)?);
            let sum = recorder.record(|| a.add(&b)).or_raise()?.or_raise()?;
            found(py, recorder, &sum)
        })
    }

    /// The derivatives of a node by others.
    fn gradient<'py>(
        &self,
        py: Python<'py>,
        value: u32,
        variables: &Bound<'_, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let variables = read_nodes(variables)?;
        self.with(|recorder| {
            let value = recorder.symbol(Id(value)).ok_or_else(wrong_kind)?;
            let variables = symbols(recorder, &variables)?;
            let slopes = recorder.record(|| gradient(value, &variables)).or_raise()?;
            Ok(packed(py, &recorder.nodes(&slopes).or_raise()?))
        })
    }

    /// The derivatives of nodes by others, as a sparse matrix.
    fn jacobian<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'_, PyAny>,
        variables: &Bound<'_, PyAny>,
    ) -> PyResult<Found<'py>> {
        let (values, variables) = (read_nodes(values)?, read_nodes(variables)?);
        self.with(|recorder| {
            let (values, variables) = (symbols(recorder, &values)?, symbols(recorder, &variables)?);
            let slopes = recorder.record(|| jacobian(&values, &variables));
            let slopes = slopes.or_raise()?.or_raise()?;
            found(py, recorder, &slopes)
        })
    }

    /// The second derivatives of a node by others, as a sparse matrix.
    fn hessian<'py>(
        &self,
        py: Python<'py>,
        value: u32,
        variables: &Bound<'_, PyAny>,
    ) -> PyResult<Found<'py>> {
        let variables = read_nodes(variables)?;
        self.with(|recorder| {
            let value = recorder.symbol(Id(value)).ok_or_else(wrong_kind)?;
            let variables = symbols(recorder, &variables)?;
            let second = recorder.record(|| hessian(value, &variables));
            let second = second.or_raise()?.or_raise()?;
            found(py, recorder, &second)
        })
    }

    /// Replaces the negative eigenvalues of symmetric matrices of `size` rows by zero. The matrices follow each other.
    fn project_definite<'py>(
        &self,
        py: Python<'py>,
        nodes: &Bound<'_, PyAny>,
        size: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let nodes = read_nodes(nodes)?;
        let entries = size.saturating_mul(size);
        if entries == 0 || !nodes.len().is_multiple_of(entries) {
            return Err(length_mismatch(entries, nodes.len()));
        }
        self.with(|recorder| {
            let mut all = symbols(recorder, &nodes)?;
            let project = |all: &mut Vec<Sym>| {
                let mut matrices = all.chunks_mut(entries);
                matrices.try_for_each(|matrix| project_definite(size, matrix))
            };
            recorder
                .record(|| project(&mut all))
                .or_raise()?
                .or_raise()?;
            Ok(packed(py, &recorder.nodes(&all).or_raise()?))
        })
    }

    /// Ends the trace without a result. Its symbols cannot be used any more.
    fn discard(&self) {
        self.lock().take();
    }

    /// Ends the trace with these outputs.
    fn finish(&self, outputs: Vec<Bound<'_, PyAny>>) -> PyResult<SymbolicTrace> {
        let outputs: Vec<Vec<Id>> = outputs.iter().map(read_nodes).collect::<PyResult<_>>()?;
        let outputs: Vec<Vec<Sym>> = self.with(|recorder| {
            let of = |nodes: &Vec<Id>| symbols(recorder, nodes);
            outputs.iter().map(of).collect()
        })?;
        let recorder = self.lock().take().ok_or_else(ended)?;
        Ok(SymbolicTrace {
            trace: recorder.finish(&outputs).or_raise()?,
        })
    }
}

/// A recorded computation.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct SymbolicTrace {
    trace: Trace,
}

#[pymethods]
impl SymbolicTrace {
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<SymbolicTrace> {
        let trace = Trace::from_bytes(bytes).or_raise()?;
        Ok(SymbolicTrace { trace })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.trace.to_bytes())
    }

    /// Elements of inputs and outputs.
    fn lengths(&self) -> (Vec<usize>, Vec<usize>) {
        let inputs = self.trace.inputs().iter().map(|n| *n as usize);
        let outputs = self.trace.outputs().iter().map(Vec::len);
        (inputs.collect(), outputs.collect())
    }

    fn statistics(&self) -> String {
        self.trace.statistics().to_string()
    }

    fn dot(&self) -> PyResult<String> {
        self.trace.dot().or_raise()
    }

    /// Compiles it for `f32` or `f64`.
    fn compile(
        &self,
        py: Python<'_>,
        world: &World,
        dtype: &str,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<SymbolicProgram> {
        let options = read_options(options)?;
        let (world, trace) = (&world.world, &self.trace);
        let program = match dtype {
            "f32" => {
                let program = detached(py, || Program::compile(world, trace, &options))?;
                Compiled::F32(program.or_raise()?)
            }
            "f64" => {
                let program = detached(py, || Program::compile(world, trace, &options))?;
                Compiled::F64(program.or_raise()?)
            }
            other => {
                let what = format!("a traced program needs f32 or f64, not {other}");
                return Err(PyValueError::new_err(what));
            }
        };
        Ok(SymbolicProgram { program })
    }
}

fn read_options(given: &Bound<'_, PyDict>) -> PyResult<Options> {
    let mut options = Options::default();
    for (name, value) in given {
        let name: String = name.extract()?;
        match name.as_str() {
            "merge_chains" => options.merge_chains = value.extract()?,
            "global_decomposition" => options.global_decomposition = value.extract()?,
            "tagging" => options.tagging = value.extract()?,
            "detect_blocks" => options.detect_blocks = value.extract()?,
            "local_decomposition" => options.local_decomposition = value.extract()?,
            "sort_members" => options.sort_members = value.extract()?,
            "coalesce" => options.coalesce = value.extract()?,
            "min_references" => options.min_references = value.extract()?,
            "min_complexity" => options.min_complexity = value.extract()?,
            "max_complexity" => options.max_complexity = value.extract()?,
            "max_groups" => options.max_groups = value.extract()?,
            "sums" => options.simplify.sums = value.extract()?,
            "simplify" => {
                if !value.extract::<bool>()? {
                    options.simplify = Simplify::none();
                }
            }
            other => {
                let error = Error::new("W0115", format!("unknown option `{other}`"));
                return Err(raised(
                    &error.help("docs/symbolic.md lists the options of traced programs"),
                ));
            }
        }
    }
    Ok(options)
}

/// A program of either float type.
enum Compiled {
    F32(Program<f32, Vec<Vec<Sym>>>),
    F64(Program<f64, Vec<Vec<Sym>>>),
}

/// A compiled trace.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct SymbolicProgram {
    program: Compiled,
}

#[pymethods]
impl SymbolicProgram {
    /// Runs it on arrays of its type; the results are written to arrays.
    fn run(
        &self,
        py: Python<'_>,
        inputs: Vec<Bound<'_, PyAny>>,
        outputs: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        match &self.program {
            Compiled::F32(program) => run(py, program, &inputs, &outputs),
            Compiled::F64(program) => run(py, program, &inputs, &outputs),
        }
    }

    fn explain(&self) -> String {
        match &self.program {
            Compiled::F32(program) => program.explain().to_string(),
            Compiled::F64(program) => program.explain().to_string(),
        }
    }
}

fn run<T: Number + Plain + Send + Sync>(
    py: Python<'_>,
    program: &Program<T, Vec<Vec<Sym>>>,
    inputs: &[Bound<'_, PyAny>],
    outputs: &[Bound<'_, PyAny>],
) -> PyResult<()> {
    let inputs: Vec<Vec<T>> = inputs.iter().map(read).collect::<PyResult<_>>()?;
    let results = detached(py, || program.run(&inputs[..]))?.or_raise()?;
    if results.len() != outputs.len() {
        return Err(length_mismatch(results.len(), outputs.len()));
    }
    for (result, output) in results.iter().zip(outputs) {
        write(output, result)?;
    }
    Ok(())
}
