//! MLS-MPM: particles in a generated dragon of an elastic material, snow, sand or a fluid, on a sparse grid.

use std::sync::Arc;

use wuji::World;
use wuji::prelude::*;
use wuji_examples::apps::App;
use wuji_examples::apps::fem::Order;
use wuji_examples::apps::mpm3d::{BLOCK, Lists, Material, Mpm3d, Particle, Storage, Variant};

use super::cuda::{self, Cuda, float, launch};
use super::reference::mpm::{self as by_hand, State};
use super::{Application, Size, lines, shapes};
use crate::case::{Contender, launches, made, noise};
use crate::pool::Pool;

pub const MPM: Application = Application {
    name: "mpm",
    title: "MLS-MPM",
    size: |size| format!("{} in {1}^3", count(size), side(size)),
    ours: |world, size| ours(world, size, PAPER, Memory::Sorted),
    reference: |pool, size| reference(pool, size, Material::Corotated),
    tolerance: 2e-4,
    lines: || {
        let model = include_str!("../../../examples/src/apps/mpm3d/material.rs");
        (
            by_hand_lines(&["substep"]),
            counted() + lines::count(model, &["corotated"]),
        )
    },
    kernels: "mpm",
    cuda: Some(on_device),
};

/// Lines of code of the reference.
fn by_hand_lines(anchors: &[&str]) -> usize {
    lines::count(include_str!("reference/mpm.rs"), anchors)
        + lines::count(include_str!("../transfer.rs"), &["transfer"])
}

/// Lines of code without those of a material.
fn counted() -> usize {
    let ours = include_str!("../../../examples/src/apps/mpm3d.rs");
    lines::count(ours, &["kernels", "layout", "substep"])
}

/// The other materials, which the paper shows and does not measure.
pub const MATERIALS: [Application; 3] = [
    Application {
        name: "mpm_snow",
        title: "MLS-MPM, snow",
        ours: |world, size| of_material(world, size, Material::Snow),
        reference: |pool, size| reference(pool, size, Material::Snow),
        ..PLASTIC
    },
    Application {
        name: "mpm_sand",
        title: "MLS-MPM, sand",
        ours: |world, size| of_material(world, size, Material::Sand),
        reference: |pool, size| reference(pool, size, Material::Sand),
        ..PLASTIC
    },
    Application {
        name: "mpm_fluid",
        title: "MLS-MPM, fluid",
        ours: |world, size| of_material(world, size, Material::Fluid),
        reference: |pool, size| reference(pool, size, Material::Fluid),
        ..PLASTIC
    },
];

/// Without a reference in CUDA. The models of the reference are the text of ours, compiled as plain Rust.
const PLASTIC: Application = Application {
    lines: || {
        let model = include_str!("../../../examples/src/apps/mpm3d/material.rs");
        let models = lines::count(model, &["corotated", "materials"]);
        (
            by_hand_lines(&["substep", "pointwise"]) + models,
            counted() + models,
        )
    },
    cuda: None,
    ..MPM
};

fn of_material(world: &World, size: Size, material: Material) -> wuji::Result<Box<dyn Contender>> {
    made_of(world, size, material, PAPER, Memory::Sorted)
}

/// The order of particles in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// By block.
    Sorted,
    Shuffled,
}

/// The layout that the paper found: particles as array of structures, the grid as structure of arrays.
const PAPER: Storage = Storage {
    particles: Order::Aos,
    grid: Order::Soa,
    lists: Lists::Staggered,
};

/// The same with particles as structure of arrays.
const SOA: Storage = Storage {
    particles: Order::Soa,
    ..PAPER
};

pub fn soa_sorted(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    ours(world, size, SOA, Memory::Sorted)
}

pub fn soa_shuffled(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    ours(world, size, SOA, Memory::Shuffled)
}

pub fn aos_shuffled(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    ours(world, size, PAPER, Memory::Shuffled)
}

