use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 2>, y: &Field<f32, 2>) -> f32 {
    for [i, j] in grid([0..4, 0..4]) {
        y[[i, j]] = x[i + 1, j];
    }
    y[0, 0]
}

fn main() {}
