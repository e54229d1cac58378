//! Sparse smoke in three dimensions: MacCormack advection, reflection, and a multigrid solver for the pressure, with 69 instead of
//! 109 bytes per voxel.

use super::{Outcome, Report, Row, Run, Simulation, time_steps};
use crate::apps::mgpcg::Mgpcg;
use crate::differentiable::plot;
use wuji::prelude::*;
use wuji::tune::Trial;
use wuji::viewer::Picture;
use wuji::{Cells, Result};

/// Smoke, with quantized velocities and dye.
pub const SMOKE: Simulation = Simulation {
    name: "smoke",
    about: "sparse smoke in 3-D: velocities of 3 x 21 bits, dye with a shared exponent in 32 bits",
    long: "Two colored balls of smoke collide and rise. \
           A step advects for half its time, reflects the velocity at its divergence-free part, advects again, and projects. \
           Advection is MacCormack's scheme along paths of third order (Runge-Kutta). \
           The pressure comes from conjugate gradients, preconditioned by a sparse multigrid hierarchy. \
           Blocks of 8 x 8 x 8 voxels are active where smoke is near. \
           A velocity is 3 fixed-point numbers of 21 bits in a word of 64 bits. \
           Dye is 3 fractions of 9 bits with a shared exponent of 5 bits in a word of 32 bits. \
           Four velocities and three dyes take 44 bytes per voxel instead of 84; the solver takes 25. \
           Tests compare the energy and the dye with the `f32` layout. \
           They also show that dye with a shared exponent decays, where fixed-point numbers of 10 bits stop.",
    size: ("voxels along each side", 48, 2048),
    steps: 60,
    run,
    tune: Some(tune),
    file: file!(),
    source: include_str!("smoke.rs"),
};

const BLOCK: i64 = 8;
/// By how much the solver reduces the residual, and in how many iterations at most.
const TOLERANCE: f64 = 1e-3;
const ITERATIONS: usize = 20;
/// Bytes of the solver per voxel: six numbers, and two per voxel of the coarser levels.
const SOLVER_BYTES: f64 = 24.0 + 8.0 / 7.0;
/// Steps until blocks are activated again. Smoke moves at most two voxels per step.
const EPOCH: usize = 3;
const REACH: i32 = 7;
/// The radius of a ball, relative to the side of the grid.
const RADIUS: f32 = 0.18;
/// Dye below this is not worth a block.
const LEAST: f32 = 2e-3;
/// Velocities are in voxels per step.
const MOST_SPEED: f64 = 8.0;
const BUOYANCY: f32 = 0.02;

/// Trilinear interpolation.
#[func]
fn sample(x: &Field<Vec3, 3>, at: Vec3) -> Vec3 {
    let low = at.floor();
    let part = at - low;
    let corner = low.cast::<i32>();
    let mut sum = Vec3::splat(0.0);
    for i in unroll(0..2) {
        for j in unroll(0..2) {
            for k in unroll(0..2) {
                let a = if i == 0 { 1.0 - part.x } else { part.x };
                let b = if j == 0 { 1.0 - part.y } else { part.y };
                let c = if k == 0 { 1.0 - part.z } else { part.z };
                sum += x[corner + ivec3(i, j, k)] * (a * b * c);
            }
        }
    }
    sum
}

/// Where the air at a voxel was a time `dt` ago: Ralston's Runge-Kutta method of third order.
#[func]
fn backtrace(u: &Field<Vec3, 3>, at: Vec3, here: Vec3, dt: f32) -> Vec3 {
    let half = sample(u, at - here * (0.5 * dt));
    let late = sample(u, at - half * (0.75 * dt));
    at - (here * 2.0 + half * 3.0 + late * 4.0) * (dt / 9.0)
}

/// The least and the largest of the values around a point.
#[func]
fn extremes(x: &Field<Vec3, 3>, at: Vec3) -> (Vec3, Vec3) {
    let corner = at.floor().cast::<i32>();
    let mut least = x[corner];
    let mut most = least;
    for n in unroll(1..8) {
        let value = x[corner + ivec3(n & 1, (n >> 1) & 1, n >> 2)];
        least = least.min(value);
        most = most.max(value);
    }
    (least, most)
}

/// Moves values along a velocity.
#[kernel]
fn predict(along: &Field<Vec3, 3>, from: &Field<Vec3, 3>, to: &Field<Vec3, 3>, dt: f32) {
    for [i, j, k] in along {
        let at = vec3(i as f32, j as f32, k as f32);
        to[[i, j, k]] = sample(from, backtrace(along, at, along[[i, j, k]], dt));
    }
}

