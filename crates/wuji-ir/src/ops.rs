//! Operations. An instruction is an operation, its argument values and its regions; everything that
//! is not a value (constants, places, types) is in the operation, so equal operations with equal
//! arguments compute the same thing.

use crate::entities::{Array, Field, Func, Label, Local, Message, Node, Site, Temp, Tree};
use crate::types::{Imm, Scalar, Type};
use smallvec::SmallVec;

/// One argument, element by element on vectors and matrices. See `docs/ir.md` for each rule.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum UnOp {
    /// Integers wrap; floats flip the sign bit.
    Neg,
    /// Bitwise on integers, logical on `bool`.
    Not,
    Abs,
    /// -1, 0 or 1; keeps NaN and the sign of zero.
    Sign,
    Floor,
    Ceil,
    /// Half away from zero.
    Round,
    /// Half to even.
    RoundEven,
    Trunc,
    Sqrt,
    Rsqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Exp,
    Exp2,
    Log,
    Log2,
    Log10,
    PopCount,
    LeadingZeros,
    TrailingZeros,
    /// The same value; if memory gave an undefined one, some fixed one from here on.
    Freeze,
}

/// Two arguments of one type, element by element on vectors and matrices.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum BinOp {
    Add,
    Sub,
    Mul,
    /// Integers: truncating, 0 when the divisor is 0, `MIN / -1 == MIN`.
    Div,
    /// Integers: sign of the dividend, 0 when the divisor is 0. Floats: `fmod`.
    Rem,
    And,
    Or,
    Xor,
    /// The amount is taken modulo the width.
    Shl,
    /// Arithmetic on signed types, logical on unsigned ones; the amount is taken modulo the width.
    Shr,
    /// Floats: the other operand when one is NaN.
    Min,
    Max,
    Pow,
    Atan2,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Horizontal reduction of a vector or matrix to a scalar, in component order.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ReduceOp {
    Add,
    Mul,
    Min,
    Max,
    And,
    Or,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum AtomicOp {
    Add,
    Mul,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
}

/// What an access of a cell that does not exist does.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Activation {
    /// The cell is left absent: a read gives zero, a write is dropped.
    Never,
    /// The cell and the path to it come into being.
    IfAbsent,
    /// The compiler has proved that it exists.
    KnownActive,
}

/// Whether an access still has to be compared with the bounds of its place.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Guard {
    Checked,
    /// Proved, split or versioned to be inside; or the user opted out.
    InBounds,
}

/// Something with elements that can be loaded and stored.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    Field(Field),
    Array(Array),
    /// A local variable (no index) or local array (one index).
    Local(Local),
    /// No index.
    Temp(Temp),
}

/// One step from an element into its components.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    Const(u32),
    /// The component number is an argument; only into a vector or a matrix (row by row).
    Dynamic,
}

/// How an element of a place is touched: `place[indices].path`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    pub place: Place,
    pub path: SmallVec<[Step; 2]>,
    pub activation: Activation,
    pub guard: Guard,
}

impl Access {
    pub fn dynamic_steps(&self) -> usize {
        self.path.iter().filter(|s| **s == Step::Dynamic).count()
    }
}

/// Memory after access lowering: a run of bytes, addressed by an `i64` offset.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// The elements of a field, in the memory of its tree.
    Tree(Tree, Field),
    /// What says which cells of a tree exist: pointers, masks, lengths, lists.
    Nodes(Tree),
    /// Any byte of a tree; overlaps with both of the above.
    Bytes(Tree),
    /// As `Bytes`, for stores of many bytes that nobody looks at soon: backends keep them out of the caches. Others
    /// may look at them after an atomic operation of whoever stored them. A vector is stored at a multiple of its size;
    /// others may look at it when the function has returned.
    Streamed(Tree),
    Array(Array),
    Temps,
    /// The elements of a field in the copy of its tree that the running worker has for itself; the copy of
    /// worker 0 is the tree. Offsets are those in the tree.
    Private(Tree, Field),
}

