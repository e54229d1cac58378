//! Matrices of transformations. They multiply column vectors.

use crate::lang::{Float, Matrix, Vector};
use wuji_macros::func;

/// The unit vector at an angle from the x axis.
#[func]
pub fn direction<T: Float>(angle: T) -> Vector<T, 2> {
    Vector([angle.cos(), angle.sin()])
}

/// The counterclockwise rotation of the plane.
#[func]
pub fn rotation2<T: Float>(angle: T) -> Matrix<T, 2, 2> {
    let (c, s) = (angle.cos(), angle.sin());
    Matrix::from_rows([Vector([c, -s]), Vector([s, c])])
}

/// The rotation of space by angles about the axes: about x first, then y, then z.
#[func]
pub fn rotation3<T: Float>(angles: Vector<T, 3>) -> Matrix<T, 3, 3> {
    let (zero, one) = (T::ZERO, T::ONE);
    let (cx, sx) = (angles[0].cos(), angles[0].sin());
    let (cy, sy) = (angles[1].cos(), angles[1].sin());
    let (cz, sz) = (angles[2].cos(), angles[2].sin());
    let x = Matrix::from_rows([
        Vector([one, zero, zero]),
        Vector([zero, cx, -sx]),
        Vector([zero, sx, cx]),
    ]);
    let y = Matrix::from_rows([
        Vector([cy, zero, sy]),
        Vector([zero, one, zero]),
        Vector([-sy, zero, cy]),
    ]);
    let z = Matrix::from_rows([
        Vector([cz, -sz, zero]),
        Vector([sz, cz, zero]),
        Vector([zero, zero, one]),
    ]);
    z * y * x
}

/// The translation of points `(x, y, z, 1)`.
#[func]
pub fn translation<T: Float>(by: Vector<T, 3>) -> Matrix<T, 4, 4> {
    let mut m = Matrix::<T, 4, 4>::identity();
    m[[0, 3]] = by[0];
    m[[1, 3]] = by[1];
    m[[2, 3]] = by[2];
    m
}

/// The scaling of points `(x, y, z, 1)` along the axes.
#[func]
pub fn scaling<T: Float>(by: Vector<T, 3>) -> Matrix<T, 4, 4> {
    Matrix::from_diagonal(Vector([by[0], by[1], by[2], T::ONE]))
}
