//! Operations. An instruction is an operation, its argument values and its regions. Everything that is not a
//! value (constants, places, types) is in the operation, so equal operations with equal arguments compute the
//! same.
//!
//! `table` has one row for each operation. Names, effects, costs and classes are columns of it, so passes
//! match on the class, and name only the operations that they treat specially.

mod access;
mod class;
mod scalar;
mod table;
mod thread;

pub use access::*;
pub use class::*;
pub use scalar::*;
pub use table::*;
pub use thread::*;

use crate::entities::{Array, Field, Func, Label, Message, Node, Site, Tree, Value};
use crate::types::{Imm, Scalar, Type};
use smallvec::SmallVec;

/// The kind of a loop over a range.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ForKind {
    /// Iterations run one after another.
    Serial,
    /// Iterations are independent, except for atomics and racing stores: the loop came from a `ForEach`.
    Parallel,
    /// Serial and rarely executed: a boundary part that `bounds` split off. Backends do not optimize it.
    Boundary,
}

/// The domain of a parallel loop.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Domain {
    /// `rank` pairs of bounds among the arguments: lo, hi, lo, hi, ...
    Range {
        /// The number of axes.
        rank: u8,
    },
    /// All cells of a field.
    Field(Field),
}

impl Domain {
    /// The number of arguments of a loop over it.
    pub fn arguments(&self) -> usize {
        match self {
            Domain::Range { rank } => 2 * usize::from(*rank),
            Domain::Field(_) => 0,
        }
    }
}

/// What the program said about a parallel loop.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LoopHints {
    /// Iterations per chunk.
    pub block_size: Option<u32>,
    /// Serial, on one thread.
    pub serial: bool,
    /// Vectorize always or never; by default, by the cost model.
    pub simd: Option<bool>,
    /// The estimated grain size in iterations.
    pub grain_size: Option<u32>,
    /// Iterations run in blocks, one for each thread of a block; the threads have barriers and shared arrays.
    pub cooperative: bool,
    /// On a GPU, a thread block takes each unit of a task: its threads share the iterations of the parallel
    /// loops inside, with barriers between these loops. Set by passes.
    pub blocks: bool,
    /// Belongs to the serial code around it, as loops below control flow do: it is not counted as a task of the kernel. Set by
    /// passes.
    pub uncounted: bool,
}

/// The default block size on a GPU.
pub const THREADS: u32 = 256;
/// The largest block size.
pub const MOST_THREADS: u32 = 1024;
/// Threads of a warp.
pub const WARP: u32 = 32;

impl LoopHints {
    /// The block size of this loop on a GPU. A cooperative loop gets the number that it requests.
    pub fn threads(&self) -> u32 {
        match self.block_size {
            None => THREADS,
            Some(size) if self.cooperative => size.clamp(1, MOST_THREADS),
            Some(size) => size.clamp(1, MOST_THREADS).next_multiple_of(WARP),
        }
    }
}

impl Op {
    /// The label that an operation defines for the regions it owns.
    pub fn label(&self) -> Option<Label> {
        self.control().and_then(ControlOp::label)
    }

    /// Sets the label of a control operation.
    pub fn set_label(&mut self, label: Label) {
        if let Op::Loop(l) | Op::For(l, _) | Op::Block(l) | Op::ForEach(l, _, _) = self {
            *l = label;
        }
    }

    /// Whether this is a read that may be out of range, with these operands.
    pub fn is_checked_read(&self, operands: &[Value]) -> bool {
        if let Op::Load(access) = self {
            return access.guard == Guard::Checked && !operands.is_empty();
        }
        matches!(self, Op::Cell(CellOp::IsActive | CellOp::Length, _))
    }

    /// The access of `Load`, `Store`, `Atomic` and `CompareExchange`.
    pub fn access(&self) -> Option<&Access> {
        if let OpClass::Access(_, access) = self.class() {
            return Some(access);
        }
        None
    }

    /// The access of a memory operation, to be changed.
    pub fn access_mut(&mut self) -> Option<&mut Access> {
        if let Op::Load(a) | Op::Store(a) | Op::Atomic(_, a) | Op::CompareExchange(a) = self {
            return Some(a);
        }
        None
    }

    /// The access of `Store`, `Atomic` and `CompareExchange`.
    pub fn written_access(&self) -> Option<&Access> {
        if let Op::Store(a) | Op::Atomic(_, a) | Op::CompareExchange(a) = self {
            return Some(a);
        }
        None
    }

    /// The space that `MemLoad`, `MemStore`, `MemAtomic` and `MemCompareExchange` access.
    pub fn space(&self) -> Option<Space> {
        if let Op::MemLoad(s, _)
        | Op::MemStore(s)
        | Op::MemAtomic(_, s, _)
        | Op::MemCompareExchange(s) = self
        {
            return Some(*s);
        }
        None
    }

    /// The space that `MemStore`, `MemAtomic` and `MemCompareExchange` write to.
    pub fn written_space(&self) -> Option<Space> {
        if let Op::MemStore(s) | Op::MemAtomic(_, s, _) | Op::MemCompareExchange(s) = self {
            return Some(*s);
        }
        None
    }

    /// The function that is called.
    pub fn callee(&self) -> Option<Func> {
        if let Op::Call(callee) = self {
            return Some(*callee);
        }
        None
    }

    /// The class of `If`, `Loop`, `For`, `Block` and `ForEach`.
    pub fn control(&self) -> Option<ControlOp<'_>> {
        if let OpClass::Control(op) = self.class() {
            return Some(op);
        }
        None
    }

    /// The operation, if it works element by element.
    pub fn elementwise(&self) -> Option<ElementwiseOp> {
        if let OpClass::Elementwise(op) = self.class() {
            return Some(op);
        }
        None
    }
}
