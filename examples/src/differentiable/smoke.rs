//! Smoke in an incompressible fluid: the initial velocity is optimized, so that the smoke forms a pattern at the end.
//!
//! Each step advects velocity and smoke (semi-Lagrangian), and makes the velocity almost free of divergence by some Jacobi iterations for
//! the pressure. Fields hold only the current step. The tape saves what the gradient of advection needs; the pressure is linear, so nothing
//! of it is saved. The borders are periodic.

use super::{Adam, Outcome, Report, Simulator, Study, target};
use wuji::prelude::*;

/// Smoke that forms a picture.
pub const SMOKE: Simulator = Simulator {
    name: "smoke",
    about: "incompressible fluid: an initial velocity that forms a picture of smoke",
    long: "Semi-Lagrangian advection and a pressure projection by Jacobi iterations, on a periodic grid. Adam finds the velocity at the \
           start of each cell, such that a band of smoke becomes the taiji symbol. The fields hold only the current step: the tape saves the \
           velocities and densities that gradients need.",
    goal: "the loss falls below 20% of the first one",
    size: ("cells along each side", 110),
    iterations: 100,
    run,
    file: file!(),
    source: include_str!("smoke.rs"),
};

/// Jacobi iterations for the pressure of a step.
const JACOBI: usize = 6;

/// The weights and the lower corner of the four cells around the point that reaches a cell in one step.
#[func]
fn origin(velocity: &Field<Vec2, 2>, i: i32, j: i32) -> (IVec2, Vec2) {
    let at = vec2(i as f32, j as f32) - velocity[[i, j]];
    let corner = at.floor();
    (corner.cast::<i32>(), at - corner)
}

/// The index of a cell of a periodic grid.
#[func]
fn wrap(at: IVec2, n: i32) -> IVec2 {
    ivec2(at.x.rem_euclid(n), at.y.rem_euclid(n))
}

/// Moves velocity and smoke along the velocity.
#[kernel]
fn advect(
    velocity: &Field<Vec2, 2>,
    smoke: &Field<f32, 2>,
    new_velocity: &Field<Vec2, 2>,
    new_smoke: &Field<f32, 2>,
) {
    let n = smoke.shape().x;
    for [i, j] in smoke {
        let (corner, part) = origin(velocity, i, j);
        let mut v = Vec2::splat(0.0);
        let mut s = 0.0;
        for a in unroll(0..2) {
            for b in unroll(0..2) {
                let from = wrap(corner + ivec2(a, b), n);
                let x = if a == 0 { 1.0 - part.x } else { part.x };
                let y = if b == 0 { 1.0 - part.y } else { part.y };
                v += velocity[from] * (x * y);
                s += smoke[from] * (x * y);
            }
        }
        new_velocity[[i, j]] = v;
        new_smoke[[i, j]] = s;
    }
}

/// The divergence, and the first iteration for the pressure, which is zero before.
#[kernel]
fn diverge(velocity: &Field<Vec2, 2>, divergence: &Field<f32, 2>, pressure: &Field<f32, 2>) {
    let n = divergence.shape().x;
    for [i, j] in divergence {
        let (right, left) = (wrap(ivec2(i + 1, j), n), wrap(ivec2(i - 1, j), n));
        let (up, down) = (wrap(ivec2(i, j + 1), n), wrap(ivec2(i, j - 1), n));
        let d = velocity[right].x - velocity[left].x + velocity[up].y - velocity[down].y;
        divergence[[i, j]] = -0.5 * d;
        pressure[[i, j]] = -0.125 * d;
    }
}

#[kernel]
fn relax(divergence: &Field<f32, 2>, pressure: &Field<f32, 2>, new_pressure: &Field<f32, 2>) {
    let n = divergence.shape().x;
    for [i, j] in divergence {
        let around = pressure[wrap(ivec2(i + 1, j), n)]
            + pressure[wrap(ivec2(i - 1, j), n)]
            + pressure[wrap(ivec2(i, j + 1), n)]
            + pressure[wrap(ivec2(i, j - 1), n)];
        new_pressure[[i, j]] = 0.25 * (divergence[[i, j]] + around);
    }
}

/// Subtracts the gradient of the pressure.
#[kernel]
fn project(velocity: &Field<Vec2, 2>, pressure: &Field<f32, 2>, new_velocity: &Field<Vec2, 2>) {
    let n = pressure.shape().x;
    for [i, j] in pressure {
        let x = pressure[wrap(ivec2(i + 1, j), n)] - pressure[wrap(ivec2(i - 1, j), n)];
        let y = pressure[wrap(ivec2(i, j + 1), n)] - pressure[wrap(ivec2(i, j - 1), n)];
        new_velocity[[i, j]] = velocity[[i, j]] - vec2(x, y) * 0.5;
    }
}

