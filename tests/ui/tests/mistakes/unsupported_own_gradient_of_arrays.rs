use wuji::prelude::*;

fn gradient(_x: &Field<f32, 1>, _y: &[f32]) -> wuji::Result<()> {
    Ok(())
}

#[kernel(grad = gradient)]
fn step(x: &Field<f32, 1>, y: &[f32]) {
    for [i] in x {
        x[[i]] *= y[[i]];
    }
}

fn main() {}
