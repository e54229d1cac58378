use wuji::prelude::*;

#[func]
fn put(out: &mut [f32], from: &Array<f32, 2>) {
    out[0] = from[[0, 0]];
}

fn host(out: &mut [f32], from: &Array<f32, 2>) {
    put(out, from);
}

fn main() {}
