use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
struct Ball {
    radius: f32,
}

impl Ball {
    fn new(radius: f32) -> Ball {
        Ball { radius }
    }
}

#[kernel]
fn k(balls: &Field<Ball, 1>) {
    for [i] in balls {
        balls[[i]] = Ball::new(1.0);
    }
}

fn main() {}
