//! `unsafe` is in the listed crates and files only.
//!
//! `unsafe_code = "deny"` in the workspace's lints makes each of them say `#![allow(unsafe_code)]`; clippy's
//! `undocumented_unsafe_blocks` demands a `SAFETY` comment for each block. This rule keeps the list short.

use super::Violation;
use super::sources::{Sources, line_of, words};

/// Where `unsafe` may be, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("benches/", "references with vector intrinsics, and C++"),
    (
        "crates/wuji-llvm/",
        "LLVM's C API, and calls of compiled code",
    ),
    (
        "crates/wuji-py/",
        "memory of Python objects: buffer protocol, DLPack",
    ),
    (
        "crates/wuji-runtime/",
        "memory of trees, threads, signals, the CUDA driver",
    ),
    (
        "crates/wuji-symbolic/src/faer/field.rs",
        "a trait of faer has unsafe methods, which do nothing here",
    ),
    (
        "crates/wuji-symbolic/src/nalgebra.rs",
        "a trait of nalgebra has unsafe methods, which do nothing unsafe here",
    ),
    (
        "crates/wuji-tools/src/gpu_",
        "the CUDA driver, for checks and measurements",
    ),
    (
        "crates/wuji/src/plain.rs",
        "vectors and matrices as slices of scalars",
    ),
    (
        "crates/wuji/src/world/builder.rs",
        "`WorldBuilder::unchecked` is an unsafe function",
    ),
    (
        "tests/tests/suite/world.rs",
        "the test of `WorldBuilder::unchecked`",
    ),
];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.0.iter().filter(|s| s.is("rs")) {
        let allowed = ALLOWED
            .iter()
            .any(|(path, _)| source.path.starts_with(path));
        if allowed {
            continue;
        }
        let code = source.code();
        for at in words(&code, "unsafe") {
            found.push(Violation::new(
                &source.path,
                line_of(&code, at),
                "`unsafe` is not allowed here; see `rules/unsafe_code.rs` for where it is",
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_outside_the_list_is_found() {
        let code = "// unsafe\nfn f() { unsafe { g() } }";
        let files = [
            ("crates/wuji-ir/src/a.rs", code),
            ("crates/wuji-llvm/src/a.rs", code),
        ];
        let found = check(&Sources::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].path.as_str(), found[0].line),
            ("crates/wuji-ir/src/a.rs", 2)
        );
    }
}
