//! `#[func]`s that take fields and arrays, and how calls of functions are recorded.

#[cfg(target_os = "linux")]
use crate::process::isolated;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use wuji::prelude::*;

fn worlds() -> [World; 2] {
    [
        World::interpreter().unwrap(),
        World::builder().threads(2).build().unwrap(),
    ]
}

fn cells(data: &mut [i32]) -> &[Cell<i32>] {
    Cell::from_mut(data).as_slice_of_cells()
}

#[func]
fn put(out: &mut [f32], at: usize, value: f32) {
    out[at] = value;
}

#[func]
fn corner(from: &Array<f32, 2>, into: &mut ArrayMut<f32, 2>) -> f32 {
    into[[0, 1]] = from[[1, 0]];
    from[[1, 1]] + into.shape().y as f32
}

#[func]
fn shifted(x: &Field<f32, 1>, plain: &[f32], i: i32) -> f32 {
    let k = i as usize;
    x[[i + 1]] + plain[k]
}

#[func]
fn swap(a: &SharedArray<i32, 1>, b: &SharedArray<i32, 1>, i: i64) {
    let old = a[i];
    a[i] = b[i];
    b[i] = old;
}

#[kernel]
fn all(
    x: &Field<f32, 1>,
    out: &mut [f32],
    from: &Array<f32, 2>,
    into: &mut ArrayMut<f32, 2>,
    a: &SharedArray<i32, 1>,
    b: &SharedArray<i32, 1>,
) -> f32 {
    put(out, 0, 5.0);
    put(out, 1, 6.0);
    let first = corner(from, into);
    let second = corner(from, into);
    for [i] in serial(x) {
        x[[i]] = shifted(x, out, i);
    }
    swap(a, b, 1);
    first + second
}

#[test]
fn functions_take_fields_and_arrays() {
    for world in worlds() {
        let x = world.field::<f32, 1>("x", [2]).unwrap();
        x.copy_from(&[1.0, 2.0]).unwrap();
        let (mut out, mut into) = ([0.0; 2], [0.0; 6]);
        let (mut a, mut b) = ([1, 2], [3, 4]);
        let from = Array::new(&[1.0, 2.0, 3.0, 4.0], [2, 2]).unwrap();
        let mut grid = ArrayMut::new(&mut into, [2, 3]).unwrap();
        let left = SharedArray::new(cells(&mut a), [2]).unwrap();
        let right = SharedArray::new(cells(&mut b), [2]).unwrap();
        let sum = all(&x, &mut out, &from, &mut grid, &left, &right).unwrap();
        assert_eq!(sum, 14.0);
        assert_eq!(out, [5.0, 6.0]);
        assert_eq!(into, [0.0, 3.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(x.to_vec().unwrap(), [7.0, 6.0]);
        assert_eq!((a, b), ([1, 4], [3, 2]));
    }
}

/// What is beyond the ends of a row.
trait Edge: 'static {
    #[func]
    fn read(x: &Field<f32, 1>, i: i32) -> f32;
}

struct Zero;
struct Around;

impl Edge for Zero {
    #[func]
    fn read(x: &Field<f32, 1>, i: i32) -> f32 {
        x[[i]]
    }
}

impl Edge for Around {
    #[func]
    fn read(x: &Field<f32, 1>, i: i32) -> f32 {
        x[[i.rem_euclid(x.shape().x)]]
    }
}

#[kernel]
fn blur<E: Edge>(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = E::read(x, i - 1) + E::read(x, i + 1);
    }
}

#[test]
fn functions_of_traits_take_fields() {
    for world in worlds() {
        let x = world.field::<f32, 1>("x", [3]).unwrap();
        let y = world.field::<f32, 1>("y", [3]).unwrap();
        x.copy_from(&[1.0, 2.0, 4.0]).unwrap();
        blur::<Zero>(&x, &y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [2.0, 5.0, 2.0]);
        blur::<Around>(&x, &y).unwrap();
        assert_eq!(y.to_vec().unwrap(), [6.0, 5.0, 3.0]);
    }
}

