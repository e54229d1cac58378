//! Multigrid-preconditioned conjugate gradients by hand: dense grids with a border of zeros, fused passes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::host::Floats;
use crate::paper::reference::lanes::Lanes;
use crate::pool::Pool;
use crate::{host_fn, lanes_fn};

// ANCHOR: solver
const LEVELS: usize = 5;
const SWEEPS: usize = 2;
const BOTTOM: usize = 20;
/// The smallest grid, which is one vector wide.
const SMALLEST: usize = 8;
/// Floats before and after a row: a whole vector of the border.
const MARGIN: usize = 16;

/// The shape of a grid with its border.
#[derive(Clone, Copy, Debug)]
struct Shape {
    n: usize,
    row: usize,
    plane: usize,
}

impl Shape {
    fn new(n: usize) -> Shape {
        let row = n + 2 * MARGIN;
        let plane = row * (n + 2);
        Shape { n, row, plane }
    }

    fn grid(self) -> Floats {
        Floats::zeros(self.plane * (self.n + 2))
    }

    /// The first element of a row.
    #[inline(always)]
    fn at(self, i: usize, j: usize) -> usize {
        (i + 1) * self.plane + (j + 1) * self.row + MARGIN
    }

    /// The planes of a thread.
    fn part(self, thread: usize, threads: usize) -> (usize, usize) {
        (self.n * thread / threads, self.n * (thread + 1) / threads)
    }
}

/// A grid that threads write to, each its own elements.
#[derive(Clone, Copy)]
struct Shared(*mut f32);

// SAFETY: an address; the passes below say which thread writes where.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn of(grid: &mut Floats) -> Shared {
        Shared(grid.as_mut_ptr())
    }
}

/// The sum of the six neighbours of a vector of elements.
///
/// # Safety
/// As for [`Lanes`]; the elements are in a grid of this shape.
#[inline(always)]
unsafe fn around<V: Lanes>(x: *const f32, s: Shape) -> V {
    // SAFETY: guaranteed by the caller; the grid has a border.
    unsafe {
        let near = |from: *const f32| V::load(from);
        let (k, j) = (
            near(x.sub(1)).add(near(x.add(1))),
            near(x.sub(s.row)).add(near(x.add(s.row))),
        );
        k.add(j).add(near(x.sub(s.plane)).add(near(x.add(s.plane))))
    }
}

/// Half a sweep of one plane. In a grid of zeros, nothing is read.
///
/// # Safety
/// As for [`Lanes`]; no other thread writes this plane or the other colour of its neighbours.
#[inline(always)]
unsafe fn smooth<V: Lanes>(
    z: *mut f32,
    r: *const f32,
    s: Shape,
    i: usize,
    colour: usize,
    zeros: bool,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let sixth = V::splat(1.0 / 6.0);
        for j in 0..s.n {
            let odd = (i + j + colour) % 2 == 1;
            let first = s.at(i, j);
            for k in (0..s.n).step_by(V::COUNT) {
                let (z, r) = (z.add(first + k), V::load(r.add(first + k)));
                let (old, near) = if zeros {
                    (V::splat(0.0), V::splat(0.0))
                } else {
                    (V::load(z), around::<V>(z, s))
                };
                let new = sixth.fma(r.add(near), V::splat(0.0));
                old.alternate(new, odd).store(z);
            }
        }
    }
}

/// Both colours of a range of planes: the second one a plane behind the first, so that both find the plane in the cache. The
/// second colour of the outermost planes is left to [`edges`].
///
/// # Safety
/// As for [`smooth`].
#[inline(always)]
unsafe fn sweep_planes<V: Lanes>(
    z: *mut f32,
    r: *const f32,
    s: Shape,
    part: (usize, usize),
    first: usize,
    zeros: bool,
) {
    // SAFETY: guaranteed by the caller; planes between the outermost ones are read by this thread only.
    unsafe {
        for i in part.0..part.1 {
            smooth::<V>(z, r, s, i, first, zeros);
            if i > part.0 + 1 {
                smooth::<V>(z, r, s, i - 1, 1 - first, false);
            }
        }
    }
}

