//! Sparse matrices and solvers for Python.

use crate::error::OrRaise;
use crate::numbers::{Plain, length_mismatch, read, write};
use crate::waiting::detached;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wuji::dynamic::{check_interrupt, compute_aside};
use wuji::linalg::columns::{Analysis, Columns, Factors, Method, Number, Ordering};

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<SparseMatrix>()?;
    m.add_class::<SparseSolver>()
}

/// A matrix of either float type.
enum Data {
    F32(Columns<f32>),
    F64(Columns<f64>),
}

/// Expands to the same code for both float types.
macro_rules! each {
    ($data:expr, $columns:ident => $result:expr) => {
        match $data {
            Data::F32($columns) => $result,
            Data::F64($columns) => $result,
        }
    };
}

/// A sparse matrix of floats.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct SparseMatrix {
    data: Mutex<Data>,
}

/// Ignores poisoning: code under the lock does not panic, and the matrix would stay valid if it did.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<Data> for SparseMatrix {
    fn from(data: Data) -> SparseMatrix {
        SparseMatrix {
            data: Mutex::new(data),
        }
    }
}

#[pymethods]
impl SparseMatrix {
    #[new]
    fn new(
        py: Python<'_>,
        dtype: &str,
        rows: usize,
        columns: usize,
        at_rows: &Bound<'_, PyAny>,
        at_columns: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<SparseMatrix> {
        let at_rows = read::<i32>(at_rows)?;
        let at_columns = read::<i32>(at_columns)?;
        let data = match dtype {
            "f32" => {
                let values = read::<f32>(values)?;
                Data::F32(crate::exit::detach(py, || {
                    from_triplets(rows, columns, &at_rows, &at_columns, &values)
                })?)
            }
            "f64" => {
                let values = read::<f64>(values)?;
                Data::F64(crate::exit::detach(py, || {
                    from_triplets(rows, columns, &at_rows, &at_columns, &values)
                })?)
            }
            _ => {
                return Err(PyValueError::new_err(format!(
                    "a sparse matrix needs f32 or f64, not {dtype}"
                )));
            }
        };
        Ok(data.into())
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        match &*locked(&self.data) {
            Data::F32(_) => "f32",
            Data::F64(_) => "f64",
        }
    }

    #[getter]
    fn rows(&self) -> usize {
        each!(&*locked(&self.data), m => m.rows)
    }

    #[getter]
    fn columns(&self) -> usize {
        each!(&*locked(&self.data), m => m.columns)
    }

    /// Number of stored entries.
    #[getter]
    fn stored(&self) -> usize {
        each!(&*locked(&self.data), m => m.values.len())
    }

    fn get(&self, row: usize, column: usize) -> PyResult<f64> {
        let data = locked(&self.data);
        each!(&*data, m => within(m.rows, m.columns, row, column))?;
        Ok(match &*data {
            Data::F32(m) => f64::from(m.get(row, column)),
            Data::F64(m) => m.get(row, column),
        })
    }

    fn set(&self, row: usize, column: usize, value: f64) -> PyResult<()> {
        let mut data = locked(&self.data);
        each!(&*data, m => within(m.rows, m.columns, row, column))?;
        match &mut *data {
            Data::F32(m) => m.set(row, column, value as f32),
            Data::F64(m) => m.set(row, column, value),
        }
        Ok(())
    }

    fn scaled(&self, py: Python<'_>, factor: f64) -> SparseMatrix {
        crate::exit::detach(py, || match &*locked(&self.data) {
            Data::F32(m) => Data::F32(m.scaled(factor as f32)),
            Data::F64(m) => Data::F64(m.scaled(factor)),
        })
        .into()
    }

    fn transposed(&self, py: Python<'_>) -> SparseMatrix {
        crate::exit::detach(py, || match &*locked(&self.data) {
            Data::F32(m) => Data::F32(m.transposed()),
            Data::F64(m) => Data::F64(m.transposed()),
        })
        .into()
    }

    /// `self + factor * other`.
    fn plus(&self, py: Python<'_>, other: &SparseMatrix, factor: f64) -> PyResult<SparseMatrix> {
        self.with(
            py,
            other,
            |a, b| Ok(a.plus(b, factor as f32)),
            |a, b| Ok(a.plus(b, factor)),
            same_shape,
        )
    }

    /// The element-wise product.
    fn times(&self, py: Python<'_>, other: &SparseMatrix) -> PyResult<SparseMatrix> {
        self.with(
            py,
            other,
            |a, b| Ok(a.times(b)),
            |a, b| Ok(a.times(b)),
            same_shape,
        )
    }

    /// The matrix product.
    fn product(&self, py: Python<'_>, other: &SparseMatrix) -> PyResult<SparseMatrix> {
        self.with(
            py,
            other,
            |a, b| a.product(b, check_interrupt),
            |a, b| a.product(b, check_interrupt),
            |(_, inner), (rows, _)| inner == rows,
        )
    }

    /// `y = self x`.
    fn apply(&self, py: Python<'_>, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>) -> PyResult<()> {
        fn run<T: Element>(
            py: Python<'_>,
            matrix: &Mutex<Data>,
            x: &Bound<'_, PyAny>,
            y: &Bound<'_, PyAny>,
        ) -> PyResult<()> {
            let x = read::<T>(x)?;
            // Other threads may run while the lock is held, but this does not wait for them.
            let found = crate::exit::detach(py, || {
                let data = locked(matrix);
                let matrix = T::of(&data)?;
                if x.len() != matrix.columns {
                    return Err(length_mismatch(matrix.columns, x.len()));
                }
                let mut found = vec![T::default(); matrix.rows];
                matrix.apply(&x, &mut found);
                Ok(found)
            });
            write(y, &found?)
        }
        match self.dtype() {
            "f32" => run::<f32>(py, &self.data, x, y),
            _ => run::<f64>(py, &self.data, x, y),
        }
    }

    /// Solves `self x = b` by conjugate gradients, starting at `x`. Returns the number of iterations, and whether it converged.
    fn conjugate(
        &self,
        py: Python<'_>,
        b: &Bound<'_, PyAny>,
        x: &Bound<'_, PyAny>,
        tolerance: f64,
        max_steps: usize,
    ) -> PyResult<(usize, bool)> {
        fn run<T: Element>(
            py: Python<'_>,
            data: &Data,
            b: &Bound<'_, PyAny>,
            x: &Bound<'_, PyAny>,
            until: (f64, usize),
        ) -> PyResult<(usize, bool)> {
            let b = read::<T>(b)?;
            let mut found = read::<T>(x)?;
            let matrix = T::of(data)?;
            let rows = matrix.rows;
            if matrix.columns != rows || b.len() != rows || found.len() != rows {
                return Err(length_mismatch(rows, b.len().min(found.len())));
            }
            let solve = || matrix.conjugate(&b, &mut found, until, check_interrupt);
            let outcome = detached(py, solve)?.or_raise()?;
            write(x, &found)?;
            Ok(outcome)
        }
        // Copied, so that the handler of a signal may use the matrix.
        let (data, until) = (self.copy(), (tolerance, max_steps));
        match &data {
            Data::F32(_) => run::<f32>(py, &data, b, x, until),
            Data::F64(_) => run::<f64>(py, &data, b, x, until),
        }
    }

    /// Writes rows, columns and values of all stored entries to arrays of that length.
    fn triplets(
        &self,
        at_rows: &Bound<'_, PyAny>,
        at_columns: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let data = self.copy();
        let positions: Vec<(i32, i32)> = each!(&data, m => {
            m.triplets().map(|(r, c, _)| (r as i32, c as i32)).collect()
        });
        write(at_rows, &positions.iter().map(|p| p.0).collect::<Vec<_>>())?;
        write(
            at_columns,
            &positions.iter().map(|p| p.1).collect::<Vec<_>>(),
        )?;
        each!(&data, m => write(values, &m.values))
    }
}

fn same_shape(a: (usize, usize), b: (usize, usize)) -> bool {
    a == b
}

impl SparseMatrix {
    fn copy(&self) -> Data {
        match &*locked(&self.data) {
            Data::F32(m) => Data::F32(m.clone()),
            Data::F64(m) => Data::F64(m.clone()),
        }
    }

