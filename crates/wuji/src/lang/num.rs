//! The scalar types as traits, for `#[func]`s that are generic over them.

use crate::element::ScalarElement;
use half::f16;
use std::fmt::{Debug, Display};
use std::ops::*;

/// A number: all integers and floats.
pub trait Num:
    ScalarElement
    + Debug
    + Display
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + RemAssign
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// Rounded to the nearest; integers saturate.
    fn from_f64(value: f64) -> Self;

    #[doc(hidden)]
    fn wide(self) -> Wide;
    #[doc(hidden)]
    fn narrow(value: Wide) -> Self;

    /// As `self as U` does it.
    #[inline]
    fn cast<U: Num>(self) -> U {
        U::narrow(self.wide())
    }

    #[doc(hidden)]
    fn smaller(self, other: Self) -> Self;
    #[doc(hidden)]
    fn larger(self, other: Self) -> Self;
}

/// A number on its way between types.
#[doc(hidden)]
#[derive(Copy, Clone, Debug)]
pub enum Wide {
    Int(i128),
    Float(f64),
}

/// An integer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer",
    label = "an integer is needed here"
)]
pub trait Int:
    Num
    + Eq
    + Ord
    + Not<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Shl<Output = Self>
    + Shr<Output = Self>
    + BitAndAssign
    + BitOrAssign
    + BitXorAssign
{
    #[doc(hidden)]
    fn index(self) -> usize;
}

/// A number that can be negative.
pub trait Signed: Num + Neg<Output = Self> {
    #[doc(hidden)]
    fn magnitude(self) -> Self;
    #[doc(hidden)]
    fn sign(self) -> Self;
}

macro_rules! num {
    ($wide:ident: $($t:ty, $zero:expr, $one:expr, |$f:ident| $from:expr, |$v:ident| $to:expr, |$i:ident| $int:expr;)*) => {$(
        impl Num for $t {
            const ZERO: Self = $zero;
            const ONE: Self = $one;

            #[inline]
            fn from_f64($f: f64) -> Self {
                $from
            }
            #[inline]
            fn wide(self) -> Wide {
                let $v = self;
                Wide::$wide($to)
            }
            #[inline]
            fn narrow(value: Wide) -> Self {
                match value {
                    Wide::Float($f) => $from,
                    Wide::Int($i) => $int,
                }
            }
            #[inline]
            #[allow(clippy::eq_op)]
            fn smaller(self, other: Self) -> Self {
                if self < other || other != other { self } else { other }
            }
            #[inline]
            #[allow(clippy::eq_op)]
            fn larger(self, other: Self) -> Self {
                if self > other || other != other { self } else { other }
            }
        }
    )*};
}

macro_rules! ints {
    ($($t:ty)*) => {
        num!(Int: $($t, 0, 1, |f| f as $t, |v| v as i128, |i| i as $t;)*);
        $(impl Int for $t {
            #[inline]
            fn index(self) -> usize {
                usize::try_from(self).unwrap_or(usize::MAX)
            }
        })*
    };
}

ints!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);
num!(Float:
    f16, f16::ZERO, f16::ONE, |f| f16::from_f64(f), |v| v.to_f64(), |i| f16::from_f64(i as f64);
    f32, 0.0, 1.0, |f| f as f32, |v| f64::from(v), |i| i as f32;
    f64, 0.0, 1.0, |f| f, |v| v, |i| i as f64;
);

macro_rules! signed {
    ($($t:ty, $abs:expr, $sign:expr;)*) => {$(
        impl Signed for $t {
            #[inline]
            fn magnitude(self) -> Self {
                $abs(self)
            }
            #[inline]
            fn sign(self) -> Self {
                $sign(self)
            }
        }
    )*};
}

signed! {
    i8, i8::wrapping_abs, i8::signum;
    i16, i16::wrapping_abs, i16::signum;
    i32, i32::wrapping_abs, i32::signum;
    i64, i64::wrapping_abs, i64::signum;
    isize, isize::wrapping_abs, isize::signum;
    f16, |x: f16| f16::from_bits(x.to_bits() & 0x7fff), f16::signum;
    f32, f32::abs, f32::signum;
    f64, f64::abs, f64::signum;
}

