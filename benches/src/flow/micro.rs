//! The ten microbenchmarks of the paper: each tests one rule.

// Windows of fields with one index.
#![allow(clippy::single_range_in_vec_init)]

use wuji::prelude::*;

use super::{Make, Program, Size, repeated};
use crate::case::Contender;

/// The programs, in the order of the paper.
pub const ALL: [Program; 10] = [
    program("flow chain_copy", "2^20", chain_copy),
    program("flow increments", "2^20", increments),
    program("flow fill_array", "2^20", fill_array),
    program("flow sparse_saxpy", "2^18 active", sparse_saxpy),
    program("flow autodiff", "2^20", autodiff),
    program("flow stencil_reduction", "2^20", stencil_reduction),
    program("flow mpm_splitted", "2^18 particles", mpm_splitted),
    program(
        "flow simple_advection",
        "512x512, 3 fields",
        simple_advection,
    ),
    program("flow multires", "1024x1024, sparse", multires),
    program("flow deep_hierarchy", "2^18 active", deep_hierarchy),
];

const fn program(name: &'static str, size: &'static str, make: Make) -> Program {
    Program {
        name,
        sizes: [size, size, size],
        make,
        by_hand: None,
        tolerance: 1e-5,
    }
}

/// How many times larger a program is than on a CPU.
fn factor(size: Size) -> i64 {
    match size {
        Size::Quick | Size::Paper => 1,
        Size::Gpu => 16,
    }
}

#[kernel]
fn copy_plus(x: &Field<f32, 1>, y: &Field<f32, 1>, amount: f32) {
    for [i] in x {
        y[[i]] = x[[i]] + amount;
    }
}

#[kernel]
fn add(x: &Field<f32, 1>, amount: f32) {
    for [i] in x {
        x[[i]] += amount;
    }
}

#[kernel]
fn fill(x: &Field<f32, 1>, value: f32) {
    for [i] in x {
        x[[i]] = value;
    }
}

#[kernel]
fn saxpy(x: &Field<f32, 2>, y: &Field<f32, 2>, a: f32) {
    for [i, j] in y {
        y[[i, j]] = a * x[[i, j]] + 0.5 * y[[i, j]];
    }
}

#[kernel]
fn energy(x: &Field<f32, 1>, loss: &Field<f32, 0>) {
    loss[[]] = 0.0;
    for [i] in x {
        loss[[]] += x[[i]] * x[[i]];
    }
}

/// What reverse mode makes of `energy`, added up.
#[kernel]
fn energy_gradient(x: &Field<f32, 1>, gradient: &Field<f32, 1>) {
    for [i] in x {
        gradient[[i]] += 2.0 * x[[i]];
    }
}

#[kernel]
fn stencil(x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in x {
        y[[i]] = 0.25 * x[[i - 1]] + 0.5 * x[[i]] + 0.25 * x[[i + 1]];
    }
}

#[kernel]
fn reduce(x: &Field<f32, 1>, sum: &Field<f32, 0>) {
    sum[[]] = 0.0;
    for [i] in x {
        sum[[]] += x[[i]];
    }
}

#[kernel]
fn gravity(v: &Field<Vec2, 1>, dt: f32) {
    for [i] in v {
        v[[i]].y -= 9.8 * dt;
    }
}

#[kernel]
fn stress(f: &Field<Mat2, 1>, c: &Field<Mat2, 1>, dt: f32) {
    for [i] in f {
        f[[i]] = f[[i]] + dt * c[[i]] * f[[i]];
    }
}

#[kernel]
fn damp(c: &Field<Mat2, 1>) {
    for [i] in c {
        c[[i]] = c[[i]] * 0.999;
    }
}

#[kernel]
fn walls(x: &Field<Vec2, 1>, v: &Field<Vec2, 1>) {
    for [i] in x {
        if x[[i]].y < 0.05 && v[[i]].y < 0.0 {
            v[[i]].y = 0.0;
        }
    }
}

#[kernel]
fn advance(x: &Field<Vec2, 1>, v: &Field<Vec2, 1>, dt: f32) {
    for [i] in x {
        x[[i]] += dt * v[[i]];
    }
}

#[kernel]
fn advect(u: &Field<Vec2, 2>, from: &Field<f32, 2>, to: &Field<f32, 2>, dt: f32) {
    for [i, j] in to {
        let back = vec2(i as f32, j as f32) - dt * u[[i, j]];
        let (a, b) = (back.x.floor(), back.y.floor());
        let (s, t) = (back.x - a, back.y - b);
        let (p, q) = (a as i32, b as i32);
        let lower = from[[p, q]] * (1.0 - t) + from[[p, q + 1]] * t;
        let upper = from[[p + 1, q]] * (1.0 - t) + from[[p + 1, q + 1]] * t;
        to[[i, j]] = lower * (1.0 - s) + upper * s;
    }
}

#[kernel]
fn downsample(x: &Field<f32, 2>, y: &Field<f32, 2>) {
    for [i, j] in x {
        y[[i / 2, j / 2]] += 0.25 * x[[i, j]];
    }
}

#[kernel]
fn scale(x: &Field<f32, 2>, factor: f32) {
    for [i, j] in x {
        x[[i, j]] *= factor;
    }
}

#[kernel]
fn jitter(x: &Field<f32, 1>) {
    for [i] in x {
        if i % 2 == 0 {
            x[[i]] += x[[i + 1]];
        }
    }
}

fn line(world: &World, size: Size, name: &str) -> wuji::Result<Field<f32, 1>> {
    world.field(name, [factor(size) << 20])
}