/// Interleaved of numbers in memory: one for each lane, each the same distance behind the one before.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Interleaved {
    /// Of one column: a vector with a component for each lane.
    pub ty: Type,
    /// Bytes from the row of a lane to that of the next one.
    pub stride: i64,
    /// Where in a row the columns are: what they belong to, and how many bytes behind the offset. In
    /// ascending order, none overlaps another, nor those of other lanes.
    pub columns: SmallVec<[(Space, i64); 4]>,
}

/// Who may touch the memory of an atomic while a task runs.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Sharing {
    /// Any thread.
    #[default]
    Shared,
    /// The running thread alone: load, operation and store will do. Other iterations on that thread may
    /// come to the same memory, before and after.
    Owned,
}

/// What can be asked of, or done to, the cell of a field's node that holds an element.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum CellOp {
    /// `(indices)`: `bool`.
    IsActive,
    /// `(indices)`: the cell and the path to it come into being.
    Activate,
    /// `(indices)`: the cell, and all below it, is no more.
    Deactivate,
    /// `(indices but that along the list)`: number of the new cell of a dynamic node, `i32`; -1 when full.
    Append,
    /// `(indices but that along the list)`: how many cells of a dynamic node are active, `i32`.
    Length,
}

/// One step of a walk from the root of a tree to a cell. Offsets are bytes from the start of the tree.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum TreeAccessOp {
    /// Offset of an allocated cell (of a chunk, in a dynamic node), 0 when absent:
    /// `(container, number)`; in a hash node `(coordinates of the cell...)`.
    Find,
    /// As `Find`, and allocates the cell if it is absent; 0 only when memory has run out.
    Ensure,
    /// `(container, number)`: whether the cell is active: its bit is set, it is below the length.
    Test,
    /// `(container, number)`: sets the bit of a cell, or raises the length so that it is inside.
    Touch,
    /// The operands of `Find` (of a dynamic node, the container): deactivates the cell.
    Drop,
    /// `(container)`: appends a cell to a dynamic node; its number, or -1.
    Push,
    /// `(container)`: length of a dynamic node.
    Length,
    /// `(number)`: an entry of the list of active cells: offset, mask or count, number of the first
    /// cell, then one coordinate per axis on the way to the node, in the order of the axes.
    Entry,
}

/// What a thread of a block knows of its place among the others, and what threads of a block do together. Only GPUs have
/// such threads; elsewhere, and in tasks that say nothing of it, a thread is alone in its block.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ThreadOp {
    /// Number of the thread in its block, `i32`.
    Index,
    /// Threads of a block, `i32`.
    BlockSize,
    /// Number of the block, `i32`.
    Block,
    /// How many blocks there are, `i32`.
    Blocks,
    /// Goes on when all threads of the block that have not ended are here; they then see what each of them has written before.
    Barrier,
    /// `(condition)`: a barrier, and whether it holds for all of these threads.
    BarrierAll,
    /// `(condition)`: a barrier, and whether it holds for any of them.
    BarrierAny,
    /// `(condition)`: a barrier, and for how many of them it holds, `i32`.
    BarrierCount,
    /// Number of the thread among the 32 that run in step, `i32`.
    Lane,
    /// Lanes that are here at the same time, as it happens, `u32`.
    ActiveMask,
    /// `(condition)`: the lanes for which it holds, of those that have not ended, `u32`.
    Ballot,
    /// `(scalar)`: the lanes that have the same bits, `u32`.
    MatchAny,
    /// `(scalar, i32)`: what another lane has.
    Shuffle(Shuffle),
    /// As `Barrier`, for the threads of a warp.
    WarpBarrier,
    /// Threads of the block see what was written before it before they see what is written after it.
    BlockFence,
    /// So do all threads of the device.
    GridFence,
}

/// Which lane a value comes from.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shuffle {
    /// The lane with this number, modulo 32.
    From,
    /// So many lanes below; the own value where there is none.
    Up,
    /// So many lanes above; the own value where there is none.
    Down,
    /// The lane whose number differs in these bits, modulo 32.
    Xor,
}

/// Who takes part in what threads do together.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Party {
    /// Nobody but the thread itself.
    Thread,
    Warp,
    Block,
}

