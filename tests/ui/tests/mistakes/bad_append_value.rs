use wuji::prelude::*;

#[kernel]
fn scatter(x: &Field<f32, 1>, list: &Field<i32, 2>) {
    for [i] in x {
        list.append([i], x[[i]]);
    }
}

fn main() {}
