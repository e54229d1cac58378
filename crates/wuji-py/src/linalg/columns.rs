//! Sparse matrices in compressed columns, and their factors.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::solvers::SolveCore;
use faer::sparse::linalg::cholesky::{
    LdltRef, LltRef, SymbolicCholesky, SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::linalg::solvers::{Lu, SymbolicLu};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::traits::ComplexField;
use faer::{Conj, MatMut, Par, Side};
use std::ops::{AddAssign, Mul, MulAssign};

/// What the elements of a matrix can be.
pub(crate) trait Number:
    ComplexField + Copy + Default + AddAssign + MulAssign + Mul<Output = Self>
{
    fn is_finite(self) -> bool;
}

impl Number for f32 {
    fn is_finite(self) -> bool {
        f32::is_finite(self)
    }
}

impl Number for f64 {
    fn is_finite(self) -> bool {
        f64::is_finite(self)
    }
}

/// Column by column, the rows and values of the elements that are stored; rows ascend.
#[derive(Clone, Debug)]
pub(crate) struct Columns<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// Where the elements of each column begin; one more at the end.
    pub(crate) starts: Vec<usize>,
    pub(crate) indices: Vec<usize>,
    pub(crate) values: Vec<T>,
}

impl<T: Number> Columns<T> {
    /// From elements in any order. Those with the same place are added up. Indices are in range.
    pub(crate) fn from_triplets(
        rows: usize,
        columns: usize,
        triplets: &[(usize, usize, T)],
    ) -> Columns<T> {
        // Sorted by row, then, keeping that order, by column.
        let by_row = ordered(rows, triplets, |t| t.0);
        let sorted = ordered(columns, &by_row, |t| t.1);
        let mut made = Columns {
            rows,
            columns,
            starts: Vec::with_capacity(columns + 1),
            indices: Vec::with_capacity(sorted.len()),
            values: Vec::with_capacity(sorted.len()),
        };
        let mut rest = sorted.as_slice();
        for column in 0..columns {
            made.starts.push(made.indices.len());
            let begin = made.indices.len();
            while let Some((&(row, _, value), following)) =
                rest.split_first().filter(|(t, _)| t.1 == column)
            {
                rest = following;
                match (made.indices[begin..].last(), made.values.last_mut()) {
                    (Some(last), Some(sum)) if *last == row => *sum += value,
                    _ => {
                        made.indices.push(row);
                        made.values.push(value);
                    }
                }
            }
        }
        made.starts.push(made.indices.len());
        made
    }

