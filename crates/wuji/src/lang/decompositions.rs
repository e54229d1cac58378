//! Decompositions of square matrices: singular values, polar, eigenvalues.
//!
//! Written in the language, and so the same on the host, in kernels, and behind the decompositions of the Python package.
//! All functions are `precise`: they give the same bits in every math mode and tier, up to subnormal numbers that fast math flushes.
//!
//! Three rules keep them accurate for all matrices:
//! - Scales are powers of two ([`Float::unit_scale`]), so scaling rounds nothing and squares stay in range.
//! - What is too small to be squared is either negligible next to the matrix, and taken for zero, or scaled by itself.
//! - Where singular values are equal up to rounding, every rotation serves. It is the identity then, so that matrices near the
//!   identity have factors near the identity.

use super::decomposition_gradients::{polar_gradient, svd_gradient, symmetric_eigen_gradient};
use super::math::select;
use super::record::record_function;
use super::recording::Recording;
use super::shadow::unroll;
use super::{Float, Matrix, Vector};
use wuji_macros::func;

/// More rounds of rotations than any matrix needs to become diagonal in double precision.
const ROUNDS: i32 = 12;

/// The cosine, sine and tangent of half the angle of `(|x|, |y|)`, whose squares neither vanish nor overflow. Cosine and sine come
/// from the rounded tangent, so they belong to one rotation, however accurate the angle is.
#[func(precise)]
fn half_angle<T: Float>(x: T, y: T) -> (T, T, T) {
    let t = y.abs() / (x.abs() + (x * x + y * y).sqrt());
    let c = T::ONE / (T::ONE + t * t).sqrt();
    (c, c * t, t)
}

/// The first axis of a symmetric 2 x 2 matrix, that of the larger eigenvalue, and the tangent of the rotation to it or to the
/// second axis, whichever is nearer. `x` is the difference of the diagonal, `y` twice the other component, and differences up to
/// `negligible` count as none.
#[func(precise)]
fn major_axis<T: Float>(x: T, y: T, negligible: T) -> (Vector<T, 2>, T) {
    let settled = x.abs().max(y.abs()) <= negligible;
    let x = select(settled, T::ONE, x);
    let y = select(settled, T::ZERO, y);
    let (near, far, t) = half_angle(x, y);
    let c = select(x < T::ZERO, far, near);
    let s = select(x < T::ZERO, near, far);
    (Vector([c, select(y < T::ZERO, -s, s)]), t)
}

/// A unit vector that is orthogonal to the first columns of an orthogonal matrix.
#[func(precise)]
fn orthogonal_to<T: Float, const N: usize>(m: Matrix<T, N, N>, columns: usize) -> Vector<T, N> {
    // From the axis that is farthest from them.
    let mut axis = Vector::<T, N>::ZERO;
    let mut least = T::from_f64(2.0);
    for k in unroll(0..N) {
        let mut near = T::ZERO;
        for c in unroll(0..N) {
            if c < columns {
                near += m[[k, c]] * m[[k, c]];
            }
        }
        if near < least {
            least = near;
            axis = Vector::<T, N>::ZERO;
            axis[k] = T::ONE;
        }
    }
    let rest = without(m, columns, axis);
    rest / square(rest).sqrt()
}

/// What is left of a vector without its parts along the first columns of an orthogonal matrix.
#[func(precise)]
fn without<T: Float, const N: usize>(
    m: Matrix<T, N, N>,
    columns: usize,
    v: Vector<T, N>,
) -> Vector<T, N> {
    let mut rest = v;
    for c in unroll(0..N) {
        if c < columns {
            rest -= m.col(c) * product(m.col(c), v);
        }
    }
    rest
}

#[func(precise)]
fn product<T: Float, const N: usize>(a: Vector<T, N>, b: Vector<T, N>) -> T {
    let mut sum = a[0] * b[0];
    for k in unroll(1..N) {
        sum += a[k] * b[k];
    }
    sum
}

#[func(precise)]
fn square<T: Float, const N: usize>(v: Vector<T, N>) -> T {
    product(v, v)
}

/// `a * b.transpose()`.
#[func(precise)]
fn times_transposed<T: Float, const N: usize>(
    a: Matrix<T, N, N>,
    b: Matrix<T, N, N>,
) -> Matrix<T, N, N> {
    let mut m = a;
    for r in unroll(0..N) {
        for c in unroll(0..N) {
            m[[r, c]] = product(a.row(r), b.row(c));
        }
    }
    m
}

