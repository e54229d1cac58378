//! The hand-written program: elastic MLS-MPM in two dimensions, and its adjoint.

use crate::case::noise;
use crate::host_fn;
use crate::pool::Pool;
use crate::transfer::weights;

pub const PARTICLES: usize = 8192;
pub const GRID: usize = 128;
pub const STEPS: usize = 64;
pub const DX: f32 = 1.0 / GRID as f32;
pub const DT: f32 = 1e-4;
pub const MU: f32 = 400.0;
pub const LAMBDA: f32 = 400.0;
pub const GRAVITY: f32 = 9.8;
pub const WALL: usize = 3;
pub const TARGET: [f32; 2] = [0.6, 0.5];
pub const VELOCITY: [f32; 2] = [1.0, 0.5];
/// The factor of the stress: particles have mass and volume 1.
pub const STRESS: f32 = -DT * 4.0 / (DX * DX);

/// Row-major.
type Matrix = [f32; 4];

/// A particle at one step, or its adjoint.
#[derive(Clone, Copy, Default)]
struct Particle {
    x: [f32; 2],
    v: [f32; 2],
    c: Matrix,
    f: Matrix,
}

/// Momentum or velocity, and mass; one lane is unused.
type Node = [f32; 4];

pub struct State {
    /// Of each step.
    particles: Vec<Vec<Particle>>,
    /// Of each step, as the particles leave it.
    momentum: Vec<Vec<Node>>,
    /// Of each step.
    velocity: Vec<Vec<Node>>,
    adjoints: Vec<Particle>,
    /// One grid per thread, so scatters need no atomics.
    grids: Vec<Vec<Node>>,
    pub gradient: [f32; 2],
}

/// Where particles start.
pub fn start() -> Vec<[f32; 2]> {
    let at = |i: usize| [noise(2 * i) * 0.2 + 0.3, noise(2 * i + 1) * 0.2 + 0.3];
    (0..PARTICLES).map(at).collect()
}

impl State {
    pub fn new(threads: usize) -> State {
        let particle = |x| Particle {
            x,
            v: VELOCITY,
            c: [0.0; 4],
            f: [1.0, 0.0, 0.0, 1.0],
        };
        let first: Vec<Particle> = start().into_iter().map(particle).collect();
        let grid = vec![[0.0; 4]; GRID * GRID];
        State {
            particles: vec![first; STEPS + 1],
            momentum: vec![grid.clone(); STEPS],
            velocity: vec![grid.clone(); STEPS],
            adjoints: vec![Particle::default(); PARTICLES],
            grids: vec![grid; threads],
            gradient: [0.0; 2],
        }
    }
}

/// A particle between nodes.
struct Stencil {
    /// The first of nine nodes.
    base: usize,
    /// The position in cells, from the first node.
    at: [f32; 2],
    /// Weights, by axis.
    w: [[f32; 3]; 2],
}

#[inline(always)]
fn stencil(x: [f32; 2]) -> Stencil {
    let (gx, gy) = (x[0] * GRID as f32, x[1] * GRID as f32);
    let (bx, by) = ((gx - 0.5) as i32 as usize, (gy - 0.5) as i32 as usize);
    let at = [gx - bx as f32, gy - by as f32];
    Stencil {
        base: bx * GRID + by,
        at,
        w: at.map(weights),
    }
}

/// Their derivatives.
#[inline(always)]
fn slopes(f: f32) -> [f32; 3] {
    [f - 1.5, -2.0 * (f - 1.0), f - 0.5]
}

#[inline(always)]
fn product(a: Matrix, b: Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
    ]
}

#[inline(always)]
fn transposed(a: Matrix) -> Matrix {
    [a[0], a[2], a[1], a[3]]
}

#[inline(always)]
fn sum(a: Matrix, b: Matrix) -> Matrix {
    std::array::from_fn(|k| a[k] + b[k])
}

#[inline(always)]
fn scaled(a: Matrix, s: f32) -> Matrix {
    a.map(|x| x * s)
}

/// The identity, and a multiple of a matrix.
#[inline(always)]
fn moved(c: Matrix) -> Matrix {
    [1.0 + DT * c[0], DT * c[1], DT * c[2], 1.0 + DT * c[3]]
}

