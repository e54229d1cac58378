//! The elasticity operator by hand: blocks of 8^3 nodes, each copied with its surroundings to a scratchpad.

use wuji_examples::apps::fem::{BLOCK, STIFFNESS};

use crate::lanes_fn;
use crate::paper::reference::lanes::Lanes;
use crate::pool::Pool;

// ANCHOR: operator
const B: usize = BLOCK as usize;
const NODES: usize = B * B * B;
/// Nodes of a scratchpad along an axis: a block and one node on either side.
const SIDE: usize = B + 2;
/// Vectors of the last plane read beyond the scratchpad proper.
const PAD: usize = SIDE * SIDE * SIDE + 64;
/// A plane of a scratchpad is computed as one row of this length: rows of the block, with two unused nodes after each.
const PLANE: usize = B * SIDE;

/// Coefficients of a pair of corners: for the first and the second Lamé parameter, row by row.
type Coefficients = [[f32; 9]; 2];

/// What a block of nodes reads.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Block {
    pub u: [[f32; NODES]; 3],
    pub lambda: [f32; NODES],
    pub mu: [f32; NODES],
}

/// The forces on a block of nodes.
pub type Forces = [[f32; NODES]; 3];

/// A block with its surroundings.
#[repr(C, align(64))]
struct Scratchpad {
    u: [[f32; PAD]; 3],
    lambda: [f32; PAD],
    mu: [f32; PAD],
    forces: [[f32; PLANE + 16]; 3],
}

/// A body of blocks.
#[derive(Debug)]
pub struct Body {
    /// Blocks along an axis.
    side: usize,
    /// One more than the number of each block; zero where there is none.
    table: Vec<u32>,
    pub places: Vec<[usize; 3]>,
    pub blocks: Vec<Block>,
    pub forces: Vec<Forces>,
    coefficients: Vec<Coefficients>,
}

/// The distance in a scratchpad of a corner from the first one.
#[inline(always)]
fn corner(c: usize) -> usize {
    ((c & 1) * SIDE + (c >> 1 & 1)) * SIDE + (c >> 2)
}

/// Adds the forces on `R` vectors of nodes from `at` on.
///
/// # Safety
/// As for [`Lanes`]; the nodes are in the block.
#[inline(always)]
unsafe fn nodes<V: Lanes, const R: usize>(
    pad: &mut Scratchpad,
    table: &[Coefficients],
    plane: usize,
    t: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut force = [[V::splat(0.0); R]; 3];
        for a in 0..8 {
            let cell = plane + t - corner(a);
            let mut sums = [[[V::splat(0.0); R]; 3]; 2];
            for b in 0..8 {
                let node = cell + corner(b);
                let mut moved = [[V::splat(0.0); R]; 3];
                for (c, moved) in moved.iter_mut().enumerate() {
                    for (r, moved) in moved.iter_mut().enumerate() {
                        *moved = V::load(pad.u[c].as_ptr().add(node + r * V::COUNT));
                    }
                }
                let coefficients = table.get_unchecked(a * 8 + b);
                for (m, sums) in sums.iter_mut().enumerate() {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        for (j, moved) in moved.iter().enumerate() {
                            let c = V::splat(coefficients[m][3 * i + j]);
                            for r in 0..R {
                                sum[r] = c.fma(moved[r], sum[r]);
                            }
                        }
                    }
                }
            }
            for r in 0..R {
                let lambda = V::load(pad.lambda.as_ptr().add(cell + r * V::COUNT));
                let mu = V::load(pad.mu.as_ptr().add(cell + r * V::COUNT));
                for (i, force) in force.iter_mut().enumerate() {
                    force[r] = lambda.fma(sums[0][i][r], mu.fma(sums[1][i][r], force[r]));
                }
            }
        }
        for (force, out) in force.iter().zip(&mut pad.forces) {
            for (r, force) in force.iter().enumerate() {
                force.store(out.as_mut_ptr().add(t + r * V::COUNT));
            }
        }
    }
}

