use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    let y = x;
    for [i] in x {
        x[[i]] = 1.0;
    }
}

fn main() {}
