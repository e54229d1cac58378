//! Conjugate gradients, preconditioned by a multigrid V-cycle, on a sparse domain in two and three dimensions. The scalars of the
//! iteration are in fields of one element: nothing returns to the host.

use wuji::prelude::*;
use wuji::{Cells, Result};

use crate::case::Contender;
use crate::flow::{Program, Size, repeated};

pub const MGPCG_2D: Program = Program {
    name: "flow mgpcg_2d",
    sizes: ["256^2", "1024^2", "1024^2"],
    make: |world, size| {
        let n = if size == Size::Quick { 256 } else { 1024 };
        contender::<2>(world, n, 16)
    },
    by_hand: None,
    tolerance: 1e-3,
};

pub const MGPCG_3D: Program = Program {
    name: "flow mgpcg_3d",
    sizes: ["64^3", "256^3", "256^3"],
    make: |world, size| {
        let n = if size == Size::Quick { 64 } else { 256 };
        contender::<3>(world, n, 8)
    },
    by_hand: None,
    tolerance: 1e-3,
};

const LEVELS: usize = 4;
/// Smoothing sweeps before and after the coarser level, and on the coarsest.
const SWEEPS: usize = 2;
const BOTTOM: usize = 10;
/// Iterations in a sample.
const ITERATIONS: usize = 2;

/// The negative Laplacian.
#[func]
fn laplacian<const D: usize>(x: &Field<f32, D>, at: Vector<i32, D>) -> f32 {
    let mut sum = 0.0;
    for d in unroll(0..D) {
        sum += x[at + unit(d)] + x[at - unit(d)];
    }
    2.0 * D as f32 * x[at] - sum
}

/// Half a sweep of red-black Gauss-Seidel.
#[kernel]
fn smooth<const D: usize>(z: &Field<f32, D>, r: &Field<f32, D>, color: i32) {
    for at in z {
        if at.sum() & 1 == color {
            z[at] += (r[at] - laplacian(z, at)) / (2.0 * D as f32);
        }
    }
}

#[kernel]
fn clear<const D: usize>(x: &Field<f32, D>) {
    for at in x {
        x[at] = 0.0;
    }
}

/// Restriction: adds the residual to the right-hand side of the next coarser level.
#[kernel]
fn restrict<const D: usize>(z: &Field<f32, D>, r: &Field<f32, D>, coarse: &Field<f32, D>) {
    for at in z {
        coarse[at >> Vector::splat(1)] += (r[at] - laplacian(z, at)) * 0.5;
    }
}

/// Prolongation: adds the correction of the next coarser level.
#[kernel]
fn prolongate<const D: usize>(z: &Field<f32, D>, coarse: &Field<f32, D>) {
    for at in z {
        z[at] += coarse[at >> Vector::splat(1)];
    }
}

/// `ap = A p`.
#[kernel]
fn apply<const D: usize>(p: &Field<f32, D>, ap: &Field<f32, D>) {
    for at in p {
        ap[at] = laplacian(p, at);
    }
}

#[kernel]
fn dot<const D: usize>(a: &Field<f32, D>, b: &Field<f32, D>, sum: &Field<f64, 0>) {
    sum[[]] = 0.0;
    for at in a {
        sum[[]] += (a[at] * b[at]) as f64;
    }
}

#[kernel]
fn quotient(a: &Field<f64, 0>, b: &Field<f64, 0>, c: &Field<f64, 0>) {
    c[[]] = a[[]] / b[[]];
}

/// `y += sign * a * x`.
#[kernel]
fn add<const D: usize>(y: &Field<f32, D>, a: &Field<f64, 0>, x: &Field<f32, D>, sign: f32) {
    for at in y {
        y[at] += sign * a[[]] as f32 * x[at];
    }
}

/// Updates the search direction: `p = z + beta p`.
#[kernel]
fn turn<const D: usize>(p: &Field<f32, D>, z: &Field<f32, D>, beta: &Field<f64, 0>) {
    for at in p {
        p[at] = z[at] + beta[[]] as f32 * p[at];
    }
}

#[kernel]
fn copy_scalar(from: &Field<f64, 0>, to: &Field<f64, 0>) {
    to[[]] = from[[]];
}

#[kernel]
fn source<const D: usize>(r: &Field<f32, D>, n: f32) {
    for at in r {
        let mut value = 1.0;
        for d in unroll(0..D) {
            value *= (at[d] as f32 * (4.0 * std::f32::consts::TAU / n)).sin();
        }
        r[at] = value;
    }
}

/// The right-hand side and the solution of a level.
struct Level<const D: usize> {
    r: Field<f32, D>,
    z: Field<f32, D>,
}

struct Solver<const D: usize> {
    levels: Vec<Level<D>>,
    x: Field<f32, D>,
    p: Field<f32, D>,
    ap: Field<f32, D>,
    rz: Field<f64, 0>,
    new_rz: Field<f64, 0>,
    p_ap: Field<f64, 0>,
    alpha: Field<f64, 0>,
    beta: Field<f64, 0>,
}

