use wuji::prelude::*;

#[func]
fn add(sum: &mut f32, v: f32) {
    *sum += v;
}

#[kernel]
fn total(x: &Field<f32, 1>) -> f32 {
    let mut sum = 0.0;
    for [i] in x {
        add(&mut sum, x[[i]]);
    }
    sum
}

fn main() {}