/// The power of two that scales the largest component to about 1.
#[func(precise)]
fn scale_of<T: Float, const N: usize>(m: Matrix<T, N, N>) -> T {
    let mut largest = T::ZERO;
    for r in unroll(0..N) {
        for c in unroll(0..N) {
            largest = largest.max(m[[r, c]].abs());
        }
    }
    largest.unit_scale()
}

/// The first columns of `u` and `v`, which are rotations, and the singular values of a 2 x 2 matrix: the second one has the sign
/// of the determinant.
#[func(precise)]
fn svd_2<T: Float, const N: usize>(
    m: Matrix<T, N, N>,
) -> (Vector<T, 2>, Vector<T, 2>, Vector<T, 2>) {
    let scale = scale_of(m);
    let (a, b) = (m[[0, 0]] * scale, m[[0, 1]] * scale);
    let (c, d) = (m[[1, 0]] * scale, m[[1, 1]] * scale);
    // A rotation, scaled by the sum of the singular values, and a reflection, scaled by their difference.
    let (e, h) = (a + d, c - b);
    let (f, g) = (a - d, c + b);
    // Of `transpose(m) * m`. These products have no cancellation, unlike the squares of the columns.
    let (x, y) = (f * e + g * h, g * e - f * h);
    let all = (e * e + h * h) + (f * f + g * g);
    let (v, _) = major_axis(x, y, T::EPSILON * T::from_f64(0.0625) * all);
    let (w0, w1) = (a * v[0] + b * v[1], c * v[0] + d * v[1]);
    let (z0, z1) = (b * v[0] - a * v[1], d * v[0] - c * v[1]);
    let first = (w0 * w0 + w1 * w1).sqrt();
    let zero = first == T::ZERO;
    let by = select(zero, T::ONE, first);
    let u = Vector([select(zero, T::ONE, w0 / by), w1 / by]);
    let second = (u[0] * z1 - u[1] * z0).min(first).max(-first);
    let back = scale.unit_scale();
    (u, Vector([first * back, second * back]), v)
}

/// `u` and `v` are rotations of three dimensions, and the last singular value has the sign of the determinant; in more
/// dimensions, `u` is orthogonal, and no singular value is negative.
#[func(precise)]
fn svd_n<T: Float, const N: usize>(
    m: Matrix<T, N, N>,
) -> (Matrix<T, N, N>, Vector<T, N>, Matrix<T, N, N>) {
    let scale = scale_of(m);
    let (b, v) = orthogonal_columns(m * scale);
    let mut u = Matrix::<T, N, N>::identity();
    let mut sigma = Vector::<T, N>::ZERO;
    let mut largest = T::ZERO;
    for p in unroll(0..N) {
        let mut column = b.col(p);
        let signed = N == 3 && p == 2;
        if signed {
            let (x, y) = (u.col(0), u.col(1));
            column[0] = x[1] * y[2] - x[2] * y[1];
            column[1] = x[2] * y[0] - x[0] * y[2];
            column[2] = x[0] * y[1] - x[1] * y[0];
        } else {
            column = direction(u, p, column);
        }
        let mut value = product(column, b.col(p));
        if p == 0 {
            value = square(b.col(0)).sqrt();
            largest = value;
        }
        // Rounding must not reorder equal singular values or make noise negative.
        let least = if signed { -largest } else { T::ZERO };
        largest = value.max(least).min(largest);
        sigma[p] = largest;
        for k in unroll(0..N) {
            u[[k, p]] = column[k];
        }
    }
    (u, sigma * scale.unit_scale(), v)
}

/// The direction of a vector without its parts along the first columns of an orthogonal matrix, or any if nothing is left.
#[func(precise)]
fn direction<T: Float, const N: usize>(
    u: Matrix<T, N, N>,
    columns: usize,
    v: Vector<T, N>,
) -> Vector<T, N> {
    let mut rest = without(u, columns, v);
    let mut largest = T::ZERO;
    for k in unroll(0..N) {
        largest = largest.max(rest[k].abs());
    }
    rest = rest * largest.unit_scale();
    let before = square(rest);
    // Once more, because rounding counts for more in what is left.
    rest = without(u, columns, rest);
    let after = square(rest);
    if after > T::from_f64(0.25) * before {
        rest / after.sqrt()
    } else {
        orthogonal_to(u, columns)
    }
}

