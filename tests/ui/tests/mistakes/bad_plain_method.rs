use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
struct Ball {
    radius: f32,
}

impl Ball {
    fn area(&self) -> f32 {
        self.radius * self.radius
    }
}

#[kernel]
fn k(x: &Field<f32, 1>, ball: Ball) {
    for [i] in x {
        x[[i]] = ball.area();
    }
}

fn main() {}
