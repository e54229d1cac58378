//! Functions of the language that are no methods.

use super::num::{Float, Num};
use super::vector::Vector;
use crate::element::{Element, ScalarElement};
use half::f16;
use std::cell::Cell;

/// Numbers and vectors of numbers.
pub trait Ordered: Element {
    #[doc(hidden)]
    fn smaller_of(self, other: Self) -> Self;
    #[doc(hidden)]
    fn larger_of(self, other: Self) -> Self;
}

impl<T: Num> Ordered for T {
    #[inline]
    fn smaller_of(self, other: Self) -> Self {
        self.smaller(other)
    }
    #[inline]
    fn larger_of(self, other: Self) -> Self {
        self.larger(other)
    }
}

impl<T: Num, const N: usize> Ordered for Vector<T, N> {
    #[inline]
    fn smaller_of(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline]
    fn larger_of(self, other: Self) -> Self {
        self.max(other)
    }
}

/// The smaller one, component by component; the other one when one is NaN.
#[inline]
pub fn min<T: Ordered>(a: T, b: T) -> T {
    a.smaller_of(b)
}

/// The larger one, component by component; the other one when one is NaN.
#[inline]
pub fn max<T: Ordered>(a: T, b: T) -> T {
    a.larger_of(b)
}

/// `x`, but at least `low` and at most `high`.
#[inline]
pub fn clamp<T: Ordered>(x: T, low: T, high: T) -> T {
    x.larger_of(low).smaller_of(high)
}

/// Floats, and vectors of floats, that can be mixed.
pub trait Mix<S>: Element {
    #[doc(hidden)]
    fn mix_with(self, other: Self, t: S) -> Self;
}

impl<T: Float> Mix<T> for T {
    #[inline]
    fn mix_with(self, other: T, t: T) -> T {
        self + (other - self) * t
    }
}

impl<T: Float, const N: usize> Mix<T> for Vector<T, N> {
    #[inline]
    fn mix_with(self, other: Self, t: T) -> Self {
        self + (other - self) * t
    }
}

/// `a` for `t == 0`, `b` for `t == 1`, and what lies between: `a + (b - a) * t`.
#[inline]
pub fn mix<T: Mix<S>, S>(a: T, b: T, t: S) -> T {
    a.mix_with(b, t)
}

/// Gives `value`, which is expected in `base + lo .. base + hi`. It helps [`cache`](super::cache) to know how
/// much of a field a block touches; a value outside costs time, nothing else. `lo` and `hi` are constants.
#[inline]
pub fn assume_in_range(value: i32, _base: i32, _lo: i32, _hi: i32) -> i32 {
    value
}

/// Gives `value`, of which the program says that it is another one in every iteration of the parallel loop, as the entries of a
/// permutation are. In [lazy](crate::World::flush) worlds, loops with the same unique indices are fused, and atomics at them are
/// plain updates. If it is not true, iterations race.
#[inline]
pub fn loop_unique(value: i32) -> i32 {
    value
}

/// As [`loop_unique`], and the values of all iterations are the numbers from zero to `count`, a constant such as the length of a
/// field: what is stored at them replaces every element.
#[inline]
pub fn loop_permutation(value: i32, _count: i32) -> i32 {
    value
}

/// `a` when true, `b` when false; both are computed.
#[inline]
pub fn select<T: Element>(condition: bool, a: T, b: T) -> T {
    if condition { a } else { b }
}

/// Types with random values: floats in `0..1`, all integers, `bool`, and vectors of those.
pub trait Random: Element {
    #[doc(hidden)]
    fn from_bits(draw: &mut dyn FnMut() -> u64) -> Self;
}

macro_rules! random {
    ($($t:ty: |$bits:ident| $value:expr;)*) => {$(
        impl Random for $t {
            #[inline]
            fn from_bits(draw: &mut dyn FnMut() -> u64) -> $t {
                let $bits = draw();
                $value
            }
        }
    )*};
}
random! {
    bool: |b| b >> 63 != 0;
    i8: |b| (b >> 56) as i8;
    i16: |b| (b >> 48) as i16;
    i32: |b| (b >> 32) as i32;
    i64: |b| b as i64;
    isize: |b| b as isize;
    u8: |b| (b >> 56) as u8;
    u16: |b| (b >> 48) as u16;
    u32: |b| (b >> 32) as u32;
    u64: |b| b;
    usize: |b| b as usize;
    f16: |b| f16::from_f32((b >> 53) as f32 * (1.0 / 2048.0));
    f32: |b| (b >> 40) as f32 * (1.0 / 16_777_216.0);
    f64: |b| (b >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0);
}

impl<T: Random + ScalarElement, const N: usize> Random for Vector<T, N> {
    fn from_bits(draw: &mut dyn FnMut() -> u64) -> Self {
        Vector(std::array::from_fn(|_| T::from_bits(draw)))
    }
}

/// A random value. In a kernel it depends on the seed of the world, the launch, the loop and the
/// iteration, and on nothing else; on the host, on how many there were on this thread.
pub fn random<T: Random>() -> T {
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    T::from_bits(&mut || {
        STATE.with(|s| {
            let next = s.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
            s.set(next);
            wuji_ir::random::mix(next)
        })
    })
}

/// A random number from `low` to `high`, which is not reached; `low` when there is none.
pub fn random_range<T: RandomRange>(low: T, high: T) -> T {
    T::between(low, high)
}

/// Numbers that [`random_range`] takes.
pub trait RandomRange: Num {
    #[doc(hidden)]
    fn between(low: Self, high: Self) -> Self;
}

macro_rules! int_range {
    ($($t:ty)*) => {$(
        impl RandomRange for $t {
            fn between(low: $t, high: $t) -> $t {
                let span = high.wrapping_sub(low) as u64;
                if high <= low { low } else { low.wrapping_add((random::<u64>() % span) as $t) }
            }
        }
    )*};
}
int_range!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! float_range {
    ($($t:ty)*) => {$(
        impl RandomRange for $t {
            fn between(low: $t, high: $t) -> $t {
                low + (high - low) * random::<$t>()
            }
        }
    )*};
}
float_range!(f16 f32 f64);
