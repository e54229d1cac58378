//! `y = a x + y` over active elements, for every kind of innermost node.

use wuji::prelude::*;

use super::blocks::{self, ACTIVE, B, CELLS, SIDE};
use crate::case::{Contender, launches};
use crate::measure::Row;
use crate::study::{Bench, Side, Study};

/// Small, so that `y` keeps its magnitude over many samples.
const A: f32 = 1.0 / 1024.0;
/// Elements of the layouts that have one node.
const LONG: i64 = 1 << 24;

pub struct Loop {
    name: &'static str,
    layouts: &'static [Layout],
}

/// A layout to loop over.
struct Layout {
    metric: &'static str,
    make: fn(&World) -> wuji::Result<Made>,
}

/// A contender and its number of elements.
type Made = (Box<dyn Contender>, u64);

impl Loop {
    pub const POINTER: Loop = Loop {
        name: "sparse_loop_pointer",
        layouts: &[Layout {
            metric: "Mcells/s",
            make: pointer,
        }],
    };
    pub const BITMASKED: Loop = Loop {
        name: "sparse_loop_bitmasked",
        layouts: &[
            Layout {
                metric: "Mcells/s",
                make: |world| bitmasked(world, 1.0),
            },
            Layout {
                metric: "half_Mcells/s",
                make: |world| bitmasked(world, 0.5),
            },
            Layout {
                metric: "root_Mcells/s",
                make: root_bitmasked,
            },
        ],
    };
    pub const DYNAMIC: Loop = Loop {
        name: "sparse_loop_dynamic",
        layouts: &[
            Layout {
                metric: "Mcells/s",
                make: lists,
            },
            Layout {
                metric: "long_Mcells/s",
                make: long_list,
            },
        ],
    };
}

