//! Three-dimensional MLS-MPM on a sparse grid, of jelly, snow, sand or a fluid.
//!
//! Blocks of the grid are activated and deactivated as particles move. In the bucket variants, each block has a list of
//! its particles, rebuilt in each substep, and particles are processed block by block. In the plain variant, particles
//! are processed in memory order. The unbounded variant has a hash node at the root, a floor, and no walls.

mod material;
mod scene;

pub use material::{Material, Response};

use super::balls::Balls;
use super::fem::Order;
use super::{App, Scale};
use material::{Apply, Constitutive};
use wuji::prelude::*;
use wuji::viewer::Picture;
use wuji::{Cells, Result};

/// Nodes along each side of a block.
pub const BLOCK: i32 = 4;
const GRAVITY: f32 = 9.8;
/// Boundary cells at each wall.
const WALL: i32 = 3;

// ANCHOR: kernels
/// A particle.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
pub struct Particle {
    /// Its position.
    pub x: Vec3,
    /// Its velocity.
    pub v: Vec3,
    /// Affine velocity field (APIC).
    pub c: Mat3,
    /// Deformation gradient.
    pub f: Mat3,
}

/// Quadratic B-spline weights of the three nodes around a particle along each axis, one row per node.
#[func]
fn spline(f: Vec3) -> Mat3 {
    let (a, b, c) = (
        Vec3::splat(1.5) - f,
        f - Vec3::splat(1.0),
        f - Vec3::splat(0.5),
    );
    Matrix::from_rows([a * a * 0.5, Vec3::splat(0.75) - b * b, c * c * 0.5])
}

/// The lowest of the 27 nodes around a position.
#[func]
fn base(x: Vec3, n: f32) -> IVec3 {
    (x * n - Vec3::splat(0.5)).floor().cast::<i32>()
}

/// Which particles are in the list of a block.
#[func]
trait Home {
    /// The cell by whose block a particle is listed.
    fn cell(self, x: Vec3, n: f32) -> IVec3;
    /// The lowest node of a particle in the list of a block.
    fn in_block(self, at: IVec3, block: IVec3) -> IVec3;
}

/// A particle is listed by its lowest node, so it reaches at most two nodes beyond the block.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Staggered {
    /// The offset of cells against nodes.
    shift: f32,
}

#[func]
impl Home for Staggered {
    fn cell(self, x: Vec3, n: f32) -> IVec3 {
        (x * n - Vec3::splat(self.shift)).floor().cast::<i32>()
    }

    fn in_block(self, at: IVec3, block: IVec3) -> IVec3 {
        let first = block * BLOCK;
        ivec3(
            assume_in_range(at.x, first.x, 0, BLOCK),
            assume_in_range(at.y, first.y, 0, BLOCK),
            assume_in_range(at.z, first.z, 0, BLOCK),
        )
    }
}

/// A particle is listed by the block that it is in, so it reaches a node below the block, too.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Centred {
    shift: f32,
}

#[func]
impl Home for Centred {
    fn cell(self, x: Vec3, n: f32) -> IVec3 {
        (x * n - Vec3::splat(self.shift)).floor().cast::<i32>()
    }

    fn in_block(self, at: IVec3, block: IVec3) -> IVec3 {
        let first = block * BLOCK;
        ivec3(
            assume_in_range(at.x, first.x, -1, BLOCK),
            assume_in_range(at.y, first.y, -1, BLOCK),
            assume_in_range(at.z, first.z, -1, BLOCK),
        )
    }
}

/// The grid, and the time step.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Scene {
    /// Nodes along each axis.
    n: f32,
    dt: f32,
}

