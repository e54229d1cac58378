use wuji::prelude::*;

#[func]
fn twice(x: &Param<f32>) -> f32 {
    x + x
}

fn main() {}
