use wuji::prelude::*;

#[derive(Fields)]
struct Stencil {
    t: Field<f32, 1>,
    weights: [f32; 3],
}

#[kernel]
impl Stencil {
    fn change(&self) {
        for [i] in self.t {
            self.weights[1] = self.t[[i]];
        }
    }
}

fn main() {}
