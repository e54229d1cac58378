//! Sparse matrices in compressed columns, and their factors.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::solvers::SolveCore;
use faer::perm::Perm;
use faer::sparse::linalg::cholesky::{
    LdltRef, LltRef, SymbolicCholesky, SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::linalg::colamd;
use faer::sparse::linalg::solvers::{Lu, SymbolicLu};
use faer::sparse::{SparseColMatRef, SymbolicSparseColMatRef};
use faer::traits::ComplexField;
use faer::{Conj, MatMut, Par, Side};
use std::ops::{AddAssign, Mul, MulAssign};

/// What the elements of a matrix can be.
pub(crate) trait Number:
    ComplexField + Copy + Default + AddAssign + MulAssign + Mul<Output = Self>
{
    fn wide(self) -> f64;
    fn narrow(wide: f64) -> Self;
}

impl Number for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn narrow(wide: f64) -> f32 {
        wide as f32
    }
}

impl Number for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn narrow(wide: f64) -> f64 {
        wide
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
    /// From elements in any order, which are told by their number. Those with the same place are added up. Indices are in range.
    pub(crate) fn from_triplets(
        rows: usize,
        columns: usize,
        count: usize,
        triplet: impl Fn(usize) -> (usize, usize, T),
    ) -> Columns<T> {
        // To their columns first.
        let mut starts = vec![0; columns + 1];
        for k in 0..count {
            starts[triplet(k).1 + 1] += 1;
        }
        for column in 0..columns {
            starts[column + 1] += starts[column];
        }
        let (mut indices, mut values) = (vec![0; count], vec![T::default(); count]);
        let mut places = starts.clone();
        for k in 0..count {
            let (row, column, value) = triplet(k);
            let place = &mut places[column];
            (indices[*place], values[*place]) = (row, value);
            *place += 1;
        }
        // Then each column in order, closing up where places come again.
        let mut column = Vec::new();
        let mut end = 0;
        let mut begin = 0;
        for start in &mut starts[1..] {
            let range = begin..*start;
            begin = *start;
            let pairs = indices[range.clone()].iter().zip(&values[range]);
            column.clear();
            column.extend(pairs.map(|(row, value)| (*row, *value)));
            column.sort_by_key(|(row, _)| *row);
            let mut last = None;
            for (row, value) in &column {
                if last == Some(*row) {
                    values[end - 1] += *value;
                } else {
                    (indices[end], values[end]) = (*row, *value);
                    end += 1;
                    last = Some(*row);
                }
            }
            *start = end;
        }
        indices.truncate(end);
        values.truncate(end);
        Columns {
            rows,
            columns,
            starts,
            indices,
            values,
        }
    }

    /// The symmetric matrix that has this lower triangle.
    fn mirrored(&self) -> Columns<T> {
        let mut lower: Vec<_> = self.triplets().filter(|(r, c, _)| r >= c).collect();
        let upper = lower.iter().filter(|(r, c, _)| r > c);
        let upper: Vec<_> = upper.map(|&(r, c, value)| (c, r, value)).collect();
        lower.extend(upper);
        Columns::from_triplets(self.rows, self.columns, lower.len(), |k| lower[k])
    }

    /// The order of columns that keeps factors sparse; `None` when there is too little memory.
    fn by_columns(&self) -> Option<Perm<usize>> {
        let count = self.columns;
        let (mut order, mut inverse) = (vec![0; count], vec![0; count]);
        let scratch = colamd::order_scratch::<usize>(self.rows, count, self.indices.len());
        let mut memory = MemBuffer::try_new(scratch).ok()?;
        colamd::order(
            &mut order,
            &mut inverse,
            self.pattern(),
            Default::default(),
            MemStack::new(&mut memory),
        )
        .ok()?;
        Some(Perm::new_checked(order.into(), inverse.into(), count))
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
        let mut made = Columns {
            rows: self.columns,
            columns: self.rows,
            starts: vec![0; self.rows + 1],
            indices: vec![0; self.indices.len()],
            values: vec![T::default(); self.values.len()],
        };
        for row in &self.indices {
            made.starts[row + 1] += 1;
        }
        for row in 0..self.rows {
            made.starts[row + 1] += made.starts[row];
        }
        // Columns come in order, so that they ascend in each row.
        let mut places = made.starts.clone();
        for (row, column, value) in self.triplets() {
            let place = &mut places[row];
            made.indices[*place] = column;
            made.values[*place] = value;
            *place += 1;
        }
        made
    }

