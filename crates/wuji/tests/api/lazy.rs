//! Lazy worlds: the same results as eager ones, with fewer tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wuji::prelude::*;

#[kernel]
fn add(x: &Field<f32, 1>, amount: f32) {
    for [i] in x {
        x[[i]] += amount;
    }
}

#[kernel]
fn copy_plus(from: &Field<f32, 1>, to: &Field<f32, 1>, amount: f32) {
    for [i] in from {
        to[[i]] = from[[i]] + amount;
    }
}

#[kernel]
fn shift(from: &Field<f32, 1>, to: &Field<f32, 1>) {
    for [i] in to {
        to[[i]] = from[[i + 1]] + from[[i - 1]];
    }
}

#[kernel]
fn set(x: &Field<f32, 1>, value: f32) {
    for [i] in x {
        x[[i]] = value;
    }
}

#[kernel]
fn total(x: &Field<f32, 1>, sum: &Field<f32, 0>) {
    sum[[]] = 0.0;
    for [i] in x {
        sum[[]] += x[[i]];
    }
}

#[kernel]
fn even_only(x: &Field<f32, 1>, amount: f32) {
    for [i] in x {
        if i % 2 == 1 {
            continue;
        }
        x[[i]] += amount;
    }
}

#[kernel]
fn first(x: &Field<f32, 1>, count: i32, value: f32) {
    for i in 0..count {
        x[[i]] += value;
    }
}

#[kernel]
fn far_write(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i + 1]] = 1.0;
    }
}

#[kernel]
fn noise(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = random::<f32>();
    }
}

fn lazy() -> World {
    World::builder().lazy(true).threads(2).build().unwrap()
}

fn tasks(world: &World) -> u64 {
    world.lazy_statistics().tasks
}

#[test]
fn loops_over_the_same_elements_become_one() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 1000).unwrap();
    let y = world.field::<f32, 1>("y", 1000).unwrap();
    let z = world.field::<f32, 1>("z", 1000).unwrap();
    for k in 0..10 {
        add(&x, k as f32).unwrap();
    }
    copy_plus(&x, &y, 1.0).unwrap();
    copy_plus(&y, &z, 4.0).unwrap();
    assert_eq!(tasks(&world), 0);
    assert_eq!(z.get(7).unwrap(), 50.0);
    assert_eq!(x.get(999).unwrap(), 45.0);
    assert_eq!(y.get(0).unwrap(), 46.0);
    assert_eq!(tasks(&world), 1);
}

#[test]
fn neighbours_are_not_fused_with_what_writes_them() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 1000).unwrap();
    let y = world.field::<f32, 1>("y", 1000).unwrap();
    set(&x, 1.0).unwrap();
    shift(&x, &y).unwrap();
    add(&x, 1.0).unwrap();
    assert_eq!(y.get(5).unwrap(), 2.0);
    assert_eq!(y.get(0).unwrap(), 1.0);
    assert_eq!(x.get(5).unwrap(), 2.0);
    assert_eq!(tasks(&world), 3);
}

#[test]
fn what_is_overwritten_is_not_computed() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 1000).unwrap();
    let sum = world.field::<f32, 0>("sum", [0_usize; 0]).unwrap();
    set(&x, 1.0).unwrap();
    for _ in 0..5 {
        total(&x, &sum).unwrap();
    }
    assert_eq!(sum.get([0_i32; 0]).unwrap(), 1000.0);
    // The last `sum = 0`, and one loop that sets `x` and adds it up.
    assert_eq!(tasks(&world), 2);
    assert_eq!(world.lazy_statistics().launched_tasks, 11);
}

#[test]
fn an_iteration_that_ends_early_goes_on_with_the_next_body() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    even_only(&x, 1.0).unwrap();
    add(&x, 10.0).unwrap();
    even_only(&x, 2.0).unwrap();
    assert_eq!(x.get(4).unwrap(), 13.0);
    assert_eq!(x.get(5).unwrap(), 10.0);
    assert_eq!(tasks(&world), 1);
}

#[test]
fn loops_with_different_bounds_are_not_fused() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    for count in [40, 50] {
        first(&x, 40, 1.0).unwrap();
        first(&x, count, 2.0).unwrap();
        add(&x, 0.0).unwrap();
        world.flush().unwrap();
    }
    assert_eq!(x.get(39).unwrap(), 6.0);
    assert_eq!(x.get(45).unwrap(), 2.0);
    assert_eq!(tasks(&world), 2 + 3);
}

