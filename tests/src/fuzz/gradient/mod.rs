//! Random kernels whose gradients are computed in three ways: by reverse mode, by forward mode and by finite differences.
//!
//! With a weight for each number that a kernel leaves in its fields, the weighted sum is a function of what was in them
//! before. Reverse mode gives its gradient, forward mode its derivative along a direction. Both follow the same branches, so
//! they agree to rounding; differences tell whether both are wrong.

mod check;
mod generate;

use super::campaign::{Attempt, Campaign, Finding};
use check::{Failure, Verdict};

/// Random kernels, and their gradients.
#[derive(Clone, Copy, Debug)]
pub struct RandomGradients {
    /// How many of a hundred gradient kernels run as machine code too.
    pub native: usize,
}

/// The most statements of a kernel.
const LARGEST: usize = 40;

/// Kernels of fewer and fewer statements, to find a small one that fails.
const SIZES: [usize; 7] = [3, 5, 8, 12, 18, 26, LARGEST];

impl Campaign for RandomGradients {
    type Failure = Failure;

    fn attempt(&self, seed: u64) -> Attempt<Failure> {
        match attempt(seed, LARGEST, self.native) {
            Verdict::Agreed => Attempt::Agreed,
            Verdict::Skipped(_) => Attempt::Skipped,
            Verdict::Failed(failure) => Attempt::Failed(failure),
        }
    }

    fn key(&self, _: &Failure) -> Option<String> {
        None
    }

    fn shrink(&self, seed: u64, failure: Failure) -> Finding {
        let smaller = SIZES.iter().find_map(|size| {
            // Other seeds have other kernels of this size.
            (0..200).find_map(|k| match attempt(seed.wrapping_add(k), *size, 100) {
                Verdict::Failed(found) if found.kind == failure.kind => Some(found),
                Verdict::Failed(_) | Verdict::Agreed | Verdict::Skipped(_) => None,
            })
        });
        let found = smaller.unwrap_or(failure);
        Finding {
            file: format!("; Seed {seed}: {}\n{}\n", found.why, found.text),
            why: found.why,
        }
    }
}

fn attempt(seed: u64, size: usize, native: usize) -> Verdict {
    check::check(&generate::kernel(seed, size), seed, native)
}

/// The kernel of a seed, and the result of all checks.
pub fn describe(seed: u64) -> String {
    let text = generate::kernel(seed, LARGEST);
    let verdict = check::check(&text, seed, 100);
    format!("{text}\n{verdict:?}\n")
}
