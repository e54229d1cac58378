//! Code for the loop bounds and array shapes that kernels are launched with.

use crate::backend;
use wuji::prelude::*;

fn world() -> World {
    backend::builder()
        .specialize(true)
        .lazy(false)
        .build()
        .unwrap()
}

#[kernel]
fn blur(u: &NdArray<f32, 2>, v: &NdArray<f32, 2>, n: i32, m: i32) {
    for i in 1..n - 1 {
        for j in 1..m - 1 {
            v[[i, j]] = u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]];
        }
    }
}

#[kernel]
fn total(x: &NdArray<i32, 1>, n: i32) -> i32 {
    let mut sum = 0;
    for i in 0..n {
        sum += x[[i]];
    }
    sum
}

#[kernel]
fn mark(x: &Field<i32, 1>, from: i32, to: i32) {
    for i in from..to {
        x[[i]] = i;
    }
}

#[kernel]
fn draw(x: &Field<f32, 2>, n: i32) {
    for [i, j] in grid([0..n, 0..n]) {
        x[[i, j]] = random::<f32>();
    }
}

fn compiled(world: &World, name: &str) -> usize {
    let kernels = world.kernel_history();
    kernels.iter().filter(|k| k.name == name).count()
}

fn expected(u: &[f32], n: usize, m: usize) -> Vec<f32> {
    let mut v = vec![0.0; n * m];
    for i in 1..n - 1 {
        for j in 1..m - 1 {
            let at = |i: usize, j: usize| u[i * m + j];
            v[i * m + j] = at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1);
        }
    }
    v
}

fn check_blur(world: &World, n: usize, m: usize) {
    let shape = [n as i64, m as i64];
    let (u, v) = (
        world.nd_array::<f32, 2>("u", shape).unwrap(),
        world.nd_array::<f32, 2>("v", shape).unwrap(),
    );
    let start: Vec<f32> = (0..n * m).map(|k| (k * 7 % 31) as f32).collect();
    u.copy_from(&start).unwrap();
    for _ in 0..2 {
        blur(&u, &v, n as i32, m as i32).unwrap();
        assert!(v.to_vec().unwrap() == expected(&start, n, m), "{n} x {m}");
        v.fill(0.0).unwrap();
        world.finish_compiling().unwrap();
    }
}

#[test]
fn arrays_of_other_shapes_use_the_general_code() {
    let world = world();
    for (n, m) in [
        (16, 64),
        (17, 33),
        (16, 64),
        (8, 32),
        (64, 128),
        (3, 3),
        (5, 4),
    ] {
        check_blur(&world, n, m);
    }
    // Not for each of them: there is a limit.
    assert_eq!(compiled(&world, "blur"), 5);
}

#[test]
fn results_are_the_same() {
    let world = world();
    let x = world.nd_array::<i32, 1>("x", 1000).unwrap();
    x.copy_from(&(0..1000).collect::<Vec<i32>>()).unwrap();
    let sum = |n: i32| total(&x, n).unwrap();
    assert_eq!(sum(1000), 499_500);
    world.finish_compiling().unwrap();
    assert_eq!(compiled(&world, "total"), 2);
    assert_eq!(sum(1000), 499_500);
    assert_eq!(sum(10), 45);
    assert_eq!(sum(-3), 0);
    world.finish_compiling().unwrap();
    assert_eq!(sum(-3), 0);
    assert_eq!(sum(1000), 499_500);
}

