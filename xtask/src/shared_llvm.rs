//! Builds a portable shared library of LLVM: only the functions and targets that Wuji uses, without dependencies that
//! some systems lack.
//!
//! The `libLLVM.so` of a distribution supports all targets and needs a dozen other libraries (190 MB in total). From the
//! static archives of the same LLVM, the linker makes one that needs only the C library (52 MB, 13 MB compressed).
//! Programs look for it in a directory `lib` next to the executable.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::{output, root, run};

/// The file name that programs look for.
pub(crate) const FILE: &str = "libLLVM.so.22.1";

/// Libraries that are linked statically, since systems may lack them or have older versions.
pub(crate) const INSIDE: [&str; 5] = ["stdc++", "z", "zstd", "xml2", "ffi"];

/// Builds the library in a directory, unless it is up to date; returns its path.
pub(crate) fn make(llvm: &Path, folder: &Path) -> Result<PathBuf, String> {
    let library = folder.join(FILE);
    let failed_to = |what: &str, e: std::io::Error| format!("cannot {what}: {e}");
    let names = names()?;
    let exports = format!(
        "LLVM_22.1 {{\n global:\n  {};\n local: *;\n}};\n",
        names.join(";\n  ")
    );
    let map = folder.join("exports.map");
    let made_of = fs::read_to_string(&map).unwrap_or_default();
    if library.exists() && made_of == exports {
        return Ok(library);
    }
    let archives = folder.join("archives");
    collect_archives(&archives).map_err(|e| failed_to("collect static libraries", e))?;
    let config = llvm.join("bin/llvm-config");
    let ask = |words: &[&str]| {
        let answer = output(&config, words);
        answer.ok_or_else(|| format!("`{} {}` fails", config.display(), words.join(" ")))
    };
    let libraries = ask(&["--link-static", "--libs", "all"])?;
    let folder_of_llvm = ask(&["--libdir"])?;
    // Renamed at the end, so that the list of exports always matches the library.
    let fresh_map = folder.join("exports.fresh");
    fs::write(&fresh_map, &exports).map_err(|e| failed_to("write the list of functions", e))?;
    let fresh = folder.join("libLLVM.fresh");
    let mut linker = Command::new("cc");
    linker.arg("-shared").arg("-o").arg(&fresh);
    linker
        .arg("-L")
        .arg(&archives)
        .arg("-L")
        .arg(folder_of_llvm);
    linker.args([
        "-Wl,-z,defs",
        "-Wl,--gc-sections",
        "-Wl,-s",
        "-Wl,-O1",
        "-static-libgcc",
    ]);
    linker.arg(format!("-Wl,-soname,{FILE}"));
    linker.arg(format!("-Wl,--version-script={}", fresh_map.display()));
    linker.args(names.iter().map(|name| format!("-Wl,-u,{name}")));
    linker.arg("-Wl,--start-group");
    linker.args(
        libraries
            .split_whitespace()
            .filter(|l| !l.contains("Polly")),
    );
    linker.arg("-Wl,--end-group");
    linker
        .arg("-Wl,--as-needed")
        .args(INSIDE.map(|name| format!("-l{name}")));
    run(linker.args(["-lrt", "-ldl", "-lm"]))?;
    fs::rename(&fresh, &library).map_err(|e| failed_to("rename the library", e))?;
    fs::rename(&fresh_map, &map).map_err(|e| failed_to("rename the list of functions", e))?;
    Ok(library)
}

/// The LLVM functions that Wuji calls, from the table of the dynamic loader.
fn names() -> Result<Vec<String>, String> {
    let path = root().join("crates/wuji-llvm/src/library/functions.rs");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let names = listed(&text);
    if names.is_empty() {
        Err(format!("{} lists no functions", path.display()))
    } else {
        Ok(names)
    }
}

fn listed(text: &str) -> Vec<String> {
    let list = text.rsplit("\nfunctions! {").next().unwrap_or_default();
    let list = list.split('}').next().unwrap_or_default();
    let mut names: Vec<String> = list
        .split_whitespace()
        .filter(|word| word.starts_with("LLVM"))
        .map(String::from)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Collects the static libraries in a separate directory, since linkers prefer shared libraries.
pub(crate) fn collect_archives(folder: &Path) -> std::io::Result<()> {
    // Recreated, since it may contain links to the files to copy.
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    for name in INSIDE {
        let file = format!("lib{name}.a");
        let found = output("cc", &[&format!("-print-file-name={file}")]);
        // The compiler prints the plain name if it does not find the library.
        if let Some(path) = found.filter(|path| Path::new(path).is_absolute()) {
            fs::copy(path, folder.join(&file))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_from_the_list() {
        let text = "macro_rules! functions {\n LLVMNot\n}\n\nfunctions! {\n    LLVMB LLVMA\n    LLVMB\n}\nLLVMNeither";
        assert_eq!(listed(text), ["LLVMA", "LLVMB"]);
        assert!(names().is_ok_and(|names| names.len() > 100));
    }
}
