//! Sparse matrices of sprs: conversions, inputs and outputs of programs. Products of sprs trace unchanged.

use crate::arrays::{Inputs, Number, Outputs, Shape, Symbols, Values};
use crate::real::Real;
use crate::sparse::{Csc, Csr};
use crate::sym::Sym;
use ::sprs::CsMat;
use wuji_ir::{Error, Result};

/// The rows of a matrix, or of its transpose if it is stored by columns.
fn stored_rows<T, U>(matrix: &CsMat<T>, values: Vec<U>) -> Result<Csr<U>> {
    let (rows, columns) = if matrix.is_csr() {
        matrix.shape()
    } else {
        (matrix.cols(), matrix.rows())
    };
    let (starts, indices) = (
        matrix.proper_indptr().into_owned(),
        matrix.indices().to_vec(),
    );
    Csr::new(rows, columns, starts, indices, values)
}

/// Entries that are stored by columns are sorted.
impl<T: Real> TryFrom<&CsMat<T>> for Csr<T> {
    type Error = Error;

    fn try_from(matrix: &CsMat<T>) -> Result<Csr<T>> {
        let stored = stored_rows(matrix, matrix.data().to_vec())?;
        if matrix.is_csr() {
            return Ok(stored);
        }
        Ok(stored.transpose())
    }
}

/// Entries that are stored by rows are sorted.
impl<T: Real> TryFrom<&CsMat<T>> for Csc<T> {
    type Error = Error;

    fn try_from(matrix: &CsMat<T>) -> Result<Csc<T>> {
        let stored = stored_rows(matrix, matrix.data().to_vec())?;
        if matrix.is_csr() {
            return Ok(stored.to_csc());
        }
        Ok(Csc::from_rows(stored))
    }
}

impl<T: Clone> From<&Csr<T>> for CsMat<T> {
    fn from(matrix: &Csr<T>) -> CsMat<T> {
        let (starts, indices) = (matrix.starts().to_vec(), matrix.indices().to_vec());
        let shape = (matrix.rows(), matrix.columns());
        CsMat::new(shape, starts, indices, matrix.values().to_vec())
    }
}

impl<T: Clone> From<&Csc<T>> for CsMat<T> {
    fn from(matrix: &Csc<T>) -> CsMat<T> {
        let (starts, indices) = (matrix.starts().to_vec(), matrix.indices().to_vec());
        let shape = (matrix.rows(), matrix.columns());
        CsMat::new_csc(shape, starts, indices, matrix.values().to_vec())
    }
}

/// The entries are inputs; the pattern is fixed.
impl<T: Number> Inputs for &CsMat<T> {
    type Number = T;
    type Symbols = CsMat<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        let pattern = stored_rows(self, vec![(); self.nnz()])?;
        let kind = if self.is_csr() {
            "a sparse matrix by rows"
        } else {
            "a sparse matrix by columns"
        };
        shapes.push(Shape {
            kind,
            elements: self.nnz(),
            fingerprint: pattern.fingerprint(),
        });
        Ok(())
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> CsMat<Sym> {
        let mut symbols = next.take().into_iter();
        self.map(|_| symbols.next().unwrap_or_default())
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Slice(self.data()))
    }
}

/// The pattern comes from the trace.
impl Outputs for CsMat<Sym> {
    type Shape = CsMat<()>;
    type Numbers<T: Number> = CsMat<T>;

    fn split(self, to: &mut Vec<Vec<Sym>>) -> CsMat<()> {
        let pattern = self.map(|_| ());
        to.push(self.into_raw_storage().2);
        pattern
    }

    fn join<T: Number>(pattern: &CsMat<()>, next: &mut dyn FnMut() -> Vec<T>) -> CsMat<T> {
        let mut values = next().into_iter();
        pattern.map(|_| values.next().unwrap_or_else(<T as Real>::zero))
    }
}
