//! The reverse sweeps of the decompositions.
//!
//! The derivatives of rotations divide by differences or sums of singular values or eigenvalues. Where one of them vanishes,
//! the rotation is not unique, and the quotient is zero: gradients are finite for all matrices. They are right for every
//! function that does not depend on the choice, such as `u * v.transpose()` with equal singular values.

use super::math::select;
use super::shadow::unroll;
use super::{Float, Matrix, Vector};
use wuji_macros::func;

type Svd<T, const N: usize> = (Matrix<T, N, N>, Vector<T, N>, Matrix<T, N, N>);
type Polar<T, const N: usize> = (Matrix<T, N, N>, Matrix<T, N, N>);
type SymmetricEigen<T, const N: usize> = (Vector<T, N>, Matrix<T, N, N>);

/// `1 / x`, and zero for zero. Next to numbers of about 1, what is less than a few units of rounding counts as zero.
#[func(precise)]
fn inverse<T: Float>(x: T) -> T {
    let rounding = T::from_f64(8.0) * T::EPSILON;
    x / (x * x + rounding * rounding)
}

/// What the adjoint of an orthogonal matrix says about rotations of its columns: an antisymmetric matrix.
#[func]
fn turning<T: Float, const N: usize>(
    m: Matrix<T, N, N>,
    adjoint: Matrix<T, N, N>,
) -> Matrix<T, N, N> {
    let turned = m.transpose() * adjoint;
    turned - turned.transpose()
}

/// How much of a product with an orthogonal matrix is rounding.
#[func(precise)]
fn rounding<T: Float, const N: usize>(m: Matrix<T, N, N>) -> T {
    let mut largest = T::ZERO;
    for r in unroll(0..N) {
        for c in unroll(0..N) {
            largest = largest.max(m[[r, c]].abs());
        }
    }
    T::from_f64(4.0) * T::EPSILON * largest
}

/// Zero in place of rounding errors, which the quotients would make large.
#[func(precise)]
fn cleared<T: Float>(x: T, rounding: T) -> T {
    select(x.abs() <= rounding, T::ZERO, x)
}

/// The adjoint of a matrix, of which the singular value decomposition was found.
///
/// With `a = u.transpose() * du` and `b = v.transpose() * dv`, which are antisymmetric, the other components of
/// `u.transpose() * dm * v` than the diagonal are `a * sigma - sigma * b`: two equations for each pair of components, for the sum and
/// the difference of `a` and `b`.
#[func]
pub(super) fn svd_gradient<T: Float, const N: usize>(
    _m: Matrix<T, N, N>,
    found: Svd<T, N>,
    adjoint: Svd<T, N>,
) -> Matrix<T, N, N> {
    let (u, sigma, v) = found;
    let (du, dsigma, dv) = adjoint;
    let (p, q) = (turning(u, du), turning(v, dv));
    let noise = rounding(du) + rounding(dv);
    let scale = sigma[0].abs().unit_scale();
    let half = T::from_f64(0.5) * scale;
    let mut inner = Matrix::<T, N, N>::from_diagonal(dsigma);
    for r in unroll(0..N) {
        for c in unroll(0..N) {
            if r != c {
                let both = cleared(p[[r, c]] + q[[r, c]], noise);
                let apart = cleared(p[[r, c]] - q[[r, c]], noise);
                let difference = inverse((sigma[c] - sigma[r]) * scale);
                let sum = inverse((sigma[c] + sigma[r]) * scale);
                inner[[r, c]] = (both * difference + apart * sum) * half;
            }
        }
    }
    u * inner * v.transpose()
}

/// The adjoint of a matrix, of which the polar decomposition was found.
///
/// From `s == r.transpose() * m` comes a part of the adjoint of `r`. With `a = r.transpose() * dr`, which is antisymmetric,
/// `a * s + s * a` is the antisymmetric part of `r.transpose() * dm`, doubled.
#[func]
pub(super) fn polar_gradient<T: Float, const N: usize>(
    m: Matrix<T, N, N>,
    found: Polar<T, N>,
    adjoint: Polar<T, N>,
) -> Matrix<T, N, N> {
    let (r, s) = found;
    let (dr, ds) = adjoint;
    let ds = (ds + ds.transpose()) * T::from_f64(0.5);
    let turned = turning(r, dr + m * ds);
    r * (ds + turning_by(s, turned))
}