    /// Applies an operation to two matrices of the same type with compatible shapes.
    fn with(
        &self,
        py: Python<'_>,
        other: &SparseMatrix,
        narrow: impl Fn(&Columns<f32>, &Columns<f32>) -> wuji::Result<Columns<f32>> + Send + Sync,
        wide: impl Fn(&Columns<f64>, &Columns<f64>) -> wuji::Result<Columns<f64>> + Send + Sync,
        fits: impl Fn((usize, usize), (usize, usize)) -> bool,
    ) -> PyResult<SparseMatrix> {
        // Copied, so that both operands may be the same matrix.
        let (a, b) = (self.copy(), other.copy());
        let shape = |data: &Data| each!(data, m => (m.rows, m.columns));
        if !fits(shape(&a), shape(&b)) {
            let what = format!("shape mismatch: {:?} and {:?}", shape(&a), shape(&b));
            return Err(PyValueError::new_err(what));
        }
        let data = match (&a, &b) {
            (Data::F32(a), Data::F32(b)) => Data::F32(detached(py, || narrow(a, b))?.or_raise()?),
            (Data::F64(a), Data::F64(b)) => Data::F64(detached(py, || wide(a, b))?.or_raise()?),
            (Data::F32(_), Data::F64(_)) | (Data::F64(_), Data::F32(_)) => {
                return Err(PyValueError::new_err("dtype mismatch"));
            }
        };
        Ok(data.into())
    }
}

/// A factorization, to solve linear systems.
#[pyclass(frozen, module = "wuji._native")]
pub(crate) struct SparseSolver {
    method: Method,
    ordering: Ordering,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    analysis: Option<Arc<Analysis>>,
    factors: Option<Arc<Solved>>,
}

enum Solved {
    F32(Factors<f32>),
    F64(Factors<f64>),
}

impl Solved {
    /// Factorizes a matrix with the analyzed pattern; `None` if the factorization does not exist.
    fn new(method: Method, analysis: &Analysis, data: &Data) -> Option<Solved> {
        match data {
            Data::F32(m) => Factors::new(method, analysis, m).map(Solved::F32),
            Data::F64(m) => Factors::new(method, analysis, m).map(Solved::F64),
        }
    }
}

/// Matrices with fewer entries are factorized at once.
const FEW_ENTRIES: usize = 2000;

/// Computes something about a matrix, so that a signal ends the call: a factorization itself cannot be interrupted.
fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    entries: usize,
    work: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    if entries < FEW_ENTRIES {
        return Ok(crate::exit::detach(py, work));
    }
    detached(py, || compute_aside(move || Ok(work())))?.or_raise()
}

