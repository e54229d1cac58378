use wuji::prelude::*;

#[func]
fn halve(x: &mut f32) {
    *x *= 0.5;
}

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let v = x[[i]];
        halve(&mut v);
        x[[i]] = v;
    }
}

fn main() {}
