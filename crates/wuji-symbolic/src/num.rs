//! The traits of `num-traits`, so that code written against them traces unchanged.
//!
//! Questions about a value that is not known while tracing (`is_nan`, `to_f64`, `integer_decode`) end the recording with an error.

use crate::real::Real;
use crate::sym::Sym;
use num_traits::{
    Bounded, Float, FloatConst, FromPrimitive, Num, NumCast, One, Signed, ToPrimitive, Zero,
};
use std::num::FpCategory;
use std::panic::Location;

impl Sym {
    /// A property of a constant; of anything else it is unknown while tracing.
    #[track_caller]
    pub(crate) fn ask<R>(self, question: &str, answer: impl FnOnce(f64) -> R, otherwise: R) -> R {
        let caller = Location::caller();
        match self.as_const() {
            Some(value) => answer(value),
            None => {
                self.refuse_question(question, caller);
                otherwise
            }
        }
    }
}

impl Zero for Sym {
    fn zero() -> Sym {
        Sym::new(0.0)
    }

    #[track_caller]
    fn is_zero(&self) -> bool {
        self.ask("`is_zero`", |x| x == 0.0, false)
    }
}

impl One for Sym {
    fn one() -> Sym {
        Sym::new(1.0)
    }
}

impl Num for Sym {
    type FromStrRadixErr = <f64 as Num>::FromStrRadixErr;

    fn from_str_radix(text: &str, radix: u32) -> Result<Sym, Self::FromStrRadixErr> {
        f64::from_str_radix(text, radix).map(Sym::new)
    }
}

impl ToPrimitive for Sym {
    #[track_caller]
    fn to_i64(&self) -> Option<i64> {
        self.ask("`to_i64`", |x| x.to_i64(), None)
    }

    #[track_caller]
    fn to_u64(&self) -> Option<u64> {
        self.ask("`to_u64`", |x| x.to_u64(), None)
    }

    #[track_caller]
    fn to_f64(&self) -> Option<f64> {
        self.ask("`to_f64`", Some, None)
    }

    #[track_caller]
    fn to_f32(&self) -> Option<f32> {
        self.ask("`to_f32`", |x| Some(x as f32), None)
    }
}

impl FromPrimitive for Sym {
    fn from_i64(n: i64) -> Option<Sym> {
        Some(Sym::new(n as f64))
    }

    fn from_u64(n: u64) -> Option<Sym> {
        Some(Sym::new(n as f64))
    }

    fn from_f64(n: f64) -> Option<Sym> {
        Some(Sym::new(n))
    }
}

impl NumCast for Sym {
    fn from<T: ToPrimitive>(n: T) -> Option<Sym> {
        n.to_f64().map(Sym::new)
    }
}

impl Bounded for Sym {
    fn min_value() -> Sym {
        Sym::new(f64::MIN)
    }

    fn max_value() -> Sym {
        Sym::new(f64::MAX)
    }
}

impl Signed for Sym {
    #[track_caller]
    fn abs(&self) -> Sym {
        Real::abs(*self)
    }

    #[track_caller]
    fn abs_sub(&self, other: &Sym) -> Sym {
        Real::max(*self - *other, Sym::new(0.0))
    }

    #[track_caller]
    fn signum(&self) -> Sym {
        Float::signum(*self)
    }

    #[track_caller]
    fn is_positive(&self) -> bool {
        self.ask("`is_positive`", |x| x.is_sign_positive(), false)
    }

    #[track_caller]
    fn is_negative(&self) -> bool {
        self.ask("`is_negative`", |x| x.is_sign_negative(), false)
    }
}

macro_rules! constants {
    ($($name:ident)*) => {
        #[allow(non_snake_case)]
        impl FloatConst for Sym {
            $(fn $name() -> Sym {
                Sym::new(f64::$name())
            })*
        }
    };
}