/// Particle to grid (P2G): updates the deformation and scatters mass and momentum.
#[func]
fn scatter<M: Constitutive + Element>(
    material: M,
    particles: &Field<Particle, 1>,
    history: &Field<f32, 1>,
    p: i32,
    at: IVec3,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
    scene: Scene,
) {
    let (n, dt) = (scene.n, scene.dt);
    let q = particles[[p]];
    let part = q.x * n - at.cast::<f32>();
    let w = spline(part);
    let mut past = 0.0;
    if material.remembers() {
        past = history[[p]];
    }
    let response = material.respond((Mat3::identity() + q.c * dt) * q.f, past);
    particles[[p]].f = response.f;
    if material.remembers() {
        history[[p]] = response.history;
    }
    let volume = 0.125 / (n * n * n);
    let affine = response.stress * (-dt * 4.0 * n * n * volume) + q.c * volume;
    for i in unroll(0..3) {
        for j in unroll(0..3) {
            for k in unroll(0..3) {
                let offset = ivec3(i, j, k);
                let weight = w[[i, 0]] * w[[j, 1]] * w[[k, 2]];
                let d = (offset.cast::<f32>() - part) / n;
                momentum[at + offset] += (q.v * volume + affine * d) * weight;
                mass[at + offset] += volume * weight;
            }
        }
    }
}

/// Grid to particle (G2P): gathers velocity and moves the particle.
#[func]
fn gather(
    particles: &Field<Particle, 1>,
    p: i32,
    at: IVec3,
    velocity: &Field<Vec3, 3>,
    scene: Scene,
) {
    let (n, x) = (scene.n, particles[[p]].x);
    let part = x * n - at.cast::<f32>();
    let w = spline(part);
    let mut v = Vec3::splat(0.0);
    let mut c = Mat3::splat(0.0);
    for i in unroll(0..3) {
        for j in unroll(0..3) {
            for k in unroll(0..3) {
                let offset = ivec3(i, j, k);
                let u = velocity[at + offset] * (w[[i, 0]] * w[[j, 1]] * w[[k, 2]]);
                v += u;
                c += u.outer(offset.cast::<f32>() - part) * (4.0 * n);
            }
        }
    }
    particles[[p]].v = v;
    particles[[p]].c = c;
    particles[[p]].x = x + v * scene.dt;
}

/// Appends each particle to the list of its block.
#[kernel]
fn sort<H: Home + Element>(
    home: H,
    particles: &Field<Particle, 1>,
    bucket: &Field<i32, 4>,
    n: f32,
) {
    for [p] in particles {
        let at = home.cell(particles[[p]].x, n);
        bucket.append([at.x >> 2, at.y >> 2, at.z >> 2], p);
    }
}

#[kernel]
fn to_grid_by_bucket<M: Constitutive + Element, H: Home + Element>(
    material: M,
    home: H,
    particles: &Field<Particle, 1>,
    history: &Field<f32, 1>,
    bucket: &Field<i32, 4>,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
    scene: Scene,
) {
    for [i, j, k, l] in cache(momentum, cache(mass, bucket)) {
        let p = bucket[[i, j, k, l]];
        let at = home.in_block(base(particles[[p]].x, scene.n), ivec3(i, j, k));
        scatter(material, particles, history, p, at, momentum, mass, scene);
    }
}

#[kernel]
fn to_grid<M: Constitutive + Element>(
    material: M,
    particles: &Field<Particle, 1>,
    history: &Field<f32, 1>,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
    scene: Scene,
) {
    for [p] in particles {
        let at = base(particles[[p]].x, scene.n);
        scatter(material, particles, history, p, at, momentum, mass, scene);
    }
}

/// Grid update: momentum to velocity, gravity and boundary conditions.
#[kernel]
fn on_grid(momentum: &Field<Vec3, 3>, mass: &Field<f32, 3>, n: i32, dt: f32, walls: bool) {
    for [i, j, k] in mass {
        let m = mass[[i, j, k]];
        if m > 0.0 {
            let mut u = momentum[[i, j, k]] / m;
            u.y -= dt * GRAVITY;
            if j < WALL && u.y < 0.0 {
                u = Vec3::splat(0.0);
            }
            if walls {
                if i < WALL && u.x < 0.0 || i + WALL > n && u.x > 0.0 {
                    u.x = 0.0;
                }
                if j + WALL > n && u.y > 0.0 {
                    u.y = 0.0;
                }
                if k < WALL && u.z < 0.0 || k + WALL > n && u.z > 0.0 {
                    u.z = 0.0;
                }
            }
            momentum[[i, j, k]] = u;
        }
    }
}

