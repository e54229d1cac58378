//! What names and expressions stand for while a body is lowered.

use super::place::PlaceRef;
use crate::lang::ast::{Expr, Pat};
use std::sync::Arc;
use wuji_ir::entities::{Array, Field, Local, Temp, Value};
use wuji_ir::types::Type;

/// A type of the language, as far as it matters for lowering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Unit,
    Value(Type),
    Array(Box<Shape>, usize),
    Data,
}

/// What the evaluation of an expression gives.
#[derive(Clone, Debug)]
pub(super) enum Val {
    Unit,
    /// Control does not get past it; the current region has ended.
    Never,
    Value(Value),
    Array(ArrayVal),
}

/// An array that is not in a variable of its own yet.
#[derive(Clone, Debug)]
pub(super) enum ArrayVal {
    Items(Vec<Val>),
    Repeat(Box<Val>, usize),
    /// What is in a local array right now.
    Stored(ArrayPlace),
    /// An array that threads share, and that has no name yet.
    Shared(ArrayPlace),
}

/// A local array, or a part of one that has more than one dimension.
#[derive(Clone, Debug)]
pub(super) struct ArrayPlace {
    pub(super) local: Local,
    pub(super) elem: Type,
    pub(super) dims: Vec<u32>,
    /// Where the part starts; `None` for the start of the local.
    pub(super) base: Option<Value>,
}

/// What a parameter behind a reference is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    World,
    Field(Field),
    Array(Array),
}

/// A closure, which is inlined where it is called.
#[derive(Copy, Clone, Debug)]
pub(super) struct Closure {
    pub(super) params: &'static [Pat],
    pub(super) body: &'static Expr,
    /// The number of the frame whose variables it sees.
    pub(super) frame: usize,
}

/// Several fields or arrays under one name.
#[derive(Clone, Debug)]
pub(super) enum Group {
    /// The members of a bundle.
    Bundle(Vec<(&'static str, Binding)>),
    /// The items of an array.
    List(Vec<Binding>),
}

/// What a variable is.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// Declared without a value; its type is that of the first one.
    Empty,
    Unit,
    Value(Value),
    Local(Local, Type),
    Temp(Temp, Type),
    Array(ArrayPlace),
    /// What a reference refers to.
    Place(PlaceRef),
    Data(Data),
    Group(Arc<Group>),
    Closure(Closure),
}
