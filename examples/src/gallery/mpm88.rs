//! Jelly, snow and water in a box with the material point method (MLS-MPM).
//!
//! Particles carry momentum and deformation and interact through a grid. Each substep has four parallel loops in one
//! kernel: clear the grid, scatter particles to the grid (P2G), update the grid, and gather from it (G2P).

use super::{Example, Media, Outcome, Stage, Summary};
use crate::plain::{
    self, DT, DX, GRAVITY, GRID, JELLY, LAMBDA, MASS, MU, Material, SNOW_MAX, SNOW_MIN, VOLUME,
    WALL,
};
use wuji::prelude::*;
use wuji::viewer::{Canvas, Light, Picture, light};

const SUBSTEPS: usize = 25;

/// The material point method, with three materials.
pub const MPM88: Example = Example {
    name: "mpm88",
    about: "material point method: jelly, snow and water in a box",
    long: "Particles and a grid, matrices with `svd`, and scatters by `+=`, which the compiler privatizes per thread. A substep is one kernel of \
           four parallel loops. A test compares this example with plain Rust, particle by particle.",
    size: ("pixels along each side", 480),
    frames: 160,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("mpm88.rs"),
};

/// Quadratic B-spline weights of the three nodes around a particle along each axis, one row per node.
#[func]
fn spline(f: Vec2) -> Matrix<f32, 3, 2> {
    let (a, b, c) = (
        Vec2::splat(1.5) - f,
        f - Vec2::splat(1.0),
        f - Vec2::splat(0.5),
    );
    Matrix::from_rows([a * a * 0.5, Vec2::splat(0.75) - b * b, c * c * 0.5])
}

/// Particle attributes are stored as struct of arrays; the grid is blocked.
#[derive(Fields)]
struct Simulation {
    x: Field<Vec2, 1>,
    v: Field<Vec2, 1>,
    c: Field<Mat2, 1>,
    deformation: Field<Mat2, 1>,
    plastic: Field<f32, 1>,
    material: Field<Material, 1>,
    momentum: Field<Vec2, 2>,
    mass: Field<f32, 2>,
}

#[kernel]
impl Simulation {
    fn substep(&self) {
        for [i, j] in self.mass {
            self.momentum[[i, j]] = Vec2::splat(0.0);
            self.mass[[i, j]] = 0.0;
        }

        for [p] in self.x {
            let mut f = (Mat2::identity() + self.c[[p]] * DT) * self.deformation[[p]];
            let (u, stretch, w) = f.svd();
            let mut hardness = 1.0;
            let mut mu = 0.0;
            match self.material[[p]] {
                // A fluid keeps only its volume ratio.
                Material::Water => f = Mat2::identity() * f.determinant().max(1e-6).sqrt(),
                Material::Snow => {
                    hardness = (10.0 * (1.0 - self.plastic[[p]])).exp().clamp(0.1, 5.0);
                    mu = MU * hardness;
                    // Snow yields plastically beyond a small stretch, and hardens or softens accordingly.
                    let kept = stretch.clamp(Vec2::splat(SNOW_MIN), Vec2::splat(SNOW_MAX));
                    self.plastic[[p]] =
                        self.plastic[[p]] * (stretch.x * stretch.y) / (kept.x * kept.y);
                    f = u * Mat2::from_diagonal(kept) * w.transpose();
                }
                Material::Jelly => {
                    hardness = JELLY;
                    mu = MU * hardness;
                }
            }
            self.deformation[[p]] = f;
            let ratio = f.determinant();
            let rotation = u * w.transpose();
            let stress = (f - rotation) * f.transpose() * (2.0 * mu)
                + Mat2::identity() * (LAMBDA * hardness * ratio * (ratio - 1.0));
            let affine = stress * (-DT * VOLUME * 4.0 / (DX * DX)) + self.c[[p]] * MASS;

            let at = self.x[[p]] / DX;
            let base = (at - Vec2::splat(0.5)).cast::<i32>();
            let part = at - base.cast::<f32>();
            let w = spline(part);
            for i in unroll(0..3) {
                for j in unroll(0..3) {
                    let offset = ivec2(i, j);
                    let weight = w[[i, 0]] * w[[j, 1]];
                    let d = (offset.cast::<f32>() - part) * DX;
                    self.momentum[base + offset] += (self.v[[p]] * MASS + affine * d) * weight;
                    self.mass[base + offset] += MASS * weight;
                }
            }
        }

        for [i, j] in self.mass {
            if self.mass[[i, j]] > 0.0 {
                let mut u = self.momentum[[i, j]] / self.mass[[i, j]];
                u.y -= DT * GRAVITY;
                let (wall, n) = (WALL as i32, GRID as i32);
                if i < wall && u.x < 0.0 || i + wall > n && u.x > 0.0 {
                    u.x = 0.0;
                }
                if j < wall && u.y < 0.0 || j + wall > n && u.y > 0.0 {
                    u.y = 0.0;
                }
                self.momentum[[i, j]] = u;
            }
        }

        for [p] in self.x {
            let at = self.x[[p]] / DX;
            let base = (at - Vec2::splat(0.5)).cast::<i32>();
            let part = at - base.cast::<f32>();
            let w = spline(part);
            let mut velocity = Vec2::splat(0.0);
            let mut affine = Mat2::splat(0.0);
            for i in unroll(0..3) {
                for j in unroll(0..3) {
                    let offset = ivec2(i, j);
                    let u = self.momentum[base + offset] * (w[[i, 0]] * w[[j, 1]]);
                    velocity += u;
                    affine += u.outer(offset.cast::<f32>() - part) * (4.0 / DX);
                }
            }
            self.v[[p]] = velocity;
            self.c[[p]] = affine;
            let edge = Vec2::splat(2.0 * DX);
            self.x[[p]] = (self.x[[p]] + velocity * DT).clamp(edge, Vec2::splat(1.0) - edge);
        }
    }
}

