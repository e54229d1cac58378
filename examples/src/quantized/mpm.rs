//! Three-dimensional MLS-MPM of elastic bodies, fluid, snow and sand, with particles of 40 instead of 72 bytes.
//!
//! One kernel per step gathers from one grid and scatters to the other (G2P2G), so that the affine velocity is never stored.

use super::{Outcome, Report, Row, Run, Simulation, time_steps};
use crate::differentiable::plot;
use wuji::prelude::*;
use wuji::tune::Trial;
use wuji::viewer::Picture;
use wuji::{Cells, Result};

/// The material point method, with particles in a few bytes.
pub const MPM: Simulation = Simulation {
    name: "mpm",
    about: "material point method: jelly, water, snow and sand; 40 instead of 72 bytes per particle",
    long: "Particles and a sparse grid (MLS-MPM), with one kernel per step that gathers and scatters (G2P2G). \
           Positions are 3 fixed-point numbers of 21 bits, velocities 3 fractions of 17 bits with a shared exponent of 7 bits, \
           deformation gradients 9 fixed-point numbers of 16 bits, volume ratios one of 23 bits. \
           Material and color take 6 bits. \
           Tests compare energies and volumes with the `f32` layout. \
           They also show what goes wrong: stores that truncate deformation gradients make jelly grow.",
    size: ("grid nodes along each side", 32, 768),
    steps: 400,
    run,
    tune: Some(tune),
    file: file!(),
    source: include_str!("mpm.rs"),
};

const ELASTIC: i32 = 0;
const FLUID: i32 = 1;
const SNOW: i32 = 2;
const SAND: i32 = 3;
const MATERIALS: [i32; 4] = [ELASTIC, FLUID, SNOW, SAND];

const BLOCK: i64 = 4;
/// Boundary nodes at each wall.
const WALL: i32 = 3;
const GRAVITY: f32 = 9.8;
const E: f32 = 1e3;
const POISSON: f32 = 0.3;
const MU: f32 = E / (2.0 * (1.0 + POISSON));
const LAMBDA: f32 = E * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON));
/// Stiffness of the fluid.
const BULK: f32 = 1e3;
/// Snow yields beyond these stretches.
const SNOW_MIN: f32 = 1.0 - 0.025;
const SNOW_MAX: f32 = 1.0 + 0.0075;
/// Friction of sand, for an angle of 40 degrees (Drucker-Prager).
const FRICTION: f32 = 0.445;

/// The largest entry of a deformation gradient.
const MOST_STRETCH: f64 = 2.0;

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

/// The stretches of snow and sand after plastic flow.
#[func]
fn flow(kind: i32, stretch: Vec3) -> Vec3 {
    let mut kept = stretch.clamp(Vec3::splat(SNOW_MIN), Vec3::splat(SNOW_MAX));
    if kind == SAND {
        let strain = stretch.max(Vec3::splat(0.05)).ln();
        let sum = strain.x + strain.y + strain.z;
        let shear = strain - Vec3::splat(sum / 3.0);
        let length = shear.norm();
        let over = length + (3.0 * LAMBDA + 2.0 * MU) / (2.0 * MU) * sum * FRICTION;
        kept = stretch;
        if sum >= 0.0 {
            // Sand has no cohesion.
            kept = Vec3::splat(1.0);
        } else if over > 0.0 {
            kept = (strain - shear * (over / length.max(1e-9))).exp();
        }
    }
    kept
}

/// The Kirchhoff stress of snow or sand along its principal axes.
#[func]
fn principal(kind: i32, stretch: Vec3, plastic: f32) -> Vec3 {
    let volume = stretch.x * stretch.y * stretch.z;
    let hardness = (10.0 * (1.0 - plastic)).exp().clamp(0.1, 3.0);
    let one = Vec3::splat(1.0);
    let mut stress = ((stretch - one) * stretch * (2.0 * MU)
        + one * (LAMBDA * volume * (volume - 1.0)))
        * hardness;
    if kind == SAND {
        let strain = stretch.ln();
        stress = strain * (2.0 * MU) + one * (LAMBDA * (strain.x + strain.y + strain.z));
    }
    stress
}

