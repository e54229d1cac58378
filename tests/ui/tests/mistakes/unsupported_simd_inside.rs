use wuji::prelude::*;

#[kernel]
fn inner(x: &Field<f32, 1>) {
    for [i] in x {
        for k in simd(0..4) {
            x[[i]] += k as f32;
        }
    }
}

fn main() {}