#[test]
fn a_window_that_repeats_is_planned_once() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    let y = world.field::<f32, 1>("y", 100).unwrap();
    for _ in 0..100 {
        copy_plus(&x, &y, 1.0).unwrap();
        copy_plus(&y, &x, 1.0).unwrap();
        world.flush().unwrap();
    }
    let statistics = world.lazy_statistics();
    assert_eq!((statistics.windows, statistics.known_windows), (100, 99));
    assert_eq!(x.get(3).unwrap(), 200.0);
}

#[test]
fn a_full_window_runs_and_the_next_one_begins_like_it() {
    let world = World::builder().lazy(true).window(20).build().unwrap();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    let y = world.field::<f32, 1>("y", 100).unwrap();
    for _ in 0..50 {
        copy_plus(&x, &y, 1.0).unwrap();
        shift(&y, &x).unwrap();
        add(&x, 1.0).unwrap();
    }
    world.flush().unwrap();
    let statistics = world.lazy_statistics();
    assert!(statistics.windows >= 7, "{statistics:?}");
    assert!(
        statistics.known_windows + 3 >= statistics.windows,
        "{statistics:?}"
    );
}

#[test]
fn errors_come_with_their_own_line() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    let y = world.field::<f32, 1>("y", 100).unwrap();
    far_write(&x).unwrap();
    add(&y, 1.0).unwrap();
    let error = world.synchronize().unwrap_err();
    assert_eq!(error.code, "W0401");
    let at = error.at.clone().unwrap();
    assert!(at.file.ends_with("lazy.rs"), "{error}");
    assert_eq!(y.get(3).unwrap(), 1.0);
    assert_eq!(x.get(3).unwrap(), 1.0);
}

#[test]
fn random_numbers_are_those_of_an_eager_world() {
    let run = |lazy: bool| {
        let world = World::builder().lazy(lazy).build().unwrap();
        let x = world.field::<f32, 1>("x", 100).unwrap();
        for _ in 0..3 {
            add(&x, 1.0).unwrap();
        }
        noise(&x).unwrap();
        add(&x, 1.0).unwrap();
        noise(&x).unwrap();
        x.to_vec().unwrap()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn launches_from_several_threads_are_all_there() {
    let world = lazy();
    let x = world.field::<i32, 1>("x", 100).unwrap();
    let reads = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for k in 0..200 {
                    count(&x).unwrap();
                    if k % 50 == 0 {
                        x.get(0).unwrap();
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(reads.load(Ordering::Relaxed), 16);
    assert_eq!(x.to_vec().unwrap(), vec![800; 100]);
}

#[kernel]
fn count(x: &Field<i32, 1>) {
    for [i] in x {
        x[[i]] += 1;
    }
}

#[test]
fn sparse_loops_are_fused_when_no_cell_changes() {
    let world = lazy();
    let x = world
        .layout(|root| root.pointer(I, 16).dense(I, 16).place::<f32, 1>("x"))
        .unwrap();
    x.set(3, 1.0).unwrap();
    x.set(100, 1.0).unwrap();
    add(&x, 1.0).unwrap();
    add(&x, 2.0).unwrap();
    assert_eq!(x.get(3).unwrap(), 4.0);
    assert_eq!(x.get(4).unwrap(), 3.0);
    assert_eq!(x.get(50).unwrap(), 0.0);
    assert_eq!(tasks(&world), 1);
    spread(&x).unwrap();
    add(&x, 1.0).unwrap();
    assert_eq!(x.get(20).unwrap(), 2.0);
    assert_eq!(tasks(&world), 3);
}

#[kernel]
fn spread(x: &Field<f32, 1>) {
    for [i] in x {
        x[[(i + 16) % 256]] = 1.0;
    }
}

#[test]
fn a_world_that_is_dropped_takes_its_window_with_it() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    add(&x, 1.0).unwrap();
    let y = world.field::<f32, 1>("y", 100).unwrap();
    add(&y, 1.0).unwrap();
    drop(x);
    assert_eq!(y.get(0).unwrap(), 1.0);
    add(&y, 1.0).unwrap();
    drop((y, world));
}

#[test]
fn errors_of_launches_that_had_to_run_are_kept() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    far_write(&x).unwrap();
    // These cannot return an error.
    assert!(world.memory_used() > 0);
    assert_eq!(tasks(&world), 1);
    let error = x.get(0).unwrap_err();
    assert_eq!(error.code, "W0401");
    assert_eq!(x.get(1).unwrap(), 1.0);
}

#[test]
fn graphs_print_their_tasks_and_states() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    let y = world.field::<f32, 1>("y", 100).unwrap();
    copy_plus(&x, &y, 1.0).unwrap();
    shift(&y, &x).unwrap();
    let (before, after) = world.flow_graph();
    assert_eq!((before.tasks(), after.tasks()), (2, 2));
    let text = before.to_string();
    assert!(
        text.contains("writes y") && text.contains("<- 0 (value: y)"),
        "{text}"
    );
    assert!(before.dot().contains("n0 -> n1"));
    assert!(before.svg().starts_with("<svg"));
}

#[test]
fn deterministic_sums_have_the_bits_of_an_eager_world() {
    let run = |lazy: bool| {
        let builder = World::builder().deterministic(true).threads(2);
        let world = builder.lazy(lazy).build().unwrap();
        let x = world.field::<f32, 1>("x", 100_000).unwrap();
        let y = world.field::<f32, 1>("y", 100_000).unwrap();
        let sum = world.field::<f32, 0>("sum", [0_usize; 0]).unwrap();
        let values: Vec<f32> = (0..100_000).map(|i| (i as f32 * 0.37).sin()).collect();
        y.copy_from(&values).unwrap();
        copy_plus(&y, &x, 0.1).unwrap();
        product(&x, &y).unwrap();
        copy_plus(&y, &x, 0.3).unwrap();
        total(&x, &sum).unwrap();
        let first = sum.get([0_i32; 0]).unwrap();
        (first.to_bits(), x.to_vec().unwrap(), tasks(&world))
    };
    let (lazy, eager) = (run(true), run(false));
    assert_eq!((lazy.0, lazy.1), (eager.0, eager.1));
    assert_eq!(lazy.2, 3);
}

#[kernel]
fn product(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = x[[i]] * y[[i]];
    }
}

