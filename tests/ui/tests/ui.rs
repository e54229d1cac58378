//! Programs with mistakes: each has one error, at the user's own code.
//!
//! `WUJI_BLESS=1 cargo test -p wuji-ui` rewrites the expected messages.
//!
//! The programs are compiled against the library that this test is linked with, as cargo built it: harnesses that let cargo
//! compile them check all dependencies a second time, which takes three times as long as the programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;
use std::{env, fs};

/// The folder of the programs; the message of `NAME.rs` is in `NAME.stderr`.
const MISTAKES: &str = "tests/mistakes";

#[test]
fn mistakes_are_reported_where_they_are() {
    let library = library();
    let mut programs: Vec<PathBuf> = fs::read_dir(MISTAKES)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect();
    programs.sort();
    assert!(programs.len() > 100, "where are the others?");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = check(program, &library) {
                        let text = format!("{}: {why}", program.display());
                        wrong.lock().expect("no panic while locked").push(text);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic while locked");
    assert!(
        wrong.is_empty(),
        "{} of {} differ; WUJI_BLESS=1 accepts them:\n\n{}",
        wrong.len(),
        programs.len(),
        wrong.join("\n")
    );
}

/// Compiles a program and compares the messages.
fn check(program: &Path, library: &Path) -> Result<(), String> {
    let folder = library.parent().expect("a folder").display();
    let output = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata"])
        .args(["-o", "/dev/null", "-L", &format!("dependency={folder}")])
        .args(["--extern", &format!("wuji={}", library.display())])
        .arg(program)
        .output()
        .map_err(|e| format!("rustc does not start: {e}"))?;
    if output.status.success() {
        return Err("it compiles".to_owned());
    }
    let found = message(&String::from_utf8_lossy(&output.stderr));
    let file = program.with_extension("stderr");
    if env::var_os("WUJI_BLESS").is_some_and(|v| v == "1") {
        return fs::write(&file, found).map_err(|e| e.to_string());
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected\n{expected}\nfound\n{found}"))
    }
}

/// The library `wuji` that cargo linked into this program: the last one before it.
fn library() -> PathBuf {
    let modified = |path: &Path| -> SystemTime {
        let data = fs::metadata(path).expect("a file");
        data.modified().expect("a time")
    };
    let this = env::current_exe().expect("a program");
    let linked = modified(&this);
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libwuji-") && name.ends_with(".rlib")
    };
    fs::read_dir(this.parent().expect("a folder"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| is_library(path) && modified(path) <= linked)
        .max_by_key(|path| modified(path))
        .expect("the library that this program was linked with")
}

/// What rustc printed, without what depends on the machine or on other lines of the library.
fn message(printed: &str) -> String {
    let (mut text, mut elsewhere) = (String::new(), false);
    for line in printed.lines() {
        let is_end = [
            "error: aborting",
            "For more information",
            "Some errors have",
        ]
        .iter()
        .any(|start| line.starts_with(start));
        if is_end {
            break;
        }
        let place = line.split_once("--> ").or_else(|| line.split_once("::: "));
        if let Some((arrow, place)) = place {
            elsewhere = !place.starts_with(MISTAKES) || place.contains("..");
            if elsewhere {
                let (file, _) = place.split_once(':').unwrap_or((place, ""));
                let start = ["library/", "crates/"]
                    .iter()
                    .find_map(|part| file.find(part));
                let file = &file[start.unwrap_or(0)..];
                text += &format!("{arrow}--> {file}\n");
                continue;
            }
        }
        // The lines of other files change.
        let is_source = line.trim_start_matches([' ', '|']).is_empty()
            || line.starts_with("...")
            || line.split_once(" |").is_some_and(|(number, _)| {
                number.trim().parse::<u32>().is_ok() || number.trim().is_empty()
            });
        if !(elsewhere && is_source) {
            elsewhere &= is_source;
            text += line.trim_end();
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}
