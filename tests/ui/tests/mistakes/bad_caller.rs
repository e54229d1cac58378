use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>, t: f32) {
    for [i] in x {
        x[[i]] = t;
    }
}

fn caller(x: &Field<f32, 1>) -> wuji::Result<()> {
    k(x, 1)
}

fn main() {}
