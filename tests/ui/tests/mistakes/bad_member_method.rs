use wuji::prelude::*;

#[derive(Fields)]
struct Fall {
    gravity: Param<Vec2>,
    out: Field<f32, 1>,
}

#[kernel]
impl Fall {
    fn run(&self) {
        for [i] in self.out {
            self.out[[i]] = self.gravity.nrom();
        }
    }
}

fn main() {}
