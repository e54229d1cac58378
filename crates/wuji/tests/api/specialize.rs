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
