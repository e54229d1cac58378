//! MLS-MPM in three dimensions as plain kernels: particle to grid, grid update, grid to particle. Two grids are swapped in each
//! substep, so that a lazy world can fuse grid to particle with particle to grid of the next substep (G2P2G). The same is here as one
//! kernel, fused by hand.

use wuji::Result;
use wuji::prelude::*;

use crate::case::Contender;
use crate::flow::{Program, Size, repeated};

pub const MLS_MPM: Program = Program {
    name: "flow mls_mpm",
    sizes: [
        "2^15 particles in 64^3",
        "2^21 particles in 256^3",
        "2^24 particles in 256^3",
    ],
    make: |world, size| simulated(world, size, Mpm::plain),
    by_hand: Some(|world, size| simulated(world, size, Mpm::fused_by_hand)),
    tolerance: 1e-4,
};

/// An even number: the grids are swapped in each.
const SUBSTEPS: usize = 8;
const BLOCK: i32 = 4;
const DT: f32 = 1e-4;
const DENSITY: f32 = 1e3;
const E: f32 = 2e4;
const POISSON: f32 = 0.4;
const MU: f32 = E / (2.0 * (1.0 + POISSON));
const LAMBDA: f32 = E * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON));
const GRAVITY: f32 = 9.8;

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

/// Mass and momentum of a particle, with the stress of a fixed corotated material, are added to the nodes around it.
#[func]
fn scatter(
    x: Vec3,
    v: Vec3,
    c: Mat3,
    f: Mat3,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
    n: f32,
) {
    let at = base(x, n);
    let part = x * n - at.cast::<f32>();
    let w = spline(part);
    let (r, _) = f.polar();
    let j = f.determinant();
    let stress = (f - r) * f.transpose() * (2.0 * MU) + Mat3::identity() * (LAMBDA * j * (j - 1.0));
    let volume = 0.125 / (n * n * n);
    let weight_of_all = volume * DENSITY;
    let affine = stress * (-DT * 4.0 * n * n * volume) + c * weight_of_all;
    for i in unroll(0..3) {
        for j in unroll(0..3) {
            for k in unroll(0..3) {
                let offset = ivec3(i, j, k);
                let weight = w[[i, 0]] * w[[j, 1]] * w[[k, 2]];
                let d = (offset.cast::<f32>() - part) / n;
                momentum[at + offset] += (v * weight_of_all + affine * d) * weight;
                mass[at + offset] += weight_of_all * weight;
            }
        }
    }
}

/// Velocity and affine velocity of a particle, as columns of a matrix: the first is the velocity.
#[func]
fn gather(x: Vec3, velocity: &Field<Vec3, 3>, n: f32) -> Matrix<f32, 3, 4> {
    let at = base(x, n);
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
    Matrix::from_cols([v, c.col(0), c.col(1), c.col(2)])
}

#[func]
fn affine_of(gathered: Matrix<f32, 3, 4>) -> Mat3 {
    Matrix::from_cols([gathered.col(1), gathered.col(2), gathered.col(3)])
}

#[kernel]
fn clear(momentum: &Field<Vec3, 3>, mass: &Field<f32, 3>) {
    for [i, j, k] in mass {
        momentum[[i, j, k]] = Vec3::splat(0.0);
        mass[[i, j, k]] = 0.0;
    }
}

#[kernel]
fn particles_to_grid(
    x: &Field<Vec3, 1>,
    v: &Field<Vec3, 1>,
    c: &Field<Mat3, 1>,
    f: &Field<Mat3, 1>,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
    n: f32,
) {
    for [p] in x {
        let deformed = (Mat3::identity() + c[[p]] * DT) * f[[p]];
        f[[p]] = deformed;
        scatter(x[[p]], v[[p]], c[[p]], deformed, momentum, mass, n);
    }
}

/// Momentum to velocity, gravity, and the ground.
#[kernel]
fn update_grid(momentum: &Field<Vec3, 3>, mass: &Field<f32, 3>, n: i32) {
    for [i, j, k] in mass {
        let m = mass[[i, j, k]];
        if m > 0.0 {
            let mut u = momentum[[i, j, k]] / m;
            u.z -= DT * GRAVITY;
            if 32 * k < n && u.z < 0.0 {
                u = Vec3::splat(0.0);
            }
            momentum[[i, j, k]] = u;
        }
    }
}

#[kernel]
fn grid_to_particles(
    x: &Field<Vec3, 1>,
    v: &Field<Vec3, 1>,
    c: &Field<Mat3, 1>,
    velocity: &Field<Vec3, 3>,
    n: f32,
) {
    for [p] in x {
        let gathered = gather(x[[p]], velocity, n);
        v[[p]] = gathered.col(0);
        c[[p]] = affine_of(gathered);
        x[[p]] += gathered.col(0) * DT;
    }
}

/// Grid to particle and particle to the other grid, fused by hand: velocities need no memory.
#[kernel]
fn grid_to_particles_to_grid(
    x: &Field<Vec3, 1>,
    f: &Field<Mat3, 1>,
    velocity: &Field<Vec3, 3>,
    momentum: &Field<Vec3, 3>,
    mass: &Field<f32, 3>,
    n: f32,
) {
    for [p] in x {
        let gathered = gather(x[[p]], velocity, n);
        let v = gathered.col(0);
        let c = affine_of(gathered);
        let moved = x[[p]] + v * DT;
        x[[p]] = moved;
        let deformed = (Mat3::identity() + c * DT) * f[[p]];
        f[[p]] = deformed;
        scatter(moved, v, c, deformed, momentum, mass, n);
    }
}

