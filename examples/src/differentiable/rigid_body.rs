//! Rigid bodies: boxes are thrown on the ground. Their velocities and spins are optimized, so that each ends at its target.
//!
//! A simulator that moves bodies with the velocity after the collision for a whole step looks right, but its gradients are not: where
//! the body collides does not depend on when it does. Splitting the step at the time of impact repairs them.

use super::{Outcome, Report, Simulator, Study, descend, plot};
use wuji::prelude::*;
use wuji::viewer::{Framebuffer, Picture, opaque};

/// Thrown boxes that end at their targets.
pub const RIGID_BODY: Simulator = Simulator {
    name: "rigid_body",
    about: "rigid boxes: throws that end at their targets, by times of impact",
    long: "Boxes that bounce, with friction and spin. Each corner collides at its time of impact within a step. The same optimization \
           without times of impact runs for comparison: it has wrong gradients, and fails.",
    goal: "the mean squared distance falls below 5% of the first one",
    size: ("boxes", 5),
    iterations: 60,
    run,
    file: file!(),
    source: include_str!("rigid_body.rs"),
};

const STEPS: usize = 225;
const DT: f64 = 0.004;
/// Half the width and half the height of a box.
const HALF: [f64; 2] = [0.1, 0.06];
const CORNERS: [DVec2; 4] = [
    dvec2(HALF[0], HALF[1]),
    dvec2(-HALF[0], HALF[1]),
    dvec2(-HALF[0], -HALF[1]),
    dvec2(HALF[0], -HALF[1]),
];
/// Moment of inertia of a unit mass.
const INERTIA: f64 = (HALF[0] * HALF[0] + HALF[1] * HALF[1]) / 3.0;

/// What bodies and ground are like.
#[derive(Element, Clone, Copy, Debug)]
struct Physics {
    gravity: f64,
    /// Part of the approach velocity that remains.
    restitution: f64,
    friction: f64,
    /// Whether steps are split at the time of impact.
    splits: bool,
}

const THROW: Physics = Physics {
    gravity: 0.5,
    restitution: 0.8,
    friction: 0.3,
    splits: true,
};

/// Without times of impact.
const NAIVE: Physics = Physics {
    splits: false,
    ..THROW
};

#[func]
fn rotated(r: DVec2, angle: f64) -> DVec2 {
    let (sin, cos) = (angle.sin(), angle.cos());
    dvec2(cos * r.x - sin * r.y, sin * r.x + cos * r.y)
}

/// The velocity at a corner. That of the body is angular in `z`.
#[func]
fn at_corner(v: DVec3, r: DVec2) -> DVec2 {
    dvec2(v.x - v.z * r.y, v.y + v.z * r.x)
}

/// How the velocity of a body changes when a corner with the velocity `u` hits the ground.
#[func]
fn bounce(u: DVec2, r: DVec2, physics: Physics) -> DVec3 {
    let up = -(1.0 + physics.restitution) * u.y / (1.0 + r.x * r.x / INERTIA);
    let stop = -u.x / (1.0 + r.y * r.y / INERTIA);
    let along = stop.clamp(-physics.friction * up, physics.friction * up);
    dvec3(along, up, (r.x * up - r.y * along) / INERTIA)
}

/// Positions and velocities have the angle in `z`.
#[kernel]
fn advance(x: &Field<DVec3, 2>, v: &Field<DVec3, 2>, t: i32, physics: Physics) {
    for k in 0..x.shape()[1] {
        let here = x[[t, k]];
        let mut new_v = v[[t, k]] - dvec3(0.0, physics.gravity * DT, 0.0);
        let mut new_x = here + new_v * DT;
        for corner in unroll(0..4) {
            let r = rotated(CORNERS[corner], here.z);
            let u = at_corner(new_v, r);
            let height = here.y + r.y;
            let below = if physics.splits {
                height + u.y * DT
            } else {
                height
            };
            if below < 0.0 && u.y < -1e-4 {
                let change = bounce(u, r, physics);
                let impact = if physics.splits {
                    (-height / u.y).max(0.0)
                } else {
                    0.0
                };
                // The rest of the step has the new velocity.
                new_v += change;
                new_x += change * (DT - impact);
            }
        }
        v[[t + 1, k]] = new_v;
        x[[t + 1, k]] = new_x;
    }
}

