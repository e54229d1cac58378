//! Vectors.

use super::num::{Float, Int, Num, Signed};
use crate::element::{Element, ScalarElement};
use half::f16;
use std::fmt;
use std::ops::*;
use wuji_ir::Result;
use wuji_ir::types::{Structs, Type};
use wuji_runtime::array::{ArrayArg, Strides};
use wuji_runtime::components::{X, Xy, Xyz, Xyzw};

/// `N` numbers, or `N` truth values. The first four are also called `x`, `y`, `z` and `w`.
///
/// Operators work component by component, and with a scalar on either side.
///
/// ```
/// use wuji::lang::{Vec3, vec3};
///
/// let a = vec3(1.0, 2.0, 3.0);
/// let mut b = 2.0 * a + 1.0;
/// b.y = 0.0;
/// assert_eq!(b, vec3(3.0, 0.0, 7.0));
/// assert_eq!(b.xz().dot(a.xy()), 17.0);
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Vector<T, const N: usize>(pub [T; N]);

/// Two `f32`.
pub type Vec2 = Vector<f32, 2>;
/// Three `f32`.
pub type Vec3 = Vector<f32, 3>;
/// Four `f32`.
pub type Vec4 = Vector<f32, 4>;
/// Two `f64`.
pub type DVec2 = Vector<f64, 2>;
/// Three `f64`.
pub type DVec3 = Vector<f64, 3>;
/// Four `f64`.
pub type DVec4 = Vector<f64, 4>;
/// Two `i32`.
pub type IVec2 = Vector<i32, 2>;
/// Three `i32`.
pub type IVec3 = Vector<i32, 3>;
/// Four `i32`.
pub type IVec4 = Vector<i32, 4>;
/// Two `u32`.
pub type UVec2 = Vector<u32, 2>;
/// Three `u32`.
pub type UVec3 = Vector<u32, 3>;
/// Four `u32`.
pub type UVec4 = Vector<u32, 4>;
/// Two `bool`.
pub type BVec2 = Vector<bool, 2>;
/// Three `bool`.
pub type BVec3 = Vector<bool, 3>;
/// Four `bool`.
pub type BVec4 = Vector<bool, 4>;

macro_rules! constructors {
    ($($t:ty: $two:ident $three:ident $four:ident;)*) => {$(
        /// A vector of two components.
        #[inline]
        pub const fn $two(x: $t, y: $t) -> Vector<$t, 2> {
            Vector([x, y])
        }
        /// A vector of three components.
        #[inline]
        pub const fn $three(x: $t, y: $t, z: $t) -> Vector<$t, 3> {
            Vector([x, y, z])
        }
        /// A vector of four components.
        #[inline]
        pub const fn $four(x: $t, y: $t, z: $t, w: $t) -> Vector<$t, 4> {
            Vector([x, y, z, w])
        }
    )*};
}
constructors! {
    f32: vec2 vec3 vec4;
    f64: dvec2 dvec3 dvec4;
    i32: ivec2 ivec3 ivec4;
    u32: uvec2 uvec3 uvec4;
    bool: bvec2 bvec3 bvec4;
}

/// The step of one along axis `axis`; zero when there is no such axis.
pub fn unit<const D: usize>(axis: usize) -> Vector<i32, D> {
    Vector(std::array::from_fn(|k| i32::from(k == axis)))
}

impl<T: ScalarElement, const N: usize> Element for Vector<T, N> {
    const SIZE: usize = T::SIZE * N;
    const ALIGN: usize = T::ALIGN;
    const SCALARS: usize = N;
    const BUILTIN: bool = true;

    fn ir_type(_: &mut Structs) -> Type {
        const {
            assert!(
                N >= 1 && N <= u16::MAX as usize,
                "a vector has 1 to 65535 components"
            )
        };
        Type::Vector(T::SCALAR, N as u16)
    }

    fn zero() -> Self {
        Vector([T::zero(); N])
    }

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Vector(std::array::from_fn(|k| T::read(&bytes[k * T::SIZE..])))
    }

    #[inline]
    fn write(self, bytes: &mut [u8]) {
        for (k, c) in self.0.into_iter().enumerate() {
            c.write(&mut bytes[k * T::SIZE..]);
        }
    }

    fn to_slots(self, slots: &mut [u64]) {
        for (k, c) in self.0.into_iter().enumerate() {
            c.to_slots(&mut slots[k..]);
        }
    }

    fn from_slots(slots: &[u64]) -> Self {
        Vector(std::array::from_fn(|k| T::from_slots(&slots[k..])))
    }

    fn lend<'a>(data: &'a [Self], strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
        Some(ArrayArg::read(data, strides))
    }

    fn lend_mut<'a>(data: &'a mut [Self], strides: &Strides) -> Option<Result<ArrayArg<'a>>> {
        Some(ArrayArg::write(data, strides))
    }
}

