//! Sparse matrices of any scalar, by rows or by columns.

use crate::hash::mix;
use crate::real::Real;
use wuji_ir::{Error, Result};

/// A sparse matrix by rows. Columns of a row ascend.
///
/// ```
/// use wuji_symbolic::Csr;
/// # fn main() -> wuji::Result<()> {
/// let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 1, 3.0), (0, 1, 1.0)])?;
/// assert_eq!(a.values(), [1.0, 3.0, 3.0]);
/// assert_eq!(a.mul(&a)?.values(), [1.0, 12.0, 9.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Csr<T> {
    rows: usize,
    columns: usize,
    starts: Vec<usize>,
    indices: Vec<usize>,
    values: Vec<T>,
}

/// A sparse matrix by columns: the rows of its transpose.
#[derive(Clone, PartialEq, Debug)]
pub struct Csc<T>(Csr<T>);

fn inconsistent(what: impl Into<String>) -> Error {
    Error::new("W0806", what)
}

impl<T> Csr<T> {
    /// A matrix from its parts: where each row starts, and the end; the column of each entry; the entries.
    pub fn new(
        rows: usize,
        columns: usize,
        starts: Vec<usize>,
        indices: Vec<usize>,
        values: Vec<T>,
    ) -> Result<Csr<T>> {
        let (n, m) = (indices.len(), values.len());
        if n != m {
            return Err(inconsistent(format!(
                "a sparse matrix has {n} positions and {m} values"
            )));
        }
        let ascend = starts.first() == Some(&0) && starts.is_sorted() && starts.last() == Some(&n);
        if starts.len() != rows.saturating_add(1) || !ascend {
            let what = format!(
                "the rows of a sparse matrix do not start at ascending positions from 0 to {n}"
            );
            return Err(inconsistent(what));
        }
        for row in starts.windows(2) {
            let row = &indices[row[0]..row[1]];
            if row.windows(2).any(|w| w[0] >= w[1]) || row.last().is_some_and(|c| *c >= columns) {
                let what = format!("the columns of a row do not ascend, or exceed {columns}");
                return Err(inconsistent(what).help("use `from_triplets` for entries in any order"));
            }
        }
        Ok(Csr {
            rows,
            columns,
            starts,
            indices,
            values,
        })
    }

    /// A matrix without rows and columns.
    #[cfg(feature = "faer")]
    pub(crate) fn empty() -> Csr<T> {
        Csr {
            rows: 0,
            columns: 0,
            starts: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Where each row starts among the entries, and the end.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The column of each entry.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// The stored numbers, row by row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// The stored numbers, row by row, to be changed.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.values
    }

    /// Columns and values of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, &T)> {
        let range = self.starts[row]..self.starts[row + 1];
        self.indices[range.clone()]
            .iter()
            .copied()
            .zip(&self.values[range])
    }

    /// The same pattern with other values.
    pub fn with_values<U>(&self, values: Vec<U>) -> Result<Csr<U>> {
        let pattern = (self.starts.clone(), self.indices.clone());
        Csr::new(self.rows, self.columns, pattern.0, pattern.1, values)
    }

    /// A number for the pattern, almost always different for different patterns.
    pub fn fingerprint(&self) -> u64 {
        let shape = [self.rows, self.columns, self.indices.len()];
        let numbers = shape.iter().chain(&self.starts).chain(&self.indices);
        numbers.fold(1, |h, n| mix(h ^ *n as u64).wrapping_add(1))
    }

    pub(crate) fn into_parts(self) -> (Csr<()>, Vec<T>) {
        let pattern = Csr {
            rows: self.rows,
            columns: self.columns,
            starts: self.starts,
            indices: self.indices,
            values: Vec::new(),
        };
        (pattern, self.values)
    }

    /// The pattern of [`Csr::into_parts`] with values, of which there are as many as entries.
    pub(crate) fn from_parts(pattern: &Csr<()>, values: Vec<T>) -> Csr<T> {
        Csr {
            rows: pattern.rows,
            columns: pattern.columns,
            starts: pattern.starts.clone(),
            indices: pattern.indices.clone(),
            values,
        }
    }
}

/// The order of entries by row and column; those at the same position stay in their order.
fn sorted<T>(rows: usize, triplets: &[(usize, usize, T)]) -> Vec<u32> {
    let mut ends = vec![0u32; rows + 1];
    triplets.iter().for_each(|t| ends[t.0 + 1] += 1);
    for row in 0..rows {
        ends[row + 1] += ends[row];
    }
    // Where the next entry of each row is; at last, where each row ends.
    let mut order = vec![0u32; triplets.len()];
    for (n, t) in (0..).zip(triplets) {
        order[ends[t.0] as usize] = n;
        ends[t.0] += 1;
    }
    let mut start = 0;
    for end in &ends[..rows] {
        let row = &mut order[start..*end as usize];
        row.sort_by_key(|n| triplets[*n as usize].1);
        start = *end as usize;
    }
    order
}

