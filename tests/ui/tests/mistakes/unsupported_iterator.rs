use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        for v in [1.0, 2.0].iter().map(|v| v * 2.0) {
            x[[i]] += v;
        }
    }
}

fn main() {}
