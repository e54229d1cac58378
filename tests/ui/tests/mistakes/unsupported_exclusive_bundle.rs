use wuji::prelude::*;

#[derive(Fields)]
struct Heat {
    t: Field<f32, 2>,
}

#[kernel]
impl Heat {
    fn step(&mut self) {
        for [i, j] in self.t {
            self.t[[i, j]] *= 0.5;
        }
    }
}

fn main() {}
