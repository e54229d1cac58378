//! Random and mutated programs, run in every way that exists; all ways must agree.
//!
//! The [oracle](crate) is the interpreter on the module before any pass.
//! Compared with it are the interpreter in random orders, the module after any number of passes, with passes
//! left out and with little fuel, and machine code on one thread and several.
//! A failure is shrunk and becomes a filetest.

mod campaign;
mod check;
mod dice;
mod generate;
mod gradient;
mod inputs;
mod mutate;
mod native;
mod observe;
mod program;
mod shrink;
mod tidy;
mod window;
mod write;

pub use campaign::{Attempt, Campaign, Finding, Limits, Tally, run};
pub use check::{Check, Failure, Kind, quiet};
pub use gradient::{RandomGradients, describe as describe_gradient};
pub use mutate::{Corpus, Damage};
pub use program::{Inputs, Program, View};

use check::Verdict;
use dice::Dice;

/// Random programs.
#[derive(Clone, Copy, Debug)]
pub struct RandomPrograms {
    /// How many of a hundred programs run as machine code too, which takes most of the time.
    pub native: usize,
}

/// Random programs, launched several times as a window of a lazy world.
#[derive(Clone, Copy, Debug)]
pub struct RandomWindows;

impl Campaign for RandomWindows {
    type Failure = ProgramFailure;

    fn attempt(&self, seed: u64) -> Attempt<ProgramFailure> {
        let program = generate::waiting_program(seed);
        match check::check_windows(&program, &mut Dice::new(!seed)) {
            Verdict::Agreed => Attempt::Agreed,
            Verdict::Skipped => Attempt::Skipped,
            Verdict::Failed(failure) => Attempt::Failed(Box::new((program, *failure))),
        }
    }

    fn key(&self, failure: &ProgramFailure) -> Option<String> {
        RandomPrograms { native: 0 }.key(failure)
    }

    fn shrink(&self, seed: u64, failure: ProgramFailure) -> Finding {
        RandomPrograms { native: 0 }.shrink(seed, failure)
    }
}

/// A program that fails, and how.
pub type ProgramFailure = Box<(Program, Failure)>;

impl Campaign for RandomPrograms {
    type Failure = ProgramFailure;

    fn attempt(&self, seed: u64) -> Attempt<ProgramFailure> {
        let program = generate::program(seed);
        match check::check_all(&program, &mut Dice::new(!seed), self.native) {
            Verdict::Agreed => Attempt::Agreed,
            Verdict::Skipped => Attempt::Skipped,
            Verdict::Failed(failure) => Attempt::Failed(Box::new((program, *failure))),
        }
    }

    fn key(&self, failure: &ProgramFailure) -> Option<String> {
        let kind = &failure.1.kind;
        (*kind != Kind::Different).then(|| format!("{kind:?}"))
    }

    fn shrink(&self, seed: u64, failure: ProgramFailure) -> Finding {
        let (program, failure) = *failure;
        let found = shrink::shrink(program, failure);
        Finding {
            why: format!("{}: {}", found.check, found.why),
            file: write::text(seed, &found),
        }
    }
}

/// Mutated files of textual IR.
#[derive(Debug)]
pub struct MutatedFiles {
    pub corpus: Corpus,
}

impl Campaign for MutatedFiles {
    type Failure = Damage;

    fn attempt(&self, seed: u64) -> Attempt<Damage> {
        let text = self.corpus.mutated(&mut Dice::new(seed));
        match mutate::check_text(&text, seed) {
            Ok(mutate::Reached::Compared) => Attempt::Agreed,
            Ok(mutate::Reached::Compiled | mutate::Reached::Refused) => Attempt::Skipped,
            Err(damage) => Attempt::Failed(damage),
        }
    }

    fn key(&self, failure: &Damage) -> Option<String> {
        Some(match failure.kind {
            // Panics differ by their messages.
            Kind::Panic => failure
                .why
                .chars()
                .filter(|c| !c.is_ascii_digit())
                .collect(),
            Kind::Error(_) | Kind::Different => format!("{:?}", failure.kind),
        })
    }

    fn shrink(&self, seed: u64, failure: Damage) -> Finding {
        let found = mutate::shrink(failure, seed);
        Finding {
            why: found.why.clone(),
            file: format!(
                "; Seed {seed}: {}\n{}\n",
                found.why.replace('\n', "\n; "),
                found.text
            ),
        }
    }
}

/// A failing program.
#[derive(Clone, Debug)]
struct Found {
    check: Check,
    why: String,
    program: Program,
}

/// The program of a seed, and the result of all checks.
pub fn describe(seed: u64) -> String {
    let program = generate::program(seed);
    let verdict = check::check_all(&program, &mut Dice::new(!seed), 100);
    format!("{}\n{:?}\n{verdict:?}\n", program.module, program.inputs)
}
