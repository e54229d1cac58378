//! The elasticity operator alone: `f = K u` on the sparse blocks of a hollow ball.

use std::sync::Arc;

use wuji::World;
use wuji::prelude::*;
use wuji_examples::apps::fem::{self, BLOCK, Operator, Order};

use super::cuda::{self, Cuda};
use super::reference::fem::Body;
use super::{Application, Size, lines, sorted};
use crate::case::{Contender, launches, made, noise};
use crate::pool::Pool;

pub const FEM: Application = Application {
    name: "fem",
    title: "FEM linear elasticity",
    size: |size| format!("{0}^3", side(size)),
    ours: |world, size| ours(world, size, Order::Soa),
    reference,
    tolerance: 1e-5,
    lines: || {
        (
            lines::count(include_str!("reference/fem.rs"), &["operator"]),
            lines::count(
                include_str!("../../../examples/src/apps/fem.rs"),
                &["operator", "layout"],
            ),
        )
    },
    kernels: "fem",
    cuda: Some(on_device),
};

/// The array-of-structures layout of the same program.
pub fn array_of_structs(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    ours(world, size, Order::Aos)
}

fn side(size: Size) -> i32 {
    match size {
        Size::Small => 32,
        Size::Paper => 256,
    }
}

/// The displacement of a node.
fn displacement(at: [i32; 3]) -> Vec3 {
    let number = at.iter().fold(0, |n, c| n * 1024 + *c as usize);
    Vector(std::array::from_fn(|c| noise(3 * number + c) - 0.5))
}

fn ours(world: &World, size: Size, order: Order) -> wuji::Result<Box<dyn Contender>> {
    let operator = Operator::new(world, side(size), fem::shell, order)?;
    let nodes = operator.u.active()?;
    let values: Vec<Vec3> = nodes.iter().map(|at| displacement(*at)).collect();
    operator.u.import(&nodes, &values)?;
    let forces = operator.f.clone();
    let world = world.clone();
    let run = move || {
        operator.apply()?;
        world.synchronize()
    };
    let view = move || {
        let (nodes, values) = forces.export()?;
        Ok(sorted(nodes, values.iter().map(|f| f.0)))
    };
    Ok(launches(run, view))
}

/// The coordinates of the nodes of a block.
fn nodes(block: [usize; 3]) -> impl Iterator<Item = [i32; 3]> {
    let first = block.map(|c| c as i32 * BLOCK);
    (0..BLOCK * BLOCK * BLOCK).map(move |c| {
        [
            first[0] + c / (BLOCK * BLOCK),
            first[1] + c / BLOCK % BLOCK,
            first[2] + c % BLOCK,
        ]
    })
}

/// Forces of the blocks, in the order of the coordinates of their nodes.
fn view(body: &Body, force: impl Fn(usize, usize) -> [f32; 3]) -> Vec<f32> {
    let all = body.places.iter().flat_map(|place| nodes(*place)).collect();
    let numbers = (0..body.places.len()).flat_map(|b| (0..512).map(move |c| (b, c)));
    sorted(all, numbers.map(|(block, cell)| force(block, cell)))
}

fn reference(pool: &Arc<Pool>, size: Size) -> Box<dyn Contender> {
    let pool = Arc::clone(pool);
    made(
        body(side(size)),
        move |body: &mut Body| body.apply(&pool),
        |body| {
            view(body, |block, cell| {
                body.forces[block].map(|component| component[cell])
            })
        },
    )
}

fn on_device(size: Size) -> wuji::Result<Cuda> {
    let body = body(side(size));
    let of = |place: &[usize; 3]| -> [u32; 27] {
        std::array::from_fn(|o| body.neighbour(*place, [o / 9, o / 3 % 3, o % 3]))
    };
    let near: Vec<[u32; 27]> = body.places.iter().map(of).collect();
    let values: Vec<f32> = body
        .blocks
        .iter()
        .flat_map(|b| [b.u[0], b.u[1], b.u[2], b.lambda, b.mu])
        .flatten()
        .collect();
    let mut device = Cuda::device(&cuda::OPERATORS)?;
    let count = body.places.len() * 3 * 512;
    let output = device.alloc(count as u64 * 4)?;
    let words = vec![device.upload(&values)?, device.upload(&near)?, output];
    let only = cuda::launch("fem", body.places.len() as u32, 256, &words);
    Ok(Cuda::one(device, only, (output, count), move |values| {
        view(&body, |block, cell| {
            std::array::from_fn(|d| values[(block * 3 + d) * 512 + cell])
        })
    }))
}

/// The same ball as [`Operator::new`] makes.
fn body(n: i32) -> Body {
    let cells = fem::solid(n, fem::shell);
    let block = |c: [i32; 3]| c.map(|c| (c / BLOCK) as usize);
    let mut places: Vec<[usize; 3]> = cells
        .iter()
        .flat_map(|c| [block(*c), block(c.map(|c| c + 1))])
        .collect();
    places.sort();
    places.dedup();
    let mut body = Body::new((n / BLOCK) as usize, places);
    for (place, values) in body.places.iter().zip(&mut body.blocks) {
        for (c, node) in nodes(*place).enumerate() {
            for (component, u) in displacement(node).0.into_iter().enumerate() {
                values.u[component][c] = u;
            }
        }
    }
    for cell in cells {
        let number = body.places.binary_search(&block(cell));
        let at = cell.iter().fold(0, |at, c| at * BLOCK + c % BLOCK) as usize;
        if let Ok(number) = number {
            let values = &mut body.blocks[number];
            (values.lambda[at], values.mu[at]) = fem::material(cell, n);
        }
    }
    body
}