#[pymethods]
impl SparseSolver {
    #[new]
    fn new(method: &str, ordering: &str) -> PyResult<SparseSolver> {
        let method = match method {
            "LLT" => Method::Llt,
            "LDLT" => Method::Ldlt,
            "LU" => Method::Lu,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "unknown solver type {method}"
                )));
            }
        };
        let ordering = match ordering {
            "AMD" => Ordering::Amd,
            "COLAMD" => Ordering::Colamd,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "unknown ordering {ordering}"
                )));
            }
        };
        Ok(SparseSolver {
            method,
            ordering,
            state: Mutex::default(),
        })
    }

    /// Analyzes the sparsity pattern of a square matrix.
    fn analyze(&self, py: Python<'_>, matrix: &SparseMatrix) -> PyResult<bool> {
        self.analyzed(py, &Arc::new(matrix.copy()))
    }

    /// Factorizes a matrix; returns whether that succeeded. Analyzes its pattern if necessary.
    fn factorize(&self, py: Python<'_>, matrix: &SparseMatrix) -> PyResult<bool> {
        let data = Arc::new(matrix.copy());
        let known = locked(&self.state).analysis.clone();
        let fits = known.is_some_and(|a| each!(&*data, m => a.fits(m)));
        if !fits && !self.analyzed(py, &data)? {
            return Ok(false);
        }
        let (analysis, method) = (locked(&self.state).analysis.clone(), self.method);
        let Some(analysis) = analysis.filter(|a| each!(&*data, m => a.fits(m))) else {
            // Another thread has analyzed another matrix.
            return Ok(false);
        };
        let entries = each!(&*data, m => m.values.len());
        let with = analysis.clone();
        let factors = interruptible(py, entries, move || Solved::new(method, &with, &data))?;
        let mut state = locked(&self.state);
        (state.analysis, state.factors) = (Some(analysis), factors.map(Arc::new));
        Ok(state.factors.is_some())
    }

    /// Solves for the right-hand side `b`.
    fn solve(&self, py: Python<'_>, b: &Bound<'_, PyAny>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let state = locked(&self.state);
        let (Some(analysis), Some(factors)) = (state.analysis.clone(), state.factors.clone())
        else {
            return Err(PyValueError::new_err("the matrix is not factorized"));
        };
        drop(state);
        let entries = analysis.entries();
        match &*factors {
            Solved::F32(_) => {
                let mut numbers = read::<f32>(b)?;
                check_length(&analysis, numbers.len())?;
                let solve = move || {
                    if let Solved::F32(factors) = &*factors {
                        factors.solve(&analysis, &mut numbers);
                    }
                    numbers
                };
                write(x, &interruptible(py, entries, solve)?)
            }
            Solved::F64(_) => {
                let mut numbers = read::<f64>(b)?;
                check_length(&analysis, numbers.len())?;
                let solve = move || {
                    if let Solved::F64(factors) = &*factors {
                        factors.solve(&analysis, &mut numbers);
                    }
                    numbers
                };
                write(x, &interruptible(py, entries, solve)?)
            }
        }
    }
}

