//! Privatized copies of arrays: worker 0 updates the array itself, every other worker a copy of its own.
//!
//! The copies belong to the program, whose code knows the shape of the array. Between launches they are neutral: all their
//! numbers are identities of the operation.

use super::pool::Pool;
use crate::memory::{DeviceLock, Mapping, Usage};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wuji_compile::rewrite::scalar_identity;
use wuji_ir::Result;
use wuji_ir::entities::Array;
use wuji_ir::module::Module;
use wuji_ir::ops::AtomicOp;
use wuji_ir::types::Scalar;
use wuji_llvm::abi::ArrayView;

/// Bytes that are merged at once; a block that a worker did not update is only read.
const BLOCK_BYTES: usize = 4096;
/// Blocks that one thread processes alone: waking another one would take as long.
const FEW_BLOCKS: usize = 16;

/// A privatized array.
#[derive(Debug)]
pub(super) struct ArrayPlan {
    /// Its index among the arrays of the module.
    array: usize,
    scalar: Scalar,
    op: AtomicOp,
    /// The number of its scalars.
    count: usize,
    copies: Mutex<Vec<ArrayCopy>>,
}

/// A copy of an array that one worker updates.
#[derive(Debug)]
struct ArrayCopy {
    mapping: Mapping,
    _usage: Usage,
    /// All its numbers are identities.
    neutral: bool,
}

/// The memory of one worker's numbers.
#[derive(Copy, Clone)]
struct Numbers(*mut u8);

// SAFETY: threads that merge use different blocks of the same memory.
unsafe impl Sync for Numbers {}
// SAFETY: as above.
unsafe impl Send for Numbers {}

impl ArrayPlan {
    /// The plan for an array of known shape, whose elements are numbers of one type without gaps.
    pub(super) fn of(module: &Module, array: Array, op: AtomicOp) -> Option<ArrayPlan> {
        let data = &module.arrays[array];
        let scalars = module.structs.flatten(data.elem);
        let shape = data.shape.as_ref()?;
        let elements = shape.extents.iter().try_fold(1usize, |n, extent| {
            n.checked_mul(usize::try_from(*extent).ok()?)
        })?;
        Some(ArrayPlan {
            array: array.as_u32() as usize,
            scalar: *scalars.first()?,
            op,
            count: elements.checked_mul(scalars.len())?,
            copies: Mutex::default(),
        })
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.count as u64).saturating_mul(u64::from(self.scalar.bytes()))
    }

    /// The caller holds the device lock.
    fn copies(&self) -> MutexGuard<'_, Vec<ArrayCopy>> {
        let copies = self.copies.lock();
        copies.unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a worker update its copy, which is made neutral. `false` if there is no memory for one.
    pub(super) fn lend(
        &self,
        worker: usize,
        lock: &Arc<DeviceLock>,
        views: &mut [ArrayView],
    ) -> bool {
        let mut copies = self.copies();
        if copies.len() < worker {
            let Ok(mapping) = Mapping::new(self.bytes()) else {
                return false;
            };
            copies.push(ArrayCopy {
                mapping,
                _usage: Usage::new(lock, self.bytes()),
                neutral: false,
            });
        }
        let (Some(copy), Some(view)) = (copies.get_mut(worker - 1), views.get_mut(self.array))
        else {
            return false;
        };
        if !copy.neutral {
            self.fill(Numbers(copy.mapping.base()));
        }
        // Until it is merged.
        copy.neutral = false;
        view.base = copy.mapping.base();
        true
    }

    /// Applies the copies of some workers, in their order, and makes them neutral again. Those of the others were not used.
    pub(super) fn merge(
        &self,
        pool: &Pool,
        views: &[ArrayView],
        workers: usize,
        worked: &[usize],
    ) -> Result<()> {
        let mut copies = self.copies();
        let used: SmallVec<[Numbers; 8]> = worked
            .iter()
            .filter_map(|w| Some(Numbers(copies.get(w - 1)?.mapping.base())))
            .collect();
        if let (Some(view), false) = (views.get(self.array), used.is_empty()) {
            let all = Numbers(view.base);
            let per_block = BLOCK_BYTES / self.scalar.bytes() as usize;
            let blocks = self.count.div_ceil(per_block);
            let run = |begin: i64, end: i64| {
                for block in begin as usize..end as usize {
                    let first = block * per_block;
                    let count = per_block.min(self.count - first);
                    for copy in &used {
                        self.merge_block(all, *copy, first, count);
                    }
                }
            };
            if blocks <= FEW_BLOCKS {
                run(0, blocks as i64);
            } else {
                pool.run(blocks as i64, FEW_BLOCKS as i64, &run)?;
            }
        }
        for copy in copies.iter_mut().take(workers - 1) {
            copy.neutral = true;
        }
        Ok(())
    }

    fn fill(&self, copy: Numbers) {
        let bits = scalar_identity(self.op, self.scalar).bits();
        // SAFETY: the copy has room for all numbers, and no task uses it now.
        unsafe {
            match self.scalar.bytes() {
                1 => fill(copy, bits as u8, self.count),
                2 => fill(copy, bits as u16, self.count),
                4 => fill(copy, bits as u32, self.count),
                _ => fill(copy, bits, self.count),
            }
        }
    }

    /// Applies some numbers of a copy to the array.
    fn merge_block(&self, all: Numbers, copy: Numbers, first: usize, count: usize) {
        let block = Block {
            op: self.op,
            neutral: scalar_identity(self.op, self.scalar).bits(),
            all,
            copy,
            first,
            count,
        };
        // SAFETY: the launch has checked that the array has the shape that the code knows, the copy is as large, and no two
        // threads have the same block.
        unsafe {
            match self.scalar {
                Scalar::I8 => block.merge::<i8>(),
                Scalar::I16 => block.merge::<i16>(),
                Scalar::I32 => block.merge::<i32>(),
                Scalar::I64 => block.merge::<i64>(),
                Scalar::U8 => block.merge::<u8>(),
                Scalar::U16 => block.merge::<u16>(),
                Scalar::U32 => block.merge::<u32>(),
                Scalar::U64 => block.merge::<u64>(),
                Scalar::F32 => block.merge::<f32>(),
                Scalar::F64 => block.merge::<f64>(),
                // `privatize` leaves such arrays alone.
                Scalar::Bool | Scalar::F16 => {}
            }
        }
    }
}

