//! MLS-MPM of a fluid in two dimensions: scatter to a grid, and gather from it.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host_fn;
use crate::pool::Pool;
use crate::transfer::weights;

pub const PARTICLES: usize = 8192;
pub const GRID: usize = 128;
const DX: f32 = 1.0 / GRID as f32;
const DT: f32 = 2e-4;
const VOLUME: f32 = DX * DX * 0.25;
const MASS: f32 = VOLUME;
const STIFFNESS: f32 = 400.0;
const GRAVITY: f32 = 9.8;
const WALL: usize = 3;
/// Substeps of one sample.
const SUBSTEPS: usize = 20;

pub struct Mpm2d;

#[derive(Clone, Copy)]
#[repr(C)]
struct Particle {
    x: [f32; 2],
    v: [f32; 2],
    /// Affine velocity, row-major.
    c: [f32; 4],
    /// Volume relative to the volume at rest.
    j: f32,
}

/// Momentum, later velocity, and mass; one lane is unused.
type Node = [f32; 4];

struct State {
    particles: Vec<Particle>,
    /// One grid per thread, so the scatter needs no atomics.
    grids: Vec<Vec<Node>>,
}

impl State {
    fn new(threads: usize) -> State {
        let particle = |i: usize| Particle {
            x: [noise(2 * i) * 0.4 + 0.2, noise(2 * i + 1) * 0.4 + 0.2],
            v: [0.0, -1.0],
            c: [0.0; 4],
            j: 1.0,
        };
        State {
            particles: (0..PARTICLES).map(particle).collect(),
            grids: vec![vec![[0.0; 4]; GRID * GRID]; threads],
        }
    }
}

host_fn! {
    fn scatter(particles: &[Particle], grid: &mut [Node]) {
        grid.fill([0.0; 4]);
        for p in particles {
            let (gx, gy) = (p.x[0] * GRID as f32, p.x[1] * GRID as f32);
            let (bx, by) = ((gx - 0.5) as i32 as usize, (gy - 0.5) as i32 as usize);
            let (fx, fy) = (gx - bx as f32, gy - by as f32);
            let (wx, wy) = (weights(fx), weights(fy));
            let stress = -DT * 4.0 * STIFFNESS * VOLUME * (p.j - 1.0) / (DX * DX);
            let a = [stress + MASS * p.c[0], MASS * p.c[1], MASS * p.c[2], stress + MASS * p.c[3]];
            let base: Node = [MASS * p.v[0], MASS * p.v[1], MASS, 0.0];
            let (ax, ay): (Node, Node) = ([a[0], a[2], 0.0, 0.0], [a[1], a[3], 0.0, 0.0]);
            for i in 0..3 {
                let dx = (i as f32 - fx) * DX;
                let row: &mut [Node; 3] = (&mut grid[(bx + i) * GRID + by..][..3]).try_into().expect("three nodes");
                for j in 0..3 {
                    let dy = (j as f32 - fy) * DX;
                    let w = wx[i] * wy[j];
                    for k in 0..4 {
                        row[j][k] = w.mul_add(ax[k].mul_add(dx, ay[k].mul_add(dy, base[k])), row[j][k]);
                    }
                }
            }
        }
    }
}

host_fn! {
    fn update(first: usize, nodes: &mut [Node], others: &[&[Node]]) {
        for (at, node) in nodes.iter_mut().enumerate() {
            let n = first + at;
            for other in others {
                for k in 0..4 {
                    node[k] += other[n][k];
                }
            }
            let (i, j) = (n / GRID, n % GRID);
            let inverse = if node[2] > 0.0 { 1.0 / node[2] } else { 0.0 };
            let mut v = [node[0] * inverse, node[1] * inverse - DT * GRAVITY];
            if (i < WALL && v[0] < 0.0) || (i + WALL > GRID && v[0] > 0.0) { v[0] = 0.0 }
            if (j < WALL && v[1] < 0.0) || (j + WALL > GRID && v[1] > 0.0) { v[1] = 0.0 }
            *node = [v[0], v[1], node[2], 0.0];
        }
    }
}

