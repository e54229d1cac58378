//! nalgebra.

use crate::element::ScalarElement;
use crate::lang::{Float, Matrix, Vector};
use crate::math::Quaternion;
use nalgebra::{Const, OPoint, SMatrix, SVector, Scalar};

impl<T: ScalarElement + Scalar, const N: usize> From<SVector<T, N>> for Vector<T, N> {
    fn from(v: SVector<T, N>) -> Self {
        Vector(v.into())
    }
}

impl<T: ScalarElement + Scalar, const N: usize> From<Vector<T, N>> for SVector<T, N> {
    fn from(v: Vector<T, N>) -> Self {
        v.0.into()
    }
}

impl<T: ScalarElement + Scalar, const N: usize> From<OPoint<T, Const<N>>> for Vector<T, N> {
    fn from(p: OPoint<T, Const<N>>) -> Self {
        p.coords.into()
    }
}

impl<T: ScalarElement + Scalar, const N: usize> From<Vector<T, N>> for OPoint<T, Const<N>> {
    fn from(v: Vector<T, N>) -> Self {
        OPoint {
            coords: SVector::from(v),
        }
    }
}

impl<T: ScalarElement + Scalar, const R: usize, const C: usize> From<SMatrix<T, R, C>>
    for Matrix<T, R, C>
{
    fn from(m: SMatrix<T, R, C>) -> Self {
        Matrix::from_fn(|r, c| m[(r, c)])
    }
}

impl<T: ScalarElement + Scalar, const R: usize, const C: usize> From<Matrix<T, R, C>>
    for SMatrix<T, R, C>
{
    fn from(m: Matrix<T, R, C>) -> Self {
        SMatrix::from_fn(|r, c| m[[r, c]])
    }
}

impl<T: Float + Scalar> From<nalgebra::Quaternion<T>> for Quaternion<T> {
    fn from(q: nalgebra::Quaternion<T>) -> Self {
        let [x, y, z, w] = q.coords.into();
        Quaternion { x, y, z, w }
    }
}

impl<T: Float + Scalar> From<Quaternion<T>> for nalgebra::Quaternion<T> {
    fn from(q: Quaternion<T>) -> Self {
        nalgebra::Quaternion {
            coords: [q.x, q.y, q.z, q.w].into(),
        }
    }
}

impl<T: Float + Scalar> From<nalgebra::UnitQuaternion<T>> for Quaternion<T> {
    fn from(q: nalgebra::UnitQuaternion<T>) -> Self {
        q.into_inner().into()
    }
}
