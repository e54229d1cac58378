//! Noise: smooth random functions of space, from -1 to 1. They depend on the position only, and are the same on all backends up to
//! rounding.
//!
//! Gradients and scales are those of Gustavson's public-domain `noise1234` and `simplexnoise1234`; random numbers come from an integer hash instead of a table of 256 entries, so
//! nothing repeats.

use super::shaping::smootherstep;
use crate::element::Element;
use crate::lang::operators::Operand;
use crate::lang::{Vec2, Vec3, mix, vec2, vec3};
use std::ops::Mul;
use wuji_macros::func;

/// A hash of 32 bits in which every bit depends on every bit of `x`.
#[func]
pub fn hash(x: u32) -> u32 {
    let mut h = x;
    h = (h ^ (h >> 16)).wrapping_mul(0x7feb_352d);
    h = (h ^ (h >> 15)).wrapping_mul(0x846c_a68b);
    h ^ (h >> 16)
}

#[func]
fn hash2(x: i32, y: i32) -> u32 {
    hash((x as u32).wrapping_add(hash(y as u32)))
}

#[func]
fn hash3(x: i32, y: i32, z: i32) -> u32 {
    hash((x as u32).wrapping_add(hash2(y, z)))
}

/// A hash as a number from -1 to 1.
#[func]
fn signed(hash: u32) -> f32 {
    (hash >> 8) as f32 * (2.0 / 16_777_215.0) - 1.0
}

/// How much of the upper corner there is between two corners.
#[func]
fn fade(t: f32) -> f32 {
    smootherstep(0.0, 1.0, t)
}

/// Value noise: random numbers at integer positions, and what is between.
#[func]
pub fn value_noise1(x: f32) -> f32 {
    let i = x.floor() as i32;
    let next = i.wrapping_add(1);
    mix(
        signed(hash(i as u32)),
        signed(hash(next as u32)),
        fade(x - x.floor()),
    )
}

/// [`value_noise1`] in the plane.
#[func]
pub fn value_noise2(p: Vec2) -> f32 {
    let (i, j) = (p.x.floor() as i32, p.y.floor() as i32);
    let (u, v) = (fade(p.x - p.x.floor()), fade(p.y - p.y.floor()));
    let (ii, jj) = (i.wrapping_add(1), j.wrapping_add(1));
    mix(
        mix(signed(hash2(i, j)), signed(hash2(ii, j)), u),
        mix(signed(hash2(i, jj)), signed(hash2(ii, jj)), u),
        v,
    )
}

/// [`value_noise1`] in space.
#[func]
pub fn value_noise3(p: Vec3) -> f32 {
    let (i, j, k) = (p.x.floor() as i32, p.y.floor() as i32, p.z.floor() as i32);
    let (u, v) = (fade(p.x - p.x.floor()), fade(p.y - p.y.floor()));
    let (ii, jj, kk) = (i.wrapping_add(1), j.wrapping_add(1), k.wrapping_add(1));
    mix(
        mix(
            mix(signed(hash3(i, j, k)), signed(hash3(ii, j, k)), u),
            mix(signed(hash3(i, jj, k)), signed(hash3(ii, jj, k)), u),
            v,
        ),
        mix(
            mix(signed(hash3(i, j, kk)), signed(hash3(ii, j, kk)), u),
            mix(signed(hash3(i, jj, kk)), signed(hash3(ii, jj, kk)), u),
            v,
        ),
        fade(p.z - p.z.floor()),
    )
}

/// `value`, or its negative if a bit of the hash is set.
#[func]
fn flipped(hash: u32, bit: u32, value: f32) -> f32 {
    if (hash >> bit) & 1 == 0 {
        value
    } else {
        -value
    }
}

/// The product of `x` and a random slope: 1 to 8, up or down.
#[func]
fn slope1(hash: u32, x: f32) -> f32 {
    flipped(hash, 3, 1.0 + (hash & 7) as f32) * x
}

/// The product of a vector and one of eight gradients.
#[func]
fn slope2(hash: u32, p: Vec2) -> f32 {
    let (u, v) = if hash & 4 == 0 {
        (p.x, p.y)
    } else {
        (p.y, p.x)
    };
    flipped(hash, 0, u) + flipped(hash, 1, 2.0 * v)
}

/// The product of a vector and one of twelve gradients, four of them twice: to the edges of a cube.
#[func]
fn slope3(hash: u32, p: Vec3) -> f32 {
    let h = hash & 15;
    let u = if h < 8 { p.x } else { p.y };
    let v = if h < 4 {
        p.y
    } else if h == 12 || h == 14 {
        p.x
    } else {
        p.z
    };
    flipped(hash, 0, u) + flipped(hash, 1, v)
}

/// Perlin noise: random gradients at integer positions, where it is zero.
#[func]
pub fn perlin1(x: f32) -> f32 {
    let i = x.floor() as i32;
    let t = x - x.floor();
    let next = i.wrapping_add(1);
    mix(
        slope1(hash(i as u32), t),
        slope1(hash(next as u32), t - 1.0),
        fade(t),
    ) * 0.188
}

/// [`perlin1`] in the plane.
#[func]
pub fn perlin2(p: Vec2) -> f32 {
    let (i, j) = (p.x.floor() as i32, p.y.floor() as i32);
    let f = p - p.floor();
    let (u, v) = (fade(f.x), fade(f.y));
    let (ii, jj) = (i.wrapping_add(1), j.wrapping_add(1));
    let low = mix(
        slope2(hash2(i, j), f),
        slope2(hash2(ii, j), f - vec2(1.0, 0.0)),
        u,
    );
    let high = mix(
        slope2(hash2(i, jj), f - vec2(0.0, 1.0)),
        slope2(hash2(ii, jj), f - vec2(1.0, 1.0)),
        u,
    );
    mix(low, high, v) * 0.507
}

