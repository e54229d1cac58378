//! A flag of cloth after Baraff and Witkin, *Large steps in cloth simulation*: the system of every step is a traced program.

use super::cholesky::Cholesky;
use super::surface::{Screen, Sides, squares};
use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;
use wuji_symbolic::Program;
use wuji_symbolic::applications::cloth::{Cloth, Stiffness};

/// Seconds between frames, one step each.
const STEP: f64 = 1.0 / 40.0;
const GRAVITY: f64 = 9.8;
const WIND: f64 = 9.0;
const DENSITY: f64 = 0.3;

/// A flag in the wind, in large implicit steps.
pub const LARGE_STEPS: Example = Example {
    name: "large_steps",
    about: "a flag with stretch, shear and bending forces, whose system is a traced program",
    long: "The conditions of Baraff and Witkin are generic functions: stretch and shear of triangles, and angles between them. Their \
           derivatives come from the trace, and with them the sparse matrix and the right-hand side of an implicit step. \
           The same program runs in every step with new positions and velocities.",
    size: ("vertices along each side", 14),
    frames: 60,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("large_steps.rs"),
};

/// Triangles between `n` by `n` vertices. Diagonals alternate.
fn triangles(n: usize) -> Vec<[usize; 3]> {
    let mut all = Vec::new();
    for i in 1..n {
        for j in 1..n {
            let (a, b) = ((i - 1) * n + j - 1, (i - 1) * n + j);
            let (c, d) = (i * n + j - 1, i * n + j);
            all.extend(if (i + j) % 2 == 0 {
                [[a, c, b], [b, c, d]]
            } else {
                [[a, c, d], [a, d, b]]
            });
        }
    }
    all
}

fn cloth(n: usize) -> Cloth {
    let side = 1.0 / (n - 1) as f64;
    let area = 0.5 * side * side;
    let stiffness = Stiffness {
        stretch: 300.0 / area,
        shear: 30.0 / area,
        bend: 2e-4,
        damping: 0.01,
    };
    let material = (0..n * n).flat_map(|v| [(v / n) as f64 * side, (v % n) as f64 * side]);
    Cloth::new(
        &triangles(n),
        &material.collect::<Vec<f64>>(),
        DENSITY,
        stiffness,
    )
}

/// A wind that varies in time and place.
fn wind(time: f64, place: &[f64]) -> [f64; 3] {
    let gust = 1.0 + 0.5 * (7.0 * time + 4.0 * place[0]).sin();
    [
        0.9 * WIND * gust,
        0.0,
        0.5 * WIND * (5.0 * time - 6.0 * place[0] + 2.0 * place[1]).sin(),
    ]
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size().max(3);
    let cloth = cloth(n);
    // Held along its pole.
    let held: Vec<usize> = (0..n).collect();
    let place = |k: usize| k as f64 / (n - 1) as f64 - 0.5;
    let start = (0..n * n).flat_map(|v| [place(v / n), place(v % n), 0.02 * place(v / n)]);
    let mut x: Vec<f64> = start.collect();
    let mut velocity = vec![0.0; x.len()];
    let program = Program::trace(&world, (&x, &velocity), |(x, v)| {
        cloth.system(STEP, &held, &x, &v)
    })?;
    // The pattern is the same in all steps, and so is the order of elimination.
    let known = Cholesky::new(&program.run((&x, &velocity))?.0)?;

    let corners = world.field::<Vec3, 1>("corners", 6 * (n - 1) * (n - 1))?;
    let screen = Screen::new(&world, 360)?;
    let state = std::cell::RefCell::new((&mut x, &mut velocity));
    stage.play(
        |input| {
            let (x, velocity) = &mut *state.borrow_mut();
            let time = input.frame as f64 * STEP;
            for v in n..n * n {
                let blown = wind(time, &x[3 * v..3 * v + 3]);
                let pushed = [blown[0], blown[1] - GRAVITY, blown[2]];
                for k in 0..3 {
                    let drag = velocity[3 * v + k];
                    velocity[3 * v + k] += STEP * (pushed[k] - drag);
                }
            }
            let (matrix, mut change) = program.run((&**x, &**velocity))?;
            known.factor(&matrix)?.solve(&mut change, 1);
            for k in 3 * n..x.len() {
                velocity[k] += change[k];
                x[k] += STEP * velocity[k];
            }
            Ok(())
        },
        || {
            screen.clear()?;
            corners.copy_from(&squares(n, n, state.borrow().0))?;
            let sides = Sides {
                front: vec3(0.75, 0.16, 0.14),
                back: vec3(0.8, 0.62, 0.3),
            };
            screen.draw(&corners, 2 * (n - 1) * (n - 1), [0.5, 0.2], sides)?;
            screen.picture()
        },
    )?;
    let (faces, edges) = (cloth.triangles.len(), cloth.hinges.len());
    let what = format!("{} vertices, {faces} triangles, {edges} hinges", n * n);
    Ok(Summary::new(what, 1, "steps"))
}