macro_rules! floats {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*);)*) => {
        /// A float, with the methods that `f32` and `f64` have by themselves, for `#[func]`s that are
        /// generic over the float type. `f16` computes them in `f32` and rounds.
        pub trait Float: Signed {
            /// The difference between 1 and the next larger number.
            const EPSILON: Self;

            /// The power of two that scales the magnitude to `[1, 2)`, or as near to it as a normal number with a normal reciprocal
            /// does; for zero, the largest one. Of a power of two in this range, it is the reciprocal.
            #[doc(hidden)]
            fn unit_scale(self) -> Self;

            $($(#[$doc])*
                /// As the method of `f32` with this name.
                fn $name(self $(, $arg: Self)*) -> Self;)*

            /// `1 / sqrt(self)`.
            fn rsqrt(self) -> Self {
                Self::ONE / self.sqrt()
            }
            /// `self` raised to an integer power.
            fn powi(self, n: i32) -> Self;
            /// Whether it is not a number.
            fn is_nan(self) -> bool;
            /// Whether it is neither infinite nor NaN.
            fn is_finite(self) -> bool;
            /// Whether it is infinite.
            fn is_infinite(self) -> bool;
        }

        floats!(@native f32, 23, 254: $($name($($arg),*);)*);
        floats!(@native f64, 52, 2046: $($name($($arg),*);)*);

        impl Float for f16 {
            const EPSILON: Self = f16::EPSILON;

            #[inline]
            fn unit_scale(self) -> Self {
                f16::from_bits((30 << 10) - (self.to_bits() & 0x7c00).clamp(1 << 10, 29 << 10))
            }
            $(#[inline] fn $name(self $(, $arg: Self)*) -> Self {
                f16::from_f32(self.to_f32().$name($($arg.to_f32()),*))
            })*
            #[inline]
            fn powi(self, n: i32) -> Self {
                f16::from_f32(self.to_f32().powi(n))
            }
            #[inline]
            fn is_nan(self) -> bool {
                f16::is_nan(self)
            }
            #[inline]
            fn is_finite(self) -> bool {
                f16::is_finite(self)
            }
            #[inline]
            fn is_infinite(self) -> bool {
                f16::is_infinite(self)
            }
        }
    };
    (@native $t:ident, $digits:literal, $exponents:literal: $($name:ident($($arg:ident),*);)*) => {
        impl Float for $t {
            const EPSILON: Self = $t::EPSILON;

            #[inline]
            fn unit_scale(self) -> Self {
                // Twice the exponent of 1, less the exponent.
                let least = 1 << $digits;
                let exponent = self.to_bits() & ($exponents + 1) * least;
                $t::from_bits($exponents * least - exponent.clamp(least, ($exponents - 1) * least))
            }
            $(#[inline] fn $name(self $(, $arg: Self)*) -> Self {
                $t::$name(self $(, $arg)*)
            })*
            #[inline]
            fn powi(self, n: i32) -> Self {
                $t::powi(self, n)
            }
            #[inline]
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
            #[inline]
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            #[inline]
            fn is_infinite(self) -> bool {
                $t::is_infinite(self)
            }
        }
    };
}

floats! {
    sqrt(); sin(); cos(); tan(); asin(); acos(); atan(); sinh(); cosh(); tanh();
    exp(); exp2(); ln(); log2(); log10();
    floor(); ceil(); trunc();
    /// Half away from zero.
    round();
    /// Half to even.
    round_ties_even();
    /// What `trunc` leaves, with the sign of `self`.
    fract();
    abs();
    /// 1 with the sign of `self`, also for zeros; NaN for NaN.
    signum();
    copysign(sign);
    recip();
    to_radians();
    to_degrees();
    powf(exponent);
    atan2(x);
    hypot(other);
    /// The other one when one is NaN.
    min(other);
    /// The other one when one is NaN.
    max(other);
    clamp(low, high);
    /// `self * a + b`, rounded once.
    mul_add(a, b);
    rem_euclid(divisor);
    div_euclid(divisor);
}
