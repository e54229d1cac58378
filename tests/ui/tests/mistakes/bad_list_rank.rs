use wuji::prelude::*;

#[kernel]
fn scatter(x: &Field<f32, 1>, list: &Field<f32, 3>) {
    for [i] in x {
        list.append([i], x[[i]]);
    }
}

fn main() {}
