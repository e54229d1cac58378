//! The material point method (MLS-MPM) in three dimensions, and a soft robot with sixteen muscles that learns to crawl.
//!
//! [`Mpm`] simulates elastic solids with muscles and weakly compressible liquids, which share one grid; [`liquid`](super::liquid) uses it
//! too. A state is large, so the gradient keeps only a few of them and computes the others again (`tape_steps`).

use super::descent::noise;
use super::{Adam, Outcome, Report, Simulator, Study, plot};
use std::f32::consts::TAU;
use wuji::prelude::*;
use wuji::viewer::Picture;

/// A soft robot in three dimensions.
pub const DIFFMPM3D: Simulator = Simulator {
    name: "diffmpm3d",
    about: "material point method in 3-D: a soft robot with 16 muscles learns to crawl",
    long: "Particles and a grid (MLS-MPM) with a neo-Hookean material. Each of the four legs has four muscles, which are driven by sums of \
           waves with weights that Adam finds. The tape keeps twelve states of the simulation and computes the others again.",
    goal: "the robot moves forward by 0.05, a sixth of its length",
    size: ("grid nodes along each side", 32),
    iterations: 25,
    run,
    file: file!(),
    source: include_str!("diffmpm3d.rs"),
};

const MU: f32 = 10.0;
const LAMBDA: f32 = 10.0;
/// A seventh of the bulk modulus of liquids.
const PRESSURE: f32 = 3.0;
const GRAVITY: f32 = 3.8;
const STRENGTH: f32 = 5.0;
const FRICTION: f32 = 0.5;
/// The time step, times the nodes along each side.
const COURANT: f32 = 0.1;
/// Nodes of the ground and of the walls.
pub(super) const WALL: i32 = 3;
/// Copies of the state that the gradient keeps.
pub(super) const COPIES: usize = 12;

/// What a particle is made of: a passive solid, a liquid, or the muscle with this number.
pub(super) const SOLID: i32 = -1;
pub(super) const LIQUID: i32 = -2;

/// Quadratic B-spline weights of the three nodes around a particle along each axis, one row per node.
#[func]
fn spline(f: Vec3) -> Mat3 {
    let (a, b, c) = (f * -1.0 + 1.5, f - 1.0, f - 0.5);
    Matrix::from_rows([a * a * 0.5, b * b * -1.0 + 0.75, c * c * 0.5])
}

/// The stress of a solid with a muscle along y, or of a liquid.
#[func]
fn stress_of(kind: i32, f: Mat3, signal: f32) -> Mat3 {
    let ratio = f.determinant();
    if kind == LIQUID {
        Mat3::identity() * (PRESSURE * (ratio - ratio.powi(-6)))
    } else {
        let pull = Mat3::from_diagonal(vec3(0.0, STRENGTH * signal, 0.0));
        (f * f.transpose() - Mat3::identity()) * MU
            + Mat3::identity() * (LAMBDA * ratio.ln())
            + f * pull * f.transpose()
    }
}

#[kernel]
fn to_grid(
    x: &Field<Vec3, 1>,
    v: &Field<Vec3, 1>,
    c: &Field<Mat3, 1>,
    deformation: &Field<Mat3, 1>,
    kind: &Field<i32, 1>,
    signal: &Field<f32, 1>,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
) {
    for [i, j, k] in mass {
        momentum[[i, j, k]] = Vec3::splat(0.0);
        mass[[i, j, k]] = 0.0;
    }
    let n = mass.shape().x as f32;
    for [p] in x {
        // Out-of-bounds reads are zero: only muscles have a signal.
        let stress = stress_of(kind[[p]], deformation[[p]], signal[[kind[[p]]]]);
        let affine = c[[p]] - stress * (4.0 * COURANT * n);
        let at = x[[p]] * n;
        let base = (at - 0.5).cast::<i32>();
        let part = at - base.cast::<f32>();
        let w = spline(part);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                for k in unroll(0..3) {
                    let weight = w[[i, 0]] * w[[j, 1]] * w[[k, 2]];
                    let d = (vec3(i as f32, j as f32, k as f32) - part) / n;
                    momentum[base + ivec3(i, j, k)] += (v[[p]] + affine * d) * weight;
                    mass[base + ivec3(i, j, k)] += weight;
                }
            }
        }
    }
}

/// Gravity, slippery walls, and a ground with Coulomb friction.
#[kernel]
fn update_grid(momentum: &Field<Vec3, 3>, mass: &Field<f32, 3>, velocity: &Field<Vec3, 3>) {
    let n = mass.shape().x;
    for [i, j, k] in mass {
        let mut u = momentum[[i, j, k]] / (mass[[i, j, k]] + 1e-10);
        u.y -= COURANT / n as f32 * GRAVITY;
        if i < WALL && u.x < 0.0 || i > n - WALL && u.x > 0.0 {
            u.x = 0.0;
        }
        if k < WALL && u.z < 0.0 || k > n - WALL && u.z > 0.0 {
            u.z = 0.0;
        }
        if j < WALL && u.y < 0.0 {
            // Friction takes at most this speed away, and at most all of it.
            let speed = (u.x * u.x + u.z * u.z + 1e-12).sqrt();
            let kept = (1.0 + FRICTION * u.y / speed).max(0.0);
            u = vec3(u.x * kept, 0.0, u.z * kept);
        }
        velocity[[i, j, k]] = u;
    }
}

