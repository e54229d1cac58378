//! Kernels that the driver of these tests knows by their names.

use wuji::prelude::*;

#[kernel]
pub fn add_one(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] += 1.0;
    }
}

#[kernel]
pub fn wander(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i + 1000]] = 1.0;
    }
}

#[kernel]
pub fn speak(_world: &World, n: i32) {
    print!("{n}");
}

#[kernel]
pub fn answer(_world: &World) -> i32 {
    42
}