#[kernel]
fn to_particles_by_bucket<H: Home + Element>(
    home: H,
    particles: &Field<Particle, 1>,
    bucket: &Field<i32, 4>,
    velocity: &Field<Vec3, 3>,
    scene: Scene,
) {
    for [i, j, k, l] in cache(velocity, bucket) {
        let p = bucket[[i, j, k, l]];
        let at = home.in_block(base(particles[[p]].x, scene.n), ivec3(i, j, k));
        gather(particles, p, at, velocity, scene);
    }
}

#[kernel]
fn to_particles(particles: &Field<Particle, 1>, velocity: &Field<Vec3, 3>, scene: Scene) {
    for [p] in particles {
        gather(
            particles,
            p,
            base(particles[[p]].x, scene.n),
            velocity,
            scene,
        );
    }
}

// ANCHOR_END: kernels

/// The order in which particles are processed, and the extent of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// In the order of their numbers.
    Plain,
    /// By the blocks of the grid they are in.
    Buckets,
    /// In the order of their numbers, on a grid without bounds.
    Unbounded,
}

/// By which block a particle is listed: that of its lowest node, or the one that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// By the block of its lowest node.
    Staggered,
    /// By the block that it is in.
    Centred,
}

/// How particles and nodes are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Of particles.
    pub particles: Order,
    /// Of the grid.
    pub grid: Order,
    /// Of the particles of a block.
    pub lists: Lists,
}

/// The particles and their grid.
#[derive(Debug)]
pub struct Mpm3d {
    n: i32,
    variant: Variant,
    material: Material,
    lists: Lists,
    particles: Field<Particle, 1>,
    /// What particles remember of plastic deformations.
    history: Field<f32, 1>,
    blocks: Cells<3>,
    momentum: Field<Vec3, 3>,
    mass: Field<f32, 3>,
    bucket: Field<i32, 4>,
}

/// Two colliding cubes: 2^19 particles on 128^3, or 2^13 on 32^3.
pub fn app(world: &World, scale: Scale, variant: Variant) -> Result<Box<dyn App>> {
    Ok(Box::new(Mpm3d::new(world, side(scale), variant)?))
}

/// The scene of a material.
pub fn material_app(world: &World, scale: Scale, material: Material) -> Result<Box<dyn App>> {
    Ok(Box::new(Mpm3d::of_material(world, side(scale), material)?))
}

/// Nodes along each axis.
fn side(scale: Scale) -> i32 {
    match scale {
        Scale::Full => 128,
        Scale::Small => 32,
    }
}

/// The layout of the scenes.
const STORAGE: Storage = Storage {
    particles: Order::Aos,
    grid: Order::Aos,
    lists: Lists::Staggered,
};

impl Mpm3d {
    /// Particles on a grid with `n` cells along each axis.
    pub fn new(world: &World, n: i32, variant: Variant) -> Result<Mpm3d> {
        Self::with_cubes(world, n, n as usize / 4, variant)
    }

    /// On `n`^3 nodes, with cubes of `side` cells.
    pub fn with_cubes(world: &World, n: i32, side: usize, variant: Variant) -> Result<Mpm3d> {
        let all = scene::cubes(n, side);
        Self::with_particles(world, n, &all, variant, Material::NeoHookean, STORAGE)
    }

    /// The scene of a material, on `n`^3 nodes.
    pub fn of_material(world: &World, n: i32, material: Material) -> Result<Mpm3d> {
        let all = scene::particles(material, n);
        Self::with_particles(world, n, &all, Variant::Buckets, material, STORAGE)
    }

