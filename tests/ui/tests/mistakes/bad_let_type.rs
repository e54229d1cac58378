use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let a: i32 = 1.5;
        x[[i]] = a as f32;
    }
}

fn main() {}