/// What a particle brings to the grid besides its momentum: neo-Hookean stress and affine momentum.
#[inline(always)]
fn affine(f: Matrix, c: Matrix) -> Matrix {
    let j = f[0] * f[3] - f[1] * f[2];
    let volume = LAMBDA * j.ln();
    let mut stress = scaled(product(f, transposed(f)), MU);
    stress[0] += volume - MU;
    stress[3] += volume - MU;
    sum(scaled(stress, STRESS), c)
}

host_fn! {
    fn scatter(now: &[Particle], next: &mut [Particle], grid: &mut [Node]) {
        grid.fill([0.0; 4]);
        for (p, next) in now.iter().zip(next) {
            let s = stencil(p.x);
            next.f = product(moved(p.c), p.f);
            let a = affine(next.f, p.c);
            let base: Node = [p.v[0], p.v[1], 1.0, 0.0];
            let (ax, ay): (Node, Node) = ([a[0], a[2], 0.0, 0.0], [a[1], a[3], 0.0, 0.0]);
            for i in 0..3 {
                let dx = (i as f32 - s.at[0]) * DX;
                let row: &mut [Node; 3] = (&mut grid[s.base + i * GRID..][..3]).try_into().expect("three nodes");
                for j in 0..3 {
                    let dy = (j as f32 - s.at[1]) * DX;
                    let w = s.w[0][i] * s.w[1][j];
                    for k in 0..4 {
                        row[j][k] = w.mul_add(ax[k].mul_add(dx, ay[k].mul_add(dy, base[k])), row[j][k]);
                    }
                }
            }
        }
    }
}

/// Which components of a velocity at a node are kept.
#[inline(always)]
fn free(n: usize, v: [f32; 2]) -> [bool; 2] {
    let kept = |k: usize, v: f32| !((k < WALL && v < 0.0) || (k + WALL > GRID && v > 0.0));
    [kept(n / GRID, v[0]), kept(n % GRID, v[1])]
}

/// The velocity of a node without walls.
#[inline(always)]
fn velocity(node: Node) -> [f32; 2] {
    let inverse = 1.0 / (node[2] + 1e-10);
    [node[0] * inverse, node[1] * inverse - DT * GRAVITY]
}

host_fn! {
    fn update(first: usize, momentum: &mut [Node], out: &mut [Node], grids: &[Vec<Node>]) {
        for (at, (node, out)) in momentum.iter_mut().zip(out).enumerate() {
            let n = first + at;
            *node = [0.0; 4];
            for grid in grids {
                for k in 0..4 {
                    node[k] += grid[n][k];
                }
            }
            let v = velocity(*node);
            let free = free(n, v);
            *out = [if free[0] { v[0] } else { 0.0 }, if free[1] { v[1] } else { 0.0 }, 0.0, 0.0];
        }
    }
}

host_fn! {
    fn gather(grid: &[Node], now: &[Particle], next: &mut [Particle]) {
        for (p, next) in now.iter().zip(next) {
            let s = stencil(p.x);
            let (mut v, mut cx, mut cy) = ([0.0f32; 4], [0.0f32; 4], [0.0f32; 4]);
            for i in 0..3 {
                let dx = i as f32 - s.at[0];
                let row: &[Node; 3] = (&grid[s.base + i * GRID..][..3]).try_into().expect("three nodes");
                for j in 0..3 {
                    let dy = j as f32 - s.at[1];
                    let w = s.w[0][i] * s.w[1][j];
                    for k in 0..4 {
                        let wv = w * row[j][k];
                        v[k] += wv;
                        cx[k] = wv.mul_add(dx, cx[k]);
                        cy[k] = wv.mul_add(dy, cy[k]);
                    }
                }
            }
            let scale = 4.0 * GRID as f32;
            next.v = [v[0], v[1]];
            next.c = [cx[0] * scale, cy[0] * scale, cx[1] * scale, cy[1] * scale];
            next.x = [p.x[0] + DT * v[0], p.x[1] + DT * v[1]];
        }
    }
}

