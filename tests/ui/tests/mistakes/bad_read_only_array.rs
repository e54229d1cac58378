use wuji::prelude::*;

#[kernel]
fn k(world: &World, a: &[f32]) {
    for i in 0..a.len() {
        a[i] = 1.0;
    }
}

fn main() {}
