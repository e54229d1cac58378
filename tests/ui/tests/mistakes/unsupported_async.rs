use wuji::prelude::*;

#[kernel]
async fn k(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = 1.0;
    }
}

fn main() {}
