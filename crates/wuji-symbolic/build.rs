//! Computes a fingerprint of the sources, so that a cached analysis of another build is never used.

use std::path::PathBuf;

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let sources = here.join("src");
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rerun-if-changed=build.rs");
    let (mut folders, mut files) = (vec![sources], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let (inner, found): (Vec<_>, Vec<_>) = entries.map(|e| e.path()).partition(|p| p.is_dir());
        folders.extend(inner);
        files.extend(found);
    }
    files.sort();
    let contents = files
        .iter()
        .flat_map(|f| std::fs::read(f).unwrap_or_default());
    let hash = contents.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    println!("cargo:rustc-env=WUJI_SYMBOLIC_BUILD={hash:016x}");
}
