//! Functions with GLSL's names.

use crate::lang::{Float, Vector};
use wuji_macros::func;

/// `x`, but at least 0 and at most 1.
#[func]
pub fn saturate<T: Float>(x: T) -> T {
    x.max(T::ZERO).min(T::ONE)
}

/// 0 below `edge`, else 1.
#[func]
pub fn step<T: Float>(edge: T, x: T) -> T {
    if x < edge { T::ZERO } else { T::ONE }
}

/// From 0 at `low` to 1 at `high`, with slope 0 at both; constant beyond them.
#[func]
pub fn smoothstep<T: Float>(low: T, high: T, x: T) -> T {
    let t = saturate((x - low) / (high - low));
    t * t * (T::from_f64(3.0) - t - t)
}

/// As [`smoothstep`], with curvature 0 at both ends, too.
#[func]
pub fn smootherstep<T: Float>(low: T, high: T, x: T) -> T {
    let t = saturate((x - low) / (high - low));
    t * t * t * (t * (t * T::from_f64(6.0) - T::from_f64(15.0)) + T::from_f64(10.0))
}

/// The `t` for which [`mix(a, b, t)`](crate::lang::mix) is `x`.
#[func]
pub fn inverse_mix<T: Float>(a: T, b: T, x: T) -> T {
    (x - a) / (b - a)
}

/// `x - floor(x)`, from 0 to 1 also for negative numbers, unlike the method of floats.
#[func]
pub fn fract<T: Float>(x: T) -> T {
    x - x.floor()
}

/// `x - y * floor(x / y)`, with the sign of `y`.
#[func]
pub fn modulo<T: Float>(x: T, y: T) -> T {
    x - y * (x / y).floor()
}

/// -1, 0 or 1; 0 for NaN.
#[func]
pub fn sign<T: Float>(x: T) -> T {
    if x > T::ZERO {
        T::ONE
    } else if x < T::ZERO {
        -T::ONE
    } else {
        T::ZERO
    }
}

/// The direction `v` behind a surface with the unit normal `n`, where `eta` is the ratio of the refractive indices: of the side
/// that `v` comes from to the other one. Zero on total internal reflection.
#[func]
pub fn refract<T: Float, const N: usize>(v: Vector<T, N>, n: Vector<T, N>, eta: T) -> Vector<T, N> {
    let cosine = v.dot(n);
    let k = T::ONE - eta * eta * (T::ONE - cosine * cosine);
    if k < T::ZERO {
        Vector::<T, N>::ZERO
    } else {
        v * eta - n * (eta * cosine + k.sqrt())
    }
}
