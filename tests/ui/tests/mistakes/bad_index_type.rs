use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>, t: f32) {
    for [i] in x {
        x[[i]] = x[[t]];
    }
}

fn main() {}