/// MacCormack's correction: half of what is lost on the way there and back, within the values around the origin.
#[kernel]
fn correct(
    along: &Field<Vec3, 3>,
    from: &Field<Vec3, 3>,
    predicted: &Field<Vec3, 3>,
    to: &Field<Vec3, 3>,
    dt: f32,
    keep: f32,
) {
    for [i, j, k] in along {
        let at = vec3(i as f32, j as f32, k as f32);
        let here = along[[i, j, k]];
        let back = sample(predicted, backtrace(along, at, here, -dt));
        let (least, most) = extremes(from, backtrace(along, at, here, dt));
        let value = predicted[[i, j, k]] + (from[[i, j, k]] - back) * 0.5;
        to[[i, j, k]] = value.max(least).min(most) * keep;
    }
}

/// Dye rises.
#[kernel]
fn rise(u: &Field<Vec3, 3>, dye: &Field<Vec3, 3>, dt: f32) {
    for [i, j, k] in u {
        let d = dye[[i, j, k]];
        let mut v = u[[i, j, k]];
        v.y += (d.x + d.y + d.z) * (BUOYANCY * dt);
        u[[i, j, k]] = v;
    }
}

/// The negative divergence. Pressures are in the middle between eight velocities, so that no velocity that alternates from voxel
/// to voxel seems to be free of divergence.
#[kernel]
fn converge(u: &Field<Vec3, 3>, convergence: &Field<f32, 3>) {
    for [i, j, k] in convergence {
        let mut sum = 0.0;
        for n in unroll(0..8) {
            let corner = ivec3(n & 1, (n >> 1) & 1, n >> 2);
            let outwards = (corner * 2 - 1).cast::<f32>();
            sum -= u[ivec3(i, j, k) + corner].dot(outwards);
        }
        convergence[[i, j, k]] = sum * 0.25;
    }
}

#[func]
fn gradient(pressure: &Field<f32, 3>, i: i32, j: i32, k: i32) -> Vec3 {
    let mut sum = Vec3::splat(0.0);
    for n in unroll(0..8) {
        let corner = ivec3(n & 1, (n >> 1) & 1, n >> 2);
        let outwards = (corner * 2 - 1).cast::<f32>();
        sum += outwards * pressure[ivec3(i - 1, j - 1, k - 1) + corner];
    }
    sum * 0.25
}

/// Subtracts the gradient of the pressure.
#[kernel]
fn project(u: &Field<Vec3, 3>, pressure: &Field<f32, 3>, free: &Field<Vec3, 3>) {
    for [i, j, k] in u {
        free[[i, j, k]] = u[[i, j, k]] - gradient(pressure, i, j, k);
    }
}

/// Subtracts the gradient of the pressure, once and twice.
#[kernel]
fn reflect(
    u: &Field<Vec3, 3>,
    pressure: &Field<f32, 3>,
    free: &Field<Vec3, 3>,
    reflected: &Field<Vec3, 3>,
) {
    for [i, j, k] in u {
        let old = u[[i, j, k]];
        let g = gradient(pressure, i, j, k);
        free[[i, j, k]] = old - g;
        reflected[[i, j, k]] = old - g * 2.0;
    }
}

/// A ball of dye that moves.
#[kernel]
fn emit(
    u: &Field<Vec3, 3>,
    dye: &Field<Vec3, 3>,
    middle: IVec3,
    radius: i32,
    speed: Vec3,
    color: Vec3,
) {
    for [a, b, c] in grid([
        -radius..radius + 1,
        -radius..radius + 1,
        -radius..radius + 1,
    ]) {
        if a * a + b * b + c * c <= radius * radius {
            let at = middle + ivec3(a, b, c);
            u[at] = speed;
            dye[at] = color;
        }
    }
}

/// Activates the blocks that smoke can reach in an epoch.
#[kernel]
fn grow(dye: &Field<Vec3, 3>, blocks: &Cells<3>, block: i32) {
    let n = dye.shape();
    for [i, j, k] in dye {
        let d = dye[[i, j, k]];
        // Of each 2 x 2 x 2 voxels, one decides.
        if (i | j | k) & 1 == 0 && d.x + d.y + d.z > LEAST {
            for a in -1..2 {
                for b in -1..2 {
                    for c in -1..2 {
                        let at = ivec3(i + a * REACH, j + b * REACH, k + c * REACH);
                        if at.x >= 0
                            && at.y >= 0
                            && at.z >= 0
                            && at.x < n.x
                            && at.y < n.y
                            && at.z < n.z
                        {
                            blocks.activate([at.x / block, at.y / block, at.z / block]);
                        }
                    }
                }
            }
        }
    }
}

