use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = squared(2.0);
    }
}

fn main() {}