#[kernel]
fn saxpy1(a: f32, x: &Field<f32, 1>, y: &Field<f32, 1>) {
    for [i] in y {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[kernel]
fn saxpy3(a: f32, x: &Field<f32, 3>, y: &Field<f32, 3>) {
    for [i, j, k] in y {
        y[[i, j, k]] = a * x[[i, j, k]] + y[[i, j, k]];
    }
}

#[kernel]
fn saxpy4(a: f32, x: &Field<f32, 4>, y: &Field<f32, 4>) {
    for [i, j, k, l] in y {
        y[[i, j, k, l]] = a * x[[i, j, k, l]] + y[[i, j, k, l]];
    }
}

/// Activates a random subset of a block's elements, of the given density.
#[kernel]
fn scatter(places: &Field<IVec3, 1>, cells: &Field<f32, 2>, share: f32, y: &Field<f32, 3>) {
    for [n, c] in cells {
        let mixed = ((n * 512 + c) * 73856093) ^ ((c + 1) * 19349663);
        if ((mixed >> 8) & 0xffff) as f32 / 65536.0 < share {
            let at = places[[n]] * 8;
            y[[at.x + c / 64, at.y + c / 8 % 8, at.z + c % 8]] = 1.0;
        }
    }
}

#[kernel]
fn ones(count: i32, y: &Field<f32, 1>) {
    for i in 0..count {
        y[[i]] = 1.0;
    }
}

/// Lists with as many elements as a block has cells.
#[kernel]
fn fill_lists(places: &Field<IVec3, 1>, count: i32, y: &Field<f32, 4>) {
    for [n] in places {
        let at = places[[n]];
        for _ in 0..count {
            y.append([at.x, at.y, at.z], 1.0);
        }
    }
}

fn places(world: &World) -> wuji::Result<Field<IVec3, 1>> {
    let places = blocks::shell();
    let listed = world.layout(|root| root.dense(I, places.len() as i64).place("places"))?;
    listed.copy_from(&places.iter().map(|at| Vector(*at)).collect::<Vec<_>>())?;
    Ok(listed)
}

/// `x` and `y` are 1 everywhere at the start, in all layouts.
fn pointer(world: &World) -> wuji::Result<Made> {
    let (cells, x, y) = world.layout(|root| {
        let block = root.pointer(IJK, SIDE as i64);
        (
            block.cells::<3>("blocks"),
            block.dense(IJK, B as i64).place::<f32, 3>("x"),
            block.dense(IJK, B as i64).place::<f32, 3>("y"),
        )
    })?;
    cells.import(&blocks::shell())?;
    x.fill(1.0)?;
    y.fill(1.0)?;
    let count = y.count_active()?;
    let out = y.clone();
    Ok((
        launches(move || saxpy3(A, &x, &y), move || total3(&out)),
        count,
    ))
}

fn bitmasked(world: &World, share: f32) -> wuji::Result<Made> {
    let (x, y) = world.layout(|root| {
        let cell = root.pointer(IJK, SIDE as i64).bitmasked(IJK, B as i64);
        (cell.place::<f32, 3>("x"), cell.place::<f32, 3>("y"))
    })?;
    let extents = [ACTIVE as i64, CELLS as i64];
    let cells = world.layout(|root| root.dense(IJ, extents).place::<f32, 2>("cells"))?;
    scatter(&places(world)?, &cells, share, &y)?;
    x.fill(1.0)?;
    let count = y.count_active()?;
    let out = y.clone();
    Ok((
        launches(move || saxpy3(A, &x, &y), move || total3(&out)),
        count,
    ))
}

fn root_bitmasked(world: &World) -> wuji::Result<Made> {
    let (x, y) = world.layout(|root| {
        let cell = root.bitmasked(I, LONG);
        (cell.place::<f32, 1>("x"), cell.place::<f32, 1>("y"))
    })?;
    ones(LONG as i32, &y)?;
    x.fill(1.0)?;
    let count = y.count_active()?;
    let out = y.clone();
    Ok((
        launches(move || saxpy1(A, &x, &y), move || total1(&out)),
        count,
    ))
}

fn lists(world: &World) -> wuji::Result<Made> {
    let (x, y) = world.layout(|root| {
        let list = root.pointer(IJK, SIDE as i64).dynamic(L, 2 * CELLS as i64);
        (list.place::<f32, 4>("x"), list.place::<f32, 4>("y"))
    })?;
    fill_lists(&places(world)?, CELLS as i32, &y)?;
    x.fill(1.0)?;
    let count = y.count_active()?;
    let out = y.clone();
    Ok((
        launches(move || saxpy4(A, &x, &y), move || total4(&out)),
        count,
    ))
}

fn long_list(world: &World) -> wuji::Result<Made> {
    let (x, y) = world.layout(|root| {
        let list = root.dynamic(I, LONG);
        (list.place::<f32, 1>("x"), list.place::<f32, 1>("y"))
    })?;
    // Set the last element first, so that the list has its final length.
    y.set(LONG as i32 - 1, 1.0)?;
    ones(LONG as i32, &y)?;
    x.fill(1.0)?;
    let count = y.count_active()?;
    let out = y.clone();
    Ok((
        launches(move || saxpy1(A, &x, &y), move || total1(&out)),
        count,
    ))
}

/// The mean of `y`, to compare two loops.
macro_rules! totals {
    ($($name:ident $kernel:ident $rank:literal [$($i:ident),*];)*) => {$(
        #[kernel]
        fn $kernel(y: &Field<f32, $rank>) -> f64 {
            let mut sum = 0.0f64;
            for [$($i),*] in y {
                sum += y[[$($i),*]] as f64;
            }
            sum
        }

        fn $name(y: &Field<f32, $rank>) -> wuji::Result<Vec<f32>> {
            Ok(vec![($kernel(y)? / y.count_active()? as f64) as f32])
        }
    )*};
}

totals! {
    total1 sum1 1 [i];
    total3 sum3 3 [i, j, k];
    total4 sum4 4 [i, j, k, l];
}

impl Study for Loop {
    fn name(&self) -> &'static str {
        self.name
    }
    fn size(&self) -> String {
        "about 2^24".into()
    }
    fn metric(&self) -> &'static str {
        "Mcells/s"
    }

    /// Each layout against the loop over dense blocks below pointers.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let world = bench.world(&[])?;
        let mut rows = Vec::new();
        for layout in self.layouts {
            let (mut reference, blocks) = pointer(&world).map_err(text)?;
            let (mut other, cells) = (layout.make)(&world).map_err(text)?;
            crate::study::agree(self, &mut *other, &mut *reference, 1e-6)?;
            rows.push(bench.compare(
                self,
                layout.metric,
                Side {
                    contender: &mut *other,
                    work: cells as f64 / 1e6,
                },
                Side {
                    contender: &mut *reference,
                    work: blocks as f64 / 1e6,
                },
            )?);
        }
        Ok(rows)
    }
}