    pub(crate) fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
        (0..self.columns).flat_map(move |column| {
            self.column(column)
                .map(move |(row, value)| (row, column, value))
        })
    }

    fn column(&self, column: usize) -> impl Iterator<Item = (usize, T)> {
        let range = self.starts[column]..self.starts[column + 1];
        self.indices[range.clone()]
            .iter()
            .copied()
            .zip(self.values[range].iter().copied())
    }

    /// Where an element is stored, or else where it would be.
    fn find(&self, row: usize, column: usize) -> Result<usize, usize> {
        let begin = self.starts[column];
        let found = self.indices[begin..self.starts[column + 1]].binary_search(&row);
        found.map(|at| at + begin).map_err(|at| at + begin)
    }

    pub(crate) fn get(&self, row: usize, column: usize) -> T {
        self.find(row, column)
            .map_or(T::default(), |at| self.values[at])
    }

    pub(crate) fn set(&mut self, row: usize, column: usize, value: T) {
        match self.find(row, column) {
            Ok(at) => self.values[at] = value,
            Err(at) => {
                self.indices.insert(at, row);
                self.values.insert(at, value);
                for start in &mut self.starts[column + 1..] {
                    *start += 1;
                }
            }
        }
    }

    pub(crate) fn scaled(&self, factor: T) -> Columns<T> {
        let mut made = self.clone();
        for value in &mut made.values {
            *value *= factor;
        }
        made
    }

    pub(crate) fn transposed(&self) -> Columns<T> {
        let triplets: Vec<_> = self.triplets().map(|(r, c, v)| (c, r, v)).collect();
        Columns::from_triplets(self.columns, self.rows, &triplets)
    }

    /// `self + factor * other`, of the same shape.
    pub(crate) fn plus(&self, other: &Columns<T>, factor: T) -> Columns<T> {
        let triplets: Vec<_> = self
            .triplets()
            .chain(other.triplets().map(|(r, c, v)| (r, c, v * factor)))
            .collect();
        Columns::from_triplets(self.rows, self.columns, &triplets)
    }

    /// The products of elements at the same place, of the same shape.
    pub(crate) fn times(&self, other: &Columns<T>) -> Columns<T> {
        let triplets: Vec<_> = self
            .triplets()
            .filter_map(|(r, c, v)| Some((r, c, v * other.values[other.find(r, c).ok()?])))
            .collect();
        Columns::from_triplets(self.rows, self.columns, &triplets)
    }

    /// The product; `other` has as many rows as this has columns.
    pub(crate) fn product(&self, other: &Columns<T>) -> Columns<T> {
        let mut made = Columns {
            rows: self.rows,
            columns: other.columns,
            starts: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
        };
        // The column that is being made: its values, and in which rows there are some.
        let mut sums = vec![T::default(); self.rows];
        let mut touched = vec![usize::MAX; self.rows];
        for column in 0..other.columns {
            let begin = made.indices.len();
            for (inner, factor) in other.column(column) {
                for (row, value) in self.column(inner) {
                    if touched[row] != column {
                        touched[row] = column;
                        sums[row] = T::default();
                        made.indices.push(row);
                    }
                    sums[row] += value * factor;
                }
            }
            made.indices[begin..].sort_unstable();
            made.values
                .extend(made.indices[begin..].iter().map(|row| sums[*row]));
            made.starts.push(made.indices.len());
        }
        made
    }

    /// `y = self x`, of lengths that fit.
    pub(crate) fn apply(&self, x: &[T], y: &mut [T]) {
        y.fill(T::default());
        for (column, factor) in x.iter().enumerate().take(self.columns) {
            for (row, value) in self.column(column) {
                y[row] += value * *factor;
            }
        }
    }

    fn pattern(&self) -> SymbolicSparseColMatRef<'_, usize> {
        SymbolicSparseColMatRef::new_checked(
            self.rows,
            self.columns,
            &self.starts,
            None,
            &self.indices,
        )
    }

    fn view(&self) -> SparseColMatRef<'_, usize, T> {
        SparseColMatRef::new(self.pattern(), &self.values)
    }
}

/// Sorted by a key below `count`, keeping the order of what has the same one.
fn ordered<T: Copy>(count: usize, items: &[T], key: impl Fn(&T) -> usize) -> Vec<T> {
    let mut places = vec![0; count + 1];
    for item in items {
        places[key(item) + 1] += 1;
    }
    for k in 0..count {
        places[k + 1] += places[k];
    }
    let mut sorted = items.to_vec();
    for item in items {
        let place = &mut places[key(item)];
        sorted[*place] = *item;
        *place += 1;
    }
    sorted
}

/// How a matrix is factorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Llt,
    Ldlt,
    Lu,
}

/// What of a factorisation depends only on which elements there are.
#[derive(Debug)]
pub(crate) struct Analysis {
    starts: Vec<usize>,
    indices: Vec<usize>,
    symbolic: Symbolic,
}

#[derive(Debug)]
enum Symbolic {
    Cholesky(Box<SymbolicCholesky<usize>>),
    Lu(SymbolicLu<usize>),
}

impl Analysis {
    /// Of a square matrix; `None` when there is too little memory.
    pub(crate) fn new<T: Number>(method: Method, matrix: &Columns<T>) -> Option<Analysis> {
        let pattern = matrix.pattern();
        let symbolic = match method {
            Method::Llt | Method::Ldlt => {
                let order = SymmetricOrdering::Amd;
                let made =
                    factorize_symbolic_cholesky(pattern, Side::Lower, order, Default::default());
                Symbolic::Cholesky(Box::new(made.ok()?))
            }
            Method::Lu => Symbolic::Lu(SymbolicLu::try_new(pattern).ok()?),
        };
        Some(Analysis {
            starts: matrix.starts.clone(),
            indices: matrix.indices.clone(),
            symbolic,
        })
    }

