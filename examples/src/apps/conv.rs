//! A 3x3x3 convolution with 16 input and 16 output channels, over the voxels of a surface.

use super::{App, Scale, blocks, chart, from_middle, noise};
use wuji::Result;
use wuji::prelude::*;
use wuji::viewer::Picture;

/// Channels of the input and of the output.
pub const CHANNELS: i32 = 16;
/// Voxels along each side of a block.
pub const BLOCK: i32 = 4;

/// The channels of a voxel.
pub type Features = Vector<f32, { CHANNELS as usize }>;

// ANCHOR: kernel
/// The convolution, over active voxels.
#[kernel]
fn convolve(input: &Field<Features, 3>, output: &Field<Features, 3>, weights: &Field<Features, 4>) {
    for [i, j, k] in output {
        let mut sum = Features::splat(0.0);
        for a in unroll(0..3) {
            for b in unroll(0..3) {
                for c in unroll(0..3) {
                    for m in 0..CHANNELS {
                        sum += weights[[a, b, c, m]] * input[[i + a - 1, j + b - 1, k + c - 1]][m];
                    }
                }
            }
        }
        output[[i, j, k]] = sum;
    }
}
// ANCHOR_END: kernel

/// Which voxels are active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// Whole blocks.
    Blocks,
    /// Single voxels: a submanifold convolution, whose output has the voxels of its input.
    Voxels,
}

/// A convolution layer and its voxels.
#[derive(Debug)]
pub struct Conv {
    n: i32,
    input: Field<Features, 3>,
    output: Field<Features, 3>,
    weights: Field<Features, 4>,
}

/// A sphere's surface in 128^3 or 64^3 voxels.
pub fn app(world: &World, scale: Scale) -> Result<Box<dyn App>> {
    let n = if scale == Scale::Full { 128 } else { 64 };
    let surface = |at| (from_middle(at) - 0.4).abs() < 0.01;
    Ok(Box::new(Conv::new(world, n, surface)?))
}

/// The value of each channel, from the number of the first one.
fn features(first: i32, by: f32) -> Features {
    Vector(std::array::from_fn(|c| noise(first as usize + c) - by))
}

/// The input at a voxel in a cube of `n`^3.
pub fn input([i, j, k]: [i32; 3], n: i32) -> Features {
    features(((i * n + j) * n + k) * CHANNELS, 0.0)
}

/// The weights of all taps and input channels, for every output channel.
pub fn weights() -> Vec<Features> {
    (0..27 * CHANNELS)
        .map(|w| features(w * CHANNELS, 0.5))
        .collect()
}

/// A layer that finds the normals of a bumpy ball, for the gallery.
pub fn normals(world: &World, scale: Scale) -> Result<Box<dyn App>> {
    let n = if scale == Scale::Full { 128 } else { 64 };
    let near = 3.0 / n as f32;
    let conv = Conv::new(world, n, |at| distance(at).abs() < near)?;
    conv.input
        .import(&conv.input.active()?, &densities(&conv)?)?;
    conv.weights.copy_from(&sobel())?;
    Ok(Box::new(Normals { conv }))
}

/// The distance from the surface of a ball with bumps, about; negative inside.
fn distance(at: [f32; 3]) -> f32 {
    let waves: f32 = at.iter().map(|c| (21.0 * c).sin()).product();
    0.8 * (from_middle(at) - 0.38 - 0.05 * waves)
}

/// The first channel is the part of a voxel that is inside; the others are zero.
fn densities(conv: &Conv) -> Result<Vec<Features>> {
    let n = conv.n as f32;
    let density = |at: [i32; 3]| {
        let inside = 0.5 - distance(at.map(|c| (c as f32 + 0.5) / n)) * n / 2.0;
        Vector(std::array::from_fn(|c| match c {
            0 => inside.clamp(0.0, 1.0),
            _ => 0.0,
        }))
    };
    Ok(conv.input.active()?.into_iter().map(density).collect())
}

