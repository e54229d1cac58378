//! A soft robot that learns to walk: the material point method (MLS-MPM) in two dimensions, with muscles.
//!
//! Each step scatters particles to a grid, updates the grid, and gathers from it. Fields hold only the current step: the tape saves what
//! gradients need. The controller is open-loop: each muscle is driven by a sum of waves, whose weights are optimized.

use super::descent::noise;
use super::{Adam, Outcome, Report, Simulator, Study, plot};
use std::f32::consts::TAU;
use wuji::prelude::*;
use wuji::viewer::{Canvas, Picture, light};

/// A soft robot that learns to walk.
pub const DIFFMPM: Simulator = Simulator {
    name: "diffmpm",
    about: "material point method: a soft robot with four muscles learns to walk",
    long: "Particles and a grid (MLS-MPM) with a corotated elastic material. Muscles contract along the legs. Adam finds the weights of the \
           waves that drive them, such that the robot moves forward. A step is a plain loop body that overwrites its state: the tape saves \
           the states that gradients need.",
    goal: "the robot moves forward by 0.075, a quarter of its length",
    size: ("grid nodes along each side", 64),
    iterations: 40,
    run,
    file: file!(),
    source: include_str!("diffmpm.rs"),
};

const MU: f32 = 10.0;
const LAMBDA: f32 = 10.0;
const GRAVITY: f32 = 3.8;
/// The largest stress of a muscle.
const STRENGTH: f32 = 4.0;
const FRICTION: f32 = 0.5;
/// The time step, times the nodes along each side.
const COURANT: f32 = 0.1;
/// Nodes of the ground and of the walls.
const WALL: i32 = 3;
const WAVES: usize = 4;
/// The angular frequency of the waves.
const FREQUENCY: f32 = 12.0;
/// Boxes of the robot: lower left corner, extents, and the muscle, or -1.
const ROBOT: [([f32; 2], [f32; 2], i32); 5] = [
    ([0.10, 0.10], [0.30, 0.10], -1),
    ([0.10, 0.00], [0.05, 0.10], 0),
    ([0.15, 0.00], [0.05, 0.10], 1),
    ([0.30, 0.00], [0.05, 0.10], 2),
    ([0.35, 0.00], [0.05, 0.10], 3),
];

// The simulator.

/// Quadratic B-spline weights of the three nodes around a particle along each axis, one row per node.
#[func]
fn spline(f: Vec2) -> Matrix<f32, 3, 2> {
    let (a, b, c) = (f * -1.0 + 1.5, f - 1.0, f - 0.5);
    Matrix::from_rows([a * a * 0.5, b * b * -1.0 + 0.75, c * c * 0.5])
}

/// The strain of each muscle is a sum of waves.
#[kernel]
fn actuate(weights: &Field<f32, 2>, bias: &Field<f32, 1>, signal: &Field<f32, 1>, time: f32) {
    for [m] in signal {
        let mut sum = bias[[m]];
        for w in unroll(0..WAVES) {
            sum +=
                weights[[m, w as i32]] * (FREQUENCY * time + TAU * w as f32 / WAVES as f32).sin();
        }
        signal[[m]] = sum.tanh();
    }
}

#[kernel]
fn to_grid(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    c: &Field<Mat2, 1>,
    deformation: &Field<Mat2, 1>,
    muscle: &Field<i32, 1>,
    signal: &Field<f32, 1>,
    momentum: &Field<Vec2, 2>,
    mass: &Field<f32, 2>,
) {
    for [i, j] in mass {
        momentum[[i, j]] = Vec2::splat(0.0);
        mass[[i, j]] = 0.0;
    }
    let n = mass.shape().x as f32;
    for [p] in x {
        let f = deformation[[p]];
        let (rotation, _) = f.polar();
        let ratio = f.determinant();
        // Out-of-bounds reads are zero: muscle -1 is none.
        let pull = Mat2::from_diagonal(vec2(0.0, STRENGTH * signal[[muscle[[p]]]]));
        let stress = (f - rotation) * f.transpose() * (2.0 * MU)
            + Mat2::identity() * (LAMBDA * ratio * (ratio - 1.0))
            + f * pull * f.transpose();
        // The volume and the mass of a particle are 1 in these units.
        let affine = c[[p]] - stress * (4.0 * COURANT * n);
        let at = x[[p]] * n;
        let base = (at - 0.5).cast::<i32>();
        let part = at - base.cast::<f32>();
        let w = spline(part);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let weight = w[[i, 0]] * w[[j, 1]];
                let d = (vec2(i as f32, j as f32) - part) / n;
                momentum[base + ivec2(i, j)] += (v[[p]] + affine * d) * weight;
                mass[base + ivec2(i, j)] += weight;
            }
        }
    }
}

