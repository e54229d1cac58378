use wuji::prelude::*;

#[func]
fn reset(v: &mut f32) {
    v = 0.0;
}

fn main() {}
