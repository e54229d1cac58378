//! Loops that are as fast as memory: sweeps, updates and sums over fields and arrays, as one loop or as nested ones.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use wuji::prelude::*;

use super::{Form, Forms};
use crate::case::{Contender, launches, noise};
use crate::host::Floats;

const N: usize = 4096;
const LONG: usize = 1 << 24;
/// Small, so that `y` keeps its magnitude over many samples.
const A: f32 = 1.0 / 1024.0;

pub(super) fn all() -> Vec<Forms> {
    vec![jacobi(), saxpy(), sum()]
}

fn form(name: &'static str, make: fn(&World) -> wuji::Result<Box<dyn Contender>>) -> Form {
    Form {
        name,
        without: &[],
        make,
    }
}

#[kernel]
fn jacobi_field(u: &Field<f32, 2>, v: &Field<f32, 2>) {
    for [i, j] in v {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn jacobi_grid(u: &Field<f32, 2>, v: &Field<f32, 2>, n: i32) {
    for [i, j] in grid([0..n, 0..n]) {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn jacobi_constant(u: &Field<f32, 2>, v: &Field<f32, 2>) {
    for i in 0..4096 {
        for j in 0..4096 {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
    }
}

#[kernel]
fn jacobi_nested(u: &Field<f32, 2>, v: &Field<f32, 2>, n: i32) {
    for i in 0..n {
        for j in 0..n {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
    }
}

#[kernel]
fn jacobi_columns(u: &Field<f32, 2>, v: &Field<f32, 2>, n: i32) {
    for j in 0..n {
        for i in 0..n {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
    }
}

/// A store before the inner loop, so that the two are no perfect nest.
#[kernel]
fn jacobi_rows(u: &Field<f32, 2>, v: &Field<f32, 2>, count: &Field<i32, 1>, n: i32) {
    for i in 0..n {
        count[[i]] = n;
        for j in 0..n {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
    }
}

#[kernel]
fn jacobi_array(_world: &World, u: &Array<f32, 2>, v: &mut ArrayMut<f32, 2>) {
    for [i, j] in v {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn jacobi_nested_array(_world: &World, u: &Array<f32, 2>, v: &mut ArrayMut<f32, 2>, n: i32) {
    for i in 0..n {
        for j in 0..n {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
    }
}

/// A sweep over fields.
fn sweep(
    world: &World,
    run: impl Fn(&Field<f32, 2>, &Field<f32, 2>) -> wuji::Result<()> + 'static,
) -> wuji::Result<Box<dyn Contender>> {
    let u = world.field::<f32, 2>("u", [N, N])?;
    let v = world.field::<f32, 2>("v", [N, N])?;
    let start: Vec<f32> = (0..N * N).map(noise).collect();
    u.copy_from(&start)?;
    let out = v.clone();
    Ok(launches(move || run(&u, &v), move || out.to_vec()))
}

/// A sweep over arrays.
fn sweep_arrays(
    run: impl Fn(&Array<f32, 2>, &mut ArrayMut<f32, 2>) -> wuji::Result<()> + 'static,
) -> Box<dyn Contender> {
    let u = Floats::new(N * N, noise);
    let v = Rc::new(RefCell::new(Floats::zeros(N * N)));
    let out = Rc::clone(&v);
    let launch = move || {
        let mut v = v.borrow_mut();
        run(
            &Array::new(&u, [N, N])?,
            &mut ArrayMut::new(&mut v, [N, N])?,
        )
    };
    launches(launch, move || Ok(out.borrow().to_vec()))
}

fn jacobi() -> Forms {
    Forms {
        name: "forms jacobi",
        size: "4096x4096",
        metric: "GB/s",
        work: 2.0 * 4.0 * (N * N) as f64 / 1e9,
        tolerance: 1e-6,
        forms: vec![
            form("field", |w| sweep(w, jacobi_field)),
            form("grid", |w| sweep(w, |u, v| jacobi_grid(u, v, N as i32))),
            form("nested, constant bounds", |w| sweep(w, jacobi_constant)),
            form("nested", |w| sweep(w, |u, v| jacobi_nested(u, v, N as i32))),
            form("nested columns", |w| {
                sweep(w, |u, v| jacobi_columns(u, v, N as i32))
            }),
            form("nested rows", |w| {
                let count = w.field::<i32, 1>("count", [N])?;
                sweep(w, move |u, v| jacobi_rows(u, v, &count, N as i32))
            }),
            form("array", |w| {
                let w = w.clone();
                Ok(sweep_arrays(move |u, v| jacobi_array(&w, u, v)))
            }),
            form("nested array", |w| {
                let w = w.clone();
                Ok(sweep_arrays(move |u, v| {
                    jacobi_nested_array(&w, u, v, N as i32)
                }))
            }),
        ],
    }
}

#[kernel]
fn saxpy_field(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[kernel]
fn saxpy_range(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>, n: i32) {
    for i in 0..n {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[kernel]
fn saxpy_array(_world: &World, a: f32, x: &[f32], y: &mut [f32]) {
    for i in 0..y.len() {
        y[i] = a * x[i] + y[i];
    }
}

fn long_field(world: &World, name: &str, first: usize) -> wuji::Result<Field<f32, 1>> {
    let x = world.field::<f32, 1>(name, [LONG])?;
    let start: Vec<f32> = (first..first + LONG).map(|i| noise(i) - 0.5).collect();
    x.copy_from(&start)?;
    Ok(x)
}

fn update(
    world: &World,
    run: impl Fn(&Field<f32, 1>, &Field<f32, 1>) -> wuji::Result<()> + 'static,
) -> wuji::Result<Box<dyn Contender>> {
    let (x, y) = (long_field(world, "x", 0)?, long_field(world, "y", LONG)?);
    let out = y.clone();
    Ok(launches(move || run(&x, &y), move || out.to_vec()))
}

fn saxpy() -> Forms {
    Forms {
        name: "forms saxpy",
        size: "2^24",
        metric: "GB/s",
        work: 3.0 * 4.0 * LONG as f64 / 1e9,
        tolerance: 1e-1,
        forms: vec![
            form("field", |w| update(w, |x, y| saxpy_field(A, x, y))),
            form("range", |w| {
                update(w, |x, y| saxpy_range(A, x, y, LONG as i32))
            }),
            form("array", |w| {
                let w = w.clone();
                let x = Floats::new(LONG, |i| noise(i) - 0.5);
                let y = Floats::new(LONG, |i| noise(LONG + i) - 0.5);
                let y = Rc::new(RefCell::new(y));
                let out = Rc::clone(&y);
                let run = move || saxpy_array(&w, A, &x, &mut y.borrow_mut());
                Ok(launches(run, move || Ok(out.borrow().to_vec())))
            }),
        ],
    }
}

#[kernel]
fn sum_field(x: &Field<f32, 1>) -> f32 {
    let mut total = 0.0;
    for [i] in x {
        total += x[[i]];
    }
    total
}

#[kernel]
fn sum_into(x: &Field<f32, 1>, total: &Field<f32, 0>) {
    total[[]] = 0.0;
    for [i] in x {
        total[[]] += x[[i]];
    }
}

#[kernel]
fn sum_array(_world: &World, x: &[f32]) -> f32 {
    let mut total = 0.0;
    for i in 0..x.len() {
        total += x[i];
    }
    total
}

#[kernel]
fn sum_nested(_world: &World, x: &Array<f32, 2>, n: i32) -> f32 {
    let mut total = 0.0;
    for i in 0..n {
        for j in 0..n {
            total += x[[i, j]];
        }
    }
    total
}

/// A sum that is returned.
fn returned(run: impl Fn() -> wuji::Result<f32> + 'static) -> Box<dyn Contender> {
    let total = Rc::new(Cell::new(0.0));
    let out = Rc::clone(&total);
    let run = move || {
        total.set(run()?);
        Ok(())
    };
    launches(run, move || Ok(vec![out.get()]))
}

fn positive() -> Floats {
    Floats::new(LONG, noise)
}

fn sum() -> Forms {
    Forms {
        name: "forms sum",
        size: "2^24",
        metric: "GB/s",
        work: 4.0 * LONG as f64 / 1e9,
        tolerance: 1e-4,
        forms: vec![
            form("field, returned", |w| {
                let x = w.field::<f32, 1>("x", [LONG])?;
                x.copy_from(&positive())?;
                Ok(returned(move || sum_field(&x)))
            }),
            form("field, into a field", |w| {
                let x = w.field::<f32, 1>("x", [LONG])?;
                x.copy_from(&positive())?;
                let total = w.field::<f32, 0>("total", [0_usize; 0])?;
                let out = total.clone();
                Ok(launches(
                    move || sum_into(&x, &total),
                    move || Ok(vec![out.get([0_i32; 0])?]),
                ))
            }),
            form("array, returned", |w| {
                let (w, x) = (w.clone(), positive());
                Ok(returned(move || sum_array(&w, &x)))
            }),
            form("nested array, returned", |w| {
                let (w, x) = (w.clone(), positive());
                Ok(returned(move || {
                    sum_nested(&w, &Array::new(&x, [N, N])?, N as i32)
                }))
            }),
        ],
    }
}
