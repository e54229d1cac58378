//! Caustics: sunlight is refracted at waves, and paints a picture on the floor. The initial state of the water and its velocity are optimized.
//!
//! The simulation and the renderer are one differentiable program. Light lands between pixels and is split among the nine around it,
//! so that the picture changes smoothly with the slope of the water.

use super::{Adam, Outcome, Report, Simulator, Study, plot, target};
use wuji::prelude::*;

/// A water surface that refracts a picture into another one.
pub const WATER_RENDERER: Simulator = Simulator {
    name: "water_renderer",
    about: "caustics: waves whose refracted light paints a picture on the floor",
    long: "The wave equation moves the water, then each cell of its surface refracts a ray of sunlight to the floor. Rays are scattered to \
           pixels with weights of a B-spline. The gradient flows from the picture through refraction and waves to the initial state.",
    goal: "the loss falls below 15% of the first one",
    size: ("cells along each side", 96),
    iterations: 150,
    run,
    file: file!(),
    source: include_str!("water_renderer.rs"),
};

/// The squared wave speed, in cells per step.
const SPEED: f32 = 0.2;
const DAMPING: f32 = 0.002;
/// From the surface to the floor, in cells.
const DEPTH: f32 = 12.0;
/// Refractive index of water.
const INDEX: f32 = 1.33;

#[func]
fn laplace(u: &Field<f32, 2>, i: i32, j: i32) -> f32 {
    u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]] - 4.0 * u[[i, j]]
}

/// `begin` has height and velocity.
#[kernel]
fn start(begin: &Field<Vec2, 2>, old: &Field<f32, 2>, now: &Field<f32, 2>) {
    for [i, j] in begin {
        old[[i, j]] = begin[[i, j]].x;
        now[[i, j]] = begin[[i, j]].x + begin[[i, j]].y;
    }
}

#[kernel]
fn advance(old: &Field<f32, 2>, now: &Field<f32, 2>, next: &Field<f32, 2>) {
    for [i, j] in next {
        next[[i, j]] = 2.0 * now[[i, j]] - old[[i, j]] + (SPEED + DAMPING) * laplace(now, i, j)
            - DAMPING * laplace(old, i, j);
    }
}

/// Where vertical light goes on below a surface with this slope, per unit of depth: Snell's law.
#[func]
fn refract(slope: Vec2) -> Vec2 {
    let normal = vec3(-slope.x, -slope.y, 1.0).normalized();
    let cos = (1.0 - (1.0 - normal.z * normal.z) / (INDEX * INDEX)).sqrt();
    let ray = vec3(0.0, 0.0, -1.0 / INDEX) + normal * (normal.z / INDEX - cos);
    vec2(ray.x, ray.y) / -ray.z
}

/// The weight of one of three pixels, where `f` from -1/2 to 1/2 is the distance to the one in the middle.
#[func]
fn weight(pixel: i32, f: f32) -> f32 {
    if pixel == 1 {
        0.75 - f * f
    } else {
        let d = 0.5 + f * (pixel - 1) as f32;
        0.5 * d * d
    }
}

/// The light on the floor; on average 1.
#[kernel]
fn illuminate(u: &Field<f32, 2>, light: &Field<f32, 2>) {
    let n = u.shape().x;
    for [i, j] in light {
        light[[i, j]] = 0.0;
    }
    for [i, j] in u {
        let slope = vec2(u[[i + 1, j]] - u[[i - 1, j]], u[[i, j + 1]] - u[[i, j - 1]]) * 0.5;
        let spot = vec2(i as f32, j as f32) + refract(slope) * (DEPTH + u[[i, j]]);
        // A quadratic B-spline: smooth weights of three pixels along each axis.
        let base = (spot - Vec2::splat(0.5)).floor();
        let (at, f) = (base.cast::<i32>(), spot - base - Vec2::splat(1.0));
        for a in unroll(0..3) {
            for b in unroll(0..3) {
                let pixel = at + ivec2(a, b);
                // Light that leaves the tank is lost.
                if pixel.x >= 0 && pixel.x < n && pixel.y >= 0 && pixel.y < n {
                    light[pixel] += weight(a, f.x) * weight(b, f.y);
                }
            }
        }
    }
}

