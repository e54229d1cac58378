use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
struct Ball {
    radius: f32,
}

impl Ball {
    #[func]
    fn grow(&mut self) {
        self.radius += 1.0;
    }
}

#[kernel]
fn k(balls: &Field<Ball, 1>) {
    for [i] in balls {
        let ball = balls[[i]];
        ball.grow();
        balls[[i]] = ball;
    }
}

fn main() {}
