//! An electric field: a neural network sets the charges of eight electrodes, so that a charged ball follows a path.

use super::{Adam, Outcome, Report, Simulator, Study, plot};
use wuji::prelude::*;
use wuji::viewer::{Framebuffer, Picture, opaque};

/// A charged ball that electrodes guide along a path.
pub const ELECTRIC: Simulator = Simulator {
    name: "electric",
    about: "electrodes: a neural network guides a charged ball along a path",
    long: "A network of two layers sees the ball and where it should be, and sets the charges of eight electrodes. Its weights are \
           optimized through the whole simulation.",
    goal: "the mean squared distance falls below 2% of the first one",
    size: ("steps", 400),
    iterations: 200,
    run,
    file: file!(),
    source: include_str!("electric.rs"),
};

const ELECTRODES: usize = 8;
const HIDDEN: usize = 24;
/// Position and velocity of the ball, and of where it should be, and a constant.
const INPUTS: usize = 9;
const DT: f32 = 0.02;
const FORCE: f32 = 0.6;
const DRAG: f32 = 3.0;

/// Where the ball should be: on a figure eight.
#[func]
fn path(t: i32) -> Vec2 {
    let phase = t as f32 * DT;
    vec2(0.35 * phase.sin(), 0.25 * (2.0 * phase).sin())
}

#[func]
fn electrode(k: i32) -> Vec2 {
    let angle = k as f32 * (std::f32::consts::TAU / ELECTRODES as f32);
    vec2(0.75 * angle.cos(), 0.75 * angle.sin())
}

/// The hidden layer of the network.
#[kernel]
fn sense(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    w: &Field<f32, 2>,
    hidden: &Field<f32, 2>,
    t: i32,
) {
    let (aim, speed) = (path(t), (path(t + 1) - path(t)) / DT);
    for k in 0..HIDDEN as i32 {
        let mut sum = w[[k, 8]];
        for d in unroll(0..2) {
            sum += w[[k, d]] * x[[t]][d] + w[[k, 2 + d]] * v[[t]][d];
            sum += w[[k, 4 + d]] * aim[d] + w[[k, 6 + d]] * speed[d];
        }
        hidden[[t, k]] = sum.tanh();
    }
}

/// The output layer: the charges of the electrodes.
#[kernel]
fn charge(hidden: &Field<f32, 2>, w: &Field<f32, 2>, charges: &Field<f32, 2>, t: i32) {
    for e in 0..ELECTRODES as i32 {
        let mut sum = 0.0;
        for k in 0..HIDDEN as i32 {
            sum += w[[e, k]] * hidden[[t, k]];
        }
        charges[[t, e]] = sum.tanh();
    }
}

/// Coulomb's law, and a symplectic Euler step.
#[kernel]
fn advance(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    charges: &Field<f32, 2>,
    loss: &Field<f32, 0>,
    t: i32,
) {
    let steps = (x.shape().x - 1) as f32;
    for now in t..t + 1 {
        let mut force = v[[now]] * -DRAG;
        for e in 0..ELECTRODES as i32 {
            let away = x[[now]] - electrode(e);
            // The 0.01 keeps the gradient finite near an electrode.
            let r = (away.norm_sqr() + 0.01).sqrt();
            force += away * (FORCE * charges[[now, e]] / (r * r * r));
        }
        let new_v = v[[now]] + force * DT;
        let new_x = x[[now]] + new_v * DT;
        v[[now + 1]] = new_v;
        x[[now + 1]] = new_x;
        loss[[]] += (new_x - path(now + 1)).norm_sqr() / steps;
    }
}

/// Weights of both signs, without a pattern that the network could not leave.
fn weights(n: usize, scale: f32) -> Vec<f32> {
    let weight = |k: usize| scale * (k as f32 * 2.399 + 0.7).sin();
    (0..n).map(weight).collect()
}

struct Chamber {
    world: World,
    steps: usize,
    /// The weights of both layers, which are optimized.
    inner: Field<f32, 2>,
    outer: Field<f32, 2>,
    hidden: Field<f32, 2>,
    charges: Field<f32, 2>,
    x: Field<Vec2, 1>,
    v: Field<Vec2, 1>,
    loss: Field<f32, 0>,
}

