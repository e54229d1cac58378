//! Elastic MLS-MPM in two dimensions: by which initial velocity does a body reach a target?

use wuji::prelude::*;

use super::adjoint::{self, DT, DX, GRAVITY, GRID, LAMBDA, MU, PARTICLES, STEPS, STRESS, WALL};
use super::study::{Program, rows};
use crate::case::made;
use crate::measure::{Row, interleave};
use crate::study::{Bench, Study, agree};

pub struct DiffMpm;

/// Weights of the three nodes around a particle, one row for each.
#[func]
fn spline(f: Vec2) -> Matrix<f32, 3, 2> {
    let (a, b, c) = (vec2(1.5, 1.5) - f, f - vec2(1.0, 1.0), f - vec2(0.5, 0.5));
    Matrix::from_rows([a * a * 0.5, vec2(0.75, 0.75) - b * b, c * c * 0.5])
}

#[kernel]
fn begin(v: &Field<Vec2, 2>, velocity: &Field<Vec2, 0>) {
    for p in 0..PARTICLES as i32 {
        v[[0, p]] = velocity[[]];
    }
}

#[kernel]
fn clear(momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>) {
    for [i, j] in mass {
        momentum[[i, j]] = vec2(0.0, 0.0);
        mass[[i, j]] = 0.0;
    }
}

#[kernel]
fn p2g(
    x: &Field<Vec2, 2>,
    v: &Field<Vec2, 2>,
    c: &Field<Mat2, 2>,
    f: &Field<Mat2, 2>,
    momentum: &Field<Vec2, 2>,
    mass: &Field<f32, 2>,
    t: i32,
) {
    for p in 0..PARTICLES as i32 {
        let at = x[[t, p]] * GRID as f32;
        let base = (at - vec2(0.5, 0.5)).cast::<i32>();
        let d = at - base.cast::<f32>();
        let w = spline(d);
        let deformed = (Mat2::identity() + c[[t, p]] * DT) * f[[t, p]];
        f[[t + 1, p]] = deformed;
        let volume = LAMBDA * deformed.determinant().ln();
        let stress = deformed * deformed.transpose() * MU + Mat2::identity() * (volume - MU);
        let affine = stress * STRESS + c[[t, p]];
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let to = (offset.cast::<f32>() - d) * DX;
                let weight = w[[i, 0]] * w[[j, 1]];
                momentum[base + offset] += (v[[t, p]] + affine * to) * weight;
                mass[base + offset] += weight;
            }
        }
    }
}

#[kernel]
fn update(momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>, velocity: &Field<Vec2, 2>) {
    for [i, j] in mass {
        let mut u = momentum[[i, j]] / (mass[[i, j]] + 1e-10);
        u.y -= DT * GRAVITY;
        let (wall, n) = (WALL as i32, GRID as i32);
        if i < wall && u.x < 0.0 || i + wall > n && u.x > 0.0 {
            u.x = 0.0;
        }
        if j < wall && u.y < 0.0 || j + wall > n && u.y > 0.0 {
            u.y = 0.0;
        }
        velocity[[i, j]] = u;
    }
}

#[kernel]
fn g2p(
    x: &Field<Vec2, 2>,
    v: &Field<Vec2, 2>,
    c: &Field<Mat2, 2>,
    velocity: &Field<Vec2, 2>,
    t: i32,
) {
    for p in 0..PARTICLES as i32 {
        let at = x[[t, p]] * GRID as f32;
        let base = (at - vec2(0.5, 0.5)).cast::<i32>();
        let d = at - base.cast::<f32>();
        let w = spline(d);
        let mut next = vec2(0.0, 0.0);
        let mut affine = Mat2::splat(0.0);
        for i in unroll(0..3) {
            for j in unroll(0..3) {
                let offset = ivec2(i, j);
                let to = offset.cast::<f32>() - d;
                let u = velocity[base + offset] * (w[[i, 0]] * w[[j, 1]]);
                next += u;
                affine += u.outer(to) * (4.0 * GRID as f32);
            }
        }
        v[[t + 1, p]] = next;
        c[[t + 1, p]] = affine;
        x[[t + 1, p]] = x[[t, p]] + next * DT;
    }
}

