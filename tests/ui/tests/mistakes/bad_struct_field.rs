use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
struct Ball {
    radius: f32,
}

#[kernel]
fn k(x: &Field<Ball, 1>) {
    for [i] in x {
        x[[i]].weight = 1.0;
    }
}

fn main() {}