/// Rotates the columns of a matrix until they are orthogonal to each other, the longest first; the matrix and the rotation.
#[func(precise)]
fn orthogonal_columns<T: Float, const N: usize>(
    m: Matrix<T, N, N>,
) -> (Matrix<T, N, N>, Matrix<T, N, N>) {
    let mut b = m;
    let mut v = Matrix::<T, N, N>::identity();
    let tolerance = T::EPSILON * T::EPSILON;
    // Two columns with a smaller product are orthogonal, or shorter than what rounding does to the longest.
    let negligible = tolerance * tolerance * T::from_f64(1.0 / 4096.0);
    for _ in 0..ROUNDS {
        let mut rotated = false;
        for p in unroll(0..N) {
            for q in unroll(p + 1..N) {
                let alpha = square(b.col(p));
                let beta = square(b.col(q));
                let gamma = product(b.col(p), b.col(q));
                if gamma * gamma > tolerance * alpha * beta + negligible {
                    rotated = true;
                    let difference = alpha - beta;
                    let (c, s, _) = half_angle(difference, gamma + gamma);
                    let s = select((gamma < T::ZERO) != (difference < T::ZERO), -s, s);
                    for k in unroll(0..N) {
                        let (x, y) = (b[[k, p]], b[[k, q]]);
                        b[[k, p]] = c * x + s * y;
                        b[[k, q]] = c * y - s * x;
                        let (x, y) = (v[[k, p]], v[[k, q]]);
                        v[[k, p]] = c * x + s * y;
                        v[[k, q]] = c * y - s * x;
                    }
                }
            }
        }
        if !rotated {
            break;
        }
    }
    let mut squares = Vector::<T, N>::ZERO;
    for p in unroll(0..N) {
        squares[p] = square(b.col(p));
    }
    for p in unroll(0..N) {
        for q in unroll(p + 1..N) {
            if squares[q] > squares[p] {
                (squares[p], squares[q]) = (squares[q], squares[p]);
                // Negating one of two columns makes the swap a rotation.
                for k in unroll(0..N) {
                    (b[[k, p]], b[[k, q]]) = (b[[k, q]], -b[[k, p]]);
                    (v[[k, p]], v[[k, q]]) = (v[[k, q]], -v[[k, p]]);
                }
            }
        }
    }
    (b, nearest_rotation(v))
}

/// Takes the errors of many rotations out of their product.
#[func(precise)]
fn nearest_rotation<T: Float, const N: usize>(v: Matrix<T, N, N>) -> Matrix<T, N, N> {
    let half = T::from_f64(0.5);
    let mut error = v;
    for r in unroll(0..N) {
        for c in unroll(r..N) {
            let expected = if r == c { T::ONE } else { T::ZERO };
            error[[r, c]] = (product(v.col(r), v.col(c)) - expected) * half;
            error[[c, r]] = error[[r, c]];
        }
    }
    let mut nearest = v;
    for r in unroll(0..N) {
        for c in unroll(0..N) {
            nearest[[r, c]] = v[[r, c]] - product(v.row(r), error.col(c));
        }
    }
    nearest
}

/// Eigenvalues, the largest first, and eigenvectors of a symmetric matrix. The vectors are the columns of a rotation.
#[func(precise)]
fn symmetric_eigen_n<T: Float, const N: usize>(
    m: Matrix<T, N, N>,
) -> (Vector<T, N>, Matrix<T, N, N>) {
    let scale = scale_of(m);
    let mut m = m * scale;
    let mut v = Matrix::<T, N, N>::identity();
    for _ in 0..ROUNDS {
        let mut rotated = false;
        for p in unroll(0..N) {
            for q in unroll(p + 1..N) {
                let off = m[[p, q]];
                if off.abs() > T::EPSILON * T::from_f64(0.25) {
                    rotated = true;
                    let difference = m[[p, p]] - m[[q, q]];
                    let (c, s, t) = half_angle(difference, off + off);
                    let minus = (off < T::ZERO) != (difference < T::ZERO);
                    let (s, t) = (select(minus, -s, s), select(minus, -t, t));
                    m[[p, p]] += t * off;
                    m[[q, q]] -= t * off;
                    m[[p, q]] = T::ZERO;
                    m[[q, p]] = T::ZERO;
                    for k in unroll(0..N) {
                        if k != p && k != q {
                            let (x, y) = (m[[k, p]], m[[k, q]]);
                            m[[k, p]] = c * x + s * y;
                            m[[k, q]] = c * y - s * x;
                            m[[p, k]] = m[[k, p]];
                            m[[q, k]] = m[[k, q]];
                        }
                        let (x, y) = (v[[k, p]], v[[k, q]]);
                        v[[k, p]] = c * x + s * y;
                        v[[k, q]] = c * y - s * x;
                    }
                }
            }
        }
        if !rotated {
            break;
        }
    }
    let mut values = m.diagonal();
    for p in unroll(0..N) {
        for q in unroll(p + 1..N) {
            if values[q] > values[p] {
                (values[p], values[q]) = (values[q], values[p]);
                for k in unroll(0..N) {
                    (v[[k, p]], v[[k, q]]) = (v[[k, q]], -v[[k, p]]);
                }
            }
        }
    }
    (values * scale.unit_scale(), nearest_rotation(v))
}

