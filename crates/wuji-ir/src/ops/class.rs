//! Classes of operations.
//!
//! A pass matches on the class and lists all classes. A new operation of a class then needs no change in the pass.

use super::{
    Access, Activation, AlgebraOp, AtomicOp, BinOp, CellOp, CmpOp, Domain, ForKind, Interleaved,
    LoopHints, ReduceOp, Sharing, Space, ThreadOp, TreeAccessOp, UnOp,
};
use crate::entities::{Array, Field, Func, Label, Message, Node, Site, Tree};
use crate::types::{Imm, Scalar, Type};

/// An operation by its class.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum OpClass<'a> {
    Constant(Imm),
    /// Scalar operations, element by element on vectors and matrices.
    Elementwise(ElementwiseOp),
    /// Composes and decomposes vectors, matrices and structs.
    Component(ComponentOp<'a>),
    Reduce(ReduceOp),
    Algebra(AlgebraOp),
    /// A number that is known at launch.
    Query(QueryOp),
    /// Does not change results.
    Hint(HintOp),
    /// An access of an element by place and indices.
    Access(AccessOp, &'a Access),
    Cell(CellOp, Field),
    TreeAccess(TreeAccessOp, Tree, Node),
    /// An access of bytes.
    Memory(MemoryOp<'a>),
    /// Owns regions.
    Control(ControlOp<'a>),
    Call(Func),
    Random,
    Thread(ThreadOp),
    /// Checks and messages.
    Check(CheckOp),
}

/// A scalar operation, element by element on vectors and matrices.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ElementwiseOp {
    Unary(UnOp),
    Binary(BinOp),
    Compare(CmpOp),
    Select,
    Fma,
    Convert(Scalar),
    Bitcast(Scalar),
}

/// Composes or decomposes an aggregate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ComponentOp<'a> {
    Splat(Type),
    Compose(Type),
    Extract(u32),
    Insert(u32),
    ExtractDyn,
    InsertDyn,
    Shuffle(&'a [u8]),
}

/// A number that is known at launch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum QueryOp {
    ArrayExtent(Array, u8),
    ArrayStride(Array, u8),
    RandomKey,
    Iteration,
}

/// A hint to the compiler.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum HintOp {
    AssumeRange(i64, i64),
    Unique(Option<u64>),
    Cache(Field),
}

/// The operation of an access on its element.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum AccessOp {
    Load,
    Store,
    Atomic(AtomicOp),
    CompareExchange,
}

impl AccessOp {
    /// The number of arguments after indices and dynamic steps.
    pub const fn operands(self) -> usize {
        match self {
            AccessOp::Load => 0,
            AccessOp::Store | AccessOp::Atomic(_) => 1,
            AccessOp::CompareExchange => 2,
        }
    }

    /// The default activation, which the text format omits.
    pub const fn default_activation(self) -> Activation {
        match self {
            AccessOp::Load => Activation::Never,
            AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange => {
                Activation::IfAbsent
            }
        }
    }

    /// The same operation with another access.
    pub fn on(self, access: Access) -> super::Op {
        match self {
            AccessOp::Load => super::Op::Load(access),
            AccessOp::Store => super::Op::Store(access),
            AccessOp::Atomic(op) => super::Op::Atomic(op, access),
            AccessOp::CompareExchange => super::Op::CompareExchange(access),
        }
    }
}

/// An access of bytes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum MemoryOp<'a> {
    Load(Space, Type),
    Store(Space),
    Atomic(AtomicOp, Space, Sharing),
    CompareExchange(Space),
    LoadInterleaved(&'a Interleaved),
    StoreInterleaved(&'a Interleaved),
    AddInterleaved(&'a [Space]),
}

/// An operation that owns regions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ControlOp<'a> {
    If,
    Block(Label),
    Loop(Label),
    For(Label, ForKind),
    ForEach(Label, &'a Domain, LoopHints),
}

impl ControlOp<'_> {
    /// The number of regions.
    pub const fn regions(self) -> usize {
        match self {
            ControlOp::If => 2,
            ControlOp::Block(_)
            | ControlOp::Loop(_)
            | ControlOp::For(..)
            | ControlOp::ForEach(..) => 1,
        }
    }

    pub fn label(self) -> Option<Label> {
        match self {
            ControlOp::If => None,
            ControlOp::Block(l)
            | ControlOp::Loop(l)
            | ControlOp::For(l, _)
            | ControlOp::ForEach(l, ..) => Some(l),
        }
    }
}

/// A check or a message.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CheckOp {
    Print(Message),
    Assert(Message),
    Index(u32),
    Report(Site),
}