#[kernel]
fn compare(light: &Field<f32, 2>, target: &Field<f32, 2>, loss: &Field<f32, 0>) {
    let pixels = light.shape().product() as f32;
    for [i, j] in light {
        let d = light[[i, j]] - target[[i, j]];
        loss[[]] += d * d / pixels;
    }
}

struct Pool {
    world: World,
    steps: usize,
    /// Height and velocity at the start, which are optimized.
    begin: Field<Vec2, 2>,
    /// The heights of three steps, in turn.
    u: [Field<f32, 2>; 3],
    light: Field<f32, 2>,
    target: Field<f32, 2>,
    loss: Field<f32, 0>,
}

impl Pool {
    fn new(world: World, n: usize) -> wuji::Result<Pool> {
        let field = |name| world.field::<f32, 2>(name, [n, n]);
        let target = field("target")?;
        let picture = target::taiji_cells(n, 2);
        // Waves move light, they do not make it.
        let mean = picture.iter().sum::<f32>() / (n * n) as f32;
        let picture: Vec<_> = picture.iter().map(|p| 1.0 + 0.8 * (p - mean)).collect();
        target.copy_from(&picture)?;
        Ok(Pool {
            steps: n / 2,
            begin: world.field("begin", [n, n])?.needs_grad()?,
            u: [
                field("u0")?.needs_grad()?,
                field("u1")?.needs_grad()?,
                field("u2")?.needs_grad()?,
            ],
            light: field("light")?.needs_grad()?,
            target,
            loss: world.scalar("loss")?.needs_grad()?,
            world,
        })
    }

    /// Runs all steps; `watch` sees the height after each.
    fn simulate(
        &self,
        mut watch: impl FnMut(&Field<f32, 2>) -> wuji::Result<()>,
    ) -> wuji::Result<()> {
        start(&self.begin, &self.u[0], &self.u[1])?;
        for step in 0..self.steps {
            let [old, now, next] = [0, 1, 2].map(|k| &self.u[(step + k) % 3]);
            advance(old, now, next)?;
            watch(next)?;
        }
        illuminate(&self.u[(self.steps + 1) % 3], &self.light)?;
        self.loss.fill(0.0)?;
        compare(&self.light, &self.target, &self.loss)
    }

    /// The loss; its gradient with respect to the initial state is computed too.
    fn gradient(&self) -> wuji::Result<f64> {
        self.world.tape(&self.loss, || self.simulate(|_| Ok(())))?;
        Ok(f64::from(self.loss.get(())?))
    }
}

fn run(study: &Study) -> Outcome<Report> {
    let n = study.size();
    let pool = Pool::new(study.world(), n)?;
    let mut adam = Adam::new(&pool.begin, 0.03)?;
    let losses = study.optimize(|_| {
        let loss = pool.gradient()?;
        adam.step()?;
        Ok(loss)
    })?;

    let mut frames = Vec::new();
    pool.simulate(|u| {
        illuminate(u, &pool.light)?;
        frames.push(plot::heights(&pool.light, [0.2, 1.8])?);
        Ok(())
    })?;
    Ok(Report {
        what: format!("{n}x{n} cells, {} steps", pool.steps),
        goal: 0.15 * losses[0],
        losses,
        frames,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{gradient_is_a_difference, reaches_its_goal};
    use super::*;

    #[test]
    fn light_paints_the_picture() {
        reaches_its_goal(&WATER_RENDERER, 24, 80);
    }

    #[test]
    fn the_gradient_of_the_water_is_right() {
        let n = 16;
        let pool = Pool::new(World::cpu().expect("a world"), n).expect("fields");
        let bumps = (0..n * n).map(|k| vec2(0.05, 0.02) * (k as f32 * 0.3).sin());
        pool.begin
            .copy_from(&bumps.collect::<Vec<_>>())
            .expect("copied");
        pool.gradient().expect("a gradient");
        gradient_is_a_difference(&pool.begin, (7 * n + 9, 0), (2e-3, 2e-2), || {
            pool.simulate(|_| Ok(()))?;
            Ok(f64::from(pool.loss.get(())?))
        });
    }
}