#[kernel]
fn sum_of_dye(dye: &Field<Vec3, 3>) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in dye {
        let d = dye[[i, j, k]];
        sum += (d.x + d.y + d.z) as f64;
    }
    sum
}

#[kernel]
fn sum_of_squares(u: &Field<Vec3, 3>) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in u {
        sum += u[[i, j, k]].norm_sqr() as f64;
    }
    sum
}

/// Light that the smoke absorbs along the third axis.
#[kernel]
fn paint(dye: &Field<Vec3, 3>, pixels: &Field<Vec3, 2>) {
    let n = dye.shape();
    for [x, y] in pixels {
        let (i, j) = (x * n.x / pixels.shape().x, y * n.y / pixels.shape().y);
        let mut sum = Vec3::splat(0.0);
        for k in 0..n.z {
            sum += dye[[i, j, k]];
        }
        // Each dye absorbs the other colors.
        let all = sum.x + sum.y + sum.z;
        pixels[[x, y]] = ((Vec3::splat(all) - sum) * (-12.0 / n.z as f32)).exp();
    }
}

/// How velocities and dye are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// As `f32`.
    Floats,
    /// Velocities in 3 x 21 bits, and dye in 32 bits.
    Packed(Dye),
}

/// How three colors are stored in 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dye {
    /// 3 x 9 bits with a shared exponent of 5 bits.
    Shared,
    /// 3 x 10 bits, fixed-point.
    Fixed,
    /// 3 x (5 + 5) bits, floating-point.
    Own,
}

/// The smoke and its grid.
#[derive(Debug)]
pub struct Smoke {
    n: usize,
    blocks: Cells<3>,
    /// The velocity; reflected, predicted and advected ones.
    u: [Field<Vec3, 3>; 4],
    /// The dye, a prediction, and that of the next step.
    dye: [Field<Vec3, 3>; 3],
    convergence: Field<f32, 3>,
    pressure: Field<f32, 3>,
    solver: Mgpcg,
    steps: usize,
    /// The part of the dye that is left after a step.
    keep: f32,
    /// Iterations of the solver so far.
    iterations: usize,
}

impl Smoke {
    /// Two balls of smoke on their way to each other, on a grid with `n` cells along each axis.
    pub fn new(world: &World, n: usize, storage: Storage) -> Result<Smoke> {
        Smoke::with(world, n, storage, None)
    }

    /// With a trial, it says how velocities and dye are stored.
    fn with(world: &World, n: usize, storage: Storage, trial: Option<&Trial<'_>>) -> Result<Smoke> {
        let side = n.div_ceil(BLOCK as usize);
        let (finest, u, dye, [convergence, pressure, p, ap, r, z]) = world.layout(|root| {
            let block = root.pointer(IJK, side as i64);
            let velocity = |name: &str| {
                let voxel = block.dense(IJK, BLOCK);
                match (storage, trial) {
                    (_, Some(trial)) => trial.place(voxel, name),
                    (Storage::Floats, None) => voxel.place(name),
                    (Storage::Packed(_), None) => {
                        let word = voxel.bit_struct(64);
                        word.place(name, qfixed(21, true, MOST_SPEED))
                    }
                }
            };
            let dye = |name: &str| {
                let voxel = block.dense(IJK, BLOCK);
                if let Some(trial) = trial {
                    return trial.place(voxel, name);
                }
                match storage {
                    Storage::Floats => voxel.place(name),
                    Storage::Packed(Dye::Shared) => {
                        let word = voxel.bit_struct(32).shared_exponent();
                        word.place(name, qfloat(5, 9, false))
                    }
                    Storage::Packed(Dye::Fixed) => {
                        voxel.bit_struct(32).place(name, qfixed(10, false, 1.0))
                    }
                    Storage::Packed(Dye::Own) => {
                        voxel.bit_struct(32).place(name, qfloat(5, 5, false))
                    }
                }
            };
            (
                block.cells("blocks"),
                ["u", "reflected", "predicted", "advected"].map(velocity),
                ["dye", "predicted_dye", "new_dye"].map(dye),
                ["convergence", "pressure", "p", "ap", "r", "z"]
                    .map(|name| block.dense(IJK, BLOCK).place(name)),
            )
        })?;
        let (mut r, mut z) = (vec![r], vec![z]);
        // The coarsest level is one block.
        for level in 1..=side.next_power_of_two().ilog2() {
            let (residual, correction) = world.layout(|root| {
                let block = root.pointer(IJK, side.div_ceil(1 << level) as i64);
                // Only voxels with a voxel on the finer level are active: the domain is the same on all levels.
                let voxel = block.bitmasked(IJK, BLOCK);
                (voxel.place("r"), voxel.place("z"))
            })?;
            r.push(residual);
            z.push(correction);
        }
        let fields = [convergence.clone(), pressure.clone(), p, ap];
        let n = side * BLOCK as usize;
        let smoke = Smoke {
            n,
            blocks: finest,
            u,
            dye,
            convergence,
            pressure,
            solver: Mgpcg::with_fields(n as i32, fields, r, z)?,
            steps: 0,
            keep: 0.995,
            iterations: 0,
        };
        smoke.balls()?;
        Ok(smoke)
    }

