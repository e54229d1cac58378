//! Volumetric path tracing of smoke in the shape of an animal, with one point light.

use std::f32::consts::PI;
use std::sync::Arc;

use wuji::World;
use wuji::prelude::*;
use wuji_examples::apps::volume::{ALBEDO, BLOCK, EXTINCTION, LAMP, LAMP_POWER, View, Volume};

use super::cuda::{self, Cuda, Queue, float, launch};
use super::reference::volume::{Smoke, Tracer};
use super::{Application, Size, lines, shapes};
use crate::case::{Contender, launches, made, noise};
use crate::pool::Pool;

pub const VOLUME: Application = Application {
    name: "volume",
    title: "volumetric path tracing",
    size: |size| {
        let [i, j, k] = voxels(size);
        format!("{i}x{j}x{k}, {0}^2, {1} spp", pixels(size), samples(size))
    },
    ours,
    reference,
    // Of the means of tiles, which are random.
    tolerance: 0.1,
    lines: || {
        let ours = include_str!("../../../examples/src/apps/volume.rs");
        (
            lines::count(include_str!("reference/volume.rs"), &["tracer"]),
            lines::count(ours, &["kernels", "layout"]),
        )
    },
    kernels: "volume",
    cuda: Some(on_device),
};

const BOUNCES: i32 = 128;

fn voxels(size: Size) -> [i32; 3] {
    match size {
        Size::Small => [72, 72, 56],
        Size::Paper => [584, 576, 440],
    }
}

/// Pixels along each axis.
fn pixels(size: Size) -> usize {
    match size {
        Size::Small => 64,
        Size::Paper => 512,
    }
}

/// Samples of each pixel in a run.
fn samples(size: Size) -> usize {
    match size {
        Size::Small => 16,
        Size::Paper => 128,
    }
}

/// Voxels per unit of length.
fn resolution(size: Size) -> f32 {
    voxels(size)[0] as f32
}

/// The density of smoke: thin at the surface, with random detail.
fn density(at: [i32; 3], size: Size) -> f32 {
    let scale = 1.0 / resolution(size);
    let [x, y, z] = at.map(|c| (c as f32 + 0.5) * scale);
    let depth = -shapes::bunny([x, y, z + 0.12]);
    let detail = 0.6 + 0.4 * noise(at.iter().fold(0, |n, c| n * 1024 + *c as usize));
    (depth * 12.0).clamp(0.0, 1.0) * detail
}

/// The blocks that are not empty, by their first voxels.
fn smoke(size: Size) -> Vec<([i32; 3], [f32; 512])> {
    let [ni, nj, nk] = voxels(size).map(|n| n / BLOCK);
    let mut found = Vec::new();
    for b in 0..ni * nj * nk {
        let first = [b / (nj * nk), b / nk % nj, b % nk].map(|c| c * BLOCK);
        let scale = 1.0 / resolution(size);
        let [x, y, z] = first.map(|c| (c + BLOCK / 2) as f32 * scale);
        // Farther from the shape than any voxel of the block from its centre.
        if shapes::bunny([x, y, z + 0.12]) > BLOCK as f32 * scale {
            continue;
        }
        let values: [f32; 512] = std::array::from_fn(|c| {
            let c = c as i32;
            density(
                [first[0] + c / 64, first[1] + c / 8 % 8, first[2] + c % 8],
                size,
            )
        });
        if values.iter().any(|d| *d > 0.0) {
            found.push((first, values));
        }
    }
    found
}

/// The means of 4 x 4 tiles of a picture, as red, green and blue.
fn tiles(image: &[[f32; 3]]) -> Vec<f32> {
    let side = image.len().isqrt();
    let mut sums = vec![0.0f64; 16 * 3];
    for (p, pixel) in image.iter().enumerate() {
        let tile = p / side * 4 / side * 4 + p % side * 4 / side;
        for c in 0..3 {
            sums[tile * 3 + c] += f64::from(pixel[c]);
        }
    }
    let scale = 16.0 / image.len() as f64;
    sums.into_iter().map(|sum| (sum * scale) as f32).collect()
}

