//! Matrix-free linear elasticity on hexahedra: each node gathers the forces of its eight adjacent cells.
//!
//! Conjugate gradients apply the operator to deform a ball under its weight. Its lowest nodes are fixed.

use super::{App, Scale, blocks, from_middle};
use wuji::Result;
use wuji::prelude::*;
use wuji::viewer::Picture;
use wuji::viewer::{Canvas, Light, light};

const BLOCK: i32 = 8;

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
const STIFFNESS: [[[Mat3; 2]; 8]; 8] = {
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

#[func]
fn read(x: &Field<f32, 3>, y: &Field<f32, 3>, z: &Field<f32, 3>, at: IVec3) -> Vec3 {
    vec3(x[at], y[at], z[at])
}

#[func]
fn write(x: &Field<f32, 3>, y: &Field<f32, 3>, z: &Field<f32, 3>, at: IVec3, value: Vec3) {
    x[at] = value.x;
    y[at] = value.y;
    z[at] = value.z;
}

/// Computes `f = K u` and returns `u . f`. Nodes at the bottom are fixed.
#[kernel]
fn apply(
    ux: &Field<f32, 3>,
    uy: &Field<f32, 3>,
    uz: &Field<f32, 3>,
    fx: &Field<f32, 3>,
    fy: &Field<f32, 3>,
    fz: &Field<f32, 3>,
    lambda: &Field<f32, 3>,
    mu: &Field<f32, 3>,
    bottom: i32,
) -> f64 {
    let mut work = 0.0;
    for [i, j, k] in ux {
        let node = ivec3(i, j, k);
        let mut force = Vec3::splat(0.0);
        for a in unroll(0..8) {
            // This node is corner `a` of that cell.
            let cell = node - ivec3(a & 1, a >> 1 & 1, a >> 2);
            let mut first = Vec3::splat(0.0);
            let mut second = Vec3::splat(0.0);
            for b in unroll(0..8) {
                let moved = read(ux, uy, uz, cell + ivec3(b & 1, b >> 1 & 1, b >> 2));
                first += STIFFNESS[a][b][0] * moved;
                second += STIFFNESS[a][b][1] * moved;
            }
            force += first * lambda[cell] + second * mu[cell];
        }
        if j <= bottom {
            force = Vec3::splat(0.0);
        }
        write(fx, fy, fz, node, force);
        work += read(ux, uy, uz, node).dot(force) as f64;
    }
    work
}

/// A step along `p` for one component; returns the squared residual.
#[kernel]
fn advance(
    u: &Field<f32, 3>,
    r: &Field<f32, 3>,
    p: &Field<f32, 3>,
    kp: &Field<f32, 3>,
    alpha: f32,
) -> f64 {
    let mut left = 0.0;
    for [i, j, k] in u {
        u[[i, j, k]] += p[[i, j, k]] * alpha;
        let rest = r[[i, j, k]] - kp[[i, j, k]] * alpha;
        r[[i, j, k]] = rest;
        left += (rest * rest) as f64;
    }
    left
}

/// Updates the search direction.
#[kernel]
fn turn(p: &Field<f32, 3>, r: &Field<f32, 3>, beta: f32) {
    for [i, j, k] in p {
        p[[i, j, k]] = r[[i, j, k]] + p[[i, j, k]] * beta;
    }
}

/// Adds the weight of each cell to its corners; returns the squared initial residual.
#[kernel]
fn weigh(ry: &Field<f32, 3>, mu: &Field<f32, 3>, bottom: i32) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in ry {
        let mut weight = 0.0;
        for a in unroll(0..8) {
            if mu[[i - (a & 1), j - (a >> 1 & 1), k - (a >> 2)]] > 0.0 {
                weight += 0.125;
            }
        }
        if j <= bottom {
            weight = 0.0;
        }
        ry[[i, j, k]] = -weight * 1e-3;
        sum += (weight * weight * 1e-6) as f64;
    }
    sum
}

#[kernel]
fn squares(x: &Field<f32, 3>) -> f64 {
    let mut sum = 0.0;
    for [i, j, k] in x {
        sum += (x[[i, j, k]] * x[[i, j, k]]) as f64;
    }
    sum
}

