use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) -> f32 {
    let mut largest = 0.0;
    for [i] in x {
        largest = x[[i]];
    }
    largest
}

fn main() {}
