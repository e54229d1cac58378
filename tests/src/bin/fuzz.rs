//! `cargo xtask fuzz --seconds N --seed S`: random programs until the time is over or one goes wrong.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use wuji_tests::fuzz;

struct Arguments {
    seconds: u64,
    seed: u64,
    /// Stop after so many programs.
    programs: u64,
    /// In so many of a hundred cases programs run as machine code too.
    native: usize,
    /// Go on after a failure.
    keep_going: bool,
    /// Show the program of the seed and what comes of it.
    show: bool,
    folder: PathBuf,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments {
        seconds: 60,
        seed: 1,
        programs: u64::MAX,
        native: 30,
        keep_going: false,
        show: false,
        folder: PathBuf::from("target/fuzz"),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, String> {
            let value = words.next().ok_or(format!("{word} needs a number"))?;
            value.parse().map_err(|_| format!("`{value}` is no number"))
        };
        match word.as_str() {
            "--seconds" => found.seconds = number()?,
            "--seed" => found.seed = number()?,
            "--programs" => found.programs = number()?,
            "--native" => found.native = number()? as usize,
            "--keep-going" => found.keep_going = true,
            "--show" => found.show = true,
            "--folder" => found.folder = words.next().ok_or("--folder needs a path")?.into(),
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    Ok(found)
}

fn report(arguments: &Arguments, seed: u64, found: fuzz::Found) {
    println!("seed {seed}: {}: {}", found.check, found.why);
    match fuzz::write(&arguments.folder, seed, &found) {
        Ok(path) => println!("  written to {}", path.display()),
        Err(why) => println!("  cannot be written: {why}"),
    }
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.show {
        print!("{}", fuzz::describe(arguments.seed));
        return ExitCode::SUCCESS;
    }
    let start = Instant::now();
    let end = start + Duration::from_secs(arguments.seconds);
    let mut shown = start;
    let mut tally = fuzz::Tally::default();
    let mut seed = arguments.seed;
    let mut seen = HashSet::new();
    fuzz::quiet();
    while Instant::now() < end && tally.programs < arguments.programs {
        if let Some((program, failure)) = fuzz::try_seed(seed, arguments.native, &mut tally) {
            let kind = failure.kind.clone();
            // Once is enough for what looks the same.
            if kind == fuzz::Kind::Different || seen.insert(format!("{kind:?}")) {
                report(&arguments, seed, fuzz::shrink(program, failure));
            } else {
                println!("seed {seed}: {kind:?} again");
            }
            if !arguments.keep_going {
                break;
            }
        }
        seed = seed.wrapping_add(1);
        if shown.elapsed() > Duration::from_secs(10) {
            shown = Instant::now();
            println!("{:4} s: {tally}", start.elapsed().as_secs());
        }
    }
    println!("{tally}, in {:.1} s", start.elapsed().as_secs_f64());
    match tally.mismatches {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