#[test]
fn time_limits_are_those_of_single_launches() {
    let limit = std::time::Duration::from_secs(100);
    let world = World::builder()
        .lazy(true)
        .time_limit(limit)
        .build()
        .unwrap();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    add(&x, 1.0).unwrap();
    add(&x, 1.0).unwrap();
    assert_eq!(x.get(0).unwrap(), 2.0);
    assert_eq!(tasks(&world), 2);
}

#[test]
fn fills_wait() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    let y = world.field::<f32, 1>("y", 100).unwrap();
    for _ in 0..5 {
        x.fill(1.0).unwrap();
        copy_plus(&x, &y, 2.0).unwrap();
    }
    assert_eq!(tasks(&world), 0);
    assert_eq!((x.get(3).unwrap(), y.get(3).unwrap()), (1.0, 3.0));
    assert_eq!(tasks(&world), 1);
}

#[test]
fn rules_can_be_switched_off() {
    let run = |without: &[&str]| {
        let world = World::builder()
            .lazy(true)
            .without(without)
            .build()
            .unwrap();
        let x = world.field::<f32, 1>("x", 100).unwrap();
        set(&x, 1.0).unwrap();
        set(&x, 2.0).unwrap();
        add(&x, 1.0).unwrap();
        assert_eq!(x.get(3).unwrap(), 3.0);
        tasks(&world)
    };
    assert_eq!(run(&[]), 1);
    assert_eq!(run(&["task_fusion"]), 2);
    assert_eq!(run(&["task_fusion", "dead_store_elimination"]), 3);
}

#[kernel]
fn move_in_order(order: &Field<i32, 1>, x: &Field<f32, 1>, v: &Field<f32, 1>) {
    for [i] in order {
        let p = loop_permutation(order[[i]], 101);
        x[[p]] = x[[p]] + v[[p]];
    }
}

#[kernel]
fn kick_in_order(order: &Field<i32, 1>, v: &Field<f32, 1>, x: &Field<f32, 1>) {
    for [i] in order {
        let p = loop_permutation(order[[i]], 101);
        v[[p]] = v[[p]] - 0.5 * x[[p]];
    }
}

