//! A submanifold convolution by hand: rows of features, found by a table of blocks, and a register-blocked product.

use crate::lanes_fn;
use crate::paper::reference::lanes::Lanes;
use crate::pool::Pool;

// ANCHOR: layer
const CHANNELS: usize = 16;
const B: usize = 4;
const CELLS: usize = B * B * B;
/// Voxels of a window along an axis: a block and one voxel on either side.
const SIDE: usize = B + 2;
/// Voxels that are computed together with 32 and with 16 vector registers.
const WIDE: usize = 14;
const NARROW: usize = 5;
/// Voxels that a thread takes at a time.
const CHUNK: usize = 512;

/// The features of one voxel: a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Row(pub [f32; CHANNELS]);

const ZERO: Row = Row([0.0; CHANNELS]);

/// The rows that a voxel reads; row 0 is zero.
type Taps = [u32; 27];

/// Voxels and the weights of a layer.
#[derive(Debug)]
pub struct Layer {
    /// Blocks along an axis.
    side: usize,
    /// The number of each block; block 0 is empty.
    table: Vec<u32>,
    /// The row of each voxel of a block, or 0.
    pub blocks: Vec<[u32; CELLS]>,
    /// The place of each row's voxel: its block's coordinates and its number in the block.
    pub voxels: Vec<([usize; 3], usize)>,
    pub input: Vec<Row>,
    pub output: Vec<Row>,
    pub weights: Vec<Row>,
}

/// Computes up to `G` voxels, in `P` vectors of channels each.
///
/// # Safety
/// As for [`Lanes`], with `P * COUNT` channels; taps are rows of the input.
#[inline(always)]
unsafe fn group<V: Lanes, const G: usize, const P: usize>(
    weights: &[Row],
    input: &[Row],
    taps: &[Taps],
    out: &mut [Row],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let none = [0; 27];
        let voxels: [&Taps; G] = std::array::from_fn(|g| taps.get(g).unwrap_or(&none));
        let mut sums = [[V::splat(0.0); P]; G];
        for tap in 0..27 {
            if voxels.iter().all(|voxel| voxel[tap] == 0) {
                continue;
            }
            let rows: [*const f32; G] =
                std::array::from_fn(|g| input.get_unchecked(voxels[g][tap] as usize).0.as_ptr());
            for m in 0..CHANNELS {
                let weights = weights.get_unchecked(tap * CHANNELS + m).0.as_ptr();
                let w: [V; P] = std::array::from_fn(|p| V::load(weights.add(p * V::COUNT)));
                for g in 0..G {
                    let x = V::splat(*rows[g].add(m));
                    for p in 0..P {
                        sums[g][p] = x.fma(w[p], sums[g][p]);
                    }
                }
            }
        }
        for (sum, out) in sums.iter().zip(out) {
            for (p, sum) in sum.iter().enumerate() {
                sum.store(out.0.as_mut_ptr().add(p * V::COUNT));
            }
        }
    }
}

lanes_fn! {
    fn convolve<V>(weights: &[Row], input: &[Row], taps: &[Taps], out: &mut [Row]) {
        if V::COUNT == CHANNELS {
            for (taps, out) in taps.chunks(WIDE).zip(out.chunks_mut(WIDE)) {
                group::<V, WIDE, 1>(weights, input, taps, out);
            }
        } else {
            for (taps, out) in taps.chunks(NARROW).zip(out.chunks_mut(NARROW)) {
                group::<V, NARROW, 2>(weights, input, taps, out);
            }
        }
    }
}

impl Layer {
    /// A layer on voxels of a cube of `n`^3, with their input.
    pub fn new(
        n: usize,
        voxels: &[[i32; 3]],
        input: impl Fn([i32; 3]) -> Row,
        weights: Vec<Row>,
    ) -> Layer {
        let side = n / B;
        let mut layer = Layer {
            side,
            table: vec![0; side * side * side],
            blocks: vec![[0; CELLS]],
            voxels: vec![([0; 3], 0)],
            input: vec![ZERO],
            output: vec![ZERO; voxels.len() + 1],
            weights,
        };
        let mut places: Vec<([usize; 3], usize, [i32; 3])> = voxels
            .iter()
            .map(|at| {
                let c = at.map(|c| c as usize);
                let cell = (c[0] % B * B + c[1] % B) * B + c[2] % B;
                (c.map(|c| c / B), cell, *at)
            })
            .collect();
        places.sort();
        for (block, cell, at) in places {
            let number = &mut layer.table[(block[0] * side + block[1]) * side + block[2]];
            if *number == 0 {
                *number = layer.blocks.len() as u32;
                layer.blocks.push([0; CELLS]);
            }
            layer.blocks[*number as usize][cell] = layer.input.len() as u32;
            layer.voxels.push((block, cell));
            layer.input.push(input(at));
        }
        layer
    }

    /// The coordinates of a row's voxel.
    pub fn coordinates(&self, row: usize) -> [i32; 3] {
        let (block, cell) = self.voxels[row];
        let inner = [cell / (B * B), cell / B % B, cell % B];
        std::array::from_fn(|d| (block[d] * B + inner[d]) as i32)
    }

    /// The numbers of a block and of its neighbours.
    pub fn near(&self, block: [usize; 3]) -> [u32; 27] {
        std::array::from_fn(|o| {
            let offset = [o / 9, o / 3 % 3, o % 3];
            let at: [usize; 3] = std::array::from_fn(|d| (block[d] + offset[d]).wrapping_sub(1));
            if at.iter().all(|c| *c < self.side) {
                self.table[(at[0] * self.side + at[1]) * self.side + at[2]]
            } else {
                0
            }
        })
    }

    /// The rows of a block and of the voxels around it.
    fn window(&self, block: [usize; 3], window: &mut [u32; SIDE * SIDE * SIDE]) {
        let near = self.near(block).map(|number| &self.blocks[number as usize]);
        let (of, cell) = (|c: usize| c.div_ceil(B), |c: usize| (c + B - 1) % B);
        for i in 0..SIDE {
            for j in 0..SIDE {
                for k in 0..SIDE {
                    window[(i * SIDE + j) * SIDE + k] =
                        near[of(i) * 9 + of(j) * 3 + of(k)][(cell(i) * B + cell(j)) * B + cell(k)];
                }
            }
        }
    }

    /// The rows that the voxels of some rows read.
    fn taps(&self, first: usize, taps: &mut [Taps]) {
        let mut window = [0; SIDE * SIDE * SIDE];
        let mut current = None;
        for (n, taps) in taps.iter_mut().enumerate() {
            let (block, cell) = self.voxels[first + n];
            if current != Some(block) {
                self.window(block, &mut window);
                current = Some(block);
            }
            let at = (cell / (B * B) * SIDE + cell / B % B) * SIDE + cell % B;
            for (tap, row) in taps.iter_mut().enumerate() {
                *row = window[at + (tap / 9 * SIDE + tap / 3 % 3) * SIDE + tap % 3];
            }
        }
    }

    /// Applies the layer.
    pub fn apply(&mut self, pool: &Pool) {
        let mut output = std::mem::take(&mut self.output);
        let layer = &*self;
        pool.share(&mut output[1..], CHUNK, |first, out| {
            let mut taps = [[0; 27]; CHUNK];
            let taps = &mut taps[..out.len()];
            layer.taps(first + 1, taps);
            convolve(&layer.weights, &layer.input, taps, out);
        });
        self.output = output;
    }
}
// ANCHOR_END: layer
