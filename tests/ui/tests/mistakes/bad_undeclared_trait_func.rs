use wuji::prelude::*;

trait Shape {
    fn area(radius: f32) -> f32;
}

struct Disc;

impl Shape for Disc {
    #[func]
    fn area(radius: f32) -> f32 {
        radius * radius * 3.14
    }
}

fn main() {}
