//! Newton's method: implicit time steps of an elastic sheet, by products with the Hessian.
//!
//! Each time step minimizes an energy: inertia, gravity and a neo-Hookean material. The gradient is that of a tape. A tape inside of
//! `forward_mode` computes the product of the Hessian and a direction, which is all that conjugate gradients need. The Hessian itself
//! is never derived or stored.

use super::{Outcome, Report, Simulator, Study, plot};
use wuji::prelude::*;
use wuji::viewer::{Framebuffer, Picture, opaque};

/// Newton's method with second derivatives.
pub const NEWTON: Simulator = Simulator {
    name: "newton",
    about: "Newton's method by Hessian-vector products: implicit steps of an elastic sheet",
    long: "A sheet hangs from its left edge, and swings in implicit Euler steps that are far too long for explicit ones. The gradient of \
           its energy is a tape; a tape in forward mode gives products with the Hessian for conjugate gradients.",
    goal: "the force of the first time step falls below 1e-9 of the first one, quadratically",
    size: ("cells along each side", 16),
    iterations: 10,
    run,
    file: file!(),
    source: include_str!("newton.rs"),
};

const DT: f64 = 0.04;
const DENSITY: f64 = 1.0;
const GRAVITY: f64 = 9.8;
/// Lame parameters.
const MU: f64 = 40.0;
const LAMBDA: f64 = 80.0;
/// Time steps of the animation.
const FRAMES: usize = 50;

/// The elastic energy of a triangle per area. `a` and `b` are its edges, in units of their lengths at rest.
#[func]
fn neo_hookean(a: DVec2, b: DVec2) -> f64 {
    let log = a.cross(b).max(1e-6).ln();
    0.5 * MU * (a.norm_sqr() + b.norm_sqr() - 2.0) - MU * log + 0.5 * LAMBDA * log * log
}

/// What an implicit Euler step minimizes. `ahead` is where vertices come without forces.
#[kernel]
fn energy(x: &Field<DVec2, 2>, ahead: &Field<DVec2, 2>, total: &Field<f64, 0>) {
    let n = x.shape().x - 1;
    let cell = 1.0 / n as f64;
    for [i, j] in x {
        let d = x[[i, j]] - ahead[[i, j]];
        let mass = DENSITY * cell * cell;
        total[[]] += mass * (d.norm_sqr() / (2.0 * DT * DT) + GRAVITY * x[[i, j]].y);
    }
    for [i, j] in grid([0..n, 0..n]) {
        let (low, right) = (x[[i, j]], x[[i + 1, j]]);
        let (up, far) = (x[[i, j + 1]], x[[i + 1, j + 1]]);
        let below = neo_hookean((right - low) / cell, (up - low) / cell);
        let above = neo_hookean((far - up) / cell, (far - right) / cell);
        total[[]] += 0.5 * cell * cell * (below + above);
    }
}

/// A vector of all vertices.
type Vertices = Vec<DVec2>;

fn dot(a: &Vertices, b: &Vertices) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.dot(*b)).sum()
}

fn add(a: &Vertices, factor: f64, b: &Vertices) -> Vertices {
    a.iter().zip(b).map(|(a, b)| *a + *b * factor).collect()
}

struct Sheet {
    world: World,
    n: usize,
    x: Field<DVec2, 2>,
    ahead: Field<DVec2, 2>,
    total: Field<f64, 0>,
}

impl Sheet {
    fn new(world: World, n: usize) -> wuji::Result<Sheet> {
        let x = world.field::<DVec2, 2>("x", [n + 1, n + 1])?;
        let x = x.needs_grad()?.needs_dual()?;
        let total = world.scalar::<f64>("total")?.needs_grad()?.needs_dual()?;
        // The derivatives of gradients.
        x.grad()?.needs_dual()?;
        total.grad()?.needs_dual()?;
        let at = |k: usize| k as f64 / n as f64;
        let rest = (0..(n + 1) * (n + 1)).map(|k| dvec2(at(k / (n + 1)), at(k % (n + 1))));
        x.copy_from(&rest.collect::<Vec<_>>())?;
        let ahead = world.field("ahead", [n + 1, n + 1])?;
        Ok(Sheet {
            world,
            n,
            x,
            ahead,
            total,
        })
    }

    /// The left edge does not move.
    fn pinned(&self, mut vertices: Vertices) -> Vertices {
        vertices[..=self.n].fill(dvec2(0.0, 0.0));
        vertices
    }

    fn energy(&self) -> wuji::Result<()> {
        self.total.fill(0.0)?;
        energy(&self.x, &self.ahead, &self.total)
    }

    fn gradient(&self) -> wuji::Result<Vertices> {
        self.world.tape(&self.total, || self.energy())?;
        Ok(self.pinned(self.x.grad()?.to_vec()?))
    }

    /// The product of the Hessian and a direction.
    fn hessian(&self, direction: &Vertices) -> wuji::Result<Vertices> {
        self.x.dual()?.copy_from(direction)?;
        self.world
            .forward_mode(|| self.world.tape(&self.total, || self.energy()))?;
        Ok(self.pinned(self.x.grad()?.dual()?.to_vec()?))
    }