impl Chamber {
    fn new(world: World, steps: usize) -> wuji::Result<Chamber> {
        let chamber = Chamber {
            steps,
            inner: world.field("inner", [HIDDEN, INPUTS])?.needs_grad()?,
            outer: world.field("outer", [ELECTRODES, HIDDEN])?.needs_grad()?,
            hidden: world.field("hidden", [steps, HIDDEN])?.needs_grad()?,
            charges: world.field("charges", [steps, ELECTRODES])?.needs_grad()?,
            x: world.field("x", steps + 1)?.needs_grad()?,
            v: world.field("v", steps + 1)?.needs_grad()?,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        };
        chamber.inner.copy_from(&weights(HIDDEN * INPUTS, 0.7))?;
        // Charges are small at first, so that the ball stays.
        let small = weights(ELECTRODES * HIDDEN, 0.001);
        chamber.outer.copy_from(&small)?;
        Ok(chamber)
    }

    fn simulate(&self) -> wuji::Result<()> {
        self.loss.fill(0.0)?;
        for t in 0..self.steps as i32 {
            sense(&self.x, &self.v, &self.inner, &self.hidden, t)?;
            charge(&self.hidden, &self.outer, &self.charges, t)?;
            advance(&self.x, &self.v, &self.charges, &self.loss, t)?;
        }
        Ok(())
    }

    /// The loss; its gradients with respect to the weights are computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.simulate())?;
        Ok(f64::from(self.loss.get(())?))
    }

    fn frames(&self) -> wuji::Result<Vec<Picture>> {
        let (x, charges) = (self.x.to_vec()?, self.charges.to_vec()?);
        let side = plot::SIDE;
        let at = |p: Vec2| [0, 1].map(|d| f64::from(p[d] + 1.0) * 0.5 * side as f64);
        let frame = |t: usize| {
            let mut frame = Framebuffer::new(side, side, opaque(0x10141c));
            for e in 0..ELECTRODES {
                let charge = f64::from(charges[t * ELECTRODES + e]);
                let color = if charge > 0.0 { 0xe8590c } else { 0x339af0 };
                frame.circle(
                    at(electrode(e as i32)),
                    3.0 + 9.0 * charge.abs(),
                    opaque(color),
                );
            }
            for past in t.saturating_sub(60)..t {
                frame.line(at(x[past]), at(x[past + 1]), 0.8, opaque(0x8d96a8));
            }
            frame.circle(at(path(t as i32)), 6.0, opaque(0x4c6ef5));
            frame.circle(at(x[t]), 4.5, opaque(0xff6b6b));
            frame.to_picture()
        };
        Ok((0..self.steps).step_by(5).map(frame).collect())
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let chamber = Chamber::new(study.world(), study.size())?;
    let mut adam = (
        Adam::new(&chamber.inner, 0.02)?,
        Adam::new(&chamber.outer, 0.005)?,
    );
    let losses = study.optimize(|_| {
        let loss = chamber.gradient()?;
        adam.0.step()?;
        adam.1.step()?;
        Ok(loss)
    })?;
    Ok(Report {
        what: format!(
            "{} weights, {} steps",
            HIDDEN * (INPUTS + ELECTRODES),
            chamber.steps
        ),
        goal: 0.02 * losses[0],
        losses,
        frames: chamber.frames()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal};
    use super::*;

    #[test]
    fn the_ball_follows_its_path() {
        reaches_its_goal(&ELECTRIC, 100, 80);
    }

    #[test]
    fn the_gradient_of_a_weight_is_right() {
        let chamber = Chamber::new(World::cpu().expect("a world"), 50).expect("fields");
        let large = weights(ELECTRODES * HIDDEN, 0.1);
        chamber.outer.copy_from(&large).expect("copied");
        chamber.gradient().expect("a gradient");
        let mut loss = || {
            chamber.simulate()?;
            Ok(f64::from(chamber.loss.get(())?))
        };
        gradient_is_a_difference(&chamber.outer, (10, 0), (1e-2, 1e-2), &mut loss);
        gradient_is_a_difference(&chamber.inner, (20, 0), (1e-2, 1e-2), &mut loss);
    }
}