/// A vector field as struct of arrays, so that rows of a block are contiguous vector accesses.
type Components = [Field<f32, 3>; 3];

/// A body and its solver state.
#[derive(Debug)]
pub struct Fem {
    n: i32,
    u: Components,
    r: Components,
    p: Components,
    kp: Components,
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
fn shell(at: [f32; 3]) -> bool {
    (0.22..0.37).contains(&from_middle(at))
}

impl Fem {
    pub fn new(world: &World, n: i32, inside: impl Fn([f32; 3]) -> bool) -> Result<Fem> {
        let (cells, u, r, p, kp, lambda, mu) = world.layout(|root| {
            let block = root.pointer(IJK, (n / BLOCK) as i64);
            let field = |name: &str| block.dense(IJK, BLOCK as i64).place(name);
            let nodes = |name| ["x", "y", "z"].map(|c| field(&format!("{name}.{c}")));
            (
                block.cells::<3>("blocks"),
                nodes("u"),
                nodes("r"),
                nodes("p"),
                nodes("kp"),
                field("lambda"),
                field("mu"),
            )
        })?;
        let (mut solid, mut near) = (Vec::new(), Vec::new());
        let at = |c: i32| (c as f32 + 0.5) / n as f32;
        for b in blocks(n, BLOCK, &inside) {
            for c in 0..BLOCK * BLOCK * BLOCK {
                let cell = [
                    b[0] + c / (BLOCK * BLOCK),
                    b[1] + c / BLOCK % BLOCK,
                    b[2] + c % BLOCK,
                ];
                if inside(cell.map(at)) {
                    solid.push(cell);
                    near.push(cell.map(|c| (c + 1) / BLOCK));
                }
            }
        }
        let material = |cell: &[i32; 3]| if cell[0] < n / 2 { SOFT } else { HARD };
        lambda.import(
            &solid,
            &solid.iter().map(|c| material(c).0).collect::<Vec<_>>(),
        )?;
        mu.import(
            &solid,
            &solid.iter().map(|c| material(c).1).collect::<Vec<_>>(),
        )?;
        // The far corners of a cell may be in the next block.
        near.sort();
        near.dedup();
        cells.import(&near)?;
        let bottom = solid.iter().map(|c| c[1]).min().unwrap_or(0) + n / 32;
        let start = weigh(&r[1], &mu, bottom)?;
        turn(&p[1], &r[1], 0.0)?;
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
        let ([x, y, z], [fx, fy, fz]) = (&self.p, &self.kp);
        apply(x, y, z, fx, fy, fz, &self.lambda, &self.mu, self.bottom)
    }

    /// The residual relative to the initial one.
    pub fn residual(&self) -> f64 {
        (self.left / self.start).sqrt()
    }
}

impl App for Fem {
    fn step(&mut self) -> Result<()> {
        let alpha = (self.left / self.apply()?) as f32;
        let mut left = 0.0;
        for c in 0..3 {
            left += advance(&self.u[c], &self.r[c], &self.p[c], &self.kp[c], alpha)?;
        }
        for c in 0..3 {
            turn(&self.p[c], &self.r[c], (left / self.left) as f32)?;
        }
        self.left = left;
        Ok(())
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        Ok(vec![
            ("nodes", self.mu.count_active()? as f64),
            (
                "u.u",
                squares(&self.u[0])? + squares(&self.u[1])? + squares(&self.u[2])?,
            ),
            ("residual", self.residual()),
        ])
    }

    /// Draws the front half, with exaggerated deformation.
    fn picture(&self) -> Result<Picture> {
        let (nodes, x) = self.u[0].export()?;
        let (y, z) = (self.u[1].export()?.1, self.u[2].export()?.1);
        let moved: Vec<Vec3> = (0..x.len()).map(|n| vec3(x[n], y[n], z[n])).collect();
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
        let vectors = |x: &Components| {
            let [x, y, z] = [0, 1, 2].map(|c| x[c].to_vec().expect("values"));
            (0..x.len()).map(|n| vec3(x[n], y[n], z[n])).collect()
        };
        let (p, found): (Vec<Vec3>, Vec<Vec3>) = (vectors(&fem.p), vectors(&fem.kp));
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
