//! `cargo xtask test`: all checks that a change must pass.

use crate::Outcome;
use crate::args::Args;
use crate::setup;
use crate::steps::Steps;
use crate::workspace::{cargo, output, program};
use std::path::Path;
use std::process::Command;

/// Tests that run kernels on the GPU when `WUJI_TEST_BACKEND` says `cuda`: a test program, and a part of the names of its tests.
const ON_GPU: [(&str, &str); 7] = [
    ("filetests", ""),
    ("suite", "math::"),
    ("api", "simt::"),
    ("api", "gradients::"),
    ("api", "reverse::"),
    ("api", "quantized::"),
    ("symbolic", ""),
];

pub(crate) fn test(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let quick = args.flag("--quick");
    let seconds = args.number("--fuzz-seconds")?;
    let backend = args.value("--backend")?;
    let lazy = args.flag("--lazy");
    args.finish("test")?;
    if lazy {
        return in_lazy_worlds();
    }
    match backend.as_deref() {
        None | Some("cpu") => {}
        Some("cuda") => return on_gpu(),
        Some(other) => return Err(format!("`--backend {other}`: expected `cpu` or `cuda`")),
    }
    let llvm = setup::setup()?;
    // Downloads do not need the processors, which compile meanwhile.
    let downloads = std::thread::spawn(crate::python::download);

    let mut steps = Steps::new();
    steps.check("rules", || crate::rules::rules(&[]));
    if !quick {
        if component("fmt") {
            steps.run("format", cargo(&llvm).args(["fmt", "--all", "--check"]));
        } else {
            steps.skip("format", "rustfmt is not installed");
        }
        if !component("clippy") {
            steps.skip("lints", "clippy is not installed");
        }
    }
    let cargo = |llvm: &Path| if quick { cargo(llvm) } else { linting(llvm) };
    let mut build = cargo(&llvm);
    let name = if quick { "build" } else { "build and lints" };
    steps.run(name, build.arg("build").args(crate::python::WITH_TESTS));
    // If it panicked, what is missing is downloaded below.
    let _ = downloads.join();
    let mut tests = cargo(&llvm);
    // `--all-targets` would also build test programs of targets that have no tests.
    tests.args(["test", "--workspace", "--tests", "--no-fail-fast"]);
    if setup::virtual_display() {
        tests.env("WUJI_REQUIRE_XVFB", "1");
    } else {
        steps.skip("window", "Xvfb is not installed");
    }
    match crate::python::ptxas() {
        Ok(path) => {
            tests.env("WUJI_PTXAS", path).env("WUJI_REQUIRE_PTXAS", "1");
        }
        // In continuous integration a missing assembler is a failure.
        Err(why) if std::env::var_os("CI").is_some() => steps.fail("ptx", &why),
        Err(_) => steps.skip("ptx", "ptxas is not installed and cannot be downloaded"),
    }
    steps.run("tests", &mut tests);
    if !quick {
        steps.run(
            "doc tests",
            cargo(&llvm).args(["test", "--workspace", "--doc", "--no-fail-fast"]),
        );
    }
    // The tests run a fixed number of random programs, so that they do not depend on the speed of the machine.
    if let Some(seconds) = seconds {
        // The program of `cargo xtask fuzz` would be compiled with other features of dependencies.
        let mut fuzzing = cargo(&llvm);
        fuzzing.args(["test", "--workspace", "--test", "suite", "fuzz::"]);
        fuzzing.args(["--", "--nocapture"]);
        fuzzing.env("WUJI_FUZZ_SECONDS", seconds.to_string());
        steps.run("fuzzing", &mut fuzzing);
    }
    // Not beside those in Rust: some of them measure time.
    match crate::python::tests(cargo(&llvm)) {
        Ok(mut tests) => steps.run("python", &mut tests),
        Err(why) => steps.fail("python", &why),
    }
    steps.finish()
}

/// A `cargo` command that lints the packages of the workspace where it compiles them, if clippy is installed.
///
/// `cargo clippy` would analyze everything a second time, and the packages that it depends on, too. The option is not an
/// environment variable, because tests call cargo for other packages.
fn linting(llvm: &Path) -> Command {
    let mut command = cargo(llvm);
    if component("clippy") {
        command.args(["--config", "build.rustc-workspace-wrapper='clippy-driver'"]);
        command.env(
            "CLIPPY_ARGS",
            ["-D", "warnings", ""].join("__CLIPPY_HACKERY__"),
        );
    }
    command
}

/// Runs the tests on the first GPU: the driver check, every test program that supports it, and the Python tests.
fn on_gpu() -> Outcome {
    let llvm = setup::setup()?;
    let mut steps = Steps::new();
    let mut check = program(&llvm, "wuji", "dev");
    steps.run("driver", check.args(["doctor", "--gpu-check"]));
    for (program, part) in ON_GPU {
        let mut tests = cargo(&llvm);
        tests.args(["test", "--no-fail-fast", "--test", program, part]);
        steps.run(program, tests.env("WUJI_TEST_BACKEND", "cuda"));
    }
    match crate::python::tests(cargo(&llvm)) {
        Ok(mut tests) => {
            // One process: tests of memory limits need the whole GPU.
            tests
                .env("TI_ARCH", "cuda")
                .env("PYTEST_XDIST_AUTO_NUM_WORKERS", "1");
            steps.run("python", &mut tests);
        }
        Err(why) => steps.fail("python", &why),
    }
    steps.finish()
}

/// Runs the tests of the public API and of the Python package with worlds that are lazy, unless a test says otherwise.
fn in_lazy_worlds() -> Outcome {
    let llvm = setup::setup()?;
    let mut steps = Steps::new();
    for (package, program) in [("wuji", "api"), ("wuji-tests", "suite")] {
        let mut tests = cargo(&llvm);
        tests.args(["test", "--no-fail-fast", "-p", package, "--test", program]);
        steps.run(program, tests.env("WUJI_LAZY", "1"));
    }
    match crate::python::tests(cargo(&llvm)) {
        Ok(mut tests) => steps.run("python", tests.env("WUJI_LAZY", "1")),
        Err(why) => steps.fail("python", &why),
    }
    steps.finish()
}

/// Whether `cargo NAME` exists.
fn component(name: &str) -> bool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    output(cargo, &[name, "--version"]).is_some()
}
