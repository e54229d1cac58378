//! Matrix-free linear elasticity on hexahedra: each node gathers the forces of its eight adjacent cells.
//!
//! Conjugate gradients apply the operator to deform a ball under its weight. Its lowest nodes are fixed.

use super::{App, Scale, blocks, from_middle};
use wuji::prelude::*;
use wuji::viewer::Picture;
use wuji::viewer::{Canvas, Light, light};
use wuji::{Cells, Result};

/// Nodes along each side of a block.
pub const BLOCK: i32 = 8;

/// Lamé parameters of soft and of hard material.
const SOFT: (f32, f32) = (1.0, 0.8);
const HARD: (f32, f32) = (4.0, 3.0);

/// One-dimensional integrals of products of the two hat functions and their derivatives.
const fn product(derive_a: bool, derive_b: bool, a: usize, b: usize) -> f32 {
    let (slope_a, slope_b) = (2.0 * a as f32 - 1.0, 2.0 * b as f32 - 1.0);
    match (derive_a, derive_b) {
        (true, true) => slope_a * slope_b,
        (true, false) => slope_a * 0.5,
        (false, true) => slope_b * 0.5,
        (false, false) if a == b => 1.0 / 3.0,
        (false, false) => 1.0 / 6.0,
    }
}

/// Integral over a cell of the derivative along `i` of the function of corner `a` times that along `j` of corner `b`.
const fn overlap(a: usize, b: usize, i: usize, j: usize) -> f32 {
    let mut value = 1.0;
    let mut d = 0;
    while d < 3 {
        value *= product(i == d, j == d, a >> d & 1, b >> d & 1);
        d += 1;
    }
    value
}

/// Stiffness between corners `a` and `b`, for a unit of the first and of the second Lamé parameter.
pub const STIFFNESS: [[[Mat3; 2]; 8]; 8] = {
    let mut blocks = [[[Matrix([[0.0; 3]; 3]); 2]; 8]; 8];
    let mut n = 0;
    while n < 8 * 8 * 9 {
        let (a, b, i, j) = (n / 72, n / 9 % 8, n / 3 % 3, n % 3);
        blocks[a][b][0].0[i][j] = overlap(a, b, i, j);
        blocks[a][b][1].0[i][j] = overlap(a, b, j, i);
        if i == j {
            blocks[a][b][1].0[i][j] +=
                overlap(a, b, 0, 0) + overlap(a, b, 1, 1) + overlap(a, b, 2, 2);
        }
        n += 1;
    }
    blocks
};

// ANCHOR: operator
/// The force on a node: each of its eight adjacent cells contributes what the displacements of its corners cause.
#[func]
fn force(u: &Field<Vec3, 3>, lambda: &Field<f32, 3>, mu: &Field<f32, 3>, node: IVec3) -> Vec3 {
    let mut force = Vec3::splat(0.0);
    for a in unroll(0..8) {
        // This node is corner `a` of that cell.
        let cell = node - ivec3(a & 1, a >> 1 & 1, a >> 2);
        let mut first = Vec3::splat(0.0);
        let mut second = Vec3::splat(0.0);
        for b in unroll(0..8) {
            let moved = u[cell + ivec3(b & 1, b >> 1 & 1, b >> 2)];
            first += STIFFNESS[a][b][0] * moved;
            second += STIFFNESS[a][b][1] * moved;
        }
        force += first * lambda[cell] + second * mu[cell];
    }
    force
}

/// Computes `f = K u`.
#[kernel]
fn operate(u: &Field<Vec3, 3>, f: &Field<Vec3, 3>, lambda: &Field<f32, 3>, mu: &Field<f32, 3>) {
    for [i, j, k] in u {
        f[[i, j, k]] = force(u, lambda, mu, ivec3(i, j, k));
    }
}
// ANCHOR_END: operator

/// Computes `f = K u` and returns `u . f`. Nodes at the bottom are fixed.
#[kernel]
fn apply(
    u: &Field<Vec3, 3>,
    f: &Field<Vec3, 3>,
    lambda: &Field<f32, 3>,
    mu: &Field<f32, 3>,
    bottom: i32,
) -> f64 {
    let mut work = 0.0;
    for [i, j, k] in u {
        let mut force = force(u, lambda, mu, ivec3(i, j, k));
        if j <= bottom {
            force = Vec3::splat(0.0);
        }
        f[[i, j, k]] = force;
        work += u[[i, j, k]].dot(force) as f64;
    }
    work
}