host_fn! {
    /// The adjoint of `gather`: changes the adjoints of particles to those before it, and scatters to the grid.
    fn gather_adjoint(velocities: &[Node], now: &[Particle], adjoints: &mut [Particle], grid: &mut [Node]) {
        grid.fill([0.0; 4]);
        let scale = 4.0 * GRID as f32;
        for (p, a) in now.iter().zip(adjoints) {
            let s = stencil(p.x);
            let slope = s.at.map(slopes);
            let v = [a.v[0] + DT * a.x[0], a.v[1] + DT * a.x[1]];
            let c = scaled(a.c, scale);
            let mut at = [0.0f32; 2];
            for i in 0..3 {
                let dx = i as f32 - s.at[0];
                let from: &[Node; 3] = (&velocities[s.base + i * GRID..][..3]).try_into().expect("three nodes");
                let to: &mut [Node; 3] = (&mut grid[s.base + i * GRID..][..3]).try_into().expect("three nodes");
                for j in 0..3 {
                    let dy = j as f32 - s.at[1];
                    let (wx, wy) = (s.w[0][i], s.w[1][j]);
                    let w = wx * wy;
                    let g = from[j];
                    let u = [v[0] + c[0] * dx + c[1] * dy, v[1] + c[2] * dx + c[3] * dy];
                    to[j][0] += w * u[0];
                    to[j][1] += w * u[1];
                    let of_w = g[0] * u[0] + g[1] * u[1];
                    at[0] += of_w * slope[0][i] * wy - w * (c[0] * g[0] + c[2] * g[1]);
                    at[1] += of_w * slope[1][j] * wx - w * (c[1] * g[0] + c[3] * g[1]);
                }
            }
            a.x = [a.x[0] + at[0] * GRID as f32, a.x[1] + at[1] * GRID as f32];
            a.v = [0.0; 2];
            a.c = [0.0; 4];
        }
    }
}

host_fn! {
    /// The adjoint of `update`, in place: from that of the velocity to those of momentum and mass.
    fn update_adjoint(first: usize, momentum: &[Node], nodes: &mut [Node], others: &[&[Node]]) {
        for (at, node) in nodes.iter_mut().enumerate() {
            let n = first + at;
            for other in others {
                for k in 0..2 {
                    node[k] += other[n][k];
                }
            }
            let m = momentum[n];
            let free = free(n, velocity(m));
            let inverse = 1.0 / (m[2] + 1e-10);
            let u = [if free[0] { node[0] * inverse } else { 0.0 }, if free[1] { node[1] * inverse } else { 0.0 }];
            *node = [u[0], u[1], -(u[0] * m[0] + u[1] * m[1]) * inverse, 0.0];
        }
    }
}

host_fn! {
    /// The adjoint of `scatter`.
    fn scatter_adjoint(grid: &[Node], now: &[Particle], next: &[Particle], adjoints: &mut [Particle]) {
        for ((p, next), adjoint) in now.iter().zip(next).zip(adjoints) {
            let s = stencil(p.x);
            let slope = s.at.map(slopes);
            let a = affine(next.f, p.c);
            let (mut of_a, mut v, mut at) = ([0.0f32; 4], [0.0f32; 2], [0.0f32; 2]);
            for i in 0..3 {
                let dx = (i as f32 - s.at[0]) * DX;
                let row: &[Node; 3] = (&grid[s.base + i * GRID..][..3]).try_into().expect("three nodes");
                for j in 0..3 {
                    let dy = (j as f32 - s.at[1]) * DX;
                    let (wx, wy) = (s.w[0][i], s.w[1][j]);
                    let w = wx * wy;
                    let g = row[j];
                    let q = [p.v[0] + a[0] * dx + a[1] * dy, p.v[1] + a[2] * dx + a[3] * dy];
                    let of_w = g[0] * q[0] + g[1] * q[1] + g[2];
                    let wg = [w * g[0], w * g[1]];
                    v[0] += wg[0];
                    v[1] += wg[1];
                    of_a = sum(of_a, [wg[0] * dx, wg[0] * dy, wg[1] * dx, wg[1] * dy]);
                    at[0] += of_w * slope[0][i] * wy - DX * (a[0] * wg[0] + a[2] * wg[1]);
                    at[1] += of_w * slope[1][j] * wx - DX * (a[1] * wg[0] + a[3] * wg[1]);
                }
            }
            let of_stress = scaled(of_a, STRESS);
            let j = next.f[0] * next.f[3] - next.f[1] * next.f[2];
            let symmetric = scaled(sum(of_stress, transposed(of_stress)), MU);
            let cofactor = [next.f[3], -next.f[2], -next.f[1], next.f[0]];
            let of_volume = LAMBDA * (of_stress[0] + of_stress[3]) / j;
            let of_f = sum(adjoint.f, sum(product(symmetric, next.f), scaled(cofactor, of_volume)));
            adjoint.c = sum(of_a, scaled(product(of_f, transposed(p.f)), DT));
            adjoint.f = product(transposed(moved(p.c)), of_f);
            adjoint.v = v;
            adjoint.x = [adjoint.x[0] + at[0] * GRID as f32, adjoint.x[1] + at[1] * GRID as f32];
        }
    }
}

