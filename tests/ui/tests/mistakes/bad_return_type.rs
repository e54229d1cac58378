use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) -> f32 {
    x[[0]] as f64
}

fn main() {}