/// Gravity, walls, and a ground with Coulomb friction.
#[kernel]
fn update_grid(momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>, velocity: &Field<Vec2, 2>) {
    let n = mass.shape().x;
    for [i, j] in mass {
        let mut u = momentum[[i, j]] / (mass[[i, j]] + 1e-10);
        u.y -= COURANT / n as f32 * GRAVITY;
        if i < WALL && u.x < 0.0 || i > n - WALL && u.x > 0.0 {
            u.x = 0.0;
        }
        if j < WALL && u.y < 0.0 {
            u.x -= u.x.clamp(FRICTION * u.y, -FRICTION * u.y);
            u.y = 0.0;
        }
        velocity[[i, j]] = u;
    }
}

#[kernel]
fn from_grid(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    c: &Field<Mat2, 1>,
    deformation: &Field<Mat2, 1>,
    velocity: &Field<Vec2, 2>,
) {
    let n = velocity.shape().x as f32;
    for [p] in x {
        let at = x[[p]] * n;
        let base = (at - 0.5).cast::<i32>();
        let part = at - base.cast::<f32>();
        let w = spline(part);
        let mut u = Vec2::splat(0.0);
        let mut affine = Mat2::splat(0.0);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let g = velocity[base + ivec2(i, j)] * (w[[i, 0]] * w[[j, 1]]);
                u += g;
                affine += g.outer(vec2(i as f32, j as f32) - part) * (4.0 * n);
            }
        }
        v[[p]] = u;
        c[[p]] = affine;
        x[[p]] += u * (COURANT / n);
        deformation[[p]] = (Mat2::identity() + affine * (COURANT / n)) * deformation[[p]];
    }
}

/// How far the particles moved to the left, on average.
#[kernel]
fn travel(x: &Field<Vec2, 1>, rest: &Field<Vec2, 1>, loss: &Field<f32, 0>) {
    for [p] in x {
        loss[[]] += (rest[[p]].x - x[[p]].x) / x.shape().x as f32;
    }
}

// The robot and its controller.

struct Robot {
    world: World,
    steps: usize,
    dt: f32,
    /// The controller, which is optimized.
    weights: Field<f32, 2>,
    bias: Field<f32, 1>,
    signal: Field<f32, 1>,
    rest: Field<Vec2, 1>,
    muscle: Field<i32, 1>,
    x: Field<Vec2, 1>,
    v: Field<Vec2, 1>,
    c: Field<Mat2, 1>,
    deformation: Field<Mat2, 1>,
    momentum: Field<Vec2, 2>,
    mass: Field<f32, 2>,
    velocity: Field<Vec2, 2>,
    loss: Field<f32, 0>,
}

impl Robot {
    /// A robot that stands on the ground, and a simulation of some seconds.
    fn new(world: World, n: usize, seconds: f32) -> wuji::Result<Robot> {
        let (mut rest, mut muscle) = (Vec::new(), Vec::new());
        let spacing = 0.5 / n as f32;
        for (corner, extents, m) in ROBOT {
            let [columns, rows] = extents.map(|extent| (extent / spacing).round() as usize);
            for k in 0..columns * rows {
                let offset = vec2((k / rows) as f32 + 0.5, (k % rows) as f32 + 0.5) * spacing;
                let ground = vec2(0.0, WALL as f32 / n as f32);
                rest.push(Vector(corner) + offset + ground);
                muscle.push(m);
            }
        }
        let count = rest.len();
        let muscles = ROBOT.len() - 1;
        let robot = Robot {
            steps: (seconds * n as f32 / COURANT) as usize,
            dt: COURANT / n as f32,
            weights: world.field("weights", [muscles, WAVES])?.needs_grad()?,
            bias: world.field("bias", muscles)?.needs_grad()?,
            signal: world.field("signal", muscles)?.needs_grad()?,
            rest: world.field("rest", count)?,
            muscle: world.field("muscle", count)?,
            x: world.field("x", count)?.needs_grad()?,
            v: world.field("v", count)?.needs_grad()?,
            c: world.field("c", count)?.needs_grad()?,
            deformation: world.field("deformation", count)?.needs_grad()?,
            momentum: world.field("momentum", [n, n])?.needs_grad()?,
            mass: world.field("mass", [n, n])?.needs_grad()?,
            velocity: world.field("velocity", [n, n])?.needs_grad()?,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        };
        robot.rest.copy_from(&rest)?;
        robot.muscle.copy_from(&muscle)?;
        robot.weights.copy_from(&noise(muscles * WAVES, 0.1))?;
        Ok(robot)
    }

