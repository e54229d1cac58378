//! CUDA devices, tested with the mock driver `fake_cuda.c`, which the environment variable `FAKE_CUDA` configures.

use super::{shown, wuji};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The mock driver, compiled once.
fn driver() -> &'static PathBuf {
    static DRIVER: OnceLock<PathBuf> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("libfake_cuda.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/fake_cuda.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Werror", source, "-o"]);
        assert!(cc.arg(&library).status().unwrap().success());
        library
    })
}

fn doctor(arguments: &[&str], config: &str) -> String {
    let mut command = wuji(&[&["doctor"], arguments].concat());
    command
        .env("WUJI_CUDA_DRIVER", driver())
        .env("FAKE_CUDA", config);
    shown(&command.output().unwrap())
}

/// The message on the page of an error.
fn on_page(code: &str) -> &'static str {
    let page = wuji_ir::codes::find(code).unwrap().page;
    let block = page.split("```text\n").nth(1).unwrap();
    block.split("\n```").next().unwrap()
}

#[test]
fn all_checks_pass_on_a_working_device() {
    for config in ["", "lazy=1", "paging=0"] {
        let lines = doctor(&["--gpu-check"], config);
        let good = lines.lines().filter(|l| l.starts_with("ok ")).count();
        assert_eq!(good, 15, "{lines}");
    }
}

#[test]
fn devices_are_listed() {
    let output = doctor(&[], "");
    let line = "\n          0: Imaginary GPU, sm_70, 4 multiprocessors at 1.50 GHz, 0.2 GiB\n";
    assert!(output.contains(line), "{output}");
    let output = doctor(&["--json"], "");
    assert!(output.contains("\"kind\":\"gpu\""), "{output}");
    let output = doctor(&[], "devices=0");
    let line = "\ngpu       driver for CUDA 12.4; the driver cannot be initialized: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n";
    assert!(output.contains(line), "{output}");
}

#[test]
fn no_driver() {
    let mut command = wuji(&["doctor", "--gpu-check"]);
    command.env("WUJI_CUDA_DRIVER", "/nowhere/libcuda.so");
    let output = shown(&command.output().unwrap());
    assert_eq!(output, format!("{}\n[1]\n", on_page("W0520")));
    // A library that is not a driver, or a driver that is too old.
    let mut command = wuji(&["doctor", "--gpu-check"]);
    command.env("WUJI_CUDA_DRIVER", "libc.so.6");
    let output = shown(&command.output().unwrap());
    assert!(
        output.contains("error[W0520]: there is no CUDA driver"),
        "{output}"
    );
    assert!(output.contains("has no function `cuInit`"), "{output}");
}

#[test]
fn a_run_without_a_driver() {
    let mut command = wuji(&["run", super::SQUARES, "--backend", "cuda"]);
    command.env("WUJI_CUDA_DRIVER", "/nowhere/libcuda.so");
    let output = shown(&command.output().unwrap());
    assert_eq!(output, format!("{}\n[1]\n", on_page("W0520")));
}

#[test]
fn no_device() {
    for config in ["devices=0", "cuInit=999"] {
        let output = doctor(&["--gpu-check"], config);
        assert!(
            output.starts_with("error[W0520]: there is no CUDA device\n"),
            "{output}"
        );
    }
}

#[test]
fn failing_calls_are_reported() {
    let output = doctor(&["--gpu-check"], "cuStreamCreate=1");
    assert_eq!(output, format!("{}\n[1]\n", on_page("W0521")));
    // An unknown error code, and the error of a forked process.
    let output = doctor(&["--gpu-check"], "cuStreamCreate=12345");
    assert!(output.contains("= note: CUDA error 12345\n"), "{output}");
    let output = doctor(&["--gpu-check"], "cuStreamCreate=3");
    assert!(
        output.contains("= help: CUDA does not work in a process that was forked"),
        "{output}"
    );
}

#[test]
fn out_of_memory_is_reported() {
    let output = doctor(&["--gpu-check"], "memory=8");
    assert!(output.contains(on_page("W0522")), "{output}");
    // Mapping fails; earlier mappings are undone.
    for call in ["cuMemCreate=2", "cuMemMap=2", "cuMemSetAccess=2"] {
        let output = doctor(&["--gpu-check"], call);
        assert!(
            output.contains("FAILED  mapped memory: error[W0522]"),
            "{output}"
        );
    }
}

/// The failing call reports the fault, and so do all calls after it.
#[test]
fn a_device_fault_is_permanent() {
    let output = doctor(&["--gpu-check"], "cuStreamSynchronize=700");
    let error = on_page("W0523");
    assert_eq!(output.matches(error).count(), 12, "{output}");
    assert!(output.ends_with("[1]\n"), "{output}");
}

#[test]
fn rejected_code_is_reported() {
    let output = doctor(&["--gpu-check"], "nonsense=1");
    assert_eq!(output, format!("{}\n[1]\n", on_page("W0524")));
}

/// Every thread has a stack for all nested calls. The device has 64 MiB for 8192 threads, and half of it for stacks.
#[test]
fn recursion_that_exceeds_the_stack_is_refused() {
    let recursive = "tests/filetests/lower_checks/recursion.wir";
    let run = |config: &str| {
        let mut command = wuji(&["run", recursive, "--backend", "cuda", "--set", "seed = 1"]);
        command
            .env("WUJI_CUDA_DRIVER", driver())
            .env("FAKE_CUDA", config);
        shown(&command.output().unwrap())
    };
    let output = run("memory=64");
    let line = "error[W0331]: the recursive functions of `factorial` need ";
    assert!(output.contains(line), "{output}");
    assert!(
        output.contains("; at most 4096 fit on the GPU\n"),
        "{output}"
    );
    let output = run("memory=4096");
    assert!(
        output.ends_with("[0]\n") || !output.contains("error"),
        "{output}"
    );
    // The driver has less than it seems.
    let output = run("memory=4096,cuCtxSetLimit=2");
    assert!(output.contains("error[W0522]"), "{output}");
}
