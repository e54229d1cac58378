//! Where LLVM is not installed.
#![cfg(feature = "dynamic")]

use super::{shown, wuji};
use expect_test::expect;

const NOWHERE: &str = "/nowhere/libLLVM.so";

fn without_llvm(arguments: &[&str]) -> String {
    let mut command = wuji(arguments);
    shown(&command.env("WUJI_LLVM", NOWHERE).output().unwrap())
}

/// Nothing that the system's loader could miss; it would speak before we can.
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
fn kernels_are_not_compiled_and_it_is_said_why() {
    let told = without_llvm(&["run", "tests/filetests/bounds/split.wir"]);
    expect![[r#"
        error[W0504]: LLVM 22.1 was not found
          = note: /nowhere/libLLVM.so: cannot open shared object file: No such file or directory
          = help: install `libLLVM.so.22.1` (Debian and Ubuntu: `libllvm22`), set WUJI_LLVM to its path, or build with LLVM inside (`--no-default-features --features static`); interpreted worlds do without
        [1]
    "#]].assert_eq(&told);
    let page = wuji_ir::codes::find("W0504").unwrap().page;
    assert!(page.contains(told.trim_end_matches("[1]\n").trim_end()));
}

#[test]
fn kernels_are_still_interpreted() {
    let told = without_llvm(&[
        "run",
        "tests/filetests/bounds/split.wir",
        "--backend",
        "interpreter",
    ]);
    assert!(!told.contains("W0504"), "{told}");
}

#[test]
fn the_doctor_says_what_there_is() {
    let told = without_llvm(&["doctor"]);
    assert!(told.contains("\nllvm      not found\nthreads "), "{told}");
    assert!(
        told.contains("error[W0504]") && told.ends_with("[1]\n"),
        "{told}"
    );
    let told = without_llvm(&["doctor", "--json"]);
    assert!(told.contains("\"llvm\":null"), "{told}");
}

/// A library that is none of LLVM.
#[test]
fn another_library() {
    let mut command = wuji(&["doctor"]);
    let told = shown(&command.env("WUJI_LLVM", "libc.so.6").output().unwrap());
    let error = told.split_once("error[").map(|t| t.1);
    expect![[r#"
        W0504]: this LLVM is not LLVM 22.1
          = note: it has no function `LLVMABIAlignmentOfType`
          = help: set WUJI_LLVM to the path of `libLLVM.so.22.1`
        [1]
    "#]]
    .assert_eq(error.unwrap_or(&told));
}