#[func]
fn first(a: &Array<f32, 8>, b: &ArrayMut<f32, 8>) -> f32 {
    a[[0; 8]] + b[[0; 8]]
}

#[func]
fn store(b: &mut ArrayMut<f32, 8>, value: f32) {
    b[[0, 0, 0, 0, 0, 0, 0, 0]] = value;
}

#[kernel]
fn many_calls(world: &World, a: &Array<f32, 8>, b: &mut ArrayMut<f32, 8>) -> f32 {
    store(b, 1.0);
    store(b, 2.0);
    store(b, 3.0);
    store(b, 4.0);
    store(b, 5.0);
    store(b, 6.0);
    let first4 = first(a, b) + first(a, b) + first(a, b) + first(a, b);
    first4 + first(a, b) + first(a, b) + first(a, b) + first(a, b)
}

/// Bytes of this process that are in memory.
#[cfg(target_os = "linux")]
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: i64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[cfg(target_os = "linux")]
#[test]
fn recorded_calls_free_their_memory() {
    isolated("functions::recorded_calls_free_their_memory", || {
        let record = |times: usize| {
            let mut out = [0.0];
            for _ in 0..times {
                // A world of its own, so that the kernel is recorded again.
                let world = World::interpreter().unwrap();
                let a = Array::new(&[0.5], [1; 8]).unwrap();
                let mut b = ArrayMut::new(&mut out, [1; 8]).unwrap();
                assert_eq!(many_calls(&world, &a, &mut b).unwrap(), 52.0);
            }
        };
        record(200);
        let before = resident();
        record(2000);
        let grown = resident() - before;
        assert!(grown < 2 << 20, "{grown} bytes");
    });
}

static RUNS: AtomicU32 = AtomicU32::new(0);

fn plain(x: f32) -> f32 {
    RUNS.fetch_add(1, Ordering::Relaxed);
    x
}

/// Named like a function of the language.
fn mix(a: f32, b: f32, t: f32) -> f32 {
    plain(a + b + t)
}

#[derive(Element, Clone, Copy, Debug)]
struct Ball {
    radius: f32,
}

trait Shape: Sized {
    #[func]
    fn area(self) -> f32;
}

impl Shape for Ball {
    #[func]
    fn area(self) -> f32 {
        self.radius * self.radius
    }
}

impl Shape for f32 {
    #[func]
    fn area(self) -> f32 {
        self
    }
}

impl Ball {
    #[func]
    fn with(radius: f32) -> Ball {
        Ball { radius }
    }

    /// Named like a method of the language.
    fn abs(self) -> f32 {
        plain(self.radius)
    }
}

const BALL: Ball = Ball { radius: 1.0 };

macro_rules! refused {
    ($($name:ident: $call:expr;)*) => {$(
        #[test]
        fn $name() {
            #[kernel]
            fn calls(x: &Field<f32, 1>) {
                for [i] in x {
                    x[[i]] = $call;
                }
            }
            for world in worlds() {
                let x = world.field::<f32, 1>("x", [2]).unwrap();
                let error = calls(&x).unwrap_err();
                assert_eq!(error.code, "W0240", "{error}");
            }
            assert_eq!(RUNS.load(Ordering::Relaxed), 0, "it was run");
        }
    )*};
}
refused! {
    plain_function_with_a_known_name: mix(1.0, 2.0, 0.5);
    plain_method_with_a_known_name_by_path: Ball::abs(BALL);
}

#[func]
fn total<S: Shape + Element>(a: S, b: S) -> f32 {
    a.area() + S::area(b)
}

#[kernel]
fn areas(world: &World, radius: f32) -> f32 {
    let ball = Ball::with(radius);
    let area = <Ball as Shape>::area(ball) + ball.area();
    area + (0.5f32).area() + total(ball, ball) + total(1.0f32, radius)
}

#[test]
fn methods_of_traits_are_declared_functions() {
    assert_eq!(total(Ball::with(2.0), Ball { radius: 1.0 }), 5.0);
    for world in worlds() {
        assert_eq!(areas(&world, 2.0).unwrap(), 19.5);
    }
}
