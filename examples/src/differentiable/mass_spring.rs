//! Robots of masses and springs that learn to run: a neural network sees the robot and drives its muscles.
//!
//! The fields have a time axis, which shows the whole motion to the loss and to the drawing. A mass that hits the ground stops at the time of
//! impact within the step, which keeps the gradient of its position right.

use super::descent::noise;
use super::{Adam, Outcome, Report, Simulator, Study, plot};
use std::collections::BTreeMap;
use std::f32::consts::TAU;
use wuji::prelude::*;
use wuji::viewer::{Framebuffer, Picture, opaque};

/// A robot of masses and springs.
pub const MASS_SPRING: Simulator = Simulator {
    name: "mass_spring",
    about: "masses and springs: three robots with neural controllers learn to run",
    long: "Three robots, each given by a small table of squares: passive ones (#) and ones whose springs are muscles (m). A neural network of \
           two layers gets waves, positions and velocities, and sets the rest lengths of the muscles. Adam trains it on the distance that \
           the robot covers. Masses hit the ground at the time of impact.",
    goal: "the three robots together move forward by 0.15 per second",
    size: ("time steps", 768),
    iterations: 40,
    run,
    file: file!(),
    source: include_str!("mass_spring.rs"),
};

/// Rows of squares from top to bottom: `#` is passive, `m` a muscle, `.` empty.
const ROBOTS: [&[&str]; 3] = [
    &["###", "m.m"],        // a table
    &["#..", "###", "m.m"], // a dog
    &["#####", "m.m.m"],    // a centipede
];

/// The side of a square, and the height of the ground.
const SIDE: f32 = 0.1;
const GROUND: f32 = 0.05;
const DT: f32 = 0.004;
const STIFFNESS: f32 = 4e3;
const DRAG: f32 = 5.0;
const GRAVITY: f32 = 4.8;
/// The goal, for all robots together.
const SPEED: f64 = 0.15;
/// How much a muscle changes its rest length.
const STROKE: f32 = 0.2;
const WAVES: i32 = 4;
const FREQUENCY: f32 = 20.0;
const HIDDEN: usize = 16;

/// The mean position of the masses, which the network sees positions relative to.
#[kernel]
fn center(x: &Field<Vec2, 2>, center: &Field<Vec2, 1>, t: i32) {
    let masses = x.shape()[1];
    for i in 0..masses {
        center[[t]] += x[[t, i]] / masses as f32;
    }
}

/// The first layer: waves, and the position and velocity of each mass.
#[kernel]
fn sense(
    x: &Field<Vec2, 2>,
    v: &Field<Vec2, 2>,
    center: &Field<Vec2, 1>,
    weights: &Field<f32, 2>,
    hidden: &Field<f32, 2>,
    t: i32,
) {
    for h in 0..hidden.shape()[1] {
        let mut sum = 0.0;
        for w in 0..WAVES {
            let phase = TAU * w as f32 / WAVES as f32;
            sum += weights[[h, w]] * (FREQUENCY * DT * t as f32 + phase).sin();
        }
        for i in 0..x.shape()[1] {
            let (offset, at) = ((x[[t, i]] - center[[t]]) * 5.0, WAVES + 4 * i);
            sum += weights[[h, at]] * offset.x + weights[[h, at + 1]] * offset.y;
            sum += weights[[h, at + 2]] * v[[t, i]].x + weights[[h, at + 3]] * v[[t, i]].y;
        }
        hidden[[t, h]] = sum.tanh();
    }
}

/// The second layer: a signal for each spring.
#[kernel]
fn drive(hidden: &Field<f32, 2>, weights: &Field<f32, 2>, signal: &Field<f32, 2>, t: i32) {
    for s in 0..signal.shape()[1] {
        let mut sum = 0.0;
        for h in 0..hidden.shape()[1] {
            sum += weights[[s, h]] * hidden[[t, h]];
        }
        signal[[t, s]] = sum.tanh();
    }
}

#[kernel]
fn pull(
    x: &Field<Vec2, 2>,
    springs: &Field<IVec2, 1>,
    length: &Field<f32, 1>,
    stroke: &Field<f32, 1>,
    signal: &Field<f32, 2>,
    force: &Field<Vec2, 2>,
    t: i32,
) {
    for [s] in springs {
        let (a, b) = (springs[[s]].x, springs[[s]].y);
        let d = x[[t, a]] - x[[t, b]];
        let now = d.norm() + 1e-4;
        let wanted = length[[s]] * (1.0 + stroke[[s]] * signal[[t, s]]);
        let f = d * (STIFFNESS * (wanted - now) / now);
        force[[t, a]] += f;
        force[[t, b]] -= f;
    }
}

