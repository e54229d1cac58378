//! What the expansion of a kernel is made of.
//!
//! The macro keeps the body as plain Rust so that rustc checks it and infers its types. Where a type
//! or a function must be known later, it is pinned to a [`Slot`]. The body of a kernel is never run;
//! the body of a `#[func]` is, when the host calls it, so everything here that does not touch
//! fields and arrays does what it says.

use super::num::Int;
use super::record::Value;
use super::vector::Vector;
use crate::array::{Array, ArrayMut, SharedArray};
use crate::cells::Cells;
use crate::element::{Element, ScalarElement};
use crate::field::Field;
use crate::lang::matrix::Matrix;
use crate::nd_array::NdArray;
use std::marker::PhantomData;
use std::ops::Range;

/// A place for a type that rustc infers.
#[derive(Debug)]
pub struct Slot<T>(PhantomData<fn() -> T>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Slot<T> {
        *self
    }
}
impl<T> Copy for Slot<T> {}

/// A slot.
pub fn slot<T>() -> Slot<T> {
    Slot(PhantomData)
}

/// The side of a probe that is never taken: `if true { e } else { val(&slot) }` has the type of `e`, and
/// so has the slot.
pub fn val<T>(_: &Slot<T>) -> T {
    unreachable!("the other side of a probe")
}

/// Pins the type of a function.
#[inline(always)]
pub fn probe<T>(_: &Slot<T>, value: T) -> T {
    value
}

/// Pins the type of a value behind a reference.
#[inline(always)]
pub fn probe_shared<'a, T>(_: &Slot<T>, value: &'a T) -> &'a T {
    value
}

/// Pins the type of a value behind an exclusive reference.
#[inline(always)]
pub fn probe_exclusive<'a, T>(_: &Slot<T>, value: &'a mut T) -> &'a mut T {
    value
}

macro_rules! methods {
    ($($name:ident $typed:ident($first:ident: $f:ident $(, $arg:ident: $a:ident)*);)*) => {$(
        /// A method call, pinned as a closure that captures nothing. The arguments come first, so that
        /// their types are known inside of the closure. The other closure determines whether it is a `#[func]`.
        #[inline(always)]
        #[allow(clippy::too_many_arguments)]
        pub fn $name<$f, $($a,)* R, F: Fn($f, $($a),*) -> R, V, Q: Fn(&$f) -> V>(
            _: &Slot<F>,
            _: &Slot<($f, V)>,
            $first: $f,
            $($arg: $a,)*
            f: F,
            _: Q,
        ) -> R {
            f($first, $($arg),*)
        }

        /// As above, of a call that has been made: it may change its receiver.
        #[inline(always)]
        #[allow(clippy::too_many_arguments)]
        pub fn $typed<$f, $($a,)* R, F: Fn($f, $($a),*) -> R, V, Q: Fn(&$f) -> V>(
            _: &Slot<F>,
            _: &Slot<($f, V)>,
            _: &$f,
            $(_: &Slot<$a>,)*
            _: F,
            _: Q,
        ) {
        }
    )*};
}
methods! {
    method1 typed1(a: A);
    method2 typed2(a: A, b: B);
    method3 typed3(a: A, b: B, c: C);
    method4 typed4(a: A, b: B, c: C, d: D);
    method5 typed5(a: A, b: B, c: C, d: D, e: E);
    method6 typed6(a: A, b: B, c: C, d: D, e: E, g: G);
    method7 typed7(a: A, b: B, c: C, d: D, e: E, g: G, h: H);
    method8 typed8(a: A, b: B, c: C, d: D, e: E, g: G, h: H, i: I);
    method9 typed9(a: A, b: B, c: C, d: D, e: E, g: G, h: H, i: I, j: J);
    method10 typed10(a: A, b: B, c: C, d: D, e: E, g: G, h: H, i: I, j: J, k: K);
}