/// The same of a 2 x 2 matrix, of which the upper component is not read.
#[func(precise)]
fn symmetric_eigen_2<T: Float, const N: usize>(m: Matrix<T, N, N>) -> (Vector<T, 2>, Vector<T, 2>) {
    let scale = scale_of(m);
    let (a, b, d) = (m[[0, 0]] * scale, m[[1, 0]] * scale, m[[1, 1]] * scale);
    let negligible = T::EPSILON * T::from_f64(0.0625) * (a.abs() + d.abs());
    let (axis, t) = major_axis(a - d, b + b, negligible);
    let step = b.abs() * t;
    let back = scale.unit_scale();
    let values = Vector([(a.max(d) + step) * back, (a.min(d) - step) * back]);
    (values, axis)
}

/// `[[c, -s], [s, c]]` in the corner of a matrix, with the second column negated if asked for.
#[func(precise)]
fn rotation<T: Float, const N: usize>(axis: Vector<T, 2>, reflected: bool) -> Matrix<T, N, N> {
    let mut m = Matrix::<T, N, N>::identity();
    m[[0, 0]] = axis[0];
    m[[1, 0]] = axis[1];
    m[[0, 1]] = select(reflected, axis[1], -axis[1]);
    m[[1, 1]] = select(reflected, -axis[0], axis[0]);
    m
}

/// The polar decomposition of a 2 x 2 matrix, from the closest rotation or reflection. It needs no singular values.
#[func(precise)]
fn polar_2<T: Float, const N: usize>(m: Matrix<T, N, N>) -> (Matrix<T, N, N>, Matrix<T, N, N>) {
    let scale = scale_of(m);
    let (a, b) = (m[[0, 0]] * scale, m[[0, 1]] * scale);
    let (c, d) = (m[[1, 0]] * scale, m[[1, 1]] * scale);
    let (e, h) = (a + d, c - b);
    let (f, g) = (a - d, c + b);
    let (turns, reflects) = (e * e + h * h, f * f + g * g);
    let reflected = reflects > turns;
    let length = select(reflected, reflects, turns).sqrt();
    let zero = length == T::ZERO;
    let by = select(zero, T::ONE, length);
    let x = select(zero, T::ONE, select(reflected, f, e) / by);
    let y = select(reflected, g, h) / by;
    let r = rotation::<T, N>(Vector([x, y]), reflected);
    let half = scale.unit_scale() * T::from_f64(0.5);
    let off = (x * b + y * d) + (r[[0, 1]] * a + r[[1, 1]] * c);
    let mut s = m;
    s[[0, 0]] = (x * a + y * c) * scale.unit_scale();
    s[[1, 1]] = (r[[0, 1]] * b + r[[1, 1]] * d) * scale.unit_scale();
    s[[0, 1]] = off * half;
    s[[1, 0]] = s[[0, 1]];
    (r, s)
}

/// `(u * v.transpose(), v * sigma * v.transpose())`, the second one symmetric to the bit.
#[func(precise)]
fn polar_of<T: Float, const N: usize>(
    u: Matrix<T, N, N>,
    sigma: Vector<T, N>,
    v: Matrix<T, N, N>,
) -> (Matrix<T, N, N>, Matrix<T, N, N>) {
    let mut scaled = v;
    for r in unroll(0..N) {
        for c in unroll(0..N) {
            scaled[[r, c]] = v[[r, c]] * sigma[c];
        }
    }
    let mut s = times_transposed(scaled, v);
    for r in unroll(0..N) {
        for c in unroll(r + 1..N) {
            s[[r, c]] = s[[c, r]];
        }
    }
    (nearest_rotation(times_transposed(u, v)), s)
}

