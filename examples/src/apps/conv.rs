//! A convolution of 3x3x3 with 16 channels in and 16 out, over voxels of a surface.

use super::{App, Scale, blocks, chart, from_middle, noise};
use crate::picture::Picture;
use wuji::Result;
use wuji::prelude::*;

const CHANNELS: i32 = 16;
const BLOCK: i32 = 4;

/// The definition, in the voxels that exist.
#[kernel]
fn convolve(input: &Field<f32, 4>, output: &Field<f32, 4>, weights: &Field<f32, 5>) {
    for [i, j, k, o] in output {
        let mut sum = 0.0;
        for a in 0..3 {
            for b in 0..3 {
                for c in 0..3 {
                    for m in 0..CHANNELS {
                        sum +=
                            weights[[a, b, c, m, o]] * input[[i + a - 1, j + b - 1, k + c - 1, m]];
                    }
                }
            }
        }
        output[[i, j, k, o]] = sum;
    }
}

/// A layer and its voxels.
#[derive(Debug)]
pub struct Conv {
    n: i32,
    input: Field<f32, 4>,
    output: Field<f32, 4>,
    weights: Field<f32, 5>,
}

/// A sphere's surface in 128^3 or 64^3 voxels.
pub fn app(world: &World, scale: Scale) -> Result<Box<dyn App>> {
    let n = if scale == Scale::Full { 128 } else { 64 };
    let surface = |at| (from_middle(at) - 0.4).abs() < 0.01;
    Ok(Box::new(Conv::new(world, n, surface)?))
}

impl Conv {
    pub fn new(world: &World, n: i32, inside: impl Fn([f32; 3]) -> bool) -> Result<Conv> {
        let (input, output) = world.layout(|root| {
            let block = root.pointer(IJK, (n / BLOCK) as i64);
            let voxels = |name| {
                let voxel = block.dense(IJK, BLOCK as i64);
                voxel.dense(L, CHANNELS as i64).place::<f32, 4>(name)
            };
            (voxels("input"), voxels("output"))
        })?;
        let channels = CHANNELS as i64;
        let weights = world.field("weights", [3, 3, 3, channels, channels])?;
        let count = 27 * (CHANNELS * CHANNELS) as usize;
        weights.copy_from(&(0..count).map(|w| noise(w) - 0.5).collect::<Vec<_>>())?;
        let active = blocks(n, BLOCK, inside);
        let (mut at, mut values) = (Vec::new(), Vec::new());
        for b in active {
            for c in 0..BLOCK * BLOCK * BLOCK * CHANNELS {
                let voxel = c / CHANNELS;
                let [i, j, k] = [
                    b[0] + voxel / (BLOCK * BLOCK),
                    b[1] + voxel / BLOCK % BLOCK,
                    b[2] + voxel % BLOCK,
                ];
                let m = c % CHANNELS;
                at.push([i, j, k, m]);
                values.push(noise((((i * n + j) * n + k) * CHANNELS + m) as usize));
            }
        }
        // Input and output are in the same blocks.
        input.import(&at, &values)?;
        Ok(Conv {
            n,
            input,
            output,
            weights,
        })
    }
}

impl App for Conv {
    fn step(&mut self) -> Result<()> {
        convolve(&self.input, &self.output, &self.weights)
    }

    fn sums(&self) -> Result<Vec<(&'static str, f64)>> {
        let (_, values) = self.output.export()?;
        let sum = |f: &dyn Fn(f64) -> f64| values.iter().map(|v| f(f64::from(*v))).sum::<f64>();
        Ok(vec![
            ("voxels", (values.len() as i32 / CHANNELS) as f64),
            ("abs", sum(&f64::abs)),
            ("squares", sum(&|v| v * v)),
        ])
    }

    fn picture(&self) -> Result<Picture> {
        let size = self.n as usize;
        let mut front = vec![None; size * size];
        for ([i, j, _, o], v) in self.output.iter()? {
            if o == 0 {
                let pixel: &mut Option<f32> = &mut front[i as usize * size + j as usize];
                *pixel = Some(pixel.map_or(v, |old| old.max(v)));
            }
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
        let voxels = self.output.count_active()? / CHANNELS as u64;
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
    fn the_layer_is_a_convolution() {
        let world = World::cpu().expect("a world");
        let n = 16;
        let mut conv = Conv::new(&world, n, |at| at[0] < 0.4 && at[2] > 0.6).expect("fields");
        conv.step().expect("a step");
        let input = conv.input.to_vec().expect("values");
        let weights = conv.weights.to_vec().expect("weights");
        let found = conv.output.to_vec().expect("values");
        let there: Vec<[i32; 4]> = conv.output.active().expect("voxels");
        assert_eq!(there.len(), 2 * 4 * 2 * 64 * 16);
        let place =
            |i: i32, j: i32, k: i32, c: i32| (((i * n + j) * n + k) * CHANNELS + c) as usize;
        for [i, j, k, o] in there {
            let mut sum = 0.0;
            for d in 0..27 {
                let (x, y, z) = (i + d / 9 - 1, j + d / 3 % 3 - 1, k + d % 3 - 1);
                if [x, y, z].iter().all(|c| (0..n).contains(c)) {
                    for m in 0..CHANNELS {
                        let w = weights[((d * CHANNELS + m) * CHANNELS + o) as usize];
                        sum += w * input[place(x, y, z, m)];
                    }
                }
            }
            let output = found[place(i, j, k, o)];
            assert!(
                (output - sum).abs() < 1e-3,
                "{i} {j} {k} {o}: {output} {sum}"
            );
        }
    }
}
