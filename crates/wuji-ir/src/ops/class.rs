//! Classes of operations.
//!
//! A pass matches on the class and lists all classes. A new operation of a class then needs no change in the pass.

use super::{
    Access, Activation, AlgebraOp, AtomicOp, CellOp, CheckOp, ComponentOp, ControlOp,
    ElementwiseOp, HintOp, MemoryOp, QueryOp, ReduceOp, ThreadOp, TreeAccessOp,
};
use crate::entities::{Field, Func, Label, Node, Tree};
use crate::types::Imm;

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
