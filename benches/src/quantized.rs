//! Table 5.1 of the thesis: stores to bit structs with and without store fusion and thread-safety inference, against the
//! same kernels on plain fields.

// Windows of fields with one index.
#![allow(clippy::single_range_in_vec_init)]

use wuji::World;
use wuji::prelude::*;

use crate::case::{Contender, launches};
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

const N: i64 = 1 << 22;
const SIDE: i64 = 512;

/// Which program of the table.
#[derive(Copy, Clone, Debug)]
pub enum Program {
    /// All members of a bit struct.
    Store,
    /// Two of three members.
    PartialStore,
    /// A product of two matrices, of which two results share a word.
    Matmul,
}

impl Program {
    pub const ALL: [Program; 3] = [Program::Store, Program::PartialStore, Program::Matmul];

    pub fn name(self) -> &'static str {
        match self {
            Program::Store => "quantized store",
            Program::PartialStore => "quantized partial store",
            Program::Matmul => "quantized matmul",
        }
    }
}

struct Table(Program);

/// The three programs.
pub fn all() -> Vec<Box<dyn Study>> {
    let boxed = |p| Box::new(Table(p)) as Box<dyn Study>;
    Program::ALL.into_iter().map(boxed).collect()
}

/// The columns of the table: which optimizations are disabled.
pub const COLUMNS: [(&str, &[&str]); 4] = [
    ("none", &["store_fusion", "quantized_ownership"]),
    ("demotion", &["store_fusion"]),
    ("fusion", &["quantized_ownership"]),
    ("all", &[]),
];

#[kernel]
fn store(a: &Field<f32, 1>, b: &Field<f32, 1>, c: &Field<i32, 1>, s: f32) {
    for [i] in a {
        let x = (i % 1000) as f32 * s;
        a[[i]] = x;
        b[[i]] = -0.5 * x;
        c[[i]] = i % 16;
    }
}

#[kernel]
fn partial_store(a: &Field<f32, 1>, b: &Field<f32, 1>, s: f32) {
    for [i] in a {
        let x = (i % 1000) as f32 * s;
        a[[i]] = x;
        b[[i]] = -0.5 * x;
    }
}

#[kernel]
fn matmul(x: &Field<f32, 2>, y: &Field<f32, 2>, p: &Field<f32, 2>, q: &Field<f32, 2>) {
    for [i, j] in p {
        let mut sum = 0.0;
        for k in 0..512 {
            sum += x[[i, k]] * y[[k, j]];
        }
        p[[i, j]] = sum;
        q[[i, j]] = 0.25 * sum;
    }
}

pub fn contender(
    program: Program,
    world: &World,
    packed: bool,
) -> wuji::Result<Box<dyn Contender>> {
    match program {
        Program::Store | Program::PartialStore => {
            let (a, b, c) = world.layout(|root| {
                let cell = root.dense(I, N);
                if packed {
                    let word = cell.bit_struct(32);
                    (
                        word.place::<f32, 1>("a", qfixed(14, true, 4.0)),
                        word.place::<f32, 1>("b", qfixed(14, true, 4.0)),
                        word.place::<i32, 1>("c", qint(4, false)),
                    )
                } else {
                    (cell.place("a"), cell.place("b"), cell.place("c"))
                }
            })?;
            let (x, y) = (a.clone(), b.clone());
            let run = move || match program {
                Program::Store => store(&a, &b, &c, 1.0 / 512.0),
                Program::PartialStore | Program::Matmul => partial_store(&a, &b, 1.0 / 512.0),
            };
            Ok(launches(run, move || {
                let mut all = x.window([0..2000])?.to_vec()?;
                all.extend(y.window([0..2000])?.to_vec()?);
                Ok(all)
            }))
        }
        Program::Matmul => {
            let input = |name: &str| {
                world.layout(|root| {
                    let cell = root.dense(IJ, SIDE);
                    if packed {
                        let word = cell.bit_struct(16);
                        word.place::<f32, 2>(name, qfixed(16, true, 1.0))
                    } else {
                        cell.place(name)
                    }
                })
            };
            let (x, y) = (input("x")?, input("y")?);
            let (p, q) = world.layout(|root| {
                let cell = root.dense(IJ, SIDE);
                if packed {
                    let word = cell.bit_struct(32);
                    let ty = qfixed(16, true, 32.0);
                    (word.place::<f32, 2>("p", ty), word.place::<f32, 2>("q", ty))
                } else {
                    (cell.place("p"), cell.place("q"))
                }
            })?;
            let values = |seed: i64| -> Vec<f32> {
                let value = |k: i64| ((k * seed) % 97) as f32 / 97.0 - 0.5;
                (0..SIDE * SIDE).map(value).collect()
            };
            x.copy_from(&values(7))?;
            y.copy_from(&values(11))?;
            let out = p.clone();
            Ok(launches(
                move || matmul(&x, &y, &p, &q),
                move || out.to_vec(),
            ))
        }
    }
}

impl Study for Table {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn size(&self) -> String {
        match self.0 {
            Program::Store | Program::PartialStore => "2^22".into(),
            Program::Matmul => "512x512".into(),
        }
    }

    fn metric(&self) -> &'static str {
        "1/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let mut rows = Vec::new();
        for (name, without) in COLUMNS {
            let world = bench.world(without)?;
            let text = |e: wuji::Error| e.to_string();
            let mut packed = contender(self.0, &world, true).map_err(text)?;
            let mut plain = contender(self.0, &world, false).map_err(text)?;
            agree(self, &mut *packed, &mut *plain, 1e-2)?;
            let side = |contender| Side {
                contender,
                work: 1.0,
            };
            let first = side(&mut *packed);
            let metric = format!("1/s, {name}");
            rows.push(bench.compare(self, &metric, first, side(&mut *plain))?);
        }
        Ok(rows)
    }
}
