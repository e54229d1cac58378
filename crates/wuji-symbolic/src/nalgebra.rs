//! The traits of nalgebra's scalars, so that code written against `RealField` traces unchanged.
//!
//! Questions about a value that is not known while tracing end the recording with an error: `is_zero`, comparisons, `try_sqrt`. So matrix
//! and vector arithmetic, norms, rotations and determinants trace, and decompositions with pivots do not.

use crate::real::Real;
use crate::sym::Sym;
use approx::{AbsDiffEq, RelativeEq, UlpsEq};
use num_traits::Float;
use simba::scalar::{ComplexField, Field, RealField, SubsetOf};
use simba::simd::SimdValue;
use std::f64::consts;
use std::panic::Location;

// The trait has unsafe methods; these do nothing unsafe, for any lane.
#[allow(unsafe_code)]
impl SimdValue for Sym {
    const LANES: usize = 1;
    type Element = Sym;
    type SimdBool = bool;

    fn splat(value: Sym) -> Sym {
        value
    }

    fn extract(&self, _: usize) -> Sym {
        *self
    }

    unsafe fn extract_unchecked(&self, _: usize) -> Sym {
        *self
    }

    fn replace(&mut self, _: usize, value: Sym) {
        *self = value;
    }

    unsafe fn replace_unchecked(&mut self, _: usize, value: Sym) {
        *self = value;
    }

    fn select(self, condition: bool, other: Sym) -> Sym {
        if condition { self } else { other }
    }
}

impl Field for Sym {}

impl SubsetOf<Sym> for Sym {
    fn to_superset(&self) -> Sym {
        *self
    }

    fn from_superset_unchecked(element: &Sym) -> Sym {
        *element
    }

    fn is_in_subset(_: &Sym) -> bool {
        true
    }
}

macro_rules! subset {
    ($($float:ident)*) => {$(
        impl SubsetOf<Sym> for $float {
            fn to_superset(&self) -> Sym {
                Sym::from(*self)
            }

            #[track_caller]
            fn from_superset_unchecked(element: &Sym) -> $float {
                element.ask("a conversion to a number", |x| x as $float, $float::NAN)
            }

            fn is_in_subset(element: &Sym) -> bool {
                element.as_const().is_some()
            }
        }
    )*};
}

subset! { f32 f64 }

impl AbsDiffEq for Sym {
    type Epsilon = Sym;

    fn default_epsilon() -> Sym {
        Sym::new(f64::default_epsilon())
    }

    #[track_caller]
    fn abs_diff_eq(&self, other: &Sym, epsilon: Sym) -> bool {
        self.is_same(*other) || Real::abs(*self - *other) <= epsilon
    }
}

impl RelativeEq for Sym {
    fn default_max_relative() -> Sym {
        Sym::new(f64::default_max_relative())
    }

    #[track_caller]
    fn relative_eq(&self, other: &Sym, epsilon: Sym, max_relative: Sym) -> bool {
        let largest = Real::max(Real::abs(*self), Real::abs(*other));
        self.abs_diff_eq(other, Real::max(epsilon, largest * max_relative))
    }
}

impl UlpsEq for Sym {
    fn default_max_ulps() -> u32 {
        f64::default_max_ulps()
    }

    #[track_caller]
    fn ulps_eq(&self, other: &Sym, epsilon: Sym, max_ulps: u32) -> bool {
        match (self.as_const(), other.as_const(), epsilon.as_const()) {
            (Some(a), Some(b), Some(epsilon)) => a.ulps_eq(&b, epsilon, max_ulps),
            (_, _, _) => self.abs_diff_eq(other, epsilon),
        }
    }
}

impl Sym {
    /// `f(x) / x`, and 1 where `x` is 0.
    fn cardinal(self, f: impl Fn(Sym) -> Sym) -> Sym {
        let zero = self.equals(Sym::new(0.0));
        Real::select(zero, Sym::new(1.0), f(self) / self)
    }
}

macro_rules! forward {
    ($trait:ident: $($name:ident)*) => {$(
        #[track_caller]
        fn $name(self) -> Sym {
            $trait::$name(self)
        }
    )*};
}

impl ComplexField for Sym {
    type RealField = Sym;

    forward! { Real: floor ceil round trunc abs sin cos tan asin acos atan sinh cosh tanh log2 log10 ln sqrt exp exp2 }
    forward! { Float: fract recip asinh acosh atanh ln_1p exp_m1 cbrt signum }

    fn from_real(re: Sym) -> Sym {
        re
    }

    fn real(self) -> Sym {
        self
    }

    fn imaginary(self) -> Sym {
        Sym::new(0.0)
    }

