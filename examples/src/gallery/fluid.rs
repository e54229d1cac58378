//! Smoke in a closed box with Stam's stable fluids: advection, then projection to a divergence-free velocity.

use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;

const DT: f32 = 1.0;
/// Of the pressure solver, per frame; each is two Jacobi iterations.
const PRESSURE_STEPS: usize = 20;

/// Stable fluids.
pub const FLUID: Example = Example {
    name: "fluid",
    about: "stable fluids: coloured smoke from two colliding jets",
    long: "The fields are one struct, a bundle, and the kernels are its methods: semi-Lagrangian advection with linear \
           interpolation, divergence, 40 Jacobi iterations for the pressure, and projection. One generic #[func] samples \
           velocities and colours alike. With --view the left button stirs the fluid.",
    size: ("cells along each side", 256),
    frames: 150,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("fluid.rs"),
};

/// What the fluid carries along.
#[derive(Fields)]
struct Flow {
    v: Field<Vec2, 2>,
    dye: Field<Vec3, 2>,
}

#[derive(Fields)]
struct Fluid {
    now: Flow,
    /// After advection, before projection.
    moved: Flow,
    p: [Field<f32, 2>; 2],
    divergence: Field<f32, 2>,
}

impl Fluid {
    fn new(world: &World, n: u64) -> wuji::Result<Fluid> {
        let flow = || {
            wuji::Result::Ok(Flow {
                v: world.field("v", [n, n])?,
                dye: world.field("dye", [n, n])?,
            })
        };
        Ok(Fluid {
            now: flow()?,
            moved: flow()?,
            p: [world.field("p", [n, n])?, world.field("new p", [n, n])?],
            divergence: world.field("divergence", [n, n])?,
        })
    }

    fn step(&self) -> wuji::Result<()> {
        self.advect()?;
        self.diverge()?;
        for _ in 0..PRESSURE_STEPS {
            self.relax()?;
        }
        self.project()
    }
}

#[kernel]
impl Fluid {
    /// Semi-Lagrangian advection: traces the velocity back.
    fn advect(&self) {
        let last = self.now.v.shape().cast::<f32>() - Vec2::splat(1.0);
        for [i, j] in self.now.v {
            let here = vec2(i as f32, j as f32);
            let there = (here - self.now.v[[i, j]] * DT).clamp(Vec2::splat(0.0), last);
            self.moved.v[[i, j]] = sample(&self.now.v, there);
            self.moved.dye[[i, j]] = sample(&self.now.dye, there) * 0.995;
        }
    }

    /// A jet: accelerates and colours the fluid within a radius.
    fn push(&self, at: Vec2, force: Vec2, color: Vec3) {
        let (v, dye) = (&self.now.v, &self.now.dye);
        let n = v.shape().x as f32;
        for [i, j] in v {
            let d = (vec2(i as f32, j as f32) / n - at).norm() * 24.0;
            let strength = (-d * d).exp();
            v[[i, j]] = v[[i, j]] + force * (n * strength);
            dye[[i, j]] = mix(dye[[i, j]], color, strength * 0.3);
        }
    }

    fn diverge(&self) {
        let v = &self.moved.v;
        for [i, j] in v {
            self.divergence[[i, j]] =
                0.5 * (v[[i + 1, j]].x - v[[i - 1, j]].x + v[[i, j + 1]].y - v[[i, j - 1]].y);
        }
    }

    /// Two Jacobi iterations.
    fn relax(&self) {
        for [i, j] in self.p[0] {
            self.p[1][[i, j]] = 0.25 * (around(&self.p[0], i, j) - self.divergence[[i, j]]);
        }
        for [i, j] in self.p[1] {
            self.p[0][[i, j]] = 0.25 * (around(&self.p[1], i, j) - self.divergence[[i, j]]);
        }
    }

    /// Subtracts the pressure gradient, which makes the velocity divergence-free. Nothing flows through the walls.
    fn project(&self) {
        let p = &self.p[0];
        let last = p.shape();
        for [i, j] in p {
            let x = pressure(p, i + 1, j) - pressure(p, i - 1, j);
            let y = pressure(p, i, j + 1) - pressure(p, i, j - 1);
            let mut flow = self.moved.v[[i, j]] - vec2(x, y) * 0.5;
            if i == 0 || i == last.x - 1 {
                flow.x = 0.0;
            }
            if j == 0 || j == last.y - 1 {
                flow.y = 0.0;
            }
            self.now.v[[i, j]] = flow;
            self.now.dye[[i, j]] = self.moved.dye[[i, j]];
        }
    }
}

/// Bilinear interpolation of the four cells around a point, for velocities and colours.
#[func]
fn sample<const N: usize>(x: &Field<Vector<f32, N>, 2>, at: Vec2) -> Vector<f32, N> {
    let cell = at.floor();
    let (i, f) = (cell.cast::<i32>(), at - cell);
    let low = mix(x[[i.x, i.y]], x[[i.x + 1, i.y]], f.x);
    let high = mix(x[[i.x, i.y + 1]], x[[i.x + 1, i.y + 1]], f.x);
    mix(low, high, f.y)
}

/// Neumann boundaries: the pressure in a wall is that of its neighbour.
#[func]
fn pressure(p: &Field<f32, 2>, i: i32, j: i32) -> f32 {
    let last = p.shape();
    p[[i.clamp(0, last.x - 1), j.clamp(0, last.y - 1)]]
}

#[func]
fn around(p: &Field<f32, 2>, i: i32, j: i32) -> f32 {
    let beside = pressure(p, i - 1, j) + pressure(p, i + 1, j);
    let above = pressure(p, i, j - 1) + pressure(p, i, j + 1);
    beside + above
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let n = stage.size();
    let fluid = Fluid::new(&stage.world(), n as u64)?;
    fluid.now.dye.fill(vec3(0.02, 0.03, 0.06))?;
    let mut held: Option<[f32; 2]> = None;
    stage.play(
        |input| {
            let sway = (input.frame as f32 * 0.09).sin() * 0.0012;
            let (left, right) = (vec2(0.12, 0.32), vec2(0.88, 0.68));
            fluid.push(left, vec2(0.0022, sway), vec3(1.0, 0.42, 0.1))?;
            fluid.push(right, vec2(-0.0022, sway), vec3(0.15, 0.55, 1.0))?;
            if let (Some(at), Some(before)) = (input.pointer, held) {
                let by = vec2(at[0] - before[0], at[1] - before[1]) * 0.1;
                fluid.push(Vector(at), by, vec3(0.9, 0.95, 1.0))?;
            }
            held = input.pointer;
            fluid.step()
        },
        || fluid.now.dye.to_picture(),
    )?;
    Ok(Summary::new(
        format!("{n}x{n} cells"),
        2 * PRESSURE_STEPS,
        "iterations",
    ))
}
