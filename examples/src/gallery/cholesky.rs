//! Sparse linear systems with one pattern and many values, for the examples with traced programs.

use faer::linalg::solvers::SolveCore;
use faer::sparse::linalg::solvers::{Llt, SymbolicLlt};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::{Conj, MatMut, Side};
use wuji_symbolic::Csr;

/// The order of elimination of symmetric positive definite matrices with one pattern.
#[derive(Debug)]
pub struct Cholesky(SymbolicLlt<usize>);

/// The factors of one matrix.
#[derive(Debug)]
pub struct Factors(Llt<usize, f64>);

fn failed(what: &str) -> wuji::Error {
    wuji::Error::new("W0806", what)
}

/// The matrix is symmetric, so its rows are its columns.
fn columns(a: &Csr<f64>) -> SparseColMatRef<'_, usize, f64> {
    let (rows, columns) = (a.rows(), a.columns());
    let pattern =
        SymbolicSparseColMatRef::new_checked(rows, columns, a.starts(), None, a.indices());
    SparseColMatRef::new(pattern, a.values())
}

impl Cholesky {
    /// The factorization for the pattern of a matrix.
    pub fn new(a: &Csr<f64>) -> wuji::Result<Cholesky> {
        let found = SymbolicLlt::try_new(columns(a).symbolic(), Side::Lower);
        found
            .map(Cholesky)
            .map_err(|_| failed("there is no memory for the factors of a matrix"))
    }

    /// Factors a matrix with that pattern.
    pub fn factor(&self, a: &Csr<f64>) -> wuji::Result<Factors> {
        Llt::try_new_with_symbolic(self.0.clone(), columns(a), Side::Lower)
            .map(Factors)
            .map_err(|_| failed("the matrix is not positive definite"))
    }
}

impl Factors {
    /// Solves for columns of numbers, one after the other.
    pub fn solve(&self, b: &mut [f64], count: usize) {
        let rows = b.len() / count;
        let b = MatMut::from_column_major_slice_mut(b, rows, count);
        self.0.solve_in_place_with_conj(Conj::No, b);
    }
}
