//! A liquid that pushes an elastic block: weakly compressible MPM, coupled with a solid in both directions.
//!
//! The initial velocity of the water is optimized, such that the block is at a target in the end. The particles and the grid are those of
//! [`diffmpm3d`](super::diffmpm3d).

use super::diffmpm3d::{COPIES, LIQUID, Mpm, SOLID};
use super::{Adam, Outcome, Report, Simulator, Study};
use wuji::prelude::*;

/// Water that is thrown at an elastic block.
pub const LIQUID_SIMULATOR: Simulator = Simulator {
    name: "liquid",
    about: "weakly compressible water: a throw that pushes an elastic block to a target",
    long: "A cube of water is thrown at an elastic block, in three dimensions. Both are particles that share one grid, so they are coupled in \
           both directions. Adam finds the velocity of the throw, such that the block is at a target in the end.",
    goal: "the block is within 0.01 of the target: the loss falls below 0.0001",
    size: ("grid nodes along each side", 32),
    iterations: 30,
    run,
    file: file!(),
    source: include_str!("liquid.rs"),
};

/// Seconds, as the particles measure them.
const SECONDS: f32 = 0.5;
const BLOCK: ([f32; 3], [f32; 3], i32) = ([0.5, 0.0, 0.4], [0.15, 0.15, 0.2], SOLID);
const WATER: ([f32; 3], [f32; 3], i32) = ([0.22, 0.0, 0.38], [0.2, 0.22, 0.24], LIQUID);
/// How far the block should move, along x and z.
const PUSH: Vec2 = Vector([0.08, 0.02]);

/// Gives the water its initial velocity.
#[kernel]
fn throw(velocity: &Field<Vec3, 0>, kind: &Field<i32, 1>, v: &Field<Vec3, 1>) {
    for [p] in v {
        if kind[[p]] == LIQUID {
            v[[p]] = velocity[[]];
        }
    }
}

/// The mean displacement of the block.
#[kernel]
fn displacement(
    x: &Field<Vec3, 1>,
    rest: &Field<Vec3, 1>,
    kind: &Field<i32, 1>,
    moved: &Field<Vec3, 0>,
    share: f32,
) {
    for [p] in x {
        if kind[[p]] == SOLID {
            moved[[]] += (x[[p]] - rest[[p]]) * share;
        }
    }
}

#[kernel]
fn miss(moved: &Field<Vec3, 0>, loss: &Field<f32, 0>) {
    for _ in 0..1 {
        let d = moved[[]].xz() - PUSH;
        loss[[]] += d.norm_sqr();
    }
}

struct Splash {
    world: World,
    steps: usize,
    /// The velocity of the throw, which is optimized.
    velocity: Field<Vec3, 0>,
    mpm: Mpm,
    moved: Field<Vec3, 0>,
    /// One divided by the particles of the block.
    share: f32,
    loss: Field<f32, 0>,
}

impl Splash {
    fn new(world: World, n: usize) -> wuji::Result<Splash> {
        let mpm = Mpm::new(&world, n, &[BLOCK, WATER])?;
        let solid = mpm
            .kind
            .to_vec()?
            .iter()
            .filter(|kind| **kind == SOLID)
            .count();
        let splash = Splash {
            steps: (SECONDS / mpm.dt) as usize,
            velocity: world.scalar("velocity")?.needs_grad()?,
            mpm,
            moved: world.scalar("moved")?.needs_grad()?,
            share: 1.0 / solid as f32,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        };
        splash.velocity.fill(vec3(0.5, 0.0, 0.0))?;
        Ok(splash)
    }

    fn reset(&self) -> wuji::Result<()> {
        self.mpm.reset()?;
        self.moved.fill(Vec3::splat(0.0))?;
        self.loss.fill(0.0)
    }

    fn step(&self, step: usize) -> wuji::Result<()> {
        let mpm = &self.mpm;
        if step == 0 {
            throw(&self.velocity, &mpm.kind, &mpm.v)?;
        }
        mpm.step()?;
        if step + 1 == self.steps {
            displacement(&mpm.x, &mpm.rest, &mpm.kind, &self.moved, self.share)?;
            miss(&self.moved, &self.loss)?;
        }
        Ok(())
    }

    fn simulate(&self, mut watch: impl FnMut(usize) -> wuji::Result<()>) -> wuji::Result<f64> {
        self.reset()?;
        for step in 0..self.steps {
            watch(step)?;
            self.step(step)?;
        }
        Ok(f64::from(self.loss.get(())?))
    }

    /// The loss; its gradient with respect to the velocity of the throw is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.reset()?;
        self.world
            .tape_steps(&self.loss, self.steps, COPIES, |step| self.step(step))?;
        Ok(f64::from(self.loss.get(())?))
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let n = study.size();
    let splash = Splash::new(study.world(), n)?;
    let mut adam = Adam::new(&splash.velocity, 0.15)?;
    let losses = study.optimize(|_| {
        let loss = splash.gradient()?;
        adam.step()?;
        Ok(loss)
    })?;

    let mut frames = Vec::new();
    splash.simulate(|step| {
        if step % (splash.steps / 50).max(1) == 0 {
            frames.push(splash.mpm.draw()?);
        }
        Ok(())
    })?;
    let particles = splash.mpm.x.len()?;
    Ok(Report {
        what: format!(
            "{particles} particles on {n}x{n}x{n}, {} steps",
            splash.steps
        ),
        goal: 1e-4,
        losses,
        frames,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal, world};
    use super::*;

    #[test]
    fn water_pushes_the_block_to_the_target() {
        reaches_its_goal(&LIQUID_SIMULATOR, 14, 20);
    }

    #[test]
    fn the_gradient_of_the_throw_is_right() {
        let splash = Splash::new(world(), 14).expect("fields");
        splash.gradient().expect("a gradient");
        gradient_is_a_difference(&splash.velocity, (0, 0), (0.01, 0.05), || {
            splash.simulate(|_| Ok(()))
        });
    }
}
