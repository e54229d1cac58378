//! A rollout of 100,000 steps: probes fly from Earth to Mars, with launch velocities that Newton's method finds.
//!
//! `tape_steps` keeps a few states and computes the others again, so the memory does not grow with the number of steps, and the
//! simulation is a plain loop that overwrites its state.

use super::{Outcome, Report, Simulator, Study, plot};
use wuji::prelude::*;
use wuji::viewer::{Framebuffer, Picture, opaque};

/// Probes that fly from Earth to Mars.
pub const ROLLOUT: Simulator = Simulator {
    name: "rollout",
    about: "100,000 steps with checkpoints: probes that fly from Earth to Mars",
    long: "Probes start from Earth with different velocities, and fly for half an orbit among the sun and three planets. The state is \
           overwritten in each step; the tape keeps 20 copies of it, and each step runs about six times. Probes do not interact, so two \
           gradients have the Jacobian of every flight.",
    goal: "all probes meet Mars: the mean squared distance falls below 1e-6 of the first one",
    size: ("thousands of steps", 100),
    iterations: 7,
    run,
    file: file!(),
    source: include_str!("rollout.rs"),
};

/// States that the tape may keep.
const COPIES: usize = 20;
const PROBES: usize = 64;
/// The time of flight. A year is 2 pi; lengths are in astronomical units, and the mass of the sun is 1.
const FLIGHT: f64 = 4.0;
/// Radius, angle at the start and mass of Earth, Mars and Jupiter; a hundred times their masses, so that they can be seen at work.
const PLANETS: [DVec3; 3] = [
    dvec3(1.0, 0.0, 3e-4),
    dvec3(1.524, 0.9, 3e-5),
    dvec3(5.2, 2.5, 0.1),
];

/// A planet on its circle.
#[func]
fn planet(k: usize, time: f64) -> DVec2 {
    let r = PLANETS[k].x;
    let angle = PLANETS[k].y + time / (r * r.sqrt());
    dvec2(r * angle.cos(), r * angle.sin())
}

/// Gravity; softened, because probes start next to Earth.
#[func]
fn pull(from: DVec2, mass: f64) -> DVec2 {
    let r2 = from.norm_sqr() + 1e-3;
    from * (-mass / (r2 * r2.sqrt()))
}

#[kernel]
fn launch(boost: &Field<DVec2, 1>, x: &Field<DVec2, 1>, v: &Field<DVec2, 1>) {
    for [i] in x {
        x[[i]] = planet(0, 0.0) + dvec2(0.02, 0.0);
        v[[i]] = dvec2(0.0, 1.0) + boost[[i]];
    }
}

/// A leapfrog step, from `time` on.
#[kernel]
fn advance(x: &Field<DVec2, 1>, v: &Field<DVec2, 1>, time: f64, dt: f64) {
    let half = time + 0.5 * dt;
    let planets = [planet(0, half), planet(1, half), planet(2, half)];
    for [i] in x {
        let middle = x[[i]] + v[[i]] * (0.5 * dt);
        let mut force = pull(middle, 1.0);
        for k in unroll(0..3) {
            force += pull(middle - planets[k], PLANETS[k].z);
        }
        let new_v = v[[i]] + force * dt;
        v[[i]] = new_v;
        x[[i]] = middle + new_v * (0.5 * dt);
    }
}

/// One coordinate of where the probes are, relative to Mars.
#[kernel]
fn miss(x: &Field<DVec2, 1>, loss: &Field<f64, 0>, coordinate: i32) {
    for [i] in x {
        let d = x[[i]] - planet(1, FLIGHT);
        loss[[]] += if coordinate == 0 { d.x } else { d.y };
    }
}

struct Fleet {
    world: World,
    steps: usize,
    /// The velocities relative to Earth at the start, which are optimized.
    boost: Field<DVec2, 1>,
    x: Field<DVec2, 1>,
    v: Field<DVec2, 1>,
    loss: Field<f64, 0>,
}

impl Fleet {
    fn new(world: World, probes: usize, steps: usize) -> wuji::Result<Fleet> {
        let field = |name| world.field::<DVec2, 1>(name, probes)?.needs_grad();
        let fleet = Fleet {
            steps,
            boost: field("boost")?,
            x: field("x")?,
            v: field("v")?,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        };
        let boost = (0..probes).map(|i| {
            let angle = (i as f64 + 0.5) / probes as f64 - 0.5;
            dvec2(0.1 * angle, 0.12 + 0.03 * (7.0 * angle).sin())
        });
        fleet.boost.copy_from(&boost.collect::<Vec<_>>())?;
        Ok(fleet)
    }

    fn step(&self, t: usize, coordinate: i32) -> wuji::Result<()> {
        let dt = FLIGHT / self.steps as f64;
        if t == 0 {
            launch(&self.boost, &self.x, &self.v)?;
        }
        advance(&self.x, &self.v, t as f64 * dt, dt)?;
        if t + 1 == self.steps {
            miss(&self.x, &self.loss, coordinate)?;
        }
        Ok(())
    }