    /// On `n`^3 nodes, with these particles.
    pub fn with_particles(
        world: &World,
        n: i32,
        all: &[Particle],
        variant: Variant,
        material: Material,
        storage: Storage,
    ) -> Result<Mpm3d> {
        // ANCHOR: layout
        let count = all.len() as i64;
        let particles = world.layout(|root| match storage.particles {
            Order::Aos => root.dense(I, count).place("particles"),
            Order::Soa => root.place_soa("particles", |root| root.dense(I, count)),
        })?;
        let (blocks, momentum, mass, bucket) = world.layout(|root| {
            let block = match variant {
                Variant::Unbounded => root.hash(IJK).pointer(IJK, 16),
                _ => root.pointer(IJK, (n / BLOCK) as i64),
            };
            let cells = block.cells("blocks");
            let (momentum, mass) = match storage.grid {
                Order::Aos => {
                    let node = block.dense(IJK, BLOCK as i64);
                    (node.place("momentum"), node.place("mass"))
                }
                Order::Soa => (
                    block.place_soa("momentum", |block| block.dense(IJK, BLOCK as i64)),
                    block.dense(IJK, BLOCK as i64).place("mass"),
                ),
            };
            let bucket = block.dynamic_chunked(L, 4096, 1024).place("bucket");
            (cells, momentum, mass, bucket)
        })?;
        // ANCHOR_END: layout
        particles.copy_from(all)?;
        let history = world.field("history", count)?;
        history.fill(material.fresh())?;
        Ok(Mpm3d {
            n,
            variant,
            material,
            lists: storage.lists,
            particles,
            history,
            blocks,
            momentum,
            mass,
            bucket,
        })
    }

    /// The particles.
    pub fn particles(&self) -> &Field<Particle, 1> {
        &self.particles
    }

    // ANCHOR: substep
    fn substep_with<M: Constitutive + Element, H: Home + Element>(
        &self,
        material: M,
        home: H,
    ) -> Result<()> {
        let (particles, history, bucket) = (&self.particles, &self.history, &self.bucket);
        let (momentum, mass) = (&self.momentum, &self.mass);
        let dt = self.material.time_step(self.n);
        let n = self.n as f32;
        let scene = Scene { n, dt };
        self.blocks.deactivate_all()?;
        if self.variant == Variant::Plain {
            to_grid(material, particles, history, momentum, mass, scene)?;
            on_grid(momentum, mass, self.n, dt, true)?;
            return to_particles(particles, momentum, scene);
        }
        sort(home, particles, bucket, n)?;
        to_grid_by_bucket(
            material, home, particles, history, bucket, momentum, mass, scene,
        )?;
        let walls = self.variant == Variant::Buckets;
        on_grid(momentum, mass, self.n, dt, walls)?;
        to_particles_by_bucket(home, particles, bucket, momentum, scene)
    }
    // ANCHOR_END: substep
}

/// A substep with the model of a material.
struct Substep<'a>(&'a Mpm3d);

impl Apply for Substep<'_> {
    type Output = Result<()>;

    fn apply<M: Constitutive + Element>(self, material: M) -> Result<()> {
        let Substep(mpm) = self;
        match mpm.lists {
            Lists::Staggered => mpm.substep_with(material, Staggered { shift: 0.5 }),
            Lists::Centred => mpm.substep_with(material, Centred { shift: 0.0 }),
        }
    }
}

impl App for Mpm3d {
    fn step(&mut self) -> Result<()> {
        self.material.apply(Substep(self))
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        let all = self.particles.to_vec()?;
        let mean = |f: &dyn Fn(&Particle) -> f32| {
            all.iter().map(|p| f64::from(f(p))).sum::<f64>() / all.len() as f64
        };
        Ok(vec![
            ("blocks", self.blocks.count_active()? as f64),
            ("x", mean(&|p| p.x.x)),
            ("y", mean(&|p| p.x.y)),
            ("v.v", mean(&|p| p.v.norm_sqr())),
            ("volume", mean(&|p| p.f.determinant())),
        ])
    }

    fn picture(&self) -> Result<Picture> {
        let all = self.particles.to_vec()?;
        let radius = 0.75 / self.n as f32;
        let colors = scene::colors(self.material);
        let mut balls = Balls::new(360, WALL as f32 / self.n as f32);
        for (at, p) in all.iter().enumerate() {
            let (slow, fast) = colors[usize::from(at >= all.len() / 2)];
            let color = mix(slow, fast, (p.v.norm() / 6.0).min(1.0));
            balls.add(p.x, radius, color);
        }
        Ok(balls.picture(radius))
    }