impl<T: Float, const N: usize> Matrix<T, N, N> {
    /// Eigenvalues, the largest first, and eigenvectors as columns, of a symmetric matrix.
    ///
    /// ```
    /// use wuji::lang::mat2;
    ///
    /// let (values, vectors) = mat2(2.0, 1.0, 1.0, 2.0).symmetric_eigen();
    /// assert_eq!(values.x, 3.0);
    /// assert!((vectors.col(0).x.abs() - 0.5f32.sqrt()).abs() < 1e-6);
    /// ```
    #[func(precise, reverse = symmetric_eigen_gradient)]
    pub fn symmetric_eigen(self) -> (Vector<T, N>, Matrix<T, N, N>) {
        if N == 2 {
            let (two, axis) = symmetric_eigen_2(self);
            let mut values = Vector::<T, N>::ZERO;
            for k in unroll(0..N) {
                values[k] = two[k];
            }
            (values, rotation(axis, false))
        } else {
            symmetric_eigen_n(self)
        }
    }

    /// `(u, sigma, v)` with `self == u * from_diagonal(sigma) * v.transpose()`: `u` and `v` are orthogonal,
    /// `sigma` is not negative, the largest first.
    ///
    /// `u` and `v` are the identity for a multiple of the identity, and for matrices that differ from it by rounding.
    #[func(precise, reverse = svd_gradient)]
    pub fn svd(self) -> (Matrix<T, N, N>, Vector<T, N>, Matrix<T, N, N>) {
        if N == 2 {
            let (u, two, v) = svd_2(self);
            let mut sigma = Vector::<T, N>::ZERO;
            for k in unroll(0..N) {
                sigma[k] = two[k].abs();
            }
            (rotation(u, two[1] < T::ZERO), sigma, rotation(v, false))
        } else {
            let (mut u, mut sigma, v) = svd_n(self);
            let minus = sigma[N - 1] < T::ZERO;
            sigma[N - 1] = sigma[N - 1].abs();
            for k in unroll(0..N) {
                u[[k, N - 1]] = select(minus, -u[[k, N - 1]], u[[k, N - 1]]);
            }
            (u, sigma, v)
        }
    }

    /// `(r, s)` with `self == r * s`: `r` is orthogonal, `s` is symmetric without negative eigenvalues.
    #[func(precise, reverse = polar_gradient)]
    pub fn polar(self) -> (Matrix<T, N, N>, Matrix<T, N, N>) {
        if N == 2 {
            polar_2(self)
        } else {
            let (u, sigma, v) = self.svd();
            polar_of(u, sigma, v)
        }
    }
}

/// The singular value decomposition with rotations `u` and `v`: the last value has the sign of the determinant.
#[func(precise, reverse = svd_gradient)]
fn svd_by_rotations<T: Float>(
    m: Matrix<T, 3, 3>,
) -> (Matrix<T, 3, 3>, Vector<T, 3>, Matrix<T, 3, 3>) {
    svd_n(m)
}

/// The polar decomposition with a rotation.
#[func(precise, reverse = polar_gradient)]
fn polar_by_rotation<T: Float>(m: Matrix<T, 3, 3>) -> (Matrix<T, 3, 3>, Matrix<T, 3, 3>) {
    let (u, sigma, v) = svd_n(m);
    polar_of(u, sigma, v)
}