/// Moves towards zero: with half a step of the stored type, rounding to the nearest becomes truncation.
#[func]
fn towards_zero(f: Mat3, by: f32) -> Mat3 {
    let mut g = f;
    for i in unroll(0..3) {
        for j in unroll(0..3) {
            g[[i, j]] -= if f[[i, j]] > 0.0 { by } else { -by };
        }
    }
    g
}

/// Grid to particle to grid: gathers velocity, moves and deforms the particle, and scatters mass and momentum.
///
/// At the start there is nothing to gather. `cut` is what the stored deformation gradient loses.
#[kernel]
fn g2p2g(
    x: &Field<Vec3, 1>,
    v: &Field<Vec3, 1>,
    deformation: &Field<Mat3, 1>,
    ratio: &Field<f32, 1>,
    material: &Field<i32, 1>,
    velocity: &Field<Vec3, 3>,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
    n: f32,
    dt: f32,
    start: bool,
    cut: f32,
) {
    for [p] in x {
        let kind = material[[p]];
        let mut place = x[[p]];
        let mut u = v[[p]];
        let mut c = Mat3::splat(0.0);
        if !start {
            let at = base(place, n);
            let part = place * n - at.cast::<f32>();
            let w = spline(part);
            u = Vec3::splat(0.0);
            for i in unroll(0..3) {
                for j in unroll(0..3) {
                    for k in unroll(0..3) {
                        let offset = ivec3(i, j, k);
                        let node = velocity[at + offset] * (w[[i, 0]] * w[[j, 1]] * w[[k, 2]]);
                        u += node;
                        c += node.outer(offset.cast::<f32>() - part) * (4.0 * n);
                    }
                }
            }
            place += u * dt;
            x[[p]] = place;
            v[[p]] = u;
        }

        let grown = ratio[[p]] * (1.0 + dt * c.trace());
        let mut stress = Mat3::identity() * (BULK * grown * (grown - 1.0));
        if kind == FLUID {
            ratio[[p]] = grown;
        } else {
            let mut f = (Mat3::identity() + c * dt) * deformation[[p]];
            if kind == ELASTIC {
                let r = f.determinant();
                stress = (f * f.transpose() - Mat3::identity()) * MU
                    + Mat3::identity() * (LAMBDA * r.max(1e-3).ln());
            } else {
                let (a, stretch, b) = f.svd();
                let kept = flow(kind, stretch);
                if kind == SNOW {
                    let lost = stretch.x * stretch.y * stretch.z / (kept.x * kept.y * kept.z);
                    ratio[[p]] = ratio[[p]] * lost;
                }
                f = a * Mat3::from_diagonal(kept) * b.transpose();
                let along = principal(kind, kept, ratio[[p]]);
                stress = a * Mat3::from_diagonal(along) * a.transpose();
            }
            deformation[[p]] = towards_zero(f, cut);
        }

        let volume = 0.125 / (n * n * n);
        let affine = stress * (-dt * 4.0 * n * n * volume) + c * volume;
        let at = base(place, n);
        let part = place * n - at.cast::<f32>();
        let w = spline(part);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                for k in unroll(0..3) {
                    let offset = ivec3(i, j, k);
                    let weight = w[[i, 0]] * w[[j, 1]] * w[[k, 2]];
                    let d = (offset.cast::<f32>() - part) / n;
                    momentum[at + offset] += (u * volume + affine * d) * weight;
                    mass[at + offset] += volume * weight;
                }
            }
        }
    }
}

/// Grid update: momentum to velocity, gravity and boundary conditions.
#[kernel]
fn on_grid(momentum: &Field<Vec3, 3>, mass: &Field<f32, 3>, n: i32, fall: f32) {
    for [i, j, k] in mass {
        let m = mass[[i, j, k]];
        if m > 0.0 {
            let mut u = momentum[[i, j, k]] / m;
            u.y -= fall;
            if i < WALL && u.x < 0.0 || i + WALL > n && u.x > 0.0 {
                u.x = 0.0;
            }
            if j < WALL && u.y < 0.0 || j + WALL > n && u.y > 0.0 {
                u.y = 0.0;
            }
            if k < WALL && u.z < 0.0 || k + WALL > n && u.z > 0.0 {
                u.z = 0.0;
            }
            momentum[[i, j, k]] = u;
        }
    }
}

