use wuji::prelude::*;

#[derive(Fields)]
struct Heat {
    t: [Field<f32, 2>; 2],
}

#[kernel]
impl Heat {
    fn step(&self) {
        for [i, j] in self.t[0] {
            self.t[1][[i, j]] = self.t[0][[i]];
        }
    }
}

fn main() {}