host_fn! {
    fn gather(grid: &[Node], particles: &mut [Particle]) {
        for p in particles {
            let (gx, gy) = (p.x[0] * GRID as f32, p.x[1] * GRID as f32);
            let (bx, by) = ((gx - 0.5) as i32 as usize, (gy - 0.5) as i32 as usize);
            let (fx, fy) = (gx - bx as f32, gy - by as f32);
            let (wx, wy) = (weights(fx), weights(fy));
            // Sums of w v, w v dx and w v dy.
            let (mut v, mut cx, mut cy) = ([0.0f32; 4], [0.0f32; 4], [0.0f32; 4]);
            for i in 0..3 {
                let dx = i as f32 - fx;
                let row: &[Node; 3] = (&grid[(bx + i) * GRID + by..][..3]).try_into().expect("three nodes");
                for j in 0..3 {
                    let dy = j as f32 - fy;
                    let w = wx[i] * wy[j];
                    for k in 0..4 {
                        let wv = w * row[j][k];
                        v[k] += wv;
                        cx[k] = wv.mul_add(dx, cx[k]);
                        cy[k] = wv.mul_add(dy, cy[k]);
                    }
                }
            }
            let scale = 4.0 * GRID as f32;
            p.v = [v[0], v[1]];
            p.c = [cx[0] * scale, cy[0] * scale, cx[1] * scale, cy[1] * scale];
            p.x = [p.x[0] + DT * v[0], p.x[1] + DT * v[1]];
            p.j *= 1.0 + DT * (p.c[0] + p.c[3]);
        }
    }
}

fn substep(s: &mut State, pool: &Pool) {
    let threads = pool.threads();
    let particles = &s.particles[..];
    pool.each(&mut s.grids, |t, grid| {
        scatter(
            &particles[PARTICLES * t / threads..PARTICLES * (t + 1) / threads],
            grid,
        );
    });
    let (first, others) = s.grids.split_at_mut(1);
    let others: Vec<&[Node]> = others.iter().map(|grid| &grid[..]).collect();
    let grid = &mut first[0];
    pool.split(grid, GRID, |at, nodes| update(at, nodes, &others));
    let grid = &grid[..];
    pool.split(&mut s.particles, 1, |_, particles| gather(grid, particles));
}

fn positions(s: &State) -> Vec<f32> {
    s.particles.iter().flat_map(|p| p.x).collect()
}

/// Weights of the three nodes around a particle, one row for each.
#[func]
fn spline(f: Vec2) -> Matrix<f32, 3, 2> {
    let (a, b, c) = (vec2(1.5, 1.5) - f, f - vec2(1.0, 1.0), f - vec2(0.5, 0.5));
    Matrix::from_rows([a * a * 0.5, vec2(0.75, 0.75) - b * b, c * c * 0.5])
}

