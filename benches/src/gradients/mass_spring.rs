//! A walking robot of masses and springs, which a small neural network moves.

use wuji::prelude::*;

use super::study::{Program, rows};
use crate::measure::Row;
use crate::study::{Bench, Study};

const MASSES: i32 = 24;
const SPRINGS: i32 = 80;
const STEPS: i32 = 256;
const HIDDEN: i32 = 32;
const INPUTS: i32 = 10;
const DT: f32 = 0.004;

pub struct MassSpring;

#[kernel]
fn hidden_layer(weights: &Field<f32, 2>, hidden: &Field<f32, 2>, t: i32) {
    for h in 0..HIDDEN {
        let mut sum = 0.0;
        for k in 0..INPUTS {
            let phase = t as f32 * 0.05 + k as f32 * 0.6;
            sum += weights[[h, k]] * phase.sin();
        }
        hidden[[t, h]] = sum.tanh();
    }
}

#[kernel]
fn output_layer(weights: &Field<f32, 2>, hidden: &Field<f32, 2>, act: &Field<f32, 2>, t: i32) {
    for s in 0..SPRINGS {
        let mut sum = 0.0;
        for h in 0..HIDDEN {
            sum += weights[[s, h]] * hidden[[t, h]];
        }
        act[[t, s]] = sum.tanh();
    }
}

#[kernel]
fn forces(
    x: &Field<Vec2, 2>,
    ends: &Field<IVec2, 1>,
    length: &Field<f32, 1>,
    act: &Field<f32, 2>,
    force: &Field<Vec2, 2>,
    t: i32,
) {
    for s in 0..SPRINGS {
        let (a, b) = (ends[[s]].x, ends[[s]].y);
        let d = x[[t, a]] - x[[t, b]];
        let now = d.norm() + 1e-4;
        let rest = length[[s]] * (1.0 + 0.1 * act[[t, s]]);
        let f = d * (3000.0 * (now - rest) / now * DT);
        force[[t, a]] -= f;
        force[[t, b]] += f;
    }
}

#[kernel]
fn advance(x: &Field<Vec2, 2>, v: &Field<Vec2, 2>, force: &Field<Vec2, 2>, t: i32) {
    for i in 0..MASSES {
        let u = v[[t, i]] * 0.98 + force[[t, i]] + vec2(0.0, -4.8 * DT);
        let mut next = u;
        if x[[t, i]].y < 0.1 && u.y < 0.0 {
            next = vec2(0.0, 0.0);
        }
        v[[t + 1, i]] = next;
        x[[t + 1, i]] = x[[t, i]] + next * DT;
    }
}

#[kernel]
fn distance(x: &Field<Vec2, 2>, loss: &Field<f32, 0>) {
    for i in 0..MASSES {
        loss[[]] -= x[[STEPS, i]].x / MASSES as f32;
    }
}

fn program(world: &World) -> wuji::Result<Program> {
    let states = [STEPS as i64 + 1, MASSES as i64];
    let x = world.field::<Vec2, 2>("x", states)?.needs_grad()?;
    let v = world.field::<Vec2, 2>("v", states)?.needs_grad()?;
    let force = world.field::<Vec2, 2>("force", states)?.needs_grad()?;
    let hidden = world.field::<f32, 2>("hidden", [STEPS as i64, HIDDEN as i64])?;
    let act = world.field::<f32, 2>("act", [STEPS as i64, SPRINGS as i64])?;
    let (hidden, act) = (hidden.needs_grad()?, act.needs_grad()?);
    let first = world.field::<f32, 2>("first", [HIDDEN as i64, INPUTS as i64])?;
    let second = world.field::<f32, 2>("second", [SPRINGS as i64, HIDDEN as i64])?;
    let (first, second) = (first.needs_grad()?, second.needs_grad()?);
    let ends = world.field::<IVec2, 1>("ends", SPRINGS as i64)?;
    let length = world.field::<f32, 1>("length", SPRINGS as i64)?;
    let loss = world.scalar::<f32>("loss")?.needs_grad()?;
    let place = |i: i32| vec2((i % 6) as f32 * 0.1 + 0.2, (i / 6) as f32 * 0.1 + 0.1);
    let mut start = x.to_vec()?;
    for (i, at) in start.iter_mut().take(MASSES as usize).enumerate() {
        *at = place(i as i32);
    }
    x.copy_from(&start)?;
    let pair = |s: i32| {
        let a = s * 7 % MASSES;
        (a, (a + [1, 5, 6, 7][(s % 4) as usize]) % MASSES)
    };
    let pairs: Vec<(i32, i32)> = (0..SPRINGS).map(pair).collect();
    ends.copy_from(&pairs.iter().map(|p| ivec2(p.0, p.1)).collect::<Vec<_>>())?;
    let apart = |p: &(i32, i32)| (place(p.0) - place(p.1)).norm();
    length.copy_from(&pairs.iter().map(apart).collect::<Vec<_>>())?;
    let noise = |k: usize| crate::case::noise(k) - 0.5;
    first.copy_from(
        &(0..(HIDDEN * INPUTS) as usize)
            .map(noise)
            .collect::<Vec<_>>(),
    )?;
    second.copy_from(
        &(0..(SPRINGS * HIDDEN) as usize)
            .map(noise)
            .collect::<Vec<_>>(),
    )?;
    let gradient = first.grad()?;
    let (run_loss, run_world) = (loss.clone(), world.clone());
    let run = move || -> wuji::Result<()> {
        force.fill(vec2(0.0, 0.0))?;
        for t in 0..STEPS {
            hidden_layer(&first, &hidden, t)?;
            output_layer(&second, &hidden, &act, t)?;
            forces(&x, &ends, &length, &act, &force, t)?;
            advance(&x, &v, &force, t)?;
        }
        distance(&x, &loss)
    };
    let again = run.clone();
    Ok(Program {
        forward: Box::new(run),
        gradient: Box::new(move || run_world.tape(&run_loss, &again)),
        result: Box::new(move || gradient.to_vec()),
    })
}

impl Study for MassSpring {
    fn name(&self) -> &'static str {
        "mass_spring"
    }
    fn size(&self) -> String {
        format!("{SPRINGS} x {STEPS}")
    }
    fn metric(&self) -> &'static str {
        "backward : forward"
    }
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        rows(self, bench, program)
    }
}
