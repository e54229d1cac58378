use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        if let Some(a) = Some(1.0) {
            x[[i]] = a;
        }
    }
}

fn main() {}