impl Simulation {
    fn new(world: &World) -> wuji::Result<Simulation> {
        let scene = plain::scene();
        let count = scene.len() as i64;
        let (x, v, c, deformation, plastic, material) = world.layout(|root| {
            let particle = root.dense(I, count);
            (
                particle.place("x"),
                particle.place("v"),
                particle.place("c"),
                particle.place("deformation"),
                particle.place("plastic"),
                particle.place("material"),
            )
        })?;
        let (momentum, mass) = world.layout(|root| {
            let node = root.dense(IJ, GRID as i64);
            (node.place("momentum"), node.place("mass"))
        })?;
        x.copy_from(&scene.iter().map(|p| Vector(p.x)).collect::<Vec<_>>())?;
        v.copy_from(&scene.iter().map(|p| Vector(p.v)).collect::<Vec<_>>())?;
        deformation.fill(Mat2::identity())?;
        plastic.fill(1.0)?;
        material.copy_from(&scene.iter().map(|p| p.material).collect::<Vec<_>>())?;
        Ok(Simulation {
            x,
            v,
            c,
            deformation,
            plastic,
            material,
            momentum,
            mass,
        })
    }

    /// Draws soft dots, coloured by material and speed.
    fn draw(&self, canvas: &mut Canvas) -> wuji::Result<()> {
        // Slow and fast water, jelly, snow.
        let colors = [
            (0x1f6feb, 0x9be7ff),
            (0xff5c8a, 0xffb36b),
            (0xa9bfe6, 0xf4f8ff),
        ];
        let colors = colors.map(|(slow, fast)| (light(slow), light(fast)));
        canvas.clear();
        let (places, speeds, kinds) = (self.x.to_vec()?, self.v.to_vec()?, self.material.to_vec()?);
        for ((x, v), kind) in places.into_iter().zip(speeds).zip(kinds) {
            let (slow, fast) = colors[kind as usize];
            let t = (v.norm() / 6.0).min(1.0);
            let color: Light = std::array::from_fn(|k| slow[k] + (fast[k] - slow[k]) * t);
            canvas.dot(x.0, 0.0048, color);
        }
        Ok(())
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let simulation = Simulation::new(&stage.world())?;
    let mut canvas = Canvas::new(stage.size());
    stage.play(
        |_| (0..SUBSTEPS).try_for_each(|_| simulation.substep()),
        || -> wuji::Result<Picture> {
            simulation.draw(&mut canvas)?;
            Ok(canvas.develop(WALL as f32 * DX))
        },
    )?;
    let what = format!("{} particles on {GRID}x{GRID}", simulation.x.len()?);
    Ok(Summary::new(what, SUBSTEPS, "substeps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel and the plain implementation agree for some substeps.
    #[test]
    fn the_kernel_does_what_plain_rust_does() {
        let world = World::cpu().expect("a world");
        let simulation = Simulation::new(&world).expect("fields");
        let mut reference = plain::Plain::new();
        for _ in 0..50 {
            simulation.substep().expect("a launch");
            reference.substep();
        }
        let places = simulation.x.to_vec().expect("positions");
        for (place, expected) in places.iter().zip(&reference.particles) {
            for d in 0..2 {
                assert!(
                    (place.0[d] - expected.x[d]).abs() < 1e-4,
                    "{place:?} {:?}",
                    expected.x
                );
            }
        }
    }
}
