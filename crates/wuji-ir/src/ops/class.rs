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
    /// A constant.
    Constant(Imm),
    /// Scalar operations, element by element on vectors and matrices.
    Elementwise(ElementwiseOp),
    /// Composes and decomposes vectors, matrices and structs.
    Component(ComponentOp<'a>),
    /// The elements of a value become one.
    Reduce(ReduceOp),
    /// Linear algebra on vectors and matrices.
    Algebra(AlgebraOp),
    /// A number that is known at launch.
    Query(QueryOp),
    /// Does not change results.
    Hint(HintOp),
    /// An access of an element by place and indices.
    Access(AccessOp, &'a Access),
    /// A query or change of the activity of a cell.
    Cell(CellOp, Field),
    /// A step from the root to a cell.
    TreeAccess(TreeAccessOp, Tree, Node),
    /// An access of bytes.
    Memory(MemoryOp<'a>),
    /// Owns regions.
    Control(ControlOp<'a>),
    /// A call.
    Call(Func),
    /// A random number.
    Random,
    /// Communication among threads.
    Thread(ThreadOp),
    /// Checks and messages.
    Check(CheckOp),
}

/// A scalar operation, element by element on vectors and matrices.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ElementwiseOp {
    /// One argument.
    Unary(UnOp),
    /// Two arguments.
    Binary(BinOp),
    /// A comparison.
    Compare(CmpOp),
    /// `c ? a : b`.
    Select,
    /// `a * b + c`.
    Fma,
    /// A conversion to this scalar type.
    Convert(Scalar),
    /// The same bits as another scalar type.
    Bitcast(Scalar),
}

/// Composes or decomposes an aggregate.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ComponentOp<'a> {
    /// All elements are one scalar.
    Splat(Type),
    /// A value of this type from its parts.
    Compose(Type),
    /// A part with a constant number.
    Extract(u32),
    /// A value with another part, of a constant number.
    Insert(u32),
    /// An element with a computed number.
    ExtractDyn,
    /// A value with another element, of a computed number.
    InsertDyn,
    /// Elements of two vectors, by their numbers.
    Shuffle(&'a [u8]),
}

/// A number that is known at launch.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum QueryOp {
    /// The length of an axis of an array.
    ArrayExtent(Array, u8),
    /// The distance of two elements along an axis of an array.
    ArrayStride(Array, u8),
    /// The key of random numbers in this launch.
    RandomKey,
    /// The number of the iteration.
    Iteration,
}

/// A hint to the compiler.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum HintOp {
    /// The argument is in this inclusive range.
    AssumeRange(i64, i64),
    /// Different iterations have different values.
    Unique(Option<u64>),
    /// A field whose block is to be cached in a scratchpad.
    Cache(Field),
}

/// The operation of an access on its element.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum AccessOp {
    /// A load.
    Load,
    /// A store.
    Store,
    /// An update.
    Atomic(AtomicOp),
    /// A compare and exchange.
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
    /// A load of this type.
    Load(Space, Type),
    /// A store.
    Store(Space),
    /// An update.
    Atomic(AtomicOp, Space, Sharing),
    /// A compare and exchange.
    CompareExchange(Space),
    /// Loads of columns of interleaved numbers.
    LoadInterleaved(&'a Interleaved),
    /// Stores of columns of interleaved numbers.
    StoreInterleaved(&'a Interleaved),
    /// Updates of columns of interleaved numbers.
    AddInterleaved(&'a [Space]),
}

/// An operation that owns regions.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ControlOp<'a> {
    /// A branch.
    If,
    /// A block that `break` leaves.
    Block(Label),
    /// A loop without an end of its own.
    Loop(Label),
    /// A serial loop, or one over chunks.
    For(Label, ForKind),
    /// A parallel loop.
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

    /// The label that a break or continue names.
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
    /// Prints a message.
    Print(Message),
    /// Reports a message unless a condition holds.
    Assert(Message),
    /// Reports an index that is not below a length.
    Index(u32),
    /// Reports a site.
    Report(Site),
}