macro_rules! closures {
    ($($pin:ident $stand_in:ident($($a:ident)*);)*) => {$(
        /// Pins the types of a closure that is passed by its name.
        #[inline(always)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub fn $pin<$($a,)* R, F: Fn($($a),*) -> R>($(_: &Slot<$a>,)* _: &Slot<R>, f: F) -> F {
            f
        }

        /// What a function is recorded with instead of a closure of these types.
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub fn $stand_in<$($a,)* R: Value>($(_: &Slot<$a>,)* _: &Slot<R>) -> fn($($a),*) -> R {
            |$($a),*| {
                $(let _ = $a;)*
                R::made_up()
            }
        }
    )*};
}
closures! {
    pin_closure0 stand_in0();
    pin_closure1 stand_in1(A);
    pin_closure2 stand_in2(A B);
    pin_closure3 stand_in3(A B C);
    pin_closure4 stand_in4(A B C D);
    pin_closure5 stand_in5(A B C D E);
    pin_closure6 stand_in6(A B C D E G);
}

/// How many indices something has.
#[derive(Debug)]
pub struct Rank<const D: usize>;

/// Fields and arrays, whose elements can be read. The element and the rank are parameters and not
/// associated types, so that a wrong index is one error and not two.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no elements that a kernel can read",
    label = "not a field or an array"
)]
pub trait Readable<T, R> {}

/// Fields and arrays, whose elements can be written.
#[diagnostic::on_unimplemented(
    message = "the elements of `{Self}` cannot be changed by a kernel",
    label = "read-only",
    note = "take `&Field<T, D>`, `&mut [T]` or `&mut ArrayMut<T, D>` to change elements"
)]
pub trait Writable<T, R> {}

impl<T: Element, const D: usize> Readable<T, Rank<D>> for &Field<T, D> {}
impl<T: Element, const D: usize> Writable<T, Rank<D>> for &Field<T, D> {}
impl<T: Element> Readable<T, Rank<1>> for &[T] {}
impl<T: Element> Readable<T, Rank<1>> for &mut [T] {}
impl<T: Element> Writable<T, Rank<1>> for &mut [T] {}
impl<T: Element, const D: usize> Readable<T, Rank<D>> for &Array<'_, T, D> {}
impl<T: Element, const D: usize> Readable<T, Rank<D>> for &ArrayMut<'_, T, D> {}
impl<T: Element, const D: usize> Readable<T, Rank<D>> for &mut ArrayMut<'_, T, D> {}
impl<T: Element, const D: usize> Writable<T, Rank<D>> for &mut ArrayMut<'_, T, D> {}
impl<T: Element, const D: usize> Readable<T, Rank<D>> for &SharedArray<'_, T, D> {}
impl<T: Element, const D: usize> Writable<T, Rank<D>> for &SharedArray<'_, T, D> {}
impl<T: Element, const D: usize> Readable<T, Rank<D>> for &NdArray<T, D> {}
impl<T: Element, const D: usize> Writable<T, Rank<D>> for &NdArray<T, D> {}

/// What stands between the brackets of an element.
#[diagnostic::on_unimplemented(
    message = "wrong index: there is one integer for each axis",
    label = "wrong number or type of indices",
    note = "use one integer for each axis, `x[[i, j]]`, or an index vector, as in `for i in x {{ x[i] .. }}`"
)]
pub trait IndexOf<R> {}

#[diagnostic::do_not_recommend]
impl<I: Int> IndexOf<Rank<1>> for I {}
#[diagnostic::do_not_recommend]
impl<I: Int, const D: usize> IndexOf<Rank<D>> for Vector<I, D> {}
#[diagnostic::do_not_recommend]
impl<I: Int, const D: usize> IndexOf<Rank<D>> for [I; D] {}
#[diagnostic::do_not_recommend]
impl IndexOf<Rank<0>> for () {}

macro_rules! indices {
    ($($n:literal: $($a:ident)*;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<$($a: Int),*> IndexOf<Rank<$n>> for ($($a,)*) {}
    )*};
}
indices! {
    1: A;
    2: A B;
    3: A B C;
    4: A B C D;
    5: A B C D E;
    6: A B C D E F;
    7: A B C D E F G;
    8: A B C D E F G H;
}

/// A field or array among the parameters of a `#[func]`: what it does with them happens inside of kernels.
/// The host has the field itself, which is of another type, so it cannot call the function.
#[derive(Debug)]
pub enum OnlyInKernels<X> {
    /// In the body of a kernel, as rustc sees it. Two fields, because with one rustc would suggest this to users.
    Data {
        /// The field or array.
        data: X,
        /// Makes this a variant with two fields.
        never_run: (),
    },
    /// While the function describes itself.
    Described,
}

