//! Members and items of bundles in the expansion of a kernel: `self.fields[k]`, `self.levels[l].u[[i, j]]`.
//!
//! The macro does not know types, so that `self.x[k]` may be an element of a field, a field of an array or a component of a vector.
//! rustc decides here.

use super::matrix::Matrix;
use super::num::Int;
use super::record::{IsFunc, IsPlain, Passed, Value};
use super::recording::TypeTag;
use super::shadow::{IndexOf, Rank, Slot};
use super::vector::Vector;
use crate::autodiff::Param;
use crate::cells::Cells;
use crate::element::Element;
use crate::field::Field;
use crate::nd_array::NdArray;
use std::marker::PhantomData;
use std::ops::Deref;
use wuji_runtime::callable::{Callable, conjure};

/// Members of bundles with parts that can be read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be indexed by `{I}` inside a kernel",
    label = "wrong index",
    note = "fields take one integer for each axis, `x[[i, j]]`; arrays and vectors one integer, `v[k]`"
)]
pub trait Part<I, T> {}

impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> Part<I, T> for Field<T, D> {}
impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> Part<I, T> for NdArray<T, D> {}
impl<I: Int, T, const N: usize> Part<I, T> for [T; N] {}
impl<I: Int, T, const N: usize> Part<I, T> for Vector<T, N> {}
impl<I: Int, J: Int, T, const R: usize, const C: usize> Part<(I, J), T> for Matrix<T, R, C> {}

/// Members of bundles with parts that can be written.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot change the values of a bundle",
    label = "neither a field nor an element of one",
    note = "elements of fields can be changed, `self.x[[i, j]] = v`; a value is copied with `let mut v = self.v`"
)]
pub trait MemberPartMut<I, T> {}

impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> MemberPartMut<I, T> for Field<T, D> {}
impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> MemberPartMut<I, T> for NdArray<T, D> {}
impl<I: Int, T: Handle, const N: usize> MemberPartMut<I, T> for [T; N] {}

/// Parts of members with parts that can be written.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot change the values of a bundle",
    label = "neither a field nor an element of one",
    note = "elements of fields can be changed, `self.x[[i, j]] = v`; a value is copied with `let mut v = self.v`"
)]
pub trait PartMut<I, T> {}

impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> PartMut<I, T> for Field<T, D> {}
impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> PartMut<I, T> for NdArray<T, D> {}
impl<I: Int, T, const N: usize> PartMut<I, T> for [T; N] {}
impl<I: Int, T, const N: usize> PartMut<I, T> for Vector<T, N> {}
impl<I: Int, J: Int, T, const R: usize, const C: usize> PartMut<(I, J), T> for Matrix<T, R, C> {}

/// Members that refer to data, which a kernel can change.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot change the values of a bundle",
    label = "neither a field nor an element of one",
    note = "elements of fields can be changed, `self.x[[i, j]] = v`; a value is copied with `let mut v = self.v`"
)]
pub trait Handle {}
impl<T: Element, const D: usize> Handle for Field<T, D> {}
impl<T: Element, const D: usize> Handle for NdArray<T, D> {}
impl<const D: usize> Handle for Cells<D> {}
impl<H: Handle, const N: usize> Handle for [H; N] {}

/// Members that are values inside of kernels; `V` is what a kernel sees.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value inside a kernel",
    label = "a whole field or bundle",
    note = "elements of fields are read by their indices, `self.x[[i, j]]`",
    note = "`let x = &self.x` is another name for a member, and `&self.x` passes it to a `#[func]`"
)]
pub trait MemberValue<V> {}

#[diagnostic::do_not_recommend]
impl<T: Value> MemberValue<T> for T {}
#[diagnostic::do_not_recommend]
impl<T: Element> MemberValue<T> for Param<T> {}
#[diagnostic::do_not_recommend]
impl<T: Nothing> MemberValue<Unknown<T>> for T {}

/// No type implements this. With an implementation for it beside that for values, rustc does not assume that what is not a value is one,
/// and reports no further errors where it is used.
pub trait Nothing {}

/// The type of what is not a value.
#[derive(Debug)]
pub struct Unknown<T>(PhantomData<T>);

/// Beside every `#[func]` of a bundle: its function item, and how many arguments it takes besides the bundle.
#[derive(Debug)]
pub struct BundleFunc<F, const N: usize>(PhantomData<F>);

impl<F, const N: usize> BundleFunc<F, N> {
    /// By the item.
    pub fn new(_: F) -> BundleFunc<F, N> {
        BundleFunc(PhantomData)
    }
}

/// The receiver of a `#[func]` of a nested bundle: `L` is a type of the place of the call, which has the method.
#[derive(Debug)]
pub struct Nested<L>(L);

impl<L> Deref for Nested<L> {
    type Target = L;

    fn deref(&self) -> &L {
        &self.0
    }
}

#[diagnostic::do_not_recommend]
impl<L: Default> Passed for Nested<L> {
    const BUILTIN: bool = false;

    fn tag() -> TypeTag {
        TypeTag::Data
    }
    fn made_up() -> Nested<L> {
        Nested(L::default())
    }
}

/// A call of a method of a member, without closures.
#[diagnostic::on_unimplemented(
    message = "this `#[func]` takes no closure",
    label = "called with a closure"
)]
pub trait CallOf {
    /// What has the method, if it is the `#[func]` `F` of a bundle `B`.
    type Receiver<B, F>: Default;
}