    /// `self + factor * other`, of the same shape.
    pub(crate) fn plus(&self, other: &Columns<T>, factor: T) -> Columns<T> {
        self.merged(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => {
                let mut sum = b * factor;
                sum += a;
                Some(sum)
            }
            (Some(a), None) => Some(a),
            (None, b) => b.map(|b| b * factor),
        })
    }

    /// The products of elements at the same place, of the same shape.
    pub(crate) fn times(&self, other: &Columns<T>) -> Columns<T> {
        self.merged(other, |a, b| Some(a? * b?))
    }

    /// Element by element, where at least one of two matrices of the same shape has one.
    fn merged(
        &self,
        other: &Columns<T>,
        combine: impl Fn(Option<T>, Option<T>) -> Option<T>,
    ) -> Columns<T> {
        let most = self.indices.len() + other.indices.len();
        let mut made = Columns {
            rows: self.rows,
            columns: self.columns,
            starts: Vec::with_capacity(self.columns + 1),
            indices: Vec::with_capacity(most),
            values: Vec::with_capacity(most),
        };
        for column in 0..self.columns {
            made.starts.push(made.indices.len());
            let mut left = self.column(column).peekable();
            let mut right = other.column(column).peekable();
            loop {
                let row = match (left.peek(), right.peek()) {
                    (Some(a), Some(b)) => a.0.min(b.0),
                    (Some(a), None) => a.0,
                    (None, Some(b)) => b.0,
                    (None, None) => break,
                };
                let a = left.next_if(|(r, _)| *r == row).map(|(_, v)| v);
                let b = right.next_if(|(r, _)| *r == row).map(|(_, v)| v);
                if let Some(value) = combine(a, b) {
                    made.indices.push(row);
                    made.values.push(value);
                }
            }
        }
        made.starts.push(made.indices.len());
        made
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

    /// Solves `self x = b` for a symmetric matrix with positive eigenvalues by conjugate gradients, from the `x` that is given: until what
    /// is left of `b` is at most `enough` of its length, or for `most` steps. Gives how many there were, and whether that was enough.
    pub(crate) fn conjugate(
        &self,
        b: &[T],
        x: &mut [T],
        enough: f64,
        most: usize,
    ) -> (usize, bool) {
        let count = b.len();
        // What is divided by instead of solving: the diagonal.
        let mut scale = vec![1.0; count];
        for (row, column, value) in self.triplets() {
            if row == column && value.wide() != 0.0 {
                scale[row] = 1.0 / value.wide();
            }
        }
        let mut rest = vec![T::default(); count];
        self.apply(x, &mut rest);
        for (r, b) in rest.iter_mut().zip(b) {
            *r = T::narrow(b.wide() - r.wide());
        }
        let goal = enough * enough * dot(b, b);
        let divide = |rest: &[T], out: &mut [T]| {
            for (o, (r, s)) in out.iter_mut().zip(rest.iter().zip(&scale)) {
                *o = T::narrow(r.wide() * s);
            }
        };
        let mut towards = vec![T::default(); count];
        divide(&rest, &mut towards);
        let mut next = towards.clone();
        let mut product = dot(&rest, &towards);
        let mut image = vec![T::default(); count];
        let mut steps = 0;
        let mut left = dot(&rest, &rest);
        while left > goal && steps < most {
            self.apply(&towards, &mut image);
            let curve = dot(&towards, &image);
            let length = product / curve;
            if !length.is_finite() {
                break;
            }
            for ((x, r), (t, i)) in x.iter_mut().zip(&mut rest).zip(towards.iter().zip(&image)) {
                *x = T::narrow(x.wide() + length * t.wide());
                *r = T::narrow(r.wide() - length * i.wide());
            }
            left = dot(&rest, &rest);
            divide(&rest, &mut next);
            let before = std::mem::replace(&mut product, dot(&rest, &next));
            for (t, n) in towards.iter_mut().zip(&next) {
                *t = T::narrow(n.wide() + product / before * t.wide());
            }
            steps += 1;
        }
        (steps, left <= goal)
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

/// A sum of products: exact enough in f64, whatever the numbers are.
fn dot<T: Number>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.wide() * b.wide()).sum()
}

/// How a matrix is factorised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Llt,
    Ldlt,
    Lu,
}

/// What keeps the factors of a symmetric matrix sparse: the order in which rows and columns are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ordering {
    /// By the graph of the matrix.
    Amd,
    /// By that of its square.
    Colamd,
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
    pub(crate) fn new<T: Number>(
        method: Method,
        ordering: Ordering,
        matrix: &Columns<T>,
    ) -> Option<Analysis> {
        let pattern = matrix.pattern();
        let symbolic = match method {
            Method::Llt | Method::Ldlt => {
                let by_columns;
                let order = match ordering {
                    Ordering::Amd => SymmetricOrdering::Amd,
                    Ordering::Colamd => {
                        by_columns = matrix.mirrored().by_columns()?;
                        SymmetricOrdering::Custom(by_columns.as_ref())
                    }
                };
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
        matrix.apply(&vec![T::narrow(1.0); matrix.columns], &mut probe);
        factors.solve(analysis, &mut probe);
        probe
            .iter()
            .all(|x| x.wide().is_finite())
            .then_some(factors)
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
