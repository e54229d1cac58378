use wuji::prelude::*;

#[derive(Element)]
struct Ball {
    radius: f32,
}

fn main() {}