/// Moves the masses. One that reaches the ground moves until then and stops.
#[kernel]
fn advance(x: &Field<Vec2, 2>, v: &Field<Vec2, 2>, force: &Field<Vec2, 2>, t: i32) {
    for i in 0..x.shape()[1] {
        let before = v[[t, i]] * (-DRAG * DT).exp() + (force[[t, i]] - vec2(0.0, GRAVITY)) * DT;
        let old = x[[t, i]];
        let mut impact = DT;
        let mut after = before;
        if old.y + DT * before.y < GROUND && before.y < -1e-4 {
            impact = ((GROUND - old.y) / before.y).clamp(0.0, DT);
            after = vec2(0.0, 0.0);
        }
        x[[t + 1, i]] = old + before * impact;
        v[[t + 1, i]] = after;
    }
}

/// How far the masses moved to the left, on average.
#[kernel]
fn travel(x: &Field<Vec2, 2>, loss: &Field<f32, 0>, t: i32) {
    let masses = x.shape()[1];
    for i in 0..masses {
        loss[[]] += (x[[0, i]].x - x[[t, i]].x) / masses as f32;
    }
}

struct Robot {
    world: World,
    steps: usize,
    x: Field<Vec2, 2>,
    v: Field<Vec2, 2>,
    center: Field<Vec2, 1>,
    hidden: Field<f32, 2>,
    signal: Field<f32, 2>,
    force: Field<Vec2, 2>,
    springs: Field<IVec2, 1>,
    length: Field<f32, 1>,
    /// Zero for springs that are not muscles.
    stroke: Field<f32, 1>,
    /// The layers of the controller, which are optimized.
    layers: [Field<f32, 2>; 2],
    loss: Field<f32, 0>,
}

impl Robot {
    fn new(world: &World, table: &[&str], steps: usize) -> wuji::Result<Robot> {
        let (masses, springs) = masses_and_springs(table);
        let (m, s, inputs) = (
            masses.len(),
            springs.len(),
            WAVES as usize + 4 * masses.len(),
        );
        let robot = Robot {
            steps,
            x: world.field("x", [steps + 1, m])?.needs_grad()?,
            v: world.field("v", [steps + 1, m])?.needs_grad()?,
            center: world.field("center", steps)?.needs_grad()?,
            hidden: world.field("hidden", [steps, HIDDEN])?.needs_grad()?,
            signal: world.field("signal", [steps, s])?.needs_grad()?,
            force: world.field("force", [steps, m])?.needs_grad()?,
            springs: world.field("springs", s)?,
            length: world.field("length", s)?,
            stroke: world.field("stroke", s)?,
            layers: [
                world.field("layer1", [HIDDEN, inputs])?.needs_grad()?,
                world.field("layer2", [s, HIDDEN])?.needs_grad()?,
            ],
            loss: world.scalar("loss")?.needs_grad()?,
            world: world.clone(),
        };
        for (i, at) in masses.iter().enumerate() {
            robot.x.set([0, i as i64], *at)?;
        }
        let ends = |([a, b], _): (&[usize; 2], &bool)| ivec2(*a as i32, *b as i32);
        robot
            .springs
            .copy_from(&Vec::from_iter(springs.iter().map(ends)))?;
        let lengths = springs.keys().map(|[a, b]| masses[*a].distance(masses[*b]));
        robot.length.copy_from(&Vec::from_iter(lengths))?;
        let strokes = springs
            .values()
            .map(|muscle| if *muscle { STROKE } else { 0.0 });
        robot.stroke.copy_from(&Vec::from_iter(strokes))?;
        // Waves first: a robot that reacts to itself too much at first falls into a rest.
        let mut first = noise(HIDDEN * inputs, 1.0);
        for row in first.chunks_mut(inputs) {
            for weight in &mut row[WAVES as usize..] {
                *weight *= 0.1;
            }
        }
        robot.layers[0].copy_from(&first)?;
        robot.layers[1].copy_from(&noise(s * HIDDEN, 0.3))?;
        Ok(robot)
    }

    fn simulate(&self) -> wuji::Result<()> {
        let (x, v, force, signal) = (&self.x, &self.v, &self.force, &self.signal);
        for t in 0..self.steps as i32 {
            center(x, &self.center, t)?;
            sense(x, v, &self.center, &self.layers[0], &self.hidden, t)?;
            drive(&self.hidden, &self.layers[1], signal, t)?;
            pull(
                x,
                &self.springs,
                &self.length,
                &self.stroke,
                signal,
                force,
                t,
            )?;
            advance(x, v, force, t)?;
        }
        travel(x, &self.loss, self.steps as i32)
    }

    /// What the steps add to starts at zero.
    fn reset(&self) -> wuji::Result<()> {
        self.center.fill(Vec2::splat(0.0))?;
        self.force.fill(Vec2::splat(0.0))?;
        self.loss.fill(0.0)
    }

