//! The break-even point of scratchpads: particles in buckets scatter to 27 nodes and gather from them, with one
//! scratchpad per block and without, for different numbers of particles per block.

use wuji::World;
use wuji::prelude::*;

use crate::case::{Contender, launches};
use crate::measure::Row;
use crate::study::{Bench, Side, Study, agree};

pub struct Tiles;

/// Blocks along each axis.
const SIDE: i32 = 16;
/// Particles per block.
const FILLINGS: [i32; 6] = [2, 4, 8, 16, 32, 128];

/// The measured variants.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Scatter,
    Gather,
    /// On a tree whose root node is a hash node.
    GatherHashed,
}

#[func]
fn nodes(x: Vec3, i: i32, j: i32, k: i32) -> IVec3 {
    let at = x.floor().cast::<i32>();
    ivec3(
        assume_in_range(at.x, i * 4, 0, 4),
        assume_in_range(at.y, j * 4, 0, 4),
        assume_in_range(at.z, k * 4, 0, 4),
    )
}

#[kernel]
fn sow(bucket: &Field<Vec3, 4>, n: i32, count: i32) {
    for b in 0..n * n * n {
        let first = ivec3(b / (n * n), b / n % n, b % n);
        for c in 0..count {
            let mixed = (c * 73856093 + b * 19349663) & 0xffffff;
            let part = ivec3(mixed & 255, (mixed >> 8) & 255, mixed >> 16).cast::<f32>() / 64.0;
            bucket.append(first, first.cast::<f32>() * 4.0 + part);
        }
    }
}

#[kernel]
fn scatter(bucket: &Field<Vec3, 4>, mass: &Field<f32, 3>) {
    for [i, j, k, l] in cache(mass, bucket) {
        let x = bucket[[i, j, k, l]];
        let at = nodes(x, i, j, k);
        let part = x - at.cast::<f32>();
        for [a, b, c] in grid([0..3, 0..3, 0..3]) {
            mass[at + ivec3(a, b, c)] +=
                (part.x - a as f32) * (part.y - b as f32) * (part.z - c as f32);
        }
    }
}

#[kernel]
fn gather(bucket: &Field<Vec3, 4>, mass: &Field<f32, 3>, out: &Field<f32, 4>) {
    for [i, j, k, l] in cache(mass, bucket) {
        let x = bucket[[i, j, k, l]];
        let at = nodes(x, i, j, k);
        let part = x - at.cast::<f32>();
        let mut sum = 0.0;
        for [a, b, c] in grid([0..3, 0..3, 0..3]) {
            sum += mass[at + ivec3(a, b, c)]
                * (part.x - a as f32)
                * (part.y - b as f32)
                * (part.z - c as f32);
        }
        out[[i, j, k, l]] = sum;
    }
}

/// The sum over the grid.
#[kernel]
fn total(mass: &Field<f32, 3>, out: &Field<f32, 4>) -> f32 {
    let mut sum = 0.0;
    for [i, j, k] in mass {
        sum += mass[[i, j, k]];
    }
    for [i, j, k, l] in out {
        sum += out[[i, j, k, l]];
    }
    sum
}

fn contender(world: &World, count: i32, way: Way) -> wuji::Result<Box<dyn Contender>> {
    let (bucket, out, mass) = world.layout(|root| {
        let block = match way {
            Way::GatherHashed => root.hash(IJK).pointer(IJK, 4),
            Way::Scatter | Way::Gather => root.pointer(IJK, (SIDE + 1) as i64),
        };
        let list = block.dynamic_chunked(L, 1024, 256);
        (
            list.place::<Vec3, 4>("bucket"),
            list.place::<f32, 4>("out"),
            block.dense(IJK, 4).place::<f32, 3>("mass"),
        )
    })?;
    sow(&bucket, SIDE, count)?;
    scatter(&bucket, &mass)?;
    let view = (mass.clone(), out.clone());
    Ok(launches(
        move || match way {
            Way::Scatter => scatter(&bucket, &mass),
            Way::Gather | Way::GatherHashed => gather(&bucket, &mass, &out),
        },
        move || Ok(vec![total(&view.0, &view.1)?]),
    ))
}

impl Study for Tiles {
    fn name(&self) -> &'static str {
        "tiles"
    }
    fn size(&self) -> String {
        format!("{} blocks", SIDE * SIDE * SIDE)
    }
    fn metric(&self) -> &'static str {
        "scatter_2"
    }

    /// Millions of particles per second with one scratchpad per block, against none.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        let text = |e: wuji::Error| e.to_string();
        let mut rows = Vec::new();
        for (way, name) in [
            (Way::Scatter, "scatter"),
            (Way::Gather, "gather"),
            (Way::GatherHashed, "gather_hashed"),
        ] {
            for count in FILLINGS {
                let mut with = contender(&bench.world(&[])?, count, way).map_err(text)?;
                let without = bench.world(&["scratchpads"])?;
                let mut without = contender(&without, count, way).map_err(text)?;
                agree(self, &mut *with, &mut *without, 1e-2)?;
                let work = f64::from(SIDE * SIDE * SIDE * count) / 1e6;
                let side = |contender| Side { contender, work };
                let (first, second) = (side(&mut *with), side(&mut *without));
                let metric = format!("{name}_{count}");
                rows.push(bench.compare(self, &metric, first, second)?);
            }
        }
        Ok(rows)
    }
}
