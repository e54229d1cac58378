//! Sparse matrices and their factorizations, by faer.

use super::columns::{Analysis, Columns, Factors, Method, Number, Ordering};
use crate::files::at_caller;
use std::panic::Location;
use wuji_ir::{Error, Result};

/// A sparse matrix of `f32` or `f64`.
///
/// ```
/// use wuji::linalg::{Method, SparseMatrix};
/// # fn main() -> wuji::Result<()> {
/// let a = SparseMatrix::from_triplets(2, 2, &[(0, 0, 4.0), (1, 1, 2.0), (0, 1, 1.0), (1, 0, 1.0)])?;
/// let x = a.factorize(Method::Llt)?.solve(&[9.0, 4.0])?;
/// assert!((x[0] - 2.0f64).abs() < 1e-12 && (x[1] - 1.0).abs() < 1e-12);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SparseMatrix<T> {
    columns: Columns<T>,
}

impl<T: Number> SparseMatrix<T> {
    /// A matrix with entries (row, column, value), in any order; those at the same position are added up.
    #[track_caller]
    pub fn from_triplets(
        rows: usize,
        columns: usize,
        entries: &[(usize, usize, T)],
    ) -> Result<SparseMatrix<T>> {
        let outside = entries.iter().find(|(r, c, _)| *r >= rows || *c >= columns);
        if let Some((r, c, _)) = outside {
            let shown = |k: usize| {
                if k == usize::MAX {
                    "a negative number".to_owned()
                } else {
                    k.to_string()
                }
            };
            let what = format!(
                "a matrix of {rows} x {columns} has no entry at row {}, column {}",
                shown(*r),
                shown(*c)
            );
            return at_caller(Err(Error::new("W0141", what)), Location::caller());
        }
        let columns = Columns::from_triplets(rows, columns, entries.len(), |k| entries[k]);
        Ok(SparseMatrix { columns })
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns.columns
    }

    /// The number of stored entries.
    pub fn stored(&self) -> usize {
        self.columns.values.len()
    }

    /// One entry; zero where none is stored, and outside.
    pub fn get(&self, row: usize, column: usize) -> T {
        if row < self.rows() && column < self.columns() {
            self.columns.get(row, column)
        } else {
            T::default()
        }
    }

    /// All stored entries: row, column and value, column by column.
    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        self.columns.triplets()
    }

    /// Rows as columns.
    pub fn transposed(&self) -> SparseMatrix<T> {
        SparseMatrix {
            columns: self.columns.transposed(),
        }
    }

    /// All entries times a number.
    pub fn scaled(&self, factor: T) -> SparseMatrix<T> {
        SparseMatrix {
            columns: self.columns.scaled(factor),
        }
    }

    /// The sum of two matrices.
    #[track_caller]
    pub fn plus(&self, other: &SparseMatrix<T>) -> Result<SparseMatrix<T>> {
        let fits = (self.rows(), self.columns()) == (other.rows(), other.columns());
        at_caller(self.check(fits, "add", other), Location::caller())?;
        Ok(SparseMatrix {
            columns: self.columns.plus(&other.columns, T::narrow(1.0)),
        })
    }

    /// The product of two matrices.
    #[track_caller]
    pub fn product(&self, other: &SparseMatrix<T>) -> Result<SparseMatrix<T>> {
        let fits = self.columns() == other.rows();
        at_caller(self.check(fits, "multiply", other), Location::caller())?;
        let columns = self.columns.product(&other.columns, || Ok::<(), Error>(()));
        Ok(SparseMatrix { columns: columns? })
    }

    fn check(&self, fits: bool, what: &str, other: &SparseMatrix<T>) -> Result<()> {
        if fits {
            return Ok(());
        }
        let (a, b) = (
            (self.rows(), self.columns()),
            (other.rows(), other.columns()),
        );
        let what = format!(
            "cannot {what} matrices of {} x {} and {} x {}",
            a.0, a.1, b.0, b.1
        );
        Err(Error::new("W0141", what))
    }

    /// The product with a vector.
    #[track_caller]
    pub fn multiply(&self, x: &[T]) -> Result<Vec<T>> {
        let caller = Location::caller();
        at_caller(fits("a vector", x.len(), self.columns()), caller)?;
        let mut y = vec![T::default(); self.rows()];
        self.columns.apply(x, &mut y);
        Ok(y)
    }

    /// A factorization, which solves systems with this matrix. Rows and columns are reordered to reduce fill-in.
    #[track_caller]
    pub fn factorize(&self, method: Method) -> Result<Factorization<T>> {
        at_caller(Factorization::new(method, self), Location::caller())
    }
}

