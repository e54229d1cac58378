//! After a fork the child gets an error for what its parent has made, never waits for threads that it does not have, and can make
//! devices of its own.
#![cfg(unix)]
#![allow(unsafe_code)]

use crate::process::isolated;
use wuji_compile::Options;
use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_runtime::{Device, DeviceOptions, Instance};

fn module(iterations: u32) -> Module {
    let text = format!(
        "module \"k\"
         tree T0 {{ dense S1 [i: {iterations}] {{ place f0 }} }}
         field f0 \"x\": i32 in T0.S1 (i)
         kernel fn0 \"k\"() {{
           foreach L0 (v0: i32) in f0 {{
             store f0[v0], v0
             continue L0
           }}
           return
         }}"
    );
    parse(&text, "k.wir").unwrap()
}

fn device() -> Device {
    Device::new(&DeviceOptions {
        threads: Some(3),
        ..DeviceOptions::default()
    })
    .unwrap()
}

/// The checks in the child; the exit status is the number of the one that failed.
fn child(device: &Device, small: &mut Instance<'_>, large: &mut Instance<'_>) -> i32 {
    let refused = |error: Option<wuji_ir::Error>| {
        error.is_some_and(|error| error.code == "W0509" && error.help.is_some())
    };
    // The error is returned each time, whether workers are needed or not.
    for _ in 0..2 {
        if !refused(small.run(&[], 0, 0).err()) {
            return 1;
        }
        if !refused(large.run(&[], 0, 0).err()) {
            return 2;
        }
    }
    if !refused(Instance::new(device, module(17), &Options::default()).err()) {
        return 3;
    }
    if !refused(device.synchronize().err()) {
        return 4;
    }
    // A new world has its own workers.
    let own = self::device();
    let Ok(mut fresh) = Instance::new(&own, module(100_000), &Options::default()) else {
        return 6;
    };
    if fresh.run(&[], 0, 0).is_err() {
        return 7;
    }
    0
}

#[test]
fn a_child_does_not_wait_for_a_launch_of_its_parent() {
    isolated(
        "fork::a_child_does_not_wait_for_a_launch_of_its_parent",
        fork_during_a_launch,
    );
}

fn fork_during_a_launch() {
    let text = "module \"k\"
         tree T0 { dense S1 [i: 8] { place f0 } }
         field f0 \"x\": i32 in T0.S1 (i)
         kernel fn0 \"k\"() {
           v1: i32 = const 0
           v2: i32 = loop L0 (v3: i32 = v1) {
             continue L0(v3)
           }
           store f0[v1], v2
           return
         }";
    let device = device();
    let module = parse(text, "k.wir").unwrap_or_else(|e| panic!("{e}"));
    let mut endless = Instance::new(&device, module, &Options::default()).unwrap();
    let interrupter = device.interrupter();
    std::thread::scope(|scope| {
        let launch = scope.spawn(|| endless.run(&[], 0, 0).unwrap_err().code);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let status = in_child(|| match device.synchronize() {
            Err(error) if error.code == "W0509" => 0,
            _ => 1,
        });
        assert_eq!(status, 0);
        while !launch.is_finished() {
            interrupter.interrupt();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(launch.join().unwrap(), "W0405");
    });
}

/// The exit status of a function in a forked process.
fn in_child(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs nothing but the code below, on the only thread it has, and ends without running destructors of things
    // that belong to its parent.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: plain system calls. An alarm ends a child that hangs.
        unsafe { libc::alarm(100) };
        let status = work();
        // SAFETY: as above.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: the child is ours, and `status` is ours.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(ended, pid);
    assert!(
        libc::WIFEXITED(status),
        "the child was ended by a signal: {status}"
    );
    libc::WEXITSTATUS(status)
}

#[test]
fn a_child_works_or_reports_an_error() {
    isolated("fork::a_child_works_or_reports_an_error", fork_three_times);
}

fn fork_three_times() {
    let device = device();
    let load = |n| Instance::new(&device, module(n), &Options::default()).unwrap();
    let (mut small, mut large) = (load(16), load(100_000));
    small.run(&[], 0, 0).unwrap();
    large.run(&[], 0, 0).unwrap();
    for _ in 0..3 {
        assert_eq!(in_child(|| child(&device, &mut small, &mut large)), 0);
    }
    // The parent still has its workers.
    large.run(&[], 0, 0).unwrap();
}