lanes_fn! {
    fn sweep_part<V>(z: Shared, r: &[f32], s: Shape, part: (usize, usize), first: usize, zeros: bool) {
        if s.n.is_multiple_of(V::COUNT) {
            sweep_planes::<V>(z.0, r.as_ptr(), s, part, first, zeros);
        } else {
            sweep_planes::<[f32; SMALLEST]>(z.0, r.as_ptr(), s, part, first, zeros);
        }
    }
}

lanes_fn! {
    fn edges<V>(z: Shared, r: &[f32], s: Shape, part: (usize, usize), colour: usize) {
        for i in [part.0, (part.1).max(1) - 1] {
            if s.n.is_multiple_of(V::COUNT) {
                smooth::<V>(z.0, r.as_ptr(), s, i, colour, false);
            } else {
                smooth::<[f32; SMALLEST]>(z.0, r.as_ptr(), s, i, colour, false);
            }
        }
    }
}

/// The residual of pairs of planes, averaged into planes of the coarser grid.
///
/// # Safety
/// As for [`Lanes`]; no other thread writes these planes.
#[inline(always)]
unsafe fn restrict_planes<V: Lanes>(
    z: *const f32,
    r: *const f32,
    s: Shape,
    coarse: *mut f32,
    c: Shape,
    part: (usize, usize),
) {
    let half = s.n / 2;
    let mut sums = vec![0.0f32; s.n];
    // SAFETY: guaranteed by the caller.
    unsafe {
        for (i, j) in (part.0..part.1).flat_map(|i| (0..half).map(move |j| (i, j))) {
            for fine in 0..4 {
                let first = s.at(2 * i + fine / 2, 2 * j + fine % 2);
                for k in (0..s.n).step_by(V::COUNT) {
                    let (z, r) = (z.add(first + k), V::load(r.add(first + k)));
                    let residual = V::splat(-6.0).fma(V::load(z), r.add(around::<V>(z, s)));
                    let out = sums.as_mut_ptr().add(k);
                    let before = if fine == 0 {
                        V::splat(0.0)
                    } else {
                        V::load(out)
                    };
                    before.add(residual).store(out);
                }
            }
            let to = std::slice::from_raw_parts_mut(coarse.add(c.at(i, j)), half);
            for (to, pair) in to.iter_mut().zip(sums.chunks_exact(2)) {
                *to = 0.5 * (pair[0] + pair[1]);
            }
        }
    }
}

lanes_fn! {
    fn restrict_part<V>(z: &[f32], r: &[f32], s: Shape, coarse: Shared, c: Shape, part: (usize, usize)) {
        if s.n.is_multiple_of(V::COUNT) {
            restrict_planes::<V>(z.as_ptr(), r.as_ptr(), s, coarse.0, c, part);
        } else {
            restrict_planes::<[f32; SMALLEST]>(z.as_ptr(), r.as_ptr(), s, coarse.0, c, part);
        }
    }
}

host_fn! {
    fn prolongate_part(z: Shared, s: Shape, coarse: &[f32], c: Shape, part: (usize, usize)) {
        for (i, j) in (part.0..part.1).flat_map(|i| (0..s.n).map(move |j| (i, j))) {
            // SAFETY: each thread has its own planes.
            let to = unsafe { std::slice::from_raw_parts_mut(z.0.add(s.at(i, j)), s.n) };
            let from = &coarse[c.at(i / 2, j / 2)..][..s.n / 2];
            for (to, from) in to.chunks_exact_mut(2).zip(from) {
                to[0] += from;
                to[1] += from;
            }
        }
    }
}

/// Adds the lanes of a row's sum to a total.
///
/// # Safety
/// As for [`Lanes`].
#[inline(always)]
unsafe fn total<V: Lanes>(sums: V) -> f64 {
    let mut lanes = [0.0f32; 16];
    // SAFETY: at most 16 lanes.
    unsafe { sums.store(lanes.as_mut_ptr()) };
    lanes.iter().map(|x| f64::from(*x)).sum()
}

