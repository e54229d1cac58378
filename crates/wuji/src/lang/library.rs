//! Functions of the language that are written in it, and so run on the host and in kernels alike.

use super::shadow::unroll;
use super::{Float, Matrix, Vector, random};
use wuji_macros::func;

/// More rounds of rotations than any matrix needs to become diagonal in double precision.
const ROUNDS: i32 = 12;

/// A random number from the normal distribution with mean 0 and deviation 1.
#[func]
pub fn random_normal() -> f32 {
    // Never zero, so the logarithm is finite.
    let u = 1.0 - random::<f32>();
    let angle = random::<f32>() * std::f32::consts::TAU;
    (-2.0 * u.ln()).sqrt() * angle.cos()
}

/// The tangent, cosine and sine of the rotation that removes `2 * off` between two values `difference` apart.
#[func]
fn rotation<T: Float>(difference: T, off: T) -> (T, T, T) {
    let zeta = difference / (off + off);
    let size = zeta.abs() + (T::ONE + zeta * zeta).sqrt();
    let t = if zeta < T::ZERO {
        -T::ONE / size
    } else {
        T::ONE / size
    };
    let c = (T::ONE + t * t).rsqrt();
    (t, c, c * t)
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
    #[func]
    pub fn symmetric_eigen(self) -> (Vector<T, N>, Matrix<T, N, N>) {
        let mut m = self;
        let mut v = Matrix::<T, N, N>::identity();
        for _ in 0..ROUNDS {
            let mut off = T::ZERO;
            for p in unroll(0..N) {
                for q in unroll(p + 1..N) {
                    off += m[[p, q]].abs();
                }
            }
            if off == T::ZERO {
                break;
            }
            for p in unroll(0..N) {
                for q in unroll(p + 1..N) {
                    let size = m[[p, p]].abs() + m[[q, q]].abs();
                    // Small enough that it changes neither of them.
                    if size + m[[p, q]].abs() == size {
                        m[[p, q]] = T::ZERO;
                        m[[q, p]] = T::ZERO;
                    }
                    if m[[p, q]] != T::ZERO {
                        let (t, c, s) = rotation(m[[q, q]] - m[[p, p]], m[[p, q]]);
                        let shift = t * m[[p, q]];
                        m[[p, p]] -= shift;
                        m[[q, q]] += shift;
                        m[[p, q]] = T::ZERO;
                        m[[q, p]] = T::ZERO;
                        for k in unroll(0..N) {
                            if k != p {
                                if k != q {
                                    let a = m[[k, p]];
                                    let b = m[[k, q]];
                                    m[[k, p]] = c * a - s * b;
                                    m[[k, q]] = s * a + c * b;
                                    m[[p, k]] = m[[k, p]];
                                    m[[q, k]] = m[[k, q]];
                                }
                            }
                            let a = v[[k, p]];
                            let b = v[[k, q]];
                            v[[k, p]] = c * a - s * b;
                            v[[k, q]] = s * a + c * b;
                        }
                    }
                }
            }
        }
        let mut values = m.diagonal();
        for p in unroll(0..N) {
            for q in unroll(p + 1..N) {
                if values[q] > values[p] {
                    (values[p], values[q]) = (values[q], values[p]);
                    for k in unroll(0..N) {
                        (v[[k, p]], v[[k, q]]) = (v[[k, q]], v[[k, p]]);
                    }
                }
            }
        }
        (values, v)
    }

    /// `(u, sigma, v)` with `self == u * from_diagonal(sigma) * v.transpose()`: `u` and `v` are orthogonal,
    /// `sigma` is not negative, the largest first.
    #[func]
    pub fn svd(self) -> (Matrix<T, N, N>, Vector<T, N>, Matrix<T, N, N>) {
        // Rotates the columns until they are orthogonal to each other.
        let mut b = self;
        let mut v = Matrix::<T, N, N>::identity();
        for _ in 0..ROUNDS {
            let mut rotated = false;
            for p in unroll(0..N) {
                for q in unroll(p + 1..N) {
                    let alpha = b.col(p).norm_sqr();
                    let beta = b.col(q).norm_sqr();
                    let gamma = b.col(p).dot(b.col(q));
                    let size = (alpha * beta).sqrt();
                    if size + gamma.abs() != size {
                        rotated = true;
                        let (_, c, s) = rotation(beta - alpha, gamma);
                        for k in unroll(0..N) {
                            let x = b[[k, p]];
                            let y = b[[k, q]];
                            b[[k, p]] = c * x - s * y;
                            b[[k, q]] = s * x + c * y;
                            let x = v[[k, p]];
                            let y = v[[k, q]];
                            v[[k, p]] = c * x - s * y;
                            v[[k, q]] = s * x + c * y;
                        }
                    }
                }
            }
            if !rotated {
                break;
            }
        }
        for p in unroll(0..N) {
            for q in unroll(p + 1..N) {
                if b.col(q).norm_sqr() > b.col(p).norm_sqr() {
                    for k in unroll(0..N) {
                        (b[[k, p]], b[[k, q]]) = (b[[k, q]], b[[k, p]]);
                        (v[[k, p]], v[[k, q]]) = (v[[k, q]], v[[k, p]]);
                    }
                }
            }
        }
        let mut sigma = Vector::<T, N>::ZERO;
        let mut u = b;
        for p in unroll(0..N) {
            let mut column = b.col(p);
            let length = column.norm();
            sigma[p] = length;
            if length > T::ZERO {
                column = column / length;
            } else {
                column = orthogonal_to(u, p);
            }
            for k in unroll(0..N) {
                u[[k, p]] = column[k];
            }
        }
        (u, sigma, v)
    }

    /// `(r, s)` with `self == r * s`: `r` is orthogonal, `s` is symmetric without negative eigenvalues.
    #[func]
    pub fn polar(self) -> (Matrix<T, N, N>, Matrix<T, N, N>) {
        let (u, sigma, v) = self.svd();
        let back = v.transpose();
        (u * back, v * Matrix::from_diagonal(sigma) * back)
    }
}

