//! Volumetric path tracing by hand: sixteen paths at a time, each of which starts anew when it ends.

use wuji_examples::apps::volume::{ALBEDO, BLOCK, EXTINCTION, LAMP};

use crate::host_fn;
use crate::pool::Pool;

// ANCHOR: tracer
const B: usize = BLOCK as usize;
const CELLS: usize = B * B * B;
/// Paths that are traced together.
const W: usize = 16;
/// Pixels that a thread takes at a time.
const CHUNK: usize = 64;

/// Densities in blocks.
#[derive(Debug)]
pub struct Smoke {
    /// Blocks along each axis.
    pub sides: [usize; 3],
    /// The number of each block; block 0 is empty.
    pub table: Vec<u32>,
    pub blocks: Vec<[f32; CELLS]>,
    /// Voxels per unit of length.
    resolution: f32,
    size: [f32; 3],
}

/// The light of a pixel: of the lamp, before its colour and the phase function, and of the sky.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pixel {
    pub lamp: f32,
    pub sky: f32,
}

/// A picture of smoke.
#[derive(Debug)]
pub struct Tracer {
    pub smoke: Smoke,
    /// Pixels along each axis.
    pub side: usize,
    /// Sums over all samples.
    pub pixels: Vec<Pixel>,
    pub samples: usize,
    pub bounces: u32,
}

type Lanes = [f32; W];

/// Rays, lane by lane.
struct Rays {
    origin: [Lanes; 3],
    direction: [Lanes; 3],
    t: Lanes,
    far: Lanes,
    state: [u32; W],
    /// Whether a real collision was found, or the end of the ray.
    hit: [bool; W],
    out: [bool; W],
}

/// What a lane remembers of its path.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// The place of its pixel in the chunk; none when there is no work left.
    pixel: Option<usize>,
    weight: f32,
    bounces: u32,
    /// On the way to the lamp: the reciprocal of the squared distance.
    to_lamp: Option<f32>,
}

/// The next number of a xorshift generator, in 0..1.
#[inline(always)]
fn random(state: &mut u32) -> f32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    (*state >> 8) as f32 * (1.0 / (1 << 24) as f32)
}

/// The natural logarithm of a normal number, to seven digits.
#[inline(always)]
fn logarithm(x: f32) -> f32 {
    let bits = x.to_bits();
    // The mantissa in sqrt(1/2)..sqrt(2).
    let shifted = bits.wrapping_sub(0x3f35_04f3);
    let exponent = (shifted as i32 >> 23) as f32;
    let m = f32::from_bits((shifted & 0x007f_ffff) + 0x3f35_04f3) - 1.0;
    let s = m / (2.0 + m);
    let z = s * s;
    let series = s * (2.0 + z * (0.666_666_6 + z * (0.4 + z * (0.285_714_3 + z * 0.222_222_2))));
    exponent * std::f32::consts::LN_2 + series
}

/// Advances every ray to its next possible collision.
#[inline(always)]
fn advance(smoke: &Smoke, rays: &mut Rays) {
    let mut place = [[0i32; W]; 3];
    let mut chance = [0.0; W];
    for l in 0..W {
        let u = 1.0 - random(&mut rays.state[l]);
        rays.t[l] -= logarithm(u) * (1.0 / EXTINCTION);
        rays.out[l] = rays.t[l] >= rays.far[l];
        chance[l] = random(&mut rays.state[l]);
    }
    for d in 0..3 {
        for l in 0..W {
            let at = rays.origin[d][l] + rays.direction[d][l] * rays.t[l];
            place[d][l] = (at * smoke.resolution) as i32;
        }
    }
    for l in 0..W {
        let density = smoke.at([place[0][l], place[1][l], place[2][l]]);
        rays.hit[l] = chance[l] < density;
    }
}

impl Smoke {
    /// Blocks of densities, given by their first voxels, in a volume of so many voxels.
    pub fn new(voxels: [usize; 3], resolution: f32, blocks: &[([i32; 3], [f32; CELLS])]) -> Smoke {
        let sides = voxels.map(|n| n / B);
        let mut smoke = Smoke {
            sides,
            table: vec![0; sides.iter().product()],
            blocks: vec![[0.0; CELLS]],
            resolution,
            size: voxels.map(|n| n as f32 / resolution),
        };
        for (first, values) in blocks {
            let at = first.map(|c| c as usize / B);
            smoke.table[(at[0] * sides[1] + at[1]) * sides[2] + at[2]] = smoke.blocks.len() as u32;
            smoke.blocks.push(*values);
        }
        smoke
    }

    /// The density of a voxel; zero outside.
    #[inline(always)]
    fn at(&self, place: [i32; 3]) -> f32 {
        let [i, j, k] = place.map(|c| c as usize);
        let [ni, nj, nk] = self.sides;
        if i / B >= ni || j / B >= nj || k / B >= nk {
            return 0.0;
        }
        let block = self.table[(i / B * nj + j / B) * nk + k / B];
        self.blocks[block as usize][(i % B * B + j % B) * B + k % B]
    }

    /// Entry and exit distances of a ray.
    #[inline(always)]
    fn through(&self, origin: [f32; 3], direction: [f32; 3]) -> [f32; 2] {
        let (mut near, mut far) = (0.0f32, f32::INFINITY);
        for d in 0..3 {
            let (a, b) = (
                -origin[d] / direction[d],
                (self.size[d] - origin[d]) / direction[d],
            );
            (near, far) = (near.max(a.min(b)), far.min(a.max(b)));
        }
        [near, far]
    }
}