/// A cube of `side` cells with eight particles each.
#[kernel]
fn fill_cube(
    x: &Field<Vec3, 1>,
    v: &Field<Vec3, 1>,
    deformation: &Field<Mat3, 1>,
    ratio: &Field<f32, 1>,
    material: &Field<i32, 1>,
    color: &Field<i32, 1>,
    first: i32,
    side: i32,
    corner: Vec3,
    speed: Vec3,
    kind: i32,
    n: f32,
) {
    for q in 0..8 * side * side * side {
        let p = first + q;
        let cell = q / 8;
        let at = ivec3(cell / (side * side), cell / side % side, cell % side);
        let part = ivec3(q / 4 % 2, q / 2 % 2, q % 2);
        let inside = at.cast::<f32>() + part.cast::<f32>() * 0.5 + Vec3::splat(0.25);
        x[[p]] = corner + inside / n;
        v[[p]] = speed;
        deformation[[p]] = Mat3::identity();
        ratio[[p]] = 1.0;
        material[[p]] = kind;
        // Layers, which show how the material moves.
        color[[p]] = 4 * kind + at.y * 4 / side;
    }
}

#[kernel]
fn sum_of_squares(v: &Field<Vec3, 1>) -> f64 {
    let mut sum = 0.0;
    for [p] in v {
        sum += v[[p]].norm_sqr() as f64;
    }
    sum
}

#[kernel]
fn sum_of_heights(x: &Field<Vec3, 1>) -> f64 {
    let mut sum = 0.0;
    for [p] in x {
        sum += x[[p]].y as f64;
    }
    sum
}

#[kernel]
fn sum_of_squared_masses(mass: &Field<f32, 3>, unit: f32) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in mass {
        let m = mass[[i, j, k]] / unit;
        sum += (m * m) as f64;
    }
    sum
}

/// Every `stride`-th particle.
#[kernel]
fn sample(
    x: &Field<Vec3, 1>,
    color: &Field<i32, 1>,
    seen: &Field<Vec3, 1>,
    seen_color: &Field<i32, 1>,
    stride: i32,
) {
    for [p] in seen {
        seen[[p]] = x[[p * stride]];
        seen_color[[p]] = color[[p * stride]];
    }
}

/// How particles are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// As `f32`.
    Floats,
    /// Quantized.
    Packed {
        /// Bits of an entry of the deformation gradient.
        deformation: u32,
        /// Bits of the volume ratio.
        ratio: u32,
    },
}

impl Storage {
    /// 16 and 23 bits.
    pub const PACKED: Storage = Storage::Packed {
        deformation: 16,
        ratio: 23,
    };
}

#[derive(Debug)]
struct Particles {
    x: Field<Vec3, 1>,
    v: Field<Vec3, 1>,
    deformation: Field<Mat3, 1>,
    /// Of fluid, the volume relative to that at rest; of snow, the plastic part of it.
    ratio: Field<f32, 1>,
    material: Field<i32, 1>,
    color: Field<i32, 1>,
}

impl Particles {
    fn new(world: &World, count: usize, storage: Storage) -> Result<Particles> {
        world.layout(|root| {
            let node = root.dense(I, count as i64);
            match storage {
                Storage::Floats => Particles {
                    x: node.place("x"),
                    v: node.place("v"),
                    material: node.place("material"),
                    color: node.place("color"),
                    deformation: node.place("deformation"),
                    ratio: node.place("ratio"),
                },
                Storage::Packed { deformation, ratio } => {
                    let words = node.bit_structs(64);
                    let velocity = words.shared_exponent();
                    Particles {
                        x: words.place("x", qfixed(21, false, 1.0)),
                        v: velocity.place("v", qfloat(7, 17, true)),
                        material: words.place("material", qint(2, false)),
                        color: words.place("color", qint(4, false)),
                        deformation: words
                            .place("deformation", qfixed(deformation, true, MOST_STRETCH)),
                        ratio: words.place("ratio", qfixed(ratio, false, 2.0)),
                    }
                }
            }
        })
    }