#[kernel]
fn kick_anyhow(order: &Field<i32, 1>, v: &Field<f32, 1>, x: &Field<f32, 1>) {
    for [i] in order {
        let p = order[[i]];
        v[[p]] = v[[p]] - 0.5 * x[[p]];
    }
}

#[test]
fn loops_with_the_same_unique_indices_are_fused() {
    let run = |world: &World, hint: bool| {
        let order = world.field::<i32, 1>("order", 101).unwrap();
        let x = world.field::<f32, 1>("x", 101).unwrap();
        let v = world.field::<f32, 1>("v", 101).unwrap();
        let permutation: Vec<i32> = (0..101).map(|i| i * 7 % 101).collect();
        order.copy_from(&permutation).unwrap();
        x.copy_from(&(0..101).map(|i| i as f32).collect::<Vec<_>>())
            .unwrap();
        v.fill(1.0).unwrap();
        world.flush().unwrap();
        let before = tasks(world);
        for _ in 0..4 {
            move_in_order(&order, &x, &v).unwrap();
            if hint {
                kick_in_order(&order, &v, &x).unwrap();
            } else {
                kick_anyhow(&order, &v, &x).unwrap();
            }
        }
        let found = x.to_vec().unwrap();
        (found, tasks(world) - before)
    };
    let eager = run(&World::builder().threads(2).build().unwrap(), true).0;
    assert_eq!(run(&lazy(), true), (eager.clone(), 1));
    // Without the hint, nothing says that iterations have particles of their own.
    assert_eq!(run(&lazy(), false), (eager, 8));
}

#[test]
fn the_graph_says_why_tasks_were_not_fused() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 64).unwrap();
    let y = world.field::<f32, 1>("y", 64).unwrap();
    add(&x, 1.0).unwrap();
    shift(&x, &y).unwrap();
    first(&y, 10, 1.0).unwrap();
    let (before, after) = world.flow_graph();
    assert!(before.unfused().is_empty());
    let expected = [
        "add and shift: an iteration accesses elements of x that other iterations write",
        "shift and first: they run over different iterations",
    ];
    assert_eq!(after.unfused(), expected);
    assert!(
        after.to_string().contains("not fused with 0: an iteration"),
        "{after}"
    );
}

#[test]
fn the_profiler_attributes_the_time_of_fused_tasks() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 10_000).unwrap();
    let y = world.field::<f32, 1>("y", 10_000).unwrap();
    world.profiler().start();
    for _ in 0..5 {
        add(&x, 1.0).unwrap();
        copy_plus(&x, &y, 2.0).unwrap();
    }
    world.synchronize().unwrap();
    let report = world.profiler().report();
    let names: Vec<String> = report
        .by_kernel()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(names.contains(&"add".to_owned()), "{names:?}");
    assert!(names.contains(&"copy_plus".to_owned()), "{names:?}");
    assert!(names.iter().all(|name| !name.contains('+')), "{names:?}");
    let whole: std::time::Duration = report.tasks().iter().map(|t| t.total).sum();
    let divided: std::time::Duration = report.by_kernel().iter().map(|(_, time)| *time).sum();
    assert!(
        whole.abs_diff(divided).as_nanos() < 1000,
        "{whole:?} {divided:?}"
    );
    assert!(report.to_string().contains("were fused"), "{report}");
}

#[test]
fn traces_show_the_kernels_in_a_fused_task() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 10_000).unwrap();
    let y = world.field::<f32, 1>("y", 10_000).unwrap();
    world.profiler().start();
    add(&x, 1.0).unwrap();
    copy_plus(&x, &y, 2.0).unwrap();
    world.flush().unwrap();
    shift(&x, &y).unwrap();
    world.synchronize().unwrap();
    let trace = world.profiler().trace();
    let named = |kernel: &str| trace.matches(&format!("\"name\":\"{kernel}\"")).count();
    assert_eq!((named("add"), named("copy_plus")), (1, 1), "{trace}");
    assert_eq!(trace.matches("\"fused into\":\"add+copy_plus\"").count(), 2);
    assert_eq!(
        trace.matches("\"cat\":\"kernel\"").count(),
        2,
        "nothing of `shift`"
    );
}

#[kernel]
fn table(y: &Field<i32, 2>) {
    for [i, j] in y {
        y[[i, j]] = 10 * i + j;
    }
}

#[kernel]
fn point(r: &Field<f32, 0>, value: f32) {
    r[[]] = value;
}

