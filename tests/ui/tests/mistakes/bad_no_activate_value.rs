use wuji::prelude::*;

#[kernel]
fn touch(x: &Field<f32, 2>) {
    for [i, j] in x {
        x.no_activate([i + 1, j]) = 1;
    }
}

fn main() {}
