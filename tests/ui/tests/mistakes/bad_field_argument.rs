use wuji::prelude::*;

#[func]
fn left(x: &Field<f32, 1>, i: i32) -> f32 {
    x[[i - 1]]
}

#[kernel]
fn k(x: &Field<f64, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = left(x, i);
    }
}

fn main() {}