impl Rays {
    #[inline(always)]
    fn send(&mut self, smoke: &Smoke, l: usize, origin: [f32; 3], direction: [f32; 3]) {
        let [near, far] = smoke.through(origin, direction);
        for d in 0..3 {
            (self.origin[d][l], self.direction[d][l]) = (origin[d], direction[d]);
        }
        (self.t[l], self.far[l]) = (near, far);
    }

    #[inline(always)]
    fn position(&self, l: usize) -> [f32; 3] {
        std::array::from_fn(|d| self.origin[d][l] + self.direction[d][l] * self.t[l])
    }

    /// A ray in any direction.
    #[inline(always)]
    fn scatter(&mut self, smoke: &Smoke, l: usize, from: [f32; 3]) {
        let z = random(&mut self.state[l]) * 2.0 - 1.0;
        let (sin, cos) = (random(&mut self.state[l]) * std::f32::consts::TAU).sin_cos();
        let r = (1.0 - z * z).max(0.0).sqrt();
        self.send(smoke, l, from, [r * cos, r * sin, z]);
    }

    /// A ray to the lamp; returns the reciprocal of the squared distance.
    #[inline(always)]
    fn aim(&mut self, smoke: &Smoke, l: usize, from: [f32; 3]) -> f32 {
        let way: [f32; 3] = std::array::from_fn(|d| LAMP.0[d] - from[d]);
        let square = way.iter().map(|w| w * w).sum::<f32>();
        let scale = 1.0 / square.sqrt();
        self.send(smoke, l, from, way.map(|w| w * scale));
        1.0 / square
    }

    /// A ray from the camera through a pixel.
    #[inline(always)]
    fn look(&mut self, smoke: &Smoke, l: usize, pixel: usize, side: usize) {
        let (i, j) = ((pixel / side) as f32, (pixel % side) as f32);
        let u = (i + random(&mut self.state[l])) / side as f32 - 0.5;
        let v = (j + random(&mut self.state[l])) / side as f32 - 0.5;
        let scale = 1.0 / (0.49 * (u * u + v * v) + 1.0).sqrt();
        let origin = [smoke.size[0] * 0.5, smoke.size[1] * 0.5, -1.5];
        self.send(smoke, l, origin, [u * 0.7 * scale, v * 0.7 * scale, scale]);
    }
}

/// The samples of a chunk of pixels that have not started.
struct Work {
    first: usize,
    side: usize,
    count: usize,
    samples: usize,
    next: usize,
}

impl Work {
    /// Starts the next path in a lane.
    #[inline(always)]
    fn start(&mut self, smoke: &Smoke, rays: &mut Rays, l: usize) -> Path {
        let pixel = (self.next < self.count * self.samples).then(|| self.next / self.samples);
        self.next += 1;
        match pixel {
            Some(pixel) => rays.look(smoke, l, self.first + pixel, self.side),
            None => (rays.t[l], rays.far[l]) = (0.0, f32::INFINITY),
        }
        Path {
            pixel,
            weight: 1.0,
            bounces: 0,
            to_lamp: None,
        }
    }
}

host_fn! {
    fn trace(smoke: &Smoke, work: &mut Work, seed: u32, limit: u32, pixels: &mut [Pixel]) {
        let mut rays = Rays {
            origin: [[0.0; W]; 3],
            direction: [[0.0; W]; 3],
            t: [0.0; W],
            far: [0.0; W],
            state: std::array::from_fn(|l| (seed.wrapping_mul(W as u32).wrapping_add(l as u32 + 1)).wrapping_mul(0x9e37_79b9) | 1),
            hit: [false; W],
            out: [false; W],
        };
        let mut paths: [Path; W] = std::array::from_fn(|l| work.start(smoke, &mut rays, l));
        while paths.iter().any(|path| path.pixel.is_some()) {
            advance(smoke, &mut rays);
            for l in 0..W {
                let path = &mut paths[l];
                let Some(pixel) = path.pixel else { continue };
                if !rays.out[l] && !rays.hit[l] {
                    continue;
                }
                if let Some(falloff) = path.to_lamp.take() {
                    if rays.out[l] {
                        pixels[pixel].lamp += falloff * path.weight;
                    }
                    let from = std::array::from_fn(|d| rays.origin[d][l]);
                    rays.scatter(smoke, l, from);
                    if path.bounces == limit {
                        *path = work.start(smoke, &mut rays, l);
                    }
                } else if rays.out[l] {
                    pixels[pixel].sky += path.weight;
                    *path = work.start(smoke, &mut rays, l);
                } else {
                    path.weight *= ALBEDO;
                    path.bounces += 1;
                    let from = rays.position(l);
                    path.to_lamp = Some(rays.aim(smoke, l, from));
                }
            }
        }
    }
}

impl Tracer {
    pub fn new(smoke: Smoke, side: usize, bounces: u32) -> Tracer {
        Tracer {
            smoke,
            side,
            pixels: vec![Pixel::default(); side * side],
            samples: 0,
            bounces,
        }
    }

    /// Adds samples to every pixel.
    pub fn render(&mut self, pool: &Pool, samples: usize) {
        let (smoke, side, limit, before) = (&self.smoke, self.side, self.bounces, self.samples);
        pool.share(&mut self.pixels, CHUNK, |first, pixels| {
            let mut work = Work {
                first,
                side,
                count: pixels.len(),
                samples,
                next: 0,
            };
            let seed = (before * side * side + first) as u32;
            trace(smoke, &mut work, seed, limit, pixels);
        });
        self.samples += samples;
    }
}
// ANCHOR_END: tracer

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_accurate() {
        for n in 1..1000 {
            let x = n as f32 * 1e-3;
            assert!(
                (logarithm(x) - x.ln()).abs() < 2e-6 * (1.0 + x.ln().abs()),
                "{x}"
            );
        }
    }
}
