//! Smoke in a box: which initial velocity moves it to a picture? As large as in the thesis of differentiable programming
//! by Hu: 110 x 110 cells, 100 steps with 6 Jacobi iterations each.

use wuji::prelude::*;

use super::study::{Program, rows};
use crate::measure::Row;
use crate::study::{Bench, Study};

const N: i32 = 110;
const STEPS: i32 = 100;
const ITERATIONS: i32 = 6;
const DT: f32 = 1.0;

pub struct Smoke;

/// The weights of the four cells around the place that a cell's contents come from, and the first of them.
#[func]
fn origin(i: i32, j: i32, u: Vec2) -> (IVec2, Vec2) {
    let at = vec2(i as f32, j as f32) - u * DT;
    let first = at.floor();
    (first.cast::<i32>(), at - first)
}

#[func]
fn wrap(i: i32) -> i32 {
    (i % N + N) % N
}

#[kernel]
fn advect_velocity(v: &Field<Vec2, 3>, moved: &Field<Vec2, 3>, t: i32) {
    for i in 0..N {
        for j in 0..N {
            let (at, f) = origin(i, j, v[[t - 1, i, j]]);
            let (a, b, c, d) = (wrap(at.x), wrap(at.x + 1), wrap(at.y), wrap(at.y + 1));
            let low = v[[t - 1, a, c]] * (1.0 - f.x) + v[[t - 1, b, c]] * f.x;
            let high = v[[t - 1, a, d]] * (1.0 - f.x) + v[[t - 1, b, d]] * f.x;
            moved[[t, i, j]] = low * (1.0 - f.y) + high * f.y;
        }
    }
}

#[kernel]
fn advect_smoke(v: &Field<Vec2, 3>, smoke: &Field<f32, 3>, t: i32) {
    for i in 0..N {
        for j in 0..N {
            let (at, f) = origin(i, j, v[[t, i, j]]);
            let (a, b, c, d) = (wrap(at.x), wrap(at.x + 1), wrap(at.y), wrap(at.y + 1));
            let low = smoke[[t - 1, a, c]] * (1.0 - f.x) + smoke[[t - 1, b, c]] * f.x;
            let high = smoke[[t - 1, a, d]] * (1.0 - f.x) + smoke[[t - 1, b, d]] * f.x;
            smoke[[t, i, j]] = low * (1.0 - f.y) + high * f.y;
        }
    }
}

#[kernel]
fn divergence(moved: &Field<Vec2, 3>, out: &Field<f32, 3>, t: i32) {
    for i in 0..N {
        for j in 0..N {
            let x = moved[[t, wrap(i + 1), j]].x - moved[[t, wrap(i - 1), j]].x;
            let y = moved[[t, i, wrap(j + 1)]].y - moved[[t, i, wrap(j - 1)]].y;
            out[[t, i, j]] = -0.5 * (x + y);
        }
    }
}

#[kernel]
fn jacobi(p: &Field<f32, 3>, divergence: &Field<f32, 3>, t: i32, k: i32) {
    for i in 0..N {
        for j in 0..N {
            let x = p[[k - 1, wrap(i - 1), j]] + p[[k - 1, wrap(i + 1), j]];
            let y = p[[k - 1, i, wrap(j - 1)]] + p[[k - 1, i, wrap(j + 1)]];
            p[[k, i, j]] = (divergence[[t, i, j]] + x + y) * 0.25;
        }
    }
}

#[kernel]
fn project(p: &Field<f32, 3>, moved: &Field<Vec2, 3>, v: &Field<Vec2, 3>, t: i32, k: i32) {
    for i in 0..N {
        for j in 0..N {
            let x = p[[k, wrap(i + 1), j]] - p[[k, wrap(i - 1), j]];
            let y = p[[k, i, wrap(j + 1)]] - p[[k, i, wrap(j - 1)]];
            v[[t, i, j]] = moved[[t, i, j]] - vec2(x, y) * 0.5;
        }
    }
}

#[kernel]
fn distance(smoke: &Field<f32, 3>, loss: &Field<f32, 0>) {
    for i in 0..N {
        for j in 0..N {
            let target = if (i - N / 2) * (i - N / 2) + (j - N / 2) * (j - N / 2) < 400 {
                1.0
            } else {
                0.0
            };
            let d = smoke[[STEPS - 1, i, j]] - target;
            loss[[]] += d * d / (N * N) as f32;
        }
    }
}

fn program(world: &World) -> wuji::Result<Program> {
    let states = [STEPS as i64, N as i64, N as i64];
    let v = world.field::<Vec2, 3>("v", states)?.needs_grad()?;
    let moved = world.field::<Vec2, 3>("moved", states)?.needs_grad()?;
    let smoke = world.field::<f32, 3>("smoke", states)?.needs_grad()?;
    let div = world.field::<f32, 3>("divergence", states)?.needs_grad()?;
    let pressures = [(STEPS * ITERATIONS) as i64, N as i64, N as i64];
    let p = world.field::<f32, 3>("p", pressures)?.needs_grad()?;
    let loss = world.scalar::<f32>("loss")?.needs_grad()?;
    let mut start = smoke.to_vec()?;
    for (k, s) in start.iter_mut().take((N * N) as usize).enumerate() {
        *s = if (k as i32 / N / 12 + k as i32 % N / 12) % 2 == 0 {
            1.0
        } else {
            0.0
        };
    }
    smoke.copy_from(&start)?;
    let mut start = v.to_vec()?;
    for (k, u) in start.iter_mut().take((N * N) as usize).enumerate() {
        let (i, j) = ((k as i32 / N) as f32 * 0.11, (k as i32 % N) as f32 * 0.13);
        *u = vec2(0.6 * j.sin(), 0.4 * (i + 1.0).cos());
    }
    v.copy_from(&start)?;
    let gradient = v.grad()?;
    let (run_loss, run_world) = (loss.clone(), world.clone());
    let run = move || -> wuji::Result<()> {
        for t in 1..STEPS {
            advect_velocity(&v, &moved, t)?;
            divergence(&moved, &div, t)?;
            for k in 1..ITERATIONS {
                jacobi(&p, &div, t, t * ITERATIONS + k)?;
            }
            project(&p, &moved, &v, t, t * ITERATIONS + ITERATIONS - 1)?;
            advect_smoke(&v, &smoke, t)?;
        }
        distance(&smoke, &loss)
    };
    let again = run.clone();
    Ok(Program {
        forward: Box::new(run),
        gradient: Box::new(move || run_world.tape(&run_loss, &again)),
        result: Box::new(move || Ok(gradient.get([0, 3, 4])?.0.to_vec())),
    })
}

impl Study for Smoke {
    fn name(&self) -> &'static str {
        "smoke"
    }
    fn size(&self) -> String {
        format!("{N}x{N} x {STEPS}")
    }
    fn metric(&self) -> &'static str {
        "backward : forward"
    }
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        rows(self, bench, program)
    }
}
