use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) -> f32 {
    let mut sum = 0.0;
    for [i] in x {
        sum += x[[i]];
        x[[i]] = sum;
    }
    sum
}

fn main() {}
