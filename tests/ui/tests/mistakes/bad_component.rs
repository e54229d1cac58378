use wuji::prelude::*;

#[kernel]
fn k(x: &Field<Vec2, 1>) {
    for [i] in x {
        x[[i]].z = 1.0;
    }
}

fn main() {}
