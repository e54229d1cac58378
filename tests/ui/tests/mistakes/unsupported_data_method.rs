use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = x.get([i]);
    }
}

fn main() {}