    /// Particles whose types are chosen.
    fn of_trial(world: &World, count: usize, trial: &Trial<'_>) -> Result<Particles> {
        world.layout(|root| {
            let node = root.dense(I, count as i64);
            Particles {
                x: trial.place(node, "x"),
                v: trial.place(node, "v"),
                material: trial.place(node, "material"),
                color: trial.place(node, "color"),
                deformation: trial.place(node, "deformation"),
                ratio: trial.place(node, "ratio"),
            }
        })
    }
}

#[derive(Debug)]
struct Grid {
    blocks: Cells<3>,
    /// Momentum, and after the update velocity.
    momentum: Field<Vec3, 3>,
    mass: Field<f32, 3>,
}

impl Grid {
    fn new(world: &World, n: usize) -> Result<Grid> {
        world.layout(|root| {
            let block = root.pointer(IJK, n as i64 / BLOCK);
            let node = block.dense(IJK, BLOCK);
            Grid {
                blocks: block.cells("blocks"),
                momentum: node.place("momentum"),
                mass: node.place("mass"),
            }
        })
    }
}

/// A cube at the start.
#[derive(Clone, Copy, Debug)]
pub struct Cube {
    /// The number of its material.
    pub material: i32,
    /// Its lowest corner, and its velocity.
    pub corner: [f32; 3],
    /// Its velocity.
    pub speed: [f32; 3],
}

/// Sums over all particles.
#[derive(Clone, Copy, Debug)]
pub struct Statistics {
    /// Kinetic and potential energy of a unit of mass.
    pub kinetic: f64,
    /// The potential energy of a unit of mass.
    pub potential: f64,
    /// The volume that the mass on the grid fills, in cells.
    pub volume: f64,
}

/// The particles and their grids.
#[derive(Debug)]
pub struct Mpm {
    n: usize,
    count: usize,
    particles: Particles,
    grids: [Grid; 2],
    steps: usize,
    gravity: f32,
    /// What the stored deformation gradient loses; see `towards_zero`.
    cut: f32,
}

impl Mpm {
    /// Cubes of `side` cells on a grid of `n`^3 nodes.
    pub fn new(
        world: &World,
        (n, side): (usize, usize),
        cubes: &[Cube],
        storage: Storage,
    ) -> Result<Mpm> {
        Mpm::with(world, (n, side), cubes, |count| {
            Particles::new(world, count, storage)
        })
    }

    fn with(
        world: &World,
        (n, side): (usize, usize),
        cubes: &[Cube],
        particles: impl FnOnce(usize) -> Result<Particles>,
    ) -> Result<Mpm> {
        let n = n.div_ceil(BLOCK as usize) * BLOCK as usize;
        let each = 8 * side.pow(3);
        let count = each * cubes.len();
        let particles = particles(count)?;
        for (at, cube) in cubes.iter().enumerate() {
            fill_cube(
                &particles.x,
                &particles.v,
                &particles.deformation,
                &particles.ratio,
                &particles.material,
                &particles.color,
                (at * each) as i32,
                side as i32,
                Vector(cube.corner),
                Vector(cube.speed),
                cube.material,
                n as f32,
            )?;
        }
        Ok(Mpm {
            n,
            count,
            particles,
            grids: [Grid::new(world, n)?, Grid::new(world, n)?],
            steps: 0,
            gravity: GRAVITY,
            cut: 0.0,
        })
    }

    /// One cube of each material.
    pub fn all_materials(world: &World, n: usize, storage: Storage) -> Result<Mpm> {
        Mpm::new(world, (n, n / 4), &Mpm::cubes(), storage)
    }

