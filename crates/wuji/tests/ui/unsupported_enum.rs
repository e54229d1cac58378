use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
enum Shape {
    Round,
    Square,
}

fn main() {}
