use wuji::prelude::*;

#[func]
fn left(x: &Field<f32, 1>, i: i32) -> f32 {
    x[[i - 1]]
}

fn host(x: &Field<f32, 1>) -> f32 {
    left(x, 1)
}

fn main() {}
