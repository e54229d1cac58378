//! Quaternions.

use crate::lang::{Float, Matrix, Vector};
use std::ops::{Add, Mul, Neg, Sub};
use wuji_macros::{Element, func};

/// A quaternion `w + x i + y j + z k`. One of length 1 is a rotation of space; `a * b` rotates by `b` first.
///
/// ```
/// use std::f32::consts::FRAC_PI_2;
/// use wuji::math::Quat;
/// use wuji::prelude::*;
///
/// let quarter = Quat::from_axis_angle(vec3(0.0, 0.0, 1.0), FRAC_PI_2);
/// assert!((quarter.rotate(vec3(1.0, 0.0, 0.0)) - vec3(0.0, 1.0, 0.0)).norm() < 1e-6);
/// let half = quarter * quarter;
/// assert!((half.rotate(vec3(1.0, 0.0, 0.0)) - vec3(-1.0, 0.0, 0.0)).norm() < 1e-6);
/// assert!((Quat::identity().slerp(half, 0.5) - quarter).norm() < 1e-6);
/// ```
#[derive(Element, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Quaternion<T: Float> {
    /// The factor of i.
    pub x: T,
    /// The factor of j.
    pub y: T,
    /// The factor of k.
    pub z: T,
    /// The real part.
    pub w: T,
}

/// A quaternion of `f32`.
pub type Quat = Quaternion<f32>;
/// A quaternion of `f64`.
pub type DQuat = Quaternion<f64>;

/// The rotation by nothing.
impl<T: Float> Default for Quaternion<T> {
    fn default() -> Quaternion<T> {
        Quaternion::identity()
    }
}

#[func]
impl<T: Float> Quaternion<T> {
    /// From its components; the real one is the last.
    pub fn new(x: T, y: T, z: T, w: T) -> Quaternion<T> {
        Quaternion { x, y, z, w }
    }

    /// The rotation by nothing.
    pub fn identity() -> Quaternion<T> {
        Quaternion::new(T::ZERO, T::ZERO, T::ZERO, T::ONE)
    }

    /// From the imaginary part and the real part.
    pub fn from_parts(v: Vector<T, 3>, w: T) -> Quaternion<T> {
        Quaternion::new(v[0], v[1], v[2], w)
    }

    /// The rotation about an axis of length 1, counterclockwise as seen from its tip, in radians.
    pub fn from_axis_angle(axis: Vector<T, 3>, angle: T) -> Quaternion<T> {
        let half = angle * T::from_f64(0.5);
        Quaternion::from_parts(axis * half.sin(), half.cos())
    }

    /// The rotation whose axis and angle are the direction and the length of a vector.
    pub fn from_rotation_vector(v: Vector<T, 3>) -> Quaternion<T> {
        let angle = v.norm();
        let half = angle * T::from_f64(0.5);
        // `sin(half) / angle`, and its limit where that is 0 / 0.
        let scale = if angle > T::EPSILON {
            half.sin() / angle
        } else {
            T::from_f64(0.5)
        };
        Quaternion::from_parts(v * scale, half.cos())
    }

    /// The shortest rotation that takes one direction to another; both have length 1.
    pub fn between(from: Vector<T, 3>, to: Vector<T, 3>) -> Quaternion<T> {
        let w = T::ONE + from.dot(to);
        if w > T::EPSILON {
            Quaternion::from_parts(from.cross(to), w).normalized()
        } else {
            // Opposite directions: half a turn about any axis that is orthogonal to both.
            let axis = if from[0].abs() > from[2].abs() {
                Vector([-from[1], from[0], T::ZERO])
            } else {
                Vector([T::ZERO, -from[2], from[1]])
            };
            Quaternion::from_parts(axis.normalized(), T::ZERO)
        }
    }

    /// The imaginary part.
    pub fn vector(self) -> Vector<T, 3> {
        Vector([self.x, self.y, self.z])
    }

    /// The imaginary part negated; of a rotation, the opposite one.
    pub fn conjugate(self) -> Quaternion<T> {
        Quaternion::new(-self.x, -self.y, -self.z, self.w)
    }

    /// The quaternion whose product with this one is 1.
    pub fn inverse(self) -> Quaternion<T> {
        self.conjugate() * (T::ONE / self.norm_sqr())
    }

    /// The sum of the products of the components.
    pub fn dot(self, other: Quaternion<T>) -> T {
        self.x * other.x + self.y * other.y + self.z * other.z + self.w * other.w
    }

    /// The square of the length.
    pub fn norm_sqr(self) -> T {
        self.dot(self)
    }

    /// The length.
    pub fn norm(self) -> T {
        self.dot(self).sqrt()
    }

    /// The quaternion of length 1 with the same direction.
    pub fn normalized(self) -> Quaternion<T> {
        self * (T::ONE / self.norm())
    }

    /// A vector, rotated by this quaternion of length 1.
    pub fn rotate(self, v: Vector<T, 3>) -> Vector<T, 3> {
        let u = self.vector();
        let t = u.cross(v) * T::from_f64(2.0);
        v + t * self.w + u.cross(t)
    }