/// The blocks of `block`^D cells in a ball in the middle of `n`^D cells.
fn ball<const D: usize>(n: i32, block: i32) -> Vec<[i32; D]> {
    let count = n / block;
    let all = (0..count.pow(D as u32)).map(|mut k| {
        std::array::from_fn(|_| {
            let c = k % count;
            k /= count;
            c
        })
    });
    let inside = |at: &[i32; D]| {
        let from_middle = at.map(|c| (c as f32 + 0.5) / count as f32 - 0.5);
        from_middle.map(|c| c * c).iter().sum::<f32>().sqrt() < 0.4
    };
    all.filter(inside).collect()
}

impl<const D: usize> Solver<D> {
    fn new(world: &World, n: i32, block: i32) -> Result<Solver<D>> {
        let axes = if D == 2 { IJ } else { IJK };
        let active = ball::<D>(n, block);
        let activate = |cells: &Cells<D>, level: usize| {
            let at: Vec<[i32; D]> = active.iter().map(|b| b.map(|c| c >> level)).collect();
            cells.import(&at)
        };
        let (cells, x, p, ap, r, z) = world.layout(|root| {
            let blocks = root.pointer(axes, i64::from(n / block));
            let cell = blocks.dense(axes, i64::from(block));
            (
                blocks.cells::<D>("blocks"),
                cell.place("x"),
                cell.place("p"),
                cell.place("ap"),
                cell.place("r"),
                cell.place("z"),
            )
        })?;
        activate(&cells, 0)?;
        let mut levels = vec![Level { r, z }];
        for level in 1..LEVELS {
            let (cells, r, z) = world.layout(|root| {
                let blocks = root.pointer(axes, i64::from((n >> level).max(block) / block));
                let cell = blocks.dense(axes, i64::from(block));
                (
                    blocks.cells::<D>("blocks"),
                    cell.place("r"),
                    cell.place("z"),
                )
            })?;
            activate(&cells, level)?;
            levels.push(Level { r, z });
        }
        source(&levels[0].r, n as f32)?;
        let solver = Solver {
            levels,
            x,
            p,
            ap,
            rz: world.scalar("rz")?,
            new_rz: world.scalar("new_rz")?,
            p_ap: world.scalar("p_ap")?,
            alpha: world.scalar("alpha")?,
            beta: world.scalar("beta")?,
        };
        solver.v_cycle()?;
        let first = &solver.levels[0];
        dot(&first.r, &first.z, &solver.rz)?;
        turn(&solver.p, &first.z, &solver.beta)?;
        Ok(solver)
    }

    /// `z = M r`. The post-smoothing reverses the order of colours, so that `M` is symmetric.
    fn v_cycle(&self) -> Result<()> {
        let sweeps = |level: &Level<D>, count: usize, first: i32| {
            (0..count).try_for_each(|_| {
                smooth(&level.z, &level.r, first)?;
                smooth(&level.z, &level.r, 1 - first)
            })
        };
        for pair in self.levels.windows(2) {
            clear(&pair[0].z)?;
            sweeps(&pair[0], SWEEPS, 0)?;
            clear(&pair[1].r)?;
            restrict(&pair[0].z, &pair[0].r, &pair[1].r)?;
        }
        let bottom = &self.levels[LEVELS - 1];
        clear(&bottom.z)?;
        sweeps(bottom, BOTTOM, 0)?;
        sweeps(bottom, BOTTOM, 1)?;
        for pair in self.levels.windows(2).rev() {
            prolongate(&pair[0].z, &pair[1].z)?;
            sweeps(&pair[0], SWEEPS, 1)?;
        }
        Ok(())
    }

    fn iterate(&self) -> Result<()> {
        let Level { r, z } = &self.levels[0];
        apply(&self.p, &self.ap)?;
        dot(&self.p, &self.ap, &self.p_ap)?;
        quotient(&self.rz, &self.p_ap, &self.alpha)?;
        add(&self.x, &self.alpha, &self.p, 1.0)?;
        add(r, &self.alpha, &self.ap, -1.0)?;
        self.v_cycle()?;
        dot(r, z, &self.new_rz)?;
        quotient(&self.new_rz, &self.rz, &self.beta)?;
        turn(&self.p, z, &self.beta)?;
        copy_scalar(&self.new_rz, &self.rz)
    }
}

fn contender<const D: usize>(world: &World, n: i32, block: i32) -> Result<Box<dyn Contender>> {
    let solver = Solver::<D>::new(world, n, block)?;
    let x = solver.x.clone();
    let run = move || solver.iterate();
    let middle = i64::from(n / 2);
    Ok(repeated(world, ITERATIONS, run, move || {
        let mut window: [_; D] = std::array::from_fn(|_| middle..middle + 4);
        window[0] = middle - 16..middle + 16;
        x.window(window)?.to_vec()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The residual becomes small in lazy and in eager worlds.
    #[test]
    fn the_solver_converges() {
        for lazy in [false, true] {
            let world = World::builder().lazy(lazy).build().expect("a world");
            let solver = Solver::<2>::new(&world, 64, 8).expect("fields");
            let norm = || {
                let r = &solver.levels[0].r;
                dot(r, r, &solver.new_rz).expect("a launch");
                solver.new_rz.get([0i64; 0]).expect("a value").sqrt()
            };
            let start = norm();
            for _ in 0..12 {
                solver.iterate().expect("an iteration");
            }
            let left = norm() / start;
            assert!(left < 1e-4, "{left}, lazy: {lazy}");
        }
    }
}
