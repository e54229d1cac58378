//! Pending launches and their buffered reports.

use super::kernels::{add_one, answer, speak, wander};
use super::{builder, lines_of, with_driver};
use expect_test::expect;
use std::time::{Duration, Instant};
use wuji::prelude::*;

#[kernel]
fn spin(_world: &World) {
    let mut n = 0;
    while n >= 0 {
        n = (n + 1) % 7;
    }
}

/// A world whose device does nothing before a synchronizing call.
fn lazy(name: &str, body: impl FnOnce()) -> Option<String> {
    with_driver(&format!("launches::{name}"), "lazy=1", body)
}

#[test]
fn launches_are_asynchronous_until_a_read() {
    lazy("launches_are_asynchronous_until_a_read", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let lines = lines_of(&world);
        for n in 0..3 {
            add_one(&x).unwrap();
            speak(&world, n).unwrap();
        }
        assert!(lines.lock().unwrap().is_empty());
        assert_eq!(x.get(0).unwrap(), 3.0);
        assert_eq!(*lines.lock().unwrap(), ["0", "1", "2"]);
        world.synchronize().unwrap();
        assert_eq!(lines.lock().unwrap().len(), 3);
    });
}

#[test]
fn errors_surface_at_the_next_synchronization() {
    lazy("errors_surface_at_the_next_synchronization", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let y = world.field::<f32, 1>("y", [8]).unwrap();
        wander(&x).unwrap();
        add_one(&y).unwrap();
        wander(&y).unwrap();
        let error = world.synchronize().unwrap_err();
        expect![[r#"
            error[W0401]: kernel `wander` wrote to field `x` outside of its bounds
              --> crates/wuji/tests/api/cuda/kernels.rs:15:11
              = note: the index is [1000], its elements are [0..8]
              = note: it was launched earlier: launches on a GPU are asynchronous, unless WUJI_LAUNCH_BLOCKING is 1
              = note: also: kernel `wander` wrote to field `y` outside of its bounds at crates/wuji/tests/api/cuda/kernels.rs:15:11
              = help: such a write is dropped; guard it with an `if`"#]]
        .assert_eq(&error.to_string());
        // It is reported once.
        world.synchronize().unwrap();
        assert_eq!(y.get(0).unwrap(), 1.0);
        // Reading a field waits, too.
        wander(&x).unwrap();
        assert_eq!(y.get(0).unwrap_err().code, "W0401");
        assert_eq!(y.get(0).unwrap(), 1.0);
    });
}

#[test]
fn a_launch_with_a_result_reports_earlier_errors() {
    lazy("a_launch_with_a_result_reports_earlier_errors", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        wander(&x).unwrap();
        let error = answer(&world).unwrap_err();
        assert_eq!(error.code, "W0401");
        assert_eq!(answer(&world).unwrap(), 42);
    });
}

/// The device is done with everything at once.
#[test]
fn the_next_launch_reports_without_synchronizing() {
    let name = "launches::the_next_launch_reports_without_synchronizing";
    with_driver(name, "", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let lines = lines_of(&world);
        speak(&world, 5).unwrap();
        assert!(lines.lock().unwrap().is_empty());
        add_one(&x).unwrap();
        assert_eq!(*lines.lock().unwrap(), ["5"]);
        wander(&x).unwrap();
        let error = add_one(&x).unwrap_err();
        assert!(error.message.contains("kernel `wander`"), "{error}");
        let last = error.notes.last().map(String::as_str);
        assert_eq!(last, Some("kernel `add_one` was not launched"));
        assert_eq!(x.get(0).unwrap(), 1.0);
    });
}

#[test]
fn worlds_that_wait() {
    lazy("worlds_that_wait", || {
        for builder in [builder().wait_for_launches(true), builder().debug(true)] {
            let world = builder.build().unwrap();
            let x = world.field::<f32, 1>("x", [8]).unwrap();
            let lines = lines_of(&world);
            let error = wander(&x).unwrap_err();
            assert!(!error.to_string().contains("earlier"), "{error}");
            speak(&world, 7).unwrap();
            assert_eq!(*lines.lock().unwrap(), ["7"]);
        }
    });
}

/// Report slots are reused; late reports are still returned.
#[test]
fn many_launches() {
    lazy("many_launches", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        for _ in 0..40_000 {
            add_one(&x).unwrap();
        }
        wander(&x).unwrap();
        assert_eq!(world.synchronize().unwrap_err().code, "W0401");
        assert_eq!(x.get(0).unwrap(), 40_000.0);
    });
}

#[test]
fn more_prints_than_the_buffer_holds() {
    lazy("more_prints_than_the_buffer_holds", || {
        let world = builder().build().unwrap();
        let lines = lines_of(&world);
        // Each takes five words, and there is room for 2^20.
        for n in 0..210_000 {
            speak(&world, n).unwrap();
        }
        world.synchronize().unwrap();
        let lines = lines.lock().unwrap();
        let printed = lines.iter().filter(|l| !l.starts_with("...")).count();
        assert!(printed > 200_000, "{printed}");
        let lost = lines.iter().filter(|l| *l == "... and 1 more lines\n");
        assert_eq!(printed + lost.count(), 210_000);
    });
}