    /// The angle of the rotation, from 0 to pi.
    pub fn angle(self) -> T {
        T::from_f64(2.0) * self.vector().norm().atan2(self.w.abs())
    }

    /// The matrix of the rotation, for column vectors.
    pub fn to_matrix(self) -> Matrix<T, 3, 3> {
        let one = T::ONE;
        let two = T::from_f64(2.0);
        let (x, y, z, w) = (self.x, self.y, self.z, self.w);
        Matrix::from_rows([
            Vector([
                one - two * (y * y + z * z),
                two * (x * y - z * w),
                two * (x * z + y * w),
            ]),
            Vector([
                two * (x * y + z * w),
                one - two * (x * x + z * z),
                two * (y * z - x * w),
            ]),
            Vector([
                two * (x * z - y * w),
                two * (y * z + x * w),
                one - two * (x * x + y * y),
            ]),
        ])
    }

    /// The rotation of a matrix whose columns are orthogonal and of length 1, without reflection.
    pub fn from_matrix(m: Matrix<T, 3, 3>) -> Quaternion<T> {
        let one = T::ONE;
        let half = T::from_f64(0.5);
        let (a, b, c) = (m[[0, 0]], m[[1, 1]], m[[2, 2]]);
        // The largest component first: it is at least a half, so the division is safe.
        if a + b + c >= T::ZERO {
            let s = (one + a + b + c).sqrt();
            let k = half / s;
            Quaternion::new(
                (m[[2, 1]] - m[[1, 2]]) * k,
                (m[[0, 2]] - m[[2, 0]]) * k,
                (m[[1, 0]] - m[[0, 1]]) * k,
                s * half,
            )
        } else if a >= b && a >= c {
            let s = (one + a - b - c).sqrt();
            let k = half / s;
            Quaternion::new(
                s * half,
                (m[[1, 0]] + m[[0, 1]]) * k,
                (m[[0, 2]] + m[[2, 0]]) * k,
                (m[[2, 1]] - m[[1, 2]]) * k,
            )
        } else if b >= c {
            let s = (one - a + b - c).sqrt();
            let k = half / s;
            Quaternion::new(
                (m[[1, 0]] + m[[0, 1]]) * k,
                s * half,
                (m[[2, 1]] + m[[1, 2]]) * k,
                (m[[0, 2]] - m[[2, 0]]) * k,
            )
        } else {
            let s = (one - a - b + c).sqrt();
            let k = half / s;
            Quaternion::new(
                (m[[0, 2]] + m[[2, 0]]) * k,
                (m[[2, 1]] + m[[1, 2]]) * k,
                s * half,
                (m[[1, 0]] - m[[0, 1]]) * k,
            )
        }
    }

    /// The rotation between two others, at constant speed on the shorter way: this one for `t == 0`, the other one for `t == 1`.
    pub fn slerp(self, other: Quaternion<T>, t: T) -> Quaternion<T> {
        let cosine = self.dot(other);
        // A quaternion and its negative are the same rotation.
        let end = if cosine < T::ZERO { -other } else { other };
        let cosine = cosine.abs();
        if cosine > T::from_f64(0.9995) {
            return (self + (end - self) * t).normalized();
        }
        let angle = cosine.acos();
        let scale = T::ONE / angle.sin();
        self * (((T::ONE - t) * angle).sin() * scale) + end * ((t * angle).sin() * scale)
    }
}

#[func]
impl<T: Float> Mul for Quaternion<T> {
    type Output = Quaternion<T>;

    fn mul(self, o: Quaternion<T>) -> Quaternion<T> {
        Quaternion::new(
            self.w * o.x + self.x * o.w + self.y * o.z - self.z * o.y,
            self.w * o.y - self.x * o.z + self.y * o.w + self.z * o.x,
            self.w * o.z + self.x * o.y - self.y * o.x + self.z * o.w,
            self.w * o.w - self.x * o.x - self.y * o.y - self.z * o.z,
        )
    }
}

#[func]
impl<T: Float> Mul<T> for Quaternion<T> {
    type Output = Quaternion<T>;

    fn mul(self, s: T) -> Quaternion<T> {
        Quaternion::new(self.x * s, self.y * s, self.z * s, self.w * s)
    }
}

#[func]
impl<T: Float> Add for Quaternion<T> {
    type Output = Quaternion<T>;

    fn add(self, o: Quaternion<T>) -> Quaternion<T> {
        Quaternion::new(self.x + o.x, self.y + o.y, self.z + o.z, self.w + o.w)
    }
}

#[func]
impl<T: Float> Sub for Quaternion<T> {
    type Output = Quaternion<T>;

    fn sub(self, o: Quaternion<T>) -> Quaternion<T> {
        Quaternion::new(self.x - o.x, self.y - o.y, self.z - o.z, self.w - o.w)
    }
}

#[func]
impl<T: Float> Neg for Quaternion<T> {
    type Output = Quaternion<T>;

    fn neg(self) -> Quaternion<T> {
        Quaternion::new(-self.x, -self.y, -self.z, -self.w)
    }
}
