use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = Some(x[[i]]).map(|v| v * 2.0).unwrap_or(0.0);
    }
}

fn main() {}
