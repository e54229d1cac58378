//! The solver of `benches/gpu/mgpcg.cu`, whose grids are stored by colour.

use wuji_tools::gpu_measure::{Launch, Reference};

use super::cuda::{self, Cuda, Queue, launch};
use super::mgpcg::{FACTOR, MOST, converged, source};

const LEVELS: usize = 5;
/// The smallest grid: a row has four cells of each colour.
const SMALLEST: usize = 8;
const THREADS: u32 = 256;

/// Where a cell is in a grid of `n`^3.
fn place(n: usize, [i, j, k]: [usize; 3]) -> usize {
    (i + j + k) % 2 * (n * n * n / 2) + (i * n + j) * (n / 2) + k / 2
}

/// Coordinates of all cells, in order.
fn cells(n: usize) -> impl Iterator<Item = [usize; 3]> {
    (0..n * n * n).map(move |c| [c / (n * n), c / n % n, c % n])
}

/// The grids of one level, in device memory.
#[derive(Clone, Copy)]
struct Level {
    n: usize,
    r: u64,
    z: u64,
}

impl Level {
    /// Planes that a thread handles: as few as still fill a large GPU.
    fn planes(self) -> usize {
        ((self.n.pow(3) / 8) >> 18).max(1)
    }

    /// A launch whose threads have four cells of a colour in some planes.
    fn march(self, kernel: &'static str, words: &[u64]) -> Launch<'static> {
        let threads = self.n * self.n / 8 * self.n.div_ceil(self.planes());
        launch(kernel, (threads as u32).div_ceil(THREADS), THREADS, words)
    }

    fn words<const N: usize>(self, more: [u64; N]) -> Vec<u64> {
        let all = [self.r, self.z, self.n as u64, self.planes() as u64];
        all.into_iter().chain(more).collect()
    }

    fn smooth(self, colour: u64) -> Launch<'static> {
        self.march("mg_smooth", &self.words([colour]))
    }
}

/// Addresses in device memory.
struct Solver {
    levels: Vec<Level>,
    b: u64,
    x: u64,
    /// The search direction of even and odd iterations.
    p: [u64; 2],
    /// Sums of products: three for each iteration, after that of the right-hand side.
    sums: u64,
}

impl Solver {
    fn new(device: &mut Reference, n: usize) -> wuji::Result<Solver> {
        let mut b = vec![0.0f32; n * n * n];
        let value = source(n);
        for at in cells(n) {
            b[place(n, at)] = value(at);
        }
        let mut levels = Vec::new();
        for l in 0..LEVELS {
            let n = (n >> l).max(SMALLEST);
            let bytes = n.pow(3) as u64 * 4;
            let (r, z) = (device.alloc(bytes)?, device.alloc(bytes)?);
            levels.push(Level { n, r, z });
        }
        let bytes = n.pow(3) as u64 * 4;
        Ok(Solver {
            levels,
            b: device.upload(&b)?,
            x: device.alloc(bytes)?,
            p: [device.alloc(bytes)?, device.alloc(bytes)?],
            sums: device.alloc((1 + 3 * MOST as u64) * 8)?,
        })
    }

    /// The address of one of the sums of an iteration: `r . z`, `p . A p` and `r . r`.
    fn sum(&self, iteration: usize, which: usize) -> u64 {
        self.sums + 8 * (1 + 3 * iteration + which) as u64
    }