macro_rules! named {
    ($($n:literal $view:ident)*) => {$(
        impl<T> Deref for Vector<T, $n> {
            type Target = $view<T>;
            #[inline]
            fn deref(&self) -> &$view<T> {
                $view::of(&self.0)
            }
        }
        impl<T> DerefMut for Vector<T, $n> {
            #[inline]
            fn deref_mut(&mut self) -> &mut $view<T> {
                $view::of_mut(&mut self.0)
            }
        }
    )*};
}
named!(1 X 2 Xy 3 Xyz 4 Xyzw);

impl<T: fmt::Debug, const N: usize> fmt::Debug for Vector<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl<T: fmt::Display, const N: usize> fmt::Display for Vector<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (k, c) in self.0.iter().enumerate() {
            if k > 0 {
                f.write_str(", ")?;
            }
            c.fmt(f)?;
        }
        f.write_str("]")
    }
}

impl<T: Default + Copy, const N: usize> Default for Vector<T, N> {
    fn default() -> Self {
        Vector([T::default(); N])
    }
}

impl<T, const N: usize> From<[T; N]> for Vector<T, N> {
    fn from(components: [T; N]) -> Self {
        Vector(components)
    }
}

impl<T, const N: usize> From<Vector<T, N>> for [T; N] {
    fn from(v: Vector<T, N>) -> [T; N] {
        v.0
    }
}

impl<T, const N: usize> Index<usize> for Vector<T, N> {
    type Output = T;
    #[inline]
    fn index(&self, k: usize) -> &T {
        &self.0[k]
    }
}

impl<T, const N: usize> IndexMut<usize> for Vector<T, N> {
    #[inline]
    fn index_mut(&mut self, k: usize) -> &mut T {
        &mut self.0[k]
    }
}

impl<T: Copy, const N: usize> Vector<T, N> {
    /// The same value in every component.
    #[inline]
    pub const fn splat(value: T) -> Self {
        Vector([value; N])
    }

    /// A vector from its components.
    #[inline]
    pub const fn from_array(components: [T; N]) -> Self {
        Vector(components)
    }

    /// The components.
    #[inline]
    pub const fn to_array(self) -> [T; N] {
        self.0
    }

    #[doc(hidden)]
    #[inline]
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Vector<U, N> {
        Vector(self.0.map(f))
    }

    #[doc(hidden)]
    #[inline]
    pub fn zip<U: Copy, V>(self, other: Vector<U, N>, f: impl Fn(T, U) -> V) -> Vector<V, N> {
        Vector(std::array::from_fn(|k| f(self.0[k], other.0[k])))
    }
}

impl<T> Vector<T, 2> {
    /// A vector from its components.
    #[inline]
    pub const fn new(x: T, y: T) -> Self {
        Vector([x, y])
    }
}

impl<T> Vector<T, 3> {
    /// A vector from its components.
    #[inline]
    pub const fn new(x: T, y: T, z: T) -> Self {
        Vector([x, y, z])
    }
}

impl<T> Vector<T, 4> {
    /// A vector from its components.
    #[inline]
    pub const fn new(x: T, y: T, z: T, w: T) -> Self {
        Vector([x, y, z, w])
    }
}

impl<T: Copy> Vector<T, 2> {
    /// With a third component.
    #[inline]
    pub fn extend(self, z: T) -> Vector<T, 3> {
        Vector([self.0[0], self.0[1], z])
    }
}

impl<T: Copy> Vector<T, 3> {
    /// With a fourth component.
    #[inline]
    pub fn extend(self, w: T) -> Vector<T, 4> {
        Vector([self.0[0], self.0[1], self.0[2], w])
    }
}

impl<T: Num, const N: usize> Vector<T, N> {
    /// All components are 0.
    pub const ZERO: Self = Vector([T::ZERO; N]);
    /// All components are 1.
    pub const ONE: Self = Vector([T::ONE; N]);

    /// Every component as `as` converts it.
    #[inline]
    pub fn cast<U: Num>(self) -> Vector<U, N> {
        self.map(|c| c.cast())
    }

    /// The dot product.
    #[inline]
    pub fn dot(self, other: Self) -> T {
        let mut sum = self.0[0] * other.0[0];
        for k in 1..N {
            sum += self.0[k] * other.0[k];
        }
        sum
    }

    /// The square of the length.
    #[inline]
    pub fn norm_sqr(self) -> T {
        self.dot(self)
    }

