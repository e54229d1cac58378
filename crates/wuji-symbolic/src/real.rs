//! The scalars that generic numeric code runs on: numbers and symbols.

use crate::op::{Binary, Compare, Unary};
use crate::sym::{Mask, Sym};
use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{
    Add, AddAssign, BitAnd, BitOr, Div, DivAssign, Mul, MulAssign, Neg, Not, Sub, SubAssign,
};

/// A real scalar: `f32`, `f64` or [`Sym`].
///
/// Code that is generic over it runs on numbers, and is traced when it runs on symbols.
///
/// ```
/// use wuji_symbolic::{Real, Trace};
///
/// fn length<T: Real>(x: T, y: T) -> T {
///     (x * x + y * y).sqrt()
/// }
///
/// # fn main() -> wuji::Result<()> {
/// assert_eq!(length(3.0, 4.0), 5.0);
/// let trace = Trace::record(&[2], |x| vec![vec![length(x[0][0], x[0][1])]])?;
/// assert_eq!(trace.evaluate(&[&[3.0, 4.0]])?, [[5.0]]);
/// # Ok(())
/// # }
/// ```
pub trait Real:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
    + 'static
{
    /// The result of a comparison.
    type Mask: Copy
        + BitAnd<Output = Self::Mask>
        + BitOr<Output = Self::Mask>
        + Not<Output = Self::Mask>;

    /// The nearest number.
    fn from_f64(value: f64) -> Self;

    /// The absolute value.
    fn abs(self) -> Self;
    /// The largest integer that is not greater.
    fn floor(self) -> Self;
    /// The smallest integer that is not smaller.
    fn ceil(self) -> Self;
    /// Half away from zero.
    fn round(self) -> Self;
    /// The integer part.
    fn trunc(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The sine.
    fn sin(self) -> Self;
    /// The cosine.
    fn cos(self) -> Self;
    /// The tangent.
    fn tan(self) -> Self;
    /// The inverse sine.
    fn asin(self) -> Self;
    /// The inverse cosine.
    fn acos(self) -> Self;
    /// The inverse tangent.
    fn atan(self) -> Self;
    /// The hyperbolic sine.
    fn sinh(self) -> Self;
    /// The hyperbolic cosine.
    fn cosh(self) -> Self;
    /// The hyperbolic tangent.
    fn tanh(self) -> Self;
    /// The exponential function.
    fn exp(self) -> Self;
    /// Two to this power.
    fn exp2(self) -> Self;
    /// The natural logarithm.
    fn ln(self) -> Self;
    /// The logarithm with base 2.
    fn log2(self) -> Self;
    /// The logarithm with base 10.
    fn log10(self) -> Self;
    /// The angle of the point `(x, self)`.
    fn atan2(self, x: Self) -> Self;
    /// This number to a power.
    fn powf(self, exponent: Self) -> Self;
    /// This number to an integer power.
    fn powi(self, exponent: i32) -> Self;
    /// The smaller number.
    fn min(self, other: Self) -> Self;
    /// The larger number.
    fn max(self, other: Self) -> Self;
    /// Whether `self < other`.
    fn less(self, other: Self) -> Self::Mask;
    /// Whether `self <= other`.
    fn less_equal(self, other: Self) -> Self::Mask;
    /// Whether `self == other`.
    fn equals(self, other: Self) -> Self::Mask;
    /// `a` where the condition holds, `b` elsewhere. Both are computed.
    fn select(condition: Self::Mask, a: Self, b: Self) -> Self;
    /// See [`block`](crate::block).
    fn block(values: &[Self]);

    /// Zero.
    fn zero() -> Self {
        Self::from_f64(0.0)
    }

    /// One.
    fn one() -> Self {
        Self::from_f64(1.0)
    }
}

macro_rules! real {
    ($float:ident) => {
        impl Real for $float {
            type Mask = bool;

            fn from_f64(value: f64) -> $float {
                value as $float
            }

            real!(@unary $float: abs floor ceil round trunc sqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 ln log2 log10);
            real!(@binary $float: atan2 powf min max);

            fn powi(self, exponent: i32) -> $float {
                $float::powi(self, exponent)
            }

            fn less(self, other: $float) -> bool {
                self < other
            }

            fn less_equal(self, other: $float) -> bool {
                self <= other
            }

            fn equals(self, other: $float) -> bool {
                self == other
            }

            fn select(condition: bool, a: $float, b: $float) -> $float {
                if condition { a } else { b }
            }

            fn block(_: &[$float]) {}
        }
    };
    (@unary $float:ident: $($name:ident)*) => {$(
        fn $name(self) -> $float {
            $float::$name(self)
        }
    )*};
    (@binary $float:ident: $($name:ident)*) => {$(
        fn $name(self, other: $float) -> $float {
            $float::$name(self, other)
        }
    )*};
}

real!(f32);
real!(f64);

macro_rules! symbolic {
    ($($name:ident = $op:ident),*; $($binary:ident = $binary_op:ident),*; $($compare:ident = $compare_op:ident),*) => {
        $(#[track_caller]
        fn $name(self) -> Sym {
            self.unary(Unary::$op)
        })*

        $(#[track_caller]
        fn $binary(self, other: Sym) -> Sym {
            self.binary(Binary::$binary_op, other)
        })*

        $(#[track_caller]
        fn $compare(self, other: Sym) -> Mask {
            self.compare(Compare::$compare_op, other)
        })*
    };
}

impl Real for Sym {
    type Mask = Mask;

    fn from_f64(value: f64) -> Sym {
        Sym::new(value)
    }

    symbolic! {
        abs = Abs, floor = Floor, ceil = Ceil, round = Round, trunc = Trunc, sqrt = Sqrt, sin = Sin, cos = Cos, tan = Tan, asin = Asin,
        acos = Acos, atan = Atan, sinh = Sinh, cosh = Cosh, tanh = Tanh, exp = Exp, exp2 = Exp2, ln = Log, log2 = Log2, log10 = Log10;
        atan2 = Atan2, powf = Pow, min = Min, max = Max;
        less = Lt, less_equal = Le, equals = Eq
    }

    #[track_caller]
    fn powi(self, exponent: i32) -> Sym {
        if exponent.unsigned_abs() > 16 {
            return self.binary(Binary::Pow, Sym::new(f64::from(exponent)));
        }
        let caller = std::panic::Location::caller();
        match self.as_const() {
            Some(value) => Sym::new(value.powi(exponent)),
            None => Sym::build(caller, |r| {
                let a = self.node(r);
                r.arena.power(a, exponent)
            }),
        }
    }

    #[track_caller]
    fn select(condition: Mask, a: Sym, b: Sym) -> Sym {
        Sym::choose(condition, a, b)
    }

    #[track_caller]
    fn block(values: &[Sym]) {
        crate::sym::block(values);
    }
}
