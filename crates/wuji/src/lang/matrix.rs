//! Matrices.

use super::num::{Float, Num, Signed};
use super::vector::Vector;
use crate::element::{Element, ScalarElement};
use half::f16;
use std::fmt;
use std::ops::*;
use wuji_ir::Result;
use wuji_ir::types::{Structs, Type};
use wuji_runtime::array::{ArrayArg, Strides};

/// `R` rows of `C` numbers. `*` is the matrix product; the other operators work component by component.
///
/// ```
/// use wuji::lang::{Mat2, vec2};
///
/// let m = Mat2::from_rows([vec2(2.0, 1.0), vec2(0.0, 4.0)]);
/// assert_eq!(m * vec2(1.0, 1.0), vec2(3.0, 4.0));
/// assert_eq!(m.determinant(), 8.0);
/// assert_eq!(m.inverse() * m, Mat2::identity());
/// assert_eq!(m[[0, 1]], 1.0);
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Matrix<T, const R: usize, const C: usize>(pub [[T; C]; R]);

/// A 2 x 2 matrix of `f32`.
pub type Mat2 = Matrix<f32, 2, 2>;
/// A 3 x 3 matrix of `f32`.
pub type Mat3 = Matrix<f32, 3, 3>;
/// A 4 x 4 matrix of `f32`.
pub type Mat4 = Matrix<f32, 4, 4>;
/// A 2 x 2 matrix of `f64`.
pub type DMat2 = Matrix<f64, 2, 2>;
/// A 3 x 3 matrix of `f64`.
pub type DMat3 = Matrix<f64, 3, 3>;
/// A 4 x 4 matrix of `f64`.
pub type DMat4 = Matrix<f64, 4, 4>;

/// A matrix from its numbers, row by row.
#[inline]
pub const fn mat2(m00: f32, m01: f32, m10: f32, m11: f32) -> Mat2 {
    Matrix([[m00, m01], [m10, m11]])
}

impl<T: ScalarElement, const R: usize, const C: usize> Element for Matrix<T, R, C> {
    const SIZE: usize = T::SIZE * R * C;
    const ALIGN: usize = T::ALIGN;
    const SCALARS: usize = R * C;
    const BUILTIN: bool = true;

    fn ir_type(_: &mut Structs) -> Type {
        const {
            assert!(
                R >= 1 && C >= 1 && R.saturating_mul(C) <= u16::MAX as usize,
                "a matrix has at least one row and one column, and at most 65535 components"
            )
        };
        Type::Matrix(T::SCALAR, R as u16, C as u16)
    }

    fn zero() -> Self {
        Matrix([[T::zero(); C]; R])
    }

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Matrix::from_fn(|r, c| T::read(&bytes[(r * C + c) * T::SIZE..]))
    }

    #[inline]
    fn write(self, bytes: &mut [u8]) {
        for (k, c) in self.0.into_iter().flatten().enumerate() {
            c.write(&mut bytes[k * T::SIZE..]);
        }
    }

    fn to_slots(self, slots: &mut [u64]) {
        for (k, c) in self.0.into_iter().flatten().enumerate() {
            c.to_slots(&mut slots[k..]);
        }
    }

    fn from_slots(slots: &[u64]) -> Self {
        Matrix::from_fn(|r, c| T::from_slots(&slots[r * C + c..]))
    }

    fn lend<'a>(data: &'a [Self], strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
        Some(ArrayArg::read(data, strides))
    }

    fn lend_mut<'a>(data: &'a mut [Self], strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
        Some(ArrayArg::write(data, strides))
    }
}

impl<T: fmt::Debug, const R: usize, const C: usize> fmt::Debug for Matrix<T, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl<T: fmt::Display + Copy, const R: usize, const C: usize> fmt::Display for Matrix<T, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (k, row) in self.0.into_iter().enumerate() {
            if k > 0 {
                f.write_str(", ")?;
            }
            Vector(row).fmt(f)?;
        }
        f.write_str("]")
    }
}

impl<T: Num, const R: usize, const C: usize> Default for Matrix<T, R, C> {
    fn default() -> Self {
        Self::ZERO
    }
}

impl<T, const R: usize, const C: usize> Index<[usize; 2]> for Matrix<T, R, C> {
    type Output = T;
    #[inline]
    fn index(&self, [r, c]: [usize; 2]) -> &T {
        &self.0[r][c]
    }
}

impl<T, const R: usize, const C: usize> IndexMut<[usize; 2]> for Matrix<T, R, C> {
    #[inline]
    fn index_mut(&mut self, [r, c]: [usize; 2]) -> &mut T {
        &mut self.0[r][c]
    }
}

impl<T, const R: usize, const C: usize> Matrix<T, R, C> {
    /// From the value at each row and column. Not for kernels.
    pub fn from_fn(f: impl Fn(usize, usize) -> T) -> Self {
        Matrix(std::array::from_fn(|r| std::array::from_fn(|c| f(r, c))))
    }
}

