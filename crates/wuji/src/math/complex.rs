//! Complex numbers.

use crate::lang::Float;
use std::ops::{Add, Div, Mul, Neg, Sub};
use wuji_macros::{Element, func};

/// A complex number.
///
/// ```
/// use wuji::math::Complex;
///
/// let i = Complex::new(0.0f32, 1.0);
/// assert_eq!(i * i, Complex::new(-1.0, 0.0));
/// assert!(((i * std::f32::consts::PI).exp() - Complex::new(-1.0, 0.0)).norm() < 1e-6);
/// ```
#[derive(Element, Clone, Copy, PartialEq, Debug, Default)]
#[repr(C)]
pub struct Complex<T: Float> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

/// A complex number of `f64`.
pub type DComplex = Complex<f64>;

#[func]
impl<T: Float> Complex<T> {
    /// From the real and the imaginary part.
    pub fn new(re: T, im: T) -> Complex<T> {
        Complex { re, im }
    }

    /// From the absolute value and the angle.
    pub fn from_polar(r: T, angle: T) -> Complex<T> {
        Complex::new(r * angle.cos(), r * angle.sin())
    }

    /// The imaginary part negated.
    pub fn conjugate(self) -> Complex<T> {
        Complex::new(self.re, -self.im)
    }

    /// The square of the absolute value.
    pub fn norm_sqr(self) -> T {
        self.re * self.re + self.im * self.im
    }

    /// The absolute value.
    pub fn norm(self) -> T {
        self.re.hypot(self.im)
    }

    /// The angle, from -pi to pi.
    pub fn angle(self) -> T {
        self.im.atan2(self.re)
    }

    /// `1 / self`.
    pub fn inverse(self) -> Complex<T> {
        self.conjugate() * (T::ONE / self.norm_sqr())
    }

    /// The exponential.
    pub fn exp(self) -> Complex<T> {
        Complex::from_polar(self.re.exp(), self.im)
    }

    /// The principal logarithm.
    pub fn ln(self) -> Complex<T> {
        Complex::new(self.norm().ln(), self.angle())
    }

    /// The principal square root.
    pub fn sqrt(self) -> Complex<T> {
        Complex::from_polar(self.norm().sqrt(), self.angle() * T::from_f64(0.5))
    }

    /// The principal value of a real power.
    pub fn powf(self, exponent: T) -> Complex<T> {
        Complex::from_polar(self.norm().powf(exponent), self.angle() * exponent)
    }
}

#[func]
impl<T: Float> Add for Complex<T> {
    type Output = Complex<T>;

    fn add(self, o: Complex<T>) -> Complex<T> {
        Complex::new(self.re + o.re, self.im + o.im)
    }
}

#[func]
impl<T: Float> Sub for Complex<T> {
    type Output = Complex<T>;

    fn sub(self, o: Complex<T>) -> Complex<T> {
        Complex::new(self.re - o.re, self.im - o.im)
    }
}

#[func]
impl<T: Float> Neg for Complex<T> {
    type Output = Complex<T>;

    fn neg(self) -> Complex<T> {
        Complex::new(-self.re, -self.im)
    }
}

#[func]
impl<T: Float> Mul for Complex<T> {
    type Output = Complex<T>;

    fn mul(self, o: Complex<T>) -> Complex<T> {
        Complex::new(
            self.re * o.re - self.im * o.im,
            self.re * o.im + self.im * o.re,
        )
    }
}

#[func]
impl<T: Float> Mul<T> for Complex<T> {
    type Output = Complex<T>;

    fn mul(self, s: T) -> Complex<T> {
        Complex::new(self.re * s, self.im * s)
    }
}

#[func]
impl<T: Float> Div for Complex<T> {
    type Output = Complex<T>;

    fn div(self, o: Complex<T>) -> Complex<T> {
        self * o.inverse()
    }
}
