use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let n = 0;
        n += 1;
        x[[i]] = n as f32;
    }
}

fn main() {}
