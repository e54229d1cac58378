use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) {
    for [i] in x {
        let text = x[[i]].to_string();
        x[[i]] = 1.0;
    }
}

fn main() {}