#[test]
fn errors_are_the_same() {
    let world = world();
    let x = world.field::<i32, 1>("x", 8).unwrap();
    let general = mark(&x, 2, 12).and_then(|()| world.synchronize());
    let general = general.unwrap_err().to_string();
    world.finish_compiling().unwrap();
    let special = mark(&x, 2, 12).and_then(|()| world.synchronize());
    assert_eq!(special.unwrap_err().to_string(), general);
    assert!(general.contains("W0401"), "{general}");
    assert_eq!(x.to_vec().unwrap(), [0, 0, 2, 3, 4, 5, 6, 7]);
    mark(&x, 0, 2).unwrap();
    assert_eq!(x.to_vec().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn random_numbers_are_the_same() {
    let drawn = |specialize: bool| {
        let world = backend::builder().specialize(specialize).build().unwrap();
        let x = world.field::<f32, 2>("x", [24, 40]).unwrap();
        draw(&x, 24).unwrap();
        world.finish_compiling().unwrap();
        draw(&x, 24).unwrap();
        (compiled(&world, "draw"), x.to_vec().unwrap())
    };
    let (general, special) = (drawn(false), drawn(true));
    assert_eq!((general.0, special.0), (1, 2));
    assert!(general.1 == special.1);
}

#[test]
fn debug_and_deterministic_worlds_keep_the_general_code() {
    for builder in [
        backend::builder().debug(true),
        World::builder().threads(2).deterministic(true),
    ] {
        let world = builder.specialize(true).build().unwrap();
        let x = world.field::<i32, 1>("x", 8).unwrap();
        mark(&x, 0, 8).unwrap();
        world.finish_compiling().unwrap();
        assert_eq!(compiled(&world, "mark"), 1);
    }
}

macro_rules! scatters {
    ($($name:ident: $number:ty, $update:ident, $value:expr;)*) => {$(
        mod $name {
            use wuji::prelude::*;

            #[kernel]
            pub(super) fn scatter(keys: &NdArray<i32, 1>, values: &NdArray<$number, 1>, to: &NdArray<$number, 1>) {
                for [i] in keys {
                    to.at([keys[[i]]]).$update(values[[i]]);
                }
            }

            #[test]
            fn copies_of_arrays_give_the_same() {
                const N: i64 = 40_000;
                // More than one block, and the last one is not full.
                const CELLS: i64 = 3000;
                let value: fn(i64) -> $number = $value;
                let special = super::world();
                let plain = World::interpreter().unwrap();
                let arrays = |world: &World| {
                    let keys = world.nd_array::<i32, 1>("keys", N).unwrap();
                    let values = world.nd_array::<$number, 1>("values", N).unwrap();
                    let to = world.nd_array::<$number, 1>("to", CELLS).unwrap();
                    // The cells in the middle are not updated.
                    let key = |i: i64| match i * 7 % 2000 {
                        k if k < 1000 => k,
                        k => k + 1000,
                    };
                    keys.copy_from(&(0..N).map(|i| key(i) as i32).collect::<Vec<_>>()).unwrap();
                    values.copy_from(&(0..N).map(value).collect::<Vec<_>>()).unwrap();
                    to.copy_from(&(0..CELLS).map(|i| value(i * 5)).collect::<Vec<_>>()).unwrap();
                    (keys, values, to)
                };
                let (ours, expected) = (arrays(&special), arrays(&plain));
                for _ in 0..3 {
                    scatter(&ours.0, &ours.1, &ours.2).unwrap();
                    scatter(&expected.0, &expected.1, &expected.2).unwrap();
                    let (found, right) = (ours.2.to_vec().unwrap(), expected.2.to_vec().unwrap());
                    assert!(found == right, "{found:?}\n{right:?}");
                    special.finish_compiling().unwrap();
                }
                assert_eq!(super::compiled(&special, "scatter"), 2);
            }
        }
    )*};
}

scatters! {
    sums_i8: i8, fetch_add, |i| (i % 100) as i8;
    sums_u16: u16, fetch_add, |i| i as u16;
    sums_i32: i32, fetch_add, |i| i as i32 * 10_007;
    sums_f32: f32, fetch_add, |i| (i % 16) as f32 * 0.5;
    sums_f64: f64, fetch_add, |i| i as f64 * 0.125;
    least_i64: i64, fetch_min, |i| i * 7919 % 10_007 - 5000;
    greatest_u8: u8, fetch_max, |i| (i * 31 % 256) as u8;
    least_f32: f32, fetch_min, |i| (i * 7919 % 10_007) as f32 - 5000.0;
    greatest_f64: f64, fetch_max, |i| (i * 7919 % 10_007) as f64 - 5000.0;
    ands_u32: u32, fetch_and, |i| !(1 << (i % 32));
    ors_u64: u64, fetch_or, |i| 1 << (i * 3 % 64);
    xors_i16: i16, fetch_xor, |i| (i * 77) as i16;
}

#[kernel]
fn deposit(at: &NdArray<Vec2, 1>, momentum: &NdArray<Vec2, 2>, mass: &NdArray<f32, 2>) {
    for [p] in at {
        let cell = at[[p]].cast::<i32>();
        for i in 0..3 {
            for j in 0..3 {
                let to = cell + ivec2(i, j);
                momentum[to] += at[[p]] * 0.25;
                mass[to] += 1.0;
            }
        }
    }
}

#[test]
fn a_changed_shape_and_a_mistake_leave_no_updates_behind() {
    let world = world();
    let particles = 20_000;
    let at = world.nd_array::<Vec2, 1>("at", particles).unwrap();
    let inside = |p: i64| vec2((p % 7) as f32, (p % 5) as f32);
    let all: Vec<Vec2> = (0..particles).map(inside).collect();
    let arrays = |n: i64| {
        let momentum = world.nd_array::<Vec2, 2>("momentum", [n, n]).unwrap();
        (momentum, world.nd_array::<f32, 2>("mass", [n, n]).unwrap())
    };
    let (small, large) = (arrays(16), arrays(32));
    let run = |(momentum, mass): &(NdArray<Vec2, 2>, NdArray<f32, 2>)| {
        momentum.fill(vec2(0.0, 0.0)).unwrap();
        mass.fill(0.0).unwrap();
        deposit(&at, momentum, mass).and_then(|()| world.synchronize())
    };
    let is_complete = |(momentum, mass): &(NdArray<Vec2, 2>, NdArray<f32, 2>)| {
        let sum: f32 = mass.to_vec().unwrap().iter().sum();
        let x: f64 = (momentum.to_vec().unwrap().iter())
            .map(|m| f64::from(m.x))
            .sum();
        let expected: f64 = (0..particles).map(|p| 9.0 * 0.25 * (p % 7) as f64).sum();
        sum == 9.0 * particles as f32 && x == expected
    };
    for round in 0..3 {
        at.copy_from(&all).unwrap();
        run(&small).unwrap();
        assert!(is_complete(&small), "round {round}");
        world.finish_compiling().unwrap();
        run(&large).unwrap();
        assert!(is_complete(&large), "round {round}");
        // Some particles lie outside: what they would have added is dropped, and the error is reported.
        let outside: Vec<Vec2> = (all.iter().enumerate())
            .map(|(p, at)| if p % 1000 == 3 { vec2(-9.0, 99.0) } else { *at })
            .collect();
        at.copy_from(&outside).unwrap();
        let error = run(&small).unwrap_err();
        assert_eq!(error.code, "W0401");
        at.copy_from(&all).unwrap();
        run(&small).unwrap();
        assert!(is_complete(&small), "round {round}, after an error");
    }
}

#[test]
fn on_a_cpu_kernels_that_scatter_into_arrays_are_specialized_by_default() {
    for (threads, times) in [(2, 2), (1, 1)] {
        let world = World::builder()
            .threads(threads)
            .lazy(false)
            .build()
            .unwrap();
        let keys = world.nd_array::<i32, 1>("keys", 1000).unwrap();
        let values = world.nd_array::<f32, 1>("values", 1000).unwrap();
        let to = world.nd_array::<f32, 1>("to", 10).unwrap();
        values.fill(1.0).unwrap();
        for round in 1..4 {
            sums_f32::scatter(&keys, &values, &to).unwrap();
            let found = to.to_vec().unwrap();
            assert_eq!(found[0], round as f32 * 1000.0);
            check_blur(&world, 16, 64);
        }
        assert_eq!(compiled(&world, "scatter"), times, "{threads} threads");
        assert_eq!(compiled(&world, "blur"), 1);
    }
}

mod boundaries {
    use wuji::prelude::*;

    #[kernel]
    pub(super) fn select(u: &Field<f32, 1>, v: &Field<f32, 1>, n: i32) {
        for [i] in v {
            let left = if i > 0 { i - 1 } else { n - 1 };
            let right = if i + 1 < n { i + 1 } else { 0 };
            v[[i]] = 2.0 * u[[left]] + u[[right]];
        }
    }

    #[kernel]
    pub(super) fn assign(u: &Field<f32, 1>, v: &Field<f32, 1>, n: i32) {
        for [i] in v {
            let mut left = i - 1;
            if left < 0 {
                left = n - 1;
            }
            let mut right = i + 1;
            if right >= n {
                right = 0;
            }
            v[[i]] = 2.0 * u[[left]] + u[[right]];
        }
    }

    #[kernel]
    pub(super) fn remainder(u: &Field<f32, 1>, v: &Field<f32, 1>, n: i32) {
        for [i] in v {
            v[[i]] = 2.0 * u[[(i - 1 + n) % n]] + u[[(i + 1) % n]];
        }
    }

    #[func]
    fn wrap(i: i32, n: i32) -> i32 {
        (i + n) % n
    }

    #[kernel]
    pub(super) fn call(u: &Field<f32, 1>, v: &Field<f32, 1>, n: i32) {
        for [i] in v {
            v[[i]] = 2.0 * u[[wrap(i - 1, n)]] + u[[wrap(i + 1, n)]];
        }
    }

    #[kernel]
    pub(super) fn clamp(u: &Field<f32, 1>, v: &Field<f32, 1>, n: i32) {
        for [i] in v {
            v[[i]] = 2.0 * u[[(i - 1).max(0)]] + u[[(i + 1).min(n - 1)]];
        }
    }

    #[kernel]
    pub(super) fn extent(u: &NdArray<f32, 1>, v: &NdArray<f32, 1>) {
        for [i] in v {
            let n = u.shape()[0];
            v[[i]] = 2.0 * u[[(i - 1 + n) % n]] + u[[(i + 1) % n]];
        }
    }

    /// No boundary depends on `t` or `s`.
    #[kernel]
    pub(super) fn step(u: &Field<f32, 1>, v: &Field<f32, 1>, t: i32, s: i32) {
        for [i] in v {
            v[[i]] = u[[t % 2]] + u[[i + s]];
        }
    }
}

type Boundary = fn(&Field<f32, 1>, &Field<f32, 1>, i32) -> wuji::Result<()>;

/// The periodic or clamped sums of the first `n` numbers, for all elements of `v`.
fn neighbours(u: &[f32], n: usize, clamped: bool) -> Vec<f32> {
    let at = |i: usize| u.get(i).copied().unwrap_or(0.0);
    let sum = |i: usize| {
        if clamped {
            2.0 * at(i.saturating_sub(1)) + at((i + 1).min(n - 1))
        } else {
            2.0 * at((i + n - 1) % n) + at((i + 1) % n)
        }
    };
    (0..u.len()).map(sum).collect()
}

#[test]
fn on_a_cpu_kernels_with_boundaries_are_specialized_by_default() {
    const N: usize = 100;
    let start: Vec<f32> = (0..N).map(|k| (k * 7 % 31) as f32).collect();
    let kernels: [(&str, Boundary, bool); 5] = [
        ("select", boundaries::select, false),
        ("assign", boundaries::assign, false),
        ("remainder", boundaries::remainder, false),
        ("call", boundaries::call, false),
        ("clamp", boundaries::clamp, true),
    ];
    for (name, kernel, clamped) in kernels {
        let world = World::builder().threads(1).lazy(false).build().unwrap();
        let u = world.field::<f32, 1>("u", N).unwrap();
        let v = world.field::<f32, 1>("v", N).unwrap();
        u.copy_from(&start).unwrap();
        let check = || {
            kernel(&u, &v, N as i32).unwrap();
            assert!(
                v.to_vec().unwrap() == neighbours(&start, N, clamped),
                "{name}"
            );
        };
        check();
        world.finish_compiling().unwrap();
        assert_eq!(compiled(&world, name), 2, "{name}");
        check();
        // Beyond the field: the general code, with its checks.
        kernel(&u, &v, 2 * N as i32).unwrap();
        check();
    }
    let world = World::builder().threads(1).lazy(false).build().unwrap();
    let u = world.nd_array::<f32, 1>("u", N).unwrap();
    let v = world.nd_array::<f32, 1>("v", N).unwrap();
    u.copy_from(&start).unwrap();
    for _ in 0..2 {
        boundaries::extent(&u, &v).unwrap();
        assert!(v.to_vec().unwrap() == neighbours(&start, N, false));
        world.finish_compiling().unwrap();
        assert_eq!(compiled(&world, "extent"), 2);
    }
    let u = world.field::<f32, 1>("u", N).unwrap();
    boundaries::step(&u, &u, 3, 1).unwrap();
    world.finish_compiling().unwrap();
    assert_eq!(compiled(&world, "step"), 1);
}
