//! Which functions and methods a kernel can call, as rustc checks it.
//!
//! A call is an error at its place in the source, unless its callee is a `#[func]` or may be part of the language. What only has
//! the name of a part of the language is refused at the launch, by its full path.

use super::matrix::Matrix;
use super::parts::BundleFunc;
use super::record::{Invocable, IsFunc, IsPlain, Recorder};
use super::shadow::Slot;
use super::vector::Vector;
use std::marker::PhantomData;

/// Types whose methods are part of the language.
#[diagnostic::on_unimplemented(
    message = "this is not a `#[func]`, so a kernel cannot call it",
    label = "not a `#[func]`",
    note = "put `#[func]` in front of it, or compute its result before the launch",
    note = "of the standard library, kernels know the functions of numbers"
)]
pub trait Builtin {}

#[diagnostic::do_not_recommend]
impl Builtin for () {}
#[diagnostic::do_not_recommend]
impl<T> Builtin for Option<T> {}
#[diagnostic::do_not_recommend]
impl<T, const N: usize> Builtin for [T; N] {}
#[diagnostic::do_not_recommend]
impl<T, const N: usize> Builtin for Vector<T, N> {}
#[diagnostic::do_not_recommend]
impl<T, const R: usize, const C: usize> Builtin for Matrix<T, R, C> {}

macro_rules! builtin {
    ($($ty:ty)*) => {$(#[diagnostic::do_not_recommend] impl Builtin for $ty {})*};
}
builtin!(bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize half::f16 f32 f64);

macro_rules! tuples {
    ($($($a:ident)*;)*) => {$(#[diagnostic::do_not_recommend] impl<$($a),*> Builtin for ($($a,)*) {})*};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
    A B C D E F G H I;
    A B C D E F G H I J;
    A B C D E F G H I J K;
    A B C D E F G H I J K L;
}

/// Nothing implements this: it is there for its message about plain functions and methods.
#[diagnostic::on_unimplemented(
    message = "this is not a `#[func]`, so a kernel cannot call it",
    label = "not a `#[func]`",
    note = "put `#[func]` in front of it, or compute its result before the launch",
    note = "of the standard library, kernels know the functions of numbers"
)]
pub trait Func {}

/// A call that may be one of the language: by its result. One bound, so that there is one error.
#[diagnostic::on_unimplemented(
    message = "this is not a `#[func]`, so a kernel cannot call it",
    label = "not a `#[func]`",
    note = "put `#[func]` in front of it, or compute its result before the launch",
    note = "of the standard library, kernels know the functions of numbers"
)]
pub trait Known<R, S>: Invocable<S> {}
#[diagnostic::do_not_recommend]
impl<C: Invocable<S>, R: Builtin, S> Known<R, S> for C {}

/// A question about a function item with so many arguments: `(&&asked::<_, 2>(&slot)).own(..)`. Methods are looked for
/// with as few references removed as possible, so [`Plain`] answers wherever it can.
#[derive(Debug)]
pub struct Asked<F, const N: usize>(PhantomData<F>);

/// Asks about the function item of a slot.
pub fn asked<F, const N: usize>(_: &Slot<F>) -> Asked<F, N> {
    Asked(PhantomData)
}

/// Functions with the ABI of Rust implement `Fn`.
pub trait Plain<F, S, R> {
    /// Records a call of a function whose name is not part of the language.
    fn own<C>(&self, _: &mut Recorder, _: &Slot<F>, _: &Slot<C>)
    where
        F: Func,
    {
    }

    /// Records a call of a function that may be part of the language.
    fn known<C: Known<R, T>, T>(&self, recorder: &mut Recorder, item: &Slot<F>, call: &Slot<C>) {
        recorder.call(item, call, false);
    }

    /// Records a call of something that may be a constructor.
    fn constructor<C: Invocable<T>, T>(
        &self,
        recorder: &mut Recorder,
        item: &Slot<F>,
        call: &Slot<C>,
    ) {
        recorder.call(item, call, false);
    }