impl<T: ScalarElement, const R: usize, const C: usize> Matrix<T, R, C> {
    /// From its rows, each an array.
    #[inline]
    pub fn new(rows: [[T; C]; R]) -> Self {
        Matrix(rows)
    }

    /// A matrix from its rows.
    #[inline]
    pub fn from_rows(rows: [Vector<T, C>; R]) -> Self {
        Matrix(rows.map(|r| r.0))
    }

    /// A matrix from its columns.
    #[inline]
    pub fn from_cols(cols: [Vector<T, R>; C]) -> Self {
        Matrix::from_fn(|r, c| cols[c].0[r])
    }

    /// The same value in every component.
    #[inline]
    pub fn splat(value: T) -> Self {
        Matrix([[value; C]; R])
    }

    /// A row.
    #[inline]
    pub fn row(self, r: usize) -> Vector<T, C> {
        Vector(self.0[r])
    }

    /// A column.
    #[inline]
    pub fn col(self, c: usize) -> Vector<T, R> {
        Vector(std::array::from_fn(|r| self.0[r][c]))
    }

    /// The transposed matrix.
    #[inline]
    pub fn transpose(self) -> Matrix<T, C, R> {
        Matrix::from_fn(|r, c| self.0[c][r])
    }

    fn map<U>(self, f: impl Fn(T) -> U) -> Matrix<U, R, C> {
        Matrix::from_fn(|r, c| f(self.0[r][c]))
    }

    fn zip<V>(self, other: Self, f: impl Fn(T, T) -> V) -> Matrix<V, R, C> {
        Matrix::from_fn(|r, c| f(self.0[r][c], other.0[r][c]))
    }
}

impl<T: Num, const R: usize, const C: usize> Matrix<T, R, C> {
    /// All elements are 0.
    pub const ZERO: Self = Matrix([[T::ZERO; C]; R]);

    /// Every component as `as` converts it.
    pub fn cast<U: Num>(self) -> Matrix<U, R, C> {
        self.map(|c| c.cast())
    }

    /// Component by component, where `*` is the matrix product.
    #[inline]
    pub fn component_mul(self, other: Self) -> Self {
        self.zip(other, T::mul)
    }

    /// The sum of all components.
    #[inline]
    pub fn sum(self) -> T {
        let mut all = self.0.into_iter().flatten();
        let first = all.next().unwrap_or(T::ZERO);
        all.fold(first, |sum, c| sum + c)
    }

    /// The sum of the squares of all components.
    #[inline]
    pub fn norm_sqr(self) -> T {
        self.component_mul(self).sum()
    }
}

impl<T: Float, const R: usize, const C: usize> Matrix<T, R, C> {
    /// The square root of the sum of the squares of all components.
    #[inline]
    pub fn norm(self) -> T {
        self.norm_sqr().sqrt()
    }
}

impl<T: Num, const N: usize> Matrix<T, N, N> {
    /// Ones on the diagonal.
    #[inline]
    pub fn identity() -> Self {
        Matrix::from_fn(|r, c| if r == c { T::ONE } else { T::ZERO })
    }

    /// A matrix with these numbers on the diagonal, and zeros elsewhere.
    #[inline]
    pub fn from_diagonal(d: Vector<T, N>) -> Self {
        Matrix::from_fn(|r, c| if r == c { d.0[r] } else { T::ZERO })
    }

    /// The numbers on the diagonal.
    #[inline]
    pub fn diagonal(self) -> Vector<T, N> {
        Vector(std::array::from_fn(|k| self.0[k][k]))
    }

    /// The sum of the diagonal.
    #[inline]
    pub fn trace(self) -> T {
        self.diagonal().sum()
    }
}

/// Cofactors along the first row; the matrix without row 0 and column `skip` is the rest.
fn determinant<T: Float>(m: &[[T; 4]; 4], n: usize) -> T {
    match n {
        1 => m[0][0],
        2 => m[0][0] * m[1][1] - m[0][1] * m[1][0],
        _ => {
            let mut sum = T::ZERO;
            for skip in 0..n {
                let term = m[0][skip] * determinant(&minor(m, n, 0, skip), n - 1);
                sum = match skip {
                    0 => term,
                    k if k % 2 == 1 => sum - term,
                    _ => sum + term,
                };
            }
            sum
        }
    }
}

fn minor<T: Float>(m: &[[T; 4]; 4], n: usize, row: usize, col: usize) -> [[T; 4]; 4] {
    let mut out = [[T::ZERO; 4]; 4];
    for (r, from) in (0..n).filter(|r| *r != row).enumerate() {
        for (c, at) in (0..n).filter(|c| *c != col).enumerate() {
            out[r][c] = m[from][at];
        }
    }
    out
}