/// The first of the share of a thread.
fn first(length: usize, t: usize, threads: usize) -> usize {
    length * t / threads
}

/// The share of a thread.
fn share<T>(all: &[T], t: usize, threads: usize) -> &[T] {
    &all[first(all.len(), t, threads)..first(all.len(), t + 1, threads)]
}

/// The shares of all threads.
fn shares<T>(all: &mut [T], threads: usize) -> Vec<&mut [T]> {
    let length = all.len();
    let mut rest = all;
    let mut out = Vec::new();
    for t in 0..threads {
        let (mine, others) =
            rest.split_at_mut(first(length, t + 1, threads) - first(length, t, threads));
        rest = others;
        out.push(mine);
    }
    out
}

pub fn forward(s: &mut State, pool: &Pool) {
    let threads = pool.threads();
    for step in 0..STEPS {
        let (now, next) = s.particles.split_at_mut(step + 1);
        let (now, next) = (&now[step][..], &mut next[0][..]);
        let mut work: Vec<_> = shares(next, threads)
            .into_iter()
            .zip(&mut s.grids)
            .collect();
        pool.each(&mut work, |t, (next, grid)| {
            scatter(share(now, t, threads), next, grid);
        });
        let grids = &s.grids[..];
        let (momentum, velocity) = (&mut s.momentum[step], &mut s.velocity[step]);
        let momentum = shares(momentum, threads);
        let mut work: Vec<_> = momentum
            .into_iter()
            .zip(shares(velocity, threads))
            .collect();
        pool.each(&mut work, |t, (momentum, velocity)| {
            update(first(GRID * GRID, t, threads), momentum, velocity, grids);
        });
        let velocity = &s.velocity[step][..];
        pool.split(next, 1, |at, next| {
            gather(velocity, &now[at..at + next.len()], next);
        });
    }
}

pub fn backward(s: &mut State, pool: &Pool) {
    let threads = pool.threads();
    for (p, a) in s.particles[STEPS].iter().zip(&mut s.adjoints) {
        let d = std::array::from_fn(|k| 2.0 * (p.x[k] - TARGET[k]) / PARTICLES as f32);
        *a = Particle {
            x: d,
            ..Particle::default()
        };
    }
    for step in (0..STEPS).rev() {
        let (now, next) = (&s.particles[step][..], &s.particles[step + 1][..]);
        let (momentum, velocity) = (&s.momentum[step][..], &s.velocity[step][..]);
        let adjoints = shares(&mut s.adjoints, threads);
        let mut work: Vec<_> = adjoints.into_iter().zip(&mut s.grids).collect();
        pool.each(&mut work, |t, (adjoints, grid)| {
            gather_adjoint(velocity, share(now, t, threads), adjoints, grid);
        });
        let (first, others) = s.grids.split_at_mut(1);
        let others: Vec<&[Node]> = others.iter().map(|grid| &grid[..]).collect();
        let grid = &mut first[0];
        pool.split(grid, GRID, |at, nodes| {
            update_adjoint(at, momentum, nodes, &others);
        });
        let grid = &grid[..];
        pool.split(&mut s.adjoints, 1, |at, adjoints| {
            let mine = at..at + adjoints.len();
            scatter_adjoint(grid, &now[mine.clone()], &next[mine], adjoints);
        });
    }
    s.gradient = [0, 1].map(|k| s.adjoints.iter().map(|a| a.v[k]).sum());
}
