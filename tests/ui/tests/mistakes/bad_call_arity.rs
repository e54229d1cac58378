use wuji::prelude::*;

#[func]
fn square(a: f32) -> f32 {
    a * a
}

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = square(1.0, 2.0);
    }
}

fn main() {}
