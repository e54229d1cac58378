//! Stencils at periodic and clamped boundaries: split by hand, and with boundaries in the indices.

use wuji::prelude::*;

use super::{Form, Forms};
use crate::case::{Contender, launches, noise};

/// Both fields stay in a cache, where indices that are gathered cost most.
const N: i32 = 512;

pub(super) fn all() -> Vec<Forms> {
    vec![periodic(), clamped()]
}

type Grid = Field<f32, 2>;

/// The interior, then the four edges.
#[kernel]
fn periodic_split(u: &Grid, v: &Grid, n: i32) {
    for [i, j] in grid([1..n - 1, 1..n - 1]) {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
    for k in 1..n - 1 {
        v[[0, k]] = 0.25 * (u[[n - 1, k]] + u[[1, k]] + u[[0, k - 1]] + u[[0, k + 1]]);
        v[[n - 1, k]] = 0.25 * (u[[n - 2, k]] + u[[0, k]] + u[[n - 1, k - 1]] + u[[n - 1, k + 1]]);
        v[[k, 0]] = 0.25 * (u[[k - 1, 0]] + u[[k + 1, 0]] + u[[k, n - 1]] + u[[k, 1]]);
        v[[k, n - 1]] = 0.25 * (u[[k - 1, n - 1]] + u[[k + 1, n - 1]] + u[[k, n - 2]] + u[[k, 0]]);
    }
    for corner in 0..4 {
        let i = (corner % 2) * (n - 1);
        let j = (corner / 2) * (n - 1);
        let up = (i + n - 1) % n;
        let left = (j + n - 1) % n;
        v[[i, j]] = 0.25 * (u[[up, j]] + u[[(i + 1) % n, j]] + u[[i, left]] + u[[i, (j + 1) % n]]);
    }
}

#[kernel]
fn periodic_select(u: &Grid, v: &Grid, n: i32) {
    for [i, j] in v {
        let up = if i > 0 { i - 1 } else { n - 1 };
        let down = if i + 1 < n { i + 1 } else { 0 };
        let left = if j > 0 { j - 1 } else { n - 1 };
        let right = if j + 1 < n { j + 1 } else { 0 };
        v[[i, j]] = 0.25 * (u[[up, j]] + u[[down, j]] + u[[i, left]] + u[[i, right]]);
    }
}

#[kernel]
fn periodic_remainder(u: &Grid, v: &Grid, n: i32) {
    for [i, j] in v {
        let (up, down) = ((i - 1 + n) % n, (i + 1) % n);
        let (left, right) = ((j - 1 + n) % n, (j + 1) % n);
        v[[i, j]] = 0.25 * (u[[up, j]] + u[[down, j]] + u[[i, left]] + u[[i, right]]);
    }
}

#[kernel]
fn periodic_nested(u: &Grid, v: &Grid, n: i32) {
    for i in 0..n {
        for j in 0..n {
            let (up, down) = ((i - 1 + n) % n, (i + 1) % n);
            let (left, right) = ((j - 1 + n) % n, (j + 1) % n);
            v[[i, j]] = 0.25 * (u[[up, j]] + u[[down, j]] + u[[i, left]] + u[[i, right]]);
        }
    }
}

#[kernel]
fn clamped_split(u: &Grid, v: &Grid, n: i32) {
    for [i, j] in grid([1..n - 1, 1..n - 1]) {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
    for k in 1..n - 1 {
        v[[0, k]] = 0.25 * (u[[0, k]] + u[[1, k]] + u[[0, k - 1]] + u[[0, k + 1]]);
        v[[n - 1, k]] =
            0.25 * (u[[n - 2, k]] + u[[n - 1, k]] + u[[n - 1, k - 1]] + u[[n - 1, k + 1]]);
        v[[k, 0]] = 0.25 * (u[[k - 1, 0]] + u[[k + 1, 0]] + u[[k, 0]] + u[[k, 1]]);
        v[[k, n - 1]] =
            0.25 * (u[[k - 1, n - 1]] + u[[k + 1, n - 1]] + u[[k, n - 2]] + u[[k, n - 1]]);
    }
    for corner in 0..4 {
        let i = (corner % 2) * (n - 1);
        let j = (corner / 2) * (n - 1);
        let (up, down) = ((i - 1).max(0), (i + 1).min(n - 1));
        let (left, right) = ((j - 1).max(0), (j + 1).min(n - 1));
        v[[i, j]] = 0.25 * (u[[up, j]] + u[[down, j]] + u[[i, left]] + u[[i, right]]);
    }
}

#[kernel]
fn clamped_indices(u: &Grid, v: &Grid, n: i32) {
    for [i, j] in v {
        let (up, down) = ((i - 1).max(0), (i + 1).min(n - 1));
        let (left, right) = ((j - 1).max(0), (j + 1).min(n - 1));
        v[[i, j]] = 0.25 * (u[[up, j]] + u[[down, j]] + u[[i, left]] + u[[i, right]]);
    }
}

/// A sweep over fields.
fn sweep(
    world: &World,
    run: fn(&Grid, &Grid, i32) -> wuji::Result<()>,
) -> wuji::Result<Box<dyn Contender>> {
    let [u, v] = ["u", "v"].map(|name| world.field::<f32, 2>(name, [N, N]));
    let (u, v) = (u?, v?);
    let start: Vec<f32> = (0..(N * N) as usize).map(noise).collect();
    u.copy_from(&start)?;
    let out = v.clone();
    Ok(launches(move || run(&u, &v, N), move || out.to_vec()))
}

fn forms(name: &'static str, forms: Vec<Form>) -> Forms {
    Forms {
        name,
        size: "512x512",
        metric: "Gcells/s",
        work: f64::from(N * N) / 1e9,
        tolerance: 1e-6,
        forms,
    }
}

fn form(name: &'static str, make: fn(&World) -> wuji::Result<Box<dyn Contender>>) -> Form {
    Form {
        name,
        without: &[],
        make,
    }
}

fn periodic() -> Forms {
    let all = vec![
        form("split by hand", |w| sweep(w, periodic_split)),
        form("comparison", |w| sweep(w, periodic_select)),
        form("remainder", |w| sweep(w, periodic_remainder)),
        form("nested, remainder", |w| sweep(w, periodic_nested)),
    ];
    forms("forms periodic", all)
}

fn clamped() -> Forms {
    let all = vec![
        form("split by hand", |w| sweep(w, clamped_split)),
        form("minimum and maximum", |w| sweep(w, clamped_indices)),
    ];
    forms("forms clamped", all)
}