/// Weights from the first channel to three: Sobel's filters, which are derivatives along each axis.
fn sobel() -> Vec<Features> {
    let (slope, smooth) = ([-1.0, 0.0, 1.0], [1.0, 2.0, 1.0]);
    let weight = |w: i32| {
        let (d, m) = ((w / CHANNELS) as usize, w % CHANNELS);
        let at = [d / 9, d / 3 % 3, d % 3];
        let filter = |axis: usize| {
            let along = |k: usize| {
                if k == axis {
                    slope[at[k]]
                } else {
                    smooth[at[k]]
                }
            };
            (0..3).map(along).product::<f32>()
        };
        Vector(std::array::from_fn(|c| match (c, m) {
            (0..3, 0) => filter(c),
            _ => 0.0,
        }))
    };
    (0..27 * CHANNELS).map(weight).collect()
}

/// A layer with Sobel's filters.
#[derive(Debug)]
struct Normals {
    conv: Conv,
}

impl App for Normals {
    fn step(&mut self) -> Result<()> {
        self.conv.step()
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        self.conv.sums()
    }

    /// The input as voxels, the nearer the brighter; beside it the output, as light on the surface.
    fn picture(&self) -> Result<Picture> {
        const PANEL: usize = 480;
        let (n, input) = (self.conv.n, self.conv.input.to_vec()?);
        let output = self.conv.output.to_vec()?;
        let place = |x: i32, y: i32, z: i32| ((x * n + y) * n + z) as usize;
        // The first voxel that is inside, seen against the last axis.
        let seen = |x: i32, y: i32| {
            let mut front = (0..n).rev();
            front.find(|z| input[place(x, y, *z)].0[0] > 0.5)
        };
        let lamp = vec3(-0.5, 0.6, 0.62).normalized();
        Ok(Picture::from_fn(2 * PANEL, PANEL, |column, row| {
            let cell = |k: usize| (k * n as usize / PANEL) as i32;
            let (x, y) = (cell(column % PANEL), cell(PANEL - 1 - row));
            let color = match seen(x, y) {
                None => vec3(0.10, 0.11, 0.14),
                Some(z) if column < PANEL => {
                    let near = z as f32 / n as f32;
                    let checker = 0.06 * ((x + y + z) % 2) as f32;
                    vec3(0.35, 0.55, 0.75) * (near + checker)
                }
                Some(z) => {
                    let slope = output[place(x, y, z)].0;
                    let normal = -vec3(slope[0], slope[1], slope[2]).normalized();
                    let light = 0.25 + 0.75 * normal.dot(lamp).max(0.0);
                    (normal * 0.35 + 0.6) * light
                }
            };
            color.0.map(|c| (c.clamp(0.0, 1.0).sqrt() * 255.0) as u8)
        }))
    }

    fn size(&self) -> Result<String> {
        self.conv.size()
    }
}

impl Conv {
    /// A layer on the blocks that a shape in the unit cube touches.
    pub fn new(world: &World, n: i32, inside: impl Fn([f32; 3]) -> bool) -> Result<Conv> {
        let mut at = Vec::new();
        for b in blocks(n, BLOCK, inside) {
            for c in 0..BLOCK * BLOCK * BLOCK {
                at.push([
                    b[0] + c / (BLOCK * BLOCK),
                    b[1] + c / BLOCK % BLOCK,
                    b[2] + c % BLOCK,
                ]);
            }
        }
        Conv::with_voxels(world, n, &at, Activity::Blocks)
    }

    /// A layer on these voxels.
    pub fn with_voxels(world: &World, n: i32, at: &[[i32; 3]], activity: Activity) -> Result<Conv> {
        // ANCHOR: layout
        let (input, output) = world.layout(|root| {
            let block = root.pointer(IJK, (n / BLOCK) as i64);
            match activity {
                // Input and output share their voxels.
                Activity::Voxels => {
                    let voxels = block.bitmasked(IJK, BLOCK as i64);
                    (voxels.place("input"), voxels.place("output"))
                }
                // They share their blocks.
                Activity::Blocks => {
                    let voxels = |name| block.dense(IJK, BLOCK as i64).place(name);
                    (voxels("input"), voxels("output"))
                }
            }
        })?;
        // ANCHOR_END: layout
        let weights = world.field("weights", [3, 3, 3, CHANNELS as i64])?;
        weights.copy_from(&self::weights())?;
        let values: Vec<Features> = at.iter().map(|at| self::input(*at, n)).collect();
        input.import(at, &values)?;
        Ok(Conv {
            n,
            input,
            output,
            weights,
        })
    }

