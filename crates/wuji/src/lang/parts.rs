//! Members and items of bundles in the expansion of a kernel: `self.fields[k]`, `self.levels[l].u[[i, j]]`.
//!
//! The macro does not know types, so that `self.x[k]` may be an element of a field, a field of an array or a component of a vector.
//! rustc decides here.

use super::matrix::Matrix;
use super::num::Int;
use super::record::Value;
use super::shadow::{IndexOf, Rank};
use super::vector::Vector;
use crate::autodiff::Param;
use crate::cells::Cells;
use crate::element::Element;
use crate::field::Field;
use crate::nd_array::NdArray;

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
pub trait PartMut<I, T> {}

impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> PartMut<I, T> for Field<T, D> {}
impl<I: IndexOf<Rank<D>>, T: Element, const D: usize> PartMut<I, T> for NdArray<T, D> {}
impl<I: Int, T: Handle, const N: usize> PartMut<I, T> for [T; N] {}
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
    note = "elements of fields are read by their indices, `self.x[[i, j]]`; `&self.x` passes a member to a `#[func]`",
    note = "a `#[func]` of a nested bundle is called by its path: `Grid::slope(&self.grid, i)`"
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

/// `self.v` that is read.
pub fn member_value<M: MemberValue>(_: &M) -> M::Value {
    super::shadow::not_on_the_host()
}

/// `self.x[k]` that is read.
pub fn part<X: Part<I, T>, I, T>(_: &X, _: I) -> &T {
    super::shadow::not_on_the_host()
}

/// `self.x[k]` on the left of an assignment.
pub fn part_mut<'a, X: PartMut<I, T>, I, T>(_: &X, _: I) -> &'a mut T {
    super::shadow::not_on_the_host()
}
