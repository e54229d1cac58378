//! The wave equation of shallow water: the initial height is optimized, so that the waves form a pattern at the end.
//!
//! The equation is `u'' = c^2 lap(u) + c a lap(u')`. It is linear, so its gradient needs no earlier heights: the tape saves nothing, and
//! three fields that take turns are enough for any number of steps.

use super::{Outcome, Report, Simulator, Study, descend, plot, target};
use wuji::prelude::*;

/// The start of a wave that forms a picture.
pub const WAVE: Simulator = Simulator {
    name: "wave",
    about: "shallow water: an initial height whose waves form a pattern",
    long: "The wave equation with damping, on a square tank with fixed edges. Gradient descent finds the height at the start, such that \
           the waves form the taiji symbol at the end. The equation is linear, so the tape saves no heights.",
    goal: "the loss falls below 5% of the first one",
    size: ("cells along each side", 128),
    iterations: 100,
    run,
    file: file!(),
    source: include_str!("wave.rs"),
};

/// The squared wave speed, in cells per step.
const SPEED: f32 = 0.25;
const DAMPING: f32 = 0.005;

#[func]
fn laplace(u: &Field<f32, 2>, i: i32, j: i32) -> f32 {
    u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]] - 4.0 * u[[i, j]]
}

/// The water rests at first.
#[kernel]
fn start(height: &Field<f32, 2>, old: &Field<f32, 2>, now: &Field<f32, 2>) {
    for [i, j] in height {
        old[[i, j]] = height[[i, j]];
        now[[i, j]] = height[[i, j]];
    }
}

#[kernel]
fn advance(old: &Field<f32, 2>, now: &Field<f32, 2>, next: &Field<f32, 2>) {
    for [i, j] in next {
        next[[i, j]] = 2.0 * now[[i, j]] - old[[i, j]] + (SPEED + DAMPING) * laplace(now, i, j)
            - DAMPING * laplace(old, i, j);
    }
}

#[kernel]
fn compare(u: &Field<f32, 2>, target: &Field<f32, 2>, loss: &Field<f32, 0>) {
    let cells = (u.shape().x * u.shape().y) as f32;
    for [i, j] in u {
        let d = u[[i, j]] - target[[i, j]];
        loss[[]] += d * d / cells;
    }
}

struct Tank {
    world: World,
    steps: usize,
    /// The height at the start, which is optimized.
    height: Field<f32, 2>,
    /// The heights of three steps, in turn.
    u: [Field<f32, 2>; 3],
    target: Field<f32, 2>,
    loss: Field<f32, 0>,
}

impl Tank {
    fn new(world: World, n: usize) -> wuji::Result<Tank> {
        let field = |name| world.field::<f32, 2>(name, [n, n]);
        let target = field("target")?;
        target.copy_from(&target::taiji_cells(n, 3))?;
        Ok(Tank {
            steps: 2 * n,
            height: field("height")?.needs_grad()?,
            u: [
                field("u0")?.needs_grad()?,
                field("u1")?.needs_grad()?,
                field("u2")?.needs_grad()?,
            ],
            target,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        })
    }

    /// Runs all steps; `watch` sees the height after each.
    fn simulate(&self, mut watch: impl FnMut(usize, &Field<f32, 2>)) -> wuji::Result<()> {
        let [a, b, c] = &self.u;
        start(&self.height, a, b)?;
        for step in 0..self.steps {
            let (old, now, next) = match step % 3 {
                0 => (a, b, c),
                1 => (b, c, a),
                _ => (c, a, b),
            };
            advance(old, now, next)?;
            watch(step, next);
        }
        self.loss.fill(0.0)?;
        compare(&self.u[(self.steps + 1) % 3], &self.target, &self.loss)
    }

    /// The loss; its gradient with respect to the initial height is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.simulate(|_, _| {}))?;
        Ok(f64::from(self.loss.get(())?))
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let n = study.size();
    let tank = Tank::new(study.world(), n)?;
    let losses = study.optimize(|_| {
        let loss = tank.gradient()?;
        // No wave grows, so the second derivative of the loss is at most 2 / n^2: this is a Newton step of its largest part.
        descend(&tank.height, 0.5 * (n * n) as f64)?;
        Ok(loss)
    })?;

    let mut frames = Vec::new();
    let each = (tank.steps / 64).max(1);
    tank.simulate(|step, u| {
        if step % each == 0 || step + 1 == tank.steps {
            frames.push(plot::heights(u, [-0.6, 1.2]));
        }
    })?;
    Ok(Report {
        what: format!("{n}x{n} cells, {} steps", tank.steps),
        goal: 0.05 * losses[0],
        losses,
        frames: frames.into_iter().collect::<wuji::Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal, world};
    use super::*;

    #[test]
    fn waves_form_the_pattern() {
        reaches_its_goal(&WAVE, 24, 60);
    }

    #[test]
    fn the_gradient_of_the_height_is_right() {
        let tank = Tank::new(world(), 16).expect("fields");
        tank.gradient().expect("a gradient");
        gradient_is_a_difference(&tank.height, (5 * 16 + 6, 0), (0.5, 1e-3), || {
            tank.simulate(|_, _| {})?;
            Ok(f64::from(tank.loss.get(())?))
        });
    }
}
