use wuji::prelude::*;

#[kernel]
fn scatter(x: &Field<f32, 1>, list: &Cells<2>) {
    for [i] in x {
        let n = list.append([i]);
        x[[n]] = list.append([i], 1.0) as f32;
    }
}

fn main() {}
