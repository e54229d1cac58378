use wuji::prelude::*;

#[kernel]
fn touch(x: &mut [f32], _world: &World) {
    for [i] in x {
        if x.is_active([i]) {
            x[i] = 1.0;
        }
    }
}

fn main() {}
