use wuji::prelude::*;

#[kernel]
fn both(x: &Field<f32, 1>) {
    for [i] in simd(scalar(x)) {
        x[[i]] += 1.0;
    }
}

fn main() {}