/// The antisymmetric matrix `a` with `a * s + s * a == turned`.
#[func]
fn turning_by<T: Float, const N: usize>(
    s: Matrix<T, N, N>,
    turned: Matrix<T, N, N>,
) -> Matrix<T, N, N> {
    if N == 2 {
        let trace = s.trace();
        let scale = trace.unit_scale();
        turned * (inverse(trace * scale) * scale)
    } else {
        let (values, w) = s.symmetric_eigen();
        let scale = values[0].abs().max(values[N - 1].abs()).unit_scale();
        let mut inner = w.transpose() * turned * w;
        for r in unroll(0..N) {
            for c in unroll(0..N) {
                let sum = inverse((values[r] + values[c]) * scale);
                inner[[r, c]] = inner[[r, c]] * sum * scale;
            }
        }
        w * inner * w.transpose()
    }
}

/// The adjoint of a symmetric matrix, of which eigenvalues and eigenvectors were found. It is symmetric.
#[func]
pub(super) fn symmetric_eigen_gradient<T: Float, const N: usize>(
    _m: Matrix<T, N, N>,
    found: SymmetricEigen<T, N>,
    adjoint: SymmetricEigen<T, N>,
) -> Matrix<T, N, N> {
    let (values, w) = found;
    let (dvalues, dw) = adjoint;
    let turned = turning(w, dw);
    let noise = rounding(dw);
    let scale = values[0].abs().max(values[N - 1].abs()).unit_scale();
    let half = T::from_f64(0.5) * scale;
    let mut inner = Matrix::<T, N, N>::from_diagonal(dvalues);
    for r in unroll(0..N) {
        for c in unroll(0..N) {
            if r != c {
                let by = inverse((values[c] - values[r]) * scale);
                inner[[r, c]] = cleared(turned[[r, c]], noise) * by * half;
            }
        }
    }
    w * inner * w.transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between -1 and 1 that look random.
    fn noise<const N: usize>(seed: usize) -> Matrix<f64, N, N> {
        Matrix::from_fn(|r, c| ((seed * 31 + r * 7 + c * 3) as f64 * 12.9898).sin())
    }

    fn dot<const N: usize>(a: Matrix<f64, N, N>, b: Matrix<f64, N, N>) -> f64 {
        (a * b.transpose()).trace()
    }

    fn along<const N: usize>(a: Vector<f64, N>, b: Vector<f64, N>) -> f64 {
        dot(Matrix::from_diagonal(a), Matrix::from_diagonal(b))
    }

    /// The derivative of a function along a direction, by central differences.
    fn difference<const N: usize>(
        f: impl Fn(Matrix<f64, N, N>) -> f64,
        m: Matrix<f64, N, N>,
        direction: Matrix<f64, N, N>,
    ) -> f64 {
        let step = 1e-5;
        (f(m + direction * step) - f(m - direction * step)) / (2.0 * step)
    }

    #[track_caller]
    fn near(found: f64, expected: f64) {
        let error = (found - expected).abs();
        assert!(
            error <= 1e-6 * expected.abs().max(1.0),
            "{found} {expected}"
        );
    }

    fn check<const N: usize>(m: Matrix<f64, N, N>) {
        let (a, b) = (noise::<N>(5), noise::<N>(6));
        let w = noise::<N>(7).diagonal();
        for seed in 0..4 {
            let direction = noise::<N>(seed);
            let svd = |m: Matrix<f64, N, N>| {
                let (u, sigma, v) = m.svd();
                dot(a, u) + along(w, sigma) + dot(b, v)
            };
            let gradient = svd_gradient(m, m.svd(), (a, w, b));
            near(dot(gradient, direction), difference(svd, m, direction));
            let polar = |m: Matrix<f64, N, N>| {
                let (r, s) = m.polar();
                dot(a, r) + dot(b, s)
            };
            let gradient = polar_gradient(m, m.polar(), (a, b));
            near(dot(gradient, direction), difference(polar, m, direction));
            let symmetric = m + m.transpose();
            let direction = direction + direction.transpose();
            let eigen = |m: Matrix<f64, N, N>| {
                let (values, vectors) = m.symmetric_eigen();
                along(w, values) + dot(a, vectors)
            };
            let found = symmetric.symmetric_eigen();
            let gradient = symmetric_eigen_gradient(symmetric, found, (w, a));
            let expected = difference(eigen, symmetric, direction);
            near(dot(gradient, direction), expected);
        }
    }

    #[test]
    fn gradients_agree_with_central_differences() {
        check(Matrix([[2.0]]));
        check(Matrix([[1.0, 0.3], [-0.2, 0.7]]));
        check(Matrix([[1.0, 0.3], [0.2, -0.7]]));
        check(noise::<3>(1));
        check(noise::<3>(2) * -1.0);
        check(noise::<4>(3) + Matrix::from_diagonal(Vector([3.0, -1.0, 2.0, 5.0])));
        check(noise::<5>(4) + Matrix::from_diagonal(Vector([3.0, -1.0, 2.0, 5.0, 9.0])));
    }

    /// The factor `r` as a function of the singular value decomposition has the gradient of the polar decomposition.
    fn check_rotation<T: Float, const N: usize>(sigma: Vector<f64, N>) {
        let (u, _, v) = noise::<N>(8).svd();
        let m = u * Matrix::from_diagonal(sigma) * v.transpose();
        let m: Matrix<T, N, N> = m.cast();
        let weight: Matrix<T, N, N> = noise::<N>(9).cast();
        let (u, s, v) = m.svd();
        let adjoint = (weight * v, Vector::ZERO, weight.transpose() * u);
        let found = svd_gradient(m, (u, s, v), adjoint);
        let expected = polar_gradient(m, m.polar(), (weight, Matrix::ZERO));
        let error: f64 = (found - expected).norm().cast();
        let epsilon: f64 = T::EPSILON.cast();
        let size: f64 = expected.norm().cast();
        assert!(error <= 100.0 * epsilon * size, "{found:?} {expected:?}");
    }

    #[test]
    fn rotations_have_gradients_where_singular_values_are_close() {
        for d in [0.0, 1e-15, 1e-12, 1e-7, 1e-6, 1e-5, 1e-4, 1e-2] {
            check_rotation::<f32, 2>(Vector([1.0 + d, 1.0]));
            check_rotation::<f64, 2>(Vector([1.0 + d, 1.0]));
            check_rotation::<f32, 3>(Vector([1.0 + d, 1.0, 1.0 - d]));
            check_rotation::<f64, 3>(Vector([1.0 + d, 1.0, 1.0 - d]));
        }
    }

    fn check_finite<T: Float, const N: usize>(m: Matrix<f64, N, N>) {
        let m: Matrix<T, N, N> = m.cast();
        let (a, b): (Matrix<T, N, N>, Matrix<T, N, N>) = (noise(1).cast(), noise(2).cast());
        let gradients = [
            svd_gradient(m, m.svd(), (a, a.diagonal(), b)),
            polar_gradient(m, m.polar(), (a, b)),
            symmetric_eigen_gradient(m, m.symmetric_eigen(), (a.diagonal(), a)),
        ];
        // Not the norm: the squares may overflow.
        let is_finite = |g: &Matrix<T, N, N>| g.0.as_flattened().iter().all(|x| x.is_finite());
        assert!(gradients.iter().all(is_finite), "{m:?}: {gradients:?}");
    }

    #[test]
    fn gradients_are_finite_for_all_matrices() {
        fn all<const N: usize>(m: Matrix<f64, N, N>) {
            check_finite::<f32, N>(m);
            check_finite::<f64, N>(m);
        }
        all(Matrix([[0.0; 2]; 2]));
        all(Matrix([[0.0; 3]; 3]));
        all(Matrix([[1.0; 2]; 2]));
        all(Matrix([[1.0; 3]; 3]));
        all(Matrix::<f64, 2, 2>::identity());
        all(Matrix::<f64, 3, 3>::identity() * -1e-20);
        all(Matrix::<f64, 3, 3>::identity() * 1e20);
        all(Matrix::from_diagonal(Vector([1.0, 1.0, -1.0])));
        all(Matrix::from_diagonal(Vector([1.0, -1.0])));
    }
}