impl ThreadOp {
    /// How many values it takes.
    pub fn arguments(self) -> usize {
        match self {
            ThreadOp::Index
            | ThreadOp::BlockSize
            | ThreadOp::Block
            | ThreadOp::Blocks
            | ThreadOp::Lane
            | ThreadOp::ActiveMask
            | ThreadOp::Barrier
            | ThreadOp::WarpBarrier
            | ThreadOp::BlockFence
            | ThreadOp::GridFence => 0,
            ThreadOp::BarrierAll
            | ThreadOp::BarrierAny
            | ThreadOp::BarrierCount
            | ThreadOp::Ballot
            | ThreadOp::MatchAny => 1,
            ThreadOp::Shuffle(_) => 2,
        }
    }

    /// The threads that have to come to it, all of them, those that have ended left aside.
    pub fn party(self) -> Party {
        match self {
            ThreadOp::Index
            | ThreadOp::BlockSize
            | ThreadOp::Block
            | ThreadOp::Blocks
            | ThreadOp::Lane
            | ThreadOp::ActiveMask
            | ThreadOp::BlockFence
            | ThreadOp::GridFence => Party::Thread,
            ThreadOp::Barrier
            | ThreadOp::BarrierAll
            | ThreadOp::BarrierAny
            | ThreadOp::BarrierCount => Party::Block,
            ThreadOp::Ballot
            | ThreadOp::MatchAny
            | ThreadOp::Shuffle(_)
            | ThreadOp::WarpBarrier => Party::Warp,
        }
    }

    /// Whether threads have to come to it together: it is not moved, removed, copied or put under a condition.
    pub fn is_convergent(self) -> bool {
        self.party() != Party::Thread
    }

    /// Whether it gives the same wherever it stands.
    pub fn is_pure(self) -> bool {
        match self {
            ThreadOp::Index
            | ThreadOp::BlockSize
            | ThreadOp::Block
            | ThreadOp::Blocks
            | ThreadOp::Lane => true,
            ThreadOp::ActiveMask
            | ThreadOp::Barrier
            | ThreadOp::BarrierAll
            | ThreadOp::BarrierAny
            | ThreadOp::BarrierCount
            | ThreadOp::Ballot
            | ThreadOp::MatchAny
            | ThreadOp::Shuffle(_)
            | ThreadOp::WarpBarrier
            | ThreadOp::BlockFence
            | ThreadOp::GridFence => false,
        }
    }
}

/// A loop over all elements of something, in no order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Domain {
    /// `rank` pairs of bounds among the arguments: lo, hi, lo, hi, ...
    Range { rank: u8 },
    /// All cells of a field.
    Field(Field),
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct LoopHints {
    /// Iterations that one worker takes at a time.
    pub block_size: Option<u32>,
    /// In order, on one thread.
    pub serial: bool,
    /// Several iterations per instruction, or never more than one; when left out, whatever seems to pay.
    pub simd: Option<bool>,
    /// Iterations that are worth handing to a thread, as the compiler sees it.
    pub grain_size: Option<u32>,
    /// Iterations run in blocks, one for each thread of a block, which meet at barriers and share arrays.
    pub cooperative: bool,
    /// On a GPU, each unit of a task is for a block of threads: they share out among themselves the iterations of the parallel
    /// loops inside, and meet at barriers between these. Made by passes.
    pub blocks: bool,
}

/// Threads of a block on a GPU, unless a loop asks for another number.
const THREADS: u32 = 256;
/// No block has more.
pub const MOST_THREADS: u32 = 1024;
/// Threads that run in step.
pub const WARP: u32 = 32;

