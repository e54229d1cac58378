//! Billiards: the place of the cue ball and its velocity are optimized, so that one ball of the rack stops at a target.
//!
//! Balls collide at the exact time of impact within a step. Without it, gradients of collisions have the wrong sign; see `rigid_body`.

use super::{Outcome, Report, Simulator, Study, descend, plot};
use wuji::prelude::*;
use wuji::viewer::{Framebuffer, Picture, opaque};

/// Billiards: where to aim.
pub const BILLIARDS: Simulator = Simulator {
    name: "billiards",
    about: "billiards: a shot that sends one ball of the rack to a target",
    long: "Every pair of balls collides at its exact time of impact within a step, so the gradient knows that a shot that is a little \
           faster collides a little earlier. Positions and velocities have a time axis, so the tape saves nothing.",
    goal: "the ball comes closer to the target than half its radius",
    size: ("rows of the rack", 4),
    iterations: 100,
    run,
    file: file!(),
    source: include_str!("billiards.rs"),
};

const STEPS: usize = 512;
const DT: f64 = 0.004;
const RADIUS: f64 = 0.04;
/// Part of the approach velocity that remains.
const RESTITUTION: f64 = 0.95;
/// Rolling resistance, per unit of time.
const DRAG: f64 = 0.6;
const TARGET: DVec2 = dvec2(0.9, 0.72);

/// The cue ball comes first. `shot` has its position and velocity.
#[kernel]
fn start(shot: &Field<DVec2, 1>, rack: &Field<DVec2, 1>, x: &Field<DVec2, 2>, v: &Field<DVec2, 2>) {
    for [i] in rack {
        x[[0, i]] = if i == 0 { shot[[0]] } else { rack[[i]] };
        v[[0, i]] = if i == 0 { shot[[1]] } else { dvec2(0.0, 0.0) };
    }
}

/// The time until two balls touch, for a distance `d` and a relative velocity `w`; `f64::MAX` if they do not.
#[func]
fn time_of_impact(d: DVec2, w: DVec2) -> f64 {
    // The root of |d + t w| = 2 RADIUS.
    let (a, b, c) = (w.norm_sqr(), d.dot(w), d.norm_sqr() - 4.0 * RADIUS * RADIUS);
    let discriminant = b * b - a * c;
    if b < -1e-6 && discriminant > 0.0 {
        ((-b - discriminant.sqrt()) / a).max(0.0)
    } else {
        f64::MAX
    }
}

#[kernel]
fn advance(x: &Field<DVec2, 2>, v: &Field<DVec2, 2>, t: i32) {
    let balls = x.shape()[1];
    for i in 0..balls {
        let mut new_v = v[[t, i]];
        let mut new_x = x[[t, i]] + new_v * DT;
        for j in 0..balls {
            let (d, w) = (x[[t, i]] - x[[t, j]], v[[t, i]] - v[[t, j]]);
            let impact = time_of_impact(d, w);
            if i != j && impact < DT {
                let normal = (d + w * impact) / (2.0 * RADIUS);
                let kick = normal * (-0.5 * (1.0 + RESTITUTION) * w.dot(normal));
                // The rest of the step has the new velocity.
                new_v += kick;
                new_x += kick * (DT - impact);
            }
        }
        v[[t + 1, i]] = new_v * (1.0 - DRAG * DT);
        x[[t + 1, i]] = new_x;
    }
}

#[kernel]
fn distance(x: &Field<DVec2, 2>, loss: &Field<f64, 0>, ball: i32) {
    for t in STEPS as i32..STEPS as i32 + 1 {
        loss[[]] += (x[[t, ball]] - TARGET).norm_sqr();
    }
}

struct Table {
    world: World,
    balls: usize,
    /// Position and velocity of the cue ball, which are optimized.
    shot: Field<DVec2, 1>,
    /// Positions of the other balls.
    rack: Field<DVec2, 1>,
    x: Field<DVec2, 2>,
    v: Field<DVec2, 2>,
    loss: Field<f64, 0>,
}