    fn balls(&self) -> Result<()> {
        let n = self.n as f32;
        let balls = [
            (
                [0.27, 0.3, 0.46],
                vec3(0.8, 0.1, 0.0),
                vec3(0.9, 0.25, 0.05),
            ),
            (
                [0.73, 0.3, 0.54],
                vec3(-0.8, 0.1, 0.0),
                vec3(0.05, 0.3, 0.9),
            ),
        ];
        for (middle, speed, color) in balls {
            let [x, y, z] = middle.map(|at| (n * at) as i32);
            let radius = (n * RADIUS) as i32;
            emit(
                &self.u[0],
                &self.dye[0],
                ivec3(x, y, z),
                radius,
                speed,
                color,
            )?;
        }
        Ok(())
    }

    /// Activates the blocks that smoke can reach. The solver activates the voxels of the coarser levels.
    fn activate(&self) -> Result<()> {
        grow(&self.dye[0], &self.blocks, BLOCK as i32)
    }

    /// Moves a velocity along the current one for half a step, and finds the pressure that makes it free of divergence.
    fn advect(&mut self, from: &Field<Vec3, 3>) -> Result<()> {
        let [u, _, predicted, advected] = &self.u;
        predict(u, from, predicted, 0.5)?;
        correct(u, from, predicted, advected, 0.5, 1.0)?;
        rise(advected, &self.dye[0], 0.5)?;
        converge(advected, &self.convergence)?;
        self.iterations += self.solver.solve(TOLERANCE, ITERATIONS)?;
        Ok(())
    }

    /// One time step.
    pub fn step(&mut self) -> Result<()> {
        if self.steps.is_multiple_of(EPOCH) {
            self.activate()?;
        }
        let [u, reflected, _, advected] = self.u.clone();
        self.advect(&u)?;
        reflect(&advected, &self.pressure, &u, &reflected)?;
        let [dye, predicted, new_dye] = &self.dye;
        predict(&u, dye, predicted, 1.0)?;
        correct(&u, dye, predicted, new_dye, 1.0, self.keep)?;
        self.advect(&reflected)?;
        project(&advected, &self.pressure, &u)?;
        self.dye.swap(0, 2);
        self.steps += 1;
        Ok(())
    }

    /// The sum of all dye.
    pub fn dye(&self) -> Result<f64> {
        sum_of_dye(&self.dye[0])
    }

    /// Kinetic energy.
    pub fn energy(&self) -> Result<f64> {
        Ok(0.5 * sum_of_squares(&self.u[0])?)
    }

    /// Voxels in active blocks.
    pub fn voxels(&self) -> Result<usize> {
        Ok(self.blocks.count_active()? as usize * BLOCK.pow(3) as usize)
    }

    fn picture(&self, world: &World) -> Result<Picture> {
        const SIDE: usize = 288;
        let pixels = world.field::<Vec3, 2>("pixels", [SIDE, SIDE])?;
        paint(&self.dye[0], &pixels)?;
        pixels.to_picture()
    }
}

/// Runs with velocities and dye whose types are chosen, and compares a small picture and the energy.
fn tune(run: &Run, trial: &Trial<'_>) -> Result<()> {
    let mut smoke = Smoke::with(&run.world, run.size, Storage::Floats, Some(trial))?;
    let mut energies = Vec::new();
    for _ in 0..run.steps {
        smoke.step()?;
        energies.push(smoke.energy()?);
    }
    let pixels = run.world.field::<Vec3, 2>("pixels", [24, 24])?;
    paint(&smoke.dye[0], &pixels)?;
    trial.output_numbers("energy", &energies);
    trial.output("picture", &pixels)
}

