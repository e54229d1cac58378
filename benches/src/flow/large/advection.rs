//! MacCormack advection with third-order Runge-Kutta paths, of three scalar fields in a sparse tube. Each field has kernels of its
//! own, as in a program that chooses the scheme for each of them.

use wuji::Result;
use wuji::prelude::*;
use wuji_examples::apps::blocks;

use crate::case::Contender;
use crate::flow::{Program, Size, repeated};

pub const MACCORMACK: Program = Program {
    name: "flow maccormack",
    sizes: ["64^3", "256^3", "256^3"],
    make: |world, size| advected(world, size, Tube::step),
    by_hand: Some(|world, size| advected(world, size, Tube::step_by_hand)),
    tolerance: 1e-4,
};

const BLOCK: i32 = 8;
/// Steps in a sample; fields are swapped after each.
const STEPS: usize = 2;

/// The field at the corners of the cell around a point, and the weights of the upper ones.
#[func]
fn corner(p: Vec3) -> IVec3 {
    p.floor().cast::<i32>()
}

#[func]
fn velocity_at(u: &Field<Vec3, 3>, p: Vec3) -> Vec3 {
    let at = corner(p);
    let w = p - at.cast::<f32>();
    let mut sum = Vec3::splat(0.0);
    for a in unroll(0..2) {
        for b in unroll(0..2) {
            for c in unroll(0..2) {
                let x = if a == 0 { 1.0 - w.x } else { w.x };
                let y = if b == 0 { 1.0 - w.y } else { w.y };
                let z = if c == 0 { 1.0 - w.z } else { w.z };
                sum += u[at + ivec3(a, b, c)] * (x * y * z);
            }
        }
    }
    sum
}

#[func]
fn value_at(q: &Field<f32, 3>, p: Vec3) -> f32 {
    let at = corner(p);
    let w = p - at.cast::<f32>();
    let mut sum = 0.0;
    for a in unroll(0..2) {
        for b in unroll(0..2) {
            for c in unroll(0..2) {
                let x = if a == 0 { 1.0 - w.x } else { w.x };
                let y = if b == 0 { 1.0 - w.y } else { w.y };
                let z = if c == 0 { 1.0 - w.z } else { w.z };
                sum += q[at + ivec3(a, b, c)] * (x * y * z);
            }
        }
    }
    sum
}

/// The point from which the flow comes in the time `dt`, in cells.
#[func]
fn traced(u: &Field<Vec3, 3>, p: Vec3, here: Vec3, dt: f32) -> Vec3 {
    let second = velocity_at(u, p - here * (0.5 * dt));
    let third = velocity_at(u, p - second * (0.75 * dt));
    p - (here * (2.0 / 9.0) + second * (3.0 / 9.0) + third * (4.0 / 9.0)) * dt
}

/// Semi-Lagrangian advection; backwards in time with a negative `dt`.
#[kernel]
fn advect(u: &Field<Vec3, 3>, from: &Field<f32, 3>, to: &Field<f32, 3>, dt: f32) {
    for [i, j, k] in to {
        let p = vec3(i as f32, j as f32, k as f32);
        to[[i, j, k]] = value_at(from, traced(u, p, u[[i, j, k]], dt));
    }
}

/// The field with half of the error added, unless the result leaves the range of the values that it comes from.
#[func]
fn corrected(q: &Field<f32, 3>, source: Vec3, plain: f32, error: f32) -> f32 {
    let at = corner(source);
    let mut least = q[at];
    let mut most = q[at];
    for a in unroll(0..2) {
        for b in unroll(0..2) {
            for c in unroll(0..2) {
                let near = q[at + ivec3(a, b, c)];
                least = least.min(near);
                most = most.max(near);
            }
        }
    }
    let value = plain + 0.5 * error;
    if value < least || value > most {
        plain
    } else {
        value
    }
}

#[kernel]
fn correct(
    u: &Field<Vec3, 3>,
    q: &Field<f32, 3>,
    forward: &Field<f32, 3>,
    backward: &Field<f32, 3>,
    to: &Field<f32, 3>,
    dt: f32,
) {
    for [i, j, k] in to {
        let p = vec3(i as f32, j as f32, k as f32);
        let source = traced(u, p, u[[i, j, k]], dt);
        let error = q[[i, j, k]] - backward[[i, j, k]];
        to[[i, j, k]] = corrected(q, source, forward[[i, j, k]], error);
    }
}

/// `advect` of three fields, fused by hand: they share their path.
#[kernel]
fn advect_all(
    u: &Field<Vec3, 3>,
    from_a: &Field<f32, 3>,
    from_b: &Field<f32, 3>,
    from_c: &Field<f32, 3>,
    to_a: &Field<f32, 3>,
    to_b: &Field<f32, 3>,
    to_c: &Field<f32, 3>,
    dt: f32,
) {
    for [i, j, k] in to_a {
        let source = traced(u, vec3(i as f32, j as f32, k as f32), u[[i, j, k]], dt);
        to_a[[i, j, k]] = value_at(from_a, source);
        to_b[[i, j, k]] = value_at(from_b, source);
        to_c[[i, j, k]] = value_at(from_c, source);
    }
}

