//! A cloth falls over a ball: a grid of masses, each connected to twelve neighbours by springs.

use super::surface::{self, Screen, Sides};
use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;

const STEPS: usize = 30;
const STIFFNESS: f32 = 8e3;
const FRICTION: f32 = 60.0;
const GRAVITY: f32 = 9.8;
const BALL: Vec3 = vec3(0.0, 0.0, 0.0);
const RADIUS: f32 = 0.32;
/// Neighbours on one side; the others are their negatives. Structural, shear and bending springs.
const SPRINGS: [IVec2; 6] = [
    ivec2(1, 0),
    ivec2(0, 1),
    ivec2(1, 1),
    ivec2(1, -1),
    ivec2(2, 0),
    ivec2(0, 2),
];

/// A piece of cloth.
pub const CLOTH: Example = Example {
    name: "cloth",
    about: "a mass-spring cloth falls over a ball",
    long: "The fields are a bundle, and the kernels its methods. The springs are a constant array that an unrolled loop iterates over; one beyond the \
           edge has no force, `None`. Forces and integration are two parallel loops of one kernel; \
           the second starts after the first is complete. A kernel also rasterizes the triangles, with an atomic maximum as depth test.",
    size: ("masses along each side", 80),
    frames: 90,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("cloth.rs"),
};

#[derive(Debug, Fields)]
struct Cloth {
    x: Field<Vec3, 2>,
    v: Field<Vec3, 2>,
    force: Field<Vec3, 2>,
    /// Three for each triangle.
    corners: Field<Vec3, 1>,
    dt: f32,
}

impl Cloth {
    fn new(world: &World, n: usize) -> wuji::Result<Cloth> {
        let cloth = Cloth {
            x: world.field("x", [n, n])?,
            v: world.field("v", [n, n])?,
            force: world.field("force", [n, n])?,
            corners: world.field("corners", 6 * (n - 1) * (n - 1))?,
            dt: 0.032 / n as f32,
        };
        let place = |k: usize| (k as f32 + 0.5) / n as f32 - 0.5;
        // Off-centre, so that the cloth slides.
        let start = (0..n * n).map(|k| vec3(place(k / n) + 0.02, 0.45, place(k % n) - 0.015));
        cloth.x.copy_from(&start.collect::<Vec<_>>())?;
        Ok(cloth)
    }
}

#[kernel]
impl Cloth {
    /// The force of a spring, or nothing beyond the edge of the cloth.
    #[func]
    fn spring(&self, here: IVec2, offset: IVec2) -> Option<Vec3> {
        let n = self.x.shape().x;
        let there = here + offset;
        if there.x < 0 || there.x >= n || there.y < 0 || there.y >= n {
            return None;
        }
        let way = self.x[there] - self.x[here];
        let length = way.norm();
        let direction = way / length;
        let relaxed = 1.0 / n as f32 * offset.cast::<f32>().norm();
        let stretch = STIFFNESS * (length / relaxed - 1.0);
        let friction = (self.v[there] - self.v[here]).dot(direction) * FRICTION;
        Some(direction * stretch + direction * friction)
    }

    fn advance(&self) {
        for [i, j] in self.x {
            let here = ivec2(i, j);
            let mut sum = vec3(0.0, -GRAVITY, 0.0);
            for s in unroll(0..6) {
                for side in unroll(0..2) {
                    if let Some(force) = self.spring(here, SPRINGS[s] * (1 - 2 * side)) {
                        sum += force;
                    }
                }
            }
            // Not to `v`: neighbours may still read it.
            self.force[here] = sum;
        }
        for [i, j] in self.x {
            let mut u = (self.v[[i, j]] + self.force[[i, j]] * self.dt) * (1.0 - self.dt);
            let out = self.x[[i, j]] - BALL;
            // On contact with the ball, keeps the tangential velocity, reduced by friction.
            if out.norm() < RADIUS + 0.012 {
                let normal = out.normalized();
                u = (u - normal * u.dot(normal).min(0.0)) * 0.98;
            }
            self.v[[i, j]] = u;
            self.x[[i, j]] += u * self.dt;
        }
    }

    /// Two triangles for each grid square.
    fn triangles(&self) {
        let (x, corners) = (&self.x, &self.corners);
        let n = x.shape().x;
        for [i, j] in grid([0..n - 1, 0..n - 1]) {
            let at = 6 * (i * (n - 1) + j);
            let (a, b, c, d) = (x[[i, j]], x[[i + 1, j]], x[[i, j + 1]], x[[i + 1, j + 1]]);
            corners[[at]] = a;
            corners[[at + 1]] = c;
            corners[[at + 2]] = b;
            corners[[at + 3]] = b;
            corners[[at + 4]] = c;
            corners[[at + 5]] = d;
        }
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size().max(3);
    let cloth = Cloth::new(&world, n)?;
    let round = surface::ball(BALL, RADIUS - 0.01);
    let ball = world.field::<Vec3, 1>("ball", round.len())?;
    ball.copy_from(&round)?;
    let screen = Screen::new(&world, 360)?;
    stage.play(
        |_| (0..STEPS).try_for_each(|_| cloth.advance()),
        || {
            let eye = [0.6, 0.5];
            screen.clear()?;
            cloth.triangles()?;
            let sides = Sides {
                front: vec3(0.75, 0.12, 0.16),
                back: vec3(0.85, 0.5, 0.2),
            };
            screen.draw(&cloth.corners, 2 * (n - 1) * (n - 1), eye, sides)?;
            let gray = vec3(0.5, 0.52, 0.55);
            screen.draw(
                &ball,
                round.len() / 3,
                eye,
                Sides {
                    front: gray,
                    back: gray,
                },
            )?;
            screen.picture()
        },
    )?;
    Ok(Summary::new(format!("{} masses", n * n), STEPS, "steps"))
}