#[kernel]
fn start(
    begin: &Field<DVec3, 1>,
    throw: &Field<DVec3, 1>,
    x: &Field<DVec3, 2>,
    v: &Field<DVec3, 2>,
) {
    for [k] in begin {
        x[[0, k]] = begin[[k]];
        v[[0, k]] = throw[[k]];
    }
}

#[kernel]
fn distance(x: &Field<DVec3, 2>, target: &Field<DVec2, 1>, loss: &Field<f64, 0>, t: i32) {
    for [k] in target {
        let d = x[[t, k]].xy() - target[[k]];
        loss[[]] += d.norm_sqr() / target.shape().x as f64;
    }
}

struct Boxes {
    world: World,
    physics: Physics,
    steps: usize,
    begin: Field<DVec3, 1>,
    /// The first velocities, which are optimized.
    throw: Field<DVec3, 1>,
    target: Field<DVec2, 1>,
    x: Field<DVec3, 2>,
    v: Field<DVec3, 2>,
    loss: Field<f64, 0>,
}

impl Boxes {
    fn new(world: &World, n: usize, steps: usize, physics: Physics) -> wuji::Result<Boxes> {
        let state = |name| world.field::<DVec3, 2>(name, [steps + 1, n])?.needs_grad();
        let boxes = Boxes {
            physics,
            steps,
            begin: world.field("begin", n)?.needs_grad()?,
            throw: world.field("throw", n)?.needs_grad()?,
            target: world.field("target", n)?,
            x: state("x")?,
            v: state("v")?,
            loss: world.scalar("loss")?.needs_grad()?,
            world: world.clone(),
        };
        let each = |f: fn(f64) -> DVec3| (0..n).map(|k| f(k as f64)).collect::<Vec<_>>();
        boxes
            .begin
            .copy_from(&each(|k| dvec3(-0.8, 0.8 + 0.03 * k, 0.7 + 0.15 * k)))?;
        boxes
            .throw
            .copy_from(&each(|k| dvec3(0.6 + 0.05 * k, -1.2, 0.0)))?;
        let target: Vec<_> = (0..n)
            .map(|k| dvec2(-0.2, 0.15 + 0.03 * k as f64))
            .collect();
        boxes.target.copy_from(&target)?;
        Ok(boxes)
    }

    fn simulate(&self) -> wuji::Result<()> {
        start(&self.begin, &self.throw, &self.x, &self.v)?;
        for t in 0..self.steps {
            advance(&self.x, &self.v, t as i32, self.physics)?;
        }
        self.loss.fill(0.0)?;
        distance(&self.x, &self.target, &self.loss, self.steps as i32)
    }

    /// The loss; its gradients with respect to the throws and the first positions are computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.simulate())?;
        self.loss.get(())
    }

    /// Runs one iteration, and returns the loss before it.
    fn improve(&self) -> wuji::Result<f64> {
        let loss = self.gradient()?;
        descend(&self.throw, 1.0)?;
        Ok(loss)
    }

    fn draw(
        &self,
        frame: &mut Framebuffer,
        t: usize,
        color: impl Fn(usize) -> u32,
    ) -> wuji::Result<()> {
        let n = self.begin.len()? as usize;
        let (x, targets) = (self.x.to_vec()?, self.target.to_vec()?);
        let scale = 0.75 * plot::SIDE as f64;
        let at = |p: DVec2| [(p.x + 1.0) * scale, (p.y + 0.1) * scale];
        for (k, target) in targets.iter().enumerate() {
            let (here, color) = (x[t * n + k], opaque(color(k)));
            let corner = |c: usize| at(here.xy() + rotated(CORNERS[c % 4], here.z));
            for c in 0..4 {
                frame.line(corner(c), corner(c + 1), 1.3, color);
            }
            frame.circle(at(*target), 3.0, color);
        }
        Ok(())
    }
}

