use wuji::prelude::*;

#[kernel]
fn sum(blocks: &Cells<2>) -> f32 {
    let mut sum = 0.0;
    for [i, j] in blocks {
        sum += blocks[[i, j]];
    }
    sum
}

fn main() {}
