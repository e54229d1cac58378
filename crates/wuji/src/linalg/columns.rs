//! Sparse matrices in compressed-column format (CSC), and their factorizations.

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

/// An entry type of a matrix.
pub trait Number:
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

/// A CSC matrix: rows and values of the stored entries, column by column; rows ascend.
#[derive(Clone, Debug)]
pub struct Columns<T> {
    pub rows: usize,
    pub columns: usize,
    /// Start of each column's entries, plus the end of the last one.
    pub starts: Vec<usize>,
    pub indices: Vec<usize>,
    pub values: Vec<T>,
}

impl<T: Number> Columns<T> {
    /// Builds a matrix from numbered entries in any order. Entries at the same position are added up. Indices must be in range.
    pub fn from_triplets(
        rows: usize,
        columns: usize,
        count: usize,
        triplet: impl Fn(usize) -> (usize, usize, T),
    ) -> Columns<T> {
        // Count the entries of each column, then scatter them.
        let mut starts = vec![0; columns + 1];
        for k in 0..count {
            starts[triplet(k).1 + 1] += 1;
        }
        for column in 0..columns {
            starts[column + 1] += starts[column];
        }
        let (mut indices, mut values) = (vec![0; count], vec![T::default(); count]);
        let mut next = starts.clone();
        for k in 0..count {
            let (row, column, value) = triplet(k);
            let slot = &mut next[column];
            (indices[*slot], values[*slot]) = (row, value);
            *slot += 1;
        }
        // Sort each column by row, and merge duplicates.
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

    /// The symmetric matrix with this lower triangle.
    fn mirrored(&self) -> Columns<T> {
        let mut lower: Vec<_> = self.triplets().filter(|(r, c, _)| r >= c).collect();
        let upper = lower.iter().filter(|(r, c, _)| r > c);
        let upper: Vec<_> = upper.map(|&(r, c, value)| (c, r, value)).collect();
        lower.extend(upper);
        Columns::from_triplets(self.rows, self.columns, lower.len(), |k| lower[k])
    }

    /// The fill-reducing column ordering; `None` if memory runs out.
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

    pub fn triplets(&self) -> impl Iterator<Item = (usize, usize, T)> {
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

    /// The position of a stored entry, or where to insert it.
    fn find(&self, row: usize, column: usize) -> Result<usize, usize> {
        let begin = self.starts[column];
        let found = self.indices[begin..self.starts[column + 1]].binary_search(&row);
        found.map(|at| at + begin).map_err(|at| at + begin)
    }

    pub fn get(&self, row: usize, column: usize) -> T {
        self.find(row, column)
            .map_or(T::default(), |at| self.values[at])
    }

    pub fn set(&mut self, row: usize, column: usize, value: T) {
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

    pub fn scaled(&self, factor: T) -> Columns<T> {
        let mut result = self.clone();
        for value in &mut result.values {
            *value *= factor;
        }
        result
    }

    pub fn transposed(&self) -> Columns<T> {
        let mut result = Columns {
            rows: self.columns,
            columns: self.rows,
            starts: vec![0; self.rows + 1],
            indices: vec![0; self.indices.len()],
            values: vec![T::default(); self.values.len()],
        };
        for row in &self.indices {
            result.starts[row + 1] += 1;
        }
        for row in 0..self.rows {
            result.starts[row + 1] += result.starts[row];
        }
        // Columns are visited in order, so they ascend in each row.
        let mut next = result.starts.clone();
        for (row, column, value) in self.triplets() {
            let slot = &mut next[row];
            result.indices[*slot] = column;
            result.values[*slot] = value;
            *slot += 1;
        }
        result
    }

    /// `self + factor * other`, of the same shape.
    pub fn plus(&self, other: &Columns<T>, factor: T) -> Columns<T> {
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

    /// The element-wise product of matrices of the same shape.
    pub fn times(&self, other: &Columns<T>) -> Columns<T> {
        self.merged(other, |a, b| Some(a? * b?))
    }

    /// Combines entries where at least one of two matrices of the same shape has one.
    fn merged(
        &self,
        other: &Columns<T>,
        combine: impl Fn(Option<T>, Option<T>) -> Option<T>,
    ) -> Columns<T> {
        let capacity = self.indices.len() + other.indices.len();
        let mut result = Columns {
            rows: self.rows,
            columns: self.columns,
            starts: Vec::with_capacity(self.columns + 1),
            indices: Vec::with_capacity(capacity),
            values: Vec::with_capacity(capacity),
        };
        for column in 0..self.columns {
            result.starts.push(result.indices.len());
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
                    result.indices.push(row);
                    result.values.push(value);
                }
            }
        }
        result.starts.push(result.indices.len());
        result
    }

    /// The product; `other` must have as many rows as this has columns. `check` ends it early with an error.
    pub fn product<E>(
        &self,
        other: &Columns<T>,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<Columns<T>, E> {
        let mut result = Columns {
            rows: self.rows,
            columns: other.columns,
            starts: vec![0],
            indices: Vec::new(),
            values: Vec::new(),
        };
        // The column under construction: its values, and the rows that have one.
        let mut sums = vec![T::default(); self.rows];
        let mut touched = vec![usize::MAX; self.rows];
        for column in 0..other.columns {
            check()?;
            let begin = result.indices.len();
            for (inner, factor) in other.column(column) {
                for (row, value) in self.column(inner) {
                    if touched[row] != column {
                        touched[row] = column;
                        sums[row] = T::default();
                        result.indices.push(row);
                    }
                    sums[row] += value * factor;
                }
            }
            result.indices[begin..].sort_unstable();
            result
                .values
                .extend(result.indices[begin..].iter().map(|row| sums[*row]));
            result.starts.push(result.indices.len());
        }
        Ok(result)
    }

    /// `y = self x`; the lengths must match.
    pub fn apply(&self, x: &[T], y: &mut [T]) {
        y.fill(T::default());
        for (column, factor) in x.iter().enumerate().take(self.columns) {
            for (row, value) in self.column(column) {
                y[row] += value * *factor;
            }
        }
    }

    /// Solves `self x = b` for a symmetric positive definite matrix by preconditioned conjugate gradients, starting at `x`. Stops when the
    /// residual is at most `tolerance` times the norm of `b`, or after `max_steps`. Returns the number of steps, and whether it converged.
    /// `check` is called before every step, and ends it early with an error.
    pub fn conjugate<E>(
        &self,
        b: &[T],
        x: &mut [T],
        (tolerance, max_steps): (f64, usize),
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(usize, bool), E> {
        let count = b.len();
        // Jacobi preconditioner: the diagonal.
        let mut scale = vec![1.0; count];
        for (row, column, value) in self.triplets() {
            if row == column && value.wide() != 0.0 {
                scale[row] = 1.0 / value.wide();
            }
        }
        let mut residual = vec![T::default(); count];
        self.apply(x, &mut residual);
        for (r, b) in residual.iter_mut().zip(b) {
            *r = T::narrow(b.wide() - r.wide());
        }
        let goal = tolerance * tolerance * dot(b, b);
        let precondition = |residual: &[T], out: &mut [T]| {
            for (o, (r, s)) in out.iter_mut().zip(residual.iter().zip(&scale)) {
                *o = T::narrow(r.wide() * s);
            }
        };
        let mut direction = vec![T::default(); count];
        precondition(&residual, &mut direction);
        let mut next = direction.clone();
        let mut product = dot(&residual, &direction);
        let mut image = vec![T::default(); count];
        let mut steps = 0;
        let mut left = dot(&residual, &residual);
        while left > goal && steps < max_steps {
            check()?;
            self.apply(&direction, &mut image);
            let curvature = dot(&direction, &image);
            let length = product / curvature;
            if !length.is_finite() {
                break;
            }
            for ((x, r), (t, i)) in x
                .iter_mut()
                .zip(&mut residual)
                .zip(direction.iter().zip(&image))
            {
                *x = T::narrow(x.wide() + length * t.wide());
                *r = T::narrow(r.wide() - length * i.wide());
            }
            left = dot(&residual, &residual);
            precondition(&residual, &mut next);
            let before = std::mem::replace(&mut product, dot(&residual, &next));
            for (t, n) in direction.iter_mut().zip(&next) {
                *t = T::narrow(n.wide() + product / before * t.wide());
            }
            steps += 1;
        }
        Ok((steps, left <= goal))
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

/// The dot product, accumulated in f64.
fn dot<T: Number>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.wide() * b.wide()).sum()
}

/// A factorization method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Llt,
    Ldlt,
    Lu,
}

/// A fill-reducing ordering of rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// Approximate minimum degree on the graph of the matrix.
    Amd,
    /// Column approximate minimum degree, on the graph of its square.
    Colamd,
}

/// The symbolic factorization, which depends only on the sparsity pattern.
#[derive(Debug)]
pub struct Analysis {
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
    /// Analyzes a square matrix; `None` if memory runs out.
    pub fn new<T: Number>(
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
                let result =
                    factorize_symbolic_cholesky(pattern, Side::Lower, order, Default::default());
                Symbolic::Cholesky(Box::new(result.ok()?))
            }
            Method::Lu => Symbolic::Lu(SymbolicLu::try_new(pattern).ok()?),
        };
        Some(Analysis {
            starts: matrix.starts.clone(),
            indices: matrix.indices.clone(),
            symbolic,
        })
    }