#[kernel]
fn distance(x: &Field<Vec2, 2>, loss: &Field<f32, 0>) {
    for p in 0..PARTICLES as i32 {
        let d = x[[STEPS as i32, p]] - vec2(adjoint::TARGET[0], adjoint::TARGET[1]);
        loss[[]] += d.dot(d) / PARTICLES as f32;
    }
}

fn program(world: &World) -> wuji::Result<Program> {
    let states = [STEPS as i64 + 1, PARTICLES as i64];
    let grid = [GRID as i64; 2];
    let x = world.field::<Vec2, 2>("x", states)?.needs_grad()?;
    let v = world.field::<Vec2, 2>("v", states)?.needs_grad()?;
    let c = world.field::<Mat2, 2>("c", states)?.needs_grad()?;
    let f = world.field::<Mat2, 2>("f", states)?.needs_grad()?;
    let momentum = world.field::<Vec2, 2>("momentum", grid)?.needs_grad()?;
    let mass = world.field::<f32, 2>("mass", grid)?.needs_grad()?;
    let velocity = world.field::<Vec2, 2>("velocity", grid)?.needs_grad()?;
    let loss = world.scalar::<f32>("loss")?.needs_grad()?;
    let start = world.scalar::<Vec2>("start")?.needs_grad()?;
    let positions = adjoint::start();
    let mut all = x.to_vec()?;
    for (at, position) in all.iter_mut().zip(positions) {
        *at = Vector(position);
    }
    x.copy_from(&all)?;
    f.fill(Mat2::identity())?;
    start.set((), Vector(adjoint::VELOCITY))?;
    let gradient = start.grad()?;
    let (run_loss, run_world) = (loss.clone(), world.clone());
    let run = move || -> wuji::Result<()> {
        begin(&v, &start)?;
        for t in 0..STEPS as i32 {
            clear(&momentum, &mass)?;
            p2g(&x, &v, &c, &f, &momentum, &mass, t)?;
            update(&momentum, &mass, &velocity)?;
            g2p(&x, &v, &c, &velocity, t)?;
        }
        distance(&x, &loss)
    };
    let again = run.clone();
    Ok(Program {
        forward: Box::new(run),
        gradient: Box::new(move || run_world.tape(&run_loss, &again)),
        result: Box::new(move || Ok(gradient.get(())?.0.to_vec())),
    })
}

impl Study for DiffMpm {
    fn name(&self) -> &'static str {
        "diffmpm"
    }
    fn size(&self) -> String {
        format!("{PARTICLES} x {STEPS}")
    }
    fn metric(&self) -> &'static str {
        "gradients/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let mut out = Vec::new();
        let world = bench.world(&[])?;
        let [_, mut wuji] = program(&world).map_err(|e| e.to_string())?.contenders();
        let pool = bench.pool.clone();
        let mut reference = made(
            adjoint::State::new(pool.threads()),
            move |s| {
                adjoint::forward(s, &pool);
                adjoint::backward(s, &pool);
            },
            |s| s.gradient.to_vec(),
        );
        agree(self, &mut *wuji, &mut *reference, 1e-3)?;
        let pair = interleave(&mut *wuji, &mut *reference, bench.pairs, bench.clock)?;
        out.push(Row {
            workload: self.name().into(),
            size: self.size(),
            backend: "cpu".into(),
            metric: self.metric().into(),
            value: 1.0 / pair.first_s,
            reference: 1.0 / pair.second_s,
            ratio: pair.ratio,
            compile_ms: None,
        });
        out.extend(rows(self, bench, program)?);
        Ok(out)
    }
}
