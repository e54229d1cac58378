//! Particles that are added to the cells of a grid: a field, an array, and an array that is an argument.

use std::cell::RefCell;
use std::rc::Rc;

use wuji::prelude::*;

use super::{Form, Forms};
use crate::case::{Contender, launches, noise};
use crate::host::Floats;

const CELLS: usize = 128;
const PARTICLES: usize = 1 << 17;

type Make = fn(&World) -> wuji::Result<Box<dyn Contender>>;

pub(super) fn all() -> Vec<Forms> {
    let form = |name, make: Make| Form {
        name,
        without: &[],
        make,
    };
    vec![Forms {
        name: "forms scatter",
        size: "2^17 into 128x128",
        metric: "G/s",
        work: PARTICLES as f64 / 1e9,
        tolerance: 1e-4,
        forms: vec![
            form("field", into_field),
            form("array of the world", into_world_array),
            form("array", into_array),
        ],
    }]
}

/// Adds each particle to the four cells around it.
#[kernel]
fn scatter_field(x: &Field<f32, 1>, y: &Field<f32, 1>, mass: &Field<f32, 2>) {
    for [i, j] in mass {
        mass[[i, j]] = 0.0;
    }
    for [p] in x {
        let (a, b) = (127.0 * x[[p]], 127.0 * y[[p]]);
        let (i, j) = (a as i32, b as i32);
        let (s, t) = (a - i as f32, b - j as f32);
        mass[[i, j]] += (1.0 - s) * (1.0 - t);
        mass[[i + 1, j]] += s * (1.0 - t);
        mass[[i, j + 1]] += (1.0 - s) * t;
        mass[[i + 1, j + 1]] += s * t;
    }
}

#[kernel]
fn scatter_world_array(x: &NdArray<f32, 1>, y: &NdArray<f32, 1>, mass: &NdArray<f32, 2>) {
    for [i, j] in mass {
        mass[[i, j]] = 0.0;
    }
    for [p] in x {
        let (a, b) = (127.0 * x[[p]], 127.0 * y[[p]]);
        let (i, j) = (a as i32, b as i32);
        let (s, t) = (a - i as f32, b - j as f32);
        mass[[i, j]] += (1.0 - s) * (1.0 - t);
        mass[[i + 1, j]] += s * (1.0 - t);
        mass[[i, j + 1]] += (1.0 - s) * t;
        mass[[i + 1, j + 1]] += s * t;
    }
}

#[kernel]
fn scatter_array(_world: &World, x: &[f32], y: &[f32], mass: &mut ArrayMut<f32, 2>) {
    for [i, j] in mass {
        mass[[i, j]] = 0.0;
    }
    for p in 0..x.len() {
        let (a, b) = (127.0 * x[p], 127.0 * y[p]);
        let (i, j) = (a as i32, b as i32);
        let (s, t) = (a - i as f32, b - j as f32);
        mass[[i, j]] += (1.0 - s) * (1.0 - t);
        mass[[i + 1, j]] += s * (1.0 - t);
        mass[[i, j + 1]] += (1.0 - s) * t;
        mass[[i + 1, j + 1]] += s * t;
    }
}

/// A coordinate of a particle.
fn coordinate(axis: usize) -> impl Fn(usize) -> f32 {
    move |p| noise(2 * p + axis)
}

fn into_field(world: &World) -> wuji::Result<Box<dyn Contender>> {
    let x = world.field::<f32, 1>("x", [PARTICLES])?;
    let y = world.field::<f32, 1>("y", [PARTICLES])?;
    for (axis, field) in [&x, &y].into_iter().enumerate() {
        let start: Vec<f32> = (0..PARTICLES).map(coordinate(axis)).collect();
        field.copy_from(&start)?;
    }
    let mass = world.field::<f32, 2>("mass", [CELLS, CELLS])?;
    let out = mass.clone();
    let run = move || scatter_field(&x, &y, &mass);
    Ok(launches(run, move || out.to_vec()))
}

fn into_world_array(world: &World) -> wuji::Result<Box<dyn Contender>> {
    let x = world.nd_array::<f32, 1>("x", [PARTICLES])?;
    let y = world.nd_array::<f32, 1>("y", [PARTICLES])?;
    for (axis, array) in [&x, &y].into_iter().enumerate() {
        let start: Vec<f32> = (0..PARTICLES).map(coordinate(axis)).collect();
        array.copy_from(&start)?;
    }
    let mass = world.nd_array::<f32, 2>("mass", [CELLS, CELLS])?;
    let out = mass.clone();
    let run = move || scatter_world_array(&x, &y, &mass);
    Ok(launches(run, move || out.to_vec()))
}

fn into_array(world: &World) -> wuji::Result<Box<dyn Contender>> {
    let (world, x) = (world.clone(), Floats::new(PARTICLES, coordinate(0)));
    let y = Floats::new(PARTICLES, coordinate(1));
    let mass = Rc::new(RefCell::new(Floats::zeros(CELLS * CELLS)));
    let out = Rc::clone(&mass);
    let run = move || {
        let mut mass = mass.borrow_mut();
        let mut mass = ArrayMut::new(&mut mass, [CELLS, CELLS])?;
        scatter_array(&world, &x, &y, &mut mass)
    };
    Ok(launches(run, move || Ok(out.borrow().to_vec())))
}
