//! Operators of types of the user: `#[func] impl Add for T` implements one of these traits beside `Add`.
//!
//! Where the operands of an operator may be such types, the expansion asks for the implementation, as for methods: the trait that is
//! found with fewer references answers.

use super::calls::Builtin;
use super::record::{Recorder, Value};
use super::shadow::Slot;
use std::marker::PhantomData;
use wuji_macros::func;

macro_rules! operators {
    ($($name:ident)*) => {$(
        #[derive(Debug)]
        pub struct $name;
    )*};
}
operators!(Add Sub Mul Div Rem BitAnd BitOr BitXor Shl Shr Neg Not);

/// `a + b`
pub trait Binary<Op, Rhs> {
    type Output;

    #[func]
    fn apply(self, rhs: Rhs) -> Self::Output;
}

/// `-a`
pub trait Unary<Op> {
    type Output;

    #[func]
    fn apply(self) -> Self::Output;
}

/// `a += b`
pub trait Assign<Op, Rhs> {
    #[func]
    fn apply(&mut self, rhs: Rhs);
}

/// `a == b`
pub trait Equal<Rhs> {
    #[func]
    fn apply(&self, rhs: Rhs) -> bool;
}

/// Records the operator that a type of the user has.
pub trait Own {
    fn record(&self, recorder: &mut Recorder);
}

/// Where there is none, operators are those of the language.
pub trait NotOwn<A, B> {
    fn record(&self, recorder: &mut Recorder)
    where
        A: Operand,
        B: Operand,
    {
        recorder.no_operator();
    }
}

/// Types whose operators are part of the language.
#[diagnostic::on_unimplemented(
    message = "the operators of `{Self}` are not `#[func]`s, so a kernel cannot use them",
    label = "not a `#[func]`",
    note = "put `#[func]` in front of the `impl` of the operator"
)]
pub trait Operand {}
#[diagnostic::do_not_recommend]
impl<T: Builtin> Operand for T {}

/// Where types have no equality of their own, all fields are compared.
pub trait Fieldwise {
    fn record(&self, recorder: &mut Recorder) {
        recorder.no_operator();
    }
}

#[derive(Debug)]
pub struct BinaryOf<Op, A, B>(PhantomData<fn() -> (Op, A, B)>);
#[derive(Debug)]
pub struct UnaryOf<Op, A>(PhantomData<fn() -> (Op, A)>);
#[derive(Debug)]
pub struct AssignOf<Op, A, B>(PhantomData<fn() -> (Op, A, B)>);
#[derive(Debug)]
pub struct EqualOf<A, B>(PhantomData<fn() -> (A, B)>);

pub fn binary_of<Op, A, B>(_: &Slot<(A, B)>) -> BinaryOf<Op, A, B> {
    BinaryOf(PhantomData)
}
pub fn unary_of<Op, A>(_: &Slot<A>) -> UnaryOf<Op, A> {
    UnaryOf(PhantomData)
}
pub fn assign_of<Op, A, B>(_: &Slot<(A, B)>) -> AssignOf<Op, A, B> {
    AssignOf(PhantomData)
}
pub fn equal_of<A, B>(_: &Slot<(A, B)>) -> EqualOf<A, B> {
    EqualOf(PhantomData)
}

impl<Op, A: Value + Binary<Op, B>, B: Value> Own for BinaryOf<Op, A, B>
where
    A::Output: Value,
{
    fn record(&self, recorder: &mut Recorder) {
        recorder.operator(|a: A, b: B| Binary::<Op, B>::apply(a, b));
    }
}
impl<Op, A, B> NotOwn<A, B> for &BinaryOf<Op, A, B> {}

impl<Op, A: Value + Unary<Op>> Own for UnaryOf<Op, A>
where
    A::Output: Value,
{
    fn record(&self, recorder: &mut Recorder) {
        recorder.operator(|a: A| Unary::<Op>::apply(a));
    }
}
impl<Op, A> NotOwn<A, A> for &UnaryOf<Op, A> {}

impl<Op, A: Value + Assign<Op, B>, B: Value> Own for AssignOf<Op, A, B> {
    fn record(&self, recorder: &mut Recorder) {
        recorder.operator(|mut a: A, b: B| Assign::<Op, B>::apply(&mut a, b));
    }
}
impl<Op, A, B> NotOwn<A, B> for &AssignOf<Op, A, B> {}

impl<A: Value + Equal<B>, B: Value> Own for EqualOf<A, B> {
    fn record(&self, recorder: &mut Recorder) {
        recorder.operator(|a: A, b: B| Equal::<B>::apply(&a, b));
    }
}
impl<A, B> Fieldwise for &EqualOf<A, B> {}

/// Pins the type of the left operand.
#[inline(always)]
pub fn left<A, B>(_: &Slot<(A, B)>, a: A) -> A {
    a
}

/// Pins the type of what an operator changes.
#[inline(always)]
pub fn left_place<A, B>(_: &Slot<(A, B)>, _: &A) {}

/// Pins the type of the right operand.
#[inline(always)]
pub fn right<A, B>(_: &Slot<(A, B)>, b: B) -> B {
    b
}
