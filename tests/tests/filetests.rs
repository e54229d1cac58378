//! Runs `tests/filetests`: `cargo test -p wuji-tests --test filetests [-- PART_OF_A_PATH ...]`.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use wuji_tests::filetest;

fn main() -> ExitCode {
    let mut filters = Vec::new();
    let mut list = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => list = true,
            // Flags of the standard harness that have a value.
            "--test-threads" | "--skip" | "--format" | "--color" | "--logfile" | "-Z" => {
                arguments.next();
            }
            flag if flag.starts_with('-') => {}
            _ => filters.push(argument),
        }
    }
    let mut files = match filetest::find(Path::new("filetests")) {
        Ok(files) => files,
        Err(error) => {
            eprintln!("cannot read the folder filetests: {error}");
            return ExitCode::FAILURE;
        }
    };
    files.retain(|f| {
        let name = f.display().to_string();
        filters.is_empty() || filters.iter().any(|part| name.contains(part.as_str()))
    });
    if list {
        files.iter().for_each(|f| println!("{}: test", f.display()));
        return ExitCode::SUCCESS;
    }
    let failures = check_all(&files);
    for (file, why) in &failures {
        println!("FAILED {}\n{why}\n", file.display());
    }
    println!("{} filetests, {} failed", files.len(), failures.len());
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The failing files with their errors, in order.
fn check_all(files: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let bless = std::env::var_os("WUJI_BLESS").is_some_and(|v| v == "1");
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = catch_unwind(|| filetest::check(file, bless))
                        .unwrap_or_else(|_| Err("panicked; see above".to_owned()));
                    if let (Err(why), Ok(mut failures)) = (outcome, failures.lock()) {
                        failures.push((file.clone(), why));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap_or_default();
    failures.sort();
    failures
}