#[kernel]
fn from_grid(
    x: &Field<Vec3, 1>,
    v: &Field<Vec3, 1>,
    c: &Field<Mat3, 1>,
    deformation: &Field<Mat3, 1>,
    kind: &Field<i32, 1>,
    velocity: &Field<Vec3, 3>,
) {
    let n = velocity.shape().x as f32;
    for [p] in x {
        let at = x[[p]] * n;
        let base = (at - 0.5).cast::<i32>();
        let part = at - base.cast::<f32>();
        let w = spline(part);
        let mut u = Vec3::splat(0.0);
        let mut affine = Mat3::splat(0.0);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                for k in unroll(0..3) {
                    let weight = w[[i, 0]] * w[[j, 1]] * w[[k, 2]];
                    let g = velocity[base + ivec3(i, j, k)] * weight;
                    u += g;
                    affine += g.outer(vec3(i as f32, j as f32, k as f32) - part) * (4.0 * n);
                }
            }
        }
        v[[p]] = u;
        c[[p]] = affine;
        let dt = COURANT / n;
        x[[p]] += u * dt;
        let f = deformation[[p]];
        deformation[[p]] = if kind[[p]] == LIQUID {
            // A liquid keeps only its volume ratio.
            Mat3::from_diagonal(vec3(f[[0, 0]] * (1.0 + dt * affine.trace()), 1.0, 1.0))
        } else {
            (Mat3::identity() + affine * dt) * f
        };
    }
}

/// Particles and a grid.
#[derive(Debug)]
pub(super) struct Mpm {
    pub n: usize,
    pub dt: f32,
    pub rest: Field<Vec3, 1>,
    pub kind: Field<i32, 1>,
    pub signal: Field<f32, 1>,
    pub x: Field<Vec3, 1>,
    pub v: Field<Vec3, 1>,
    c: Field<Mat3, 1>,
    deformation: Field<Mat3, 1>,
    momentum: Field<Vec3, 3>,
    mass: Field<f32, 3>,
    velocity: Field<Vec3, 3>,
}

/// A box of particles: its lower corner, above the ground, its extents, and its material.
pub(super) type Part = ([f32; 3], [f32; 3], i32);

impl Mpm {
    pub(super) fn new(world: &World, n: usize, parts: &[Part]) -> wuji::Result<Mpm> {
        let (mut rest, mut kind) = (Vec::new(), Vec::new());
        let spacing = 0.5 / n as f32;
        for (corner, extents, material) in parts {
            let [a, b, c] = extents.map(|extent| (extent / spacing).round().max(1.0) as usize);
            for k in 0..a * b * c {
                let at = [k / (b * c), k / c % b, k % c].map(|k| (k as f32 + 0.5) * spacing);
                let ground = vec3(0.0, WALL as f32 / n as f32, 0.0);
                rest.push(Vector(*corner) + Vector(at) + ground);
                kind.push(*material);
            }
        }
        let count = rest.len();
        let muscles = parts.iter().filter(|(.., kind)| *kind >= 0).count();
        let mpm = Mpm {
            n,
            dt: COURANT / n as f32,
            rest: world.field("rest", count)?,
            kind: world.field("kind", count)?,
            signal: world.field("signal", muscles.max(1))?.needs_grad()?,
            x: world.field("x", count)?.needs_grad()?,
            v: world.field("v", count)?.needs_grad()?,
            c: world.field("c", count)?.needs_grad()?,
            deformation: world.field("deformation", count)?.needs_grad()?,
            momentum: world.field("momentum", [n, n, n])?.needs_grad()?,
            mass: world.field("mass", [n, n, n])?.needs_grad()?,
            velocity: world.field("velocity", [n, n, n])?.needs_grad()?,
        };
        mpm.rest.copy_from(&rest)?;
        mpm.kind.copy_from(&kind)?;
        Ok(mpm)
    }

    pub(super) fn reset(&self) -> wuji::Result<()> {
        self.x.copy_from(&self.rest.to_vec()?)?;
        self.v.fill(Vec3::splat(0.0))?;
        self.c.fill(Mat3::splat(0.0))?;
        self.deformation.fill(Mat3::identity())
    }

    pub(super) fn step(&self) -> wuji::Result<()> {
        let (x, v, c, f, kind) = (&self.x, &self.v, &self.c, &self.deformation, &self.kind);
        to_grid(x, v, c, f, kind, &self.signal, &self.momentum, &self.mass)?;
        update_grid(&self.momentum, &self.mass, &self.velocity)?;
        from_grid(x, v, c, f, kind, &self.velocity)
    }

