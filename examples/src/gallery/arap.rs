//! A tube is twisted and bent, as rigidly as possible: a traced program finds the rotation of every vertex.

use super::cholesky::Cholesky;
use super::surface::{Screen, Sides};
use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;
use wuji_symbolic::applications::arap::Surface;
use wuji_symbolic::{Csr, Program};

const ITERATIONS: usize = 6;
const RADIUS: f64 = 0.2;
/// Weight of the position of a vertex that is held.
const HELD: f64 = 1e4;

/// As-rigid-as-possible deformation.
pub const ARAP: Example = Example {
    name: "arap",
    about: "a tube is deformed as rigidly as possible, with a traced program",
    long: "The local step fits a rotation to the edges of every vertex, with a singular value decomposition. It runs once on symbols; \
           what all vertices have in common becomes a parallel loop. The global step solves a sparse system whose factors do not change. \
           In a window, the pointer moves the upper end.",
    size: ("rings of the tube", 48),
    frames: 80,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("arap.rs"),
};

/// A tube of rings: triangles, and coordinates of vertices.
fn tube(rings: usize, around: usize) -> (Vec<[usize; 3]>, Vec<f64>) {
    let mut triangles = Vec::new();
    let mut points = Vec::new();
    for ring in 0..rings {
        for k in 0..around {
            let angle = std::f64::consts::TAU * k as f64 / around as f64;
            let height = 1.3 * ring as f64 / (rings - 1) as f64 - 0.65;
            points.extend([RADIUS * angle.cos(), height, RADIUS * angle.sin()]);
            if ring > 0 {
                let at = |back: usize, next: usize| (ring - back) * around + (k + next) % around;
                let (a, b, c, d) = (at(1, 0), at(1, 1), at(0, 0), at(0, 1));
                triangles.extend([[a, c, b], [b, c, d]]);
            }
        }
    }
    (triangles, points)
}

/// Where the upper end is: turned, and moved to a side.
fn target(p: &[f64], turn: f64, aside: [f64; 2]) -> [f64; 3] {
    let (s, c) = turn.sin_cos();
    let (x, z) = (c * p[0] - s * p[2], s * p[0] + c * p[2]);
    [x + aside[0], p[1] + aside[1], z]
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let rings = stage.size().max(4);
    let around = (rings / 2).max(8);
    let (triangles, rest) = tube(rings, around);
    let vertices = rest.len() / 3;
    let surface = Surface::new(&triangles, &rest)?;
    let program = Program::trace(&world, &rest, |x| surface.right_hand_side(&x))?;
    // The lowest and the highest rings are held.
    let is_held = |v: usize| v < 2 * around || v >= vertices - 2 * around;
    let mut triplets = surface.laplacian.triplets();
    triplets.extend((0..vertices).filter(|v| is_held(*v)).map(|v| (v, v, HELD)));
    let matrix = Csr::from_triplets(vertices, vertices, &triplets)?;
    let factors = Cholesky::new(&matrix)?.factor(&matrix)?;

    let corners = world.field::<Vec3, 1>("corners", 3 * triangles.len())?;
    let screen = Screen::new(&world, 360)?;
    let state = std::cell::RefCell::new(rest.clone());
    let frames = stage.frames().max(2);
    stage.play(
        |input| {
            let x = &mut *state.borrow_mut();
            let progress = input.frame as f64 / (frames - 1) as f64;
            let wave = (progress * std::f64::consts::PI).sin();
            let (turn, aside) = match input.pointer {
                Some([x, y]) => (4.0 * f64::from(x), [f64::from(x) - 0.5, f64::from(y) - 0.8]),
                None => (3.0 * wave, [0.45 * wave, -0.25 * wave]),
            };
            for _ in 0..ITERATIONS {
                let right = program.run(&*x)?;
                let mut columns: Vec<f64> = (0..3)
                    .flat_map(|k| {
                        right
                            .iter()
                            .skip(k)
                            .step_by(3)
                            .copied()
                            .collect::<Vec<f64>>()
                    })
                    .collect();
                for v in (0..vertices).filter(|v| is_held(*v)) {
                    let own = &rest[3 * v..3 * v + 3];
                    let upper = v >= vertices - 2 * around;
                    let moved = target(own, turn, aside);
                    for k in 0..3 {
                        let place = if upper { moved[k] } else { own[k] };
                        columns[k * vertices + v] += HELD * place;
                    }
                }
                factors.solve(&mut columns, 3);
                for (n, x) in x.iter_mut().enumerate() {
                    *x = columns[n % 3 * vertices + n / 3];
                }
            }
            Ok(())
        },
        || {
            let x = state.borrow();
            let at = |v: usize| vec3(x[3 * v] as f32, x[3 * v + 1] as f32, x[3 * v + 2] as f32);
            let all: Vec<Vec3> = triangles.iter().flatten().map(|v| at(*v)).collect();
            corners.copy_from(&all)?;
            screen.clear()?;
            let sides = Sides {
                front: vec3(0.2, 0.55, 0.6),
                back: vec3(0.75, 0.4, 0.2),
            };
            screen.draw(&corners, triangles.len(), [0.5, 0.35], sides)?;
            screen.picture()
        },
    )?;
    let what = format!("{vertices} vertices, {} triangles", triangles.len());
    Ok(Summary::new(what, ITERATIONS, "iterations"))
}
