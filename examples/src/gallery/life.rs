//! Conway's Game of Life on a torus. Dead cells fade out.

use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;

/// Game of Life.
pub const LIFE: Example = Example {
    name: "life",
    about: "Conway's Game of Life on a torus; dead cells fade out",
    long: "Double buffering: one field is read, the other is written, and they are swapped between launches. With \
           --view, the left button adds live cells.",
    size: ("cells along each side", 192),
    frames: 160,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("life.rs"),
};

/// Random cells in the middle of an empty plane; `random` is reproducible.
#[kernel]
fn scatter(cells: &Field<u8, 2>) {
    let n = cells.shape();
    for [i, j] in cells {
        let inside = (i - n.x / 2).abs() < n.x / 4 && (j - n.y / 2).abs() < n.y / 4;
        cells[[i, j]] = (inside && random::<f32>() < 0.35) as u8;
    }
}

#[kernel]
fn generation(now: &Field<u8, 2>, next: &Field<u8, 2>, glow: &Field<f32, 2>) -> i32 {
    let n = now.shape();
    let mut population = 0;
    for [i, j] in now {
        let mut around = 0;
        for [di, dj] in grid([-1..2, -1..2]) {
            if di != 0 || dj != 0 {
                around += now[[(i + di).rem_euclid(n.x), (j + dj).rem_euclid(n.y)]] as i32;
            }
        }
        let alive = around == 3 || around == 2 && now[[i, j]] == 1;
        next[[i, j]] = alive as u8;
        glow[[i, j]] = if alive { 1.0 } else { glow[[i, j]] * 0.93 };
        // A reduction.
        population += alive as i32;
    }
    population
}

#[kernel]
fn paint(cells: &Field<u8, 2>, glow: &Field<f32, 2>, pixels: &Field<Vec3, 2>) {
    for [i, j] in pixels {
        // Each cell covers 2 x 2 pixels.
        let g = glow[[i / 2, j / 2]];
        let trail = mix(vec3(0.04, 0.05, 0.09), vec3(0.55, 0.15, 0.45), g * g);
        pixels[[i, j]] = if cells[[i / 2, j / 2]] == 1 {
            vec3(1.0, 0.92, 0.6)
        } else {
            trail
        };
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size();
    let cells = [
        world.field::<u8, 2>("a", [n, n])?,
        world.field::<u8, 2>("b", [n, n])?,
    ];
    let glow = world.field::<f32, 2>("glow", [n, n])?;
    let pixels = world.field::<Vec3, 2>("pixels", [2 * n, 2 * n])?;
    scatter(&cells[0])?;
    let mut population = 0;
    stage.play(
        |input| {
            let (now, next) = (&cells[input.frame % 2], &cells[(input.frame + 1) % 2]);
            if let Some([x, y]) = input.pointer {
                let at = [x, y].map(|c| ((c * n as f32) as i64).clamp(1, n as i64 - 2));
                now.window([at[0] - 1..at[0] + 1, at[1] - 1..at[1] + 1])?
                    .fill(1)?;
            }
            population = generation(now, next, &glow)?;
            paint(next, &glow, &pixels)
        },
        || pixels.to_picture(),
    )?;
    Ok(Summary::new(
        format!("{population} cells alive on {n}x{n}"),
        1,
        "generations",
    ))
}
