//! The ten microbenchmarks of inter-kernel optimization: the same launches in a lazy world and in an eager one.

// Windows of fields with one index.
#![allow(clippy::single_range_in_vec_init)]

use wuji::prelude::*;
use wuji::{LazyStatistics, World};

use crate::case::{Contender, launches};
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

/// Which program.
#[derive(Copy, Clone, Debug)]
pub enum Program {
    ChainCopy,
    Increments,
    FillArray,
    SparseSaxpy,
    AutoDiff,
    StencilReduction,
    MpmSplitted,
    SimpleAdvection,
    MultiRes,
    DeepHierarchy,
}

impl Program {
    pub const ALL: [Program; 10] = [
        Program::ChainCopy,
        Program::Increments,
        Program::FillArray,
        Program::SparseSaxpy,
        Program::AutoDiff,
        Program::StencilReduction,
        Program::MpmSplitted,
        Program::SimpleAdvection,
        Program::MultiRes,
        Program::DeepHierarchy,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Program::ChainCopy => "flow chain_copy",
            Program::Increments => "flow increments",
            Program::FillArray => "flow fill_array",
            Program::SparseSaxpy => "flow sparse_saxpy",
            Program::AutoDiff => "flow autodiff",
            Program::StencilReduction => "flow stencil_reduction",
            Program::MpmSplitted => "flow mpm_splitted",
            Program::SimpleAdvection => "flow simple_advection",
            Program::MultiRes => "flow multires",
            Program::DeepHierarchy => "flow deep_hierarchy",
        }
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

/// A program of a world; `scale` makes it larger for a GPU.
pub fn contender(program: Program, world: &World, factor: i64) -> wuji::Result<Box<dyn Contender>> {
    let line = |name: &str| world.field::<f32, 1>(name, [factor << 20]);
    let point = |name: &str| world.field::<f32, 0>(name, [0_usize; 0]);
    let synchronized = world.clone();
    let done = move |launched: wuji::Result<()>| launched.and_then(|()| synchronized.synchronize());
    Ok(match program {
        Program::ChainCopy => {
            let (x, y, z) = (line("x")?, line("y")?, line("z")?);
            let out = z.clone();
            let run = move || done(copy_plus(&x, &y, 1.0).and_then(|()| copy_plus(&y, &z, 4.0)));
            launches(run, move || out.window([0..1000])?.to_vec())
        }
        Program::Increments => {
            let x = line("x")?;
            let out = x.clone();
            let run = move || done((0..10).try_for_each(|_| add(&x, 1.0)));
            launches(run, move || out.window([0..1000])?.to_vec())
        }
        Program::FillArray => {
            let x = line("x")?;
            let out = x.clone();
            let run = move || done((0..10).try_for_each(|_| fill(&x, 3.0)));
            launches(run, move || out.window([0..1000])?.to_vec())
        }
        Program::SparseSaxpy => {
            let (x, y) = world.layout(|root| {
                let cell = root.pointer(IJ, 64).dense(IJ, 16);
                (cell.place::<f32, 2>("x"), cell.place::<f32, 2>("y"))
            })?;
            let block = [1.0f32; 256];
            for k in 0..1024 {
                let (i, j) = (k % 32 * 2, k / 32 * 2);
                x.window([16 * i..16 * i + 16, 16 * j..16 * j + 16])?
                    .copy_from(&block)?;
            }
            let out = y.clone();
            let run = move || done((0..8).try_for_each(|_| saxpy(&x, &y, 0.5)));
            launches(run, move || out.window([0..16, 0..16])?.to_vec())
        }
        Program::AutoDiff => {
            let (x, g, loss) = (line("x")?, line("g")?, point("loss")?);
            x.fill(0.5)?;
            let out = g.clone();
            let run = move || {
                done((0..10).try_for_each(|_| {
                    energy(&x, &loss)?;
                    energy_gradient(&x, &g)
                }))
            };
            launches(run, move || out.window([0..1000])?.to_vec())
        }
        Program::StencilReduction => {
            let (x, y, sum) = (line("x")?, line("y")?, point("sum")?);
            x.fill(0.5)?;
            let out = y.clone();
            let run = move || {
                done((0..3).try_for_each(|_| {
                    stencil(&x, &y)?;
                    reduce(&y, &sum)?;
                    stencil(&y, &x)
                }))
            };
            launches(run, move || out.window([0..1000])?.to_vec())
        }
        Program::MpmSplitted => {
            let n = [factor << 18];
            let (x, v) = (
                world.field::<Vec2, 1>("x", n)?,
                world.field::<Vec2, 1>("v", n)?,
            );
            let (f, c) = (
                world.field::<Mat2, 1>("f", n)?,
                world.field::<Mat2, 1>("c", n)?,
            );
            let out = x.clone();
            let run = move || {
                done((0..5).try_for_each(|_| {
                    stress(&f, &c, 1e-4)?;
                    damp(&c)?;
                    gravity(&v, 1e-4)?;
                    walls(&x, &v)?;
                    advance(&x, &v, 1e-4)
                }))
            };
            launches(run, move || {
                let first = out.window([0..1000])?.to_vec()?;
                Ok(first.iter().map(|x| x.y).collect())
            })
        }
        Program::SimpleAdvection => {
            let n = [512 * factor, 512];
            let u = world.field::<Vec2, 2>("u", n)?;
            u.fill(vec2(0.3, 0.7))?;
            let fields = ["a", "b", "c"].map(|name| {
                let pair = |end: &str| world.field::<f32, 2>(&format!("{name}{end}"), n);
                pair("0").and_then(|x| Ok((x, pair("1")?)))
            });
            let fields = fields.into_iter().collect::<wuji::Result<Vec<_>>>()?;
            for (x, _) in &fields {
                x.fill(1.0)?;
            }
            let out = fields[0].1.clone();
            let run = move || done(fields.iter().try_for_each(|(x, y)| advect(&u, x, y, 1.0)));
            launches(run, move || out.window([100..110, 100..110])?.to_vec())
        }
        Program::MultiRes => {
            let levels = (0..4).map(|level| {
                let blocks = (64 * factor) >> level;
                world.layout(|root| {
                    let cell = root.pointer(IJ, [blocks, 64 >> level]).dense(IJ, 16);
                    cell.place::<f32, 2>(&format!("level{level}"))
                })
            });
            let levels = levels.collect::<wuji::Result<Vec<_>>>()?;
            let block = [1.0f32; 256];
            for k in 0..512 {
                let (i, j) = (k % 32 * 2, k / 32 * 2);
                levels[0]
                    .window([16 * i..16 * i + 16, 16 * j..16 * j + 16])?
                    .copy_from(&block)?;
            }
            let out = levels[3].clone();
            let run = move || {
                done((0..3).try_for_each(|_| {
                    levels.windows(2).try_for_each(|pair| {
                        scale(&pair[1], 0.5)?;
                        downsample(&pair[0], &pair[1])
                    })
                }))
            };
            launches(run, move || out.window([0..16, 0..16])?.to_vec())
        }
        Program::DeepHierarchy => {
            let x = world.layout(|root| {
                let deep = root.pointer(I, 16).pointer(I, 16).pointer(I, 16);
                deep.dense(I, 64).place::<f32, 1>("x")
            })?;
            for k in 0..2048 {
                x.set(k * 128, 1.0)?;
            }
            let out = x.clone();
            let run = move || done((0..5).try_for_each(|_| jitter(&x)));
            launches(run, move || out.window([0..128])?.to_vec())
        }
    })
}

struct Flow(Program);

/// All programs.
pub fn all() -> Vec<Box<dyn Study>> {
    let boxed = |p| Box::new(Flow(p)) as Box<dyn Study>;
    Program::ALL.into_iter().map(boxed).collect()
}

/// The rules that are off in each row.
pub const COLUMNS: [(&str, &[&str]); 3] = [
    ("all rules", &[]),
    ("no task_fusion", &["task_fusion"]),
    ("no dead_store_elimination", &["dead_store_elimination"]),
];

impl Study for Flow {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn size(&self) -> String {
        match self.0 {
            Program::ChainCopy
            | Program::Increments
            | Program::FillArray
            | Program::AutoDiff
            | Program::StencilReduction => "2^20",
            Program::SparseSaxpy | Program::DeepHierarchy => "2^18 active",
            Program::MpmSplitted => "2^18 particles",
            Program::SimpleAdvection => "512x512, 3 fields",
            Program::MultiRes => "1024x1024, sparse",
        }
        .into()
    }

    fn metric(&self) -> &'static str {
        "1/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let mut rows = Vec::new();
        for (name, without) in COLUMNS {
            let lazy = bench.lazy_world(without)?;
            let eager = bench.world(&[])?;
            let mut first = contender(self.0, &lazy, 1).map_err(text)?;
            let mut second = contender(self.0, &eager, 1).map_err(text)?;
            agree(self, &mut *first, &mut *second, 1e-5)?;
            let LazyStatistics {
                launched_tasks,
                tasks,
                ..
            } = lazy.lazy_statistics();
            lazy.finish_compiling().map_err(text)?;
            let side = |contender| Side {
                contender,
                work: 1.0,
            };
            let metric = format!("1/s, {name}, {launched_tasks} -> {tasks}");
            let (first, second) = (side(&mut *first), side(&mut *second));
            rows.push(bench.compare(self, &metric, first, second)?);
        }
        Ok(rows)
    }
}
