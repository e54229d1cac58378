//! What the bodies of a scene are, and how they look.

use super::super::noise;
use super::{Material, Particle, WALL};
use wuji::prelude::*;
use wuji::viewer::light;

/// A body: cells of the grid, and their velocity.
struct Body {
    inside: fn(Vec3) -> bool,
    velocity: Vec3,
}

fn in_ball(at: Vec3, center: Vec3, radius: f32) -> bool {
    (at - center).norm_sqr() < radius * radius
}

/// The particles of a scene on `n`^3 nodes: two cubes of jelly or two snowballs that hit each other, a column of sand, or a fluid
/// behind a dam that breaks.
pub(super) fn particles(material: Material, n: i32) -> Vec<Particle> {
    let ball = |inside, vx| Body {
        inside,
        velocity: vec3(vx, 0.5, 0.0),
    };
    let resting = |inside| Body {
        inside,
        velocity: Vec3::splat(0.0),
    };
    match material {
        Material::NeoHookean | Material::Corotated => cubes(n, n as usize / 4),
        Material::Snow => filled(
            n,
            &[
                ball(|at| in_ball(at, vec3(0.28, 0.36, 0.52), 0.15), 8.0),
                ball(|at| in_ball(at, vec3(0.72, 0.46, 0.46), 0.15), -8.0),
            ],
        ),
        Material::Sand => filled(
            n,
            &[resting(|at| {
                let (x, z) = (at.x - 0.5, at.z - 0.5);
                x * x + z * z < 0.18 * 0.18 && at.y < 0.45
            })],
        ),
        Material::Fluid => filled(n, &[resting(|at| at.x < 0.4 && at.y < 0.5 && at.z < 0.6)]),
    }
}

/// Eight particles in each cell of some bodies, inside of the walls of a grid of `n`^3 nodes.
fn filled(n: i32, bodies: &[Body]) -> Vec<Particle> {
    let mut all = Vec::new();
    let range = || WALL..n - WALL;
    for body in bodies {
        let cells =
            range().flat_map(|i| range().flat_map(move |j| range().map(move |k| [i, j, k])));
        let middle = |cell: [i32; 3]| Vector(cell.map(|c| (c as f32 + 0.5) / n as f32));
        for cell in cells.filter(|cell| (body.inside)(middle(*cell))) {
            for _ in 0..8 {
                let p = all.len();
                let x = std::array::from_fn(|d| (cell[d] as f32 + noise(3 * p + d)) / n as f32);
                all.push(at_rest(Vector(x), body.velocity));
            }
        }
    }
    all
}

fn at_rest(x: Vec3, v: Vec3) -> Particle {
    Particle {
        x,
        v,
        c: Mat3::splat(0.0),
        f: Mat3::identity(),
    }
}

/// Two colliding cubes of `side` cells, with eight particles in each.
pub(super) fn cubes(n: i32, side: usize) -> Vec<Particle> {
    let of = |p: usize| {
        let (cube, cell) = (p / (8 * side.pow(3)), p / 8 % side.pow(3));
        let (corner, v) = if cube == 0 {
            ([0.2, 0.1, 0.3], [2.0, 0.0, 0.0])
        } else {
            ([0.55, 0.2, 0.4], [-2.0, -1.0, 0.0])
        };
        let cell = [cell / (side * side), cell / side % side, cell % side];
        let x = std::array::from_fn(|d| corner[d] + (cell[d] as f32 + noise(3 * p + d)) / n as f32);
        at_rest(Vector(x), Vector(v))
    };
    (0..16 * side.pow(3)).map(of).collect()
}

/// Colours of slow and fast particles, of the first and of the second half.
pub(super) fn colors(material: Material) -> [(Vec3, Vec3); 2] {
    let pair = |(slow, fast)| (Vector(light(slow)), Vector(light(fast)));
    match material {
        Material::NeoHookean | Material::Corotated => [(0x1f6feb, 0x9be7ff), (0xff5c8a, 0xffd36b)],
        Material::Snow => [(0xdfe9f5, 0xffffff), (0xb9d3ee, 0xf4faff)],
        Material::Sand => [(0xc58f4a, 0xf2d18b); 2],
        Material::Fluid => [(0x0b4fa8, 0x8fe3ff); 2],
    }
    .map(pair)
}
