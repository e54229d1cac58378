use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let s = "text";
        x[[i]] = 1.0;
    }
}

fn main() {}
