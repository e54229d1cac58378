use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let mut n = 0.0;
        let mut add = |a: f32| n += a;
        add(1.0);
        x[[i]] = n;
    }
}

fn main() {}
