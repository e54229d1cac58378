use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) -> f32 {
    for [i] in x {
        return x[[i]];
    }
    0.0
}

fn main() {}