impl<X> OnlyInKernels<X> {
    /// The parameter as the body of the function knows it.
    pub fn data(self) -> X {
        not_on_the_host()
    }
}

/// What a function takes for a field, an array or a bundle that a kernel passes.
#[diagnostic::on_unimplemented(
    message = "this function cannot take `{D}` from a kernel",
    label = "its parameter is `{Self}`",
    note = "put `#[func]` in front of the function, if it has none",
    note = "a `#[func]` takes fields and arrays with the same elements and as many axes as its parameter"
)]
pub trait DataParameter<D> {}

#[diagnostic::do_not_recommend]
impl<D> DataParameter<D> for OnlyInKernels<D> {}

/// A field, array or bundle as an argument of a function.
pub fn lend<P: DataParameter<D>, D>(_: D) -> P {
    not_on_the_host()
}

/// Kernels do not run as Rust, and only they call functions that take fields or arrays.
#[cold]
pub(super) fn not_on_the_host() -> ! {
    unreachable!("a `#[func]` that works on fields or arrays runs inside of kernels only")
}

/// An element that is read. The lifetime is free: reading one element is no obstacle to writing another.
pub fn elem<'a, X: Readable<T, R>, I: IndexOf<R>, T, R>(_: &X, _: I) -> &'a T {
    not_on_the_host()
}

/// An element that is written.
pub fn place<'a, X: Writable<T, R>, I: IndexOf<R>, T, R>(_: &X, _: I) -> &'a mut T {
    not_on_the_host()
}

/// Fields, and the cells of nodes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no cells",
    label = "not a field or the cells of a node",
    note = "take `&Field<T, D>` or `&Cells<D>`; the elements of arrays exist always"
)]
pub trait Celled<R> {}
impl<T: Element, const D: usize> Celled<Rank<D>> for &Field<T, D> {}
impl<const D: usize> Celled<Rank<D>> for &Cells<D> {}

/// Fields and cells, as lists along one of their indices: the others say which list.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list",
    label = "not a field or the cells of a node, with at least one index",
    note = "take `&Field<T, D>` or `&Cells<D>` of a `dynamic` node"
)]
pub trait Listed<R> {}

/// Lists of elements.
#[diagnostic::on_unimplemented(
    message = "no value can be appended to `{Self}`",
    label = "not a field",
    note = "cells of a node have no value: `cells.append([i, j])`"
)]
pub trait Appendable<T> {}
impl<T: Element, const D: usize> Appendable<T> for &Field<T, D> {}

/// Which list is meant: as an index, without the axis along the list.
#[diagnostic::on_unimplemented(
    message = "wrong index of a list: there is one integer for each axis but that of the list",
    label = "wrong number or type of indices",
    note = "with elements `x[[i, j, l]]` along a list, it is `x.append([i, j], v)` and `x.length([i, j])`"
)]
pub trait ListIndexOf<R> {}
#[diagnostic::do_not_recommend]
impl<I: IndexOf<R>, R> ListIndexOf<R> for I {}

macro_rules! listed {
    ($($d:literal $n:literal;)*) => {$(
        impl<T: Element> Listed<Rank<$n>> for &Field<T, $d> {}
        impl Listed<Rank<$n>> for &Cells<$d> {}
    )*};
}
listed! {
    1 0;
    2 1;
    3 2;
    4 3;
    5 4;
    6 5;
    7 6;
    8 7;
}

/// `x.is_active(i)` in a kernel.
pub fn is_active<X: Celled<R>, I: IndexOf<R>, R>(_: &X, _: I) -> bool {
    not_on_the_host()
}

/// `x.activate(i)` in a kernel.
pub fn activate<X: Celled<R>, I: IndexOf<R>, R>(_: &X, _: I) {
    not_on_the_host()
}

/// `x.deactivate(i)` in a kernel.
pub fn deactivate<X: Celled<R>, I: IndexOf<R>, R>(_: &X, _: I) {
    not_on_the_host()
}

