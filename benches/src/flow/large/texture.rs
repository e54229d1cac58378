//! Texture generation, the program that the paper also has in JAX: a pattern is rotated and scaled, both with bilinear resampling,
//! and the two images are blended. `benches/python/texture_jax.py` is the same in JAX.

use wuji::Result;
use wuji::prelude::*;

use crate::case::Contender;
use crate::flow::{Program, Size, repeated};

pub const TEXTURE: Program = Program {
    name: "flow texture",
    sizes: ["512^2", "2048^2", "2048^2"],
    make,
    by_hand: None,
    tolerance: 1e-4,
};

const ANGLE: f32 = 0.5;
const FACTOR: f32 = 1.7;

/// Rings and stripes.
#[kernel]
fn pattern(image: &Field<Vec3, 2>, n: f32) {
    for [i, j] in image {
        let (x, y) = (i as f32 / n - 0.5, j as f32 / n - 0.5);
        let rings = 0.5 + 0.5 * (60.0 * (x * x + y * y)).sin();
        let stripes = 0.5 + 0.5 * (40.0 * x).sin();
        image[[i, j]] = vec3(rings, stripes, rings * stripes);
    }
}

/// Bilinear interpolation; black outside.
#[func]
fn bilinear(image: &Field<Vec3, 2>, p: Vec2) -> Vec3 {
    let at = p.floor();
    let w = p - at;
    let (i, j) = (at.x as i32, at.y as i32);
    let lower = image[[i, j]] * (1.0 - w.y) + image[[i, j + 1]] * w.y;
    let upper = image[[i + 1, j]] * (1.0 - w.y) + image[[i + 1, j + 1]] * w.y;
    lower * (1.0 - w.x) + upper * w.x
}

#[kernel]
fn rotate(from: &Field<Vec3, 2>, to: &Field<Vec3, 2>, angle: f32, n: f32) {
    for [i, j] in to {
        let half = Vec2::splat(0.5 * n);
        let d = vec2(i as f32, j as f32) - half;
        let (s, c) = (angle.sin(), angle.cos());
        to[[i, j]] = bilinear(from, vec2(c * d.x - s * d.y, s * d.x + c * d.y) + half);
    }
}

#[kernel]
fn rescale(from: &Field<Vec3, 2>, to: &Field<Vec3, 2>, factor: f32, n: f32) {
    for [i, j] in to {
        let half = Vec2::splat(0.5 * n);
        let d = vec2(i as f32, j as f32) - half;
        to[[i, j]] = bilinear(from, d / factor + half);
    }
}

#[kernel]
fn blend(a: &Field<Vec3, 2>, b: &Field<Vec3, 2>, to: &Field<Vec3, 2>, alpha: f32) {
    for [i, j] in to {
        to[[i, j]] = a[[i, j]] * alpha + b[[i, j]] * (1.0 - alpha);
    }
}

fn make(world: &World, size: Size) -> Result<Box<dyn Contender>> {
    let n = match size {
        Size::Quick => 512,
        Size::Paper | Size::Gpu => 2048,
    };
    let image = |name: &str| world.field::<Vec3, 2>(name, [n, n]);
    let (source, rotated, scaled) = (image("source")?, image("rotated")?, image("scaled")?);
    let blended = image("blended")?;
    let extent = n as f32;
    pattern(&source, extent)?;
    let out = blended.clone();
    let run = move || {
        rotate(&source, &rotated, ANGLE, extent)?;
        rescale(&source, &scaled, FACTOR, extent)?;
        blend(&rotated, &scaled, &blended, 0.6)
    };
    Ok(repeated(world, 1, run, move || {
        let middle = out.window([n / 2..n / 2 + 40, n / 2..n / 2 + 40])?;
        let pixels = middle.to_vec()?;
        Ok(pixels.iter().flat_map(|p| [p.x, p.y, p.z]).collect())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number that `texture_jax.py` prints for the same pixels.
    #[test]
    fn the_image_is_that_of_jax() {
        for lazy in [false, true] {
            let world = World::builder().lazy(lazy).build().expect("a world");
            let mut program = make(&world, Size::Quick).expect("fields");
            program.run().expect("an image");
            let pixels = program.result().expect("pixels");
            let mean = pixels.iter().sum::<f32>() / pixels.len() as f32;
            assert!((mean - 0.589789).abs() < 1e-4, "{mean}, lazy: {lazy}");
        }
    }
}
