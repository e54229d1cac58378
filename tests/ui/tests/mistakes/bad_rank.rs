use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 2>) {
    for [i, j] in x {
        x[[i]] = j as f32;
    }
}

fn main() {}