/// `x.append(i)` in a kernel.
pub fn append<X: Listed<R>, I: ListIndexOf<R>, R>(_: &X, _: I) -> i32 {
    not_on_the_host()
}

/// `x.append(i, v)` in a kernel.
pub fn append_value<X: Listed<R> + Appendable<T>, I: ListIndexOf<R>, T, R>(
    _: &X,
    _: I,
    _: T,
) -> i32 {
    not_on_the_host()
}

/// `x.length(i)` in a kernel.
pub fn length<X: Listed<R>, I: ListIndexOf<R>, R>(_: &X, _: I) -> i32 {
    not_on_the_host()
}

/// Fields, whose elements may not exist.
#[diagnostic::on_unimplemented(
    message = "the elements of `{Self}` exist always, or cannot be changed",
    label = "not a field"
)]
pub trait Sparse<T, R> {}
impl<T: Element, const D: usize> Sparse<T, Rank<D>> for &Field<T, D> {}

/// An element that is written if it exists: `x.no_activate(i) = v`.
pub fn existing<'a, X: Sparse<T, R>, I: IndexOf<R>, T, R>(_: &X, _: I) -> &'a mut T {
    not_on_the_host()
}

/// An element for `fetch_add` and the like.
pub fn at<X: Writable<T, R>, I: IndexOf<R>, T, R>(_: &X, _: I) -> At<T> {
    not_on_the_host()
}

/// An element that other iterations may change at the same time.
#[derive(Debug)]
pub struct At<T>(PhantomData<T>);

/// Numbers, and vectors and matrices of numbers.
pub trait Arithmetic: Element {}
impl<T: super::num::Num> Arithmetic for T {}
impl<T: super::num::Num, const N: usize> Arithmetic for Vector<T, N> {}
impl<T: super::num::Num, const R: usize, const C: usize> Arithmetic for Matrix<T, R, C> {}

/// Integers, `bool`, and vectors of integers.
pub trait Bitwise: Element {}
impl Bitwise for bool {}
impl<T: Int> Bitwise for T {}
impl<T: Int, const N: usize> Bitwise for Vector<T, N> {}

macro_rules! fetch {
    ($bound:ident: $($name:ident)*) => {
        impl<T: $bound> At<T> {
            $(pub fn $name(self, _operand: T) -> T {
                not_on_the_host()
            })*
        }
    };
}
fetch!(Arithmetic: fetch_add fetch_sub fetch_mul fetch_min fetch_max);
fetch!(Bitwise: fetch_and fetch_or fetch_xor);
fetch!(Element: exchange);

impl<T: ScalarElement> At<T> {
    pub fn compare_exchange(self, _expected: T, _new: T) -> T {
        not_on_the_host()
    }
}

/// Fields and arrays have a shape: `i32`s for fields, whose coordinates are `i32`, `i64`s for arrays.
#[diagnostic::on_unimplemented(
    message = "inside a kernel, `shape`, `offset` and `len` are those of fields and arrays",
    label = "this is `{Self}`",
    note = "the fields of a bundle have them, as in `self.grid.u.len()`; the length of a `[T; N]` is the constant `N`",
    note = "a `#[func]` of a nested bundle with one of these names is called by its path: `Grid::len(&self.grid)`"
)]
pub trait Shaped<V> {}
#[diagnostic::do_not_recommend]
impl<T, const D: usize> Shaped<Vector<i32, D>> for &Field<T, D> {}
#[diagnostic::do_not_recommend]
impl<const D: usize> Shaped<Vector<i32, D>> for &Cells<D> {}
#[diagnostic::do_not_recommend]
impl<T> Shaped<Vector<i64, 1>> for &[T] {}
#[diagnostic::do_not_recommend]
impl<T> Shaped<Vector<i64, 1>> for &mut [T] {}
#[diagnostic::do_not_recommend]
impl<T, const D: usize> Shaped<Vector<i64, D>> for &Array<'_, T, D> {}
#[diagnostic::do_not_recommend]
impl<T, const D: usize> Shaped<Vector<i64, D>> for &ArrayMut<'_, T, D> {}
#[diagnostic::do_not_recommend]
impl<T, const D: usize> Shaped<Vector<i64, D>> for &mut ArrayMut<'_, T, D> {}
#[diagnostic::do_not_recommend]
impl<T: Copy, const D: usize> Shaped<Vector<i64, D>> for &SharedArray<'_, T, D> {}
#[diagnostic::do_not_recommend]
impl<T, const D: usize> Shaped<Vector<i64, D>> for &NdArray<T, D> {}