/// An error unless a vector has the right length.
fn fits(what: &str, found: usize, wanted: usize) -> Result<()> {
    if found == wanted {
        return Ok(());
    }
    let what = format!("{what} of {found} numbers does not fit a matrix, which needs {wanted}");
    Err(Error::new("W0141", what))
}

/// A factorized matrix; [`SparseMatrix::factorize`] makes one.
#[derive(Debug)]
pub struct Factorization<T> {
    method: Method,
    analysis: Analysis,
    factors: Factors<T>,
}

impl<T: Number> Factorization<T> {
    fn new(method: Method, matrix: &SparseMatrix<T>) -> Result<Factorization<T>> {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        if rows != columns {
            let what = format!("cannot factorize a matrix of {rows} x {columns}");
            return Err(Error::new("W0141", what).help("it has to be square"));
        }
        check_symmetric(method, matrix)?;
        let ordering = match method {
            Method::Llt | Method::Ldlt => Ordering::Amd,
            Method::Lu => Ordering::Colamd,
        };
        let analysis = Analysis::new(method, ordering, &matrix.columns);
        let analysis =
            analysis.ok_or_else(|| Error::new("W0110", "no memory to factorize a matrix"))?;
        let factors = factors(method, &analysis, matrix)?;
        Ok(Factorization {
            method,
            analysis,
            factors,
        })
    }

    /// Factorizes another matrix. If it has the pattern of the first one, the analysis of the pattern is reused.
    #[track_caller]
    pub fn update(&mut self, matrix: &SparseMatrix<T>) -> Result<()> {
        let caller = Location::caller();
        if !self.analysis.fits(&matrix.columns) {
            *self = at_caller(Factorization::new(self.method, matrix), caller)?;
            return Ok(());
        }
        let made = check_symmetric(self.method, matrix)
            .and_then(|()| factors(self.method, &self.analysis, matrix));
        self.factors = at_caller(made, caller)?;
        Ok(())
    }

    /// The `x` for which the matrix times `x` is `b`.
    #[track_caller]
    pub fn solve(&self, b: &[T]) -> Result<Vec<T>> {
        let caller = Location::caller();
        at_caller(
            fits("a right-hand side", b.len(), self.analysis.rows()),
            caller,
        )?;
        let mut x = b.to_vec();
        self.factors.solve(&self.analysis, &mut x);
        Ok(x)
    }
}

/// Symmetric methods read one triangle only: of another matrix, they would solve another system.
fn check_symmetric<T: Number>(method: Method, matrix: &SparseMatrix<T>) -> Result<()> {
    let differs = |(r, c, value): &(usize, usize, T)| {
        let other = matrix.get(*c, *r).wide();
        (value.wide() - other).abs() > 1e-5 * value.wide().abs().max(other.abs())
    };
    let symmetric = method == Method::Lu || !matrix.triplets().any(|entry| differs(&entry));
    if symmetric {
        return Ok(());
    }
    Err(failed(method).note("the matrix is not symmetric"))
}

fn factors<T: Number>(
    method: Method,
    analysis: &Analysis,
    matrix: &SparseMatrix<T>,
) -> Result<Factors<T>> {
    Factors::new(method, analysis, &matrix.columns).ok_or_else(|| {
        failed(method).note(match method {
            Method::Llt => "the matrix is not positive definite",
            Method::Ldlt | Method::Lu => "the matrix is singular",
        })
    })
}

#[cold]
fn failed(method: Method) -> Error {
    let what = match method {
        Method::Llt => "the matrix has no LLT factorization",
        Method::Ldlt => "the matrix has no LDLT factorization",
        Method::Lu => "the matrix has no LU factorization",
    };
    let error = Error::new("W0142", what);
    match method {
        Method::Llt | Method::Ldlt => error.help("`Method::Lu` factorizes every invertible matrix"),
        Method::Lu => error.help("remove rows that depend on others"),
    }
}