/// A step along `p`; returns the squared residual.
#[kernel]
fn advance(
    u: &Field<Vec3, 3>,
    r: &Field<Vec3, 3>,
    p: &Field<Vec3, 3>,
    kp: &Field<Vec3, 3>,
    alpha: f32,
) -> f64 {
    let mut left = 0.0;
    for [i, j, k] in u {
        u[[i, j, k]] += p[[i, j, k]] * alpha;
        let rest = r[[i, j, k]] - kp[[i, j, k]] * alpha;
        r[[i, j, k]] = rest;
        left += rest.norm_sqr() as f64;
    }
    left
}

/// Updates the search direction.
#[kernel]
fn turn(p: &Field<Vec3, 3>, r: &Field<Vec3, 3>, beta: f32) {
    for [i, j, k] in p {
        p[[i, j, k]] = r[[i, j, k]] + p[[i, j, k]] * beta;
    }
}

/// Adds the weight of each cell to its corners; returns the squared initial residual.
#[kernel]
fn weigh(r: &Field<Vec3, 3>, mu: &Field<f32, 3>, bottom: i32) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in r {
        let mut weight = 0.0;
        for a in unroll(0..8) {
            if mu[[i - (a & 1), j - (a >> 1 & 1), k - (a >> 2)]] > 0.0 {
                weight += 0.125;
            }
        }
        if j <= bottom {
            weight = 0.0;
        }
        r[[i, j, k]] = vec3(0.0, -weight * 1e-3, 0.0);
        sum += (weight * weight * 1e-6) as f64;
    }
    sum
}

#[kernel]
fn squares(x: &Field<Vec3, 3>) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in x {
        sum += x[[i, j, k]].norm_sqr() as f64;
    }
    sum
}

/// How the components of vectors are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Structure of arrays: rows of a block are contiguous vector accesses.
    Soa,
    /// Array of structures: all values of a node side by side.
    Aos,
}

/// The material of a body, and the operator of its elasticity.
#[derive(Debug)]
pub struct Operator {
    /// The displacement of a node.
    pub u: Field<Vec3, 3>,
    /// The force on a node.
    pub f: Field<Vec3, 3>,
    /// The first Lamé parameter of a cell.
    pub lambda: Field<f32, 3>,
    /// The second Lamé parameter of a cell.
    pub mu: Field<f32, 3>,
}

/// A body and its solver state.
#[derive(Debug)]
pub struct Fem {
    n: i32,
    u: Field<Vec3, 3>,
    r: Field<Vec3, 3>,
    p: Field<Vec3, 3>,
    kp: Field<Vec3, 3>,
    lambda: Field<f32, 3>,
    mu: Field<f32, 3>,
    bottom: i32,
    start: f64,
    left: f64,
}

/// A hollow ball in 128^3 or 64^3 cells.
pub fn app(world: &World, scale: Scale) -> Result<Box<dyn App>> {
    let n = if scale == Scale::Full { 128 } else { 64 };
    Ok(Box::new(Fem::new(world, n, shell)?))
}

/// A ball with a hole in the middle.
pub fn shell(at: [f32; 3]) -> bool {
    (0.22..0.37).contains(&from_middle(at))
}

/// The cells inside of a shape, in the order of their blocks.
pub fn solid(n: i32, inside: impl Fn([f32; 3]) -> bool) -> Vec<[i32; 3]> {
    let at = |c: i32| (c as f32 + 0.5) / n as f32;
    let of = |b: [i32; 3]| {
        (0..BLOCK * BLOCK * BLOCK).map(move |c| {
            [
                b[0] + c / (BLOCK * BLOCK),
                b[1] + c / BLOCK % BLOCK,
                b[2] + c % BLOCK,
            ]
        })
    };
    let all = blocks(n, BLOCK, &inside).into_iter().flat_map(of);
    all.filter(|cell| inside(cell.map(at))).collect()
}

/// The Lamé parameters of a cell.
pub fn material(cell: [i32; 3], n: i32) -> (f32, f32) {
    if cell[0] < n / 2 { SOFT } else { HARD }
}

