use wuji::prelude::*;

#[derive(Fields)]
struct Grid {
    u: Field<f32, 1>,
}

#[kernel]
impl Grid {
    #[func]
    fn mapped(&self, i: i32, f: impl Fn(f32) -> f32) -> f32 {
        f(self.u[[i]])
    }
}

#[derive(Fields)]
struct Fluid {
    grid: Grid,
    out: Field<f32, 1>,
}

#[kernel]
impl Fluid {
    fn map(&self) {
        for [i] in self.out {
            self.out[[i]] = self.grid.mapped(i, |x| 2.0 * x);
        }
    }
}

fn main() {}
