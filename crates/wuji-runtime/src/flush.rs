//! Subnormal numbers in fast math: the processor flushes them to zero while code of a kernel runs.

use wuji_compile::Math;

/// Whether the current thread flushes subnormal numbers, as arguments and as results.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Flush {
    Never,
    Always,
}

impl Flush {
    pub(crate) fn of(math: Math) -> Flush {
        match math {
            Math::Fast => Flush::Always,
            Math::Contract | Math::Strict => Flush::Never,
        }
    }

    /// Runs work of the host in the middle of a kernel, with subnormal numbers.
    pub(crate) fn suspended<R>(work: impl FnOnce() -> R) -> R {
        let before = state::get();
        state::set(before & !state::FLUSH);
        let result = work();
        state::set(before);
        result
    }

    /// Runs `work`, and leaves the thread as it was. A kernel cannot unwind.
    pub(crate) fn around<R>(self, work: impl FnOnce() -> R) -> R {
        match self {
            Flush::Never => work(),
            Flush::Always => {
                let before = state::get();
                state::set(before | state::FLUSH);
                let result = work();
                state::set(before);
                result
            }
        }
    }
}

/// The control register of the floating-point unit.
#[cfg(target_arch = "x86_64")]
mod state {
    use std::arch::asm;

    /// Flushes results (bit 15) and arguments (bit 6).
    pub(super) const FLUSH: u32 = 0x8040;

    pub(super) fn get() -> u32 {
        let mut bits = 0u32;
        // SAFETY: stores four bytes.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
        bits
    }

    pub(super) fn set(bits: u32) {
        // SAFETY: loads four bytes, which came from `get`, with bits set that every processor of this kind has.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack, preserves_flags)) };
    }
}

/// Elsewhere, subnormal numbers are kept.
#[cfg(not(target_arch = "x86_64"))]
mod state {
    pub(super) const FLUSH: u32 = 0;

    pub(super) fn get() -> u32 {
        0
    }

    pub(super) fn set(_: u32) {}
}