#[kernel]
fn mpm2d(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    c: &Field<Mat2, 1>,
    volume: &Field<f32, 1>,
    momentum: &Field<Vec2, 2>,
    mass: &Field<f32, 2>,
) {
    for [i, j] in mass {
        momentum[[i, j]] = vec2(0.0, 0.0);
        mass[[i, j]] = 0.0;
    }
    for [p] in x {
        let at = x[[p]] * GRID as f32;
        let base = (at - vec2(0.5, 0.5)).cast::<i32>();
        let f = at - base.cast::<f32>();
        let w = spline(f);
        let stress = -DT * 4.0 * STIFFNESS * VOLUME * (volume[[p]] - 1.0) / (DX * DX);
        let affine = Mat2::identity() * stress + c[[p]] * MASS;
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let d = (offset.cast::<f32>() - f) * DX;
                let weight = w[[i, 0]] * w[[j, 1]];
                momentum[base + offset] += (v[[p]] * MASS + affine * d) * weight;
                mass[base + offset] += weight * MASS;
            }
        }
    }
    for [i, j] in mass {
        let m = mass[[i, j]];
        let inverse = if m > 0.0 { 1.0 / m } else { 0.0 };
        let mut u = momentum[[i, j]] * inverse;
        u.y -= DT * GRAVITY;
        let (wall, n) = (WALL as i32, GRID as i32);
        if i < wall && u.x < 0.0 || i + wall > n && u.x > 0.0 {
            u.x = 0.0;
        }
        if j < wall && u.y < 0.0 || j + wall > n && u.y > 0.0 {
            u.y = 0.0;
        }
        momentum[[i, j]] = u;
    }
    for [p] in x {
        let at = x[[p]] * GRID as f32;
        let base = (at - vec2(0.5, 0.5)).cast::<i32>();
        let f = at - base.cast::<f32>();
        let w = spline(f);
        let mut velocity = vec2(0.0, 0.0);
        let mut affine = Mat2::splat(0.0);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let d = offset.cast::<f32>() - f;
                let u = momentum[base + offset] * (w[[i, 0]] * w[[j, 1]]);
                velocity += u;
                affine += u.outer(d) * (4.0 * GRID as f32);
            }
        }
        v[[p]] = velocity;
        c[[p]] = affine;
        x[[p]] += velocity * DT;
        volume[[p]] *= 1.0 + DT * affine.trace();
    }
}

impl Case for Mpm2d {
    fn name(&self) -> &'static str {
        "mpm2d"
    }
    fn size(&self) -> String {
        "8192 on 128x128".into()
    }
    fn metric(&self) -> &'static str {
        "substeps/s"
    }
    fn work(&self) -> f64 {
        SUBSTEPS as f64
    }
    fn tolerance(&self) -> f32 {
        1e-4
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        let state = State::new(pool.threads());
        made(
            state,
            move |s| (0..SUBSTEPS).for_each(|_| substep(s, &pool)),
            positions,
        )
    }

    fn wuji(&self, world: &World) -> wuji::Result<Box<dyn Contender>> {
        let (x, v, c, volume) = world.layout(|root| {
            let particle = root.dense(I, PARTICLES as i64);
            (
                particle.place("x"),
                particle.place("v"),
                particle.place("c"),
                particle.place("volume"),
            )
        })?;
        let (momentum, mass) = world.layout(|root| {
            let cell = root.dense(IJ, GRID as i64);
            (cell.place("momentum"), cell.place("mass"))
        })?;
        let start = State::new(1).particles;
        x.copy_from(&start.iter().map(|p| Vector(p.x)).collect::<Vec<_>>())?;
        v.copy_from(&start.iter().map(|p| Vector(p.v)).collect::<Vec<_>>())?;
        volume.fill(1.0)?;
        let out = x.clone();
        let run =
            move || (0..SUBSTEPS).try_for_each(|_| mpm2d(&x, &v, &c, &volume, &momentum, &mass));
        Ok(launches(run, move || {
            Ok(out.to_vec()?.into_iter().flat_map(|x: Vec2| x.0).collect())
        }))
    }

    fn cpp(&self, cpp: &Cpp, threads: usize) -> Result<Box<dyn Contender>, String> {
        // SAFETY: the signature in `benches/cpp/mpm2d.cpp`.
        let f = unsafe {
            cpp.function::<unsafe extern "C" fn(*mut Particle, *const *mut Node, i32)>(
                c"cpp_mpm2d",
            )?
        };
        Ok(made(
            State::new(threads),
            move |s| {
                let grids: Vec<*mut Node> =
                    s.grids.iter_mut().map(|grid| grid.as_mut_ptr()).collect();
                for _ in 0..SUBSTEPS {
                    // SAFETY: PARTICLES particles, and a grid of GRID * GRID nodes for each thread.
                    unsafe { f(s.particles.as_mut_ptr(), grids.as_ptr(), grids.len() as i32) }
                }
            },
            positions,
        ))
    }
}