struct Grid {
    momentum: Field<Vec3, 3>,
    mass: Field<f32, 3>,
}

impl Grid {
    /// A sparse grid: particles activate blocks.
    fn new(world: &World, n: i32) -> Result<Grid> {
        let (momentum, mass) = world.layout(|root| {
            let node = root.pointer(IJK, i64::from(n / BLOCK));
            let node = node.dense(IJK, i64::from(BLOCK));
            (node.place("momentum"), node.place("mass"))
        })?;
        Ok(Grid { momentum, mass })
    }

    fn clear(&self) -> Result<()> {
        clear(&self.momentum, &self.mass)
    }

    fn update(&self, n: i32) -> Result<()> {
        update_grid(&self.momentum, &self.mass, n)
    }
}

struct Mpm {
    n: i32,
    x: Field<Vec3, 1>,
    v: Field<Vec3, 1>,
    c: Field<Mat3, 1>,
    f: Field<Mat3, 1>,
    grids: [Grid; 2],
}

impl Mpm {
    /// A cube of `side`^3 particles, eight in each cell, above the ground.
    fn new(world: &World, n: i32, side: i64) -> Result<Mpm> {
        let count = side * side * side;
        let x = world.field::<Vec3, 1>("x", [count])?;
        let spacing = 0.5 / n as f32;
        let place = |p: i64| {
            let cell = [p / (side * side), p / side % side, p % side];
            let at = cell.map(|c| (c as f32 + 0.5) * spacing);
            let corner = 0.5 - 0.5 * side as f32 * spacing;
            vec3(corner + at[0], corner + at[1], 49.0 / 1024.0 + at[2])
        };
        x.copy_from(&(0..count).map(place).collect::<Vec<_>>())?;
        let f = world.field::<Mat3, 1>("f", [count])?;
        f.fill(Mat3::identity())?;
        Ok(Mpm {
            n,
            x,
            v: world.field("v", [count])?,
            c: world.field("c", [count])?,
            f,
            grids: [Grid::new(world, n)?, Grid::new(world, n)?],
        })
    }

    fn scatter(&self, grid: &Grid) -> Result<()> {
        let n = self.n as f32;
        let (momentum, mass) = (&grid.momentum, &grid.mass);
        particles_to_grid(&self.x, &self.v, &self.c, &self.f, momentum, mass, n)
    }

    fn gather(&self, grid: &Grid) -> Result<()> {
        grid_to_particles(&self.x, &self.v, &self.c, &grid.momentum, self.n as f32)
    }

    /// A sample, as a program is usually written.
    fn plain(&self) -> Result<()> {
        for step in 0..SUBSTEPS {
            let grid = &self.grids[step % 2];
            grid.clear()?;
            self.scatter(grid)?;
            grid.update(self.n)?;
            self.gather(grid)?;
        }
        Ok(())
    }

    /// The same sample with the kernel that is fused by hand.
    fn fused_by_hand(&self) -> Result<()> {
        let [first, second] = &self.grids;
        first.clear()?;
        self.scatter(first)?;
        first.update(self.n)?;
        for step in 1..SUBSTEPS {
            let (from, to) = match step % 2 {
                1 => (first, second),
                _ => (second, first),
            };
            to.clear()?;
            let (velocity, momentum, mass) = (&from.momentum, &to.momentum, &to.mass);
            let n = self.n as f32;
            grid_to_particles_to_grid(&self.x, &self.f, velocity, momentum, mass, n)?;
            to.update(self.n)?;
        }
        self.gather(second)
    }
}

fn simulated(
    world: &World,
    size: Size,
    sample: fn(&Mpm) -> Result<()>,
) -> Result<Box<dyn Contender>> {
    let (n, side) = match size {
        Size::Quick => (64, 32),
        Size::Paper => (256, 128),
        Size::Gpu => (256, 256),
    };
    let mpm = Mpm::new(world, n, side)?;
    let out = mpm.x.clone();
    let run = move || sample(&mpm);
    Ok(repeated(world, 1, run, move || {
        let all = out.to_vec()?;
        Ok(all.iter().flat_map(|x| [x.x, x.y, x.z]).collect())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lazy world derives G2P2G: one loop, which stores neither the velocity nor its affine part.
    #[test]
    fn substeps_are_fused() {
        let world = World::builder().lazy(true).build().expect("a world");
        let mpm = Mpm::new(&world, 16, 8).expect("fields");
        world.synchronize().expect("fills");
        mpm.plain().expect("launches");
        let text = world.flow_graph().1.to_string();
        let lines: Vec<&str> = text.lines().collect();
        let fused = lines.iter().enumerate().filter(|(_, line)| {
            let name = line.split_once(": ").map(|(_, name)| name);
            name == Some("grid_to_particles+particles_to_grid")
        });
        let writes: Vec<&str> = fused
            .filter_map(|(at, _)| lines[at..].iter().find(|l| l.trim().starts_with("writes")))
            .map(|line| line.trim().trim_start_matches("writes "))
            .collect();
        assert_eq!(writes.len(), SUBSTEPS - 1, "{text}");
        for fields in writes {
            let stored = |name: &str| fields.split(", ").any(|field| field == name);
            assert!(stored("x") && stored("f"), "{text}");
            assert!(!stored("v") && !stored("c"), "{text}");
        }
    }
}
