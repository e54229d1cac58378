//! Random programs, run by everything that runs programs, which must agree.
//!
//! The interpreter on the program as it is says what is right. Against it go: itself in random orders,
//! the program after any number of passes, with passes left out and with little fuel, and
//! machine code on one thread and several. A failure is made
//! smaller and becomes a filetest.

mod check;
mod dice;
mod generate;
mod native;
mod observe;
mod program;
mod shrink;
mod tidy;
mod write;

pub use check::{Check, Failure, Kind, quiet};
pub use program::{Inputs, Program, View};
pub use shrink::shrink;
pub use write::write;

use check::Verdict;
use dice::Dice;
use std::fmt;

/// How a run of many programs went.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    pub programs: u64,
    /// Programs that take too long to be of use.
    pub skipped: u64,
    pub mismatches: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} programs tried ({} too long), {} mismatches",
            self.programs, self.skipped, self.mismatches
        )
    }
}

/// A program that something gets wrong.
#[derive(Clone, Debug)]
pub struct Found {
    pub check: Check,
    pub why: String,
    pub program: Program,
}

/// Makes the program of a seed and runs it in many ways: as machine code in `native` of a hundred cases.
pub fn try_seed(seed: u64, native: usize, tally: &mut Tally) -> Option<(Program, Failure)> {
    tally.programs += 1;
    let program = generate::program(seed);
    let mut dice = Dice::new(!seed);
    match check::check_all(&program, &mut dice, native) {
        Verdict::Agreed => None,
        Verdict::Skipped => {
            tally.skipped += 1;
            None
        }
        Verdict::Failed(failure) => {
            tally.mismatches += 1;
            Some((program, *failure))
        }
    }
}

/// The program of a seed.
pub fn program(seed: u64) -> Program {
    generate::program(seed)
}

/// The program of a seed, and how it fares, for people.
pub fn describe(seed: u64) -> String {
    let program = generate::program(seed);
    let verdict = check::check_all(&program, &mut Dice::new(!seed), 100);
    format!("{}\n{:?}\n{verdict:?}\n", program.module, program.inputs)
}