    /// The number of rows of the matrix.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Stored entries of the matrix.
    pub fn entries(&self) -> usize {
        self.indices.len()
    }

    /// Whether the matrix has the analyzed pattern.
    pub fn fits<T>(&self, matrix: &Columns<T>) -> bool {
        self.starts == matrix.starts && self.indices == matrix.indices
    }
}

/// The values of a Cholesky factor. Both kinds have functions of their own, with the same arguments.
macro_rules! factorize {
    ($symbolic:expr, $matrix:expr, $scratch:ident, $factorize:ident) => {{
        let mut values = vec![T::default(); $symbolic.len_val()];
        let scratch = $symbolic.$scratch::<T>(Par::Seq, Default::default());
        let mut memory = MemBuffer::try_new(scratch).ok()?;
        let stack = MemStack::new(&mut memory);
        let view = $matrix.view();
        $symbolic
            .$factorize::<T>(
                &mut values,
                view,
                Side::Lower,
                Default::default(),
                Par::Seq,
                stack,
                Default::default(),
            )
            .ok()?;
        values
    }};
}

macro_rules! solve_in_place {
    ($symbolic:expr, $factor:expr, $b:expr) => {
        let mut memory = MemBuffer::new($symbolic.solve_in_place_scratch::<T>(1, Par::Seq));
        $factor.solve_in_place_with_conj(Conj::No, $b, Par::Seq, MemStack::new(&mut memory));
    };
}

