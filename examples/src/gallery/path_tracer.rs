//! A path tracer for signed distance functions: rays are sphere-traced and bounce diffusely or specularly.

use super::{Example, Media, Outcome, Stage, Summary};
use std::cell::Cell;
use wuji::prelude::*;

const FAR: f32 = 20.0;
const CLOSE: f32 = 1e-3;
const BOUNCES: i32 = 4;
const SUN: Vec3 = vec3(0.58, 0.62, -0.53);
const SUN_LIGHT: Vec3 = vec3(3.4, 2.9, 2.2);

/// A path tracer.
pub const PATH_TRACER: Example = Example {
    name: "path_tracer",
    about: "a path tracer for signed distance functions: blobs, a mirror, sun and sky",
    long: "Enums, `Option` and functions in kernels, loops with early exit, and `random`, which is reproducible for any number of threads. Each \
           frame adds one path per pixel; with --view you see the noise converge.",
    size: ("pixels along each side", 320),
    frames: 64,
    media: Media::Still,
    run,
    file: file!(),
    source: include_str!("path_tracer.rs"),
};

/// What a ray hits, with its color.
#[derive(Element, Clone, Copy, Debug)]
enum Surface {
    Matte(Vec3),
    Mirror(Vec3),
}

/// Smooth minimum of two distances.
#[func]
fn join(a: f32, b: f32, width: f32) -> f32 {
    let h = (0.5 + 0.5 * (b - a) / width).clamp(0.0, 1.0);
    mix(b, a, h) - width * h * (1.0 - h)
}

#[func]
fn ring(p: Vec3) -> f32 {
    vec2(vec2(p.x, p.z).norm() - 0.55, p.y).norm() - 0.16
}

#[func]
fn blobs(p: Vec3) -> f32 {
    let a = (p - vec3(-0.35, 0.35, 0.0)).norm() - 0.36;
    let b = (p - vec3(0.15, 0.62, 0.1)).norm() - 0.26;
    join(join(a, b, 0.25), ring(p - vec3(0.0, 0.14, 0.0)), 0.18)
}

#[func]
fn ball(p: Vec3) -> f32 {
    (p - vec3(0.75, 0.32, -0.45)).norm() - 0.32
}

/// Signed distance to the scene.
#[func]
fn scene(p: Vec3) -> f32 {
    p.y.min(blobs(p)).min(ball(p))
}

#[func]
fn surface(p: Vec3) -> Surface {
    if ball(p) < 2.0 * CLOSE {
        Surface::Mirror(vec3(0.92, 0.9, 0.86))
    } else if p.y < 2.0 * CLOSE {
        let odd = ((p.x * 2.0).floor() + (p.z * 2.0).floor()).rem_euclid(2.0) > 0.5;
        Surface::Matte(Vec3::splat(if odd { 0.62 } else { 0.32 }))
    } else {
        Surface::Matte(mix(
            vec3(0.85, 0.2, 0.12),
            vec3(0.95, 0.65, 0.2),
            (p.y * 1.2).clamp(0.0, 1.0),
        ))
    }
}

/// Sphere-traces a ray and returns where it ends; `None` if it leaves the scene.
#[func]
fn hit(origin: Vec3, direction: Vec3) -> Option<Vec3> {
    let mut t = 0.0;
    let mut steps = 0;
    while steps < 100 && t < FAR {
        let d = scene(origin + direction * t);
        if d < CLOSE {
            break;
        }
        t += d;
        steps += 1;
    }
    (t < FAR).then_some(origin + direction * t)
}

/// The normal: the gradient of the distance.
#[func]
fn normal(p: Vec3) -> Vec3 {
    let e = 5e-4;
    vec3(
        scene(p + vec3(e, 0.0, 0.0)) - scene(p - vec3(e, 0.0, 0.0)),
        scene(p + vec3(0.0, e, 0.0)) - scene(p - vec3(0.0, e, 0.0)),
        scene(p + vec3(0.0, 0.0, e)) - scene(p - vec3(0.0, 0.0, e)),
    )
    .normalized()
}

#[func]
fn sky(direction: Vec3) -> Vec3 {
    mix(
        vec3(0.75, 0.82, 0.95),
        vec3(0.2, 0.38, 0.75),
        direction.y.max(0.0),
    )
}

/// A cosine-weighted direction around the normal.
#[func]
fn scattered(normal: Vec3) -> Vec3 {
    let z = random::<f32>() * 2.0 - 1.0;
    let phi = random::<f32>() * std::f32::consts::TAU;
    let r = (1.0 - z * z).max(0.0).sqrt();
    (normal + vec3(r * phi.cos(), r * phi.sin(), z) * 0.999).normalized()
}

/// Adds one path per pixel.
#[kernel]
fn trace(image: &Field<Vec3, 2>) {
    let n = image.shape().x as f32;
    for [i, j] in image {
        let u = (i as f32 + random::<f32>()) / n - 0.5;
        let v = (j as f32 + random::<f32>()) / n - 0.5;
        let mut origin = vec3(0.1, 1.25, -3.2);
        let mut direction = vec3(u * 0.9, v * 0.9 - 0.27, 1.0).normalized();
        let mut weight = Vec3::splat(1.0);
        let mut light = Vec3::splat(0.0);
        for _ in 0..BOUNCES {
            let Some(at) = hit(origin, direction) else {
                light += weight * sky(direction);
                break;
            };
            let n = normal(at);
            origin = at + n * (3.0 * CLOSE);
            match surface(at) {
                Surface::Mirror(color) => {
                    weight = weight * color;
                    direction = direction.reflect(n);
                }
                Surface::Matte(color) => {
                    weight = weight * color;
                    // Next event estimation: the sun is too small to be hit by chance.
                    let facing = n.dot(SUN);
                    if facing > 0.0 && hit(origin, SUN).is_none() {
                        light += weight * SUN_LIGHT * (facing / std::f32::consts::PI);
                    }
                    direction = scattered(n);
                }
            }
        }
        image[[i, j]] += light;
    }
}

/// The mean of all paths, tone-mapped.
#[kernel]
fn develop(image: &Field<Vec3, 2>, pixels: &Field<Vec3, 2>, passes: f32) {
    for [i, j] in image {
        let c = image[[i, j]] / passes;
        pixels[[i, j]] = (c / (c * 0.6 + Vec3::splat(0.55)))
            .max(Vec3::splat(0.0))
            .powf(Vec3::splat(1.0 / 2.2));
    }
}

fn run(stage: &mut Stage) -> Outcome<Summary> {
    let world = stage.world();
    let n = stage.size();
    let image = world.field::<Vec3, 2>("image", [n, n])?;
    let pixels = world.field::<Vec3, 2>("pixels", [n, n])?;
    let passes = Cell::new(0);
    stage.play(
        |input| {
            passes.set(input.frame + 1);
            trace(&image)
        },
        || {
            develop(&image, &pixels, passes.get() as f32)?;
            pixels.to_picture()
        },
    )?;
    Ok(Summary::new(
        format!("{n}x{n} pixels, {} paths each", passes.get()),
        1,
        "passes",
    ))
}