/// Particles in the lists of the blocks that they are in.
pub fn not_staggered(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let lists = Lists::Centred;
    ours(world, size, Storage { lists, ..PAPER }, Memory::Sorted)
}

/// The grid as array of structures.
pub fn aos_grid(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    let grid = Order::Aos;
    ours(world, size, Storage { grid, ..PAPER }, Memory::Sorted)
}

fn side(size: Size) -> i32 {
    match size {
        Size::Small => 32,
        Size::Paper => 256,
    }
}

fn count(size: Size) -> usize {
    match size {
        Size::Small => 775_196 / 512,
        Size::Paper => 775_196,
    }
}

/// Eight particles in each cell of a falling and turning dragon that is stretched and sheared, by block.
fn particles(size: Size) -> Vec<Particle> {
    let n = side(size);
    let cells = count(size).div_ceil(8);
    let mut all = shapes::lowest(n, cells as f64 / f64::from(n).powi(3), shapes::dragon);
    all.sort_by_key(|cell| (cell.map(|c| c / BLOCK), *cell));
    let f = Matrix([[1.05, 0.1, 0.0], [-0.05, 0.97, 0.02], [0.0, 0.03, 1.02]]);
    (0..count(size))
        .map(|p| {
            let cell = all[p / 8];
            let x: [f32; 3] =
                std::array::from_fn(|d| (cell[d] as f32 + noise(3 * p + d)) / n as f32);
            let v = vec3(2.0 * (0.5 - x[1]), -1.0 + 2.0 * (x[0] - 0.5), x[2] - 0.5);
            Particle {
                x: Vector(x),
                v,
                c: Mat3::splat(0.0),
                f,
            }
        })
        .collect()
}

/// For each place in memory, the number of its particle.
fn order(count: usize, memory: Memory) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    if memory == Memory::Shuffled {
        order.sort_by_key(|p| (noise(*p as usize + 1_000_003).to_bits(), *p));
    }
    order
}

/// Velocities, in the order of the numbers of particles.
fn velocities(of: impl Iterator<Item = [f32; 3]>, order: &[u32]) -> Vec<f32> {
    let mut all = vec![[0.0; 3]; order.len()];
    for (v, number) in of.zip(order) {
        all[*number as usize] = v;
    }
    all.into_iter().flatten().collect()
}

fn ours(
    world: &World,
    size: Size,
    storage: Storage,
    memory: Memory,
) -> wuji::Result<Box<dyn Contender>> {
    made_of(world, size, Material::Corotated, storage, memory)
}

fn made_of(
    world: &World,
    size: Size,
    material: Material,
    storage: Storage,
    memory: Memory,
) -> wuji::Result<Box<dyn Contender>> {
    let start = particles(size);
    let order = order(start.len(), memory);
    let all: Vec<Particle> = order.iter().map(|p| start[*p as usize]).collect();
    let (n, variant) = (side(size), Variant::Buckets);
    let mut mpm = Mpm3d::with_particles(world, n, &all, variant, material, storage)?;
    let particles = mpm.particles().clone();
    let world = world.clone();
    let run = move || {
        mpm.step()?;
        world.synchronize()
    };
    let view = move || {
        let all = particles.to_vec()?;
        Ok(velocities(all.iter().map(|p| p.v.0), &order))
    };
    Ok(launches(run, view))
}

/// A matrix, row by row.
fn flat(m: Mat3) -> [f32; 9] {
    std::array::from_fn(|e| m.0[e / 3][e % 3])
}

/// The response of a particle, by the text of the example, compiled as plain Rust.
fn respond(material: Material, f: [f32; 9], history: f32) -> by_hand::Response {
    let f = Matrix(std::array::from_fn(|r| {
        std::array::from_fn(|c| f[3 * r + c])
    }));
    let response = material.respond(f, history);
    (flat(response.f), response.history, flat(response.stress))
}

