//! mint, the types that many libraries convert to and from.

use crate::element::ScalarElement;
use crate::lang::{Float, Matrix, Vector};
use crate::math::Quaternion;

macro_rules! vectors {
    ($($theirs:ident: $n:literal;)*) => {$(
        impl<T: ScalarElement> From<mint::$theirs<T>> for Vector<T, $n> {
            fn from(v: mint::$theirs<T>) -> Self {
                Vector(v.into())
            }
        }

        impl<T: ScalarElement> From<Vector<T, $n>> for mint::$theirs<T> {
            fn from(v: Vector<T, $n>) -> Self {
                v.0.into()
            }
        }
    )*};
}

vectors! {
    Vector2: 2;
    Vector3: 3;
    Vector4: 4;
    Point2: 2;
    Point3: 3;
}

macro_rules! matrices {
    ($($theirs:ident: $n:literal;)*) => {$(
        impl<T: ScalarElement> From<mint::$theirs<T>> for Matrix<T, $n, $n> {
            fn from(m: mint::$theirs<T>) -> Self {
                Matrix(m.into())
            }
        }

        impl<T: ScalarElement> From<Matrix<T, $n, $n>> for mint::$theirs<T> {
            fn from(m: Matrix<T, $n, $n>) -> Self {
                m.0.into()
            }
        }
    )*};
}

// Rows, as ours.
matrices! {
    RowMatrix2: 2;
    RowMatrix3: 3;
    RowMatrix4: 4;
}

macro_rules! columns {
    ($($theirs:ident: $n:literal;)*) => {$(
        impl<T: ScalarElement> From<mint::$theirs<T>> for Matrix<T, $n, $n> {
            fn from(m: mint::$theirs<T>) -> Self {
                Matrix(m.into()).transpose()
            }
        }

        impl<T: ScalarElement> From<Matrix<T, $n, $n>> for mint::$theirs<T> {
            fn from(m: Matrix<T, $n, $n>) -> Self {
                m.transpose().0.into()
            }
        }
    )*};
}

columns! {
    ColumnMatrix2: 2;
    ColumnMatrix3: 3;
    ColumnMatrix4: 4;
}

impl<T: Float> From<mint::Quaternion<T>> for Quaternion<T> {
    fn from(q: mint::Quaternion<T>) -> Self {
        let mint::Vector3 { x, y, z } = q.v;
        Quaternion { x, y, z, w: q.s }
    }
}

impl<T: Float> From<Quaternion<T>> for mint::Quaternion<T> {
    fn from(q: Quaternion<T>) -> Self {
        let v = mint::Vector3 {
            x: q.x,
            y: q.y,
            z: q.z,
        };
        mint::Quaternion { v, s: q.w }
    }
}
