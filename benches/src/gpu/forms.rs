//! The same computation in several forms: over fields and over arrays of the world, as one loop and as nested ones, with a result. Each
//! is compared with the form that comes first.

use super::{Line, timed, world};
use wuji::prelude::*;
use wuji::{Math, Result};

const N: i32 = 4096;
const LONG: usize = 1 << 24;
const BODIES: usize = 8192;

#[kernel]
fn saxpy_field(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[kernel]
fn saxpy_range(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>, n: i32) {
    for i in 0..n {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[kernel]
fn saxpy_array(a: f32, x: &NdArray<f32, 1>, y: &NdArray<f32, 1>) {
    for [i] in y {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[kernel]
fn sum_field(x: &Field<f32, 1>) -> f32 {
    let mut total = 0.0;
    for [i] in x {
        total += x[[i]];
    }
    total
}

#[kernel]
fn sum_range(x: &Field<f32, 1>, n: i32) -> f32 {
    let mut total = 0.0;
    for i in 0..n {
        total += x[[i]];
    }
    total
}

#[kernel]
fn sum_array(x: &NdArray<f32, 1>) -> f32 {
    let mut total = 0.0;
    for [i] in x {
        total += x[[i]];
    }
    total
}

#[kernel]
fn sum_array_range(x: &NdArray<f32, 1>, n: i32) -> f32 {
    let mut total = 0.0;
    for i in 0..n {
        total += x[[i]];
    }
    total
}

#[kernel]
fn sum_to_field(x: &Field<f32, 1>, total: &Field<f32, 0>) {
    for [i] in x {
        total[[]] += x[[i]];
    }
}

#[kernel]
fn jacobi_field(u: &Field<f32, 2>, v: &Field<f32, 2>) {
    for [i, j] in v {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn jacobi_grid(u: &Field<f32, 2>, v: &Field<f32, 2>, n: i32) {
    for [i, j] in grid([0..n, 0..n]) {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn jacobi_nested(u: &Field<f32, 2>, v: &Field<f32, 2>, n: i32) {
    for i in 0..n {
        for j in 0..n {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
    }
}

#[kernel]
fn jacobi_array(u: &NdArray<f32, 2>, v: &NdArray<f32, 2>) {
    for [i, j] in v {
        v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
    }
}

#[kernel]
fn jacobi_nested_array(u: &NdArray<f32, 2>, v: &NdArray<f32, 2>, n: i32) {
    for i in 0..n {
        for j in 0..n {
            v[[i, j]] = 0.25 * (u[[i - 1, j]] + u[[i + 1, j]] + u[[i, j - 1]] + u[[i, j + 1]]);
        }
    }
}

#[kernel]
fn forces(x: &Field<Vec3, 1>, a: &Field<Vec3, 1>, n: i32) {
    for [i] in x {
        let me = x[[i]];
        let mut sum = Vec3::splat(0.0);
        for j in 0..n {
            let d = x[[j]] - me;
            let inverse = (d.norm_sqr() + 1e-4).rsqrt();
            sum += d * (inverse * inverse * inverse);
        }
        a[[i]] = sum;
    }
}

#[kernel]
fn store_pair(a: &Field<f32, 3>, b: &Field<f32, 3>) {
    for [i, j, k] in a {
        a[[i, j, k]] = 1.0;
        b[[i, j, k]] = 2.0;
    }
}

#[kernel]
fn update_pair(a: &Field<f32, 3>, b: &Field<f32, 3>) {
    for [i, j, k] in a {
        a[[i, j, k]] += 0.5 * b[[i, j, k]];
    }
}

/// Lines of the table.
pub(super) fn lines() -> Result<Vec<Line>> {
    let mut lines = memory_lines()?;
    lines.extend(jacobi_lines()?);
    lines.extend(solver_lines()?);
    lines.extend(other_lines()?);
    Ok(lines)
}

/// Adds a form; the first of a name is the best one.
fn add(lines: &mut Vec<Line>, name: &'static str, form: &str, metric: &'static str, value: f64) {
    let best = lines.iter().find(|l| l.name == name).map(|l| l.value);
    lines.push(Line {
        name,
        size: form.to_owned(),
        metric,
        value,
        against: if best.is_some() { "the first form" } else { "" },
        reference: best,
    });
}

fn memory_lines() -> Result<Vec<Line>> {
    let world = world(Math::default())?;
    let mut lines = Vec::new();
    let x = world.field::<f32, 1>("x", LONG)?;
    let y = world.field::<f32, 1>("y", LONG)?;
    let p = world.nd_array::<f32, 1>("p", LONG)?;
    let q = world.nd_array::<f32, 1>("q", LONG)?;
    let total = world.scalar::<f32>("total")?;
    let n = LONG as i32;
    let speed = |bytes: usize, time: f64| (bytes * LONG) as f64 / time / 1e9;
    let mut saxpy = |form, time| add(&mut lines, "forms saxpy", form, "GB/s", speed(12, time));
    saxpy("field", timed(&world, || saxpy_field(0.5, &x, &y))?);
    saxpy("range", timed(&world, || saxpy_range(0.5, &x, &y, n))?);
    saxpy("array", timed(&world, || saxpy_array(0.5, &p, &q))?);
    let mut sum = |form, time| add(&mut lines, "forms sum", form, "GB/s", speed(4, time));
    sum("into a field", timed(&world, || sum_to_field(&x, &total))?);
    sum("field", timed(&world, || sum_field(&x).map(drop))?);
    sum("range", timed(&world, || sum_range(&x, n).map(drop))?);
    sum("array", timed(&world, || sum_array(&p).map(drop))?);
    sum(
        "array, range",
        timed(&world, || sum_array_range(&p, n).map(drop))?,
    );
    Ok(lines)
}

fn jacobi_lines() -> Result<Vec<Line>> {
    let world = world(Math::default())?;
    let mut lines = Vec::new();
    let shape = [i64::from(N), i64::from(N)];
    let (u, v) = (world.field("u", shape)?, world.field("v", shape)?);
    let (p, q) = (world.nd_array("p", shape)?, world.nd_array("q", shape)?);
    let speed = |time: f64| 8.0 * f64::from(N) * f64::from(N) / time / 1e9;
    let mut form = |form, time| add(&mut lines, "forms jacobi", form, "GB/s", speed(time));
    form("field", timed(&world, || jacobi_field(&u, &v))?);
    form("grid", timed(&world, || jacobi_grid(&u, &v, N))?);
    form("nested", timed(&world, || jacobi_nested(&u, &v, N))?);
    form("array", timed(&world, || jacobi_array(&p, &q))?);
    form(
        "nested array",
        timed(&world, || jacobi_nested_array(&p, &q, N))?,
    );
    Ok(lines)
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
fn solve(u: &Field<f32, 2>, v: &Field<f32, 2>, rounds: i32) {
    let mut error = 1.0f32;
    let mut k = 0;
    while error > 0.0 && k < rounds {
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
        k += 1;
    }
}

/// The time of a launch on the clock of the host.
fn elapsed(world: &World, mut launch: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..3 {
        launch()?;
    }
    world.finish_compiling()?;
    let mut times = Vec::new();
    for _ in 0..super::RUNS {
        let begun = std::time::Instant::now();
        launch()?;
        world.synchronize()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(super::median(times))
}

/// An iterative solver, as kernels that the host launches and as one kernel.
fn solver_lines() -> Result<Vec<Line>> {
    const ROUNDS: i32 = 100;
    let world = world(Math::default())?;
    let mut lines = Vec::new();
    let sizes = [
        ("forms solver 256", 256i64),
        ("forms solver 1024", 1024),
        ("forms solver 4096", 4096),
    ];
    for (name, n) in sizes {
        let (u, v) = (world.field("u", [n, n])?, world.field("v", [n, n])?);
        u.fill(1.0)?;
        let speed = |time: f64| 24.0 * f64::from(ROUNDS) * (n * n) as f64 / time / 1e9;
        let mut form = |form, time| add(&mut lines, name, form, "GB/s", speed(time));
        let launched = || {
            let (mut error, mut k) = (1.0, 0);
            while error > 0.0 && k < ROUNDS {
                jacobi_field(&u, &v)?;
                jacobi_field(&v, &u)?;
                error = distance(&u, &v)?;
                k += 1;
            }
            Ok(())
        };
        form("launched by the host", elapsed(&world, launched)?);
        let whole = || solve(&u, &v, ROUNDS);
        form("while in one kernel", elapsed(&world, whole)?);
    }
    Ok(lines)
}

/// Pairs of bodies per nanosecond.
fn nbody(world: &World) -> Result<f64> {
    let x = world.field::<Vec3, 1>("x", BODIES)?;
    let a = world.field::<Vec3, 1>("a", BODIES)?;
    let start =
        (0..BODIES).map(|i| vec3((i as f32).sin(), (i as f32 * 0.7).cos(), i as f32 * 1e-4));
    x.copy_from(&start.collect::<Vec<_>>())?;
    let time = timed(world, || forces(&x, &a, BODIES as i32))?;
    Ok((BODIES * BODIES) as f64 / time / 1e9)
}

fn other_lines() -> Result<Vec<Line>> {
    let world = world(Math::default())?;
    let mut lines = Vec::new();
    add(
        &mut lines,
        "forms nbody",
        "8192",
        "G pairs/s",
        nbody(&world)?,
    );
    let fast = nbody(&self::world(Math::Fast)?)?;
    add(
        &mut lines,
        "forms nbody",
        "8192, fast math",
        "G pairs/s",
        fast,
    );
    let (b, c) = world.layout(|root| {
        let cell = root.dense(IJK, 256);
        (cell.place::<f32, 3>("b"), cell.place::<f32, 3>("c"))
    })?;
    let cells = |time: f64| 256f64.powi(3) / time / 1e9;
    let mut pair = |form, time| add(&mut lines, "forms pair", form, "G cells/s", cells(time));
    pair("store", timed(&world, || store_pair(&b, &c))?);
    pair("update", timed(&world, || update_pair(&b, &c))?);
    Ok(lines)
}
