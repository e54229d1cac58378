use wuji::prelude::*;

#[kernel]
fn step(x: &Field<f32, 1>, v: &mut Vec2) {
    for [i] in x {
        v.x += x[[i]];
    }
}

fn main() {}