/// A unit vector that is orthogonal to the first columns of a matrix.
#[func]
fn orthogonal_to<T: Float, const N: usize>(m: Matrix<T, N, N>, columns: usize) -> Vector<T, N> {
    let mut best = Vector::<T, N>::ZERO;
    for axis in unroll(0..N) {
        let mut candidate = Vector::<T, N>::ZERO;
        candidate[axis] = T::ONE;
        for c in unroll(0..N) {
            if c < columns {
                candidate -= m.col(c) * m.col(c).dot(candidate);
            }
        }
        if candidate.norm_sqr() > best.norm_sqr() {
            best = candidate;
        }
    }
    best.normalized()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const N: usize>(m: Matrix<f64, N, N>) {
        let (u, sigma, v) = m.svd();
        let close = |a: Matrix<f64, N, N>, b: Matrix<f64, N, N>| {
            assert!((a - b).norm() < 1e-12 * (1.0 + m.norm()), "{a:?} {b:?}");
        };
        close(u * Matrix::from_diagonal(sigma) * v.transpose(), m);
        close(u * u.transpose(), Matrix::identity());
        close(v * v.transpose(), Matrix::identity());
        assert!(sigma.0.is_sorted_by(|a, b| a >= b), "{sigma:?}");
        assert!(sigma[N - 1] >= 0.0);
        let (r, s) = m.polar();
        close(r * s, m);
        close(s, s.transpose());
        let symmetric = m + m.transpose();
        let (values, vectors) = symmetric.symmetric_eigen();
        let again = vectors * Matrix::from_diagonal(values) * vectors.transpose();
        assert!((again - symmetric).norm() < 1e-11 * (1.0 + m.norm()));
        close(vectors * vectors.transpose(), Matrix::identity());
        assert!(values.0.is_sorted_by(|a, b| a >= b), "{values:?}");
    }

    #[test]
    fn decompositions_put_together_give_the_matrix() {
        check(Matrix([[1.0, 2.0], [3.0, 4.0]]));
        check(Matrix([[0.0, 0.0], [0.0, 0.0]]));
        check(Matrix([[1.0, 1.0], [1.0, 1.0]]));
        check(Matrix([[1.0, 0.0], [0.0, -2.0]]));
        check(Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]));
        check(Matrix([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]));
        check(Matrix([
            [0.0, 0.0, 1e-8],
            [1e8, 0.0, 0.0],
            [0.0, -1.0, 0.0],
        ]));
        check(Matrix::<f64, 3, 3>::identity());
        check(Matrix([[0.0f64; 3]; 3]));
    }
}