    #[track_caller]
    fn modulus(self) -> Sym {
        Real::abs(self)
    }

    #[track_caller]
    fn modulus_squared(self) -> Sym {
        self * self
    }

    #[track_caller]
    fn argument(self) -> Sym {
        let (zero, pi) = (Sym::new(0.0), Sym::new(consts::PI));
        Real::select(self.less(zero), pi, zero)
    }

    #[track_caller]
    fn norm1(self) -> Sym {
        Real::abs(self)
    }

    #[track_caller]
    fn scale(self, factor: Sym) -> Sym {
        self * factor
    }

    #[track_caller]
    fn unscale(self, factor: Sym) -> Sym {
        self / factor
    }

    #[track_caller]
    fn to_exp(self) -> (Sym, Sym) {
        (Real::abs(self), Float::signum(self))
    }

    #[track_caller]
    fn mul_add(self, a: Sym, b: Sym) -> Sym {
        self * a + b
    }

    #[track_caller]
    fn hypot(self, other: Sym) -> Sym {
        Float::hypot(self, other)
    }

    fn conjugate(self) -> Sym {
        self
    }

    #[track_caller]
    fn sin_cos(self) -> (Sym, Sym) {
        (Real::sin(self), Real::cos(self))
    }

    #[track_caller]
    fn sinc(self) -> Sym {
        self.cardinal(Real::sin)
    }

    #[track_caller]
    fn sinhc(self) -> Sym {
        self.cardinal(Real::sinh)
    }

    #[track_caller]
    fn cosc(self) -> Sym {
        self.cardinal(Real::cos)
    }

    #[track_caller]
    fn coshc(self) -> Sym {
        self.cardinal(Real::cosh)
    }

    #[track_caller]
    fn log(self, base: Sym) -> Sym {
        Float::log(self, base)
    }

    #[track_caller]
    fn powi(self, n: i32) -> Sym {
        Real::powi(self, n)
    }

    #[track_caller]
    fn powf(self, n: Sym) -> Sym {
        Real::powf(self, n)
    }

    #[track_caller]
    fn powc(self, n: Sym) -> Sym {
        Real::powf(self, n)
    }

    #[track_caller]
    fn is_finite(&self) -> bool {
        Float::is_finite(*self)
    }

    #[track_caller]
    fn try_sqrt(self) -> Option<Sym> {
        match self.as_const() {
            Some(value) => (value >= 0.0).then(|| Sym::new(value.sqrt())),
            None => {
                self.refuse_question("`try_sqrt`", Location::caller());
                None
            }
        }
    }
}

macro_rules! constants {
    ($($name:ident = $value:expr;)*) => {$(
        fn $name() -> Sym {
            Sym::new($value)
        }
    )*};
}

impl RealField for Sym {
    constants! {
        pi = consts::PI;
        two_pi = consts::TAU;
        frac_pi_2 = consts::FRAC_PI_2;
        frac_pi_3 = consts::FRAC_PI_3;
        frac_pi_4 = consts::FRAC_PI_4;
        frac_pi_6 = consts::FRAC_PI_6;
        frac_pi_8 = consts::FRAC_PI_8;
        frac_1_pi = consts::FRAC_1_PI;
        frac_2_pi = consts::FRAC_2_PI;
        frac_2_sqrt_pi = consts::FRAC_2_SQRT_PI;
        e = consts::E;
        log2_e = consts::LOG2_E;
        log10_e = consts::LOG10_E;
        ln_2 = consts::LN_2;
        ln_10 = consts::LN_10;
    }

    #[track_caller]
    fn is_sign_positive(&self) -> bool {
        Float::is_sign_positive(*self)
    }

    #[track_caller]
    fn is_sign_negative(&self) -> bool {
        Float::is_sign_negative(*self)
    }

    #[track_caller]
    fn copysign(self, sign: Sym) -> Sym {
        Float::copysign(self, sign)
    }

    #[track_caller]
    fn max(self, other: Sym) -> Sym {
        Real::max(self, other)
    }

    #[track_caller]
    fn min(self, other: Sym) -> Sym {
        Real::min(self, other)
    }

    #[track_caller]
    fn clamp(self, min: Sym, max: Sym) -> Sym {
        Float::clamp(self, min, max)
    }

    #[track_caller]
    fn atan2(self, other: Sym) -> Sym {
        Real::atan2(self, other)
    }

    fn min_value() -> Option<Sym> {
        Some(Sym::new(f64::MIN))
    }

    fn max_value() -> Option<Sym> {
        Some(Sym::new(f64::MAX))
    }
}
