//! Operations of the threads of a block.

use super::table::{Effect, Uniform};
use crate::types::{BOOL, I32, Type, U32};

/// Queries of a thread's position in its block, and cooperative operations. Only GPUs have such threads.
/// Elsewhere, and in tasks that are not cooperative, a thread is alone in its block.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ThreadOp {
    /// Number of the thread in its block, `i32`.
    Index,
    /// Threads of a block, `i32`.
    BlockSize,
    /// Number of the block, `i32`.
    Block,
    /// Number of blocks, `i32`.
    Blocks,
    /// Waits for all threads of the block that have not exited; their earlier writes are visible afterwards.
    Barrier,
    /// `(condition)`: a barrier, and whether the condition holds for all of these threads.
    BarrierAll,
    /// `(condition)`: a barrier, and whether the condition holds for any of them.
    BarrierAny,
    /// `(condition)`: a barrier, and the number of threads for which the condition holds, `i32`.
    BarrierCount,
    /// Number of the thread in its warp, `i32`.
    Lane,
    /// Lanes that are converged here, `u32`.
    ActiveMask,
    /// `(condition)`: the lanes for which it holds, of those that have not exited, `u32`.
    Ballot,
    /// `(scalar)`: the lanes that have the same bits, `u32`.
    MatchAny,
    /// `(scalar, i32)`: the value of another lane.
    Shuffle(Shuffle),
    /// `(scalar)`: the lanes of the segment that this lane is in, `u32`. A segment is a run of neighbouring lanes that have
    /// the same bits.
    Segment,
    /// `(u32, scalar)`: the sum over the lanes of a segment from this one on, in any order; for the first lane, the sum of
    /// the segment.
    SegmentSum,
    /// Like `Barrier`, for the threads of a warp.
    WarpBarrier,
    /// Orders memory for the threads of the block: writes before it are visible before writes after it.
    BlockFence,
    /// Like `BlockFence`, for all threads of the device.
    GridFence,
}

/// The source lane of a shuffle.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shuffle {
    /// The lane with this number, modulo 32.
    From,
    /// A lane this many below; the own value if there is none.
    Up,
    /// A lane this many above; the own value if there is none.
    Down,
    /// The lane whose number differs in these bits, modulo 32.
    Xor,
}

/// The threads that have to reach an operation convergently.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Party {
    /// A single thread.
    Thread,
    /// The threads of a warp.
    Warp,
    /// The threads of a block.
    Block,
}

/// The signature of a thread operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ThreadType {
    /// `()`
    Nothing,
    /// `() -> type`
    Query(Type),
    /// `(bool) -> type`
    Vote(Type),
    /// `(scalar) -> type`
    Match(Type),
    /// `(scalar, i32) -> scalar`
    Exchange,
    /// `(u32, scalar) -> scalar`
    Sum,
}

/// A row: the columns of one operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ThreadInfo {
    /// The spelling in the text format.
    pub name: &'static str,
    /// Its types.
    pub ty: ThreadType,
    /// The threads that take part.
    pub party: Party,
    /// `Pure` operations give the same result at any position.
    pub effect: Effect,
    /// The threads among which its result is uniform.
    pub uniform: Uniform,
}

const fn row(
    name: &'static str,
    ty: ThreadType,
    party: Party,
    effect: Effect,
    uniform: Uniform,
) -> ThreadInfo {
    ThreadInfo {
        name,
        ty,
        party,
        effect,
        uniform,
    }
}

impl ThreadOp {
    /// All of them, in the order of their declaration.
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
        ThreadOp::Segment,
        ThreadOp::SegmentSum,
        ThreadOp::WarpBarrier,
        ThreadOp::BlockFence,
        ThreadOp::GridFence,
    ];

    /// The properties of an operation.
    #[rustfmt::skip]
    pub const fn info(self) -> ThreadInfo {
        use Effect::{Pure, Writes};
        use ThreadType::*;
        match self {
            ThreadOp::Index => row("thread_index", Query(I32), Party::Thread, Pure, Uniform::PerThread),
            ThreadOp::BlockSize => row("block_size", Query(I32), Party::Thread, Pure, Uniform::PerBlock),
            ThreadOp::Block => row("block_index", Query(I32), Party::Thread, Pure, Uniform::PerBlock),
            ThreadOp::Blocks => row("block_count", Query(I32), Party::Thread, Pure, Uniform::PerBlock),
            ThreadOp::Barrier => row("barrier", Nothing, Party::Block, Writes, Uniform::PerBlock),
            ThreadOp::BarrierAll => row("barrier_all", Vote(BOOL), Party::Block, Writes, Uniform::PerBlock),
            ThreadOp::BarrierAny => row("barrier_any", Vote(BOOL), Party::Block, Writes, Uniform::PerBlock),
            ThreadOp::BarrierCount => row("barrier_count", Vote(I32), Party::Block, Writes, Uniform::PerBlock),
            ThreadOp::Lane => row("lane_index", Query(I32), Party::Thread, Pure, Uniform::PerThread),
            ThreadOp::ActiveMask => row("active_mask", Query(U32), Party::Thread, Writes, Uniform::PerThread),
            ThreadOp::Ballot => row("ballot", Vote(U32), Party::Warp, Writes, Uniform::PerWarp),
            ThreadOp::MatchAny => row("match_any", Match(U32), Party::Warp, Writes, Uniform::PerThread),
            ThreadOp::Shuffle(from) => {
                let name = match from {
                    Shuffle::From => "shuffle_from",
                    Shuffle::Up => "shuffle_up",
                    Shuffle::Down => "shuffle_down",
                    Shuffle::Xor => "shuffle_xor",
                };
                row(name, Exchange, Party::Warp, Writes, Uniform::PerThread)
            }
            ThreadOp::Segment => row("segment", Match(U32), Party::Warp, Writes, Uniform::PerThread),
            ThreadOp::SegmentSum => row("segment_sum", Sum, Party::Warp, Writes, Uniform::PerThread),
            ThreadOp::WarpBarrier => row("warp_barrier", Nothing, Party::Warp, Writes, Uniform::PerBlock),
            ThreadOp::BlockFence => row("block_fence", Nothing, Party::Thread, Writes, Uniform::PerBlock),
            ThreadOp::GridFence => row("grid_fence", Nothing, Party::Thread, Writes, Uniform::PerBlock),
        }
    }

    /// The spelling in the text format.
    pub const fn name(self) -> &'static str {
        self.info().name
    }

    /// The operation with a name of the text format.
    pub fn from_name(name: &str) -> Option<ThreadOp> {
        ThreadOp::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// The number of arguments.
    pub const fn arity(self) -> u8 {
        match self.info().ty {
            ThreadType::Nothing | ThreadType::Query(_) => 0,
            ThreadType::Vote(_) | ThreadType::Match(_) => 1,
            ThreadType::Exchange | ThreadType::Sum => 2,
        }
    }

    /// The threads that all have to reach it, except those that have exited.
    pub const fn party(self) -> Party {
        self.info().party
    }

    /// Whether the operation is convergent: it is not moved, removed, duplicated or made conditional.
    pub fn is_convergent(self) -> bool {
        self.party() != Party::Thread
    }

    /// Whether it gives the same result at any position.
    pub const fn is_pure(self) -> bool {
        matches!(self.info().effect, Effect::Pure)
    }
}
