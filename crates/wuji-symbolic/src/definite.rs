//! Local Hessians, and their projection to positive semidefinite matrices.

use crate::derivatives::hessian;
use crate::real::Real;
use crate::sym::Sym;
use wuji_ir::{Error, Result};

/// The second derivatives of a value by a few variables: a dense matrix, row by row, for the energy of one element.
///
/// Sums of such matrices are the Hessian of a sum of energies. Each can be made [positive semidefinite](project_definite) first, as
/// Newton's method needs it.
#[track_caller]
pub fn local_hessian(value: Sym, variables: &[Sym]) -> Result<Vec<Sym>> {
    let n = variables.len();
    let sparse = hessian(value, variables)?;
    let mut dense = vec![Sym::new(0.0); n * n];
    for (row, column, second) in sparse.triplets() {
        dense[row * n + column] = second;
    }
    Ok(dense)
}

/// Replaces the negative eigenvalues of a symmetric matrix by zero: the nearest positive semidefinite matrix. The matrix has `n` rows,
/// one after the other.
///
/// Jacobi's method with a fixed number of sweeps, so that it can be traced. It pays for small matrices.
///
/// ```
/// use wuji_symbolic::project_definite;
/// # fn main() -> wuji::Result<()> {
/// let mut matrix = [1.0, 2.0, 2.0, 1.0]; // eigenvalues 3 and -1
/// project_definite(2, &mut matrix)?;
/// assert!(matrix.iter().all(|x: &f64| (x - 1.5).abs() < 1e-12));
/// # Ok(())
/// # }
/// ```
pub fn project_definite<T: Real>(n: usize, matrix: &mut [T]) -> Result<()> {
    if matrix.len() != n.saturating_mul(n) {
        let what = format!("a matrix of {n} by {n} has {} entries", matrix.len());
        return Err(Error::new("W0806", what));
    }
    let mut a = matrix.to_vec();
    let vectors = diagonalize(n, sweeps(n), &mut a);
    for row in 0..n {
        for column in row..n {
            let terms = (0..n).map(|k| {
                let size = a[k * n + k].max(T::zero());
                vectors[row * n + k] * size * vectors[column * n + k]
            });
            let sum = terms.sum();
            matrix[row * n + column] = sum;
            matrix[column * n + row] = sum;
        }
    }
    Ok(())
}

/// Makes a symmetric matrix diagonal, with Jacobi's method. Its eigenvectors are the columns of the result, which is a rotation.
pub(crate) fn diagonalize<T: Real>(n: usize, sweeps: usize, a: &mut [T]) -> Vec<T> {
    let mut vectors = vec![T::zero(); n * n];
    for k in 0..n {
        vectors[k * n + k] = T::one();
    }
    for _ in 0..sweeps {
        for p in 0..n {
            for q in p + 1..n {
                rotate(n, (p, q), a, &mut vectors);
            }
        }
    }
    vectors
}

/// Convergence is quadratic after the first sweeps. One rotation diagonalizes a matrix of 2 by 2.
fn sweeps(n: usize) -> usize {
    match n {
        0 | 1 => 0,
        2 => 1,
        3 | 4 => 5,
        _ => 7,
    }
}

/// Turns rows and columns `p` and `q`, so that their common entry becomes zero.
fn rotate<T: Real>(n: usize, (p, q): (usize, usize), a: &mut [T], vectors: &mut [T]) {
    let (zero, one) = (T::zero(), T::one());
    let off = a[p * n + q];
    let difference = a[q * n + q] - a[p * n + p];
    let twice = off + off;
    let root = (difference * difference + twice * twice).sqrt();
    let sign = T::select(difference.less(zero), -one, one);
    let divisor = difference.abs() + root;
    // Where both are zero there is nothing to turn.
    let is_zero = divisor.equals(zero);
    let tangent = sign * twice / T::select(is_zero, one, divisor);
    let cosine = one / (tangent * tangent + one).sqrt();
    let sine = tangent * cosine;
    let turn = |x: T, y: T| (cosine * x - sine * y, sine * x + cosine * y);
    let (pp, qq) = (a[p * n + p], a[q * n + q]);
    a[p * n + p] = pp - tangent * off;
    a[q * n + q] = qq + tangent * off;
    a[p * n + q] = zero;
    a[q * n + p] = zero;
    for k in (0..n).filter(|k| *k != p && *k != q) {
        let (x, y) = turn(a[k * n + p], a[k * n + q]);
        a[k * n + p] = x;
        a[p * n + k] = x;
        a[k * n + q] = y;
        a[q * n + k] = y;
    }
    for k in 0..n {
        let (x, y) = turn(vectors[k * n + p], vectors[k * n + q]);
        vectors[k * n + p] = x;
        vectors[k * n + q] = y;
    }
}