impl LoopHints {
    /// How many threads of a GPU are a block that runs this loop. Where they work together it is what the loop asks for.
    pub fn threads(&self) -> u32 {
        match self.block_size {
            None => THREADS,
            Some(size) if self.cooperative => size.clamp(1, MOST_THREADS),
            Some(size) => size.clamp(1, MOST_THREADS).next_multiple_of(WARP),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    Const(Imm),
    Unary(UnOp),
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
    /// Matrix by matrix, matrix by vector.
    MatMul,
    Transpose,
    Dot,
    /// Vectors of length 3, or of length 2 (a scalar).
    Cross,
    /// Column by row: a matrix.
    Outer,
    Determinant,
    Inverse,
    Reduce(ReduceOp),

    /// `indices, dynamic steps`.
    Load(Access),
    /// `indices, dynamic steps, value`.
    Store(Access),
    /// `indices, dynamic steps, operand`, gives the old value. Component by component on aggregates.
    Atomic(AtomicOp, Access),
    /// `indices, dynamic steps, expected, new`, gives the old value; scalars only, compared by bits.
    CompareExchange(Access),
    /// `(value, base)`: the value. The user expects it in `base + lo .. base + hi`; code is arranged for
    /// that, and right in any case.
    AssumeRange(i64, i64),
    /// The loop around should keep what it touches of the field close by.
    Cache(Field),
    /// About the cell of the field's node that holds an element.
    Cell(CellOp, Field),
    /// A step of a walk down a tree, all numbers `i64`. Only after lowering.
    TreeAccess(TreeAccessOp, Tree, Node),
    /// Extent of an axis of an array, `i64`.
    ArrayExtent(Array, u8),
    /// Distance in bytes between neighbours along an axis of an array, `i64`. Only after lowering.
    ArrayStride(Array, u8),

    /// Bytes to value: `(offset: i64)`. Only after lowering. A vector may be given as many offsets as it
    /// has lanes (`i64` or `i32`), and a mask behind it: lanes that are off give 0.
    MemLoad(Space, Type),
    /// `(offset: i64, value)`. Only after lowering. Vectors as in `MemLoad`; lanes are stored in order.
    MemStore(Space),
    /// `(offset: i64, perhaps a mask)`: a vector for each column; lanes that are off give 0. What stands between
    /// columns may be read as well. Only after lowering.
    LoadInterleaved(Interleaved),
    /// `(offset: i64, a vector for each column, perhaps a mask)`. Only after lowering.
    StoreInterleaved(Interleaved),
    /// `(offset: i64, operand)`, gives the old value. Only after lowering.
    MemAtomic(AtomicOp, Space, Sharing),
    /// `(offset: i64, expected, new)`, gives the old value. Only after lowering.
    MemCompareExchange(Space),
    /// `(offsets, vectors..., perhaps a mask)`: every lane in order adds its numbers to those that stand one
    /// after the other from its offset on; each has its space. Nobody else touches them meanwhile. Only
    /// after lowering.
    AddInterleaved(SmallVec<[Space; 4]>),

    /// `(condition)`; regions then, else; results by `yield`.
    If,
    /// Runs its region again on `continue`, ends on `break`. Arguments start the region's parameters.
    Loop(Label),
    /// `(lo, hi, step, initial...)`; region parameters are the index and the carried values, which
    /// `continue` hands on; `break` leaves with values, running out leaves with the carried ones.
    For(Label, ForKind),
    /// `break` leaves it with values, and so does `yield` at its end.
    Block(Label),
    /// Iterations in parallel; only at the top level of a kernel. Region parameters: one index per axis.
    ForEach(Label, Domain, LoopHints),

    Call(Func),
    /// 64 random bits, `u64`.
    Random,
    /// The task's key for random bits, `u64`; see `docs/ir.md`. Only after lowering.
    RandomKey,
    /// The row-major number of the iteration a task's function runs, `i64`. Only in tasks.
    Iteration,
    /// Among threads of a block.
    Thread(ThreadOp),
    /// Arguments fill the holes of the message.
    Print(Message),
    /// `(condition, holes...)`; a false condition fails the launch and ends the iteration.
    Assert(Message),
    /// `(index)`: reports an index outside `0..len` of a vector or local array.
    CheckIndex(u32),
    /// Notes a problem at run time; the arguments say more. Only after lowering.
    Report(Site),
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ForKind {
    Serial,
    /// No iteration touches what another one writes, other than by atomics or racing stores:
    /// the loop came from a `ForEach`.
    Parallel,
    /// In order, and seldom run: a piece that `bounds` split off, not worth the backend's time.
    Boundary,
}

/// What an operation does besides giving values; regions are looked at on their own.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: may be removed when unused, merged, moved.
    Pure,
    /// Depends on memory: may be removed when unused.
    Reads,
    /// Must stay, in order.
    Writes,
    /// Owns regions or calls: look inside.
    Control,
}

impl Op {
    pub fn effect(&self) -> Effect {
        match self {
            Op::Const(_)
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Compare(_)
            | Op::Select
            | Op::Fma
            | Op::Convert(_)
            | Op::Bitcast(_)
            | Op::Splat(_)
            | Op::Compose(_)
            | Op::Extract(_)
            | Op::Insert(_)
            | Op::ExtractDyn
            | Op::InsertDyn
            | Op::Shuffle(_)
            | Op::MatMul
            | Op::Transpose
            | Op::Dot
            | Op::Cross
            | Op::Outer
            | Op::Determinant
            | Op::Inverse
            | Op::Reduce(_)
            | Op::ArrayExtent(..)
            | Op::ArrayStride(..)
            | Op::AssumeRange(..)
            | Op::RandomKey
            | Op::Iteration => Effect::Pure,
            Op::Thread(op) => {
                if op.is_pure() {
                    Effect::Pure
                } else {
                    Effect::Writes
                }
            }
            // A checked field load reports nothing: reading outside is defined to give zero.
            Op::Load(_)
            | Op::MemLoad(..)
            | Op::LoadInterleaved(_)
            | Op::Cell(CellOp::IsActive | CellOp::Length, _)
            | Op::TreeAccess(
                TreeAccessOp::Find
                | TreeAccessOp::Test
                | TreeAccessOp::Length
                | TreeAccessOp::Entry,
                ..,
            ) => Effect::Reads,
            Op::Store(_)
            | Op::Atomic(..)
            | Op::CompareExchange(_)
            | Op::Cell(CellOp::Activate | CellOp::Deactivate | CellOp::Append, _)
            | Op::TreeAccess(
                TreeAccessOp::Ensure
                | TreeAccessOp::Touch
                | TreeAccessOp::Drop
                | TreeAccessOp::Push,
                ..,
            )
            | Op::MemStore(_)
            | Op::StoreInterleaved(_)
            | Op::MemAtomic(..)
            | Op::MemCompareExchange(_)
            | Op::AddInterleaved(_)
            | Op::Random
            | Op::Print(_)
            | Op::Assert(_)
            | Op::CheckIndex(_)
            | Op::Cache(_)
            | Op::Report(_) => Effect::Writes,
            Op::If | Op::Loop(_) | Op::For(..) | Op::Block(_) | Op::ForEach(..) | Op::Call(_) => {
                Effect::Control
            }
        }
    }

    /// The label an operation defines for the regions it owns.
    pub fn label(&self) -> Option<Label> {
        match self {
            Op::Loop(l) | Op::For(l, _) | Op::Block(l) | Op::ForEach(l, _, _) => Some(*l),
            _ => None,
        }
    }

    pub fn set_label(&mut self, label: Label) {
        match self {
            Op::Loop(l) | Op::For(l, _) | Op::Block(l) | Op::ForEach(l, _, _) => *l = label,
            _ => {}
        }
    }

    /// How `Load`, `Store`, `Atomic` and `CompareExchange` touch their place.
    pub fn access(&self) -> Option<&Access> {
        match self {
            Op::Load(a) | Op::Store(a) | Op::Atomic(_, a) | Op::CompareExchange(a) => Some(a),
            _ => None,
        }
    }

    pub fn access_mut(&mut self) -> Option<&mut Access> {
        match self {
            Op::Load(a) | Op::Store(a) | Op::Atomic(_, a) | Op::CompareExchange(a) => Some(a),
            _ => None,
        }
    }
}

macro_rules! names {
    ($ty:ident { $($variant:ident = $name:literal),* $(,)? }) => {
        impl $ty {
            pub const ALL: &[$ty] = &[$($ty::$variant),*];
            /// The spelling in the text format.
            pub const fn name(self) -> &'static str {
                match self { $($ty::$variant => $name),* }
            }
            pub fn from_name(name: &str) -> Option<$ty> {
                match name { $($name => Some($ty::$variant),)* _ => None }
            }
        }
    };
}

names!(UnOp {
    Neg = "neg", Not = "not", Abs = "abs", Sign = "sign", Floor = "floor", Ceil = "ceil",
    Round = "round", RoundEven = "round_even", Trunc = "trunc", Sqrt = "sqrt", Rsqrt = "rsqrt",
    Sin = "sin", Cos = "cos", Tan = "tan", Asin = "asin", Acos = "acos", Atan = "atan",
    Sinh = "sinh", Cosh = "cosh", Tanh = "tanh", Exp = "exp", Exp2 = "exp2", Log = "log",
    Log2 = "log2", Log10 = "log10", PopCount = "popcount", LeadingZeros = "clz",
    TrailingZeros = "ctz", Freeze = "freeze",
});
names!(BinOp {
    Add = "add", Sub = "sub", Mul = "mul", Div = "div", Rem = "rem", And = "and", Or = "or",
    Xor = "xor", Shl = "shl", Shr = "shr", Min = "min", Max = "max", Pow = "pow", Atan2 = "atan2",
});
names!(CmpOp { Eq = "eq", Ne = "ne", Lt = "lt", Le = "le", Gt = "gt", Ge = "ge" });
names!(ReduceOp { Add = "add", Mul = "mul", Min = "min", Max = "max", And = "and", Or = "or" });
names!(AtomicOp {
    Add = "add", Mul = "mul", Min = "min", Max = "max", And = "and", Or = "or", Xor = "xor",
    Exchange = "exchange",
});
names!(CellOp {
    IsActive = "is_active", Activate = "activate", Deactivate = "deactivate", Append = "append",
    Length = "length",
});
names!(TreeAccessOp {
    Find = "find", Ensure = "ensure", Test = "test", Touch = "touch", Drop = "drop", Push = "push",
    Length = "count", Entry = "entry",
});
impl ThreadOp {
    pub const ALL: &[ThreadOp] = &[
        ThreadOp::Index,
        ThreadOp::BlockSize,
        ThreadOp::Block,
        ThreadOp::Blocks,
        ThreadOp::Barrier,
        ThreadOp::BarrierAll,
        ThreadOp::BarrierAny,
        ThreadOp::BarrierCount,
        ThreadOp::Lane,
        ThreadOp::ActiveMask,
        ThreadOp::Ballot,
        ThreadOp::MatchAny,
        ThreadOp::Shuffle(Shuffle::From),
        ThreadOp::Shuffle(Shuffle::Up),
        ThreadOp::Shuffle(Shuffle::Down),
        ThreadOp::Shuffle(Shuffle::Xor),
        ThreadOp::WarpBarrier,
        ThreadOp::BlockFence,
        ThreadOp::GridFence,
    ];