    /// Solves `hessian * step = -gradient` by conjugate gradients, the more accurately the smaller the gradient is.
    fn newton_step(&self, gradient: &Vertices) -> wuji::Result<Vertices> {
        let mut step = vec![dvec2(0.0, 0.0); gradient.len()];
        let mut residual: Vertices = gradient.iter().map(|g| -*g).collect();
        let mut direction = residual.clone();
        let first = dot(&residual, &residual);
        let enough = first * first.min(1e-6);
        let mut square = first;
        for _ in 0..20 * (self.n + 1) {
            if square <= enough {
                break;
            }
            let product = self.hessian(&direction)?;
            let curvature = dot(&direction, &product);
            if curvature <= 0.0 {
                // Not convex here: what there is so far goes down.
                break;
            }
            step = add(&step, square / curvature, &direction);
            residual = add(&residual, -square / curvature, &product);
            let before = std::mem::replace(&mut square, dot(&residual, &residual));
            direction = add(&residual, square / before, &direction);
        }
        Ok(if dot(&step, &step) > 0.0 {
            step
        } else {
            residual
        })
    }

    /// One iteration of Newton's method, with a line search. Returns the norm of the gradient before it.
    fn iterate(&self) -> wuji::Result<f64> {
        let gradient = self.gradient()?;
        let (x, before) = (self.x.to_vec()?, self.total.get(())?);
        let step = self.newton_step(&gradient)?;
        let slope = dot(&gradient, &step);
        let mut length = 1.0;
        loop {
            self.x.copy_from(&add(&x, length, &step))?;
            self.energy()?;
            let enough = before + 1e-4 * length * slope + 1e-12 * before.abs();
            if self.total.get(())? <= enough || length < 1e-6 {
                return Ok(dot(&gradient, &gradient).sqrt());
            }
            length *= 0.5;
        }
    }

    fn picture(&self) -> wuji::Result<Picture> {
        let (x, n, side) = (self.x.to_vec()?, self.n, plot::SIDE);
        let at = |i: usize, j: usize| {
            let p = x[i * (n + 1) + j];
            [
                (p.x + 0.1) / 1.8 * side as f64,
                (p.y + 0.75) / 1.8 * side as f64,
            ]
        };
        let mut frame = Framebuffer::new(side, side, opaque(0xfbfaf7));
        for i in 0..=n {
            for j in 0..n {
                frame.line(at(i, j), at(i, j + 1), 0.7, opaque(0x1864ab));
                frame.line(at(j, i), at(j + 1, i), 0.7, opaque(0x1864ab));
            }
        }
        frame.line(at(0, 0), at(0, n), 2.5, opaque(0x343a40));
        Ok(frame.to_picture())
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let n = study.size();
    let sheet = Sheet::new(study.world(), n)?;
    let start = sheet.x.to_vec()?;
    sheet.ahead.copy_from(&start)?;
    // The first time step: from rest, under gravity.
    let losses = study.optimize(|_| sheet.iterate())?;

    let mut frames = vec![sheet.picture()?];
    let mut before = start;
    for _ in 0..FRAMES {
        let now = sheet.x.to_vec()?;
        sheet
            .ahead
            .copy_from(&add(&now, 1.0, &add(&now, -1.0, &before)))?;
        before = now;
        for _ in 0..study.iterations() {
            if sheet.iterate()? < 1e-6 {
                break;
            }
        }
        frames.push(sheet.picture()?);
    }
    Ok(Report {
        what: format!("{} vertices, norms of the gradient", (n + 1) * (n + 1)),
        goal: 1e-9 * losses[0],
        losses,
        frames,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::reaches_its_goal;
    use super::*;

    #[test]
    fn newton_converges_quadratically() {
        let report = reaches_its_goal(&NEWTON, 5, 10);
        // Relative to the first one; below 1e-11 they are rounding errors.
        let norms: Vec<_> = report
            .losses
            .iter()
            .map(|norm| norm / report.losses[0])
            .collect();
        let pairs = norms
            .windows(2)
            .filter(|pair| pair[0] < 0.1 && pair[1] > 1e-11);
        let orders: Vec<_> = pairs.map(|pair| pair[1].ln() / pair[0].ln()).collect();
        assert!(
            !orders.is_empty() && orders.iter().all(|order| *order > 1.6),
            "{norms:?}"
        );
    }

    #[test]
    fn products_with_the_hessian_are_differences_of_gradients() {
        let sheet = Sheet::new(World::cpu().expect("a world"), 3).expect("fields");
        let rest = sheet.x.to_vec().expect("values");
        let stretched: Vec<_> = rest
            .iter()
            .map(|p| *p + dvec2(0.1 * p.x, 0.2 * p.x * p.y))
            .collect();
        let direction: Vec<_> = (0..16)
            .map(|k| dvec2((k as f64).sin(), (k as f64).cos()))
            .collect();
        let gradient = |by: f64| {
            sheet
                .x
                .copy_from(&add(&stretched, by, &direction))
                .expect("copied");
            sheet.gradient().expect("a gradient")
        };
        let (high, low) = (gradient(1e-5), gradient(-1e-5));
        let difference = add(&high, -1.0, &low);
        gradient(0.0);
        let product = sheet.hessian(&direction).expect("a product");
        for (product, difference) in product.iter().zip(&difference) {
            let error = (*product - *difference / 2e-5).norm();
            assert!(
                error < 1e-6 * (1.0 + product.norm()),
                "{product} {difference}"
            );
        }
    }
}
