use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x.at([i]).fetch_or(1.0);
    }
}

fn main() {}