    /// The spelling in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            ThreadOp::Index => "thread_index",
            ThreadOp::BlockSize => "block_size",
            ThreadOp::Block => "block_index",
            ThreadOp::Blocks => "block_count",
            ThreadOp::Barrier => "barrier",
            ThreadOp::BarrierAll => "barrier_all",
            ThreadOp::BarrierAny => "barrier_any",
            ThreadOp::BarrierCount => "barrier_count",
            ThreadOp::Lane => "lane_index",
            ThreadOp::ActiveMask => "active_mask",
            ThreadOp::Ballot => "ballot",
            ThreadOp::MatchAny => "match_any",
            ThreadOp::Shuffle(Shuffle::From) => "shuffle_from",
            ThreadOp::Shuffle(Shuffle::Up) => "shuffle_up",
            ThreadOp::Shuffle(Shuffle::Down) => "shuffle_down",
            ThreadOp::Shuffle(Shuffle::Xor) => "shuffle_xor",
            ThreadOp::WarpBarrier => "warp_barrier",
            ThreadOp::BlockFence => "block_fence",
            ThreadOp::GridFence => "grid_fence",
        }
    }

    pub fn from_name(name: &str) -> Option<ThreadOp> {
        ThreadOp::ALL.iter().copied().find(|op| op.name() == name)
    }
}
names!(Activation { Never = "never", IfAbsent = "if_absent", KnownActive = "known_active" });
