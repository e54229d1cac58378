// Waves in a pool, which the pointer pushes.
//
// Without a display, the program writes `waves.gif` instead of opening a window.

use wuji::prelude::*;
use wuji::viewer::{Button, Viewer};

const N: u64 = 256;

/// The fields of the simulation, and its constants.
#[derive(Fields)]
struct Pool {
    height: Field<f32, 2>,
    velocity: Field<f32, 2>,
    pixels: Field<Vec3, 2>,
    speed: f32,
}

impl Pool {
    fn new(world: &World) -> wuji::Result<Pool> {
        Ok(Pool {
            height: world.field("height", [N, N])?,
            velocity: world.field("velocity", [N, N])?,
            pixels: world.field("pixels", [N, N])?,
            speed: 0.4,
        })
    }

    fn step(&self) -> wuji::Result<()> {
        for _ in 0..4 {
            self.accelerate()?;
            self.advance()?;
        }
        self.paint()
    }
}

/// Kernels: a `for` directly in the body runs in parallel, and is compiled at the first call.
#[kernel]
impl Pool {
    fn accelerate(&self) {
        for [i, j] in self.height {
            let h = &self.height;
            let around = h[[i - 1, j]] + h[[i + 1, j]] + h[[i, j - 1]] + h[[i, j + 1]];
            self.velocity[[i, j]] += self.speed * (around - 4.0 * h[[i, j]]);
        }
    }

    fn advance(&self) {
        for [i, j] in self.height {
            self.height[[i, j]] = 0.999 * (self.height[[i, j]] + self.velocity[[i, j]]);
        }
    }

    fn push(&self, at: Vec2, depth: f32) {
        let n = self.height.shape().cast::<f32>();
        for [i, j] in self.height {
            let d = (vec2(i as f32, j as f32) - at * n).norm_sqr() / 20.0;
            self.height[[i, j]] -= depth * (-d).exp();
        }
    }

    fn paint(&self) {
        for [i, j] in self.pixels {
            let slope = self.height[[i + 1, j]] - self.height[[i, j]];
            let light = (0.5 + 4.0 * slope).clamp(0.0, 1.0);
            self.pixels[[i, j]] = mix(vec3(0.02, 0.10, 0.25), vec3(0.75, 0.92, 1.0), light);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::gpu().or_else(|_| World::cpu())?;
    let pool = Pool::new(&world)?;
    pool.push(vec2(0.4, 0.6), 1.0)?;
    let mut viewer = Viewer::builder("waves").fps(30.0).build()?;
    while viewer.is_open() {
        if let (Some([x, y]), true) = (viewer.pointer(), viewer.is_button_down(Button::Left)) {
            pool.push(vec2(x, y), 0.05)?;
        }
        pool.step()?;
        viewer.show(&pool.pixels)?;
    }
    Ok(())
}
