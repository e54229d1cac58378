use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        print!("{:>8}", x[[i]]);
    }
}

fn main() {}
