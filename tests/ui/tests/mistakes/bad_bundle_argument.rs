use wuji::prelude::*;

struct Heat {
    t: Field<f32, 2>,
}

#[kernel]
fn step(heat: &Heat) {
    for [i, j] in heat.t {
        heat.t[[i, j]] *= 0.5;
    }
}

fn main() {}
