//! After a fork, the child can run kernels that need no worker threads, gets an error for the others, and never waits
//! for threads of the parent.
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
    // A loop of a few iterations needs no workers.
    if small.run(&[], 0, 0).is_err() {
        return 1;
    }
    match large.run(&[], 0, 0) {
        Err(error) if error.code == "W0509" && error.help.is_some() => {}
        _ => return 2,
    }
    // Again: the error is returned each time, and no lock is left behind.
    if large.run(&[], 0, 0).is_ok() {
        return 3;
    }
    // New threads can still compile kernels.
    let Ok(mut another) = Instance::new(device, module(17), &Options::default()) else {
        return 4;
    };
    if another.run(&[], 0, 0).is_err() {
        return 5;
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
        // SAFETY: the child runs only the code below, on its only thread, and exits without running destructors of the
        // parent's data. The process runs no other test, so no other thread of ours holds a lock.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: plain system calls. An alarm ends a child that hangs.
            unsafe { libc::alarm(100) };
            let status = child(&device, &mut small, &mut large);
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
        assert_eq!(libc::WEXITSTATUS(status), 0);
    }
    // The parent still has its workers.
    large.run(&[], 0, 0).unwrap();
}