/// Eigenvalues and eigenvectors of any 2 x 2 matrix. A value is a row: real and imaginary part. A vector is a column: real and
/// imaginary part of the first component, then of the second. The larger value, or that with a positive imaginary part, is first.
#[func(precise)]
fn eigen_2<T: Float>(m: Matrix<T, 2, 2>) -> (Matrix<T, 2, 2>, Matrix<T, 4, 2>) {
    let scale = scale_of(m);
    let (a, b) = (m[[0, 0]] * scale, m[[0, 1]] * scale);
    let (c, d) = (m[[1, 0]] * scale, m[[1, 1]] * scale);
    let half = T::from_f64(0.5);
    let (middle, f) = ((a + d) * half, (a - d) * half);
    let under = f * f + b * c;
    let real = under >= T::ZERO;
    let root = under.abs().sqrt();
    let (along, across) = (select(real, root, T::ZERO), select(real, T::ZERO, root));
    let values = Matrix([[middle + along, across], [middle - along, -across]]);
    let mut vectors = Matrix::<T, 4, 2>::ZERO;
    for k in unroll(0..2) {
        let step = if k == 0 { root } else { -root };
        // Perpendicular to the longer row of `m - value`. If both are zero, any vector will do.
        let (x0, y0) = (f + step, c);
        let (x1, y1) = (b, step - f);
        let longer = x0.abs().max(y0.abs()) >= x1.abs().max(y1.abs());
        let (mut x, mut y) = (select(longer, x0, x1), select(longer, y0, y1));
        if x == T::ZERO && y == T::ZERO {
            x = if k == 0 { T::ONE } else { T::ZERO };
            y = if k == 0 { T::ZERO } else { T::ONE };
        }
        // Complex: `(value - d, c)`, and `c` is not zero.
        let mut column = Vector([f, step, c]);
        if real {
            column = Vector([x, T::ZERO, y]);
        }
        let column = direction(Matrix::<T, 3, 3>::identity(), 0, column);
        vectors[[0, k]] = column[0];
        vectors[[1, k]] = column[1];
        vectors[[2, k]] = column[2];
    }
    (values * scale.unit_scale(), vectors)
}

/// A function that frontends put into their modules.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Decomposition {
    /// `(u, sigma, v)`. Of 2 x 2 matrices, as [`Matrix::svd`] has it. Of 3 x 3 matrices, `u` and `v` are rotations, and the last
    /// value has the sign of the determinant.
    Svd,
    /// `(r, s)`. Of 2 x 2 matrices, as [`Matrix::polar`] has it. Of 3 x 3 matrices, `r` is a rotation.
    Polar,
    /// `(values, vectors)`, as [`Matrix::symmetric_eigen`] has it. The vectors are the columns of a rotation.
    SymmetricEigen,
    /// `(values, vectors)` of a 2 x 2 matrix.
    Eigen,
}

