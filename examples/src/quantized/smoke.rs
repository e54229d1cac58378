//! Sparse smoke in three dimensions: advection-reflection, with 40 instead of 68 bytes per voxel.

use super::{Outcome, Report, Row, Run, Simulation, time_steps};
use crate::differentiable::plot;
use wuji::prelude::*;
use wuji::tune::Trial;
use wuji::viewer::Picture;
use wuji::{Cells, Result};

/// Smoke, with quantized velocities and dye.
pub const SMOKE: Simulation = Simulation {
    name: "smoke",
    about: "sparse smoke in 3-D: velocities of 3 x 21 bits, dye with a shared exponent in 32 bits",
    long: "Two colored jets rise and meet. \
           A step advects for half its time, reflects the velocity at its divergence-free part, advects again, and projects. \
           The pressure comes from sweeps of red-black Gauss-Seidel. \
           Blocks of 8 x 8 x 8 voxels are active where smoke is near. \
           A velocity is 3 fixed-point numbers of 21 bits in a word of 64 bits. \
           Dye is 3 fractions of 9 bits with a shared exponent of 5 bits in a word of 32 bits. \
           Tests compare the energy and the dye with the `f32` layout. \
           They also show that dye with a shared exponent decays, where fixed-point numbers of 10 bits stop.",
    size: ("voxels along each side", 48, 2048),
    steps: 80,
    run,
    tune: Some(tune),
    file: file!(),
    source: include_str!("smoke.rs"),
};

const BLOCK: i64 = 8;
/// Sweeps of Gauss-Seidel for each projection.
const SWEEPS: usize = 12;
/// Steps until blocks are activated again. Smoke moves at most two voxels per step.
const EPOCH: usize = 3;
const REACH: i32 = 7;
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

/// Moves a velocity along another one. Dye rises.
#[kernel]
fn advect_velocity(
    along: &Field<Vec3, 3>,
    from: &Field<Vec3, 3>,
    to: &Field<Vec3, 3>,
    dye: &Field<Vec3, 3>,
    dt: f32,
) {
    for [i, j, k] in along {
        let at = vec3(i as f32, j as f32, k as f32);
        let mut u = sample(from, at - along[[i, j, k]] * dt);
        let d = dye[[i, j, k]];
        u.y += (d.x + d.y + d.z) * (BUOYANCY * dt);
        to[[i, j, k]] = u;
    }
}

#[kernel]
fn advect_dye(along: &Field<Vec3, 3>, from: &Field<Vec3, 3>, to: &Field<Vec3, 3>, keep: f32) {
    for [i, j, k] in along {
        let at = vec3(i as f32, j as f32, k as f32);
        to[[i, j, k]] = sample(from, at - along[[i, j, k]]) * keep;
    }
}

#[kernel]
fn diverge(u: &Field<Vec3, 3>, divergence: &Field<f32, 3>) {
    for [i, j, k] in divergence {
        divergence[[i, j, k]] = 0.5
            * (u[[i + 1, j, k]].x - u[[i - 1, j, k]].x + u[[i, j + 1, k]].y - u[[i, j - 1, k]].y
                + u[[i, j, k + 1]].z
                - u[[i, j, k - 1]].z);
    }
}

/// Half a sweep of red-black Gauss-Seidel.
#[kernel]
fn relax(pressure: &Field<f32, 3>, divergence: &Field<f32, 3>, color: i32) {
    for [i, j, k] in pressure {
        if (i + j + k) & 1 == color {
            let around = pressure[[i - 1, j, k]]
                + pressure[[i + 1, j, k]]
                + pressure[[i, j - 1, k]]
                + pressure[[i, j + 1, k]]
                + pressure[[i, j, k - 1]]
                + pressure[[i, j, k + 1]];
            pressure[[i, j, k]] = (around - divergence[[i, j, k]]) / 6.0;
        }
    }
}

/// Subtracts the gradient of the pressure. The velocity itself is reflected.
#[kernel]
fn project(u: &Field<Vec3, 3>, pressure: &Field<f32, 3>, free: &Field<Vec3, 3>) {
    for [i, j, k] in pressure {
        let g = vec3(
            pressure[[i + 1, j, k]] - pressure[[i - 1, j, k]],
            pressure[[i, j + 1, k]] - pressure[[i, j - 1, k]],
            pressure[[i, j, k + 1]] - pressure[[i, j, k - 1]],
        ) * 0.5;
        let old = u[[i, j, k]];
        free[[i, j, k]] = old - g;
        u[[i, j, k]] = old - g * 2.0;
    }
}