    fn start(&self) -> Vec<Launch<'static>> {
        let fours = self.levels[0].n.pow(3) as u64 / 4;
        let words = [
            self.b,
            self.levels[0].r,
            self.x,
            self.p[0],
            fours,
            self.sums,
        ];
        vec![
            launch("mg_clear", 1, THREADS, &[self.sums, 1 + 3 * MOST as u64]),
            launch("mg_start", 132 * 8, THREADS, &words),
        ]
    }

    /// `z = M r`, with two sweeps before and after the coarser level, and `r . z`.
    fn v_cycle(&self, iteration: usize) -> Vec<Launch<'static>> {
        let mut all = Vec::new();
        let pairs = || self.levels.iter().zip(&self.levels[1..]);
        for (fine, coarse) in pairs() {
            all.push(fine.march("mg_first", &fine.words([])));
            all.extend([fine.smooth(0), fine.smooth(1)]);
            let threads = (fine.n / 2).pow(2) * fine.n / 8;
            all.push(launch(
                "mg_restrict",
                (threads as u32).div_ceil(THREADS),
                THREADS,
                &[fine.r, fine.z, coarse.r, fine.n as u64, coarse.n as u64],
            ));
        }
        let last = self.levels[LEVELS - 1];
        let words = [last.r, last.z, last.n as u64];
        all.push(launch("mg_bottom", 1, 1024, &words));
        for (l, (fine, coarse)) in pairs().enumerate().collect::<Vec<_>>().into_iter().rev() {
            let [r, z, n, planes] = [fine.r, fine.z, fine.n as u64, fine.planes() as u64];
            let words = [r, z, coarse.z, n, planes, coarse.n as u64];
            all.extend([fine.march("mg_prolong", &words), fine.smooth(0)]);
            if l > 0 {
                all.extend([fine.smooth(1), fine.smooth(0)]);
                continue;
            }
            let rz = self.sum(iteration, 0);
            let of = |colour| fine.march("mg_smooth_dot", &fine.words([colour, rz]));
            all.extend([of(1), of(0)]);
        }
        all
    }

    /// The next search direction, and a step along it.
    fn descend(&self, iteration: usize) -> [Launch<'static>; 2] {
        let finest = self.levels[0];
        let [rz, pap, left] = [0, 1, 2].map(|which| self.sum(iteration, which));
        let before = match iteration {
            0 => 0,
            _ => self.sum(iteration - 1, 0),
        };
        let (old, new) = (self.p[iteration % 2], self.p[(iteration + 1) % 2]);
        let (n, planes) = (finest.n as u64, finest.planes() as u64);
        let direct = [finest.z, old, new, n, planes, rz, before, pap];
        let step = [new, self.x, finest.r, n, planes, rz, pap, left];
        [
            finest.march("mg_direct", &direct),
            finest.march("mg_step", &step),
        ]
    }

    /// Solves; the host reads one number in each iteration.
    fn solve(&self, queue: &mut Queue<'_>) -> wuji::Result<usize> {
        let mut launches = self.start();
        for iteration in 0..MOST {
            launches.extend(self.v_cycle(iteration));
            launches.extend(self.descend(iteration));
            // SAFETY: the arguments are those of the kernels, in memory of this device.
            unsafe { queue.launch(&launches) }?;
            launches.clear();
            let read = |at| Ok::<f64, wuji::Error>(queue.device.download::<f64>(at, 1)?[0]);
            if read(self.sum(iteration, 2))? <= read(self.sums)? * FACTOR * FACTOR {
                return Ok(iteration + 1);
            }
        }
        Ok(MOST)
    }
}

/// A cube of `n`^3 cells.
pub fn solver(n: usize) -> wuji::Result<Cuda> {
    let mut device = Cuda::device(&cuda::MGPCG)?;
    let solver = Solver::new(&mut device, n)?;
    let x = solver.x;
    Ok(Cuda {
        device,
        run: Box::new(move |queue| converged(solver.solve(queue)?)),
        view: Box::new(move |device| {
            let by_colour = device.download::<f32>(x, n * n * n)?;
            Ok(cells(n).map(|at| by_colour[place(n, at)]).collect())
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every cell has its own place, and its neighbours are where the kernels read them.
    #[test]
    fn neighbours_are_at_the_same_place_of_the_other_colour() {
        let n = 8;
        let mut places: Vec<usize> = cells(n).map(|at| place(n, at)).collect();
        places.sort();
        assert!(places.into_iter().eq(0..n * n * n));
        let half = n * n * n / 2;
        for [i, j, k] in cells(n).filter(|at| at.iter().all(|c| *c > 0 && *c < n - 1)) {
            let colour = (i + j + k) % 2;
            let (m, t) = (place(n, [i, j, k]) % half, (i + j + colour) % 2);
            let other = (1 - colour) * half;
            assert_eq!(place(n, [i - 1, j, k]), other + m - n * n / 2);
            assert_eq!(place(n, [i, j + 1, k]), other + m + n / 2);
            assert_eq!(place(n, [i, j, k - 1]) + 1, other + m + t);
            assert_eq!(place(n, [i, j, k + 1]), other + m + t);
        }
    }
}
