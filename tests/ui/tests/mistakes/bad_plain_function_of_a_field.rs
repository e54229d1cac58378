use wuji::prelude::*;

fn left(x: &Field<f32, 1>, i: i32) -> f32 {
    x.get([i as i64 - 1]).unwrap_or(0.0)
}

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = left(x, i);
    }
}

fn main() {}
