use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 2>) {
    for [i] in x {
        x[[i, i]] = 1.0;
    }
}

fn main() {}
