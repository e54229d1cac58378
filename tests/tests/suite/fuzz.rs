//! Short runs of `cargo xtask fuzz`.
//!
//! `WUJI_FUZZ_SECONDS=N` makes each of them take so long. `cargo xtask test --fuzz-seconds N` sets it: this test program is
//! compiled already, the program of `cargo xtask fuzz` is not.

use std::path::Path;
use std::time::Duration;
use wuji_tests::fuzz::{
    self, Campaign, Corpus, Limits, MutatedFiles, RandomGradients, RandomPrograms, Tally,
};

/// Runs a campaign for a fixed number of attempts, or for the time that the environment asks for.
fn run(campaign: &impl Campaign, attempts: u64) -> Tally {
    let seconds = std::env::var("WUJI_FUZZ_SECONDS");
    let seconds = seconds.ok().and_then(|n| n.parse::<u64>().ok());
    let limits = Limits {
        attempts: if seconds.is_some() {
            u64::MAX
        } else {
            attempts
        },
        time: Duration::from_secs(seconds.unwrap_or(600)),
        folder: Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz"),
        ..Limits::default()
    };
    fuzz::quiet();
    let tally = fuzz::run(campaign, &limits, |seed, finding| {
        println!("seed {seed}: {}\n{}", finding.why, finding.file);
    });
    println!("{tally}");
    assert_eq!(
        tally.failures, 0,
        "the output above has a file that reproduces it"
    );
    tally
}

#[test]
fn random_programs_agree() {
    let tally = run(&RandomPrograms { native: 20 }, 60);
    assert!(tally.skipped <= tally.attempts / 10, "{tally}");
}

#[test]
fn gradients_of_random_kernels_agree() {
    let tally = run(&RandomGradients { native: 2 }, 600);
    assert!(tally.skipped <= tally.attempts / 10, "{tally}");
}

#[test]
fn mutated_files_are_refused_or_agree() {
    let corpus = Corpus::load(Path::new("filetests")).unwrap();
    let tally = run(&MutatedFiles { corpus }, 10_000);
    assert!(
        tally.attempts - tally.skipped >= tally.attempts / 50,
        "{tally}"
    );
}
