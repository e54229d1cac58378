use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let (a, b, c) = (1.0, 2.0);
        x[[i]] = a + b + c;
    }
}

fn main() {}
