use wuji::prelude::*;

#[derive(Fields)]
struct Heat {
    t: Field<f32, 2>,
    rate: f32,
}

#[kernel]
impl Heat {
    fn step(&self) {
        self.rate = 0.5;
        for [i, j] in self.t {
            self.t[[i, j]] *= self.rate;
        }
    }
}

fn main() {}
