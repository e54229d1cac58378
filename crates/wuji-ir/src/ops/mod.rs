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

/// An operation. `table.rs` has a row for each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A constant.
    Const(Imm),
    /// An operation with one argument.
    Unary(UnOp),
    /// An operation with two arguments.
    Binary(BinOp),
    /// Result `bool` of the shape of the arguments.
    Compare(CmpOp),
    /// `(condition, if_true, if_false)`; the condition is `bool` or `bool` of the same shape.
    Select,
    /// `a * b + c`, rounded once.
    Fma,
    /// Element by element to another scalar type, by value.
    Convert(Scalar),
    /// Element by element to another scalar type of equal width, by bits.
    Bitcast(Scalar),

    /// One scalar in every component of a vector or matrix.
    Splat(Type),
    /// A vector or matrix from its scalars, a struct from its fields.
    Compose(Type),
    /// Component of a vector or matrix, field of a struct.
    Extract(u32),
    /// `(aggregate, component)`.
    Insert(u32),
    /// `(vector or matrix, index)`; zero outside.
    ExtractDyn,
    /// `(vector or matrix, index, scalar)`; unchanged outside.
    InsertDyn,
    /// A vector of the listed components of a vector.
    Shuffle(SmallVec<[u8; 4]>),
    /// Linear algebra on vectors and matrices.
    Algebra(AlgebraOp),
    /// The elements of a value become one.
    Reduce(ReduceOp),

    /// `indices, dynamic steps`.
    Load(Access),
    /// `indices, dynamic steps, value`.
    Store(Access),
    /// `indices, dynamic steps, operand`, gives the old value. Component by component on aggregates.
    Atomic(AtomicOp, Access),
    /// `indices, dynamic steps, expected, new`, gives the old value; scalars only, compared by bits.
    CompareExchange(Access),
    /// `(value, base)`: the value. Hint: it is in `base + lo .. base + hi`. Code is correct in any case.
    AssumeRange(i64, i64),
    /// The value. Hint: it is another one in every iteration of the parallel loop, and if there is a count, the values of all
    /// iterations are the numbers below it. A wrong hint is a data race.
    Unique(Option<u64>),
    /// Hint: the enclosing loop should keep the field's elements in a scratchpad.
    Cache(Field),
    /// An operation on the cell of the field's node that holds an element.
    Cell(CellOp, Field),
    /// A step from the root of a tree to a cell; all numbers are `i64`. Only after lowering.
    TreeAccess(TreeAccessOp, Tree, Node),
    /// Extent of an axis of an array, `i64`.
    ArrayExtent(Array, u8),
    /// Distance in bytes between neighbours along an axis of an array, `i64`. Only after lowering.
    ArrayStride(Array, u8),

    /// Bytes to value: `(offset: i64)`. Only after lowering. A vector may have an offset for each lane (`i64`
    /// or `i32`), followed by an optional mask: inactive lanes give 0.
    MemLoad(Space, Type),
    /// `(offset: i64, value)`. Only after lowering. Vectors as in `MemLoad`; lanes are stored in order.
    MemStore(Space),
    /// `(offset: i64, optional mask)`: a vector for each column; inactive lanes give 0. Bytes between columns
    /// may be read as well. Only after lowering.
    LoadInterleaved(Interleaved),
    /// `(offset: i64, a vector for each column, optional mask)`. Only after lowering.
    StoreInterleaved(Interleaved),
    /// `(offset: i64, operand)`, gives the old value. Only after lowering.
    MemAtomic(AtomicOp, Space, Sharing),
    /// `(offset: i64, expected, new)`, gives the old value. Only after lowering.
    MemCompareExchange(Space),
    /// `(offsets, vectors..., optional mask)`: every lane in order adds its numbers to consecutive numbers
    /// that start at its offset; each has its space. No other thread accesses them at the same time. Only
    /// after lowering.
    AddInterleaved(SmallVec<[Space; 4]>),

    /// `(condition)`; regions then, else; results by `yield`.
    If,
    /// Runs its region again on `continue`, ends on `break`. Arguments start the region's parameters.
    Loop(Label),
    /// `(lo, hi, step, initial...)`; region parameters are the index and the carried values, which `continue`
    /// passes on; `break` leaves with values, and at the end of the range the results are the carried values.
    For(Label, ForKind),
    /// `break` leaves it with values, and so does `yield` at its end.
    Block(Label),
    /// Iterations in parallel; only at the top level of a kernel. Region parameters: one index per axis.
    ForEach(Label, Domain, LoopHints),

    /// A call: `(arguments...)`.
    Call(Func),
    /// 64 random bits, `u64`.
    Random,
    /// The task's key for random bits, `u64`; see `docs/ir.md`. Only after lowering.
    RandomKey,
    /// The row-major number of the iteration a task's function runs, `i64`. Only in tasks.
    Iteration,
    /// An operation of the threads of a block.
    Thread(ThreadOp),
    /// Arguments fill the holes of the message.
    Print(Message),
    /// `(condition, holes...)`; a false condition fails the launch and ends the iteration.
    Assert(Message),
    /// `(index)`: reports an index outside `0..len` of a vector or local array.
    CheckIndex(u32),
    /// Reports a problem at run time, with the arguments. Only after lowering.
    Report(Site),
}

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
        false
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
