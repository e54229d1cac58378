//! Sparse matrices of faer: conversions, and inputs of programs.
//!
//! A matrix by columns is the transpose of one by rows, so both are handled as rows.

mod field;

use crate::arrays::{Inputs, Number, Shape, Symbols, Values};
use crate::sparse::{Csc, Csr};
use crate::sym::Sym;
use ::faer::sparse::{
    SparseColMat, SparseColMatRef, SparseRowMat, SparseRowMatRef, SymbolicSparseColMat,
    SymbolicSparseRowMat,
};
use std::borrow::Cow;
use wuji_ir::{Error, Result};

/// The parts of a matrix by rows. A row may have space after its entries.
struct Rows<'a, T> {
    rows: usize,
    columns: usize,
    starts: &'a [usize],
    /// Entries of each row, if there is space between rows.
    counts: Option<&'a [usize]>,
    indices: &'a [usize],
    values: &'a [T],
}

impl<'a, T: Copy> Rows<'a, T> {
    fn of_rows(matrix: SparseRowMatRef<'a, usize, T>) -> Rows<'a, T> {
        let (rows, columns, starts, counts, indices) = matrix.symbolic().parts();
        Rows {
            rows,
            columns,
            starts,
            counts,
            indices,
            values: matrix.val(),
        }
    }

    fn of_columns(matrix: SparseColMatRef<'a, usize, T>) -> Rows<'a, T> {
        Rows::of_rows(matrix.transpose())
    }

    /// A column of the matrix without the space between rows.
    fn compact<U: Copy>(&self, of: &'a [U]) -> Cow<'a, [U]> {
        let (first, last) = (self.starts.first(), self.starts.last());
        let all = first.copied().unwrap_or(0)..last.copied().unwrap_or(0);
        match self.counts {
            None => Cow::Borrowed(&of[all]),
            Some(counts) => {
                let rows = self.starts.iter().zip(counts);
                Cow::Owned(
                    rows.flat_map(|(start, n)| &of[*start..start + n])
                        .copied()
                        .collect(),
                )
            }
        }
    }

    fn starts(&self) -> Vec<usize> {
        let first = self.starts.first().copied().unwrap_or(0);
        match self.counts {
            None => self.starts.iter().map(|start| start - first).collect(),
            Some(counts) => {
                let ends = counts.iter().scan(0, |end, n| {
                    *end += n;
                    Some(*end)
                });
                std::iter::once(0).chain(ends).collect()
            }
        }
    }

    fn with<U>(&self, values: Vec<U>) -> Result<Csr<U>> {
        let indices = self.compact(self.indices).into_owned();
        Csr::new(self.rows, self.columns, self.starts(), indices, values)
    }

    fn to_csr(&self) -> Result<Csr<T>> {
        self.with(self.compact(self.values).into_owned())
    }

    fn pattern(&self) -> Result<Csr<()>> {
        let entries = self.starts().last().copied().unwrap_or(0);
        self.with(vec![(); entries])
    }
}

impl<T: Number> Rows<'_, T> {
    fn shape(&self, kind: &'static str) -> Result<Shape> {
        let pattern = self.pattern()?;
        Ok(Shape {
            kind,
            elements: pattern.indices().len(),
            fingerprint: pattern.fingerprint(),
        })
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Csr<Sym> {
        let symbols = next.take();
        // Its shape was asked first, so it is consistent.
        self.with(symbols).unwrap_or_else(|_| Csr::empty())
    }
}

impl<T: Copy> TryFrom<SparseRowMatRef<'_, usize, T>> for Csr<T> {
    type Error = Error;

    /// Columns of a row must ascend.
    fn try_from(matrix: SparseRowMatRef<'_, usize, T>) -> Result<Csr<T>> {
        Rows::of_rows(matrix).to_csr()
    }
}

impl<T: Copy> TryFrom<SparseColMatRef<'_, usize, T>> for Csc<T> {
    type Error = Error;

    /// Rows of a column must ascend.
    fn try_from(matrix: SparseColMatRef<'_, usize, T>) -> Result<Csc<T>> {
        Rows::of_columns(matrix).to_csr().map(Csc::from_rows)
    }
}

impl<T: Clone> From<&Csr<T>> for SparseRowMat<usize, T> {
    fn from(matrix: &Csr<T>) -> SparseRowMat<usize, T> {
        let (starts, indices) = (matrix.starts().to_vec(), matrix.indices().to_vec());
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let pattern = SymbolicSparseRowMat::new_checked(rows, columns, starts, None, indices);
        SparseRowMat::new(pattern, matrix.values().to_vec())
    }
}

impl<T: Clone> From<&Csc<T>> for SparseColMat<usize, T> {
    fn from(matrix: &Csc<T>) -> SparseColMat<usize, T> {
        let (starts, indices) = (matrix.starts().to_vec(), matrix.indices().to_vec());
        let (rows, columns) = (matrix.rows(), matrix.columns());
        let pattern = SymbolicSparseColMat::new_checked(rows, columns, starts, None, indices);
        SparseColMat::new(pattern, matrix.values().to_vec())
    }
}

/// The entries are inputs; the pattern is fixed.
impl<T: Number> Inputs for &SparseRowMat<usize, T> {
    type Number = T;
    type Symbols = Csr<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        shapes.push(Rows::of_rows(self.as_ref()).shape("a sparse matrix by rows")?);
        Ok(())
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Csr<Sym> {
        Rows::of_rows(self.as_ref()).symbols(next)
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Slice(
            &Rows::of_rows(self.as_ref()).compact(self.val()),
        ))
    }
}

/// The entries are inputs; the pattern is fixed.
impl<T: Number> Inputs for &SparseColMat<usize, T> {
    type Number = T;
    type Symbols = Csc<Sym>;

    fn shapes(&self, shapes: &mut Vec<Shape>) -> Result<()> {
        shapes.push(Rows::of_columns(self.as_ref()).shape("a sparse matrix by columns")?);
        Ok(())
    }

    fn symbols(&self, next: &mut Symbols<'_>) -> Csc<Sym> {
        Csc::from_rows(Rows::of_columns(self.as_ref()).symbols(next))
    }

    fn values(&self, each: &mut dyn FnMut(Values<'_, T>) -> Result<()>) -> Result<()> {
        each(Values::Slice(
            &Rows::of_columns(self.as_ref()).compact(self.val()),
        ))
    }
}
