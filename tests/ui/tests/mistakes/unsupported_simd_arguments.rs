use wuji::prelude::*;

#[kernel]
fn width(x: &Field<f32, 1>) {
    for [i] in simd(8, x) {
        x[[i]] += 1.0;
    }
}

fn main() {}
