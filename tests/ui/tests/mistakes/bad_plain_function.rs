use wuji::prelude::*;

fn squared(x: f32) -> f32 {
    x * x
}

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = squared(x[[i]]);
    }
}

fn main() {}