    /// The loss; its gradient with respect to the controller is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.reset()?;
        self.world.tape(&self.loss, || self.simulate())?;
        Ok(f64::from(self.loss.get(())?))
    }

    /// Pictures of some steps: short muscles are red, long ones blue.
    fn draw(&self, frames: usize) -> wuji::Result<Vec<Picture>> {
        const EXTENTS: [usize; 2] = [360, 100];
        let (x, signal) = (self.x.to_vec()?, self.signal.to_vec()?);
        let (springs, stroke) = (self.springs.to_vec()?, self.stroke.to_vec()?);
        let masses = x.len() / (self.steps + 1);
        let place = |at: Vec2| [at.x, at.y].map(|c| f64::from(c * 220.0));
        let picture = |frame: usize| {
            let t = frame * (self.steps - 1) / (frames - 1).max(1);
            let mut picture = Framebuffer::new(EXTENTS[0], EXTENTS[1], opaque(0xf4f6fa));
            let ground = (GROUND * 220.0) as i64 - 2;
            picture.rectangle([0, 0], [EXTENTS[0] as i64, ground], opaque(0x9aa5b8));
            for (s, ends) in springs.iter().enumerate() {
                let part = signal[t * springs.len() + s];
                let muscle = [0.5 - 0.45 * part, 0.25, 0.5 + 0.45 * part, 1.0];
                let color = if stroke[s] > 0.0 {
                    muscle
                } else {
                    opaque(0x30343c)
                };
                let [a, b] = ends.0.map(|end| place(x[t * masses + end as usize]));
                picture.line(a, b, 1.6, color);
            }
            picture.to_picture()
        };
        Ok((0..frames).map(picture).collect())
    }
}

/// Masses at the corners of squares, and springs along their sides and diagonals; `true` for muscles.
fn masses_and_springs(table: &[&str]) -> (Vec<Vec2>, BTreeMap<[usize; 2], bool>) {
    let (mut masses, mut springs) = (Vec::new(), BTreeMap::new());
    let mut numbers = BTreeMap::new();
    for (row, line) in table.iter().enumerate() {
        for (column, square) in line
            .bytes()
            .enumerate()
            .filter(|(_, square)| *square != b'.')
        {
            let corners = [[0, 0], [1, 0], [0, 1], [1, 1]].map(|[right, up]| {
                let at = [column + right, table.len() - 1 - row + up];
                *numbers.entry(at).or_insert_with(|| {
                    masses.push(vec2(at[0] as f32, at[1] as f32) * SIDE + vec2(SIDE, GROUND));
                    masses.len() - 1
                })
            });
            for (a, b) in [(0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)] {
                let ends = [corners[a].min(corners[b]), corners[a].max(corners[b])];
                *springs.entry(ends).or_insert(false) |= square == b'm';
            }
        }
    }
    (masses, springs)
}

/// The best controller of a robot so far.
#[derive(Default)]
struct Best {
    loss: Option<f64>,
    layers: [Vec<f32>; 2],
}

impl Best {
    /// The best loss, with the present one.
    fn keep(&mut self, robot: &Robot, loss: f64) -> wuji::Result<f64> {
        if self.loss.is_none_or(|best| loss < best) {
            let [first, second] = &robot.layers;
            self.layers = [first.to_vec()?, second.to_vec()?];
            self.loss = Some(loss);
        }
        Ok(self.loss.unwrap_or(loss))
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let steps = study.size();
    let mut robots = Vec::new();
    for table in ROBOTS {
        let robot = Robot::new(&study.world(), table, steps)?;
        let [first, second] = &robot.layers;
        let optimizers = [Adam::new(first, 0.01)?, Adam::new(second, 0.01)?];
        robots.push((robot, optimizers, Best::default()));
    }
    // The motion is chaotic, so the loss jumps: the loss here is that of the best controllers so far.
    let losses = study.optimize(|_| {
        let mut sum = 0.0;
        for (robot, optimizers, best) in &mut robots {
            let loss = robot.gradient()?;
            sum += best.keep(robot, loss)?;
            optimizers.iter_mut().try_for_each(Adam::step)?;
        }
        Ok(sum)
    })?;

    let mut films = Vec::new();
    for (robot, _, best) in &robots {
        robot.layers[0].copy_from(&best.layers[0])?;
        robot.layers[1].copy_from(&best.layers[1])?;
        robot.reset()?;
        robot.simulate()?;
        films.push(robot.draw(60)?);
    }
    let frame = |n: usize| plot::above(&Vec::from_iter(films.iter().map(|film| film[n].clone())));
    Ok(Report {
        what: format!("{} robots, {steps} steps", robots.len()),
        goal: -SPEED * f64::from(DT) * steps as f64,
        losses,
        frames: (0..60).map(frame).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal, world};
    use super::*;

    #[test]
    fn robots_are_built_from_their_tables() {
        let (masses, springs) = masses_and_springs(&["#m"]);
        assert_eq!((masses.len(), springs.len()), (6, 11));
        // The shared side is a muscle.
        assert_eq!(springs.values().filter(|muscle| **muscle).count(), 6);
    }

    #[test]
    fn robots_learn_to_run() {
        reaches_its_goal(&MASS_SPRING, 300, 12);
    }

    #[test]
    fn the_gradient_of_the_controller_is_right() {
        let robot = Robot::new(&world(), ROBOTS[0], 40).expect("fields");
        robot.gradient().expect("a gradient");
        gradient_is_a_difference(&robot.layers[0], (1, 0), (0.005, 0.02), || {
            robot.reset()?;
            robot.simulate()?;
            Ok(f64::from(robot.loss.get(())?))
        });
    }
}
