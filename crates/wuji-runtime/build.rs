//! Computes a fingerprint of everything that determines the generated machine code, so that cached code of another
//! build of Wuji is never used.

use std::path::{Path, PathBuf};

/// The crates that affect generated code. They are siblings of this one in a checkout; released crates have a version.
const CRATES: [&str; 4] = ["wuji-ir", "wuji-compile", "wuji-llvm", "wuji-runtime"];

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for name in CRATES {
        let sources = here.join("..").join(name).join("src");
        // A missing path would make cargo run this script in every build.
        if sources.is_dir() {
            println!("cargo:rerun-if-changed={}", sources.display());
            collect(&sources, &mut files);
        }
    }
    println!("cargo:rerun-if-changed=build.rs");
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in std::fs::read(&file).unwrap_or_default() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=WUJI_BUILD={hash:016x}");
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)
        } else {
            files.push(path)
        }
    }
}
