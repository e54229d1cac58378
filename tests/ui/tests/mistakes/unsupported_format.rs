use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        print!("{:>1$}", x[[i]], 8);
    }
}

fn main() {}