/// A numeric factorization.
#[derive(Debug)]
pub enum Factors<T> {
    Llt(Vec<T>),
    Ldlt(Vec<T>),
    Lu(Box<Lu<usize, T>>),
}

impl<T: Number> Factors<T> {
    /// Factorizes a matrix with the analyzed pattern; `None` if the factorization does not exist.
    pub fn new(method: Method, analysis: &Analysis, matrix: &Columns<T>) -> Option<Factors<T>> {
        let factors = match &analysis.symbolic {
            Symbolic::Cholesky(symbolic) if method == Method::Llt => Factors::Llt(factorize!(
                symbolic,
                matrix,
                factorize_numeric_llt_scratch,
                factorize_numeric_llt
            )),
            Symbolic::Cholesky(symbolic) => Factors::Ldlt(factorize!(
                symbolic,
                matrix,
                factorize_numeric_ldlt_scratch,
                factorize_numeric_ldlt
            )),
            Symbolic::Lu(symbolic) => Factors::Lu(Box::new(
                Lu::try_new_with_symbolic(symbolic.clone(), matrix.view()).ok()?,
            )),
        };
        // A zero pivot shows up in any solution.
        let mut probe = vec![T::default(); matrix.rows];
        matrix.apply(&vec![T::narrow(1.0); matrix.columns], &mut probe);
        factors.solve(analysis, &mut probe);
        probe
            .iter()
            .all(|x| x.wide().is_finite())
            .then_some(factors)
    }

    /// Solves for `b`, in slot.
    pub fn solve(&self, analysis: &Analysis, b: &mut [T]) {
        let rows = b.len();
        let b = MatMut::from_column_major_slice_mut(b, rows, 1);
        match (self, &analysis.symbolic) {
            (Factors::Llt(values), Symbolic::Cholesky(symbolic)) => {
                solve_in_place!(symbolic, LltRef::<usize, T>::new(symbolic, values), b);
            }
            (Factors::Ldlt(values), Symbolic::Cholesky(symbolic)) => {
                solve_in_place!(symbolic, LdltRef::<usize, T>::new(symbolic, values), b);
            }
            (Factors::Lu(lu), Symbolic::Lu(_)) => lu.solve_in_place_with_conj(Conj::No, b),
            // Factors are only used with the analysis that they were computed with.
            (Factors::Llt(_) | Factors::Ldlt(_), Symbolic::Lu(_))
            | (Factors::Lu(_), Symbolic::Cholesky(_)) => {}
        }
    }
}
