//! What is said of CUDA devices, with a driver that has none: `fake_cuda.c` does what it is told in `FAKE_CUDA`.

use super::{shown, wuji};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The driver, compiled once.
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

fn doctor(arguments: &[&str], told: &str) -> String {
    let mut command = wuji(&[&["doctor"], arguments].concat());
    command
        .env("WUJI_CUDA_DRIVER", driver())
        .env("FAKE_CUDA", told);
    shown(&command.output().unwrap())
}

/// The message that the page of an error shows.
fn on_page(code: &str) -> &'static str {
    let page = wuji_ir::codes::find(code).unwrap().page;
    let block = page.split("```text\n").nth(1).unwrap();
    block.split("\n```").next().unwrap()
}

#[test]
fn everything_works_on_a_device_that_does() {
    for told in ["", "lazy=1"] {
        let lines = doctor(&["--gpu-check"], told);
        let good = lines.lines().filter(|l| l.starts_with("ok ")).count();
        assert_eq!(good, 14, "{lines}");
    }
}

#[test]
fn devices_are_listed() {
    let told = doctor(&[], "");
    let line = "\n          0: Imaginary GPU, sm_70, 4 multiprocessors at 1.50 GHz, 0.2 GiB\n";
    assert!(told.contains(line), "{told}");
    let told = doctor(&["--json"], "");
    assert!(told.contains("\"kind\":\"gpu\""), "{told}");
    let told = doctor(&[], "devices=0");
    let line = "\ngpu       driver for CUDA 12.4; the driver does not start: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n";
    assert!(told.contains(line), "{told}");
}

#[test]
fn no_driver() {
    let mut command = wuji(&["doctor", "--gpu-check"]);
    command.env("WUJI_CUDA_DRIVER", "/nowhere/libcuda.so");
    let told = shown(&command.output().unwrap());
    assert_eq!(told, format!("{}\n[1]\n", on_page("W0520")));
    // A library that is none of a driver, or of one that is too old.
    let mut command = wuji(&["doctor", "--gpu-check"]);
    command.env("WUJI_CUDA_DRIVER", "libc.so.6");
    let told = shown(&command.output().unwrap());
    assert!(
        told.contains("error[W0520]: there is no CUDA driver"),
        "{told}"
    );
    assert!(told.contains("has no function `cuInit`"), "{told}");
}

#[test]
fn a_run_without_a_driver() {
    let mut command = wuji(&["run", super::SQUARES, "--backend", "cuda"]);
    command.env("WUJI_CUDA_DRIVER", "/nowhere/libcuda.so");
    let told = shown(&command.output().unwrap());
    assert_eq!(told, format!("{}\n[1]\n", on_page("W0520")));
}

#[test]
fn no_device() {
    for told in ["devices=0", "cuInit=999"] {
        let told = doctor(&["--gpu-check"], told);
        assert!(
            told.starts_with("error[W0520]: there is no CUDA device\n"),
            "{told}"
        );
    }
}

#[test]
fn refused_calls() {
    let told = doctor(&["--gpu-check"], "cuStreamCreate=1");
    assert_eq!(told, format!("{}\n[1]\n", on_page("W0521")));
    // Also one that the driver has no words for, and one of a process that was forked.
    let told = doctor(&["--gpu-check"], "cuStreamCreate=12345");
    assert!(told.contains("= note: CUDA error 12345\n"), "{told}");
    let told = doctor(&["--gpu-check"], "cuStreamCreate=3");
    assert!(
        told.contains("= help: CUDA does not work in a process that was forked"),
        "{told}"
    );
}

#[test]
fn no_memory() {
    let told = doctor(&["--gpu-check"], "memory=8");
    assert!(told.contains(on_page("W0522")), "{told}");
    // While addresses get memory; what was mapped before the failure is not.
    for call in ["cuMemCreate=2", "cuMemMap=2", "cuMemSetAccess=2"] {
        let told = doctor(&["--gpu-check"], call);
        assert!(
            told.contains("FAILED  mapped memory: error[W0522]"),
            "{told}"
        );
    }
}

/// The failure is told by the call that met it, and by all calls after it.
#[test]
fn a_device_that_fails() {
    let told = doctor(&["--gpu-check"], "cuStreamSynchronize=700");
    let error = on_page("W0523");
    assert_eq!(told.matches(error).count(), 11, "{told}");
    assert!(told.ends_with("[1]\n"), "{told}");
}

#[test]
fn code_that_is_refused() {
    let told = doctor(&["--gpu-check"], "nonsense=1");
    assert_eq!(told, format!("{}\n[1]\n", on_page("W0524")));
}
