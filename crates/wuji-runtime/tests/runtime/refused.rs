//! Errors when the operating system denies resources: threads, and executable memory.
//!
//! Limits affect a whole process, so every test starts this program again; an environment variable names the missing
//! resource.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)]

use crate::process::only;
use expect_test::{Expect, expect};
use std::time::Duration;
use wuji_compile::Options;
use wuji_ir::{Result, text};
use wuji_runtime::{Device, DeviceOptions, Instance, cache};

const VARIABLE: &str = "WUJI_TEST_REFUSED";
const KERNEL: &str = "module \"k\"
tree T0 { dense S1 [i: 16] { place f0 } }
field f0 \"x\": i32 in T0.S1 (i)
kernel fn0 \"k\"() {
  foreach L0 (v0: i32) in f0 {
    store f0[v0], v0
    continue L0
  }
  return
}
";

fn options(threads: usize) -> DeviceOptions {
    DeviceOptions {
        threads: Some(threads),
        cache: cache::Choice::Off,
        ..DeviceOptions::default()
    }
}

fn instance(device: &Device) -> Result<Instance<'_>> {
    Instance::new(device, text::parse(KERNEL, "k.wir")?, &Options::default())
}

/// Limits the address space of this process to this many more bytes.
fn allow(more: u64) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|l| l.starts_with("VmSize:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let limit = libc::rlimit {
        rlim_cur: kib * 1024 + more,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the limit is read during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// Forbids the execution of written memory. `false` if the system does not support that.
fn forbid_execution() -> bool {
    const PR_SET_MDWE: libc::c_int = 65;
    const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_ulong = 1;
    let none: libc::c_ulong = 0;
    // SAFETY: takes only numbers, and can only restrict this process.
    unsafe { libc::prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, none, none, none) == 0 }
}

fn worker_threads() -> Result<()> {
    allow(256 << 20);
    Device::new(&options(1024)).map(drop)
}

fn compiler_threads() -> Result<()> {
    let device = Device::new(&options(1))?;
    allow(32 << 20);
    instance(&device).map(drop)
}

fn watchdogs() -> Result<()> {
    let device = Device::new(&DeviceOptions {
        time_limit: Some(Duration::from_secs(100)),
        ..options(1)
    })?;
    let mut instance = instance(&device)?;
    allow(1 << 20);
    instance.run(&[], 0, 0).map(drop)
}

fn better_code() -> Result<()> {
    let device = Device::new(&options(1))?;
    let instance = instance(&device)?;
    allow(1 << 20);
    device.finish_compiling(instance.program())
}

fn executable_memory() -> Result<()> {
    let device = Device::new(&options(1))?;
    if !forbid_execution() {
        println!("cannot be tested here");
        return Ok(());
    }
    instance(&device).map(drop)
}

const WAYS: [(&str, fn() -> Result<()>); 5] = [
    ("worker_threads", worker_threads),
    ("compiler_threads", compiler_threads),
    ("watchdogs", watchdogs),
    ("better_code", better_code),
    ("executable_memory", executable_memory),
];

/// Runs in a child process: see [`check`].
#[test]
fn child() {
    let Some(asked) = std::env::var_os(VARIABLE) else {
        return;
    };
    let (_, way) = WAYS.iter().find(|w| asked == w.0).unwrap();
    match way() {
        Ok(()) => println!("<<<nothing>>>"),
        Err(error) => println!("<<<{error}>>>"),
    }
}

/// Checks the error of a test case, which is also the one on its documentation page.
fn check(name: &str, shown: bool, expected: Expect) {
    let out = only("refused::child").env(VARIABLE, name).output().unwrap();
    let output = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{out:?}");
    if output.contains("cannot be tested here") {
        return;
    }
    let error = output.split_once("<<<").and_then(|t| t.1.split_once(">>>"));
    let error = error.unwrap().0;
    // The number of threads that could be started does not matter.
    let error = match error.split_once("worker thread ") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}worker thread 3{rest}")
        }
        None => error.to_owned(),
    };
    expected.assert_eq(&error);
    let code = error.get(6..11).unwrap();
    let page = wuji_ir::codes::find(code).unwrap().page;
    assert!(!shown || page.contains(&error), "{page}");
}

#[test]
fn no_worker_threads() {
    check(
        "worker_threads",
        true,
        expect![[r#"
        error[W0508]: cannot start worker thread 3
          = note: Resource temporarily unavailable (os error 11)
          = help: ask for fewer threads"#]],
    );
}

#[test]
fn no_compiler_threads() {
    check(
        "compiler_threads",
        true,
        expect![[r#"
        error[W0507]: cannot start a compiler thread
          = note: Resource temporarily unavailable (os error 11)"#]],
    );
}

#[test]
fn no_watchdog() {
    check(
        "watchdogs",
        false,
        expect![[r#"
        error[W0507]: cannot start the thread that watches the time limit
          = note: Resource temporarily unavailable (os error 11)"#]],
    );
}

#[test]
fn missing_threads_for_the_best_tier() {
    check(
        "better_code",
        false,
        expect![[r#"
        error[W0507]: cannot start a compiler thread
          = note: Resource temporarily unavailable (os error 11)
          = note: the kernel continues with its current code, which is slower"#]],
    );
}

#[test]
fn no_executable_memory() {
    check(
        "executable_memory",
        true,
        expect![[r#"
        error[W0506]: cannot load compiled code
          = note: Failed to materialize symbols: { (kernel0, { wuji.k.1 }) }
          = note: Permission denied
          = help: the system may forbid memory that is both writable and executable; interpreted worlds do not need it"#]],
    );
}
