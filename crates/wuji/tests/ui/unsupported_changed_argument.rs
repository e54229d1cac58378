use wuji::prelude::*;

#[func]
fn step(v: &mut Vec2) {
    v.x += 1.0;
}

fn main() {}
