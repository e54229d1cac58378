use wuji::prelude::*;

#[derive(Fields)]
struct Heat {
    t: Field<f32, 2>,
}

trait Step {
    fn step(&self);
}

#[kernel]
impl Step for Heat {
    fn step(&self) {
        for [i, j] in self.t {
            self.t[[i, j]] *= 0.5;
        }
    }
}

fn main() {}
