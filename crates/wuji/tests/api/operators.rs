//! Traits with `#[func]`s, and operators of types of the user.
//!
//! rustc reports none of the functions as unused.

#![deny(dead_code)]

use crate::agree::worlds;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Not, Sub};
use wuji::prelude::*;

#[derive(Element, Clone, Copy, Debug)]
struct Complex {
    re: f32,
    im: f32,
}

#[func]
fn complex(re: f32, im: f32) -> Complex {
    Complex { re, im }
}

#[func]
impl Add for Complex {
    type Output = Complex;

    fn add(self, other: Complex) -> Complex {
        complex(self.re + other.re, self.im + other.im)
    }
}

#[func]
impl Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self::Output {
        self + -other
    }
}

#[func]
impl Mul for Complex {
    type Output = Complex;

    fn mul(self, o: Complex) -> Complex {
        complex(
            self.re * o.re - self.im * o.im,
            self.re * o.im + self.im * o.re,
        )
    }
}

#[func]
impl Mul<f32> for Complex {
    type Output = Complex;

    fn mul(self, s: f32) -> Complex {
        complex(self.re * s, self.im * s)
    }
}

#[func]
impl Mul<Complex> for f32 {
    type Output = Complex;

    fn mul(self, z: Complex) -> Complex {
        z * self
    }
}

#[func]
impl Neg for Complex {
    type Output = Complex;

    fn neg(self) -> Complex {
        complex(-self.re, -self.im)
    }
}

#[func]
impl Not for Complex {
    type Output = Complex;

    fn not(self) -> Complex {
        complex(self.re, -self.im)
    }
}

#[func]
impl AddAssign for Complex {
    fn add_assign(&mut self, other: Complex) {
        *self = *self + other;
    }
}

#[func]
impl MulAssign<f32> for Complex {
    fn mul_assign(&mut self, s: f32) {
        self.re *= s;
        self.im *= s;
    }
}

/// Equal up to rounding.
#[func]
impl PartialEq for Complex {
    fn eq(&self, other: &Complex) -> bool {
        (self.re - other.re).abs() < 0.01 && (self.im - other.im).abs() < 0.01
    }
}

/// A generic one.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Dual<T> {
    value: T,
    slope: T,
}

#[func]
impl<T: Num> Add for Dual<T> {
    type Output = Dual<T>;

    fn add(self, o: Dual<T>) -> Dual<T> {
        Dual {
            value: self.value + o.value,
            slope: self.slope + o.slope,
        }
    }
}

#[func]
impl<T: Num> Mul for Dual<T> {
    type Output = Dual<T>;

    fn mul(self, o: Dual<T>) -> Dual<T> {
        Dual {
            value: self.value * o.value,
            slope: self.value * o.slope + self.slope * o.value,
        }
    }
}

#[func]
impl<T: Num> Div<T> for Dual<T> {
    type Output = Dual<T>;

    fn div(self, s: T) -> Dual<T> {
        Dual {
            value: self.value / s,
            slope: self.slope / s,
        }
    }
}

/// All functions of a trait.
#[func]
trait Solid: Element {
    fn distance(&self, p: Vec3) -> f32;

    fn grow(&mut self, by: f32);

    fn is_inside(&self, p: Vec3) -> bool {
        self.distance(p) < 0.0
    }
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Ball {
    radius: f32,
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Slab {
    height: f32,
}

#[func]
impl Solid for Ball {
    fn distance(&self, p: Vec3) -> f32 {
        p.norm() - self.radius
    }

    fn grow(&mut self, by: f32) {
        self.radius += by;
    }
}

#[func]
impl Solid for Slab {
    fn distance(&self, p: Vec3) -> f32 {
        p.z.abs() - self.height
    }

    fn grow(&mut self, by: f32) {
        self.height *= by;
    }

    fn is_inside(&self, p: Vec3) -> bool {
        p.z.abs() < self.height
    }
}

#[func]
impl Slab {
    fn doubled(self) -> Slab {
        Slab {
            height: self.height * 2.0,
        }
    }
}

#[func]
fn count<S: Solid>(solid: S) -> i32 {
    let mut n = 0;
    let mut s = solid;
    s.grow(0.5);
    for k in 0..10 {
        if s.is_inside(vec3(0.0, 0.0, k as f32 * 0.25)) {
            n += 1;
        }
    }
    n
}

agree! {
    fn operators(a: f32, b: f32) -> (Complex, Complex, bool, bool) {
        let z = complex(a, b);
        let mut w = z * z + 2.0 * z - z * 0.5;
        w += !z;
        w *= 0.5;
        let mut all = [z, w];
        all[1] += -z;
        (w, all[1], z == z + complex(0.001, 0.0), w != z)
    } with (1.0, 2.0), (-0.5, 0.25);

    fn generic_operators(x: f32, n: i32) -> (Dual<f32>, Dual<i32>) {
        let d = Dual { value: x, slope: 1.0 };
        let k = Dual { value: n, slope: 1 };
        (d * d * d + d / 2.0, k * k + k)
    } with (2.0, 3);

    fn traits(r: f32) -> (i32, i32, bool) {
        let ball = Ball { radius: r };
        let slab = Slab { height: r }.doubled();
        (count(ball), count(slab), ball.is_inside(Vec3::ZERO))
    } with (1.0), (0.3);

    fn references(x: f32) -> f32 {
        let mut a = [x, 2.0, 3.0];
        let first = &a[0];
        let sum = *first + a[1];
        let last = &mut a[2];
        *last += sum;
        let v = vec2(x, 1.0);
        let w = &v;
        a[2] + w.x + w.norm_sqr()
    } with (1.0), (-2.0);
}

#[kernel]
fn escape(z: &Field<Complex, 2>, steps: &Field<i32, 2>) {
    for [i, j] in z {
        let c = complex(i as f32 / 4.0 - 2.0, j as f32 / 4.0 - 1.0);
        let mut n = 0;
        while n < 20 {
            z[[i, j]] = z[[i, j]] * z[[i, j]] + c;
            if z[[i, j]].re.abs() > 2.0 {
                break;
            }
            n += 1;
        }
        z[[i, j]] += c;
        steps[[i, j]] = n;
    }
}

#[test]
fn elements_have_operators() {
    for world in worlds() {
        let z = world.field::<Complex, 2>("z", [12, 8]).unwrap();
        let steps = world.field::<i32, 2>("steps", [12, 8]).unwrap();
        escape(&z, &steps).unwrap();
        let c = complex(-0.5, 0.25);
        let mut expected = complex(0.0, 0.0);
        for _ in 0..20 {
            expected = expected * expected + c;
        }
        expected += c;
        assert!(z.get([6, 5]).unwrap() == expected, "{:?}", z.get([6, 5]));
        assert_eq!(steps.get([6, 5]).unwrap(), 20);
        assert_eq!(steps.get([0, 0]).unwrap(), 2);
    }
}