lanes_fn! {
    /// `ap = A p`, and `p . ap`.
    fn apply_part<V>(p: &[f32], ap: Shared, s: Shape, part: (usize, usize), sum: &mut f64) {
        for (i, j) in (part.0..part.1).flat_map(|i| (0..s.n).map(move |j| (i, j))) {
            let first = s.at(i, j);
            let mut row = V::splat(0.0);
            for k in (0..s.n).step_by(V::COUNT) {
                let at = p.as_ptr().add(first + k);
                let (own, near) = (V::load(at), around::<V>(at, s));
                let y = V::splat(6.0).fma(own, V::splat(-1.0).fma(near, V::splat(0.0)));
                y.store(ap.0.add(first + k));
                row = own.fma(y, row);
            }
            *sum += total(row);
        }
    }
}

lanes_fn! {
    /// `r -= alpha ap`, and `r . r`.
    fn advance_part<V>(r: Shared, ap: &[f32], alpha: f32, s: Shape, part: (usize, usize), sum: &mut f64) {
        for (i, j) in (part.0..part.1).flat_map(|i| (0..s.n).map(move |j| (i, j))) {
            let first = s.at(i, j);
            let mut row = V::splat(0.0);
            for k in (first..first + s.n).step_by(V::COUNT) {
                let rest = V::splat(-alpha).fma(V::load(ap.as_ptr().add(k)), V::load(r.0.add(k)));
                rest.store(r.0.add(k));
                row = rest.fma(rest, row);
            }
            *sum += total(row);
        }
    }
}

lanes_fn! {
    fn dot_part<V>(a: &[f32], b: &[f32], s: Shape, part: (usize, usize), sum: &mut f64) {
        for (i, j) in (part.0..part.1).flat_map(|i| (0..s.n).map(move |j| (i, j))) {
            let first = s.at(i, j);
            let mut row = V::splat(0.0);
            for k in (first..first + s.n).step_by(V::COUNT) {
                row = V::load(a.as_ptr().add(k)).fma(V::load(b.as_ptr().add(k)), row);
            }
            *sum += total(row);
        }
    }
}

lanes_fn! {
    /// `x += alpha p`, then `p = z + beta p`.
    fn turn_part<V>(x: Shared, p: Shared, z: &[f32], alpha: f32, beta: f32, s: Shape, part: (usize, usize)) {
        for (i, j) in (part.0..part.1).flat_map(|i| (0..s.n).map(move |j| (i, j))) {
            let first = s.at(i, j);
            for k in (first..first + s.n).step_by(V::COUNT) {
                let (x, p) = (x.0.add(k), p.0.add(k));
                let old = V::load(p);
                V::splat(alpha).fma(old, V::load(x)).store(x);
                V::splat(beta).fma(old, V::load(z.as_ptr().add(k))).store(p);
            }
        }
    }
}

/// The grids of one level.
#[derive(Debug)]
struct Level {
    s: Shape,
    r: Floats,
    z: Floats,
}

/// The solver and its state.
#[derive(Debug)]
pub struct Solver {
    levels: Vec<Level>,
    b: Floats,
    x: Floats,
    p: Floats,
    ap: Floats,
}

/// Calls `f` for the planes of every thread and adds the results up.
fn sum(pool: &Pool, s: Shape, f: impl Fn((usize, usize), &mut f64) + Sync) -> f64 {
    let all: Vec<AtomicU64> = (0..pool.threads()).map(|_| AtomicU64::new(0)).collect();
    pool.run(|thread| {
        let mut own = 0.0;
        f(s.part(thread, pool.threads()), &mut own);
        all[thread].store(own.to_bits(), Ordering::Relaxed);
    });
    let of = |sum: &AtomicU64| f64::from_bits(sum.load(Ordering::Relaxed));
    all.iter().map(of).sum()
}

impl Solver {
    /// A cube of `n`^3 with a right-hand side.
    pub fn new(n: usize, source: impl Fn([usize; 3]) -> f32) -> Solver {
        let level = |l: usize| {
            let s = Shape::new((n >> l).max(SMALLEST));
            let (r, z) = (s.grid(), s.grid());
            Level { s, r, z }
        };
        let s = Shape::new(n);
        let mut b = s.grid();
        for (i, j, k) in (0..n * n * n).map(|c| (c / (n * n), c / n % n, c % n)) {
            b[s.at(i, j) + k] = source([i, j, k]);
        }
        Solver {
            levels: (0..LEVELS).map(level).collect(),
            b,
            x: s.grid(),
            p: s.grid(),
            ap: s.grid(),
        }
    }

