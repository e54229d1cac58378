use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>, v: Vec3) {
    for [i] in x {
        for c in v {
            x[[i]] += c;
        }
    }
}

fn main() {}
