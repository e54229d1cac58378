//! Gray-Scott reaction-diffusion. Feed and kill rates vary across the domain, so one picture shows dots, worms, holes and waves: a map of
//! the parameter space.

use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;

const STEPS: usize = 100;

/// Reaction and diffusion.
pub const GRAY_SCOTT: Example = Example {
    name: "gray_scott",
    about: "Gray-Scott reaction-diffusion: a map of all patterns",
    long: "A stencil on vectors: both concentrations of a cell are one `Vec2`. The feed rate grows from bottom to top, the \
           kill rate from left to right. The example `coral` runs the same reaction on an unbounded plane.",
    size: ("cells along each side", 320),
    frames: 60,
    media: Media::Still,
    run,
    file: file!(),
    source: include_str!("gray_scott.rs"),
};

#[kernel]
fn seed(cells: &Field<Vec2, 2>) {
    for [i, j] in cells {
        let seeded = i % 20 < 4 && j % 20 < 4;
        cells[[i, j]] = if seeded {
            vec2(0.5, 0.25 + 0.1 * random::<f32>())
        } else {
            vec2(1.0, 0.0)
        };
    }
}

#[kernel]
fn react(from: &Field<Vec2, 2>, to: &Field<Vec2, 2>) {
    let n = from.shape();
    for [i, j] in from {
        let (left, right) = ((i - 1).rem_euclid(n.x), (i + 1).rem_euclid(n.x));
        let (below, above) = ((j - 1).rem_euclid(n.y), (j + 1).rem_euclid(n.y));
        let here = from[[i, j]];
        let flow =
            from[[left, j]] + from[[right, j]] + from[[i, below]] + from[[i, above]] - here * 4.0;
        let feed = 0.012 + 0.06 * j as f32 / n.y as f32;
        // Patterns form near the line where both substances can just coexist.
        let line = 0.5 * feed.sqrt() - feed;
        let remove = line - 0.003 + 0.006 * i as f32 / n.x as f32;
        let eaten = here.x * here.y * here.y;
        to[[i, j]] = here
            + flow * vec2(0.21, 0.105)
            + vec2(
                feed * (1.0 - here.x) - eaten,
                eaten - (feed + remove) * here.y,
            );
    }
}

#[kernel]
fn paint(cells: &Field<Vec2, 2>, pixels: &Field<Vec3, 2>) {
    for [i, j] in pixels {
        let t = (cells[[i, j]].y * 2.8).clamp(0.0, 1.0);
        let low = mix(
            vec3(0.02, 0.03, 0.08),
            vec3(0.1, 0.45, 0.5),
            (t * 2.0).min(1.0),
        );
        pixels[[i, j]] = mix(low, vec3(1.0, 0.93, 0.75), (t * 2.0 - 1.0).max(0.0));
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size();
    let cells = [
        world.field::<Vec2, 2>("a", [n, n])?,
        world.field::<Vec2, 2>("b", [n, n])?,
    ];
    let pixels = world.field::<Vec3, 2>("pixels", [n, n])?;
    seed(&cells[0])?;
    stage.play(
        |_| {
            for step in 0..STEPS {
                react(&cells[step % 2], &cells[(step + 1) % 2])?;
            }
            paint(&cells[0], &pixels)
        },
        || pixels.to_picture(),
    )?;
    Ok(Summary::new(format!("{n}x{n} cells"), STEPS, "steps"))
}
