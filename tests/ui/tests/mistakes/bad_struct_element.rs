use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
struct Named {
    name: &'static str,
    size: f32,
}

fn main() {}