    /// How many the matrix has.
    pub(crate) fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether it was made for a matrix with these elements.
    pub(crate) fn fits<T>(&self, matrix: &Columns<T>) -> bool {
        self.starts == matrix.starts && self.indices == matrix.indices
    }
}

/// A matrix as a product of triangular ones.
#[derive(Debug)]
pub(crate) enum Factors<T> {
    Llt(Vec<T>),
    Ldlt(Vec<T>),
    Lu(Box<Lu<usize, T>>),
}

impl<T: Number> Factors<T> {
    /// Of a matrix that the analysis fits; `None` when it has no such factors.
    pub(crate) fn new(
        method: Method,
        analysis: &Analysis,
        matrix: &Columns<T>,
    ) -> Option<Factors<T>> {
        let factors = match &analysis.symbolic {
            Symbolic::Cholesky(symbolic) => {
                let mut values = vec![T::default(); symbolic.len_val()];
                if method == Method::Llt {
                    let scratch =
                        symbolic.factorize_numeric_llt_scratch::<T>(Par::Seq, Default::default());
                    let mut memory = MemBuffer::try_new(scratch).ok()?;
                    symbolic
                        .factorize_numeric_llt::<T>(
                            &mut values,
                            matrix.view(),
                            Side::Lower,
                            Default::default(),
                            Par::Seq,
                            MemStack::new(&mut memory),
                            Default::default(),
                        )
                        .ok()?;
                    Factors::Llt(values)
                } else {
                    let scratch =
                        symbolic.factorize_numeric_ldlt_scratch::<T>(Par::Seq, Default::default());
                    let mut memory = MemBuffer::try_new(scratch).ok()?;
                    symbolic
                        .factorize_numeric_ldlt::<T>(
                            &mut values,
                            matrix.view(),
                            Side::Lower,
                            Default::default(),
                            Par::Seq,
                            MemStack::new(&mut memory),
                            Default::default(),
                        )
                        .ok()?;
                    Factors::Ldlt(values)
                }
            }
            Symbolic::Lu(symbolic) => Factors::Lu(Box::new(
                Lu::try_new_with_symbolic(symbolic.clone(), matrix.view()).ok()?,
            )),
        };
        // A pivot that is zero shows in any solution.
        let mut probe = vec![T::default(); matrix.rows];
        matrix.apply(&vec![one(); matrix.columns], &mut probe);
        factors.solve(analysis, &mut probe);
        probe.iter().all(|x| x.is_finite()).then_some(factors)
    }

    /// What, times the matrix, is `b`; in its place.
    pub(crate) fn solve(&self, analysis: &Analysis, b: &mut [T]) {
        let rows = b.len();
        let b = MatMut::from_column_major_slice_mut(b, rows, 1);
        match (self, &analysis.symbolic) {
            (Factors::Llt(values), Symbolic::Cholesky(symbolic)) => {
                let mut memory = MemBuffer::new(symbolic.solve_in_place_scratch::<T>(1, Par::Seq));
                LltRef::<usize, T>::new(symbolic, values).solve_in_place_with_conj(
                    Conj::No,
                    b,
                    Par::Seq,
                    MemStack::new(&mut memory),
                );
            }
            (Factors::Ldlt(values), Symbolic::Cholesky(symbolic)) => {
                let mut memory = MemBuffer::new(symbolic.solve_in_place_scratch::<T>(1, Par::Seq));
                LdltRef::<usize, T>::new(symbolic, values).solve_in_place_with_conj(
                    Conj::No,
                    b,
                    Par::Seq,
                    MemStack::new(&mut memory),
                );
            }
            (Factors::Lu(lu), Symbolic::Lu(_)) => lu.solve_in_place_with_conj(Conj::No, b),
            // Factors are only ever used with the analysis they were made with.
            (Factors::Llt(_) | Factors::Ldlt(_), Symbolic::Lu(_))
            | (Factors::Lu(_), Symbolic::Cholesky(_)) => {}
        }
    }
}

fn one<T: Number>() -> T {
    faer::traits::math_utils::one()
}