fn check_length(analysis: &Analysis, found: usize) -> PyResult<()> {
    if analysis.rows() == found {
        Ok(())
    } else {
        Err(length_mismatch(analysis.rows(), found))
    }
}

impl SparseSolver {
    fn analyzed(&self, py: Python<'_>, data: &Arc<Data>) -> PyResult<bool> {
        let (rows, columns) = each!(&**data, m => (m.rows, m.columns));
        if rows != columns {
            let what = format!("the solver needs a square matrix, not shape ({rows}, {columns})");
            return Err(PyValueError::new_err(what));
        }
        let (method, ordering, data) = (self.method, self.ordering, data.clone());
        let entries = each!(&*data, m => m.values.len());
        let analysis = interruptible(
            py,
            entries,
            move || each!(&*data, m => Analysis::new(method, ordering, m)),
        )?;
        let mut state = locked(&self.state);
        state.factors = None;
        state.analysis = analysis.map(Arc::new);
        Ok(state.analysis.is_some())
    }
}

/// Builds a matrix from entries in any order.
fn from_triplets<T: Number>(
    rows: usize,
    columns: usize,
    at_rows: &[i32],
    at_columns: &[i32],
    values: &[T],
) -> PyResult<Columns<T>> {
    if at_rows.len() != values.len() || at_columns.len() != values.len() {
        return Err(length_mismatch(
            values.len(),
            at_rows.len().min(at_columns.len()),
        ));
    }
    for (row, column) in at_rows.iter().zip(at_columns) {
        let inside = |k: i32, extent| usize::try_from(k).is_ok_and(|k| k < extent);
        if !inside(*row, rows) || !inside(*column, columns) {
            let what = format!(
                "index ({row}, {column}) is out of range for a matrix of shape ({rows}, {columns})"
            );
            return Err(PyIndexError::new_err(what));
        }
    }
    // The casts are lossless: the indices were checked.
    let triplet = |k: usize| (at_rows[k] as usize, at_columns[k] as usize, values[k]);
    Ok(Columns::from_triplets(rows, columns, values.len(), triplet))
}

fn within(rows: usize, columns: usize, row: usize, column: usize) -> PyResult<()> {
    if row < rows && column < columns {
        return Ok(());
    }
    let what = format!(
        "index ({row}, {column}) is out of range for a matrix of shape ({rows}, {columns})"
    );
    Err(PyIndexError::new_err(what))
}

trait Element: Plain + Number {
    /// The matrix, if it has this type.
    fn of(data: &Data) -> PyResult<&Columns<Self>>;
}

impl Element for f32 {
    fn of(data: &Data) -> PyResult<&Columns<f32>> {
        match data {
            Data::F32(m) => Ok(m),
            Data::F64(_) => Err(PyValueError::new_err("expected a matrix of f32, got f64")),
        }
    }
}

impl Element for f64 {
    fn of(data: &Data) -> PyResult<&Columns<f64>> {
        match data {
            Data::F64(m) => Ok(m),
            Data::F32(_) => Err(PyValueError::new_err("expected a matrix of f64, got f32")),
        }
    }
}
