// MLS-MPM of a fluid in three dimensions, on a grid of GRID^3 nodes: included once for each size.

use std::sync::Arc;

use wuji::prelude::*;

use crate::case::{Case, Contender, launches, made, noise};
use crate::cpp::Cpp;
use crate::host_fn;
use crate::pool::Pool;
use crate::transfer::{self, Node, Strides};

pub const PARTICLES: usize = 200_000;
const DX: f32 = 1.0 / GRID as f32;
const DT: f32 = 2e-4;
const VOLUME: f32 = DX * DX * DX * 0.125;
const MASS: f32 = VOLUME;
const STIFFNESS: f32 = 1000.0;
const GRAVITY: f32 = 9.8;
const WALL: usize = 3;

pub struct Mpm3d;

#[derive(Clone, Copy)]
#[repr(C)]
struct Particle {
    x: [f32; 3],
    v: [f32; 3],
    /// Affine velocity, row-major.
    c: [f32; 9],
    j: f32,
}

struct State {
    particles: Vec<Particle>,
    grids: Vec<Vec<Node>>,
}

impl State {
    fn new(threads: usize) -> State {
        let particle = |i: usize| Particle {
            x: std::array::from_fn(|d| noise(3 * i + d) * 0.4 + 0.15),
            v: [0.0; 3],
            c: [0.0; 9],
            j: 1.0,
        };
        State {
            particles: (0..PARTICLES).map(particle).collect(),
            grids: vec![vec![[0.0; 4]; GRID * GRID * GRID]; threads],
        }
    }
}

const STRIDES: Strides = Strides {
    plane: GRID * GRID,
    row: GRID,
};

/// The lowest of the 27 nodes around a particle, and the particle's position relative to it.
#[inline(always)]
fn locate(x: [f32; 3]) -> (usize, [f32; 3]) {
    let g = x.map(|x| x * GRID as f32);
    let b = g.map(|g| (g - 0.5) as i32 as usize);
    (
        (b[0] * GRID + b[1]) * GRID + b[2],
        [g[0] - b[0] as f32, g[1] - b[1] as f32, g[2] - b[2] as f32],
    )
}

host_fn! {
    fn scatter(particles: &[Particle], grid: &mut [Node]) {
        grid.fill([0.0; 4]);
        for p in particles {
            let (first, f) = locate(p.x);
            let stress = -DT * 4.0 * STIFFNESS * VOLUME * (p.j - 1.0) / (DX * DX);
            // Columns of the affine momentum, in units of cells.
            let column = |d: usize| -> Node {
                let mut a = [MASS * p.c[d], MASS * p.c[3 + d], MASS * p.c[6 + d], 0.0];
                a[d] += stress;
                a.map(|a| a * DX)
            };
            let base = [MASS * p.v[0], MASS * p.v[1], MASS * p.v[2], MASS];
            transfer::scatter(grid, first, STRIDES, f, base, [column(0), column(1), column(2)]);
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
            if node[3] <= 0.0 {
                continue;
            }
            let place = [n / (GRID * GRID), n / GRID % GRID, n % GRID];
            let inverse = 1.0 / node[3];
            node[0] *= inverse;
            node[1] = node[1] * inverse - DT * GRAVITY;
            node[2] *= inverse;
            for d in 0..3 {
                if (place[d] < WALL && node[d] < 0.0) || (place[d] + WALL > GRID && node[d] > 0.0) {
                    node[d] = 0.0;
                }
            }
        }
    }
}

