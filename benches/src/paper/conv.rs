//! A submanifold convolution of 16 by 16 channels on the voxels of a generated animal.

use std::sync::Arc;

use wuji::World;
use wuji_examples::apps::App;
use wuji_examples::apps::conv::{self, Activity, Conv};

use super::cuda::{self, Cuda};
use super::reference::conv::{Layer, Row};
use super::{Application, Size, lines, shapes, sorted};
use crate::case::{Contender, launches, made};
use crate::pool::Pool;

/// A hundredth of the voxels: the surface.
pub const SURFACE: Application = Application {
    name: "conv_1",
    title: "Sparse CNN, 1%",
    size: |size| format!("{0}^3", side(size)),
    ours: |world, size| ours(world, side(size), &surface(side(size))),
    reference: |pool, size| reference(pool, side(size), &surface(side(size))),
    tolerance: 1e-5,
    lines: counted,
    kernels: "conv",
    cuda: Some(|size| on_device(side(size), &surface(side(size)))),
};

/// A tenth of the voxels: the solid body.
pub const SOLID: Application = Application {
    name: "conv_10",
    title: "Sparse CNN, 10%",
    ours: |world, size| ours(world, side(size), &solid(side(size))),
    reference: |pool, size| reference(pool, side(size), &solid(side(size))),
    cuda: Some(|size| on_device(side(size), &solid(side(size)))),
    ..SURFACE
};

fn side(size: Size) -> i32 {
    match size {
        Size::Small => 32,
        Size::Paper => 256,
    }
}

fn surface(n: i32) -> Vec<[i32; 3]> {
    shapes::lowest(n, 0.01, |at| shapes::bunny(at).abs())
}

fn solid(n: i32) -> Vec<[i32; 3]> {
    shapes::lowest(n, 0.1, shapes::bunny)
}

fn counted() -> (usize, usize) {
    let ours = include_str!("../../../examples/src/apps/conv.rs");
    (
        lines::count(include_str!("reference/conv.rs"), &["layer"]),
        lines::count(ours, &["kernel", "layout"]),
    )
}

fn ours(world: &World, n: i32, voxels: &[[i32; 3]]) -> wuji::Result<Box<dyn Contender>> {
    let mut conv = Conv::with_voxels(world, n, voxels, Activity::Voxels)?;
    let output = conv.output().clone();
    let world = world.clone();
    let run = move || {
        conv.step()?;
        world.synchronize()
    };
    let view = move || {
        let (voxels, values) = output.export()?;
        Ok(sorted(voxels, values.iter().map(|v| v.0)))
    };
    Ok(launches(run, view))
}

fn layer(n: i32, voxels: &[[i32; 3]]) -> Layer {
    let weights = conv::weights().iter().map(|w| Row(w.0)).collect();
    Layer::new(n as usize, voxels, |at| Row(conv::input(at, n).0), weights)
}

/// Rows of channels, in the order of the coordinates of their voxels; row 0 is no voxel.
fn view(layer: &Layer, row: impl Fn(usize) -> [f32; 16]) -> Vec<f32> {
    let rows = 1..layer.output.len();
    let at = rows.clone().map(|row| layer.coordinates(row)).collect();
    sorted(at, rows.map(row))
}

fn reference(pool: &Arc<Pool>, n: i32, voxels: &[[i32; 3]]) -> Box<dyn Contender> {
    let pool = Arc::clone(pool);
    made(
        layer(n, voxels),
        move |layer: &mut Layer| layer.apply(&pool),
        |layer| view(layer, |row| layer.output[row].0),
    )
}

fn on_device(n: i32, voxels: &[[i32; 3]]) -> wuji::Result<Cuda> {
    let layer = layer(n, voxels);
    let mut near = vec![[0; 27]; layer.blocks.len()];
    let mut places = Vec::with_capacity(layer.voxels.len());
    for (block, cell) in &layer.voxels {
        let around = layer.near(*block);
        // The block itself is in the middle.
        places.push([around[13], *cell as u32]);
        near[around[13] as usize] = around;
    }
    // Block 0 is empty, and so are its neighbours.
    near[0] = [0; 27];
    let rows = |rows: &[Row]| rows.iter().map(|row| row.0).collect::<Vec<_>>();
    let mut device = Cuda::device(&cuda::OPERATORS)?;
    let count = layer.voxels.len();
    let output = device.alloc(count as u64 * 64)?;
    let words = vec![
        device.upload(&rows(&layer.input))?,
        device.upload(&rows(&layer.weights))?,
        device.upload(&layer.blocks)?,
        device.upload(&near)?,
        device.upload(&places)?,
        output,
        count as u64,
    ];
    let blocks = (count as u32).div_ceil(256).min(132 * 8);
    let only = cuda::launch("conv", blocks, 256, &words);
    Ok(Cuda::one(
        device,
        only,
        (output, count * 16),
        move |values| view(&layer, |row| std::array::from_fn(|c| values[row * 16 + c])),
    ))
}
