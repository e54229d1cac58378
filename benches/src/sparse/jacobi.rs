//! One sweep of the 7-point stencil over sparse blocks; inactive cells are zero.

use wuji::prelude::*;

use super::blocks::{self, ACTIVE, B, CELLS, Grid, Places, SIDE};
use crate::case::{Contender, launches, made};
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

pub struct SparseJacobi {
    name: &'static str,
    places: fn() -> Places,
}

impl SparseJacobi {
    pub const SHELL: SparseJacobi = SparseJacobi {
        name: "sparse_jacobi_shell",
        places: blocks::shell,
    };
    pub const RANDOM: SparseJacobi = SparseJacobi {
        name: "sparse_jacobi_random",
        places: blocks::random,
    };
}

#[kernel]
fn jacobi(x: &Field<f32, 3>, y: &Field<f32, 3>) {
    for [i, j, k] in y {
        let sum = x[[i - 1, j, k]]
            + x[[i + 1, j, k]]
            + x[[i, j - 1, k]]
            + x[[i, j + 1, k]]
            + x[[i, j, k - 1]]
            + x[[i, j, k + 1]];
        y[[i, j, k]] = 0.4 * x[[i, j, k]] + 0.1 * sum;
    }
}

#[kernel]
fn begin(x: &Field<f32, 3>) {
    for [i, j, k] in x {
        let mixed = (i * 73856093) ^ (j * 19349663) ^ (k * 83492791);
        x[[i, j, k]] = (mixed & 0xffff) as f32 / 65536.0;
    }
}

/// Elements of a sparse field, block by block.
#[kernel]
fn collect(places: &Field<IVec3, 1>, y: &Field<f32, 3>, out: &Field<f32, 2>) {
    for [n, c] in out {
        let at = places[[n]] * 8;
        out[[n, c]] = y[[at.x + c / 64, at.y + c / 8 % 8, at.z + c % 8]];
    }
}

/// Activates or deactivates a block.
#[kernel]
fn turn(blocks: &Cells<3>, at: IVec3, on: i32) {
    if on == 1 {
        blocks.activate(at);
    } else {
        blocks.deactivate(at);
    }
}

/// The memory layout of `x` and `y` in a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Struct of arrays: all cells of `x`, then all of `y`.
    Soa,
    /// Array of structs: each cell of `x` next to that of `y`.
    Aos,
}

/// A sparse grid in a world.
#[derive(Clone)]
pub struct Sparse {
    pub blocks: Cells<3>,
    x: Field<f32, 3>,
    y: Field<f32, 3>,
    places: Field<IVec3, 1>,
    /// An inactive block.
    spare: [i32; 3],
}

impl Sparse {
    pub fn new(world: &World, places: &Places, order: Order) -> wuji::Result<Sparse> {
        let (blocks, x, y): (Cells<3>, _, _) = world.layout(|root| {
            let block = root.pointer(IJK, SIDE as i64);
            let cells = block.dense(IJK, B as i64);
            let x = cells.place("x");
            let y = match order {
                Order::Soa => block.dense(IJK, B as i64).place("y"),
                Order::Aos => cells.place("y"),
            };
            (block.cells("blocks"), x, y)
        })?;
        let listed = world.layout(|root| root.dense(I, places.len() as i64).place("places"))?;
        listed.copy_from(&places.iter().map(|at| Vector(*at)).collect::<Vec<_>>())?;
        blocks.import(places)?;
        begin(&x)?;
        Ok(Sparse {
            blocks,
            x,
            y,
            places: listed,
            spare: (0..SIDE as i32)
                .map(|k| [0, 0, k])
                .find(|at| places.binary_search(at).is_err())
                .unwrap_or([0; 3]),
        })
    }

    pub fn sweep(&self) -> wuji::Result<()> {
        jacobi(&self.x, &self.y)
    }

    fn result(&self) -> wuji::Result<Vec<f32>> {
        let world = self.x.world();
        let extents = [self.places.len()? as i64, CELLS as i64];
        let out = world.layout(|root| root.dense(IJ, extents).place("out"))?;
        collect(&self.places, &self.y, &out)?;
        out.to_vec()
    }

    /// Sweeps, one for each sample.
    pub fn contender(&self) -> Box<dyn Contender> {
        let (grid, same) = (self.clone(), self.clone());
        launches(move || grid.sweep(), move || same.result())
    }

    /// Sweeps, each after a launch that activates a block: a new block every time, or always the same active one.
    fn after_turns(&self, change: bool) -> Box<dyn Contender> {
        let spare = Vector(self.spare);
        let (grid, same, mut on) = (self.clone(), self.clone(), 0);
        let run = move || {
            on = if change { 1 - on } else { 1 };
            turn(&grid.blocks, spare, on)?;
            grid.sweep()
        };
        launches(run, move || same.result())
    }
}

/// Hand-written sweeps.
pub fn by_hand(places: &Places, bench: &Bench) -> Box<dyn Contender> {
    made(
        Grid::new(places, &bench.pool),
        |grid| grid.sweep(),
        |grid| grid.result(),
    )
}

/// Sweeps over a dense cube with the same number of cells.
fn dense(world: &World) -> wuji::Result<Box<dyn Contender>> {
    let side = (ACTIVE as f64).cbrt().round() as i64 * B as i64;
    let x = world.layout(|root| root.dense(IJK, side).place::<f32, 3>("x"))?;
    let y = world.layout(|root| root.dense(IJK, side).place::<f32, 3>("y"))?;
    begin(&x)?;
    let out = y.clone();
    Ok(launches(move || jacobi(&x, &y), move || out.to_vec()))
}

impl Study for SparseJacobi {
    fn name(&self) -> &'static str {
        self.name
    }
    fn size(&self) -> String {
        "27000 of 8^3".into()
    }
    fn metric(&self) -> &'static str {
        "Mcells/s"
    }

    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let places = (self.places)();
        let work = (ACTIVE * CELLS) as f64 / 1e6;
        let text = |e: wuji::Error| e.to_string();
        let world = bench.world(&[])?;
        let grid = Sparse::new(&world, &places, Order::Soa).map_err(text)?;
        let mut wuji = grid.contender();
        let mut rows = Vec::new();
        {
            let mut hand = by_hand(&places, bench);
            agree(self, &mut *wuji, &mut *hand, 1e-6)?;
            rows.push(bench.compare(
                self,
                self.metric(),
                side(&mut *wuji, work),
                side(&mut *hand, work),
            )?);
        }
        {
            let mut dense = dense(&world).map_err(text)?;
            rows.push(bench.compare(
                self,
                "vs_dense",
                side(&mut *wuji, work),
                side(&mut *dense, work),
            )?);
        }
        // The cost of list generation: a launch that changes nothing before every sweep, against one that activates or
        // deactivates a block.
        let (mut changed, mut unchanged) = (grid.after_turns(true), grid.after_turns(false));
        let row = bench.compare(
            self,
            "lists_changed",
            side(&mut *changed, work),
            side(&mut *unchanged, work),
        )?;
        rows.push(row);
        // Activate the block first, so that the lists stay valid.
        unchanged.run()?;
        let row = bench.compare(
            self,
            "lists_kept",
            side(&mut *unchanged, work),
            side(&mut *wuji, work),
        )?;
        rows.push(row);
        Ok(rows)
    }
}

fn side(contender: &mut dyn Contender, work: f64) -> Side<'_> {
    Side { contender, work }
}