/// The same material of the reference.
fn by_hand_material(material: Material) -> by_hand::Material {
    use by_hand::{Elastic, Material as Own};
    match material {
        Material::NeoHookean => Own::Elastic(Elastic::NeoHookean),
        Material::Corotated => Own::Elastic(Elastic::Corotated),
        Material::Snow => Own::Pointwise(|f, h| respond(Material::Snow, f, h)),
        Material::Sand => Own::Pointwise(|f, h| respond(Material::Sand, f, h)),
        Material::Fluid => Own::Pointwise(|f, h| respond(Material::Fluid, f, h)),
    }
}

fn reference(pool: &Arc<Pool>, size: Size, material: Material) -> Box<dyn Contender> {
    let particles: Vec<by_hand::Particle> = particles(size)
        .iter()
        .map(|p| by_hand::Particle {
            x: p.x.0,
            v: p.v.0,
            c: flat(p.c),
            f: flat(p.f),
        })
        .collect();
    let (n, dt) = (side(size), material.time_step(side(size)));
    let law = (by_hand_material(material), material.fresh());
    let state = State::new(n as usize, particles, dt, law, pool.threads());
    let pool = Arc::clone(pool);
    let numbers = order(count(size), Memory::Sorted);
    made(
        state,
        move |state: &mut State| state.substep(&pool),
        move |state| velocities(state.particles.iter().map(|p| p.v), &numbers),
    )
}

/// The kernels of `benches/gpu/mpm.cu`; particles keep their places in memory.
fn on_device(size: Size) -> wuji::Result<Cuda> {
    let (n, count) = (side(size), count(size));
    let words = |p: &Particle| -> [f32; 24] {
        let matrices = p.c.0.into_iter().chain(p.f.0).flatten();
        let mut all = p.x.0.into_iter().chain(p.v.0).chain(matrices);
        std::array::from_fn(|_| all.next().unwrap_or_default())
    };
    let start: Vec<[f32; 24]> = particles(size).iter().map(words).collect();
    let blocks = (n / BLOCK).pow(3) as u64;
    let mut device = Cuda::device(&cuda::MPM)?;
    let particles = device.upload(&start)?;
    let [counts, table, begins, occupied] = [
        device.alloc(blocks * 4)?,
        device.alloc(blocks * 4)?,
        device.alloc(blocks * 4)?,
        device.alloc(blocks * 4)?,
    ];
    let (homes, order) = (
        device.alloc(count as u64 * 8)?,
        device.alloc(count as u64 * 4)?,
    );
    let (nodes, totals) = (device.alloc(blocks * 64 * 16)?, device.alloc(64)?);
    let (all, cells, dt) = (
        count as u64,
        n as u64,
        float(Material::Corotated.time_step(n)),
    );
    let of = |threads: u64| threads.div_ceil(256) as u32;
    let moved = [
        particles, order, begins, counts, occupied, table, nodes, totals, cells, dt,
    ];
    // Thread blocks take work until there is none: as many as fit on a large GPU.
    let resident = 132 * 3;
    let substep = [
        launch(
            "mpm_clear",
            of(blocks),
            256,
            &[counts, table, totals, blocks],
        ),
        launch(
            "mpm_count",
            of(all),
            256,
            &[particles, counts, homes, all, cells],
        ),
        launch(
            "mpm_blocks",
            of(blocks),
            256,
            &[
                counts,
                table,
                begins,
                occupied,
                totals,
                cells / BLOCK as u64,
            ],
        ),
        launch(
            "mpm_order",
            of(all),
            256,
            &[homes, begins, order, nodes, totals, all],
        ),
        launch("mpm_p2g", resident, 256, &moved),
        launch("mpm_g2p", resident, 256, &moved),
    ];
    Ok(Cuda {
        device,
        // SAFETY: the arguments are those of the kernels, in memory of this device; there is room for all blocks.
        run: Box::new(move |queue| unsafe { queue.launch(&substep) }),
        view: Box::new(move |device| {
            let all = device.download::<[f32; 24]>(particles, count)?;
            Ok(all.iter().flat_map(|p| [p[3], p[4], p[5]]).collect())
        }),
    })
}