/// Perlin noise between the four corners of one side of a cell of space.
#[func]
fn side(i: i32, j: i32, k: i32, f: Vec3) -> f32 {
    let (u, v) = (fade(f.x), fade(f.y));
    let (ii, jj) = (i.wrapping_add(1), j.wrapping_add(1));
    let low = mix(
        slope3(hash3(i, j, k), f),
        slope3(hash3(ii, j, k), f - vec3(1.0, 0.0, 0.0)),
        u,
    );
    let high = mix(
        slope3(hash3(i, jj, k), f - vec3(0.0, 1.0, 0.0)),
        slope3(hash3(ii, jj, k), f - vec3(1.0, 1.0, 0.0)),
        u,
    );
    mix(low, high, v)
}

/// [`perlin1`] in space.
#[func]
pub fn perlin3(p: Vec3) -> f32 {
    let (i, j, k) = (p.x.floor() as i32, p.y.floor() as i32, p.z.floor() as i32);
    let f = p - p.floor();
    let next = k.wrapping_add(1);
    let near = side(i, j, k, f);
    let far = side(i, j, next, f - vec3(0.0, 0.0, 1.0));
    mix(near, far, fade(f.z)) * 0.936
}

/// What one corner of a triangle adds to simplex noise: a gradient, within a circle.
#[func]
fn corner2(hash: u32, p: Vec2) -> f32 {
    let t = (0.5 - p.norm_sqr()).max(0.0);
    t * t * t * t * slope2(hash, p)
}

/// Simplex noise in the plane: random gradients at the corners of triangles. It has no directions along the axes that stand out.
#[func]
pub fn simplex2(p: Vec2) -> f32 {
    // Skewed, two triangles are a square; and back.
    let skew = 0.366_025_4;
    let unskew = 0.211_324_87;
    let cell = (p + (p.x + p.y) * skew).floor();
    let (i, j) = (cell.x as i32, cell.y as i32);
    let a = p - cell + (cell.x + cell.y) * unskew;
    let (di, dj) = if a.x > a.y { (1, 0) } else { (0, 1) };
    let b = a - vec2(di as f32, dj as f32) + unskew;
    let c = a - 1.0 + 2.0 * unskew;
    let sum = corner2(hash2(i, j), a)
        + corner2(hash2(i.wrapping_add(di), j.wrapping_add(dj)), b)
        + corner2(hash2(i.wrapping_add(1), j.wrapping_add(1)), c);
    40.0 * sum
}

#[func]
fn corner3(hash: u32, p: Vec3) -> f32 {
    let t = (0.5 - p.norm_sqr()).max(0.0);
    t * t * t * t * slope3(hash, p)
}

/// Simplex noise in space, with tetrahedra in place of triangles.
#[func]
pub fn simplex3(p: Vec3) -> f32 {
    let unskew = 1.0 / 6.0;
    let cell = (p + (p.x + p.y + p.z) * (1.0 / 3.0)).floor();
    let (i, j, k) = (cell.x as i32, cell.y as i32, cell.z as i32);
    let a = p - cell + (cell.x + cell.y + cell.z) * unskew;
    // The coordinate that is largest is the first to step along, the smallest the last.
    let x_first = a.x >= a.y && a.x >= a.z;
    let y_first = !x_first && a.y >= a.z;
    let z_last = a.z <= a.x && a.z < a.y || a.z < a.x && a.z <= a.y;
    let y_last = !z_last && !y_first && a.y <= a.x;
    let (i1, j1, k1) = (x_first as i32, y_first as i32, !(x_first || y_first) as i32);
    let x_last = !(z_last || y_last);
    let (i2, j2, k2) = (!x_last as i32, !y_last as i32, !z_last as i32);
    let b = a - vec3(i1 as f32, j1 as f32, k1 as f32) + unskew;
    let c = a - vec3(i2 as f32, j2 as f32, k2 as f32) + 2.0 * unskew;
    let d = a - 1.0 + 3.0 * unskew;
    let first = hash3(i.wrapping_add(i1), j.wrapping_add(j1), k.wrapping_add(k1));
    let second = hash3(i.wrapping_add(i2), j.wrapping_add(j2), k.wrapping_add(k2));
    let last = hash3(i.wrapping_add(1), j.wrapping_add(1), k.wrapping_add(1));
    let sum =
        corner3(hash3(i, j, k), a) + corner3(first, b) + corner3(second, c) + corner3(last, d);
    72.0 * sum
}

/// Fractal Brownian motion: the sum of octaves of a noise. Each octave has `lacunarity` times the frequency of the one before,
/// and `gain` times its amplitude; usual numbers are 2 and 0.5. The sum is scaled to the range of the noise.
#[func]
pub fn fbm<P: Element + Operand + Mul<f32, Output = P>>(
    noise: impl Fn(P) -> f32,
    p: P,
    octaves: i32,
    lacunarity: f32,
    gain: f32,
) -> f32 {
    let mut at = p;
    let mut amplitude = 1.0;
    let mut sum = 0.0;
    let mut total = 0.0;
    for _ in 0..octaves {
        sum += amplitude * noise(at);
        total += amplitude;
        amplitude *= gain;
        at = at * lacunarity;
    }
    if total > 0.0 { sum / total } else { 0.0 }
}