fn ours(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let resolution = resolution(size);
    let view = View {
        size: Vector(voxels(size).map(|n| n as f32 / resolution)),
        resolution,
        pixels: pixels(size) as f32,
        sky: Vec3::splat(0.0),
        bounces: BOUNCES,
    };
    let (first, values): (Vec<_>, Vec<_>) = smoke(size).into_iter().unzip();
    let volume = Volume::with_blocks(world, voxels(size), &first, view)?;
    let all: Vec<[i32; 3]> = first
        .iter()
        .flat_map(|b| (0..512).map(|c| [b[0] + c / 64, b[1] + c / 8 % 8, b[2] + c % 8]))
        .collect();
    volume.density().import(&all, values.as_flattened())?;
    let volume = std::rc::Rc::new(std::cell::RefCell::new(volume));
    let (shown, world) = (std::rc::Rc::clone(&volume), world.clone());
    let run = move || {
        volume.borrow_mut().render(samples(size) as i32)?;
        world.synchronize()
    };
    let view = move || {
        let image = shown.borrow().image()?;
        Ok(tiles(&image.iter().map(|p| p.0).collect::<Vec<_>>()))
    };
    Ok(launches(run, view))
}

fn smoke_of(size: Size) -> Smoke {
    let sides = voxels(size).map(|n| n as usize);
    Smoke::new(sides, resolution(size), &smoke(size))
}

/// The tiles of a picture, from the sums of so many samples before the colour of the lamp and the phase function.
fn lit(sums: impl Iterator<Item = f32>, samples: usize) -> Vec<f32> {
    let phase = 1.0 / (4.0 * PI * samples.max(1) as f32);
    let colour = |lamp: f32| LAMP_POWER.0.map(|power| power * lamp * phase);
    tiles(&sums.map(colour).collect::<Vec<_>>())
}

fn reference(pool: &Arc<Pool>, size: Size) -> Box<dyn Contender> {
    let pool = Arc::clone(pool);
    made(
        Tracer::new(smoke_of(size), pixels(size), BOUNCES as u32),
        move |tracer: &mut Tracer| tracer.render(&pool, samples(size)),
        |tracer| lit(tracer.pixels.iter().map(|p| p.lamp), tracer.samples),
    )
}

/// The kernels of `benches/gpu/volume.cu`.
fn on_device(size: Size) -> wuji::Result<Cuda> {
    let smoke = smoke_of(size);
    let mut device = Cuda::device(&cuda::VOLUME)?;
    let (table, blocks) = (device.upload(&smoke.table)?, device.upload(&smoke.blocks)?);
    let side = pixels(size);
    let (sums, next) = (device.alloc((side * side) as u64 * 4)?, device.alloc(8)?);
    let [ni, nj, nk] = smoke.sides.map(|n| n as u64);
    let runs = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = std::rc::Rc::clone(&runs);
    let run = move |queue: &mut Queue<'_>| {
        let words = [
            table,
            blocks,
            sums,
            next,
            ni,
            nj,
            nk,
            float(resolution(size)),
            side as u64,
            samples(size) as u64,
            BOUNCES as u64,
            runs.get() as u64,
            float(EXTINCTION),
            float(ALBEDO),
            float(LAMP.0[0]),
            float(LAMP.0[1]),
            float(LAMP.0[2]),
        ];
        runs.set(runs.get() + 1);
        let launches = [
            launch("volume_start", 1, 1, &[next]),
            launch("volume", 132 * 16, 128, &words),
        ];
        // SAFETY: the arguments are those of the kernels, in memory of this device.
        unsafe { queue.launch(&launches) }
    };
    Ok(Cuda {
        device,
        run: Box::new(run),
        view: Box::new(move |device| {
            let sums = device.download::<f32>(sums, side * side)?;
            Ok(lit(sums.into_iter(), seen.get() * samples(size)))
        }),
    })
}
