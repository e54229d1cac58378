use wuji::prelude::*;

#[func]
fn square(a: f32) -> f32 {
    a * a
}

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = square(i);
    }
}

fn main() {}
