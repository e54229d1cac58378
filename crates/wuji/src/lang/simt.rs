//! Cooperative thread blocks: shared memory, barriers, and warp-level communication.
//!
//! A parallel loop that uses any of this is cooperative. It runs in thread blocks of [`block_size`](super::block_size) threads,
//! default 256, with one iteration per thread. Only GPUs and the interpreter support it; a launch on a CPU is error W0350. On the
//! host, where a `#[func]` may run as well, a thread is alone in its block.
//!
//! ```
//! use wuji::prelude::*;
//! use wuji::simt::{block, shared};
//!
//! /// Every block leaves the sum of its elements.
//! #[kernel]
//! fn sums(x: &Field<f32, 1>, out: &Field<f32, 1>) {
//!     for [i] in block_size(128, x) {
//!         let mut tile = shared::<f32, 128>();
//!         let t = block::thread();
//!         tile[t] = x[i];
//!         block::sync();
//!         let mut width = 64;
//!         while width > 0 {
//!             if t < width {
//!                 tile[t] += tile[t + width];
//!             }
//!             block::sync();
//!             width /= 2;
//!         }
//!         if t == 0 {
//!             out[block::index()] = tile[0];
//!         }
//!     }
//! }
//!
//! # fn main() -> wuji::Result<()> {
//! let world = World::interpreter()?; // or World::cuda(0)?
//! let x = world.field::<f32, 1>("x", 300)?;
//! let out = world.field::<f32, 1>("out", 3)?;
//! x.fill(1.0)?;
//! sums(&x, &out)?;
//! assert_eq!(out.to_vec()?, [128.0, 128.0, 44.0]);
//! # Ok(())
//! # }
//! ```
//!
//! **Barriers need uniform control flow.** A barrier under a divergent condition would deadlock; it is a compile-time error (W0352).
//! So is a warp operation where the threads of a warp may have diverged. Barriers do not wait for threads that have exited, by
//! `continue` of the parallel loop or a failed assertion.

use crate::element::ScalarElement;

/// A shared-memory array of a thread block, zero at the start of the block.
///
/// It is bound by `let` in the body of a parallel loop. `+= -= *= &= |= ^=` on its elements are atomic. Other threads see stores
/// after the next [`block::sync`]. The shared arrays of a loop have 48 KiB in total.
#[must_use]
pub fn shared<T: Copy + Default, const N: usize>() -> [T; N] {
    [T::default(); N]
}

/// The threads of a block.
pub mod block {
    /// The number of the thread in its block.
    #[must_use]
    pub fn thread() -> i32 {
        0
    }

    /// Threads of a block. The last block may have fewer.
    #[must_use]
    pub fn size() -> i32 {
        1
    }

    /// The number of the block.
    #[must_use]
    pub fn index() -> i32 {
        0
    }

    /// How many blocks there are.
    #[must_use]
    pub fn count() -> i32 {
        1
    }

    /// Waits until all threads of the block are here; they then see what each of them has written.
    pub fn sync() {}

    /// As [`sync`]: whether a condition holds for all threads.
    pub fn sync_all(condition: bool) -> bool {
        condition
    }

    /// As [`sync`]: whether a condition holds for any thread.
    pub fn sync_any(condition: bool) -> bool {
        condition
    }

    /// As [`sync`]: for how many threads a condition holds.
    pub fn sync_count(condition: bool) -> i32 {
        i32::from(condition)
    }

    /// A memory fence for the block: other threads see earlier writes before later ones. It does not wait.
    pub fn fence() {}
}

/// All threads of a loop.
pub mod grid {
    /// A memory fence for the device: other threads see earlier writes before later ones. It does not wait.
    pub fn fence() {}
}

/// The 32 threads of a warp, its *lanes*. A lane that has ended, or never was, gives any value.
pub mod warp {
    use super::ScalarElement;
    use wuji_macros::func;

    /// Lanes of a warp.
    pub const SIZE: i32 = 32;

    /// The number of the thread in its warp.
    #[must_use]
    pub fn lane() -> i32 {
        0
    }

    /// A bit for each lane that is here at the same time, as it happens.
    #[must_use]
    pub fn active_mask() -> u32 {
        1
    }

    /// A bit for each lane for which a condition holds.
    #[must_use]
    pub fn ballot(condition: bool) -> u32 {
        u32::from(condition)
    }

    /// Whether a condition holds for all lanes.
    #[func]
    #[must_use]
    pub fn all(condition: bool) -> bool {
        ballot(condition) == ballot(true)
    }

    /// Whether a condition holds for any lane.
    #[func]
    #[must_use]
    pub fn any(condition: bool) -> bool {
        ballot(condition) != 0
    }

    /// A bit for each lane that has the same bits.
    #[must_use]
    pub fn match_any<T: ScalarElement>(_value: T) -> u32 {
        1
    }

    /// What the lane with this number, modulo 32, has.
    #[must_use]
    pub fn shuffle<T: ScalarElement>(value: T, _lane: i32) -> T {
        value
    }

    /// What the lane so many below has; the own value where there is none.
    #[must_use]
    pub fn shuffle_up<T: ScalarElement>(value: T, _by: i32) -> T {
        value
    }

    /// What the lane so many above has; the own value where there is none.
    #[must_use]
    pub fn shuffle_down<T: ScalarElement>(value: T, _by: i32) -> T {
        value
    }

    /// What the lane has whose number differs in these bits.
    #[must_use]
    pub fn shuffle_xor<T: ScalarElement>(value: T, _bits: i32) -> T {
        value
    }

    /// Waits until all threads of the warp are here.
    pub fn sync() {}
}