impl Table {
    fn new(world: World, rows: usize) -> wuji::Result<Table> {
        let mut rack = vec![dvec2(0.0, 0.0)];
        for row in 0..rows {
            for k in 0..=row {
                let up = k as f64 - row as f64 / 2.0;
                // A small gap, so that the order of the collisions is clear.
                rack.push(dvec2(
                    0.5 + row as f64 * 1.8 * RADIUS,
                    0.5 + up * 2.1 * RADIUS,
                ));
            }
        }
        let balls = rack.len();
        let table = Table {
            balls,
            shot: world.field("shot", 2)?.needs_grad()?,
            rack: world.field("rack", balls)?,
            x: world.field("x", [STEPS + 1, balls])?.needs_grad()?,
            v: world.field("v", [STEPS + 1, balls])?.needs_grad()?,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        };
        table.rack.copy_from(&rack)?;
        table
            .shot
            .copy_from(&[dvec2(0.1, 0.44), dvec2(0.8, 0.02)])?;
        Ok(table)
    }

    fn simulate(&self) -> wuji::Result<()> {
        start(&self.shot, &self.rack, &self.x, &self.v)?;
        for t in 0..STEPS as i32 {
            advance(&self.x, &self.v, t)?;
        }
        self.loss.fill(0.0)?;
        // The last ball is the upper corner of the rack.
        distance(&self.x, &self.loss, self.balls as i32 - 1)
    }

    /// The loss; its gradient with respect to the shot is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.simulate())?;
        self.loss.get(())
    }

    fn frames(&self) -> wuji::Result<Vec<Picture>> {
        let x = self.x.to_vec()?;
        let (side, scale) = (plot::SIDE, plot::SIDE as f64);
        let frame = |t: usize| {
            let mut frame = Framebuffer::new(side, side, opaque(0x14693a));
            let at = |p: DVec2| [p.x * scale, p.y * scale];
            frame.circle(at(TARGET), RADIUS * scale, opaque(0x0b4022));
            for (n, ball) in x[t * self.balls..(t + 1) * self.balls].iter().enumerate() {
                let color = match n {
                    0 => 0xffffff,
                    n if n + 1 == self.balls => 0x2f7bff,
                    _ => 0xd6a23a,
                };
                frame.circle(at(*ball), RADIUS * scale, opaque(color));
            }
            frame.to_picture()
        };
        Ok((0..=STEPS).step_by(8).map(frame).collect())
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let table = Table::new(study.world(), study.size())?;
    let losses = study.optimize(|iteration| {
        let loss = table.gradient()?;
        let gradient = table.shot.grad()?.to_vec()?;
        let square: f64 = gradient.iter().map(|g| g.norm_sqr()).sum();
        // Polyak's step, for a loss whose minimum is zero. Other collisions happen after long steps, so they become shorter.
        let longest = 0.005 / (1.0 + 0.05 * iteration as f64);
        descend(&table.shot, (loss / square).min(longest / square.sqrt()))?;
        Ok(loss)
    })?;
    Ok(Report {
        what: format!("{} balls, {STEPS} steps", table.balls),
        goal: (0.5 * RADIUS).powi(2),
        losses,
        frames: table.frames()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal};
    use super::*;

    #[test]
    fn a_shot_sends_the_ball_to_the_target() {
        reaches_its_goal(&BILLIARDS, 2, 40);
    }

    #[test]
    fn the_gradient_of_a_shot_is_right() {
        let table = Table::new(World::cpu().expect("a world"), 2).expect("fields");
        table.gradient().expect("a gradient");
        for at in [(0, 1), (1, 0)] {
            gradient_is_a_difference(&table.shot, at, (1e-6, 1e-4), || {
                table.simulate()?;
                table.loss.get(())
            });
        }
    }
}