    fn cubes() -> [Cube; 4] {
        MATERIALS.map(|material| Cube {
            material,
            corner: [
                [0.15, 0.3, 0.2],
                [0.55, 0.12, 0.2],
                [0.2, 0.6, 0.5],
                [0.55, 0.4, 0.5],
            ][material as usize],
            speed: [0.0, -1.0, 0.0],
        })
    }

    /// The time step: sound moves a third of a cell.
    fn time_step(&self) -> f32 {
        8e-3 / self.n as f32
    }

    /// One time step.
    pub fn step(&mut self) -> Result<()> {
        let (n, dt) = (self.n as f32, self.time_step());
        let (from, to) = (
            &self.grids[self.steps % 2],
            &self.grids[(self.steps + 1) % 2],
        );
        to.blocks.deactivate_all()?;
        let p = &self.particles;
        g2p2g(
            &p.x,
            &p.v,
            &p.deformation,
            &p.ratio,
            &p.material,
            &from.momentum,
            &to.momentum,
            &to.mass,
            n,
            dt,
            self.steps == 0,
            self.cut,
        )?;
        on_grid(&to.momentum, &to.mass, self.n as i32, dt * self.gravity)?;
        self.steps += 1;
        Ok(())
    }

    /// Sums over all particles.
    pub fn statistics(&self) -> Result<Statistics> {
        let count = self.count as f64;
        // Masses relative to that of a full cell.
        let unit = 1.0 / (self.n as f32).powi(3);
        let mass = &self.grids[self.steps % 2].mass;
        Ok(Statistics {
            kinetic: 0.5 * sum_of_squares(&self.particles.v)? / count,
            potential: f64::from(GRAVITY) * sum_of_heights(&self.particles.x)? / count,
            volume: (count / 8.0).powi(2) / sum_of_squared_masses(mass, unit)?,
        })
    }

    /// Bytes of a particle.
    pub fn bytes(&self) -> f64 {
        self.particles.x.tree().memory_used() as f64 / self.count as f64
    }

    /// The particles, as a picture.
    pub fn picture(&self, world: &World) -> Result<Picture> {
        const PALETTE: [[f32; 3]; 4] = [
            [1.0, 0.45, 0.5],
            [0.3, 0.65, 1.0],
            [1.0, 1.0, 1.0],
            [0.95, 0.8, 0.4],
        ];
        let stride = self.count.div_ceil(100_000);
        let seen = self.count / stride;
        let places = world.field::<Vec3, 1>("places", seen as i64)?;
        let colors = world.field::<i32, 1>("colors", seen as i64)?;
        let p = &self.particles;
        sample(&p.x, &p.color, &places, &colors, stride as i32)?;
        let shade = |color: i32| {
            let by = 0.7 + 0.1 * (color % 4) as f32;
            PALETTE[(color / 4) as usize % 4].map(|c| c * by)
        };
        let dots = places.to_vec()?.into_iter().zip(colors.to_vec()?);
        let dots = dots.map(|(x, color)| (x.0, shade(color)));
        let ground = WALL as f32 / self.n as f32;
        Ok(plot::particles(dots.collect(), ground, 0.006))
    }
}

/// Runs with particles whose types are chosen. Motion is chaotic; energies and the volume are what runs have in common.
fn tune(run: &Run, trial: &Trial<'_>) -> Result<()> {
    let (world, n) = (&run.world, run.size);
    let mut mpm = Mpm::with(world, (n, n / 4), &Mpm::cubes(), |count| {
        Particles::of_trial(world, count, trial)
    })?;
    let mut all = Vec::new();
    for step in 1..=run.steps {
        mpm.step()?;
        if step % 10 == 0 {
            all.push(mpm.statistics()?);
        }
    }
    let column = |f: fn(&Statistics) -> f64| all.iter().map(f).collect::<Vec<f64>>();
    trial.output_numbers("kinetic energy", &column(|s| s.kinetic));
    trial.output_numbers("potential energy", &column(|s| s.potential));
    trial.output_numbers("volume", &column(|s| s.volume));
    Ok(())
}

