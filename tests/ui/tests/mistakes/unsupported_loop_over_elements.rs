use wuji::prelude::*;

#[kernel]
fn k(world: &World, data: &[f32]) -> f32 {
    let mut sum = 0.0;
    for v in data.iter() {
        sum += v;
    }
    sum
}

fn main() {}
