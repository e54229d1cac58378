//! An iterative solver: a kernel for each step, launched by the host, and the whole loop as one kernel.

use super::{Form, Forms};
use crate::case::{Contender, launches, noise};
use wuji::prelude::*;

const N: usize = 1024;
const SWEEPS: i32 = 20;

pub(super) fn all() -> Vec<Forms> {
    vec![solver()]
}

#[kernel]
fn sweep(u: &Field<f32, 2>, v: &Field<f32, 2>) {
    for [i, j] in v {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn distance(u: &Field<f32, 2>, v: &Field<f32, 2>) -> f32 {
    let mut sum = 0.0;
    for [i, j] in u {
        let d = u[[i, j]] - v[[i, j]];
        sum += d * d;
    }
    sum
}

/// Sweeps until two iterates are close to each other, which they never are.
#[kernel]
fn solve(u: &Field<f32, 2>, v: &Field<f32, 2>) {
    let mut error = 1.0f32;
    let mut sweeps = 0;
    while error > 0.0 && sweeps < SWEEPS {
        for [i, j] in v {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
        for [i, j] in u {
            u[[i, j]] = 0.25 * (v[[i - 1, j]] + v[[i + 1, j]] + v[[i, j - 1]] + v[[i, j + 1]]);
        }
        error = 0.0;
        for [i, j] in u {
            let d = u[[i, j]] - v[[i, j]];
            error += d * d;
        }
        sweeps += 2;
    }
}

fn fields(world: &World) -> wuji::Result<(Field<f32, 2>, Field<f32, 2>)> {
    let u = world.field::<f32, 2>("u", [N, N])?;
    let v = world.field::<f32, 2>("v", [N, N])?;
    let start: Vec<f32> = (0..N * N).map(noise).collect();
    u.copy_from(&start)?;
    Ok((u, v))
}

fn launched(world: &World) -> wuji::Result<Box<dyn Contender>> {
    let (u, v) = fields(world)?;
    let out = u.clone();
    let run = move || {
        let (mut error, mut sweeps) = (1.0, 0);
        while error > 0.0 && sweeps < SWEEPS {
            sweep(&u, &v)?;
            sweep(&v, &u)?;
            error = distance(&u, &v)?;
            sweeps += 2;
        }
        Ok(())
    };
    Ok(launches(run, move || out.to_vec()))
}

fn in_one_kernel(world: &World) -> wuji::Result<Box<dyn Contender>> {
    let (u, v) = fields(world)?;
    let out = u.clone();
    Ok(launches(move || solve(&u, &v), move || out.to_vec()))
}

fn solver() -> Forms {
    let form = |name, make| Form {
        name,
        without: &[],
        make,
    };
    // Each sweep reads a field and writes the other; every second one, both are read again.
    let bytes = 4.0 * 3.0 * f64::from(SWEEPS) * (N * N) as f64;
    Forms {
        name: "forms solver",
        size: "1024x1024, 20 sweeps",
        metric: "GB/s",
        work: bytes / 1e9,
        tolerance: 1e-6,
        forms: vec![
            form("launched by the host", launched as fn(&World) -> _),
            form("while in one kernel", in_one_kernel),
            Form {
                name: "while on one thread",
                without: &["parallelize"],
                make: in_one_kernel,
            },
        ],
    }
}