fn run(run: &Run) -> Outcome<Report> {
    let layouts = [("f32", Storage::Floats), ("packed", Storage::PACKED)];
    let (mut rows, mut pictures, mut what) = (Vec::new(), Vec::new(), String::new());
    for (layout, storage) in layouts {
        let mut mpm = Mpm::all_materials(&run.world, run.size, storage)?;
        let time = time_steps(&run.world, run.steps, |_| mpm.step())?;
        let found = mpm.statistics()?;
        rows.push(Row {
            layout,
            bytes: mpm.bytes(),
            time: Some(time),
            note: format!(
                "kinetic energy {:.4}, potential energy {:.4}, volume {:.0} cells",
                found.kinetic, found.potential, found.volume
            ),
        });
        pictures.push(mpm.picture(&run.world)?);
        what = format!(
            "{} particles on {1}x{1}x{1}, {2} steps",
            mpm.count, mpm.n, run.steps
        );
    }
    Ok(Report {
        what,
        unit: "particle",
        rows,
        picture: plot::beside(&pictures),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> World {
        let world = World::builder().threads(1).build();
        world.expect("a world")
    }

    fn close(a: f64, b: f64, part: f64) -> bool {
        (a - b).abs() <= part * a.abs().max(b.abs())
    }

    #[test]
    fn particles_of_40_bytes_have_the_energy_and_volume_of_floats() {
        let world = world();
        let [floats, packed] = [Storage::Floats, Storage::PACKED].map(|storage| {
            let mut mpm = Mpm::all_materials(&world, 16, storage).expect("fields");
            let wanted = if storage == Storage::Floats {
                72.0
            } else {
                40.0
            };
            assert_eq!(mpm.bytes(), wanted);
            let mut all = Vec::new();
            for step in 0..150 {
                mpm.step().expect("a step");
                if step % 30 == 29 {
                    all.push(mpm.statistics().expect("sums"));
                }
            }
            all
        });
        println!("{floats:?}\n{packed:?}");
        for (a, b) in floats.iter().zip(&packed) {
            assert!(a.kinetic > 0.01 && a.volume > 200.0, "{a:?}");
            assert!(close(a.kinetic, b.kinetic, 0.05), "{a:?} {b:?}");
            assert!(close(a.potential, b.potential, 0.01), "{a:?} {b:?}");
            assert!(close(a.volume, b.volume, 0.02), "{a:?} {b:?}");
        }
    }

    /// A free cube that swings, and its mean volume after a while, relative to that at rest.
    fn swing(world: &World, storage: Storage, cut: f32) -> f64 {
        let cube = Cube {
            material: ELASTIC,
            corner: [0.375; 3],
            speed: [0.0; 3],
        };
        let mut mpm = Mpm::new(world, (16, 4), &[cube], storage).expect("fields");
        let out = |x: Vec3| (x - Vec3::splat(0.5)) * -2.0;
        let places = mpm.particles.x.to_vec().expect("places");
        let speeds: Vec<Vec3> = places.into_iter().map(out).collect();
        mpm.particles.v.copy_from(&speeds).expect("copied");
        (mpm.gravity, mpm.cut) = (0.0, cut);
        let mut sum = 0.0;
        for step in 0..1200 {
            mpm.step().expect("a step");
            if step >= 1000 {
                sum += mpm.statistics().expect("sums").volume;
            }
        }
        sum / 200.0
    }

    #[test]
    fn truncated_deformations_make_jelly_grow() {
        let world = world();
        let floats = swing(&world, Storage::Floats, 0.0);
        let nearest = swing(&world, Storage::PACKED, 0.0);
        let step = MOST_STRETCH / 2f64.powi(15);
        let truncated = swing(&world, Storage::PACKED, (0.499 * step) as f32);
        println!("floats {floats}, nearest {nearest}, truncated {truncated}");
        assert!(close(floats, nearest, 0.02), "{floats} {nearest}");
        assert!(truncated > 1.05 * floats, "{floats} {truncated}");
    }
}