/// The `#[func]` of a nested bundle, while it is recorded.
pub fn nested<F: Callable<S>, S>() -> F {
    conjure::<F, S>(PhantomData).unwrap_or_else(|| super::shadow::not_on_the_host())
}

/// Beside every `#[func]` of a bundle that takes closures.
#[derive(Debug)]
pub struct TakesClosures;

/// A member whose method is called with so many arguments. `V` is what is beside the method.
#[derive(Debug)]
pub struct Called<C, M, V, const GIVEN: usize>(PhantomData<(C, M, V)>);

/// Asks about a method of a member. The closure finds what is beside the method.
pub fn called<const GIVEN: usize, C, M, V>(
    _: &C,
    _: &M,
    _: &Slot<V>,
    _: impl Fn(&M) -> V,
) -> Called<C, M, V, GIVEN> {
    Called(PhantomData)
}

// Each has bounds of its own, so that a call that is not possible is one error, at the name of the method. `R` is a parameter and no
// associated type, so that it is unknown after an error.
impl<C, M, const GIVEN: usize> Called<C, M, IsFunc, GIVEN> {
    /// A value is its own receiver.
    pub fn receiver(self) -> M {
        super::shadow::not_on_the_host()
    }
}

impl<C, M, const GIVEN: usize> Called<C, M, IsPlain, GIVEN> {
    /// A value is its own receiver.
    pub fn receiver<R>(self) -> R
    where
        M: HasMethods<R>,
    {
        super::shadow::not_on_the_host()
    }
}

impl<C, B, F, const TAKEN: usize, const GIVEN: usize> Called<C, B, BundleFunc<F, TAKEN>, GIVEN> {
    /// The receiver that has the `#[func]` of a nested bundle.
    pub fn receiver<N, R>(self) -> R
    where
        C: CallOf,
        B: Passes<N, TAKEN, GIVEN>,
        N: Receiver<C, B, F, R>,
    {
        super::shadow::not_on_the_host()
    }
}

impl<C, B, const GIVEN: usize> Called<C, B, TakesClosures, GIVEN> {
    /// There is none.
    pub fn receiver<R>(self) -> R
    where
        B: PassesClosures<R>,
    {
        super::shadow::not_on_the_host()
    }
}

/// Members with methods of the language; `R` is the receiver.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot call this method of `{Self}`",
    label = "no `#[func]` of this name",
    note = "a bundle has its functions with `#[func]` in front; fields and arrays have `at`, `shape`, `offset`, `len`, `is_active`, `activate`, `deactivate`, `append`, `length` and `no_activate`",
    note = "other methods, as `fill` of a field and the kernels of a bundle, are called by the host"
)]
pub trait HasMethods<R> {}

#[diagnostic::do_not_recommend]
impl<T: Value> HasMethods<T> for T {}
#[diagnostic::do_not_recommend]
impl<T: Nothing> HasMethods<Unknown<T>> for T {}

/// Bundles, in calls of a `#[func]` with as many arguments as it takes: `N` is [`Counted`].
#[diagnostic::on_unimplemented(
    message = "wrong number of arguments: this function of `{Self}` takes {TAKEN}, not {GIVEN}",
    label = "takes {TAKEN}, called with {GIVEN}",
    note = "the bundle in front of the dot is not counted"
)]
pub trait Passes<N, const TAKEN: usize, const GIVEN: usize> {}

#[diagnostic::do_not_recommend]
impl<B, const N: usize> Passes<Counted, N, N> for B {}

/// A call with the right number of arguments.
#[derive(Debug)]
pub struct Counted;

/// The receiver of such a call. Apart from [`Passes`], whose errors do not show the types of functions.
pub trait Receiver<C, B, F, R> {}
impl<C: CallOf, B, F> Receiver<C, B, F, Nested<C::Receiver<B, F>>> for Counted {}

/// Nothing implements this: it is there for its message.
#[diagnostic::on_unimplemented(
    message = "a `#[func]` of a nested bundle that takes closures is called by its path",
    label = "not a method",
    note = "write `Grid::mapped(&self.grid, i, |x| ..)` instead of `self.grid.mapped(i, |x| ..)`"
)]
pub trait PassesClosures<R> {}

/// What the next name or index of a chain refers to: of a [`Param`], its value. `Param` has a method of its own with this name,
/// which rustc prefers.
pub trait Opened {
    /// The member itself.
    fn __wuji_opened(&self) -> &Self {
        self
    }
}

impl<M: ?Sized> Opened for M {}

impl<T: Element> Param<T> {
    /// The value, as a kernel sees it.
    #[doc(hidden)]
    pub fn __wuji_opened(&self) -> &T {
        super::shadow::not_on_the_host()
    }
}

/// `self.v` that is read.
pub fn member_value<M: MemberValue<V>, V>(_: &M) -> V {
    super::shadow::not_on_the_host()
}

/// `self.x[k]` that is read.
pub fn part<X: Part<I, T>, I, T>(_: &X, _: I) -> &T {
    super::shadow::not_on_the_host()
}

/// `self.x[k]` on the left of an assignment.
pub fn member_part_mut<'a, X: MemberPartMut<I, T>, I, T>(_: &X, _: I) -> &'a mut T {
    super::shadow::not_on_the_host()
}

/// `self.x[k][l]` on the left of an assignment.
pub fn part_mut<'a, X: PartMut<I, T>, I, T>(_: &X, _: I) -> &'a mut T {
    super::shadow::not_on_the_host()
}