/// A ball that emits dye.
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
    u: [Field<Vec3, 3>; 3],
    dye: [Field<Vec3, 3>; 2],
    divergence: Field<f32, 3>,
    pressure: Field<f32, 3>,
    steps: usize,
    /// The part of the dye that is left after a step.
    keep: f32,
    /// Whether the jets are on.
    emits: bool,
}

impl Smoke {
    /// Air at rest, on a grid with `n` cells along each axis.
    pub fn new(world: &World, n: usize, storage: Storage) -> Result<Smoke> {
        Smoke::with(world, n, storage, None)
    }

    /// With a trial, it says how velocities and dye are stored.
    fn with(world: &World, n: usize, storage: Storage, trial: Option<&Trial<'_>>) -> Result<Smoke> {
        let side = n.div_ceil(BLOCK as usize) as i64;
        let (blocks, u, dye, divergence, pressure) = world.layout(|root| {
            let block = root.pointer(IJK, side);
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
                ["u", "reflected", "advected"].map(velocity),
                ["dye", "new_dye"].map(dye),
                block.dense(IJK, BLOCK).place("divergence"),
                block.dense(IJK, BLOCK).place("pressure"),
            )
        })?;
        Ok(Smoke {
            n: (side * BLOCK) as usize,
            blocks,
            u,
            dye,
            divergence,
            pressure,
            steps: 0,
            keep: 0.995,
            emits: true,
        })
    }

    fn pressure_of(&self, u: &Field<Vec3, 3>) -> Result<()> {
        diverge(u, &self.divergence)?;
        for _ in 0..SWEEPS {
            relax(&self.pressure, &self.divergence, 0)?;
            relax(&self.pressure, &self.divergence, 1)?;
        }
        Ok(())
    }

    fn jets(&self) -> Result<()> {
        let n = self.n as i32;
        let jets = [
            (0.25, vec3(0.8, 0.6, 0.05), vec3(0.9, 0.25, 0.05)),
            (0.75, vec3(-0.8, 0.6, -0.05), vec3(0.05, 0.3, 0.9)),
        ];
        for (x, speed, color) in jets {
            let middle = ivec3((n as f32 * x) as i32, n / 6, n / 2);
            emit(
                &self.u[0],
                &self.dye[self.steps % 2],
                middle,
                (n / 14).max(1),
                speed,
                color,
            )?;
        }
        Ok(())
    }

    /// One time step.
    pub fn step(&mut self) -> Result<()> {
        let (dye, new_dye) = (&self.dye[self.steps % 2], &self.dye[(self.steps + 1) % 2]);
        let [u, reflected, advected] = &self.u;
        if self.emits {
            self.jets()?;
        }
        if self.steps.is_multiple_of(EPOCH) {
            grow(dye, &self.blocks, BLOCK as i32)?;
        }
        advect_velocity(u, u, reflected, dye, 0.5)?;
        self.pressure_of(reflected)?;
        project(reflected, &self.pressure, u)?;
        advect_dye(u, dye, new_dye, self.keep)?;
        advect_velocity(u, reflected, advected, dye, 0.5)?;
        self.pressure_of(advected)?;
        project(advected, &self.pressure, u)?;
        self.steps += 1;
        Ok(())
    }

    /// The sum of all dye.
    pub fn dye(&self) -> Result<f64> {
        sum_of_dye(&self.dye[self.steps % 2])
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
        paint(&self.dye[self.steps % 2], &pixels)?;
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
    paint(&smoke.dye[smoke.steps % 2], &pixels)?;
    trial.output_numbers("energy", &energies);
    trial.output("picture", &pixels)
}

fn run(run: &Run) -> Outcome<Report> {
    let layouts = [
        ("f32", Storage::Floats, 68.0),
        ("packed", Storage::Packed(Dye::Shared), 40.0),
    ];
    let (mut rows, mut pictures, mut what) = (Vec::new(), Vec::new(), String::new());
    for (layout, storage, bytes) in layouts {
        let mut smoke = Smoke::new(&run.world, run.size, storage)?;
        let time = time_steps(&run.world, run.steps, |_| smoke.step())?;
        rows.push(Row {
            layout,
            bytes,
            time,
            note: format!("dye {:.1}, energy {:.1}", smoke.dye()?, smoke.energy()?),
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
            for step in 0..30 {
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
    fn dye_with_a_shared_exponent_decays_where_fixed_point_stops() {
        let world = world();
        let left = |storage| {
            let mut smoke = Smoke::new(&world, 24, storage).expect("fields");
            smoke.keep = 0.98;
            for step in 0..160 {
                smoke.emits = step < 10;
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
            off(shared) < 0.3 && off(own) < 0.3,
            "{shared} {own} {floats}"
        );
        // Rounding to the nearest keeps what is small.
        assert!(off(fixed) > 3.0, "{fixed} {floats}");
    }
}
