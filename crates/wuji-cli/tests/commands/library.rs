//! Behaviour without LLVM.
#![cfg(feature = "dynamic")]

use super::{shown, wuji};
use expect_test::expect;

const NOWHERE: &str = "/nowhere/libLLVM.so";

fn without_llvm(arguments: &[&str]) -> String {
    let mut command = wuji(arguments);
    shown(&command.env("WUJI_LLVM", NOWHERE).output().unwrap())
}

/// The binary does not link to LLVM: the dynamic loader would fail before Wuji could report it.
#[test]
fn programs_start_without_llvm() {
    let mut command = wuji(&["--version"]);
    let libraries = shown(
        &command
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .output()
            .unwrap(),
    );
    assert!(libraries.contains("libc.so"), "{libraries}");
    assert!(!libraries.contains("LLVM"), "{libraries}");
}

#[test]
fn a_missing_llvm_is_reported() {
    let output = without_llvm(&["run", "tests/filetests/bounds/split.wir"]);
    expect![[r#"
        error[W0504]: LLVM 22.1 was not found
          = note: /nowhere/libLLVM.so: cannot open shared object file: No such file or directory
          = help: install `libLLVM.so.22.1` (Debian and Ubuntu: `libllvm22`), set WUJI_LLVM to its path, or build with LLVM inside (`--no-default-features --features static`); interpreted worlds do without
        [1]
    "#]].assert_eq(&output);
    let page = wuji_ir::codes::find("W0504").unwrap().page;
    assert!(page.contains(output.trim_end_matches("[1]\n").trim_end()));
}

#[test]
fn kernels_are_still_interpreted() {
    let output = without_llvm(&[
        "run",
        "tests/filetests/bounds/split.wir",
        "--backend",
        "interpreter",
    ]);
    assert!(!output.contains("W0504"), "{output}");
}

#[test]
fn doctor_reports_a_missing_llvm() {
    let output = without_llvm(&["doctor"]);
    assert!(
        output.contains("\nllvm      not found\nthreads "),
        "{output}"
    );
    assert!(
        output.contains("error[W0504]") && output.ends_with("[1]\n"),
        "{output}"
    );
    let output = without_llvm(&["doctor", "--json"]);
    assert!(output.contains("\"llvm\":null"), "{output}");
}

/// A library that is not LLVM.
#[test]
fn another_library() {
    let mut command = wuji(&["doctor"]);
    let output = shown(&command.env("WUJI_LLVM", "libc.so.6").output().unwrap());
    let error = output.split_once("error[").map(|t| t.1);
    expect![[r#"
        W0504]: this LLVM is not LLVM 22.1
          = note: it has no function `LLVMABIAlignmentOfType`
          = help: set WUJI_LLVM to the path of `libLLVM.so.22.1`
        [1]
    "#]]
    .assert_eq(error.unwrap_or(&output));
}