/// Activates the blocks of a body with one block around each corner of its cells, and sets its material.
fn fill(
    cells: &[[i32; 3]],
    n: i32,
    blocks: &Cells<3>,
    lambda: &Field<f32, 3>,
    mu: &Field<f32, 3>,
) -> Result<()> {
    let (first, second): (Vec<f32>, Vec<f32>) = cells.iter().map(|c| material(*c, n)).unzip();
    lambda.import(cells, &first)?;
    mu.import(cells, &second)?;
    // The far corners of a cell may be in the next block.
    let mut near: Vec<[i32; 3]> = cells.iter().map(|c| c.map(|c| (c + 1) / BLOCK)).collect();
    near.sort();
    near.dedup();
    blocks.import(&near)
}

impl Operator {
    /// The nodes of the cells that a shape in the unit cube contains.
    pub fn new(
        world: &World,
        n: i32,
        inside: impl Fn([f32; 3]) -> bool,
        order: Order,
    ) -> Result<Operator> {
        // ANCHOR: layout
        let (cells, u, f, lambda, mu) = world.layout(|root| {
            let block = root.pointer(IJK, (n / BLOCK) as i64);
            let shared = (order == Order::Aos).then(|| block.dense(IJK, BLOCK as i64));
            let vectors = |name| match shared {
                Some(nodes) => nodes.place(name),
                None => block.place_soa(name, |block| block.dense(IJK, BLOCK as i64)),
            };
            let scalars =
                |name| (shared.unwrap_or_else(|| block.dense(IJK, BLOCK as i64))).place(name);
            (
                block.cells::<3>("blocks"),
                vectors("u"),
                vectors("f"),
                scalars("lambda"),
                scalars("mu"),
            )
        })?;
        // ANCHOR_END: layout
        fill(&solid(n, inside), n, &cells, &lambda, &mu)?;
        Ok(Operator { u, f, lambda, mu })
    }

    /// Computes `f = K u`.
    pub fn apply(&self) -> Result<()> {
        operate(&self.u, &self.f, &self.lambda, &self.mu)
    }
}

impl Fem {
    /// The nodes of a grid with `n` cells along each axis are those inside of a shape.
    pub fn new(world: &World, n: i32, inside: impl Fn([f32; 3]) -> bool) -> Result<Fem> {
        let (blocks, u, r, p, kp, lambda, mu) = world.layout(|root| {
            let block = root.pointer(IJK, (n / BLOCK) as i64);
            let field = |name: &str| block.dense(IJK, BLOCK as i64).place(name);
            let vectors = |name| block.place_soa(name, |node| node.dense(IJK, BLOCK as i64));
            (
                block.cells::<3>("blocks"),
                vectors("u"),
                vectors("r"),
                vectors("p"),
                vectors("kp"),
                field("lambda"),
                field("mu"),
            )
        })?;
        let cells = solid(n, inside);
        fill(&cells, n, &blocks, &lambda, &mu)?;
        let bottom = cells.iter().map(|c| c[1]).min().unwrap_or(0) + n / 32;
        let start = weigh(&r, &mu, bottom)?;
        turn(&p, &r, 0.0)?;
        Ok(Fem {
            n,
            u,
            r,
            p,
            kp,
            lambda,
            mu,
            bottom,
            start,
            left: start,
        })
    }

    /// Computes `kp = K p` and returns `p . kp`.
    fn apply(&self) -> Result<f64> {
        apply(&self.p, &self.kp, &self.lambda, &self.mu, self.bottom)
    }

    /// The residual relative to the initial one.
    pub fn residual(&self) -> f64 {
        (self.left / self.start).sqrt()
    }
}

impl App for Fem {
    fn step(&mut self) -> Result<()> {
        let alpha = (self.left / self.apply()?) as f32;
        let left = advance(&self.u, &self.r, &self.p, &self.kp, alpha)?;
        turn(&self.p, &self.r, (left / self.left) as f32)?;
        self.left = left;
        Ok(())
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        Ok(vec![
            ("nodes", self.mu.count_active()? as f64),
            ("u.u", squares(&self.u)?),
            ("residual", self.residual()),
        ])
    }

