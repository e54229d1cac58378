//! glam. Its matrices have columns in memory, ours rows: the conversion keeps the meaning.

use crate::lang::{Matrix, Vector};
use crate::math::Quaternion;

macro_rules! vectors {
    ($($theirs:ident: $t:ty, $n:literal;)*) => {$(
        impl From<glam::$theirs> for Vector<$t, $n> {
            fn from(v: glam::$theirs) -> Self {
                Vector(v.to_array())
            }
        }

        impl From<Vector<$t, $n>> for glam::$theirs {
            fn from(v: Vector<$t, $n>) -> Self {
                glam::$theirs::from_array(v.0)
            }
        }
    )*};
}

vectors! {
    Vec2: f32, 2;
    Vec3: f32, 3;
    Vec3A: f32, 3;
    Vec4: f32, 4;
    DVec2: f64, 2;
    DVec3: f64, 3;
    DVec4: f64, 4;
    IVec2: i32, 2;
    IVec3: i32, 3;
    IVec4: i32, 4;
    UVec2: u32, 2;
    UVec3: u32, 3;
    UVec4: u32, 4;
}

macro_rules! matrices {
    ($($theirs:ident: $t:ty, $n:literal;)*) => {$(
        impl From<glam::$theirs> for Matrix<$t, $n, $n> {
            fn from(m: glam::$theirs) -> Self {
                Matrix(m.transpose().to_cols_array_2d())
            }
        }

        impl From<Matrix<$t, $n, $n>> for glam::$theirs {
            fn from(m: Matrix<$t, $n, $n>) -> Self {
                glam::$theirs::from_cols_array_2d(&m.0).transpose()
            }
        }
    )*};
}

matrices! {
    Mat2: f32, 2;
    Mat3: f32, 3;
    Mat4: f32, 4;
    DMat2: f64, 2;
    DMat3: f64, 3;
    DMat4: f64, 4;
}

macro_rules! quaternions {
    ($($theirs:ident: $t:ty;)*) => {$(
        impl From<glam::$theirs> for Quaternion<$t> {
            fn from(q: glam::$theirs) -> Self {
                let [x, y, z, w] = q.to_array();
                Quaternion { x, y, z, w }
            }
        }

        impl From<Quaternion<$t>> for glam::$theirs {
            fn from(q: Quaternion<$t>) -> Self {
                glam::$theirs::from_xyzw(q.x, q.y, q.z, q.w)
            }
        }
    )*};
}

quaternions! {
    Quat: f32;
    DQuat: f64;
}
