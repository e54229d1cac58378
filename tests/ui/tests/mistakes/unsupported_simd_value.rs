use wuji::prelude::*;

#[kernel]
fn value(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = simd(x[[i]]);
    }
}

fn main() {}
