use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>, name: String) {
    for [i] in x {
        x[[i]] = 1.0;
    }
}

fn main() {}