/// `x.shape()` in a kernel.
pub fn shape<X: Shaped<V>, V>(_: &X) -> V {
    not_on_the_host()
}

/// `x.offset()` in a kernel.
pub fn offset<X: Shaped<V>, V>(_: &X) -> V {
    not_on_the_host()
}

/// `x.len()` in a kernel.
pub fn len<X: Shaped<V>, V>(_: &X) -> usize {
    not_on_the_host()
}

/// What a loop can run over besides ranges.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot loop over `{Self}`",
    label = "not a range, a grid, a field or an array"
)]
pub trait Coordinates<T, const D: usize> {
    fn points(self) -> Points<T, D>;
}

macro_rules! coordinates {
    ($([$($generics:tt)*] $ty:ty => $t:ty, $d:expr;)*) => {$(
        impl<$($generics)*> Coordinates<$t, { $d }> for $ty {
            fn points(self) -> Points<$t, { $d }> {
                not_on_the_host()
            }
        }
    )*};
}
coordinates! {
    [E, const D: usize] &Field<E, D> => i32, D;
    [const D: usize] &Cells<D> => i32, D;
    [E] &[E] => i64, 1;
    [E] &&mut [E] => i64, 1;
    [E, const D: usize] &Array<'_, E, D> => i64, D;
    [E, const D: usize] &ArrayMut<'_, E, D> => i64, D;
    [E, const D: usize] &&mut ArrayMut<'_, E, D> => i64, D;
    [E: Copy, const D: usize] &SharedArray<'_, E, D> => i64, D;
    [E, const D: usize] &NdArray<E, D> => i64, D;
}

/// All points with one coordinate from each range, the last one fastest:
/// `for [i, j] in grid([0..n, 0..m])`.
pub fn grid<T: Int, const D: usize>(ranges: [Range<T>; D]) -> Grid<T, D> {
    Grid { ranges }
}

/// See [`grid`].
#[derive(Clone, Debug)]
pub struct Grid<T, const D: usize> {
    ranges: [Range<T>; D],
}

impl<T: Int, const D: usize> Coordinates<T, D> for Grid<T, D> {
    fn points(self) -> Points<T, D> {
        let empty = self.ranges.iter().any(|r| r.start >= r.end);
        Points {
            next: (!empty).then(|| std::array::from_fn(|k| self.ranges[k].start)),
            advance: advance::<T, D>,
            ranges: self.ranges,
        }
    }
}

/// The points of a grid, one after the other.
#[derive(Clone, Debug)]
pub struct Points<T, const D: usize> {
    ranges: [Range<T>; D],
    next: Option<[T; D]>,
    advance: fn([T; D], &[Range<T>; D]) -> Option<[T; D]>,
}

fn advance<T: Int, const D: usize>(mut at: [T; D], ranges: &[Range<T>; D]) -> Option<[T; D]> {
    for k in (0..D).rev() {
        at[k] += T::ONE;
        if at[k] < ranges[k].end {
            return Some(at);
        }
        at[k] = ranges[k].start;
    }
    None
}

impl<T: Copy, const D: usize> Iterator for Points<T, D> {
    type Item = [T; D];

    fn next(&mut self) -> Option<[T; D]> {
        let now = self.next?;
        self.next = (self.advance)(now, &self.ranges);
        Some(now)
    }
}

/// `for [i, j] in x`.
pub fn each_array<X: Coordinates<T, D>, T: Copy, const D: usize>(x: X) -> Points<T, D> {
    x.points()
}

/// `for i in x`.
pub fn each_vector<X: Coordinates<T, D>, T: Copy, const D: usize>(
    x: X,
) -> impl Iterator<Item = Vector<T, D>> {
    x.points().map(Vector)
}

