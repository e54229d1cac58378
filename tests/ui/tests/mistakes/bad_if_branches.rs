use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let a = if i > 0 { 1.0 } else { 2 };
        x[[i]] = a;
    }
}

fn main() {}
