use wuji::prelude::*;

#[kernel]
fn one_by_one(x: &Field<f32, 1>) {
    for [i] in serial(scalar(x)) {
        x[[i]] += 1.0;
    }
}

fn main() {}
