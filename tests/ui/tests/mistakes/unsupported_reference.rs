use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let pair = (&x[[i]], 1.0);
        x[[i]] = *pair.0;
    }
}

fn main() {}
