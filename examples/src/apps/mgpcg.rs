//! Poisson's equation on a sparse domain: conjugate gradients, preconditioned by one V-cycle of a five-level multigrid.
//!
//! Outside of active cells the solution is zero, and so are reads of inactive cells: boundaries need no special case.

use super::{App, Scale, blocks, chart, from_middle};
use wuji::prelude::*;
use wuji::viewer::Picture;
use wuji::{Cells, Result};

const LEVELS: usize = 5;
const BLOCK: i32 = 8;
/// Smoothing sweeps before and after the coarser level, and on the coarsest.
const SWEEPS: usize = 2;
const BOTTOM: usize = 20;

// ANCHOR: kernels
#[func]
fn around(x: &Field<f32, 3>, i: i32, j: i32, k: i32) -> f32 {
    x[[i - 1, j, k]]
        + x[[i + 1, j, k]]
        + x[[i, j - 1, k]]
        + x[[i, j + 1, k]]
        + x[[i, j, k - 1]]
        + x[[i, j, k + 1]]
}

/// Half a sweep of red-black Gauss-Seidel.
#[kernel]
fn smooth(z: &Field<f32, 3>, r: &Field<f32, 3>, color: i32) {
    for [i, j, k] in z {
        if (i + j + k) & 1 == color {
            z[[i, j, k]] = (r[[i, j, k]] + around(z, i, j, k)) / 6.0;
        }
    }
}

/// Restriction: averages the residual into the right-hand side of the next coarser level.
#[kernel]
fn restrict(z: &Field<f32, 3>, r: &Field<f32, 3>, coarse: &Field<f32, 3>) {
    for [i, j, k] in coarse {
        coarse[[i, j, k]] = 0.0;
    }
    for [i, j, k] in z {
        let residual = r[[i, j, k]] - (6.0 * z[[i, j, k]] - around(z, i, j, k));
        coarse[[i >> 1, j >> 1, k >> 1]] += residual * 0.5;
    }
}

/// Prolongation: adds the correction of the next coarser level.
#[kernel]
fn prolongate(z: &Field<f32, 3>, coarse: &Field<f32, 3>) {
    for [i, j, k] in z {
        z[[i, j, k]] += coarse[[i >> 1, j >> 1, k >> 1]];
    }
}

#[kernel]
fn clear(x: &Field<f32, 3>) {
    for [i, j, k] in x {
        x[[i, j, k]] = 0.0;
    }
}

/// Computes `ap = A p` and returns `p . ap`.
#[kernel]
fn apply(p: &Field<f32, 3>, ap: &Field<f32, 3>) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in p {
        let y = 6.0 * p[[i, j, k]] - around(p, i, j, k);
        ap[[i, j, k]] = y;
        sum += (p[[i, j, k]] * y) as f64;
    }
    sum
}

/// A step along `p`; returns the squared residual.
#[kernel]
fn advance(
    x: &Field<f32, 3>,
    r: &Field<f32, 3>,
    p: &Field<f32, 3>,
    ap: &Field<f32, 3>,
    alpha: f32,
) -> f64 {
    let mut left = 0.0;
    for [i, j, k] in x {
        x[[i, j, k]] += alpha * p[[i, j, k]];
        let rest = r[[i, j, k]] - alpha * ap[[i, j, k]];
        r[[i, j, k]] = rest;
        left += (rest * rest) as f64;
    }
    left
}

#[kernel]
fn dot(a: &Field<f32, 3>, b: &Field<f32, 3>) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in a {
        sum += (a[[i, j, k]] * b[[i, j, k]]) as f64;
    }
    sum
}

/// Updates the search direction: `p = z + beta p`.
#[kernel]
fn turn(p: &Field<f32, 3>, z: &Field<f32, 3>, beta: f32) {
    for [i, j, k] in p {
        p[[i, j, k]] = z[[i, j, k]] + beta * p[[i, j, k]];
    }
}

/// Starts with a solution of zero.
#[kernel]
fn restart(x: &Field<f32, 3>, r: &Field<f32, 3>, b: &Field<f32, 3>) {
    for [i, j, k] in x {
        x[[i, j, k]] = 0.0;
        r[[i, j, k]] = b[[i, j, k]];
    }
}
// ANCHOR_END: kernels

/// `sin(a i) cos(a j) sin(a k)` in active cells, for an angle `a` from cell to cell.
#[kernel]
fn source(b: &Field<f32, 3>, angle: f32) {
    for [i, j, k] in b {
        let at = vec3(i as f32, j as f32, k as f32) * angle;
        b[[i, j, k]] = at.x.sin() * at.y.cos() * at.z.sin();
    }
}

/// The angle from cell to cell of so many waves.
fn angle(n: i32, waves: f32) -> f32 {
    waves * std::f32::consts::TAU / n as f32
}