constants! {
    E FRAC_1_PI FRAC_1_SQRT_2 FRAC_2_PI FRAC_2_SQRT_PI FRAC_PI_2 FRAC_PI_3 FRAC_PI_4 FRAC_PI_6 FRAC_PI_8
    LN_10 LN_2 LOG10_E LOG2_E PI SQRT_2
}

macro_rules! values {
    ($($name:ident)*) => {$(
        fn $name() -> Sym {
            Sym::new(<f64 as Float>::$name())
        }
    )*};
}

macro_rules! questions {
    ($($name:ident: $answer:ty = $otherwise:expr;)*) => {$(
        #[track_caller]
        fn $name(self) -> $answer {
            self.ask(concat!("`", stringify!($name), "`"), |x| Float::$name(x), $otherwise)
        }
    )*};
}

macro_rules! functions {
    ($($name:ident)*; $($binary:ident)*) => {
        $(#[track_caller]
        fn $name(self) -> Sym {
            Real::$name(self)
        })*

        $(#[track_caller]
        fn $binary(self, other: Sym) -> Sym {
            Real::$binary(self, other)
        })*
    };
}

impl Float for Sym {
    values! { nan infinity neg_infinity neg_zero min_value min_positive_value epsilon max_value }

    questions! {
        is_nan: bool = false;
        is_infinite: bool = false;
        is_finite: bool = true;
        is_normal: bool = true;
        is_subnormal: bool = false;
        classify: FpCategory = FpCategory::Normal;
        is_sign_positive: bool = true;
        is_sign_negative: bool = false;
        integer_decode: (u64, i16, i8) = (0, 0, 1);
    }

    functions! {
        floor ceil round trunc abs sqrt exp exp2 ln log2 log10 sin cos tan asin acos atan sinh cosh tanh;
        powf max min atan2
    }

    #[track_caller]
    fn powi(self, n: i32) -> Sym {
        Real::powi(self, n)
    }

    #[track_caller]
    fn fract(self) -> Sym {
        self - Real::trunc(self)
    }

    #[track_caller]
    fn signum(self) -> Sym {
        let (plus, minus) = (Sym::new(1.0), Sym::new(-1.0));
        Real::select(self.less(Sym::new(0.0)), minus, plus)
    }

    #[track_caller]
    fn mul_add(self, a: Sym, b: Sym) -> Sym {
        self * a + b
    }

    #[track_caller]
    fn recip(self) -> Sym {
        Sym::new(1.0) / self
    }

    #[track_caller]
    fn log(self, base: Sym) -> Sym {
        Real::ln(self) / Real::ln(base)
    }

    #[track_caller]
    fn clamp(self, min: Sym, max: Sym) -> Sym {
        Real::min(Real::max(self, min), max)
    }

    #[track_caller]
    fn abs_sub(self, other: Sym) -> Sym {
        Real::max(self - other, Sym::new(0.0))
    }

    #[track_caller]
    fn cbrt(self) -> Sym {
        let root = Real::powf(Real::abs(self), Sym::new(1.0 / 3.0));
        root * Float::signum(self)
    }

    #[track_caller]
    fn hypot(self, other: Sym) -> Sym {
        Real::sqrt(self * self + other * other)
    }

    #[track_caller]
    fn sin_cos(self) -> (Sym, Sym) {
        (Real::sin(self), Real::cos(self))
    }

    #[track_caller]
    fn exp_m1(self) -> Sym {
        Real::exp(self) - 1.0
    }

    #[track_caller]
    fn ln_1p(self) -> Sym {
        Real::ln(self + 1.0)
    }

    #[track_caller]
    fn asinh(self) -> Sym {
        Real::ln(self + Real::sqrt(self * self + 1.0))
    }

    #[track_caller]
    fn acosh(self) -> Sym {
        Real::ln(self + Real::sqrt(self * self - 1.0))
    }

    #[track_caller]
    fn atanh(self) -> Sym {
        Real::ln((self + 1.0) / (1.0 - self)) * 0.5
    }

    #[track_caller]
    fn copysign(self, sign: Sym) -> Sym {
        Real::abs(self) * Float::signum(sign)
    }
}