    /// Draws the front half, with exaggerated deformation.
    fn picture(&self) -> Result<Picture> {
        let (nodes, moved) = self.u.export()?;
        let most = moved.iter().fold(f32::MIN_POSITIVE, |m, u| m.max(u.norm()));
        let (still, far) = (light(0x2f6fd0), light(0xff7a45));
        let mut canvas = Canvas::new(960);
        let n = self.n as f32;
        for (at, u) in nodes.iter().zip(moved) {
            if self.mu.get(*at)? > 0.0 && (0..2).contains(&(at[2] - self.n / 2)) {
                let t = u.norm() / most;
                let color: Light = std::array::from_fn(|c| still[c] + (far[c] - still[c]) * t);
                let place = [0, 1].map(|d| (at[d] as f32 + u.0[d] / most * 0.08 * n) / n);
                canvas.dot(place, 0.5 / n, color);
            }
        }
        Ok(canvas.develop(0.0))
    }

    fn size(&self) -> Result<String> {
        let nodes = self.mu.count_active()?;
        Ok(format!("{nodes} of {0}x{0}x{0} nodes", self.n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rigid motions cause no forces, and the stiffness matrix is symmetric.
    // Indices are rows and columns of a matrix.
    #[allow(clippy::needless_range_loop)]
    #[test]
    fn the_stiffness_of_a_cell() {
        for a in 0..8 {
            for m in 0..2 {
                let mut moved = Mat3::splat(0.0);
                let mut turned = Vec3::splat(0.0);
                for b in 0..8 {
                    let k = STIFFNESS[a][b][m];
                    assert!((k - STIFFNESS[b][a][m].transpose()).norm() < 1e-6);
                    moved += k;
                    let (x, y) = ((b & 1) as f32, (b >> 1 & 1) as f32);
                    turned += k * vec3(-y, x, 0.0);
                }
                assert!(
                    moved.norm() < 1e-6 && turned.norm() < 1e-6,
                    "{moved:?} {turned:?}"
                );
            }
        }
    }

    /// Compares the operator with a sum over cells on the host.
    #[test]
    fn nodes_gather_what_cells_scatter() {
        let world = World::cpu().expect("a world");
        let n = 16;
        let shape =
            |at: [f32; 3]| at[0] > 0.2 && at[0] < 0.9 && at[1] > 0.1 && at[1] < 0.6 && at[2] < 0.7;
        let mut fem = Fem::new(&world, n, shape).expect("fields");
        for _ in 0..3 {
            fem.step().expect("a step");
        }
        fem.apply().expect("a launch");
        let place = |at: IVec3| ((at.0[0] * n + at.0[1]) * n + at.0[2]) as usize;
        let (p, found) = (
            fem.p.to_vec().expect("values"),
            fem.kp.to_vec().expect("values"),
        );
        let (lambda, mu) = (
            fem.lambda.to_vec().expect("lambda"),
            fem.mu.to_vec().expect("mu"),
        );
        let mut expected = vec![Vec3::splat(0.0); p.len()];
        let corner = |at: IVec3, c: i32| at + ivec3(c & 1, c >> 1 & 1, c >> 2);
        for (cell, _) in mu.iter().enumerate().filter(|(_, mu)| **mu > 0.0) {
            let c = cell as i32;
            let at = ivec3(c / (n * n), c / n % n, c % n);
            for a in 0..8 {
                for b in 0..8 {
                    let u = p[place(corner(at, b))];
                    let [first, second] = STIFFNESS[a as usize][b as usize];
                    let force = &mut expected[place(corner(at, a))];
                    *force = *force + (first * u) * lambda[cell] + (second * u) * mu[cell];
                }
            }
        }
        let largest = expected.iter().fold(0.0, |m: f32, f| m.max(f.norm()));
        assert!(largest > 0.0);
        for (at, (a, b)) in found.iter().zip(&expected).enumerate() {
            let held = at as i32 / n % n <= fem.bottom;
            let b = if held { Vec3::splat(0.0) } else { *b };
            assert!((*a - b).norm() < largest * 1e-4, "{at}: {a:?} {b:?}");
        }
        for _ in 0..120 {
            fem.step().expect("a step");
        }
        assert!(fem.residual() < 1e-2, "{}", fem.residual());
    }
}
