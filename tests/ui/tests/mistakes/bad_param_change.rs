use wuji::prelude::*;

#[derive(Fields)]
struct Fall {
    v: Field<Vec2, 1>,
    gravity: Param<Vec2>,
}

#[kernel]
impl Fall {
    fn step(&self) {
        for [i] in self.v {
            self.gravity[0] = self.v[[i]].x;
        }
    }
}

fn main() {}