#[kernel]
fn compare(smoke: &Field<f32, 2>, target: &Field<f32, 2>, loss: &Field<f32, 0>) {
    let cells = (smoke.shape().x * smoke.shape().y) as f32;
    for [i, j] in smoke {
        let d = smoke[[i, j]] - target[[i, j]];
        loss[[]] += d * d / cells;
    }
}

#[kernel]
fn copy<T: Element>(from: &Field<T, 2>, to: &Field<T, 2>) {
    for [i, j] in from {
        to[[i, j]] = from[[i, j]];
    }
}

struct Fluid {
    world: World,
    steps: usize,
    /// The velocity at the start, in cells per step, which is optimized.
    start: Field<Vec2, 2>,
    start_smoke: Field<f32, 2>,
    target: Field<f32, 2>,
    velocity: [Field<Vec2, 2>; 2],
    smoke: [Field<f32, 2>; 2],
    divergence: Field<f32, 2>,
    pressure: [Field<f32, 2>; 2],
    loss: Field<f32, 0>,
}

impl Fluid {
    fn new(world: World, n: usize) -> wuji::Result<Fluid> {
        let scalars = |name| world.field::<f32, 2>(name, [n, n]);
        let vectors = |name| world.field::<Vec2, 2>(name, [n, n])?.needs_grad();
        let (start_smoke, target) = (scalars("start_smoke")?, scalars("target")?);
        let goal = target::taiji_cells(n, 1);
        // A band with as much smoke as the target.
        let band = (goal.iter().sum::<f32>() / n as f32 / 2.0).round() as usize;
        let in_band = |k: usize| (k / n).abs_diff(n / 2) < band;
        start_smoke.copy_from(&Vec::from_iter((0..n * n).map(|k| f32::from(in_band(k)))))?;
        target.copy_from(&goal)?;
        Ok(Fluid {
            steps: 9 * n / 10 + 1,
            start: vectors("start")?,
            start_smoke,
            target,
            velocity: [vectors("v0")?, vectors("v1")?],
            smoke: [scalars("s0")?.needs_grad()?, scalars("s1")?.needs_grad()?],
            divergence: scalars("divergence")?.needs_grad()?,
            pressure: [scalars("p0")?.needs_grad()?, scalars("p1")?.needs_grad()?],
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        })
    }

    /// Runs all steps; `watch` sees the smoke before each.
    fn simulate(&self, mut watch: impl FnMut(&Field<f32, 2>)) -> wuji::Result<()> {
        let ([v, new_v], [p, new_p]) = (&self.velocity, &self.pressure);
        copy(&self.start, v)?;
        copy(&self.start_smoke, &self.smoke[0])?;
        for step in 0..self.steps {
            let (smoke, new_smoke) = (&self.smoke[step % 2], &self.smoke[(step + 1) % 2]);
            watch(smoke);
            advect(v, smoke, new_v, new_smoke)?;
            diverge(new_v, &self.divergence, p)?;
            for _ in 0..JACOBI / 2 {
                relax(&self.divergence, p, new_p)?;
                relax(&self.divergence, new_p, p)?;
            }
            project(new_v, p, v)?;
        }
        self.loss.fill(0.0)?;
        compare(&self.smoke[self.steps % 2], &self.target, &self.loss)
    }

    /// The loss; its gradient with respect to the initial velocity is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.simulate(|_| {}))?;
        Ok(f64::from(self.loss.get(())?))
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let n = study.size();
    let fluid = Fluid::new(study.world(), n)?;
    let mut adam = Adam::new(&fluid.start, 0.02)?;
    let losses = study.optimize(|_| {
        let loss = fluid.gradient()?;
        adam.step()?;
        Ok(loss)
    })?;

    let mut frames = Vec::new();
    fluid.simulate(|smoke| frames.push(smoke.to_picture()))?;
    let last = &fluid.smoke[fluid.steps % 2];
    frames.extend((0..20).map(|_| last.to_picture()));
    let frames: Vec<_> = frames.into_iter().collect::<wuji::Result<_>>()?;
    Ok(Report {
        what: format!("{n}x{n} cells, {} steps", fluid.steps),
        goal: 0.2 * losses[0],
        losses,
        frames: frames
            .iter()
            .map(|frame| frame.enlarged((220 / n).max(1)))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal, world};
    use super::*;

    #[test]
    fn smoke_forms_the_pattern() {
        reaches_its_goal(&SMOKE, 24, 60);
    }

    #[test]
    fn the_gradient_of_the_velocity_is_right() {
        let fluid = Fluid::new(world(), 12).expect("fields");
        // Far from whole cells, where interpolation has a kink.
        fluid.start.fill(vec2(0.03, 0.02)).expect("filled");
        fluid.gradient().expect("a gradient");
        gradient_is_a_difference(&fluid.start, (2 * 12 + 5, 0), (2e-3, 0.02), || {
            fluid.simulate(|_| {})?;
            Ok(f64::from(fluid.loss.get(())?))
        });
    }
}