#[test]
fn small_tasks_run_side_by_side() {
    let run = |builder: wuji::WorldBuilder| {
        let world = builder.lazy(true).build().unwrap();
        let x = world.field::<f32, 1>("x", 40).unwrap();
        let y = world.field::<i32, 2>("y", [5, 7]).unwrap();
        let r = world.field::<f32, 0>("r", [0_usize; 0]).unwrap();
        let large = world.field::<f32, 1>("large", 1 << 20).unwrap();
        set(&x, 2.5).unwrap();
        table(&y).unwrap();
        point(&r, 7.0).unwrap();
        set(&large, 1.0).unwrap();
        world.flush().unwrap();
        assert_eq!(x.to_vec().unwrap(), vec![2.5; 40]);
        assert_eq!(y.get([4, 6]).unwrap(), 46);
        let expected: Vec<i32> = (0..35).map(|k| 10 * (k / 7) + k % 7).collect();
        assert_eq!(y.to_vec().unwrap(), expected);
        assert_eq!(r.get(()).unwrap(), 7.0);
        assert_eq!(large.get(99).unwrap(), 1.0);
        tasks(&world)
    };
    assert_eq!(run(World::builder()), 2);
    assert_eq!(run(World::builder().interpreter()), 2);
    assert_eq!(run(World::builder().without(&["horizontal_fusion"])), 4);
}

#[test]
fn small_tasks_that_depend_on_each_other_stay_apart() {
    let world = lazy();
    let x = world.field::<f32, 1>("x", 40).unwrap();
    let r = world.field::<f32, 0>("r", [0_usize; 0]).unwrap();
    set(&x, 2.0).unwrap();
    total(&x, &r).unwrap();
    first(&x, 3, 1.0).unwrap();
    assert_eq!(r.get(()).unwrap(), 80.0);
    assert_eq!(x.get(2).unwrap(), 3.0);
}

#[test]
fn stores_to_sparse_fields_that_are_overwritten_are_not_computed() {
    let world = lazy();
    let place = |root: wuji::Node<'_>| root.pointer(I, 8).dense(I, 8).place::<f32, 1>("x");
    let x = world.layout(place).unwrap();
    x.set(20, 1.0).unwrap();
    x.set(50, 1.0).unwrap();
    for k in 0..5 {
        set(&x, k as f32).unwrap();
    }
    let (_, after) = world.flow_graph();
    assert_eq!(after.names(), ["set"]);
    let values = x.to_vec().unwrap();
    assert_eq!((values[20], values[23], values[48]), (4.0, 4.0, 4.0));
    assert_eq!((values[0], values[40]), (0.0, 0.0));
}

#[kernel]
fn add_half(x: &Field<f32, 1>, amount: f32) {
    let half = 0.5 * amount;
    let more = half * half;
    for [i] in x {
        x[[i]] += half + more;
    }
}

#[test]
fn values_from_before_a_loop_are_there_in_the_fused_one() {
    let run = |world: &World| {
        let x = world.field::<f32, 1>("x", 33).unwrap();
        add(&x, 1.0).unwrap();
        add_half(&x, 2.0).unwrap();
        add_half(&x, 3.0).unwrap();
        let (_, after) = world.flow_graph();
        (x.to_vec().unwrap(), after.tasks())
    };
    let (lazily, tasks) = run(&lazy());
    let (eagerly, _) = run(&World::builder().threads(2).build().unwrap());
    assert_eq!((lazily, tasks), (eagerly, 1));
}

#[kernel]
fn gather(index: &Field<i32, 1>, from: &Field<f32, 1>, to: &Field<f32, 1>, scale: f32) {
    for [i] in to {
        let k = index[[index[[i]]]];
        to[[i]] = scale * from[[k]] + scale;
    }
}

/// What two kernels compute alike from fields that neither writes is computed once, if their arguments are the same.
#[test]
fn equal_arguments_make_equal_values() {
    let run = |world: &World, scales: [f32; 2]| {
        let index = world.field::<i32, 1>("index", 40).unwrap();
        let from = world.field::<f32, 1>("from", 40).unwrap();
        let to = ["a", "b"].map(|name| world.field::<f32, 1>(name, 40).unwrap());
        index
            .copy_from(&(0..40).map(|i| i * 7 % 40).collect::<Vec<i32>>())
            .unwrap();
        from.copy_from(&(0..40).map(|i| i as f32).collect::<Vec<f32>>())
            .unwrap();
        for (to, scale) in to.iter().zip(scales) {
            gather(&index, &from, to, scale).unwrap();
        }
        to.map(|to| to.to_vec().unwrap())
    };
    let world = lazy();
    let eager = World::builder().threads(2).build().unwrap();
    for scales in [[2.0, 2.0], [2.0, 3.0], [3.0, 3.0], [0.0, -0.0]] {
        assert_eq!(run(&world, scales), run(&eager, scales), "{scales:?}");
    }
}

