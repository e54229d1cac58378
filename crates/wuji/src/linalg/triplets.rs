//! Entries of a matrix that kernels collect.

use super::columns::Number;
use super::sparse::SparseMatrix;
use crate::files::at_caller;
use crate::lang::Float;
use crate::nd_array::NdArray;
use crate::world::World;
use std::panic::Location;
use wuji_ir::{Error, Result};
use wuji_macros::{Fields, kernel};

/// Entries of a sparse matrix, which kernels add in any order. It is a [bundle](crate::bundle).
///
/// ```
/// use wuji::linalg::{Method, Triplets};
/// use wuji::prelude::*;
///
/// #[kernel]
/// fn laplace(a: &Triplets<f64>, n: i32) {
///     for i in 0..n {
///         a.add(i, i, 2.0);
///         if i > 0 {
///             a.add(i, i - 1, -1.0);
///             a.add(i - 1, i, -1.0);
///         }
///     }
/// }
///
/// # fn main() -> wuji::Result<()> {
/// let world = World::cpu()?;
/// let triplets = Triplets::new(&world, 300)?;
/// laplace(&triplets, 100)?;
/// let matrix = triplets.build(100, 100)?;
/// let solver = matrix.factorize(Method::Llt)?;
/// let x = solver.solve(&[1.0; 100])?;
/// assert!((x[0] - 50.0).abs() < 1e-9);
/// # Ok(())
/// # }
/// ```
#[derive(Fields, Clone, Debug)]
pub struct Triplets<T: Float> {
    rows: NdArray<i32, 1>,
    columns: NdArray<i32, 1>,
    values: NdArray<T, 1>,
    /// How many were added, also if there was no space for them.
    count: NdArray<i32, 1>,
    capacity: i32,
}

#[kernel]
impl<T: Float> Triplets<T> {
    /// Adds an entry. Entries at the same position are added up.
    #[func]
    pub fn add(&self, row: i32, column: i32, value: T) {
        let k = self.count.at([0]).fetch_add(1);
        if k >= 0 && k < self.capacity {
            self.rows[k] = row;
            self.columns[k] = column;
            self.values[k] = value;
        }
    }
}

impl<T: Float + Number> Triplets<T> {
    /// Space for so many entries.
    #[track_caller]
    pub fn new(world: &World, capacity: u64) -> Result<Triplets<T>> {
        let most = i32::try_from(capacity).map_err(|_| {
            let what = format!("{capacity} entries of a matrix are more than {}", i32::MAX);
            Error::new("W0141", what)
        });
        let made = most.and_then(|most| {
            Ok(Triplets {
                rows: world.nd_array("rows", capacity)?,
                columns: world.nd_array("columns", capacity)?,
                values: world.nd_array("values", capacity)?,
                count: world.nd_array("count", 1)?,
                capacity: most,
            })
        });
        at_caller(made, Location::caller())
    }

    /// Removes all entries.
    #[track_caller]
    pub fn clear(&self) -> Result<()> {
        self.count.fill(0)
    }

    /// The number of entries.
    #[track_caller]
    pub fn len(&self) -> Result<usize> {
        let count = self.count.get(0)?;
        usize::try_from(count)
            .ok()
            .filter(|_| count <= self.capacity)
            .ok_or_else(|| {
                let (most, added) = (self.capacity, i64::from(count as u32));
                let what =
                    format!("kernels added {added} entries to triplets with space for {most}");
                Error::new("W0141", what)
                    .help("make space for all of them: `Triplets::new(&world, capacity)`")
            })
    }

    /// Whether there are no entries.
    #[track_caller]
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// The matrix of the entries.
    #[track_caller]
    pub fn build(&self, rows: usize, columns: usize) -> Result<SparseMatrix<T>> {
        at_caller(self.collect(rows, columns), Location::caller())
    }

    fn collect(&self, rows: usize, columns: usize) -> Result<SparseMatrix<T>> {
        let count = self.len()?;
        let (at_rows, at_columns) = (self.rows.to_vec()?, self.columns.to_vec()?);
        let values = self.values.to_vec()?;
        // A negative index is out of range as any other.
        let index = |k: i32| usize::try_from(k).unwrap_or(usize::MAX);
        let entries = (0..count).map(|k| (index(at_rows[k]), index(at_columns[k]), values[k]));
        SparseMatrix::from_triplets(rows, columns, &entries.collect::<Vec<_>>())
    }
}
