//! Kernels that run too long are stopped: by a call, by the time limit, or by Ctrl-C.

use crate::process::only;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wuji::CacheChoice;
use wuji::prelude::*;

/// Whether a 32-bit integer can hold how often it turns does not matter.
#[kernel]
fn turns(x: &Field<f32, 1>, outer: i32, inner: i64) {
    for _ in 0..1 {
        let mut sum = 0.0;
        for i in 0..outer {
            for j in 0..inner {
                sum = (sum + 1.5) * 0.5 + (i as f32) * 1e-9 + (j as f32) * 1e-9;
            }
        }
        x[[0]] = sum;
    }
}

#[kernel]
fn parallel(x: &Field<f32, 1>, inner: i32) {
    for [i] in x {
        let mut sum = 0.0;
        for j in 0..inner {
            for k in 0..inner {
                sum = (sum + 1.5) * 0.5 + (k as f32) * 1e-9 + (j as f32) * 1e-9;
            }
        }
        x[[i]] = sum;
    }
}

#[kernel]
fn endless(x: &Field<f32, 1>) {
    for [i] in x {
        while x[[i]] >= 0.0 {
            x[[i]] = (x[[i]] + 1.0) * 0.5;
        }
    }
}

/// More iterations than there are chunks that could be looked at.
#[kernel]
fn long(x: &Field<f32, 1>, n: i64) {
    for i in 0..n {
        x[[i & 63]] = ((i & 1023) as f32).sqrt().sin().exp();
    }
}

/// Two updates of one element that do not commute: they run on one thread, in chunks while its code may change.
#[kernel]
fn mixed(x: &Field<i64, 1>, n: i64) {
    for i in 0..n {
        x[[0]] += i;
        x[[0]] ^= i * 3;
    }
}

fn limited(builder: wuji::WorldBuilder, limit: u64) -> World {
    builder
        .lazy(false)
        .time_limit(Duration::from_millis(limit))
        .build()
        .unwrap()
}

fn check(error: wuji::Error, started: Instant) {
    assert_eq!(error.code, "W0409", "{error}");
    assert!(
        error
            .message
            .contains("ran longer than its time limit of 100ms"),
        "{error}"
    );
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn the_time_limit_stops_every_kind_of_loop() {
    for tier in [Tier::Fast, Tier::Best] {
        let world = limited(World::builder().tier(tier), 100);
        let x = world.field::<f32, 1>("x", 64).unwrap();
        for run in [
            &|| turns(&x, 1 << 30, 1 << 20) as wuji::Result<()>,
            &|| turns(&x, 1, 1 << 60),
            &|| turns(&x, i32::MAX, 100),
            &|| parallel(&x, i32::MAX),
            &|| endless(&x),
        ] as [&dyn Fn() -> wuji::Result<()>; 5]
        {
            let started = Instant::now();
            check(run().unwrap_err(), started);
        }
        // The world is still usable.
        turns(&x, 10, 10).unwrap();
        assert!(x.get(0).unwrap() > 0.0);
    }
}

#[test]
fn the_time_limit_stops_loops_of_any_length() {
    for tier in [Tier::Fast, Tier::Best] {
        for threads in [1, 2] {
            let world = limited(World::builder().tier(tier).threads(threads), 100);
            let x = world.field::<f32, 1>("x", 64).unwrap();
            long(&x, 10).unwrap();
            for exponent in [40, 50, 60, 62] {
                let started = Instant::now();
                let error = long(&x, 1 << exponent).unwrap_err();
                check(error, started);
            }
        }
    }
}

#[test]
fn the_time_limit_stops_code_that_is_being_replaced() {
    let started = Instant::now();
    let world = limited(World::builder().cache(CacheChoice::Off), 1000);
    let x = world.field::<i64, 1>("x", 16).unwrap();
    assert_eq!(mixed(&x, 1 << 60).unwrap_err().code, "W0409");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn the_time_limit_stops_interpreted_kernels() {
    let world = limited(World::builder().interpreter(), 100);
    let x = world.field::<f32, 1>("x", 64).unwrap();
    let started = Instant::now();
    check(endless(&x).unwrap_err(), started);
    turns(&x, 10, 10).unwrap();
}

#[test]
fn short_launches_do_not_reach_the_time_limit() {
    let world = limited(World::builder(), 60);
    let x = world.field::<f32, 1>("x", 64).unwrap();
    turns(&x, 1, 1).unwrap();
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(300) {
        turns(&x, 10, 10).unwrap();
    }
    // Long enough for the watchdog to fall asleep; it must wake up again.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(endless(&x).unwrap_err().code, "W0409");
}

#[test]
fn no_time_is_an_error() {
    let error = World::builder()
        .time_limit(Duration::ZERO)
        .build()
        .unwrap_err();
    assert_eq!(error.code, "W0115");
}

/// Runs as another process: see below.
#[test]
fn child_of_the_ctrl_c_test() {
    if std::env::var_os("WUJI_TEST_CTRL_C").is_none() {
        return;
    }
    let world = World::builder().lazy(false).build().unwrap();
    world.stop_on_ctrl_c().unwrap();
    world.stop_on_ctrl_c().unwrap();
    let x = world.field::<f32, 1>("x", 64).unwrap();
    x.fill(1.0).unwrap();
    println!("ready");
    let error = endless(&x).unwrap_err();
    println!("ended: {}", error.message);
    turns(&x, 10, 10).unwrap();
    println!("idle");
    std::thread::sleep(Duration::from_secs(60));
    println!("never");
}

#[test]
fn ctrl_c_ends_the_kernel_and_then_the_process() {
    use std::io::{BufRead, BufReader};
    let mut child = only("stopping::child_of_the_ctrl_c_test")
        .env("WUJI_TEST_CTRL_C", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let press = || {
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        )
    };
    // Shells have background jobs ignore the signal, and what was ignored before is ignored again.
    let ignored = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = ignored
        .lines()
        .find_map(|l| l.strip_prefix("SigIgn:"))
        .unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap() & 2 != 0;
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.ends_with("ready") || line.ends_with("idle") {
            std::thread::sleep(Duration::from_millis(300));
            press();
            if ignored && line.ends_with("idle") {
                std::thread::sleep(Duration::from_millis(300));
                child.kill().unwrap();
            }
        }
        lines.push(line);
    }
    let status = child.wait().unwrap();
    let ended = "ended: kernel `endless` was interrupted by Ctrl-C";
    assert!(lines.iter().any(|l| l == ended), "{lines:?}");
    assert!(!lines.iter().any(|l| l == "never"), "{lines:?}");
    assert!(!status.success());
}
