//! Launches that are recorded and replayed.

use super::kernels::{add_one, answer, speak, wander};
use super::{builder, lines_of, with_driver};
use expect_test::expect;
use wuji::prelude::*;

#[kernel]
fn draw(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = random();
    }
}

#[kernel]
fn from_host(x: &Field<f32, 1>, y: &[f32]) {
    for [i] in x {
        x[[i]] = y[i];
    }
}

fn lazy(name: &str, body: impl FnOnce()) {
    with_driver(&format!("graphs::{name}"), "lazy=1", body);
}

#[test]
fn launches_are_replayed() {
    lazy("launches_are_replayed", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let y = world.field::<f32, 1>("y", [8]).unwrap();
        let graph = world
            .record(|| {
                add_one(&x)?;
                add_one(&y)?;
                add_one(&y)
            })
            .unwrap();
        assert_eq!(graph.len(), 3);
        assert_eq!((x.get(0).unwrap(), y.get(0).unwrap()), (0.0, 0.0));
        for _ in 0..10 {
            graph.launch().unwrap();
            add_one(&x).unwrap();
        }
        assert_eq!((x.get(0).unwrap(), y.get(0).unwrap()), (20.0, 20.0));
        // Fields go when the device is done with them.
        graph.launch().unwrap();
        drop(graph);
        assert_eq!(x.get(0).unwrap(), 21.0);
        let empty = world.record(|| Ok(())).unwrap();
        assert!(empty.is_empty());
        empty.launch().unwrap();
    });
}

#[test]
fn graphs_report_errors() {
    lazy("graphs_report_errors", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let lines = lines_of(&world);
        let graph = world
            .record(|| {
                speak(&world, 5)?;
                wander(&x)
            })
            .unwrap();
        world.synchronize().unwrap();
        graph.launch().unwrap();
        graph.launch().unwrap();
        let error = world.synchronize().unwrap_err();
        assert_eq!(error.code, "W0401");
        assert!(error.to_string().contains("field `x`"), "{error}");
        assert!(error.to_string().contains("2 problems"), "{error}");
        assert_eq!(*lines.lock().unwrap(), ["5", "5"]);
        // Also when it is gone.
        graph.launch().unwrap();
        drop(graph);
        assert_eq!(x.get(0).unwrap_err().code, "W0401");
        assert_eq!(x.get(0).unwrap(), 0.0);
    });
}

#[test]
fn unrecordable_launches_are_rejected() {
    lazy("unrecordable_launches_are_rejected", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let refusal = |error: wuji::Error| {
            assert_eq!(error.code, "W0134");
            error.message
        };
        let all = [
            refusal(world.record(|| answer(&world).map(|_| ())).unwrap_err()),
            refusal(world.record(|| draw(&x)).unwrap_err()),
            refusal(world.record(|| from_host(&x, &[1.0; 8])).unwrap_err()),
            refusal(world.record(|| x.get(0).map(|_| ())).unwrap_err()),
            refusal(world.record(|| world.synchronize()).unwrap_err()),
            refusal(
                world
                    .record(|| world.record(|| Ok(())).map(|_| ()))
                    .unwrap_err(),
            ),
        ];
        expect![[r#"
            kernel `answer` cannot be in a graph: it returns a result, which needs a synchronization
            kernel `draw` cannot be in a graph: it draws random numbers, which would be the same each time
            kernel `from_host` cannot be in a graph: one of its arguments is an array of the host
            a graph is being recorded: nothing has run yet
            a graph is being recorded: nothing has run yet
            a graph is being recorded in this world already"#]].assert_eq(&all.join("\n"));
        // The world is still usable.
        add_one(&x).unwrap();
        assert_eq!(x.get(0).unwrap(), 1.0);
        let graph = world.record(|| add_one(&x)).unwrap();
        x.tree().destroy();
        assert_eq!(graph.launch().unwrap_err().code, "W0131");
    });
}

#[test]
fn fields_can_be_allocated_and_freed_during_a_graph_capture() {
    let name = "graphs::fields_can_be_allocated_and_freed_during_a_graph_capture";
    with_driver(name, "lazy=1", || {
        let world = builder().build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        add_one(&x).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200 {
                    let y = world.field::<f32, 1>("y", [64]).unwrap();
                    y.fill(1.0).unwrap();
                    drop(y);
                }
            });
            for _ in 0..200 {
                let graph = world.record(|| (0..4).try_for_each(|_| add_one(&x)));
                graph.unwrap().launch().unwrap();
            }
        });
        assert_eq!(x.get(7).unwrap(), 801.0);
    });
}

#[kernel]
fn add_shifted(x: &Field<f32, 1>, y: &Field<f32, 1>, amount: f32) {
    for i in 0..7 {
        x[[i]] += y[[i + 1]] + amount;
    }
}

#[test]
fn windows_that_come_again_are_replayed() {
    lazy("windows_that_come_again_are_replayed", || {
        // Two tasks that stay as they are, so that the driver knows them.
        let separate = "horizontal_fusion";
        for (without, expected) in [(&[separate][..], 4), (&[separate, "window_replay"][..], 0)] {
            let world = builder().lazy(true).without(without).build().unwrap();
            let field = |name, n: i64| world.field::<f32, 1>(name, [n]).unwrap();
            // Loops of different lengths.
            let (x, y, z) = (field("x", 8), field("y", 16), field("z", 16));
            let step = |other: &Field<f32, 1>| {
                add_one(&x).unwrap();
                add_one(other).unwrap();
                world.flush().unwrap();
            };
            (0..6).for_each(|_| step(&y));
            assert_eq!(world.lazy_statistics().replays, expected);
            // Other arguments: launched again.
            (0..2).for_each(|_| step(&z));
            assert_eq!(world.lazy_statistics().replays, expected);
            let found = [&x, &y, &z].map(|field| field.get(7).unwrap());
            assert_eq!(found, [8.0, 6.0, 2.0], "{without:?}");
        }
    });
}

#[test]
fn errors_in_replayed_windows_are_reported() {
    lazy("errors_in_replayed_windows_are_reported", || {
        let world = builder().lazy(true).build().unwrap();
        let x = world.field::<f32, 1>("x", [8]).unwrap();
        let y = world.field::<f32, 1>("y", [8]).unwrap();
        for _ in 0..5 {
            wander(&x).unwrap();
            add_shifted(&y, &x, 1.0).unwrap();
            world.flush().unwrap();
        }
        assert!(world.lazy_statistics().replays > 0);
        let error = world.synchronize().unwrap_err();
        assert_eq!(error.code, "W0401");
        assert!(error.to_string().contains("kernels.rs:15"), "{error}");
        world.synchronize().unwrap();
    });
}