impl<T: Real> Csr<T> {
    /// A matrix from entries in any order. Entries at the same position are added, in order.
    pub fn from_triplets(
        rows: usize,
        columns: usize,
        triplets: &[(usize, usize, T)],
    ) -> Result<Csr<T>> {
        if let Some((r, c, _)) = triplets.iter().find(|t| t.0 >= rows || t.1 >= columns) {
            let what =
                format!("an entry is at ({r}, {c}), outside of a matrix of {rows} by {columns}");
            return Err(inconsistent(what));
        }
        let order = sorted(rows, triplets);
        let mut matrix = Csr {
            rows,
            columns,
            starts: vec![0; rows + 1],
            indices: Vec::new(),
            values: Vec::new(),
        };
        let mut last = None;
        for n in order {
            let (row, column, value) = triplets[n as usize];
            match matrix.values.last_mut() {
                Some(sum) if last == Some((row, column)) => *sum += value,
                _ => {
                    matrix.indices.push(column);
                    matrix.values.push(value);
                    matrix.starts[row + 1] += 1;
                }
            }
            last = Some((row, column));
        }
        for row in 0..rows {
            matrix.starts[row + 1] += matrix.starts[row];
        }
        Ok(matrix)
    }

    fn fits(&self, fits: bool, other: &Csr<T>, what: &str) -> Result<()> {
        if fits {
            return Ok(());
        }
        let (r, c) = (self.rows, self.columns);
        let what = format!(
            "cannot {what} matrices of {r} by {c} and {} by {}",
            other.rows, other.columns
        );
        Err(inconsistent(what))
    }

    /// The product. Its pattern has every position that a pair of entries contributes to.
    pub fn mul(&self, other: &Csr<T>) -> Result<Csr<T>> {
        self.fits(self.columns == other.rows, other, "multiply")?;
        let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut sums: Vec<Option<T>> = vec![None; other.columns];
        let mut found = Vec::new();
        for row in 0..self.rows {
            for (k, a) in self.row(row) {
                for (column, b) in other.row(k) {
                    let product = *a * *b;
                    match &mut sums[column] {
                        Some(sum) => *sum += product,
                        empty => {
                            *empty = Some(product);
                            found.push(column);
                        }
                    }
                }
            }
            found.sort_unstable();
            for column in found.drain(..) {
                indices.push(column);
                values.extend(sums[column].take());
            }
            starts.push(indices.len());
        }
        Csr::new(self.rows, other.columns, starts, indices, values)
    }

    /// The sum. Its pattern is the union of both.
    pub fn add(&self, other: &Csr<T>) -> Result<Csr<T>> {
        let same = self.rows == other.rows && self.columns == other.columns;
        self.fits(same, other, "add")?;
        Csr::from_triplets(
            self.rows,
            self.columns,
            &[self.triplets(), other.triplets()].concat(),
        )
    }

    /// The transpose.
    pub fn transpose(&self) -> Csr<T> {
        let swapped = self.triplets().into_iter().map(|(r, c, v)| (c, r, v));
        let swapped: Vec<_> = swapped.collect();
        // Positions are inside, so this cannot fail.
        Csr::from_triplets(self.columns, self.rows, &swapped).unwrap_or_else(|_| self.clone())
    }

    /// A value for all entries.
    pub fn map<U: Real>(&self, f: impl Fn(T) -> U) -> Csr<U> {
        let (pattern, values) = self.clone().into_parts();
        Csr::from_parts(&pattern, values.into_iter().map(f).collect())
    }

    /// Row, column and value of every entry.
    pub fn triplets(&self) -> Vec<(usize, usize, T)> {
        let rows = (0..self.rows).flat_map(|r| self.row(r).map(move |(c, v)| (r, c, *v)));
        rows.collect()
    }

    /// The same matrix by columns.
    pub fn to_csc(&self) -> Csc<T> {
        Csc(self.transpose())
    }
}

impl<T> Csc<T> {
    /// A matrix from its parts: where each column starts, and the end; the row of each entry; the entries.
    pub fn new(
        rows: usize,
        columns: usize,
        starts: Vec<usize>,
        indices: Vec<usize>,
        values: Vec<T>,
    ) -> Result<Csc<T>> {
        Csr::new(columns, rows, starts, indices, values).map(Csc)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        Csr::columns(&self.0)
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        Csr::rows(&self.0)
    }

    /// Where each column starts among the entries, and the end.
    pub fn starts(&self) -> &[usize] {
        &self.0.starts
    }

    /// The row of each entry.
    pub fn indices(&self) -> &[usize] {
        &self.0.indices
    }

    /// The stored numbers, column by column.
    pub fn values(&self) -> &[T] {
        &self.0.values
    }

    /// The stored numbers, column by column, to be changed.
    pub fn values_mut(&mut self) -> &mut [T] {
        &mut self.0.values
    }

    /// The rows of the transpose.
    pub(crate) fn by_rows(&self) -> &Csr<T> {
        &self.0
    }

    pub(crate) fn into_rows(self) -> Csr<T> {
        self.0
    }

    pub(crate) fn from_rows(rows: Csr<T>) -> Csc<T> {
        Csc(rows)
    }
}

impl<T: Real> Csc<T> {
    /// The same matrix by rows.
    pub fn to_csr(&self) -> Csr<T> {
        self.0.transpose()
    }
}