/// The solver and its state.
#[derive(Debug)]
pub struct Mgpcg {
    n: i32,
    /// The right-hand side.
    b: Field<f32, 3>,
    r: Vec<Field<f32, 3>>,
    z: Vec<Field<f32, 3>>,
    x: Field<f32, 3>,
    p: Field<f32, 3>,
    ap: Field<f32, 3>,
    /// `r . z`, and the initial and current `r . r`.
    rz: f64,
    start: f64,
    left: f64,
}

/// A ball in the middle of a cube of `512^3`, a tenth of it wide or a twentieth.
pub fn app(world: &World, scale: Scale) -> Result<Box<dyn App>> {
    let radius = if scale == Scale::Full { 0.1 } else { 0.05 };
    let ball = |at| from_middle(at) < radius;
    Ok(Box::new(Mgpcg::new(world, 512, 4.0, ball)?))
}

impl Mgpcg {
    /// A solver on the blocks whose centre is inside of a shape in the unit cube, with a right-hand side of so many waves
    /// along each axis.
    pub fn new(
        world: &World,
        n: i32,
        waves: f32,
        inside: impl Fn([f32; 3]) -> bool,
    ) -> Result<Mgpcg> {
        // ANCHOR: layout
        let level = |l: usize| {
            world.layout(|root| {
                let block = root.pointer(IJK, ((n >> l).max(BLOCK) / BLOCK) as i64);
                (
                    block.cells::<3>("blocks"),
                    block.dense(IJK, BLOCK as i64).place::<f32, 3>("r"),
                    block.dense(IJK, BLOCK as i64).place::<f32, 3>("z"),
                )
            })
        };
        let (finest, b, x, p, ap, r, z) = world.layout(|root| {
            let block = root.pointer(IJK, (n / BLOCK) as i64);
            (
                block.cells::<3>("blocks"),
                block.dense(IJK, BLOCK as i64).place("b"),
                block.dense(IJK, BLOCK as i64).place("x"),
                block.dense(IJK, BLOCK as i64).place("p"),
                block.dense(IJK, BLOCK as i64).place("ap"),
                block.dense(IJK, BLOCK as i64).place("r"),
                block.dense(IJK, BLOCK as i64).place("z"),
            )
        })?;
        let active = blocks(n / BLOCK, 1, inside);
        let activate = |cells: &Cells<3>, l: usize| {
            let at: Vec<[i32; 3]> = active.iter().map(|b| b.map(|c| c >> l)).collect();
            cells.import(&at)
        };
        activate(&finest, 0)?;
        let (mut rs, mut zs) = (vec![r], vec![z]);
        for l in 1..LEVELS {
            let (cells, r, z) = level(l)?;
            activate(&cells, l)?;
            rs.push(r);
            zs.push(z);
        }
        // ANCHOR_END: layout
        source(&b, angle(n, waves))?;
        Mgpcg::with_fields(n, [b, x, p, ap], rs, zs)
    }

    /// The same on all cells of a cube, in dense fields.
    pub fn dense(world: &World, n: i32, waves: f32) -> Result<Mgpcg> {
        let field = |name: &str, l: usize| world.field(name, [(n >> l).max(BLOCK) as i64; 3]);
        let levels = |name| (0..LEVELS).map(|l| field(name, l)).collect::<Result<_>>();
        let finest = [
            field("b", 0)?,
            field("x", 0)?,
            field("p", 0)?,
            field("ap", 0)?,
        ];
        source(&finest[0], angle(n, waves))?;
        Mgpcg::with_fields(n, finest, levels("r")?, levels("z")?)
    }

    /// A solver on the active cells of these fields: the right-hand side, the solution, a search direction and its image;
    /// residuals and corrections from the finest level to the coarsest.
    pub fn with_fields(
        n: i32,
        [b, x, p, ap]: [Field<f32, 3>; 4],
        r: Vec<Field<f32, 3>>,
        z: Vec<Field<f32, 3>>,
    ) -> Result<Mgpcg> {
        let mut solver = Mgpcg {
            n,
            b,
            r,
            z,
            x,
            p,
            ap,
            rz: 0.0,
            start: 0.0,
            left: 0.0,
        };
        solver.restart()?;
        Ok(solver)
    }

    // ANCHOR: solver
    /// Starts from zero.
    fn restart(&mut self) -> Result<()> {
        restart(&self.x, &self.r[0], &self.b)?;
        self.start = dot(&self.b, &self.b)?;
        self.left = self.start;
        self.v_cycle()?;
        self.rz = dot(&self.r[0], &self.z[0])?;
        turn(&self.p, &self.z[0], 0.0)
    }

    /// Starts from zero and iterates until the residual has fallen to `factor`, at most so many times. Returns the number
    /// of iterations.
    pub fn solve(&mut self, factor: f64, most: usize) -> Result<usize> {
        self.restart()?;
        if self.start == 0.0 {
            return Ok(0);
        }
        for iteration in 1..most {
            self.descend()?;
            if self.residual() <= factor {
                return Ok(iteration);
            }
            self.direct()?;
        }
        self.descend()?;
        Ok(most)
    }