    /// The sum of the components.
    #[inline]
    pub fn sum(self) -> T {
        let mut sum = self.0[0];
        for k in 1..N {
            sum += self.0[k];
        }
        sum
    }

    /// The product of the components.
    #[inline]
    pub fn product(self) -> T {
        let mut product = self.0[0];
        for k in 1..N {
            product *= self.0[k];
        }
        product
    }

    /// The smaller one of each pair of components.
    #[inline]
    pub fn min(self, other: Self) -> Self {
        self.zip(other, T::smaller)
    }

    /// The larger one of each pair of components.
    #[inline]
    pub fn max(self, other: Self) -> Self {
        self.zip(other, T::larger)
    }

    /// Each component, limited to the range between two vectors.
    #[inline]
    pub fn clamp(self, low: Self, high: Self) -> Self {
        self.max(low).min(high)
    }

    /// The smallest component.
    #[inline]
    pub fn min_component(self) -> T {
        (1..N).fold(self.0[0], |m, k| m.smaller(self.0[k]))
    }

    /// The largest component.
    #[inline]
    pub fn max_component(self) -> T {
        (1..N).fold(self.0[0], |m, k| m.larger(self.0[k]))
    }

    /// Where components are equal.
    #[inline]
    pub fn cmp_eq(self, other: Self) -> Vector<bool, N> {
        self.zip(other, |a, b| a == b)
    }
    /// Where components differ.
    #[inline]
    pub fn cmp_ne(self, other: Self) -> Vector<bool, N> {
        self.zip(other, |a, b| a != b)
    }
    /// Where components are smaller.
    #[inline]
    pub fn cmp_lt(self, other: Self) -> Vector<bool, N> {
        self.zip(other, |a, b| a < b)
    }
    /// Where components are smaller or equal.
    #[inline]
    pub fn cmp_le(self, other: Self) -> Vector<bool, N> {
        self.zip(other, |a, b| a <= b)
    }
    /// Where components are greater.
    #[inline]
    pub fn cmp_gt(self, other: Self) -> Vector<bool, N> {
        self.zip(other, |a, b| a > b)
    }
    /// Where components are greater or equal.
    #[inline]
    pub fn cmp_ge(self, other: Self) -> Vector<bool, N> {
        self.zip(other, |a, b| a >= b)
    }
}

impl<T: Num> Vector<T, 3> {
    /// The cross product.
    #[inline]
    pub fn cross(self, o: Self) -> Self {
        let [ax, ay, az] = self.0;
        let [bx, by, bz] = o.0;
        Vector([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])
    }
}

impl<T: Num> Vector<T, 2> {
    /// The third component of the cross product in space.
    #[inline]
    pub fn cross(self, o: Self) -> T {
        self.0[0] * o.0[1] - self.0[1] * o.0[0]
    }
}

impl<T: Signed, const N: usize> Vector<T, N> {
    /// The absolute value of each component.
    #[inline]
    pub fn abs(self) -> Self {
        self.map(T::magnitude)
    }

    /// The sign of each component: -1, 0 or 1.
    #[inline]
    pub fn signum(self) -> Self {
        self.map(T::sign)
    }
}

macro_rules! lane_by_lane {
    ($($name:ident)*) => {$(
        /// As the method of a scalar with this name, for each component.
        #[inline]
        pub fn $name(self) -> Self {
            self.map(T::$name)
        }
    )*};
}

impl<T: Float, const N: usize> Vector<T, N> {
    /// The length.
    #[inline]
    pub fn norm(self) -> T {
        self.norm_sqr().sqrt()
    }

    /// The direction, with length 1; NaN when the length is zero.
    #[inline]
    pub fn normalized(self) -> Self {
        self / self.norm()
    }

    /// The distance of two points.
    #[inline]
    pub fn distance(self, other: Self) -> T {
        (self - other).norm()
    }

    /// The vector to the other side of a surface with the unit normal `n`.
    #[inline]
    pub fn reflect(self, n: Self) -> Self {
        self - n * ((T::ONE + T::ONE) * self.dot(n))
    }

    /// `self * a + b`, for each component.
    #[inline]
    pub fn mul_add(self, a: Self, b: Self) -> Self {
        Vector(std::array::from_fn(|k| self.0[k].mul_add(a.0[k], b.0[k])))
    }

    /// Each component to a power of its own.
    #[inline]
    pub fn powf(self, exponent: Self) -> Self {
        self.zip(exponent, T::powf)
    }

    lane_by_lane! {
        sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh exp exp2 ln log2 log10
        floor ceil round trunc fract
    }
}

impl<const N: usize> Vector<bool, N> {
    /// Whether any component is true.
    #[inline]
    pub fn any(self) -> bool {
        self.0.contains(&true)
    }

