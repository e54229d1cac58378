//! Traces, programs and their errors, against direct evaluation.

mod applications;
mod backends;
mod cache;
mod definite;
mod derivatives;
mod errors;
mod files;
mod libraries;
mod operations;
mod programs;
mod random;
mod rules;
mod traces;

use wuji::World;

/// Small random numbers, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 11) as usize % n.max(1)
    }

    /// Between 0.5 and 2.
    pub(crate) fn number(&mut self) -> f64 {
        0.5 + 1.5 * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn numbers(&mut self, n: usize) -> Vec<f64> {
        (0..n).map(|_| self.number()).collect()
    }
}

/// A world with compiled code: on the CPU, or on the first GPU if `WUJI_TEST_BACKEND` is `cuda`.
pub(crate) fn world() -> World {
    let builder = World::builder().threads(2).cache(wuji::CacheChoice::Off);
    let on_gpu = std::env::var_os("WUJI_TEST_BACKEND").is_some_and(|v| v == "cuda");
    let builder = if on_gpu { builder.cuda(0) } else { builder };
    builder.build().expect("a world")
}

pub(crate) fn interpreter() -> World {
    World::interpreter().expect("a world")
}

/// Whether numbers agree up to rounding.
#[track_caller]
pub(crate) fn assert_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (n, (a, b)) in found.iter().zip(expected).enumerate() {
        let same = a == b || (a - b).abs() <= 1e-9 * b.abs().max(1.0) || a.is_nan() && b.is_nan();
        assert!(same, "number {n}: {a} instead of {b}");
    }
}