    /// A step along the search direction.
    fn descend(&mut self) -> Result<()> {
        let alpha = self.rz / apply(&self.p, &self.ap)?;
        self.left = advance(&self.x, &self.r[0], &self.p, &self.ap, alpha as f32)?;
        Ok(())
    }

    /// The next search direction.
    fn direct(&mut self) -> Result<()> {
        self.v_cycle()?;
        let rz = dot(&self.r[0], &self.z[0])?;
        turn(&self.p, &self.z[0], (rz / self.rz) as f32)?;
        self.rz = rz;
        Ok(())
    }

    /// `z = M r`. The post-smoothing reverses the order of colours, so that `M` is symmetric.
    fn v_cycle(&self) -> Result<()> {
        let sweep = |l: usize, first: i32| {
            smooth(&self.z[l], &self.r[l], first)?;
            smooth(&self.z[l], &self.r[l], 1 - first)
        };
        let last = self.z.len() - 1;
        for l in 0..last {
            clear(&self.z[l])?;
            (0..SWEEPS).try_for_each(|_| sweep(l, 0))?;
            restrict(&self.z[l], &self.r[l], &self.r[l + 1])?;
        }
        clear(&self.z[last])?;
        (0..BOTTOM).try_for_each(|_| sweep(last, 0))?;
        (0..BOTTOM).try_for_each(|_| sweep(last, 1))?;
        for l in (0..last).rev() {
            prolongate(&self.z[l], &self.z[l + 1])?;
            (0..SWEEPS).try_for_each(|_| sweep(l, 1))?;
        }
        Ok(())
    }
    // ANCHOR_END: solver

    /// The residual relative to the initial one.
    pub fn residual(&self) -> f64 {
        (self.left / self.start).sqrt()
    }

    /// The solution so far.
    pub fn solution(&self) -> &Field<f32, 3> {
        &self.x
    }
}

impl App for Mgpcg {
    fn step(&mut self) -> Result<()> {
        self.descend()?;
        self.direct()
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        Ok(vec![
            ("cells", self.x.count_active()? as f64),
            ("x.x", dot(&self.x, &self.x)?),
            ("residual", self.residual()),
        ])
    }

    fn picture(&self) -> Result<Picture> {
        // A slice through the central quarter, slightly off the plane where the solution is zero.
        let (n, from) = (i64::from(self.n), i64::from(self.n) * 3 / 8);
        let (side, at) = (from..n - from, n / 2 + n / 32);
        let slice = self.x.window([side.clone(), side, at..at + 1])?.to_vec()?;
        let most = slice.iter().fold(f32::MIN_POSITIVE, |m, x| m.max(x.abs()));
        let width = (n - 2 * from) as usize;
        Ok(chart(512, |i, j| {
            let x = slice[i * width / 512 * width + j * width / 512];
            (x != 0.0).then_some(0.5 + 0.5 * x / most)
        }))
    }

    fn size(&self) -> Result<String> {
        let cells = self.x.count_active()?;
        Ok(format!(
            "{cells} of {0}x{0}x{0} cells, {LEVELS} levels",
            self.n
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The solution satisfies the equation on a domain with holes, checked on the host.
    #[test]
    fn the_solution_solves() {
        let world = World::cpu().expect("a world");
        let shape = |at: [f32; 3]| from_middle(at) < 0.4 && at[0] > 0.3;
        let n = 32;
        let mut solver = Mgpcg::new(&world, n, 4.0, shape).expect("fields");
        for _ in 0..25 {
            solver.step().expect("a step");
        }
        assert!(solver.residual() < 1e-4, "{}", solver.residual());
        let x = solver.x.to_vec().expect("values");
        let there: Vec<[i32; 3]> = solver.x.active().expect("cells");
        assert_eq!(there.len(), blocks(n / BLOCK, 1, shape).len() * 512);
        let at = |c: [i32; 3]| {
            if c.iter().all(|c| (0..n).contains(c)) {
                x[((c[0] * n + c[1]) * n + c[2]) as usize]
            } else {
                0.0
            }
        };
        let mut worst = 0.0f32;
        for [i, j, k] in there {
            let near = at([i - 1, j, k])
                + at([i + 1, j, k])
                + at([i, j - 1, k])
                + at([i, j + 1, k])
                + at([i, j, k - 1])
                + at([i, j, k + 1]);
            let t = |c: i32| c as f32 * (4.0 * std::f32::consts::TAU / n as f32);
            let source = t(i).sin() * t(j).cos() * t(k).sin();
            worst = worst.max((6.0 * at([i, j, k]) - near - source).abs());
        }
        assert!(worst < 1e-3, "{worst}");
    }
}