    /// The output of the layer.
    pub fn output(&self) -> &Field<Features, 3> {
        &self.output
    }
}

impl App for Conv {
    fn step(&mut self) -> Result<()> {
        convolve(&self.input, &self.output, &self.weights)
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        let (_, values) = self.output.export()?;
        let sum = |f: &dyn Fn(f64) -> f64| {
            let all = values.iter().flat_map(|v| v.0);
            all.map(|v| f(f64::from(v))).sum::<f64>()
        };
        Ok(vec![
            ("voxels", values.len() as f64),
            ("abs", sum(&f64::abs)),
            ("squares", sum(&|v| v * v)),
        ])
    }

    fn picture(&self) -> Result<Picture> {
        let size = self.n as usize;
        let mut front = vec![None; size * size];
        for ([i, j, _], v) in self.output.iter()? {
            let pixel: &mut Option<f32> = &mut front[i as usize * size + j as usize];
            *pixel = Some(pixel.map_or(v.0[0], |old| old.max(v.0[0])));
        }
        let most = front
            .iter()
            .flatten()
            .fold(f32::MIN_POSITIVE, |m, v| m.max(v.abs()));
        Ok(chart(512, |i, j| {
            front[i * size / 512 * size + j * size / 512].map(|v| 0.5 + 0.5 * v / most)
        }))
    }

    fn size(&self) -> Result<String> {
        let voxels = self.output.count_active()?;
        Ok(format!(
            "{voxels} of {0}x{0}x{0} voxels, {CHANNELS} channels",
            self.n
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_find_normals() {
        let world = World::cpu().expect("a world");
        let n = 32;
        let ball = |at| from_middle(at) - 0.3;
        let mut conv = Conv::new(&world, n, |at| ball(at).abs() < 0.1).expect("fields");
        let there = conv.input.active().expect("voxels");
        let density = |at: &[i32; 3]| {
            let inside = -ball(at.map(|c| (c as f32 + 0.5) / n as f32));
            Vector(std::array::from_fn(|c| if c == 0 { inside } else { 0.0 }))
        };
        let values: Vec<Features> = there.iter().map(density).collect();
        conv.input.import(&there, &values).expect("densities");
        conv.weights.copy_from(&sobel()).expect("weights");
        conv.step().expect("a step");
        // In the middle of the active voxels.
        let at = [16 + 8, 16 + 3, 16 + 2];
        let slope = conv.output.get(at).expect("a voxel").0;
        let found = -vec3(slope[0], slope[1], slope[2]).normalized();
        let expected = vec3(8.5, 3.5, 2.5).normalized();
        assert!((found - expected).norm() < 0.02, "{found:?} {expected:?}");
        assert!(slope[3..].iter().all(|c| *c == 0.0));
    }

    #[test]
    fn the_layer_is_a_convolution() {
        let world = World::cpu().expect("a world");
        let n = 16;
        let mut conv = Conv::new(&world, n, |at| at[0] < 0.4 && at[2] > 0.6).expect("fields");
        conv.step().expect("a step");
        let input = conv.input.to_vec().expect("values");
        let weights = conv.weights.to_vec().expect("weights");
        let found = conv.output.to_vec().expect("values");
        let there: Vec<[i32; 3]> = conv.output.active().expect("voxels");
        assert_eq!(there.len(), 2 * 4 * 2 * 64);
        let place = |i: i32, j: i32, k: i32| ((i * n + j) * n + k) as usize;
        for [i, j, k] in there {
            let mut sum = Features::splat(0.0);
            for d in 0..27 {
                let (x, y, z) = (i + d / 9 - 1, j + d / 3 % 3 - 1, k + d % 3 - 1);
                if [x, y, z].iter().all(|c| (0..n).contains(c)) {
                    for m in 0..CHANNELS {
                        let w = weights[(d * CHANNELS + m) as usize];
                        sum += w * input[place(x, y, z)].0[m as usize];
                    }
                }
            }
            let output = found[place(i, j, k)];
            assert!(
                (output - sum).norm() < 1e-3,
                "{i} {j} {k}: {output:?} {sum:?}"
            );
        }
    }
}
