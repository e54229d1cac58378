//! Smoke in a closed box with Stam's stable fluids: advection, then projection to a divergence-free velocity.

use super::{Example, Media, Outcome, Stage, Summary};
use std::cell::Cell;
use wuji::prelude::*;

const DT: f32 = 1.0;
const PRESSURE_STEPS: usize = 40;

pub const FLUID: Example = Example {
    name: "fluid",
    about: "stable fluids: coloured smoke from two colliding jets",
    long: "Four kernels per frame: semi-Lagrangian advection with linear interpolation, divergence, 40 Jacobi \
           iterations for the pressure, and projection. One generic #[func] samples velocities and colours alike. With --view \
           the left button stirs the fluid.",
    size: ("cells along each side", 256),
    frames: 150,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("fluid.rs"),
};

/// Bilinear interpolation of the four cells around a point, for velocities and colours.
#[func]
fn sample<const N: usize>(x: &Field<Vector<f32, N>, 2>, at: Vec2) -> Vector<f32, N> {
    let cell = at.floor();
    let (i, f) = (cell.cast::<i32>(), at - cell);
    let low = mix(x[[i.x, i.y]], x[[i.x + 1, i.y]], f.x);
    let high = mix(x[[i.x, i.y + 1]], x[[i.x + 1, i.y + 1]], f.x);
    mix(low, high, f.y)
}

/// Semi-Lagrangian advection: traces the velocity back.
#[kernel]
fn advect(
    v: &Field<Vec2, 2>,
    dye: &Field<Vec3, 2>,
    new_v: &Field<Vec2, 2>,
    new_dye: &Field<Vec3, 2>,
) {
    let last = v.shape().cast::<f32>() - Vec2::splat(1.0);
    for [i, j] in v {
        let here = vec2(i as f32, j as f32);
        let there = (here - v[[i, j]] * DT).clamp(Vec2::splat(0.0), last);
        new_v[[i, j]] = sample(v, there);
        new_dye[[i, j]] = sample(dye, there) * 0.995;
    }
}

/// A jet: accelerates and colours the fluid within a radius.
#[kernel]
fn push(v: &Field<Vec2, 2>, dye: &Field<Vec3, 2>, at: Vec2, force: Vec2, color: Vec3) {
    let n = v.shape().x as f32;
    for [i, j] in v {
        let d = (vec2(i as f32, j as f32) / n - at).norm() * 24.0;
        let strength = (-d * d).exp();
        v[[i, j]] = v[[i, j]] + force * (n * strength);
        dye[[i, j]] = mix(dye[[i, j]], color, strength * 0.3);
    }
}

#[kernel]
fn divergence(v: &Field<Vec2, 2>, out: &Field<f32, 2>) {
    for [i, j] in v {
        out[[i, j]] = 0.5 * (v[[i + 1, j]].x - v[[i - 1, j]].x + v[[i, j + 1]].y - v[[i, j - 1]].y);
    }
}

/// Jacobi iteration with Neumann boundaries: the pressure in a wall is that of its neighbour.
#[func]
fn pressure(p: &Field<f32, 2>, i: i32, j: i32) -> f32 {
    let last = p.shape();
    p[[i.clamp(0, last.x - 1), j.clamp(0, last.y - 1)]]
}

#[kernel]
fn jacobi(p: &Field<f32, 2>, divergence: &Field<f32, 2>, new_p: &Field<f32, 2>) {
    for [i, j] in p {
        let beside = pressure(p, i - 1, j) + pressure(p, i + 1, j);
        let above = pressure(p, i, j - 1) + pressure(p, i, j + 1);
        new_p[[i, j]] = 0.25 * (beside + above - divergence[[i, j]]);
    }
}

/// Subtracts the pressure gradient, which makes the velocity divergence-free. Nothing flows through the walls.
#[kernel]
fn project(v: &Field<Vec2, 2>, p: &Field<f32, 2>) {
    let last = v.shape();
    for [i, j] in v {
        let x = pressure(p, i + 1, j) - pressure(p, i - 1, j);
        let y = pressure(p, i, j + 1) - pressure(p, i, j - 1);
        let mut flow = v[[i, j]] - vec2(x, y) * 0.5;
        if i == 0 || i == last.x - 1 {
            flow.x = 0.0;
        }
        if j == 0 || j == last.y - 1 {
            flow.y = 0.0;
        }
        v[[i, j]] = flow;
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size();
    let v = [
        world.field::<Vec2, 2>("v", [n, n])?,
        world.field::<Vec2, 2>("new_v", [n, n])?,
    ];
    let dye = [
        world.field::<Vec3, 2>("dye", [n, n])?,
        world.field::<Vec3, 2>("new_dye", [n, n])?,
    ];
    let p = [
        world.field::<f32, 2>("p", [n, n])?,
        world.field::<f32, 2>("new_p", [n, n])?,
    ];
    let div = world.field::<f32, 2>("divergence", [n, n])?;
    dye[0].fill(vec3(0.02, 0.03, 0.06))?;
    let newest = Cell::new(0);
    let mut held: Option<[f32; 2]> = None;
    stage.play(
        |input| {
            let (now, next) = (input.frame % 2, (input.frame + 1) % 2);
            let (v_now, dye_now, v_next, dye_next) = (&v[now], &dye[now], &v[next], &dye[next]);
            let sway = (input.frame as f32 * 0.09).sin() * 0.0012;
            push(
                v_now,
                dye_now,
                vec2(0.12, 0.32),
                vec2(0.0022, sway),
                vec3(1.0, 0.42, 0.1),
            )?;
            push(
                v_now,
                dye_now,
                vec2(0.88, 0.68),
                vec2(-0.0022, sway),
                vec3(0.15, 0.55, 1.0),
            )?;
            if let (Some(at), Some(before)) = (input.pointer, held) {
                let by = vec2(at[0] - before[0], at[1] - before[1]) * 0.1;
                push(v_now, dye_now, Vector(at), by, vec3(0.9, 0.95, 1.0))?;
            }
            held = input.pointer;
            advect(v_now, dye_now, v_next, dye_next)?;
            divergence(v_next, &div)?;
            for step in 0..PRESSURE_STEPS {
                jacobi(&p[step % 2], &div, &p[(step + 1) % 2])?;
            }
            newest.set(next);
            project(v_next, &p[0])
        },
        || dye[newest.get()].to_picture(),
    )?;
    Ok(Summary::new(
        format!("{n}x{n} cells"),
        PRESSURE_STEPS,
        "iterations",
    ))
}