    /// Records a gradient of the function.
    fn reverse<C: Invocable<T>, T>(&self, recorder: &mut Recorder, item: &Slot<F>, call: &Slot<C>) {
        recorder.reverse(item, call, false);
    }
}

/// `#[func]`s have another ABI, so they do not.
pub trait NotPlain<F> {
    /// Records a call of a function whose name is not part of the language.
    fn own<C: Invocable<T>, T>(&self, recorder: &mut Recorder, item: &Slot<F>, call: &Slot<C>) {
        recorder.call(item, call, true);
    }

    /// Records a call of a function that may be part of the language.
    fn known<C: Invocable<T>, T>(&self, recorder: &mut Recorder, item: &Slot<F>, call: &Slot<C>) {
        recorder.call(item, call, true);
    }

    /// Records a call of something that may be a constructor.
    fn constructor<C: Invocable<T>, T>(
        &self,
        recorder: &mut Recorder,
        item: &Slot<F>,
        call: &Slot<C>,
    ) {
        recorder.call(item, call, true);
    }

    /// Records a gradient of the function.
    fn reverse<C: Invocable<T>, T>(&self, recorder: &mut Recorder, item: &Slot<F>, call: &Slot<C>) {
        recorder.reverse(item, call, true);
    }
}
impl<F, const N: usize> NotPlain<F> for Asked<F, N> {}

macro_rules! functions {
    ($($n:literal $($a:ident)*;)*) => {$(
        impl<Fun: Fn($($a),*) -> R, R, $($a),*> Plain<Fun, ($($a,)*), R> for &Asked<Fun, $n> {}
    )*};
}
functions! {
    0;
    1 A;
    2 A B;
    3 A B C;
    4 A B C D;
    5 A B C D E;
    6 A B C D E G;
    7 A B C D E G H;
    8 A B C D E G H I;
    9 A B C D E G H I J;
    10 A B C D E G H I J K;
    11 A B C D E G H I J K L;
    12 A B C D E G H I J K L M;
}

/// What a method is, beside the type of its receiver.
impl<A> Slot<(A, IsFunc)> {
    /// Records a call of a method whose name is not part of the language.
    pub fn own<F: Invocable<S>, S>(
        &self,
        recorder: &mut Recorder,
        item: &Slot<F>,
        name: &'static str,
    ) {
        recorder.method(item, name, true);
    }

    /// Records a call of a method that may be part of the language.
    pub fn known<F: Invocable<S>, S>(
        &self,
        recorder: &mut Recorder,
        item: &Slot<F>,
        name: &'static str,
    ) {
        recorder.method(item, name, true);
    }
}

impl<A, B, const N: usize> Slot<(A, BundleFunc<B, N>)> {
    /// Records a call of a `#[func]` of a nested bundle.
    pub fn own<F: Invocable<S>, S>(
        &self,
        recorder: &mut Recorder,
        item: &Slot<F>,
        name: &'static str,
    ) {
        recorder.method(item, name, true);
    }

    /// The same, by a name of the language.
    pub fn known<F: Invocable<S>, S>(
        &self,
        recorder: &mut Recorder,
        item: &Slot<F>,
        name: &'static str,
    ) {
        recorder.method(item, name, true);
    }
}

impl<A> Slot<(A, IsPlain)> {
    // The bound is on the call and not on the receiver, so that a call of a method that does not exist is one error.
    pub fn own<F>(&self, _: &mut Recorder, _: &Slot<F>, _: &'static str)
    where
        F: Func,
    {
    }

    pub fn known<F: Invocable<S>, S>(
        &self,
        recorder: &mut Recorder,
        item: &Slot<F>,
        name: &'static str,
    ) where
        A: Builtin,
    {
        recorder.method(item, name, false);
    }
}