impl<T: Float, const N: usize> Matrix<T, N, N> {
    fn padded(self) -> [[T; 4]; 4] {
        const { assert!(N >= 1 && N <= 4, "defined for 1 to 4 rows") };
        std::array::from_fn(|r| {
            std::array::from_fn(|c| {
                if r < N && c < N {
                    self.0[r][c]
                } else {
                    T::ZERO
                }
            })
        })
    }

    /// For 1 to 4 rows.
    pub fn determinant(self) -> T {
        determinant(&self.padded(), N)
    }

    /// For 1 to 4 rows; infinities and NaN when there is none.
    pub fn inverse(self) -> Self {
        let m = self.padded();
        let scale = T::ONE / determinant(&m, N);
        Matrix::from_fn(|r, c| {
            let cofactor = match N {
                1 => T::ONE,
                _ => determinant(&minor(&m, N, c, r), N - 1),
            };
            let signed = if (r + c) % 2 == 1 {
                -cofactor
            } else {
                cofactor
            };
            signed * scale
        })
    }
}

impl<T: Num, const N: usize> Vector<T, N> {
    /// The matrix of all products of a component of `self` (the row) and one of `other` (the column).
    #[inline]
    pub fn outer<const M: usize>(self, other: Vector<T, M>) -> Matrix<T, N, M> {
        Matrix::from_fn(|r, c| self.0[r] * other.0[c])
    }
}

macro_rules! operators {
    ($($op:ident $f:ident $assign:ident $g:ident;)*) => {$(
        impl<T: Num, const R: usize, const C: usize> $op for Matrix<T, R, C> {
            type Output = Self;
            #[inline]
            fn $f(self, other: Self) -> Self {
                self.zip(other, T::$f)
            }
        }
        impl<T: Num, const R: usize, const C: usize> $assign for Matrix<T, R, C> {
            #[inline]
            fn $g(&mut self, other: Self) {
                *self = (*self).$f(other);
            }
        }
    )*};
}
operators! {
    Add add AddAssign add_assign;
    Sub sub SubAssign sub_assign;
}

macro_rules! by_scalar {
    ($($op:ident $f:ident $assign:ident $g:ident;)*) => {$(
        impl<T: Num, const R: usize, const C: usize> $op<T> for Matrix<T, R, C> {
            type Output = Self;
            #[inline]
            fn $f(self, other: T) -> Self {
                self.map(|c| c.$f(other))
            }
        }
        impl<T: Num, const R: usize, const C: usize> $assign<T> for Matrix<T, R, C> {
            #[inline]
            fn $g(&mut self, other: T) {
                *self = (*self).$f(other);
            }
        }
    )*};
}
by_scalar! {
    Mul mul MulAssign mul_assign;
    Div div DivAssign div_assign;
}

impl<T: Signed, const R: usize, const C: usize> Neg for Matrix<T, R, C> {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        self.map(T::neg)
    }
}

impl<T: Num, const R: usize, const K: usize, const C: usize> Mul<Matrix<T, K, C>>
    for Matrix<T, R, K>
{
    type Output = Matrix<T, R, C>;
    #[inline]
    fn mul(self, other: Matrix<T, K, C>) -> Matrix<T, R, C> {
        Matrix::from_fn(|r, c| self.row(r).dot(other.col(c)))
    }
}

impl<T: Num, const R: usize, const C: usize> Mul<Vector<T, C>> for Matrix<T, R, C> {
    type Output = Vector<T, R>;
    #[inline]
    fn mul(self, v: Vector<T, C>) -> Vector<T, R> {
        Vector(std::array::from_fn(|r| self.row(r).dot(v)))
    }
}

macro_rules! scalar_first {
    ($($t:ty)*) => {$(
        impl<const R: usize, const C: usize> Mul<Matrix<$t, R, C>> for $t {
            type Output = Matrix<$t, R, C>;
            #[inline]
            fn mul(self, m: Matrix<$t, R, C>) -> Matrix<$t, R, C> {
                m.map(|c| self * c)
            }
        }
    )*};
}
scalar_first!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 f32 f64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::{ivec2, ivec3};

    #[test]
    fn products_follow_rows_and_columns() {
        let m = Matrix([[1, 2, 3], [4, 5, 6]]);
        assert_eq!(m * ivec3(1, 0, 1), ivec2(4, 10));
        assert_eq!(m * m.transpose(), Matrix([[14, 32], [32, 77]]));
        assert_eq!(
            ivec2(1, 2).outer(ivec3(3, 4, 5)),
            Matrix([[3, 4, 5], [6, 8, 10]])
        );
    }

    #[test]
    fn inverses_up_to_four_rows() {
        let m = Matrix([
            [4.0f64, 1.0, 0.5, 2.0],
            [1.0, 3.0, -1.0, 0.0],
            [0.0, 2.0, 5.0, 1.0],
            [1.0, -1.0, 0.0, 2.0],
        ]);
        let e = m * m.inverse() - Matrix::identity();
        assert!(e.norm() < 1e-12, "{e:?}");
        assert!((m.determinant() * m.inverse().determinant() - 1.0).abs() < 1e-12);
    }
}