host_fn! {
    fn gather(grid: &[Node], particles: &mut [Particle]) {
        for p in particles {
            let (first, f) = locate(p.x);
            (p.v, p.c) = transfer::gather(grid, first, STRIDES, f, GRID);
            for d in 0..3 {
                p.x[d] += DT * p.v[d];
            }
            p.j *= 1.0 + DT * (p.c[0] + p.c[4] + p.c[8]);
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
fn spline(f: Vec3) -> Matrix<f32, 3, 3> {
    let (a, b, c) = (
        Vec3::splat(1.5) - f,
        f - Vec3::splat(1.0),
        f - Vec3::splat(0.5),
    );
    Matrix::from_rows([a * a * 0.5, Vec3::splat(0.75) - b * b, c * c * 0.5])
}

#[kernel]
fn mpm3d(
    x: &Field<Vec3, 1>,
    v: &Field<Vec3, 1>,
    c: &Field<Mat3, 1>,
    volume: &Field<f32, 1>,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
) {
    for [i, j, k] in mass {
        momentum[[i, j, k]] = Vec3::splat(0.0);
        mass[[i, j, k]] = 0.0;
    }
    for [p] in x {
        let at = x[[p]] * GRID as f32;
        let base = (at - Vec3::splat(0.5)).cast::<i32>();
        let f = at - base.cast::<f32>();
        let w = spline(f);
        let stress = -DT * 4.0 * STIFFNESS * VOLUME * (volume[[p]] - 1.0) / (DX * DX);
        let affine = Mat3::identity() * stress + c[[p]] * MASS;
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                for k in unroll(0..3) {
                    let offset = ivec3(i, j, k);
                    let d = (offset.cast::<f32>() - f) * DX;
                    let weight = w[[i, 0]] * w[[j, 1]] * w[[k, 2]];
                    momentum[base + offset] += (v[[p]] * MASS + affine * d) * weight;
                    mass[base + offset] += weight * MASS;
                }
            }
        }
    }
    for [i, j, k] in mass {
        let m = mass[[i, j, k]];
        if m > 0.0 {
            let mut u = momentum[[i, j, k]] / m;
            u.y -= DT * GRAVITY;
            let (wall, n) = (WALL as i32, GRID as i32);
            if i < wall && u.x < 0.0 || i + wall > n && u.x > 0.0 {
                u.x = 0.0;
            }
            if j < wall && u.y < 0.0 || j + wall > n && u.y > 0.0 {
                u.y = 0.0;
            }
            if k < wall && u.z < 0.0 || k + wall > n && u.z > 0.0 {
                u.z = 0.0;
            }
            momentum[[i, j, k]] = u;
        }
    }
    for [p] in x {
        let at = x[[p]] * GRID as f32;
        let base = (at - Vec3::splat(0.5)).cast::<i32>();
        let f = at - base.cast::<f32>();
        let w = spline(f);
        let mut velocity = Vec3::splat(0.0);
        let mut affine = Mat3::splat(0.0);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                for k in unroll(0..3) {
                    let offset = ivec3(i, j, k);
                    let d = offset.cast::<f32>() - f;
                    let u = momentum[base + offset] * (w[[i, 0]] * w[[j, 1]] * w[[k, 2]]);
                    velocity += u;
                    affine += u.outer(d) * (4.0 * GRID as f32);
                }
            }
        }
        v[[p]] = velocity;
        c[[p]] = affine;
        x[[p]] += velocity * DT;
        volume[[p]] *= 1.0 + DT * affine.trace();
    }
}

impl Case for Mpm3d {
    fn name(&self) -> &'static str {
        NAME
    }
    fn size(&self) -> String {
        format!("{PARTICLES} on {GRID}^3")
    }
    fn metric(&self) -> &'static str {
        "substeps/s"
    }
    fn work(&self) -> f64 {
        1.0
    }
    fn tolerance(&self) -> f32 {
        1e-4
    }

    fn reference(&self, pool: &Arc<Pool>) -> Box<dyn Contender> {
        let pool = Arc::clone(pool);
        made(
            State::new(pool.threads()),
            move |s| substep(s, &pool),
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
            let cell = root.dense(IJK, GRID as i64);
            (cell.place("momentum"), cell.place("mass"))
        })?;
        let start = State::new(1).particles;
        x.copy_from(&start.iter().map(|p| Vector(p.x)).collect::<Vec<_>>())?;
        volume.fill(1.0)?;
        let out = x.clone();
        let run = move || mpm3d(&x, &v, &c, &volume, &momentum, &mass);
        Ok(launches(run, move || {
            Ok(out.to_vec()?.into_iter().flat_map(|x: Vec3| x.0).collect())
        }))
    }

    fn cpp(&self, cpp: &Cpp, threads: usize) -> Result<Box<dyn Contender>, String> {
        if GRID != 64 {
            return Err("there is a C++ version for 64^3 nodes only".into());
        }
        // SAFETY: the signature in `benches/cpp/mpm3d.cpp`.
        let f = unsafe {
            cpp.function::<unsafe extern "C" fn(*mut Particle, *const *mut Node, i32)>(
                c"cpp_mpm3d",
            )?
        };
        Ok(made(
            State::new(threads),
            move |s| {
                let grids: Vec<*mut Node> =
                    s.grids.iter_mut().map(|grid| grid.as_mut_ptr()).collect();
                // SAFETY: PARTICLES particles, and a grid of GRID^3 nodes for each thread.
                unsafe { f(s.particles.as_mut_ptr(), grids.as_ptr(), grids.len() as i32) }
            },
            positions,
        ))
    }
}
