use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        if i {
            x[[i]] = 1.0;
        }
    }
}

fn main() {}
