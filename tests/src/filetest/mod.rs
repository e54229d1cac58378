//! Filetests: a `.wir` file is a module with comments that contain commands and expected outputs.
//!
//! ```text
//! ; test: verify                     the module is sound
//! ; test: roundtrip                  print and parse give it back
//! ; test: error                      the module is refused, with the text below `; output:`
//! ; test: error promote, offload     ... by these passes at the latest
//! ; test: pass promote, inline       these passes give the module below `; output:`
//! ; test: ptx sm_90                  all passes and LLVM give the code below `; output:` for such a GPU
//! ; test: run                        every `; run:` line holds, on everything that runs IR
//! ; test: run own_math               ... with mathematical functions that are written out
//! ; test: run any_math               ... and machine code gives the same bits in every math mode
//! ```
//!
//! Instead of the whole output, `; check:` lines show the few lines of it that matter; the README of the folder
//! `filetests` explains them.
//!
//! A file may have several `; test:` lines, of which one at most looks at the output. With `WUJI_BLESS=1`
//! in the environment the output found replaces the one in the file.

mod check;
mod commands;
mod file;
mod native;
mod run;

pub use file::TestFile;

use std::path::{Path, PathBuf};

/// Every `.wir` file below a folder, in order.
pub fn find(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "wir") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Runs all commands of one file. The error is what to show.
pub fn check(path: &Path, bless: bool) -> Result<(), String> {
    let file = TestFile::read(path)?;
    for (name, arguments) in &file.commands {
        let Some(command) = commands::COMMANDS.iter().find(|c| c.name == name) else {
            let names: Vec<&str> = commands::COMMANDS.iter().map(|c| c.name).collect();
            return Err(format!(
                "there is no command `{name}`; there are: {}",
                names.join(", ")
            ));
        };
        match (command.run)(&file, arguments).map_err(|e| format!("test: {name}: {e}"))? {
            None => {}
            Some(output) if !file.checks.is_empty() => {
                check::check(&file.checks, &output).map_err(|e| format!("test: {name}: {e}"))?;
            }
            Some(output) if output == file.output => {}
            Some(output) if bless => file.bless(&output)?,
            Some(output) => {
                return Err(format!(
                    "test: {name}: the output differs (- expected, + found; WUJI_BLESS=1 takes it)\n{}",
                    difference(&file.output, &output)
                ));
            }
        }
    }
    Ok(())
}

/// Both texts as one, with `-` before lines of the first only and `+` before lines of the second only.
fn difference(before: &str, after: &str) -> String {
    let diff = similar::TextDiff::from_lines(before, after);
    let changes = diff.iter_all_changes();
    changes.map(|c| format!("{}{c}", c.tag())).collect()
}
