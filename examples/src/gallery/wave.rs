//! The double-slit experiment in a water tank: a source in front of a wall with two slits, and the interference pattern behind it.

use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;

const STEPS: usize = 10;

/// Waves behind two slits.
pub const WAVE: Example = Example {
    name: "wave",
    about: "the wave equation: interference behind two slits",
    long: "A stencil over the water height at the previous, current and next time step. Out-of-bounds reads return zero, \
           so borders need no special case. With --view, the left button drops stones.",
    size: ("cells along each side", 512),
    frames: 120,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("wave.rs"),
};

/// Damping factor: 0 in the wall, below 1 in an absorbing layer at the edge of the tank.
#[func]
fn passes(i: i32, j: i32, n: i32) -> f32 {
    let slit = ((j - n / 2).abs() - n / 10).abs() < n / 32;
    let wall = (i - n / 3).abs() < 2 && !slit;
    let edge = i.min(j).min(n - 1 - i).min(n - 1 - j) as f32 / (n as f32 * 0.08);
    if wall {
        0.0
    } else {
        1.0 - 0.12 * (1.0 - edge).max(0.0).powi(2)
    }
}

/// Overwrites `old` with the next time step.
#[kernel]
fn advance(old: &Field<f32, 2>, now: &Field<f32, 2>, time: f32) {
    let n = now.shape().x;
    for [i, j] in now {
        let u = now[[i, j]];
        let around = now[[i - 1, j]] + now[[i + 1, j]] + now[[i, j - 1]] + now[[i, j + 1]];
        // The squared wave speed, in cells per step, is 1/4.
        let next = 2.0 * u - old[[i, j]] + 0.25 * (around - 4.0 * u);
        let source = if i == n / 8 {
            (time * 0.22).sin() * 0.12
        } else {
            0.0
        };
        old[[i, j]] = (next + source * 0.25) * passes(i, j, n);
    }
}

/// Adds a Gaussian bump.
#[kernel]
fn drop_stone(u: &Field<f32, 2>, at: Vec2) {
    for [i, j] in u {
        let d = vec2(i as f32, j as f32).distance(at);
        u[[i, j]] += 0.9 * (-d * d / 20.0).exp();
    }
}

#[kernel]
fn paint(u: &Field<f32, 2>, pixels: &Field<Vec3, 2>) {
    let n = pixels.shape().x;
    for [i, j] in pixels {
        // The square root makes the small waves behind the wall visible.
        let h = u[[i, j]].signum() * u[[i, j]].abs().sqrt().min(1.0);
        let (deep, calm, crest) = (
            vec3(0.02, 0.05, 0.2),
            vec3(0.08, 0.3, 0.52),
            vec3(0.92, 0.98, 1.0),
        );
        let water = if h > 0.0 {
            mix(calm, crest, h)
        } else {
            mix(calm, deep, -h)
        };
        pixels[[i, j]] = if passes(i, j, n) == 0.0 {
            vec3(0.9, 0.55, 0.2)
        } else {
            water
        };
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size();
    let u = [
        world.field::<f32, 2>("u", [n, n])?,
        world.field::<f32, 2>("v", [n, n])?,
    ];
    let pixels = world.field::<Vec3, 2>("pixels", [n, n])?;
    stage.play(
        |input| {
            if let Some([x, y]) = input.pointer {
                drop_stone(&u[0], vec2(x, y) * n as f32)?;
            }
            // The number of steps is even, so `u[0]` is the newest again.
            for step in 0..STEPS {
                let (old, now) = (&u[(step + 1) % 2], &u[step % 2]);
                advance(old, now, (input.frame * STEPS + step) as f32)?;
            }
            paint(&u[0], &pixels)
        },
        || pixels.to_picture(),
    )?;
    Ok(Summary::new(format!("{n}x{n} cells"), STEPS, "steps"))
}
