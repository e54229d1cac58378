use wuji::prelude::*;

#[derive(Fields)]
struct Grid {
    u: Field<f32, 1>,
}

#[kernel]
impl Grid {
    fn clear(&self) {
        for [i] in self.u {
            self.u[[i]] = 0.0;
        }
    }
}

#[derive(Fields)]
struct Fluid {
    grid: Grid,
}

#[kernel]
impl Fluid {
    fn clear(&self) {
        self.grid.clear();
    }
}

fn main() {}