    fn step(&self, time: f32) -> wuji::Result<()> {
        let (x, v, c, f) = (&self.x, &self.v, &self.c, &self.deformation);
        actuate(&self.weights, &self.bias, &self.signal, time)?;
        to_grid(
            x,
            v,
            c,
            f,
            &self.muscle,
            &self.signal,
            &self.momentum,
            &self.mass,
        )?;
        update_grid(&self.momentum, &self.mass, &self.velocity)?;
        from_grid(x, v, c, f, &self.velocity)
    }

    /// Runs all steps, and `watch` before each.
    fn simulate(&self, mut watch: impl FnMut(usize) -> wuji::Result<()>) -> wuji::Result<f64> {
        self.x.copy_from(&self.rest.to_vec()?)?;
        self.v.fill(Vec2::splat(0.0))?;
        self.c.fill(Mat2::splat(0.0))?;
        self.deformation.fill(Mat2::identity())?;
        self.loss.fill(0.0)?;
        for step in 0..self.steps {
            watch(step)?;
            self.step(step as f32 * self.dt)?;
        }
        travel(&self.x, &self.rest, &self.loss)?;
        Ok(f64::from(self.loss.get(())?))
    }

    /// The loss; its gradient with respect to the controller is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.simulate(|_| Ok(())))
    }

    /// Particles as dots: muscles are red when they push, blue when they pull.
    fn draw(&self) -> wuji::Result<Picture> {
        let dx = self.dt / COURANT;
        let mut canvas = Canvas::new(plot::SIDE);
        let (signal, muscle) = (self.signal.to_vec()?, self.muscle.to_vec()?);
        for (x, m) in self.x.to_vec()?.into_iter().zip(muscle) {
            let body = light(0xb8c4d8);
            let color = signal.get(m as usize).map_or(body, |s| {
                [0.4 + 0.5 * s, 0.15, 0.4 - 0.5 * s].map(|c| c.clamp(0.0, 1.0))
            });
            canvas.dot(x.0, 0.8 * dx, color);
        }
        Ok(canvas.develop(WALL as f32 * dx))
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let n = study.size();
    let robot = Robot::new(study.world(), n, 1.5)?;
    let mut optimizers = (
        Adam::new(&robot.weights, 0.1)?,
        Adam::new(&robot.bias, 0.1)?,
    );
    let losses = study.optimize(|_| {
        let loss = robot.gradient()?;
        optimizers.0.step()?;
        optimizers.1.step()?;
        Ok(loss)
    })?;

    let mut frames = Vec::new();
    robot.simulate(|step| {
        if step % (robot.steps / 60).max(1) == 0 {
            frames.push(robot.draw()?);
        }
        Ok(())
    })?;
    Ok(Report {
        what: format!(
            "{} particles on {n}x{n}, {} steps",
            robot.x.len()?,
            robot.steps
        ),
        goal: -0.075,
        losses,
        frames,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal, world};
    use super::*;

    #[test]
    fn the_robot_walks() {
        reaches_its_goal(&DIFFMPM, 32, 8);
    }

    #[test]
    fn the_gradient_of_the_controller_is_right() {
        let robot = Robot::new(world(), 24, 0.1).expect("fields");
        robot.gradient().expect("a gradient");
        gradient_is_a_difference(&robot.weights, (5, 0), (0.001, 0.03), || {
            robot.simulate(|_| Ok(()))
        });
    }

    /// The simulator is as short as the paper's.
    #[test]
    fn the_simulator_has_at_most_110_lines() {
        let code = DIFFMPM
            .source
            .split("// The simulator.")
            .nth(1)
            .expect("a part");
        let code = code.split("// The robot").next().expect("a part");
        let lines = code.lines().map(str::trim);
        let count = lines
            .filter(|line| !line.is_empty() && !line.starts_with("//"))
            .count();
        assert!((60..=110).contains(&count), "{count}");
    }
}