    /// Computes the gradient of a coordinate of the ends with respect to the launch velocities.
    fn gradient(&self, coordinate: i32) -> wuji::Result<wuji::StepReport> {
        self.loss.fill(0.0)?;
        let report = self
            .world
            .tape_steps(&self.loss, self.steps, COPIES, |t| self.step(t, coordinate))?;
        Ok(report)
    }

    /// An iteration of Newton's method for each probe. Returns the mean squared distance to Mars before it.
    fn newton(&self) -> wuji::Result<(f64, wuji::StepReport)> {
        self.gradient(0)?;
        let along_x = self.boost.grad()?.to_vec()?;
        let report = self.gradient(1)?;
        let along_y = self.boost.grad()?.to_vec()?;
        let (mut boost, ends) = (self.boost.to_vec()?, self.x.to_vec()?);
        let mut sum = 0.0;
        for (i, end) in ends.iter().enumerate() {
            let (a, b, d) = (along_x[i], along_y[i], *end - planet(1, FLIGHT));
            let step = dvec2(b.y * d.x - a.y * d.y, a.x * d.y - b.x * d.x) / a.cross(b);
            // Not too far: the flight is not linear.
            boost[i] -= step * (0.05 / step.norm().max(0.05));
            sum += d.norm_sqr();
        }
        self.boost.copy_from(&boost)?;
        Ok((sum / ends.len() as f64, report))
    }

    /// Flies once more, without a tape.
    fn frames(&self) -> wuji::Result<Vec<Picture>> {
        let mut frames = Vec::new();
        let mut trail = Vec::new();
        for t in 0..self.steps {
            self.step(t, 0)?;
            if t % (self.steps / 60).max(1) == 0 {
                trail.push(self.x.to_vec()?);
                frames.push(picture(&trail, t as f64 * FLIGHT / self.steps as f64));
            }
        }
        Ok(frames)
    }
}

fn picture(trail: &[Vec<DVec2>], time: f64) -> Picture {
    let side = plot::SIDE;
    let at = |p: DVec2| [0, 1].map(|d| (p[d] / 4.0 + 0.5) * side as f64);
    let mut frame = Framebuffer::new(side, side, opaque(0x0b0e17));
    for pair in trail.windows(2) {
        for (from, to) in pair[0].iter().zip(&pair[1]).step_by(8) {
            frame.line(at(*from), at(*to), 0.6, opaque(0x3d4a66));
        }
    }
    frame.circle(at(dvec2(0.0, 0.0)), 7.0, opaque(0xffd43b));
    frame.circle(at(planet(0, time)), 4.0, opaque(0x4dabf7));
    frame.circle(at(planet(1, time)), 4.0, opaque(0xff6b4a));
    for probe in trail.last().into_iter().flatten() {
        frame.circle(at(*probe), 1.3, opaque(0xffffff));
    }
    frame.to_picture()
}

fn run(study: &Study) -> Outcome<Report> {
    let fleet = Fleet::new(study.world(), PROBES, 1000 * study.size())?;
    let mut spent = None;
    let losses = study.optimize(|_| {
        let (loss, report) = fleet.newton()?;
        spent = Some(report);
        Ok(loss)
    })?;
    let spent = spent.ok_or("no iterations")?;
    let what = format!(
        "{PROBES} probes, {} steps that ran {:.1} times, {} copies of {} bytes",
        spent.steps,
        spent.runs as f64 / spent.steps as f64,
        spent.copies,
        spent.state_bytes,
    );
    Ok(Report {
        what,
        goal: 1e-6 * losses[0],
        losses,
        frames: fleet.frames()?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::reaches_its_goal;
    use super::*;

    #[test]
    fn probes_reach_mars() {
        let report = reaches_its_goal(&ROLLOUT, 1, 7);
        assert!(
            report.what.contains("1000 steps that ran "),
            "{}",
            report.what
        );
    }

    #[test]
    fn the_gradient_of_many_steps_is_right_in_any_direction() {
        let fleet = Fleet::new(World::cpu().expect("a world"), 8, 2000).expect("fields");
        let report = fleet.gradient(1).expect("a gradient");
        assert!(
            report.copies <= COPIES + 2 && report.runs < 4 * 2000,
            "{report:?}"
        );
        let gradient = fleet.boost.grad().and_then(|g| g.to_vec()).expect("values");
        let boost = fleet.boost.to_vec().expect("values");
        let direction: Vec<_> = (0..8).map(|i| dvec2(1.0 + 0.3 * i as f64, -0.7)).collect();
        let moved = |by: f64| {
            let moved = boost.iter().zip(&direction).map(|(b, d)| *b + *d * by);
            fleet
                .boost
                .copy_from(&moved.collect::<Vec<_>>())
                .expect("copied");
            fleet.loss.fill(0.0).expect("filled");
            (0..2000).for_each(|t| fleet.step(t, 1).expect("a step"));
            fleet.loss.get(()).expect("a loss")
        };
        let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        let expected: f64 = gradient
            .iter()
            .zip(&direction)
            .map(|(g, d)| g.dot(*d))
            .sum();
        assert!(
            (difference - expected).abs() < 1e-6 * expected.abs(),
            "difference {difference}, gradient {expected}"
        );
    }
}
