//! An animated Julia set: every pixel runs its own loop, and all pixels run in parallel.

use super::{Example, Media, Outcome, Stage, Summary};
use wuji::prelude::*;

/// A Julia set.
pub const JULIA: Example = Example {
    name: "julia",
    about: "an animated Julia set; the first kernel to read",
    long: "A parallel loop over the pixels with a divergent `while` loop inside, and a function that the kernel \
           calls. The compiler vectorizes it across pixels.",
    size: ("pixels in height", 320),
    frames: 120,
    media: Media::Moving,
    run,
    file: file!(),
    source: include_str!("julia.rs"),
};

/// The square of a complex number.
#[func]
fn square(z: Vec2) -> Vec2 {
    vec2(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y)
}

#[kernel]
fn paint(pixels: &Field<Vec3, 2>, c: Vec2) {
    let n = pixels.shape().y as f32;
    for [i, j] in pixels {
        let mut z = vec2(i as f32 / n - 1.0, j as f32 / n - 0.5) * 2.2;
        let mut steps = 0.0;
        while z.norm_sqr() < 256.0 && steps < 100.0 {
            z = square(z) + c;
            steps += 1.0;
        }
        // Smooth iteration count.
        let smooth = steps - z.norm_sqr().max(1.0).log2().max(1.0).log2() + 3.0;
        let t = (smooth / 100.0).clamp(0.0, 1.0).sqrt();
        let wave = (vec3(0.0, 0.6, 1.2) + Vec3::splat(t * 9.0)).cos();
        let inside = steps >= 100.0;
        pixels[[i, j]] = if inside {
            Vec3::splat(0.0)
        } else {
            (Vec3::splat(0.5) - wave * 0.5) * t.sqrt()
        };
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let n = stage.size();
    let pixels = stage.world().field::<Vec3, 2>("pixels", [2 * n, n])?;
    let frames = stage.frames() as f32;
    stage.play(
        |input| {
            let t = input.frame as f32 / frames * std::f32::consts::TAU;
            paint(&pixels, vec2(-0.8 + 0.06 * t.sin(), 0.156 * t.cos()))
        },
        || pixels.to_picture(),
    )?;
    Ok(Summary::new(format!("{}x{n} pixels", 2 * n), 1, "pictures"))
}
