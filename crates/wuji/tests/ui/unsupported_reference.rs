use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let a = &x[[i]];
        x[[i]] = *a;
    }
}

fn main() {}