/// The first elements of a field.
fn first(x: &Field<f32, 1>) -> impl Fn() -> wuji::Result<Vec<f32>> + use<> {
    let x = x.clone();
    move || x.window([0..1000])?.to_vec()
}

fn corner(x: &Field<f32, 2>, from: i64, to: i64) -> impl Fn() -> wuji::Result<Vec<f32>> + use<> {
    let x = x.clone();
    move || x.window([from..to, from..to])?.to_vec()
}

fn chain_copy(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let (x, y) = (line(world, size, "x")?, line(world, size, "y")?);
    let z = line(world, size, "z")?;
    let result = first(&z);
    let run = move || copy_plus(&x, &y, 1.0).and_then(|()| copy_plus(&y, &z, 4.0));
    Ok(repeated(world, 1, run, result))
}

fn increments(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let x = line(world, size, "x")?;
    let result = first(&x);
    Ok(repeated(world, 10, move || add(&x, 1.0), result))
}

fn fill_array(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let x = line(world, size, "x")?;
    let result = first(&x);
    Ok(repeated(world, 10, move || fill(&x, 3.0), result))
}

fn sparse_saxpy(world: &World, _: Size) -> wuji::Result<Box<dyn Contender>> {
    let (x, y) = world.layout(|root| {
        let cell = root.pointer(IJ, 64).dense(IJ, 16);
        (cell.place::<f32, 2>("x"), cell.place::<f32, 2>("y"))
    })?;
    activate_blocks(&x, 1024)?;
    let result = corner(&y, 0, 16);
    Ok(repeated(world, 8, move || saxpy(&x, &y, 0.5), result))
}

/// Stores ones in every second block of 16 x 16 cells, in both directions.
fn activate_blocks(x: &Field<f32, 2>, count: i64) -> wuji::Result<()> {
    let block = [1.0f32; 256];
    (0..count).try_for_each(|k| {
        let (i, j) = (k % 32 * 2, k / 32 * 2);
        let window = x.window([16 * i..16 * i + 16, 16 * j..16 * j + 16])?;
        window.copy_from(&block)
    })
}

fn autodiff(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let (x, g) = (line(world, size, "x")?, line(world, size, "g")?);
    let loss = world.scalar::<f32>("loss")?;
    x.fill(0.5)?;
    let result = first(&g);
    let run = move || energy(&x, &loss).and_then(|()| energy_gradient(&x, &g));
    Ok(repeated(world, 10, run, result))
}

fn stencil_reduction(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let (x, y) = (line(world, size, "x")?, line(world, size, "y")?);
    let sum = world.scalar::<f32>("sum")?;
    x.fill(0.5)?;
    let result = first(&y);
    let run = move || {
        stencil(&x, &y)?;
        reduce(&y, &sum)?;
        stencil(&y, &x)
    };
    Ok(repeated(world, 3, run, result))
}

fn mpm_splitted(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let n = [factor(size) << 18];
    let x = world.field::<Vec2, 1>("x", n)?;
    let v = world.field::<Vec2, 1>("v", n)?;
    let f = world.field::<Mat2, 1>("f", n)?;
    let c = world.field::<Mat2, 1>("c", n)?;
    let out = x.clone();
    let run = move || {
        stress(&f, &c, 1e-4)?;
        damp(&c)?;
        gravity(&v, 1e-4)?;
        walls(&x, &v)?;
        advance(&x, &v, 1e-4)
    };
    Ok(repeated(world, 5, run, move || {
        let first = out.window([0..1000])?.to_vec()?;
        Ok(first.iter().map(|x| x.y).collect())
    }))
}

fn simple_advection(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let n = [512 * factor(size), 512];
    let u = world.field::<Vec2, 2>("u", n)?;
    u.fill(vec2(0.3, 0.7))?;
    let pair = |name: &str| {
        let field = |end: &str| world.field::<f32, 2>(&format!("{name}{end}"), n);
        field("0").and_then(|x| Ok((x, field("1")?)))
    };
    let fields = ["a", "b", "c"].into_iter().map(pair);
    let fields = fields.collect::<wuji::Result<Vec<_>>>()?;
    for (x, _) in &fields {
        x.fill(1.0)?;
    }
    let result = corner(&fields[0].1, 100, 110);
    let run = move || fields.iter().try_for_each(|(x, y)| advect(&u, x, y, 1.0));
    Ok(repeated(world, 1, run, result))
}

fn multires(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let levels = (0..4).map(|level| {
        let blocks = (64 * factor(size)) >> level;
        world.layout(|root| {
            let cell = root.pointer(IJ, [blocks, 64 >> level]).dense(IJ, 16);
            cell.place::<f32, 2>(&format!("level{level}"))
        })
    });
    let levels = levels.collect::<wuji::Result<Vec<_>>>()?;
    activate_blocks(&levels[0], 512)?;
    let result = corner(&levels[3], 0, 16);
    let run = move || {
        levels.windows(2).try_for_each(|pair| {
            scale(&pair[1], 0.5)?;
            downsample(&pair[0], &pair[1])
        })
    };
    Ok(repeated(world, 3, run, result))
}

fn deep_hierarchy(world: &World, _: Size) -> wuji::Result<Box<dyn Contender>> {
    let x = world.layout(|root| {
        let deep = root.pointer(I, 16).pointer(I, 16).pointer(I, 16);
        deep.dense(I, 64).place::<f32, 1>("x")
    })?;
    for k in 0..2048 {
        x.set(k * 128, 1.0)?;
    }
    let out = x.clone();
    let result = move || out.window([0..128])?.to_vec();
    Ok(repeated(world, 5, move || jitter(&x), result))
}