/// The boxes; those without times of impact are gray.
fn picture(boxes: &Boxes, naive: &Boxes, t: usize) -> wuji::Result<Picture> {
    let side = plot::SIDE;
    let mut frame = Framebuffer::new(side, side, opaque(0xf4f1ea));
    frame.rectangle(
        [0, 0],
        [side as i64, (side as i64) * 75 / 1000],
        opaque(0x8a7f72),
    );
    naive.draw(&mut frame, t, |_| 0xc8c4bb)?;
    boxes.draw(&mut frame, t, |k| {
        [0x1f6feb, 0xd9480f, 0x2b8a3e, 0x9c36b5, 0xe0a100][k % 5]
    })?;
    Ok(frame.to_picture())
}

fn run(study: &Study) -> Outcome<Report> {
    let (world, n) = (study.world(), study.size());
    let naive = Boxes::new(&world, n, STEPS, NAIVE)?;
    let boxes = Boxes::new(&world, n, STEPS, THROW)?;
    let mut wrong = 0.0;
    let losses = study.optimize(|_| {
        wrong = naive.improve()?;
        boxes.improve()
    })?;
    let frames = (0..=STEPS).step_by(6).map(|t| picture(&boxes, &naive, t));
    Ok(Report {
        what: format!("{n} boxes, {STEPS} steps (without times of impact the loss is {wrong:.4})"),
        goal: 0.05 * losses[0],
        losses,
        frames: frames.collect::<wuji::Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal};
    use super::*;

    #[test]
    fn boxes_end_at_their_targets() {
        reaches_its_goal(&RIGID_BODY, 5, 30);
    }

    /// Both start alike, with five throws.
    #[test]
    fn the_time_of_impact_makes_optimization_work() {
        let world = World::cpu().expect("a world");
        let losses = [NAIVE, THROW].map(|physics| {
            let boxes = Boxes::new(&world, 5, STEPS, physics).expect("fields");
            let losses = (0..60).map(|_| boxes.improve().expect("a loss"));
            losses.collect::<Vec<_>>()
        });
        let [naive, split] = &losses;
        assert!((naive[0] / split[0] - 1.0).abs() < 0.1, "{losses:?}");
        assert!(
            naive[59] > naive[0] && split[59] < 0.01 * split[0],
            "{losses:?}"
        );
    }

    /// A box falls on a corner, without gravity, friction and spin. What it loses on its way down, it has on its way up.
    #[test]
    fn the_time_of_impact_gives_heights_the_right_sign() {
        let world = World::cpu().expect("a world");
        let derivative = |splits| {
            let ball = Physics {
                gravity: 0.0,
                restitution: 1.0,
                friction: 0.0,
                splits,
            };
            let boxes = Boxes::new(&world, 1, 200, ball).expect("fields");
            let upright = (HALF[0] / HALF[1]).atan();
            boxes.begin.fill(dvec3(0.0, 0.5, upright)).expect("filled");
            boxes.throw.fill(dvec3(0.0, -1.0, 0.0)).expect("filled");
            boxes.target.fill(dvec2(0.0, 0.0)).expect("filled");
            boxes.gradient().expect("a gradient");
            let end = boxes.x.get([200, 0]).expect("a position").y;
            assert!(end > 0.1, "{end}");
            let rise = boxes
                .begin
                .grad()
                .and_then(|g| g.get(0))
                .expect("a gradient");
            // The loss is the square of the height.
            (rise.y / (2.0 * end), end)
        };
        let (naive, split) = (derivative(false), derivative(true));
        assert!((naive.0 - 1.0).abs() < 1e-9, "{naive:?}");
        assert!((split.0 + 1.0).abs() < 1e-9, "{split:?}");
        // Both simulate nearly the same.
        assert!((naive.1 - split.1).abs() < 0.01);
    }

    #[test]
    fn the_gradient_of_a_throw_is_right() {
        let world = World::cpu().expect("a world");
        let boxes = Boxes::new(&world, 2, 200, THROW).expect("fields");
        boxes.gradient().expect("a gradient");
        for at in [(0, 0), (0, 1), (1, 2)] {
            gradient_is_a_difference(&boxes.throw, at, (1e-7, 1e-4), || {
                boxes.simulate()?;
                boxes.loss.get(())
            });
        }
    }
}