fn run(run: &Run) -> Outcome<Report> {
    let layouts = [
        ("f32", Storage::Floats, 84.0),
        ("packed", Storage::Packed(Dye::Shared), 44.0),
    ];
    let (mut rows, mut pictures, mut what) = (Vec::new(), Vec::new(), String::new());
    for (layout, storage, bytes) in layouts {
        let mut smoke = Smoke::new(&run.world, run.size, storage)?;
        let time = time_steps(&run.world, run.steps, |_| smoke.step())?;
        rows.push(Row {
            layout,
            bytes: bytes + SOLVER_BYTES,
            time: Some(time),
            note: format!(
                "dye {:.1}, energy {:.1}, {:.1} iterations per step",
                smoke.dye()?,
                smoke.energy()?,
                smoke.iterations as f64 / smoke.steps as f64
            ),
        });
        pictures.push(smoke.picture(&run.world)?);
        what = format!(
            "{} of {1}x{1}x{1} voxels active, {2} steps",
            smoke.voxels()?,
            smoke.n,
            run.steps
        );
    }
    Ok(Report {
        what,
        unit: "voxel",
        rows,
        picture: plot::beside(&pictures),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> World {
        let world = World::builder().threads(2).build();
        world.expect("a world")
    }

    fn close(a: f64, b: f64, part: f64) -> bool {
        (a - b).abs() <= part * a.abs().max(b.abs())
    }

    #[test]
    fn packed_smoke_has_the_energy_and_the_dye_of_floats() {
        let world = world();
        let [floats, packed] = [Storage::Floats, Storage::Packed(Dye::Shared)].map(|storage| {
            let mut smoke = Smoke::new(&world, 24, storage).expect("fields");
            let mut all = Vec::new();
            for step in 0..20 {
                smoke.step().expect("a step");
                if step % 10 == 9 {
                    let sums = [smoke.dye(), smoke.energy()].map(|sum| sum.expect("a sum"));
                    all.push((sums, smoke.voxels().expect("blocks")));
                }
            }
            all
        });
        println!("{floats:?}\n{packed:?}");
        for ((a, _), (b, _)) in floats.iter().zip(&packed) {
            assert!(a[0] > 10.0 && a[1] > 1.0, "{a:?}");
            assert!(close(a[0], b[0], 0.03), "{a:?} {b:?}");
            assert!(close(a[1], b[1], 0.03), "{a:?} {b:?}");
        }
    }

    #[test]
    fn the_solver_needs_as_many_iterations_on_every_grid() {
        let world = world();
        let iterations = |n: usize| {
            let mut smoke = Smoke::new(&world, n, Storage::Floats).expect("fields");
            (0..2).try_for_each(|_| smoke.step()).expect("steps");
            smoke.iterations / smoke.steps
        };
        let all = [32, 64, 128].map(iterations);
        println!("{all:?}");
        assert!(all[2] <= all[0] + 2, "{all:?}");
    }

    /// The largest divergence, relative to the largest component of a velocity.
    fn divergence(smoke: &Smoke) -> f32 {
        converge(&smoke.u[0], &smoke.convergence).expect("a kernel");
        let most = |all: Vec<f32>| all.into_iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let velocities = smoke.u[0].to_vec().expect("velocities");
        let components = velocities.iter().flat_map(|v| [v.x, v.y, v.z]);
        most(smoke.convergence.to_vec().expect("numbers")) / most(components.collect())
    }

    #[test]
    fn a_step_removes_divergence() {
        let mut smoke = Smoke::new(&world(), 24, Storage::Floats).expect("fields");
        smoke.activate().expect("blocks");
        let before = divergence(&smoke);
        smoke.step().expect("a step");
        let after = divergence(&smoke);
        println!("{before} {after}");
        assert!(after < 0.3 * before, "{before} {after}");
    }

    #[test]
    fn dye_with_a_shared_exponent_decays_where_fixed_point_stops() {
        let world = world();
        let left = |storage| {
            let mut smoke = Smoke::new(&world, 16, storage).expect("fields");
            smoke.keep = 0.9;
            for _ in 0..50 {
                smoke.step().expect("a step");
            }
            smoke.dye().expect("a sum")
        };
        let floats = left(Storage::Floats);
        let [shared, fixed, own] =
            [Dye::Shared, Dye::Fixed, Dye::Own].map(|dye| left(Storage::Packed(dye)));
        println!("floats {floats}, shared {shared}, fixed {fixed}, own {own}");
        let off = |sum: f64| (sum / floats - 1.0).abs();
        assert!(
            off(shared) < 0.3 && off(own) < 0.4,
            "{shared} {own} {floats}"
        );
        // Rounding to the nearest keeps what is small.
        assert!(off(fixed) > 1.5, "{fixed} {floats}");
    }
}
