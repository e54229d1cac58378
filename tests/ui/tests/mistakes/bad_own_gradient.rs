use wuji::prelude::*;

fn gradient(_x: &Field<f32, 1>) -> wuji::Result<()> {
    Ok(())
}

#[kernel(grad = gradient)]
fn step(x: &Field<f32, 1>, dt: f32) {
    for [i] in x {
        x[[i]] *= dt;
    }
}

fn main() {}