lanes_fn! {
    fn operate<V>(pad: &mut Scratchpad, table: &[Coefficients], out: &mut Forces) {
        for i in 0..B {
            let plane = ((i + 1) * SIDE + 1) * SIDE + 1;
            let mut t = 0;
            while t + 2 * V::COUNT <= PLANE {
                nodes::<V, 2>(pad, table, plane, t);
                t += 2 * V::COUNT;
            }
            if t < PLANE {
                nodes::<V, 1>(pad, table, plane, t);
            }
            for (out, forces) in out.iter_mut().zip(&pad.forces) {
                for j in 0..B {
                    out[(i * B + j) * B..][..B].copy_from_slice(&forces[j * SIDE..][..B]);
                }
            }
        }
    }
}

impl Body {
    /// An empty body of blocks at these places, in a cube of `side` blocks.
    pub fn new(side: usize, places: Vec<[usize; 3]>) -> Body {
        let empty = Block {
            u: [[0.0; NODES]; 3],
            lambda: [0.0; NODES],
            mu: [0.0; NODES],
        };
        let mut table = vec![0; side * side * side];
        for (number, at) in places.iter().enumerate() {
            table[(at[0] * side + at[1]) * side + at[2]] = number as u32 + 1;
        }
        let coefficients = |pair: usize| {
            STIFFNESS[pair / 8][pair % 8].map(|m| std::array::from_fn(|e| m.0[e / 3][e % 3]))
        };
        Body {
            side,
            table,
            blocks: vec![empty; places.len()],
            forces: vec![[[0.0; NODES]; 3]; places.len()],
            coefficients: (0..64).map(coefficients).collect(),
            places,
        }
    }

    /// The number of a neighbouring block, plus one; zero if there is none. Offsets are one too large, so that they are not
    /// negative.
    pub fn neighbour(&self, at: [usize; 3], offset: [usize; 3]) -> u32 {
        let mut index = 0;
        for d in 0..3 {
            let c = (at[d] + offset[d]).wrapping_sub(1);
            if c >= self.side {
                return 0;
            }
            index = index * self.side + c;
        }
        self.table[index]
    }

    fn block(&self, at: [usize; 3], offset: [usize; 3]) -> Option<&Block> {
        let number = self.neighbour(at, offset).checked_sub(1)?;
        Some(&self.blocks[number as usize])
    }

    /// Copies what a block and its neighbours hold of one array.
    fn copy<'a>(
        near: &'a [Option<&Block>; 27],
        of: impl Fn(&'a Block) -> &'a [f32; NODES],
        pad: &mut [f32; PAD],
    ) {
        for i in 0..SIDE {
            for j in 0..SIDE {
                let side = |c: usize| c.div_ceil(B);
                let row = side(i) * 9 + side(j) * 3;
                let first = ((i + B - 1) % B * B + (j + B - 1) % B) * B;
                let to: &mut [f32] = &mut pad[(i * SIDE + j) * SIDE..][..SIDE];
                to[0] = near[row].map_or(0.0, |block| of(block)[first + B - 1]);
                match near[row + 1] {
                    Some(block) => to[1..=B].copy_from_slice(&of(block)[first..first + B]),
                    None => to[1..=B].fill(0.0),
                }
                to[B + 1] = near[row + 2].map_or(0.0, |block| of(block)[first]);
            }
        }
    }

    /// Computes the forces: `f = K u`.
    pub fn apply(&mut self, pool: &Pool) {
        let mut forces = std::mem::take(&mut self.forces);
        let body = &*self;
        pool.share(&mut forces, 16, |first, forces| {
            let mut pad = Scratchpad {
                u: [[0.0; PAD]; 3],
                lambda: [0.0; PAD],
                mu: [0.0; PAD],
                forces: [[0.0; PLANE + 16]; 3],
            };
            for (n, out) in forces.iter_mut().enumerate() {
                let at = body.places[first + n];
                let near = std::array::from_fn(|o| body.block(at, [o / 9, o / 3 % 3, o % 3]));
                for c in 0..3 {
                    Body::copy(&near, |block| &block.u[c], &mut pad.u[c]);
                }
                Body::copy(&near, |block| &block.lambda, &mut pad.lambda);
                Body::copy(&near, |block| &block.mu, &mut pad.mu);
                operate(&mut pad, &body.coefficients, out);
            }
        });
        self.forces = forces;
    }
}
// ANCHOR_END: operator
