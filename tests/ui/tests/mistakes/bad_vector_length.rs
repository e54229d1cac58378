use wuji::prelude::*;

#[kernel]
fn k(x: &Field<Vec3, 1>) {
    for [i] in x {
        x[[i]] = vec2(1.0, 2.0);
    }
}

fn main() {}