/// # Safety
/// There is room for `count` numbers, which no other code accesses.
unsafe fn fill<T: Copy>(to: Numbers, value: T, count: usize) {
    let to = to.0.cast::<T>();
    for k in 0..count {
        // SAFETY: guaranteed by the caller.
        unsafe { to.add(k).write_unaligned(value) };
    }
}

/// Numbers to merge.
struct Block {
    op: AtomicOp,
    /// The bits of the identity.
    neutral: u64,
    all: Numbers,
    copy: Numbers,
    first: usize,
    count: usize,
}

impl Block {
    /// # Safety
    /// Both sides have `first + count` numbers of this type, and no other code accesses those of the block.
    unsafe fn merge<T: Number>(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.op {
                AtomicOp::Add => self.apply(T::add),
                AtomicOp::Mul => self.apply(T::mul),
                AtomicOp::Min => self.apply(T::min),
                AtomicOp::Max => self.apply(T::max),
                AtomicOp::And => self.apply(T::and),
                AtomicOp::Or => self.apply(T::or),
                AtomicOp::Xor => self.apply(T::xor),
                // It cannot be merged, and the verifier rejects it.
                AtomicOp::Exchange => {}
            }
        }
    }

    /// # Safety
    /// As for [`Block::merge`].
    unsafe fn apply<T: Number>(&self, op: impl Fn(T, T) -> T) {
        let neutral = T::of_bits(self.neutral);
        // SAFETY: guaranteed by the caller; loads and stores need no alignment.
        unsafe {
            let all = self.all.0.cast::<T>().add(self.first);
            let copy = self.copy.0.cast::<T>().add(self.first);
            let updated = (0..self.count).fold(false, |any, k| {
                any | !copy.add(k).read_unaligned().is_same(neutral)
            });
            if !updated {
                return;
            }
            for k in 0..self.count {
                let (old, value) = (all.add(k).read_unaligned(), copy.add(k).read_unaligned());
                all.add(k).write_unaligned(op(old, value));
                copy.add(k).write_unaligned(neutral);
            }
        }
    }
}

/// The operations of atomics.
trait Number: Copy {
    fn of_bits(bits: u64) -> Self;
    fn is_same(self, other: Self) -> bool;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            fn of_bits(bits: u64) -> Self {
                bits as $number
            }
            fn is_same(self, other: Self) -> bool {
                self == other
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            fn and(self, other: Self) -> Self {
                self & other
            }
            fn or(self, other: Self) -> Self {
                self | other
            }
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}

macro_rules! floats {
    ($($number:ty, $bits:ty);*) => {$(
        impl Number for $number {
            fn of_bits(bits: u64) -> Self {
                <$number>::from_bits(bits as $bits)
            }
            fn is_same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn min(self, other: Self) -> Self {
                if other.is_nan() || self < other { self } else { other }
            }
            fn max(self, other: Self) -> Self {
                if other.is_nan() || self > other { self } else { other }
            }
            // Floats have no bit operations; the verifier rejects them.
            fn and(self, _: Self) -> Self {
                self
            }
            fn or(self, _: Self) -> Self {
                self
            }
            fn xor(self, _: Self) -> Self {
                self
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);
floats!(f32, u32; f64, u64);
