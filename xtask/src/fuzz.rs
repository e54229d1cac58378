//! `cargo xtask fuzz`: random inputs for the compiler, the Python frontend and the public API.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::args::Args;
use crate::python;
use crate::setup;
use crate::workspace::{program, root, run, target};

/// A profile with optimizations and assertions: many programs a second, and no overflow goes unnoticed.
const PROFILE: &str = "fuzz";

/// What is random.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Campaign {
    /// Programs in IR.
    Programs,
    /// Mutated files of textual IR.
    Files,
    /// Kernels, and their derivatives.
    Gradients,
    /// Programs in the Python frontend.
    Python,
    /// Calls of the Python API, with injected faults.
    Hosts,
    /// Sequences of launches in lazy and eager worlds.
    Lazy,
}

impl Campaign {
    fn chosen(args: &mut Args) -> Result<Campaign, String> {
        let flags = [
            (args.flag("--wir"), Campaign::Files),
            (args.flag("--grad"), Campaign::Gradients),
            (args.flag("--python"), Campaign::Python),
            (args.flag("--hosts"), Campaign::Hosts),
            (args.flag("--lazy"), Campaign::Lazy),
        ];
        let mut chosen = flags.into_iter().filter(|f| f.0).map(|f| f.1);
        match (chosen.next(), chosen.next()) {
            (None, _) => Ok(Campaign::Programs),
            (Some(campaign), None) => Ok(campaign),
            (Some(_), Some(_)) => Err(
                "choose one of `--wir`, `--grad`, `--python`, `--hosts` and `--lazy`".to_owned(),
            ),
        }
    }

    /// Whether machine code runs on a GPU.
    fn on_gpu(self, backend: Option<&str>) -> Result<bool, String> {
        match (backend, self) {
            (None, _) => Ok(false),
            (Some("cuda"), Campaign::Programs | Campaign::Gradients) => Ok(true),
            (
                Some("cuda"),
                Campaign::Files | Campaign::Python | Campaign::Hosts | Campaign::Lazy,
            ) => Err("`--backend cuda` goes with random kernels and with `--grad`".to_owned()),
            (Some(other), _) => Err(format!("`--backend {other}`: the only choice is `cuda`")),
        }
    }

    /// The fuzzer, without options.
    fn command(self, llvm: &Path) -> Result<Command, String> {
        Ok(match self {
            Campaign::Programs => program(llvm, "fuzz", PROFILE),
            Campaign::Files => {
                let mut command = program(llvm, "fuzz", PROFILE);
                command.arg("--files").arg(root().join("tests/filetests"));
                command
            }
            Campaign::Gradients => {
                let mut command = program(llvm, "fuzz", PROFILE);
                command.arg("--gradients");
                command
            }
            Campaign::Python => python::fuzzer(llvm, "programs")?,
            Campaign::Hosts => python::fuzzer(llvm, "hosts")?,
            Campaign::Lazy => {
                let mut command = program(llvm, "fuzz", PROFILE);
                command.arg("--windows");
                command
            }
        })
    }
}

pub(crate) fn fuzz(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let campaign = Campaign::chosen(&mut args)?;
    let on_gpu = campaign.on_gpu(args.value("--backend")?.as_deref())?;
    let seconds = args.number("--seconds")?.unwrap_or(60);
    let seed = args.number("--seed")?.unwrap_or_else(clock_seed);
    let rest = args.rest();
    let llvm = setup::setup()?;
    println!("seed {seed}, {seconds} seconds");
    let mut command = campaign.command(&llvm)?;
    let limits = [("--seconds", seconds), ("--seed", seed)];
    for (name, value) in limits {
        command.arg(name).arg(value.to_string());
    }
    if on_gpu {
        // The interpreter is checked against itself elsewhere; here every program runs on the GPU.
        command.env("WUJI_TEST_BACKEND", "cuda");
        command.args(["--native", "100"]);
    }
    run(command.args(rest)).map_err(|why| match seeds_in_flight() {
        Some(seeds) => format!("{why}; the process died at seed {seeds}"),
        None => why,
    })
}

/// The seeds that workers left behind when their process died.
fn seeds_in_flight() -> Option<String> {
    let files = std::fs::read_dir(target().join("fuzz")).ok()?;
    let seeds: Vec<String> = files
        .flatten()
        .filter(|file| file.file_name().to_string_lossy().starts_with("running-"))
        .filter_map(|file| std::fs::read_to_string(file.path()).ok())
        .map(|seed| seed.trim().to_owned())
        .collect();
    (!seeds.is_empty()).then(|| seeds.join(" or "))
}

/// A six-digit seed from the clock.
fn clock_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |time| u64::from(time.subsec_micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_campaign_runs_at_a_time() {
        let chosen = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            Campaign::chosen(&mut Args::new(&words))
        };
        assert_eq!(chosen(&[]), Ok(Campaign::Programs));
        assert_eq!(chosen(&["--wir"]), Ok(Campaign::Files));
        assert!(chosen(&["--wir", "--python"]).is_err());
    }

    #[test]
    fn only_kernels_run_on_a_gpu() {
        assert_eq!(Campaign::Programs.on_gpu(None), Ok(false));
        assert_eq!(Campaign::Programs.on_gpu(Some("cuda")), Ok(true));
        assert_eq!(Campaign::Gradients.on_gpu(Some("cuda")), Ok(true));
        assert!(Campaign::Lazy.on_gpu(Some("cuda")).is_err());
        assert!(Campaign::Programs.on_gpu(Some("metal")).is_err());
    }
}