/// What a decomposition of `N` x `N` matrices is made of; `None` if there is none.
pub(crate) fn recording<T: Float>(what: Decomposition, size: usize) -> Option<Recording> {
    type Square<T, const N: usize> = Matrix<T, N, N>;
    Some(match (what, size) {
        (Decomposition::Svd, 2) => record_function(|m: Square<T, 2>| m.svd()),
        (Decomposition::Svd, 3) => record_function(|m: Square<T, 3>| svd_by_rotations(m)),
        (Decomposition::Polar, 2) => record_function(|m: Square<T, 2>| m.polar()),
        (Decomposition::Polar, 3) => record_function(|m: Square<T, 3>| polar_by_rotation(m)),
        (Decomposition::SymmetricEigen, 2) => {
            record_function(|m: Square<T, 2>| m.symmetric_eigen())
        }
        (Decomposition::SymmetricEigen, 3) => {
            record_function(|m: Square<T, 3>| m.symmetric_eigen())
        }
        (Decomposition::Eigen, 2) => record_function(|m: Square<T, 2>| eigen_2(m)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Checks the decompositions of a matrix, with its components rounded to `T`.
    fn check<T: Float, const N: usize>(m: Matrix<f64, N, N>) {
        let exact = |m: Matrix<T, N, N>| -> Matrix<f64, N, N> { m.cast() };
        let m: Matrix<T, N, N> = m.cast();
        let epsilon: f64 = T::EPSILON.cast();
        // In `f64` the check itself rounds.
        let ulps = if epsilon < 1e-10 || N > 3 { 10.0 } else { 5.0 };
        let scale: f64 = scale_of(m).cast();
        let near = |a: Matrix<f64, N, N>, b: Matrix<f64, N, N>| {
            let size = b.norm().max(1.0);
            assert!(
                (a - b).norm() <= ulps * epsilon * size,
                "{m:?}: {a:?} {b:?}"
            );
        };
        let scaled = |m: Matrix<T, N, N>| exact(m) * scale;
        let values = |v: Vector<T, N>| -> Matrix<f64, N, N> {
            Matrix::from_diagonal(v.cast::<f64>() * scale)
        };
        let (u, sigma, v) = m.svd();
        near(exact(u) * exact(u).transpose(), Matrix::identity());
        near(exact(v) * exact(v).transpose(), Matrix::identity());
        near(exact(u) * values(sigma) * exact(v).transpose(), scaled(m));
        assert!(sigma.0.is_sorted_by(|a, b| a >= b), "{m:?}: {sigma:?}");
        assert!(sigma[N - 1] >= T::ZERO, "{m:?}: {sigma:?}");
        let (r, s) = m.polar();
        near(exact(r) * exact(r).transpose(), Matrix::identity());
        near(exact(r) * scaled(s), scaled(m));
        assert_eq!(s, s.transpose());
        let mut symmetric = m;
        for r in 0..N {
            for c in 0..r {
                symmetric[[c, r]] = m[[r, c]];
            }
        }
        let (lambda, w) = symmetric.symmetric_eigen();
        near(exact(w) * exact(w).transpose(), Matrix::identity());
        near(
            exact(w) * values(lambda) * exact(w).transpose(),
            scaled(symmetric),
        );
        assert!(lambda.0.is_sorted_by(|a, b| a >= b), "{m:?}: {lambda:?}");
    }

    fn check_all<const N: usize>(m: Matrix<f64, N, N>) {
        check::<f32, N>(m);
        check::<f64, N>(m);
    }

    #[test]
    fn decompositions_put_together_give_the_matrix() {
        check_all(Matrix([[1.0, 2.0], [3.0, 4.0]]));
        check_all(Matrix([[0.0, 0.0], [0.0, 0.0]]));
        check_all(Matrix([[1.0, 1.0], [1.0, 1.0]]));
        check_all(Matrix([[1.0, 0.0], [0.0, -2.0]]));
        check_all(Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]));
        check_all(Matrix([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]));
        check_all(Matrix([
            [0.0, 0.0, 1e-8],
            [1e8, 0.0, 0.0],
            [0.0, -1.0, 0.0],
        ]));
        check_all(Matrix::<f64, 3, 3>::identity());
        check_all(Matrix([[0.0f64; 3]; 3]));
        check_all(Matrix([[3.0]]));
        check_all(Matrix([
            [4.0, 1.0, 0.5, 2.0],
            [1.0, 3.0, -1.0, 0.0],
            [0.0, 2.0, 5.0, 1.0],
            [1.0, -1.0, 0.0, 2.0],
        ]));
    }

    fn check_many<const N: usize>() {
        let state = Cell::new(7u64);
        // Between -1 and 1.
        let noise = || {
            let next = state.get().wrapping_mul(6364136223846793005);
            state.set(next.wrapping_add(1442695040888963407));
            (state.get() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        for k in 0..2000 {
            let any = Matrix::<f64, N, N>::from_fn(|_, _| noise());
            check_all::<N>(any);
            check_all::<N>(any * 10f64.powf(38.0 * noise() - 0.2));
            check_all::<N>(Matrix::<f64, N, N>::identity() + any * 10f64.powi(-(k % 46)));
            let graded = |_, _| noise() * 10f64.powf(15.0 * noise() - 15.0);
            check_all::<N>(Matrix::<f64, N, N>::from_fn(graded));
            let rank_one = |r: usize, c: usize| any[[r, 0]] * any[[0, c]];
            check_all::<N>(Matrix::<f64, N, N>::from_fn(rank_one));
        }
    }

    #[test]
    fn decompositions_of_all_kinds_of_matrices_are_accurate() {
        check_many::<2>();
        check_many::<3>();
    }

    #[test]
    fn a_matrix_near_the_identity_has_factors_near_the_identity() {
        let one = Matrix::<f32, 2, 2>::identity();
        for k in 8..46 {
            let tiny = 10f32.powi(-k);
            let m = Matrix([[1.0, tiny], [0.0, 1.0]]);
            assert_eq!(m.svd(), (one, Vector([1.0, 1.0]), one), "{m:?}");
            let (r, _) = m.polar();
            assert_eq!(r, Matrix([[1.0, 0.5 * tiny], [-0.5 * tiny, 1.0]]), "{m:?}");
        }
        let (u, sigma, v) = Matrix([[1.0, 3.1e-19f32], [-3.2e-19, 1.0]]).svd();
        let turned = Matrix([[1.0, 3.2e-19f32], [-3.2e-19, 1.0]]);
        assert_eq!((u, sigma, v), (turned, Vector([1.0, 1.0]), one));
    }
}