    /// Muscles are red when they push and blue when they pull; liquid is light blue.
    pub(super) fn draw(&self) -> wuji::Result<Picture> {
        let signal = self.signal.to_vec()?;
        let color = |kind: i32| match signal.get(kind as usize) {
            Some(s) => [0.5 + 0.45 * s, 0.3, 0.5 - 0.45 * s],
            None if kind == LIQUID => [0.35, 0.62, 0.95],
            None => [0.95, 0.75, 0.4],
        };
        let (x, kind) = (self.x.to_vec()?, self.kind.to_vec()?);
        let dots = x.iter().zip(kind).map(|(x, kind)| (x.0, color(kind)));
        let ground = WALL as f32 / self.n as f32;
        Ok(plot::particles(
            dots.collect(),
            ground,
            0.35 / self.n as f32,
        ))
    }
}

const WAVES: usize = 4;
const FREQUENCY: f32 = 12.0;

#[kernel]
fn actuate(weights: &Field<f32, 2>, signal: &Field<f32, 1>, time: f32) {
    for [m] in signal {
        let mut sum = 0.0;
        for w in unroll(0..WAVES) {
            sum +=
                weights[[m, w as i32]] * (FREQUENCY * time + TAU * w as f32 / WAVES as f32).sin();
        }
        signal[[m]] = sum.tanh();
    }
}

/// How far the particles moved to the left, on average.
#[kernel]
fn travel(x: &Field<Vec3, 1>, rest: &Field<Vec3, 1>, loss: &Field<f32, 0>) {
    for [p] in x {
        loss[[]] += (rest[[p]].x - x[[p]].x) / x.shape().x as f32;
    }
}

struct Crawler {
    world: World,
    steps: usize,
    weights: Field<f32, 2>,
    mpm: Mpm,
    loss: Field<f32, 0>,
}

impl Crawler {
    /// A body on four legs of four muscles each, and a simulation of some seconds.
    fn new(world: World, n: usize, seconds: f32) -> wuji::Result<Crawler> {
        let mut parts: Vec<Part> = vec![([0.2, 0.1, 0.35], [0.3, 0.1, 0.3], SOLID)];
        for m in 0..16 {
            let (leg, quarter) = (m / 4, m % 4);
            let x = 0.2 + 0.2 * (leg / 2) as f32 + 0.05 * (quarter / 2) as f32;
            let z = 0.35 + 0.2 * (leg % 2) as f32 + 0.05 * (quarter % 2) as f32;
            parts.push(([x, 0.0, z], [0.05, 0.1, 0.05], m));
        }
        let weights = world.field("weights", [16, WAVES])?.needs_grad()?;
        weights.copy_from(&noise(16 * WAVES, 0.1))?;
        Ok(Crawler {
            steps: (seconds * n as f32 / COURANT) as usize,
            weights,
            mpm: Mpm::new(&world, n, &parts)?,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        })
    }

    fn step(&self, step: usize) -> wuji::Result<()> {
        actuate(&self.weights, &self.mpm.signal, step as f32 * self.mpm.dt)?;
        self.mpm.step()?;
        if step + 1 == self.steps {
            travel(&self.mpm.x, &self.mpm.rest, &self.loss)?;
        }
        Ok(())
    }

    fn simulate(&self, mut watch: impl FnMut(usize) -> wuji::Result<()>) -> wuji::Result<f64> {
        self.mpm.reset()?;
        self.loss.fill(0.0)?;
        for step in 0..self.steps {
            watch(step)?;
            self.step(step)?;
        }
        Ok(f64::from(self.loss.get(())?))
    }

    /// The loss; its gradient with respect to the controller is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.mpm.reset()?;
        self.loss.fill(0.0)?;
        self.world
            .tape_steps(&self.loss, self.steps, COPIES, |step| self.step(step))?;
        Ok(f64::from(self.loss.get(())?))
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let n = study.size();
    let crawler = Crawler::new(study.world(), n, 1.0)?;
    let mut adam = Adam::new(&crawler.weights, 0.1)?;
    let losses = study.optimize(|_| {
        let loss = crawler.gradient()?;
        adam.step()?;
        Ok(loss)
    })?;

    let mut frames = Vec::new();
    crawler.simulate(|step| {
        if step % (crawler.steps / 50).max(1) == 0 {
            frames.push(crawler.mpm.draw()?);
        }
        Ok(())
    })?;
    let particles = crawler.mpm.x.len()?;
    Ok(Report {
        what: format!(
            "{particles} particles on {n}x{n}x{n}, {} steps",
            crawler.steps
        ),
        goal: -0.05,
        losses,
        frames,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal, world};
    use super::*;

    #[test]
    fn the_robot_crawls() {
        reaches_its_goal(&DIFFMPM3D, 14, 8);
    }

    #[test]
    fn the_gradient_of_the_controller_is_right() {
        let crawler = Crawler::new(world(), 14, 0.2).expect("fields");
        crawler.gradient().expect("a gradient");
        gradient_is_a_difference(&crawler.weights, (9, 0), (0.05, 0.05), || {
            crawler.simulate(|_| Ok(()))
        });
    }
}
