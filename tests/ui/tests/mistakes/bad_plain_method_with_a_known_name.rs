use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
struct Ball {
    radius: f32,
}

impl Ball {
    fn abs(self) -> f32 {
        self.radius
    }
}

#[kernel]
fn k(balls: &Field<Ball, 1>, x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = balls[[i]].abs();
    }
}

fn main() {}
