use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
enum Shape {
    Ball(f32),
    Disc(f32),
}

#[kernel]
fn k(shapes: &Field<Shape, 1>, x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = match shapes[[i]] {
            Shape::Ball(r) | Shape::Disc(r) => r,
        };
    }
}

fn main() {}
