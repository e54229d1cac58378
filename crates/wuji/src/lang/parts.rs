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

/// Members that are values inside of kernels.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a value inside a kernel",
    label = "a whole field or bundle",
    note = "elements of fields are read by their indices, `self.x[[i, j]]`; `&self.x` passes a member to a `#[func]`"
)]
pub trait MemberValue {
    /// What a kernel sees.
    type Value;
}

#[diagnostic::do_not_recommend]
impl<T: Value> MemberValue for T {
    type Value = T;
}
impl<T: Element> MemberValue for Param<T> {
    type Value = T;
}

/// Beside every `#[func]` of a bundle: its function item.
#[derive(Debug)]
pub struct BundleFunc<F>(PhantomData<F>);

impl<F> BundleFunc<F> {
    /// By the item.
    pub fn new(_: F) -> BundleFunc<F> {
        BundleFunc(PhantomData)
    }
}

/// The receiver of a `#[func]` of a nested bundle.
#[derive(Debug)]
pub struct Nested<B, F>(PhantomData<fn() -> (B, F)>);

impl<B, F> Clone for Nested<B, F> {
    fn clone(&self) -> Nested<B, F> {
        *self
    }
}
impl<B, F> Copy for Nested<B, F> {}

#[diagnostic::do_not_recommend]
impl<B, F> Passed for Nested<B, F> {
    const BUILTIN: bool = false;

    fn tag() -> TypeTag {
        TypeTag::Data
    }
    fn made_up() -> Nested<B, F> {
        Nested(PhantomData)
    }
}

/// The `#[func]` of a nested bundle, while it is recorded.
pub fn nested<F: Callable<S>, S>() -> F {
    conjure::<F, S>(PhantomData).unwrap_or_else(|| super::shadow::not_on_the_host())
}

/// Beside every `#[func]` of a bundle that takes closures.
#[derive(Debug)]
pub struct TakesClosures;

/// What the receiver of a method is, by what is beside the method. A parameter and no associated type, so that there is one error.
#[diagnostic::on_unimplemented(
    message = "a `#[func]` of a nested bundle that takes closures is called by its path",
    label = "not a method",
    note = "write `Grid::mapped(&self.grid, i, |x| ..)` instead of `self.grid.mapped(i, |x| ..)`"
)]
pub trait Receives<M, R> {}

#[diagnostic::do_not_recommend]
impl<M> Receives<M, M> for IsFunc {}
#[diagnostic::do_not_recommend]
impl<M> Receives<M, M> for IsPlain {}
#[diagnostic::do_not_recommend]
impl<B, F> Receives<B, Nested<B, F>> for BundleFunc<F> {}

/// The receiver of a method of a member. The closure finds what is beside the method.
pub fn receiver<M, V: Receives<M, R>, R>(_: &M, _: &Slot<V>, _: impl Fn(&M) -> V) -> R {
    super::shadow::not_on_the_host()
}

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
pub fn member_value<M: MemberValue>(_: &M) -> M::Value {
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