    /// Whether all components are true.
    #[inline]
    pub fn all(self) -> bool {
        !self.0.contains(&false)
    }

    /// Each component from `a` where true, from `b` where false.
    #[inline]
    pub fn select<T: ScalarElement>(self, a: Vector<T, N>, b: Vector<T, N>) -> Vector<T, N> {
        Vector(std::array::from_fn(
            |k| {
                if self.0[k] { a.0[k] } else { b.0[k] }
            },
        ))
    }
}

macro_rules! operators {
    ($bound:ident: $($op:ident $f:ident $assign:ident $g:ident;)*) => {$(
        impl<T: $bound, const N: usize> $op for Vector<T, N> {
            type Output = Self;
            #[inline]
            fn $f(self, other: Self) -> Self {
                self.zip(other, T::$f)
            }
        }
        impl<T: $bound, const N: usize> $op<T> for Vector<T, N> {
            type Output = Self;
            #[inline]
            fn $f(self, other: T) -> Self {
                self.map(|c| c.$f(other))
            }
        }
        impl<T: $bound, const N: usize> $assign for Vector<T, N> {
            #[inline]
            fn $g(&mut self, other: Self) {
                *self = (*self).$f(other);
            }
        }
        impl<T: $bound, const N: usize> $assign<T> for Vector<T, N> {
            #[inline]
            fn $g(&mut self, other: T) {
                *self = (*self).$f(other);
            }
        }
    )*};
}

operators! { Num:
    Add add AddAssign add_assign;
    Sub sub SubAssign sub_assign;
    Mul mul MulAssign mul_assign;
    Div div DivAssign div_assign;
    Rem rem RemAssign rem_assign;
}
operators! { Int:
    BitAnd bitand BitAndAssign bitand_assign;
    BitOr bitor BitOrAssign bitor_assign;
    BitXor bitxor BitXorAssign bitxor_assign;
    Shl shl ShlAssign shl_assign;
    Shr shr ShrAssign shr_assign;
}

impl<T: Signed, const N: usize> Neg for Vector<T, N> {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        self.map(T::neg)
    }
}

impl<T: ScalarElement + Not<Output = T>, const N: usize> Not for Vector<T, N> {
    type Output = Self;
    #[inline]
    fn not(self) -> Self {
        self.map(T::not)
    }
}

macro_rules! scalar_first {
    ($($t:ty)*) => {$(
        scalar_first!($t: Add add, Sub sub, Mul mul, Div div, Rem rem);
    )*};
    ($t:ty: $($op:ident $f:ident),*) => {$(
        impl<const N: usize> $op<Vector<$t, N>> for $t {
            type Output = Vector<$t, N>;
            #[inline]
            fn $f(self, v: Vector<$t, N>) -> Vector<$t, N> {
                v.map(|c| self.$f(c))
            }
        }
    )*};
}
scalar_first!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize f16 f32 f64);

/// Methods like `xy` and `zyx`: the named components, in that order.
macro_rules! swizzles {
    ($n:literal: $($name:ident [$($k:literal),*];)*) => {
        impl<T: Copy> Vector<T, $n> {
            $(#[inline]
            /// The components of the name, in this order.
            pub fn $name(self) -> Vector<T, { [$($k),*].len() }> {
                Vector([$(self.0[$k]),*])
            })*
        }
    };
}
include!("swizzles.rs");

impl<T: Num, const N: usize> std::iter::Sum for Vector<T, N> {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |a, b| a + b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_have_names() {
        let mut v = ivec4(1, 2, 3, 4);
        v.w += v.x;
        assert_eq!(v.wzyx(), ivec4(5, 3, 2, 1));
        assert_eq!(v.xz(), ivec2(1, 3));
        assert_eq!(unit::<3>(1), ivec3(0, 1, 0));
    }

    #[test]
    fn operators_take_scalars_on_both_sides() {
        let v = vec2(1.0, 4.0);
        assert_eq!(2.0 * v, v + v);
        assert_eq!(1.0 / v, vec2(1.0, 0.25));
        assert_eq!(v - 1.0, vec2(0.0, 3.0));
        assert_eq!(ivec2(5, 6) & 4, ivec2(4, 4));
        assert_eq!((-v).abs(), v);
    }

    #[test]
    fn products() {
        let (a, b) = (ivec3(1, 0, 0), ivec3(0, 1, 0));
        assert_eq!(a.cross(b), ivec3(0, 0, 1));
        assert_eq!(a.dot(b), 0);
        assert_eq!(vec2(3.0, 4.0).norm(), 5.0);
        assert_eq!(vec2(3.0, 4.0).normalized(), vec2(0.6, 0.8));
    }
}
