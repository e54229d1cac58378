use wuji::prelude::*;

#[derive(Fields)]
struct Grid {
    u: Field<f32, 1>,
}

#[kernel]
impl Grid {
    #[func]
    fn slope(&self, i: i32) -> f32 {
        self.u[[i + 1]] - self.u[[i]]
    }
}

#[derive(Fields)]
struct Fluid {
    grid: Grid,
    out: Field<f32, 1>,
}

#[kernel]
impl Fluid {
    fn slopes(&self) {
        for [i] in self.out {
            self.out[[i]] = self.grid.slop(i);
        }
    }
}

fn main() {}