/// `correct` of three fields, fused by hand.
#[kernel]
fn correct_all(
    u: &Field<Vec3, 3>,
    a: &Field<f32, 3>,
    b: &Field<f32, 3>,
    c: &Field<f32, 3>,
    forward_a: &Field<f32, 3>,
    forward_b: &Field<f32, 3>,
    forward_c: &Field<f32, 3>,
    backward_a: &Field<f32, 3>,
    backward_b: &Field<f32, 3>,
    backward_c: &Field<f32, 3>,
    to_a: &Field<f32, 3>,
    to_b: &Field<f32, 3>,
    to_c: &Field<f32, 3>,
    dt: f32,
) {
    for [i, j, k] in to_a {
        let source = traced(u, vec3(i as f32, j as f32, k as f32), u[[i, j, k]], dt);
        let error = a[[i, j, k]] - backward_a[[i, j, k]];
        to_a[[i, j, k]] = corrected(a, source, forward_a[[i, j, k]], error);
        let error = b[[i, j, k]] - backward_b[[i, j, k]];
        to_b[[i, j, k]] = corrected(b, source, forward_b[[i, j, k]], error);
        let error = c[[i, j, k]] - backward_c[[i, j, k]];
        to_c[[i, j, k]] = corrected(c, source, forward_c[[i, j, k]], error);
    }
}

/// A flow around the axis of the tube, at one cell per unit of time.
#[kernel]
fn rotation(u: &Field<Vec3, 3>, n: f32) {
    for [i, j, k] in u {
        let (x, y) = (i as f32 / n - 0.5, j as f32 / n - 0.5);
        let swirl = vec3(-y, x, 0.3 * (k as f32 * 0.1).sin());
        u[[i, j, k]] = swirl * 2.5;
    }
}

#[kernel]
fn pattern(q: &Field<f32, 3>, wave: f32) {
    for [i, j, k] in q {
        q[[i, j, k]] = (i as f32 * wave).sin() * (j as f32 * wave).cos() + (k as f32 * wave).sin();
    }
}

/// A field with its intermediate results.
struct Channel {
    now: Field<f32, 3>,
    next: Field<f32, 3>,
    forward: Field<f32, 3>,
    backward: Field<f32, 3>,
}

struct Tube {
    u: Field<Vec3, 3>,
    channels: [Channel; 3],
}

/// The time step, in cells at unit speed.
const DT: f32 = 0.9;

impl Tube {
    fn new(world: &World, n: i32) -> Result<Tube> {
        let (cells, u, channels) = world.layout(|root| {
            let block = root.pointer(IJK, i64::from(n / BLOCK));
            let cell = block.dense(IJK, i64::from(BLOCK));
            let channel = |name: &str| Channel {
                now: cell.place(&format!("{name}_now")),
                next: cell.place(&format!("{name}_next")),
                forward: cell.place(&format!("{name}_forward")),
                backward: cell.place(&format!("{name}_backward")),
            };
            let channels = ["temperature", "color", "density"].map(channel);
            (
                block.cells::<3>("blocks"),
                cell.place::<Vec3, 3>("u"),
                channels,
            )
        })?;
        let tube = |at: [f32; 3]| {
            let r = (at[0] - 0.5).hypot(at[1] - 0.5);
            (0.32..0.45).contains(&r)
        };
        cells.import(&blocks(n / BLOCK, 1, tube))?;
        rotation(&u, n as f32)?;
        for (k, channel) in channels.iter().enumerate() {
            pattern(&channel.now, 0.11 + 0.05 * k as f32)?;
        }
        Ok(Tube { u, channels })
    }

    fn step(&mut self) -> Result<()> {
        let (u, dt) = (&self.u, DT);
        for c in &self.channels {
            advect(u, &c.now, &c.forward, dt)?;
        }
        for c in &self.channels {
            advect(u, &c.forward, &c.backward, -dt)?;
        }
        for c in &self.channels {
            correct(u, &c.now, &c.forward, &c.backward, &c.next, dt)?;
        }
        self.swap();
        Ok(())
    }

    /// The same step with the kernels that are fused by hand.
    fn step_by_hand(&mut self) -> Result<()> {
        let (u, [a, b, c]) = (&self.u, &self.channels);
        advect_all(
            u, &a.now, &b.now, &c.now, &a.forward, &b.forward, &c.forward, DT,
        )?;
        advect_all(
            u,
            &a.forward,
            &b.forward,
            &c.forward,
            &a.backward,
            &b.backward,
            &c.backward,
            -DT,
        )?;
        correct_all(
            u,
            &a.now,
            &b.now,
            &c.now,
            &a.forward,
            &b.forward,
            &c.forward,
            &a.backward,
            &b.backward,
            &c.backward,
            &a.next,
            &b.next,
            &c.next,
            DT,
        )?;
        self.swap();
        Ok(())
    }

    fn swap(&mut self) {
        for c in &mut self.channels {
            std::mem::swap(&mut c.now, &mut c.next);
        }
    }
}

fn advected(
    world: &World,
    size: Size,
    step: fn(&mut Tube) -> Result<()>,
) -> Result<Box<dyn Contender>> {
    let n = match size {
        Size::Quick => 64,
        Size::Paper | Size::Gpu => 256,
    };
    let mut tube = Tube::new(world, n)?;
    // After an even number of steps, the first of each pair is current.
    let seen = tube.channels.each_ref().map(|c| c.now.clone());
    let (at, middle) = (i64::from(n) / 8, i64::from(n) / 2);
    let run = move || step(&mut tube);
    Ok(repeated(world, STEPS, run, move || {
        let slices = seen.iter().map(|q| {
            let slice = q.window([0..at, middle - at..middle, middle..middle + 4])?;
            slice.to_vec()
        });
        Ok(slices.collect::<Result<Vec<_>>>()?.concat())
    }))
}
