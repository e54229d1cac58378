//! A short run of `cargo xtask fuzz`.

use wuji_tests::fuzz;

#[test]
fn random_programs_agree() {
    let mut tally = fuzz::Tally::default();
    for seed in 1..=150 {
        if let Some((program, failure)) = fuzz::try_seed(seed, 20, &mut tally) {
            let found = fuzz::shrink(program, failure);
            panic!(
                "seed {seed}: {}: {}\n{}",
                found.check, found.why, found.program.module
            );
        }
    }
    assert!(tally.skipped < 15, "{tally}");
}