#[kernel]
fn blur_rows(from: &Field<f32, 2>, to: &Field<f32, 2>) {
    for [i, j] in to {
        to[[i, j]] = (from[[i, j - 1]] + from[[i, j]] + from[[i, j + 1]]) / 3.0;
    }
}

#[kernel]
fn blur_columns(from: &Field<f32, 2>, to: &Field<f32, 2>) {
    for [i, j] in to {
        to[[i, j]] = (from[[i - 1, j]] + from[[i, j]] + from[[i + 1, j]]) / 3.0;
    }
}

/// A blur with a field of its own.
fn blur(world: &World, x: &Field<f32, 2>, y: &Field<f32, 2>) {
    let rows = world.field::<f32, 2>("rows", [19, 23]).unwrap();
    blur_rows(x, &rows).unwrap();
    blur_columns(&rows, y).unwrap();
}

/// What a field holds that is gone with its window is neither stored nor loaded.
#[test]
fn temporaries_are_computed_again() {
    let run = |builder: wuji::WorldBuilder| {
        let world = builder.math(Math::Strict).build().unwrap();
        let x = world.field::<f32, 2>("x", [19, 23]).unwrap();
        let y = world.field::<f32, 2>("y", [19, 23]).unwrap();
        let values = (0..19 * 23).map(|k| (k as f32 * 0.7).sin());
        x.copy_from(&values.collect::<Vec<f32>>()).unwrap();
        blur(&world, &x, &y);
        let (_, after) = world.flow_graph();
        let names = after.names().join(" ");
        (y.to_vec().unwrap(), names, tasks(&world))
    };
    let (eager, ..) = run(World::builder().threads(2).lazy(false));
    let (lazily, names, count) = run(World::builder().threads(2).lazy(true));
    assert!(lazily == eager && count == 1, "{count} tasks");
    assert_eq!(names, "blur_rows+blur_columns");
    let (without, _, count) = run(World::builder()
        .threads(2)
        .lazy(true)
        .without(&["halo_recomputation"]));
    assert!(without == eager && count == 2, "{count} tasks");
}

/// A field that the program still has keeps its values.
#[test]
fn fields_that_can_be_read_are_stored() {
    let world = lazy();
    let [x, rows, y] = ["x", "rows", "y"].map(|n| world.field::<f32, 2>(n, [8, 8]).unwrap());
    x.fill(3.0).unwrap();
    blur_rows(&x, &rows).unwrap();
    blur_columns(&rows, &y).unwrap();
    assert_eq!(y.get([4, 4]).unwrap(), 3.0);
    assert_eq!(rows.get([4, 4]).unwrap(), 3.0);
    assert_eq!(rows.get([4, 0]).unwrap(), 2.0);
}

#[kernel]
fn first_code(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] += 1.0;
    }
}

/// A kernel that only runs fused has no code of its own.
#[test]
fn kernels_that_run_fused_are_not_compiled() {
    // Code of an earlier run would be loaded.
    let builder = World::builder().threads(1).lazy(true);
    let world = builder.cache(wuji::CacheChoice::Off).build().unwrap();
    let compiled = || {
        let kernels = world.profiler().kernels().into_iter();
        let compiled = kernels.filter(|kernel| !kernel.compilations.is_empty());
        compiled.map(|kernel| kernel.name).collect::<Vec<String>>()
    };
    let x = world.field::<f32, 1>("x", 100).unwrap();
    for _ in 0..8 {
        first_code(&x).unwrap();
    }
    assert_eq!(x.get(1).unwrap(), 8.0);
    assert!(!compiled().contains(&"first_code".to_owned()));
    // Alone, it has.
    first_code(&x).unwrap();
    assert_eq!(x.get(1).unwrap(), 9.0);
    assert!(compiled().contains(&"first_code".to_owned()));
}
