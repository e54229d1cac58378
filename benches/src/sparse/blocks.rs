//! Blocks of 8^3 cells in a domain of 512^3: patterns of active blocks, and a hand-written sparse grid.

use std::sync::Arc;

use crate::case::noise;
use crate::host::{Floats, Level};
use crate::pool::Pool;

/// Blocks along each axis.
pub const SIDE: usize = 64;
/// Cells along each axis of a block.
pub const B: usize = 8;
/// Cells of a block.
pub const CELLS: usize = B * B * B;
/// Active blocks, about a tenth of all. A cube of them would be 240 cells wide.
pub const ACTIVE: usize = 30 * 30 * 30;

/// Coordinates of the active blocks, in row-major order.
pub type Places = Vec<[i32; 3]>;

/// The blocks of lowest rank.
fn chosen(rank: impl Fn([i32; 3], usize) -> f32) -> Places {
    let mut all: Vec<(f32, [i32; 3])> = (0..SIDE * SIDE * SIDE)
        .map(|n| {
            let at = [n / (SIDE * SIDE), n / SIDE % SIDE, n % SIDE].map(|c| c as i32);
            (rank(at, n), at)
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all.truncate(ACTIVE);
    let mut places: Places = all.into_iter().map(|(_, at)| at).collect();
    places.sort();
    places
}

/// A spherical shell, a few blocks thick, with a rough surface.
pub fn shell() -> Places {
    chosen(|at, n| {
        let r = at
            .map(|c| (c as f32 - 31.5).powi(2))
            .iter()
            .sum::<f32>()
            .sqrt();
        (r - 24.0).abs() + 0.5 * noise(n)
    })
}

/// Randomly scattered blocks, most of them with few neighbours.
pub fn random() -> Places {
    chosen(|_, n| noise(n + 77))
}

/// The initial value of a cell.
pub fn start(i: i32, j: i32, k: i32) -> f32 {
    let mixed =
        i.wrapping_mul(73_856_093) ^ j.wrapping_mul(19_349_663) ^ k.wrapping_mul(83_492_791);
    (mixed & 0xffff) as f32 / 65536.0
}

/// Width of the block table, with one block of padding on either side, so that neighbour lookups need no bounds check.
const WIDE: usize = SIDE + 2;

/// Hand-written sparse grids `x` and `y`: a table from coordinates to blocks, and blocks that hold 8^3 cells of `x`,
/// then of `y`. Block 0 is zero and represents all inactive blocks.
pub struct Grid {
    table: Vec<u32>,
    /// Active blocks, as indices into the table.
    list: Vec<u32>,
    cells: Floats,
    pool: Arc<Pool>,
}

/// The offset of a block's `x`.
fn block(number: u32) -> usize {
    number as usize * 2 * CELLS
}

impl Grid {
    pub fn new(places: &Places, pool: &Arc<Pool>) -> Grid {
        let mut table = vec![0u32; WIDE * WIDE * WIDE];
        let mut list = Vec::with_capacity(places.len());
        let mut cells = Floats::zeros((places.len() + 1) * 2 * CELLS);
        for (n, at) in places.iter().enumerate() {
            let [i, j, k] = at.map(|c| c as usize + 1);
            let entry = (i * WIDE + j) * WIDE + k;
            table[entry] = n as u32 + 1;
            list.push(entry as u32);
            let first = block(n as u32 + 1);
            for (c, x) in cells[first..][..CELLS].iter_mut().enumerate() {
                let inner = [c / (B * B), c / B % B, c % B];
                let [i, j, k]: [i32; 3] = std::array::from_fn(|d| at[d] * 8 + inner[d] as i32);
                *x = start(i, j, k);
            }
        }
        Grid {
            table,
            list,
            cells,
            pool: Arc::clone(pool),
        }
    }

    /// One sweep from `x` to `y`.
    pub fn sweep(&mut self) {
        const UNIT: usize = 64;
        let cells = Cells(self.cells.as_mut_ptr());
        let table = &self.table;
        let avx2 = Level::detect() != Level::Baseline;
        self.pool.share(&mut self.list, UNIT, |_, list| {
            for entry in list {
                let at = *entry as usize;
                let near = |to: usize| block(table[to]);
                let walk = Walk {
                    own: near(at),
                    i: [near(at - WIDE * WIDE), near(at + WIDE * WIDE)],
                    j: [near(at - WIDE), near(at + WIDE)],
                    k: [near(at - 1), near(at + 1)],
                };
                // SAFETY: entries of the table are blocks of `cells`; each block is in the list once, so its `y` is
                // written by one thread, and `x` is only read.
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    if avx2 {
                        walk.avx2(cells);
                        continue;
                    }
                    walk.plain(cells);
                }
            }
        });
    }

    /// All of `y`, block by block.
    pub fn result(&self) -> Vec<f32> {
        let blocks = self.cells.chunks_exact(2 * CELLS).skip(1);
        blocks.flat_map(|block| &block[CELLS..]).copied().collect()
    }
}

#[derive(Clone, Copy)]
struct Cells(*mut f32);

// SAFETY: an address; `sweep` states which thread writes where.
unsafe impl Sync for Cells {}

/// The offsets of a block and of its six neighbours.
struct Walk {
    own: usize,
    i: [usize; 2],
    j: [usize; 2],
    k: [usize; 2],
}

impl Walk {
    /// The neighbouring rows of row `r` along an axis with stride `step` between rows.
    #[inline(always)]
    fn beside(&self, around: [usize; 2], r: usize, step: usize, rest: usize) -> [usize; 2] {
        let below = match r {
            0 => around[0] + (B - 1) * step,
            _ => self.own + (r - 1) * step,
        };
        let above = match r + 1 {
            B => around[1],
            _ => self.own + (r + 1) * step,
        };
        [below + rest, above + rest]
    }

    /// # Safety
    /// All blocks lie in the allocation, no other thread accesses this block's `y` or writes any `x`, and the CPU has
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2(&self, Cells(cells): Cells) {
        use std::arch::x86_64::*;
        let (centre, side) = (_mm256_set1_ps(0.4), _mm256_set1_ps(0.1));
        let down = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
        let up = _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0);
        for i in 0..B {
            for j in 0..B {
                let row = i * B * B + j * B;
                let beside_i = self.beside(self.i, i, B * B, j * B);
                let beside_j = self.beside(self.j, j, B, i * B * B);
                // SAFETY: rows of eight floats within the blocks, guaranteed by the caller.
                unsafe {
                    let load = |at: usize| _mm256_load_ps(cells.add(at));
                    let x = load(self.own + row);
                    let below = _mm256_blend_ps::<1>(
                        _mm256_permutevar8x32_ps(x, down),
                        _mm256_broadcast_ss(&*cells.add(self.k[0] + row + 7)),
                    );
                    let above = _mm256_blend_ps::<0x80>(
                        _mm256_permutevar8x32_ps(x, up),
                        _mm256_broadcast_ss(&*cells.add(self.k[1] + row)),
                    );
                    let sum = _mm256_add_ps(
                        _mm256_add_ps(
                            _mm256_add_ps(load(beside_i[0]), load(beside_i[1])),
                            _mm256_add_ps(load(beside_j[0]), load(beside_j[1])),
                        ),
                        _mm256_add_ps(below, above),
                    );
                    let y = _mm256_fmadd_ps(side, sum, _mm256_mul_ps(centre, x));
                    _mm256_store_ps(cells.add(self.own + CELLS + row), y);
                }
            }
        }
    }

    /// # Safety
    /// All blocks lie in the allocation, and no other thread accesses this block's `y` or writes any `x`.
    unsafe fn plain(&self, Cells(cells): Cells) {
        for i in 0..B {
            for j in 0..B {
                let row = i * B * B + j * B;
                let beside_i = self.beside(self.i, i, B * B, j * B);
                let beside_j = self.beside(self.j, j, B, i * B * B);
                for k in 0..B {
                    let beside_k = self.beside(self.k, k, 1, row);
                    // SAFETY: cells within the blocks, guaranteed by the caller.
                    unsafe {
                        let load = |at: usize| *cells.add(at);
                        let sum = load(beside_i[0] + k)
                            + load(beside_i[1] + k)
                            + load(beside_j[0] + k)
                            + load(beside_j[1] + k)
                            + load(beside_k[0])
                            + load(beside_k[1]);
                        let y = 0.4 * load(self.own + row + k) + 0.1 * sum;
                        *cells.add(self.own + CELLS + row + k) = y;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn patterns_have_as_many_blocks_as_a_cube() {
        for places in [shell(), random()] {
            assert_eq!(places.len(), ACTIVE);
            assert_eq!(BTreeSet::from_iter(&places).len(), ACTIVE);
        }
    }

    #[test]
    fn sweeps_agree_with_the_definition() {
        let places = vec![[0, 0, 0], [0, 0, 1], [0, 1, 0], [63, 63, 63], [5, 0, 0]];
        let mut grid = Grid::new(&places, &Arc::new(Pool::new(2)));
        grid.sweep();
        let x = |i: i32, j: i32, k: i32| {
            let block = [i, j, k].map(|c| c.div_euclid(8));
            if places.contains(&block) {
                start(i, j, k)
            } else {
                0.0
            }
        };
        for (n, y) in grid.result().iter().enumerate() {
            let (at, c) = (places[n / CELLS], (n % CELLS) as i32);
            let [i, j, k] = [at[0] * 8 + c / 64, at[1] * 8 + c / 8 % 8, at[2] * 8 + c % 8];
            let sum = x(i - 1, j, k)
                + x(i + 1, j, k)
                + x(i, j - 1, k)
                + x(i, j + 1, k)
                + x(i, j, k - 1)
                + x(i, j, k + 1);
            let expected = 0.4 * x(i, j, k) + 0.1 * sum;
            assert!((y - expected).abs() < 1e-6, "{i} {j} {k}: {y} {expected}");
        }
    }
}
