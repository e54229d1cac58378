use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>, n: i32) {
    for [i] in x {
        x[[i]] = n;
    }
}

fn main() {}