/// Arrays, whose items a loop can run over.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot loop over `{Self}`",
    label = "not a range, a grid, a field or an array"
)]
pub trait Items {
    /// The array itself: of what is not an array, rustc reports nothing else.
    type Array: IntoIterator;

    fn array(self) -> Self::Array;
}

macro_rules! items {
    ($($ty:ty)*) => {$(
        #[diagnostic::do_not_recommend]
        impl<'a, T: 'a, const N: usize> Items for $ty {
            type Array = $ty;

            #[inline(always)]
            fn array(self) -> $ty {
                self
            }
        }
    )*};
}
items!([T; N] &'a [T; N] &'a mut [T; N]);

/// `for v in a`.
#[inline(always)]
pub fn items<X: Items>(x: X) -> X::Array {
    x.array()
}

/// Around the domain of an outermost loop of a kernel: an ordinary loop, one iteration after the other.
pub fn serial<X>(domain: X) -> X {
    domain
}

/// In an outermost loop of a kernel: one worker takes so many iterations at a time.
pub fn block_size<X>(_iterations: u32, domain: X) -> X {
    domain
}

/// Around the domain of an outermost loop of a kernel: several iterations run per instruction wherever that
/// can be done, also where the compiler thinks it does not pay. [`World::explain`](crate::World::explain)
/// says what became of it.
pub fn simd<X>(domain: X) -> X {
    domain
}

/// Around the domain of an outermost loop of a kernel: never more than one iteration per instruction.
pub fn scalar<X>(domain: X) -> X {
    domain
}

/// Around the domain of an outermost loop of a kernel: each block of the loop keeps its part of the field in a
/// scratchpad, which is filled once before or flushed once after.
///
/// ```
/// # use wuji::prelude::*;
/// #[kernel]
/// fn splat(buckets: &Field<i32, 3>, mass: &Field<f32, 2>) {
///     for [i, j, l] in cache(mass, buckets) {
///         let p = buckets[[i, j, l]];
///         let x = assume_in_range(p % 64, i * 4, -1, 5);
///         mass[[x, j * 4]] += 1.0;
///     }
/// }
/// ```
pub fn cache<F: ?Sized, X>(_field: &F, domain: X) -> X {
    domain
}

/// One copy of the body for each iteration, with the index known to the compiler.
pub fn unroll<X>(range: X) -> X {
    range
}

/// Values with components that are found by number.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be indexed by `{I}` inside a kernel",
    label = "wrong index",
    note = "arrays and vectors take an integer, `v[k]`, matrices a row and a column, `m[[r, c]]`"
)]
pub trait Indexed<I, T> {
    fn component(&self, index: I) -> &T;
    fn component_mut(&mut self, index: I) -> &mut T;
}

#[diagnostic::do_not_recommend]
impl<I: Int, T, const N: usize> Indexed<I, T> for [T; N] {
    #[inline]
    fn component(&self, index: I) -> &T {
        &self[index.index()]
    }
    #[inline]
    fn component_mut(&mut self, index: I) -> &mut T {
        &mut self[index.index()]
    }
}

#[diagnostic::do_not_recommend]
impl<I: Int, T, const N: usize> Indexed<I, T> for Vector<T, N> {
    #[inline]
    fn component(&self, index: I) -> &T {
        &self.0[index.index()]
    }
    #[inline]
    fn component_mut(&mut self, index: I) -> &mut T {
        &mut self.0[index.index()]
    }
}

#[diagnostic::do_not_recommend]
impl<I: Int, J: Int, T, const R: usize, const C: usize> Indexed<(I, J), T> for Matrix<T, R, C> {
    #[inline]
    fn component(&self, (r, c): (I, J)) -> &T {
        &self.0[r.index()][c.index()]
    }
    #[inline]
    fn component_mut(&mut self, (r, c): (I, J)) -> &mut T {
        &mut self.0[r.index()][c.index()]
    }
}

/// `v[k]` of a value.
#[inline(always)]
pub fn index<X: Indexed<I, T>, I, T>(x: &X, index: I) -> &T {
    x.component(index)
}

/// `v[k] = ..` of a variable.
#[inline(always)]
pub fn index_mut<X: Indexed<I, T>, I, T>(x: &mut X, index: I) -> &mut T {
    x.component_mut(index)
}