#[test]
fn dropping_a_world_reports_pending_errors() {
    let output = lazy("dropping_a_world_reports_pending_errors", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        wander(&x).unwrap();
    });
    if let Some(output) = output {
        let line = "an asynchronous launch: error[W0401]: kernel `wander` wrote to field `x`";
        assert!(output.contains(line), "{output}");
    }
}

#[test]
fn pending_launches_obey_the_time_limit() {
    lazy("pending_launches_obey_the_time_limit", || {
        let limit = Duration::from_millis(50);
        let world = builder().time_limit(limit).build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        add_one(&x).unwrap();
        spin(&world).unwrap();
        // It is the device's time that counts, and not how long ago a launch was asked for.
        add_one(&x).unwrap();
        let begun = Instant::now();
        let error = world.synchronize().unwrap_err();
        assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
        expect![[r#"
            error[W0409]: kernel `spin` ran longer than its time limit of 50ms
              = note: what it had written until then is kept
              = help: give the world more time: `World::builder().time_limit(..)`"#]]
        .assert_eq(&strip_place(&error));
        std::thread::sleep(2 * limit);
        add_one(&x).unwrap();
        std::thread::sleep(2 * limit);
        assert_eq!(x.get(0).unwrap(), 3.0);
    });
}

fn strip_place(error: &wuji::Error) -> String {
    let mut error = error.clone();
    error.at = None;
    error.to_string()
}

#[test]
fn pending_launches_can_be_interrupted() {
    lazy("pending_launches_can_be_interrupted", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let stop = world.interrupter();
        // Nothing is running that it could be meant for.
        stop.interrupt();
        add_one(&x).unwrap();
        spin(&world).unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            stop.interrupt();
        });
        let error = x.get(0).unwrap_err();
        other.join().unwrap();
        expect![[r#"
            error[W0405]: launches of `add_one`, `spin` were interrupted
              = note: what they had written until then is kept"#]]
        .assert_eq(&strip_place(&error));
        assert_eq!(x.get(0).unwrap(), 1.0);
        // Also before a synchronizing call.
        spin(&world).unwrap();
        world.interrupter().interrupt();
        let error = add_one(&x).unwrap_err();
        assert_eq!(error.message, "kernel `spin` was interrupted");
        assert_eq!(x.get(0).unwrap(), 1.0);
    });
}

/// A destructor cannot be interrupted, so it must not wait.
#[test]
fn dropping_a_field_does_not_wait_for_kernels() {
    lazy("dropping_a_field_does_not_wait_for_kernels", || {
        let limit = Duration::from_secs(4);
        let world = builder().time_limit(limit).build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        add_one(&x).unwrap();
        spin(&world).unwrap();
        let begun = Instant::now();
        drop(x);
        assert!(begun.elapsed() < limit / 2, "{:?}", begun.elapsed());
        world.interrupter().interrupt();
        assert_eq!(world.synchronize().unwrap_err().code, "W0405");
    });
}

#[test]
fn memory_of_dropped_fields_is_used_again() {
    let name = "launches::memory_of_dropped_fields_is_used_again";
    with_driver(name, "lazy=1,memory=64", || {
        let world = builder().build().unwrap();
        for _ in 0..10 {
            let x = world.field::<f32, 1>("x", [5 << 20]).unwrap();
            add_one(&x).unwrap();
        }
        world.synchronize().unwrap();
    });
}

/// Runs `work`, whose waits are interrupted, after a kernel that does not end. Returns the code of its error.
fn interrupted(work: impl Fn(&World) -> wuji::Result<()>) -> Option<&'static str> {
    let world = builder().build().unwrap();
    spin(&world).unwrap();
    let outcome = wuji::dynamic::with_poll(&|| false, || work(&world));
    // The kernel was stopped, or is stopped now.
    world.interrupter().interrupt();
    let _ = world.synchronize();
    outcome.err().map(|error| error.code)
}

/// The driver waits in a large copy, and in a launch when its queue is full; neither can be interrupted.
#[test]
fn the_driver_is_not_called_where_it_would_wait() {
    lazy("the_driver_is_not_called_where_it_would_wait", || {
        let sent = interrupted(|world| {
            let x = world.field::<f32, 1>("x", [1 << 16])?;
            x.copy_from(&vec![1.0; 1 << 16])
        });
        assert_eq!(sent, Some("W0405"));
        let launched = interrupted(|world| {
            let x = world.field::<f32, 1>("x", [8])?;
            (0..1000).try_for_each(|_| add_one(&x))
        });
        assert_eq!(launched, Some("W0405"));
    });
}