    fn size(&self) -> Result<String> {
        let count = self.particles.len()?;
        Ok(format!("{count} particles on {0}x{0}x{0}", self.n))
    }
}

#[cfg(test)]
mod behaviour;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const DT: f32 = 4e-5;

    /// One substep in plain Rust, with a map of nodes.
    fn plain(particles: &mut [Particle], n: i32, walls: bool) {
        let (n, size) = (n as f32, n);
        let mut grid: HashMap<[i32; 3], (Vec3, f32)> = HashMap::new();
        let volume = 0.125 / (n * n * n);
        let nodes = |x: Vec3| {
            let at = base(x, n);
            let part = x * n - at.cast::<f32>();
            let w = spline(part);
            (0..27).map(move |c| {
                let o = [c / 9, c / 3 % 3, c % 3];
                let weight = w[[o[0], 0]] * w[[o[1], 1]] * w[[o[2], 2]];
                let offset = ivec3(o[0] as i32, o[1] as i32, o[2] as i32);
                ((at + offset).0, weight, offset.cast::<f32>() - part)
            })
        };
        for p in particles.iter_mut() {
            p.f = (Mat3::identity() + p.c * DT) * p.f;
            let stress = Material::NeoHookean.respond(p.f, 0.0).stress;
            let affine = stress * (-DT * 4.0 * n * n * volume) + p.c * volume;
            for (at, weight, d) in nodes(p.x) {
                let node = grid.entry(at).or_insert((Vec3::splat(0.0), 0.0));
                node.0 += (p.v * volume + affine * (d / n)) * weight;
                node.1 += volume * weight;
            }
        }
        for (at, node) in grid.iter_mut() {
            let mut u = node.0 / node.1;
            u.0[1] -= DT * GRAVITY;
            if at[1] < WALL && u.0[1] < 0.0 {
                u = Vec3::splat(0.0);
            }
            for (u, at) in u.0.iter_mut().zip(at) {
                if walls && (*at < WALL && *u < 0.0 || *at + WALL > size && *u > 0.0) {
                    *u = 0.0;
                }
            }
            node.0 = u;
        }
        for p in particles.iter_mut() {
            p.v = Vec3::splat(0.0);
            p.c = Mat3::splat(0.0);
            for (at, weight, d) in nodes(p.x) {
                let u = grid[&at].0 * weight;
                p.v += u;
                p.c += u.outer(d) * (4.0 * n);
            }
            p.x += p.v * DT;
        }
    }

    #[test]
    fn every_variant_does_what_plain_loops_do() {
        let world = World::cpu().expect("a world");
        for variant in [Variant::Plain, Variant::Buckets, Variant::Unbounded] {
            let mut mpm = Mpm3d::new(&world, 16, variant).expect("fields");
            let mut expected = mpm.particles.to_vec().expect("particles");
            for _ in 0..5 {
                mpm.step().expect("a step");
                plain(&mut expected, 16, variant != Variant::Unbounded);
            }
            let found = mpm.particles.to_vec().expect("particles");
            for (a, b) in found.iter().zip(&expected) {
                assert!((a.x - b.x).norm() < 1e-5, "{variant:?}: {a:?} {b:?}");
                assert!((a.v - b.v).norm() < 1e-2, "{variant:?}: {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn without_walls_bodies_leave() {
        let world = World::cpu().expect("a world");
        let mut mpm = Mpm3d::new(&world, 16, Variant::Unbounded).expect("fields");
        let mut all = mpm.particles.to_vec().expect("particles");
        for p in &mut all {
            p.x += vec3(-3.0, 5.0, 7.0);
        }
        mpm.particles.copy_from(&all).expect("particles");
        mpm.step().expect("a step");
        let found = mpm.particles.to_vec().expect("particles");
        for (a, b) in found.iter().zip(&all) {
            assert!((a.x - b.x - b.v * DT).norm() < 1e-3, "{a:?} {b:?}");
        }
    }
}