    /// The solution, without the border.
    pub fn solution(&self) -> Vec<f32> {
        let s = self.levels[0].s;
        let rows = (0..s.n * s.n).map(|row| s.at(row / s.n, row % s.n));
        rows.flat_map(|at| self.x[at..at + s.n].iter().copied())
            .collect()
    }

    /// One red-black sweep.
    fn sweep(level: &mut Level, pool: &Pool, first: usize, zeros: bool) {
        let (s, z, r) = (level.s, Shared::of(&mut level.z), &level.r[..]);
        if s.n < 32 {
            sweep_part(z, r, s, (0, s.n), first, zeros);
            return edges(z, r, s, (0, s.n), 1 - first);
        }
        let threads = pool.threads();
        pool.run(|thread| sweep_part(z, r, s, s.part(thread, threads), first, zeros));
        pool.run(|thread| edges(z, r, s, s.part(thread, threads), 1 - first));
    }

    /// `z = M r`.
    fn v_cycle(&mut self, pool: &Pool) {
        let threads = pool.threads();
        for l in 0..LEVELS - 1 {
            for sweep in 0..SWEEPS {
                Solver::sweep(&mut self.levels[l], pool, 0, sweep == 0);
            }
            let [fine, coarse] = &mut self.levels[l..l + 2] else {
                return;
            };
            let (s, c, to) = (fine.s, coarse.s, Shared::of(&mut coarse.r));
            let half = Shape { n: s.n / 2, ..c };
            pool.run(|t| restrict_part(&fine.z, &fine.r, s, to, c, half.part(t, threads)));
        }
        let last = &mut self.levels[LEVELS - 1];
        for sweep in 0..2 * BOTTOM {
            Solver::sweep(last, pool, sweep / BOTTOM, sweep == 0);
        }
        for l in (0..LEVELS - 1).rev() {
            let [fine, coarse] = &mut self.levels[l..l + 2] else {
                return;
            };
            let (s, c, z) = (fine.s, coarse.s, Shared::of(&mut fine.z));
            pool.run(|t| prolongate_part(z, s, &coarse.z, c, s.part(t, threads)));
            for _ in 0..SWEEPS {
                Solver::sweep(fine, pool, 1, false);
            }
        }
    }

    /// Solves until the residual has fallen by a factor; returns the number of iterations.
    pub fn solve(&mut self, pool: &Pool, factor: f64, most: usize) -> usize {
        let s = self.levels[0].s;
        self.levels[0].r.copy_from_slice(&self.b);
        self.x.fill(0.0);
        self.p.fill(0.0);
        let start = sum(pool, s, |part, sum| {
            dot_part(&self.b, &self.b, s, part, sum)
        });
        let (mut alpha, mut beta, mut before) = (0.0, 0.0, 0.0);
        for iteration in 0..most {
            self.v_cycle(pool);
            let Level { r, z, .. } = &mut self.levels[0];
            let rz = sum(pool, s, |part, sum| dot_part(r, z, s, part, sum));
            if iteration > 0 {
                beta = rz / before;
            }
            let (x, p) = (Shared::of(&mut self.x), Shared::of(&mut self.p));
            let threads = pool.threads();
            pool.run(|t| turn_part(x, p, z, alpha as f32, beta as f32, s, s.part(t, threads)));
            let (p, ap) = (&self.p[..], Shared::of(&mut self.ap));
            alpha = rz / sum(pool, s, |part, sum| apply_part(p, ap, s, part, sum));
            let (r, ap) = (Shared::of(r), &self.ap[..]);
            let left = sum(pool, s, |part, sum| {
                advance_part(r, ap, alpha as f32, s, part, sum)
            });
            before = rz;
            if left <= start * factor * factor {
                self.finish(pool, alpha as f32);
                return iteration + 1;
            }
        }
        self.finish(pool, alpha as f32);
        most
    }

    /// The last step along `p`.
    fn finish(&mut self, pool: &Pool, alpha: f32) {
        let (s, threads) = (self.levels[0].s, pool.threads());
        let (x, p) = (Shared::of(&mut self.x), Shared::of(&mut self.p));
        let z = &self.levels[0].z[..];
        pool.run(|t| turn_part(x, p, z, alpha, 0.0, s, s.part(t, threads)));
    }
}
// ANCHOR_END: solver
