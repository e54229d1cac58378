//! A short run of `cargo xtask fuzz`.
//!
//! `WUJI_FUZZ_SECONDS=N` makes it a longer one. `cargo xtask test` sets it, because this program is compiled already and the program of
//! `cargo xtask fuzz` is not.

use std::time::{Duration, Instant};
use wuji_tests::fuzz;

/// Programs of a short run.
const PROGRAMS: u64 = 150;

#[test]
fn random_programs_agree() {
    let seconds = std::env::var("WUJI_FUZZ_SECONDS");
    let seconds = seconds.ok().and_then(|n| n.parse::<u64>().ok());
    let end = seconds.map(|n| Instant::now() + Duration::from_secs(n));
    let mut tally = fuzz::Tally::default();
    for seed in 1.. {
        let is_over = match end {
            Some(end) => Instant::now() >= end,
            None => seed > PROGRAMS,
        };
        if is_over {
            break;
        }
        if let Some((program, failure)) = fuzz::try_seed(seed, 20, &mut tally) {
            let found = fuzz::shrink(program, failure);
            panic!(
                "seed {seed}: {}: {}\n{}",
                found.check, found.why, found.program.module
            );
        }
    }
    println!("{tally}");
    assert!(tally.skipped <= tally.programs / 10, "{tally}");
}
