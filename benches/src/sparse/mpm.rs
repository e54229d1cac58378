//! MLS-MPM of elastic bodies on a sparse grid: the example `mpm3d` against a hand-written version.

use std::sync::Arc;

use wuji_examples::apps::{self, App, Scale, noise};

use crate::case::{Contender, made};
use crate::host_fn;
use crate::measure::Row;
use crate::pool::Pool;
use crate::study::{Bench, Side, Study, agree};

/// Nodes along each axis, as in the example.
const N: usize = 128;
/// Nodes along each axis of a block.
const B: usize = 4;
/// Blocks along each axis.
const SIDE: usize = N / B;
const NODES: usize = B * B * B;
/// The particles of a block reach two nodes beyond it.
const REACH: usize = B + 2;
const COUNT: usize = 16 * (N / 4) * (N / 4) * (N / 4);
const DT: f32 = 4e-5;
const E: f32 = 5e3;
const POISSON: f32 = 0.3;
const MU: f32 = E / (2.0 * (1.0 + POISSON));
const LAMBDA: f32 = E * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON));
const GRAVITY: f32 = 9.8;
const WALL: usize = 3;
const VOLUME: f32 = 0.125 / (N * N * N) as f32;

pub struct SparseMpm;

#[derive(Clone, Copy)]
struct Particle {
    x: [f32; 3],
    v: [f32; 3],
    /// Affine velocity, row-major.
    c: [f32; 9],
    /// Deformation gradient, row-major.
    f: [f32; 9],
}

/// Momentum, later velocity, and mass.
type Node = [f32; 4];
/// Scratchpad: the nodes that the particles of one block reach.
type Pad = [Node; REACH * REACH * REACH];

/// The two cubes of the example.
fn start(p: usize) -> Particle {
    let side = N / 4;
    let (cube, cell) = (p / (8 * side.pow(3)), p / 8 % side.pow(3));
    let (corner, v) = match cube {
        0 => ([0.2, 0.1, 0.3], [2.0, 0.0, 0.0]),
        _ => ([0.55, 0.2, 0.4], [-2.0, -1.0, 0.0]),
    };
    let cell = [cell / (side * side), cell / side % side, cell % side];
    let x = std::array::from_fn(|d| corner[d] + (cell[d] as f32 + noise(3 * p + d)) / N as f32);
    let mut f = [0.0; 9];
    (f[0], f[4], f[8]) = (1.0, 1.0, 1.0);
    Particle {
        x,
        v,
        c: [0.0; 9],
        f,
    }
}

/// The lowest of the 27 nodes around a particle, and the particle's position relative to it.
#[inline(always)]
fn locate(x: [f32; 3]) -> ([usize; 3], [f32; 3]) {
    let g = x.map(|x| x * N as f32);
    let b = g.map(|g| ((g - 0.5).max(0.0) as i32 as usize).min(N - 3));
    (b, std::array::from_fn(|d| g[d] - b[d] as f32))
}

#[inline(always)]
fn weights(f: f32) -> [f32; 3] {
    let (a, b, c) = (1.5 - f, f - 1.0, f - 0.5);
    [0.5 * a * a, 0.75 - b * b, 0.5 * c * c]
}

/// Blocks of nodes, a block table, and the particles of each block.
struct State {
    particles: Vec<Particle>,
    /// For each block coordinate: the block number plus 1, or 0.
    table: Vec<u32>,
    /// Coordinates of the active blocks.
    places: Vec<u32>,
    nodes: Vec<[Node; NODES]>,
    /// Particle indices, sorted by block.
    order: Vec<u32>,
    /// For each block coordinate: the start of its particles in `order`, plus one entry at the end.
    begins: Vec<u32>,
    /// Blocks with particles, by the parity of their coordinates: two blocks of one colour share no node.
    colours: [Vec<u32>; 8],
    /// For each thread: the number of particles per block, then the offsets to write to.
    counts: Vec<Vec<u32>>,
    /// The block of each particle.
    homes: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Shared<T>(*mut T);

// SAFETY: an address; the users state which thread writes where.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

host_fn! {
    fn homes(first: usize, particles: &[Particle], homes: &mut [u32], counts: &mut [u32]) {
        counts.fill(0);
        for (home, p) in homes.iter_mut().zip(&particles[first..]) {
            let (b, _) = locate(p.x);
            *home = (((b[0] / B) * SIDE + b[1] / B) * SIDE + b[2] / B) as u32;
            counts[*home as usize] += 1;
        }
    }
}

host_fn! {
    fn scatter(particles: Shared<Particle>, order: &[u32], corner: [usize; 3], pad: &mut Pad) {
        *pad = [[0.0; 4]; REACH * REACH * REACH];
        for number in order {
            // SAFETY: each particle is in one block, and each block is taken by one thread.
            let p = unsafe { &mut *particles.get().add(*number as usize) };
            let (b, part) = locate(p.x);
            let (wx, wy, wz) = (weights(part[0]), weights(part[1]), weights(part[2]));
            let mut f = [0.0f32; 9];
            for r in 0..3 {
                for k in 0..3 {
                    let mut sum = p.f[3 * r + k];
                    for m in 0..3 {
                        sum = (DT * p.c[3 * r + m]).mul_add(p.f[3 * m + k], sum);
                    }
                    f[3 * r + k] = sum;
                }
            }
            p.f = f;
            let det = f[0] * (f[4] * f[8] - f[5] * f[7]) - f[1] * (f[3] * f[8] - f[5] * f[6])
                + f[2] * (f[3] * f[7] - f[4] * f[6]);
            let pressure = LAMBDA * det.ln();
            let scale = -DT * 4.0 * (N * N) as f32 * VOLUME;
            // Columns of the affine momentum, in units of cells.
            let column = |d: usize| -> Node {
                let mut a = [0.0f32; 4];
                for r in 0..3 {
                    let mut s = f[3 * r] * f[3 * d] + f[3 * r + 1] * f[3 * d + 1] + f[3 * r + 2] * f[3 * d + 2];
                    s = MU * (s - if r == d { 1.0 } else { 0.0 }) + if r == d { pressure } else { 0.0 };
                    a[r] = (scale * s + VOLUME * p.c[3 * r + d]) * (1.0 / N as f32);
                }
                a
            };
            let (ax, ay, az) = (column(0), column(1), column(2));
            let mut base: Node = [VOLUME * p.v[0], VOLUME * p.v[1], VOLUME * p.v[2], VOLUME];
            for k in 0..4 {
                base[k] -= ax[k] * part[0] + ay[k] * part[1] + az[k] * part[2];
            }
            for i in 0..3 {
                for j in 0..3 {
                    let mut value = base;
                    for k in 0..4 {
                        value[k] += ax[k] * i as f32 + ay[k] * j as f32;
                    }
                    let w = wx[i] * wy[j];
                    let at = ((b[0] - corner[0] + i) * REACH + b[1] - corner[1] + j) * REACH + b[2] - corner[2];
                    let row: &mut [Node; 3] = (&mut pad[at..][..3]).try_into().expect("three nodes");
                    for l in 0..3 {
                        let w = w * wz[l];
                        for k in 0..4 {
                            row[l][k] = w.mul_add(value[k] + az[k] * l as f32, row[l][k]);
                        }
                    }
                }
            }
        }
    }
}

host_fn! {
    fn gather(particles: Shared<Particle>, order: &[u32], corner: [usize; 3], pad: &Pad) {
        for number in order {
            // SAFETY: each particle is in one block, and each block is taken by one thread.
            let p = unsafe { &mut *particles.get().add(*number as usize) };
            let (b, part) = locate(p.x);
            let (wx, wy, wz) = (weights(part[0]), weights(part[1]), weights(part[2]));
            // Sums of w v, w v i, w v j and w v l.
            let (mut v, mut ci, mut cj, mut cl) = ([0.0f32; 4], [0.0f32; 4], [0.0f32; 4], [0.0f32; 4]);
            for i in 0..3 {
                for j in 0..3 {
                    let w = wx[i] * wy[j];
                    let at = ((b[0] - corner[0] + i) * REACH + b[1] - corner[1] + j) * REACH + b[2] - corner[2];
                    let row: &[Node; 3] = (&pad[at..][..3]).try_into().expect("three nodes");
                    let (di, dj) = (i as f32 - part[0], j as f32 - part[1]);
                    let mut line = [0.0f32; 4];
                    for l in 0..3 {
                        let (w, dl) = (w * wz[l], l as f32 - part[2]);
                        for k in 0..4 {
                            let wv = w * row[l][k];
                            line[k] += wv;
                            cl[k] = wv.mul_add(dl, cl[k]);
                        }
                    }
                    for k in 0..4 {
                        v[k] += line[k];
                        ci[k] = line[k].mul_add(di, ci[k]);
                        cj[k] = line[k].mul_add(dj, cj[k]);
                    }
                }
            }
            let scale = 4.0 * N as f32;
            for d in 0..3 {
                p.v[d] = v[d];
                p.c[3 * d] = ci[d] * scale;
                p.c[3 * d + 1] = cj[d] * scale;
                p.c[3 * d + 2] = cl[d] * scale;
                p.x[d] += DT * v[d];
            }
        }
    }
}

host_fn! {
    fn update(first: usize, places: &[u32], blocks: &mut [[Node; NODES]]) {
        for (n, block) in blocks.iter_mut().enumerate() {
            let corner = corner(places[first + n]);
            for (c, node) in block.iter_mut().enumerate() {
                if node[3] <= 0.0 {
                    continue;
                }
                let place = [corner[0] + c / (B * B), corner[1] + c / B % B, corner[2] + c % B];
                let inverse = 1.0 / node[3];
                let mut u = [node[0] * inverse, node[1] * inverse - DT * GRAVITY, node[2] * inverse];
                if place[1] < WALL && u[1] < 0.0 {
                    u = [0.0; 3];
                }
                for d in 0..3 {
                    if (place[d] < WALL && u[d] < 0.0) || (place[d] + WALL > N && u[d] > 0.0) {
                        u[d] = 0.0;
                    }
                }
                node[..3].copy_from_slice(&u);
            }
        }
    }
}

/// The first node of a block.
#[inline(always)]
fn corner(place: u32) -> [usize; 3] {
    let n = place as usize;
    [n / (SIDE * SIDE) * B, n / SIDE % SIDE * B, n % SIDE * B]
}

/// Calls `f(block, node in it, node of the pad)` for every grid node that the particles of a block reach.
#[inline(always)]
fn around(table: &[u32], corner: [usize; 3], mut f: impl FnMut(usize, usize, usize)) {
    for o in 0..8 {
        let o = [o >> 2 & 1, o >> 1 & 1, o & 1];
        let at: [usize; 3] = std::array::from_fn(|d| corner[d] / B + o[d]);
        if at.iter().any(|c| *c >= SIDE) {
            continue;
        }
        let number = table[(at[0] * SIDE + at[1]) * SIDE + at[2]];
        if number == 0 {
            continue;
        }
        let many = o.map(|o| if o == 0 { B } else { REACH - B });
        for i in 0..many[0] {
            for j in 0..many[1] {
                for k in 0..many[2] {
                    let pad = ((o[0] * B + i) * REACH + o[1] * B + j) * REACH + o[2] * B + k;
                    f(number as usize - 1, (i * B + j) * B + k, pad);
                }
            }
        }
    }
}

impl State {
    fn new(threads: usize) -> State {
        State {
            particles: (0..COUNT).map(start).collect(),
            table: vec![0; SIDE * SIDE * SIDE],
            places: Vec::new(),
            nodes: Vec::new(),
            order: vec![0; COUNT],
            begins: vec![0; SIDE * SIDE * SIDE + 1],
            colours: Default::default(),
            counts: vec![vec![0; SIDE * SIDE * SIDE]; threads],
            homes: vec![0; COUNT],
        }
    }

    /// Sorts the particles by block.
    fn sort(&mut self, pool: &Pool) {
        let threads = pool.threads();
        let (particles, all) = (&self.particles[..], Shared(self.homes.as_mut_ptr()));
        let range = |t: usize| (COUNT * t / threads, COUNT * (t + 1) / threads);
        pool.each(&mut self.counts, |t, counts| {
            let (begin, end) = range(t);
            // SAFETY: ranges of different threads do not overlap.
            let part = unsafe { std::slice::from_raw_parts_mut(all.get().add(begin), end - begin) };
            homes(begin, particles, part, counts);
        });
        let mut next = 0;
        for place in 0..SIDE * SIDE * SIDE {
            self.begins[place] = next;
            for counts in &mut self.counts {
                next += std::mem::replace(&mut counts[place], next);
            }
        }
        self.begins[SIDE * SIDE * SIDE] = next;
        let (homes, order) = (&self.homes[..], Shared(self.order.as_mut_ptr()));
        pool.each(&mut self.counts, |t, counts| {
            let (begin, end) = range(t);
            for p in begin..end {
                let at = &mut counts[homes[p] as usize];
                // SAFETY: every particle has its own slot in the order.
                unsafe { *order.get().add(*at as usize) = p as u32 };
                *at += 1;
            }
        });
    }

    /// Activates the blocks that particles reach, filled with zeros.
    fn activate(&mut self, pool: &Pool) {
        for place in self.places.drain(..) {
            self.table[place as usize] = 0;
        }
        self.colours.iter_mut().for_each(Vec::clear);
        for place in 0..SIDE * SIDE * SIDE {
            if self.begins[place] == self.begins[place + 1] {
                continue;
            }
            let at = corner(place as u32).map(|c| c / B);
            self.colours[(at[0] & 1) << 2 | (at[1] & 1) << 1 | at[2] & 1].push(place as u32);
            for o in 0..8 {
                let near = [at[0] + (o >> 2), at[1] + (o >> 1 & 1), at[2] + (o & 1)];
                if near.iter().all(|c| *c < SIDE) {
                    let near = (near[0] * SIDE + near[1]) * SIDE + near[2];
                    if self.table[near] == 0 {
                        self.places.push(near as u32);
                        self.table[near] = self.places.len() as u32;
                    }
                }
            }
        }
        self.nodes.resize(self.places.len(), [[0.0; 4]; NODES]);
        pool.split(&mut self.nodes, 16, |_, blocks| {
            blocks.fill([[0.0; 4]; NODES]);
        });
    }

    fn substep(&mut self, pool: &Pool) {
        self.sort(pool);
        self.activate(pool);
        let particles = Shared(self.particles.as_mut_ptr());
        let (table, order, begins) = (&self.table[..], &self.order[..], &self.begins[..]);
        let of = |place: u32| {
            &order[begins[place as usize] as usize..begins[place as usize + 1] as usize]
        };
        let nodes = Shared(self.nodes.as_mut_ptr());
        for colour in &mut self.colours {
            pool.share(colour, 8, |_, places| {
                let mut pad: Pad = [[0.0; 4]; REACH * REACH * REACH];
                for place in places {
                    let corner = corner(*place);
                    scatter(particles, of(*place), corner, &mut pad);
                    around(table, corner, |block, node, at| {
                        // SAFETY: the table refers to active blocks; blocks of one colour reach different nodes.
                        let node = unsafe { &mut (*nodes.get().add(block))[node] };
                        for k in 0..4 {
                            node[k] += pad[at][k];
                        }
                    });
                }
            });
        }
        let places = &self.places[..];
        pool.split(&mut self.nodes, 16, |first, blocks| {
            update(first, places, blocks);
        });
        let nodes = &self.nodes[..];
        for colour in &mut self.colours {
            pool.share(colour, 8, |_, places| {
                let mut pad: Pad = [[0.0; 4]; REACH * REACH * REACH];
                for place in places {
                    let corner = corner(*place);
                    around(table, corner, |block, node, at| {
                        pad[at] = nodes[block][node]
                    });
                    gather(particles, of(*place), corner, &pad);
                }
            });
        }
    }

    /// The sums of the example, except the number of blocks: the example activates only blocks that particles write to.
    fn sums(&self) -> Vec<f32> {
        let mean = |f: &dyn Fn(&Particle) -> f32| {
            (self.particles.iter().map(|p| f64::from(f(p))).sum::<f64>() / COUNT as f64) as f32
        };
        let det = |f: &[f32; 9]| {
            f[0] * (f[4] * f[8] - f[5] * f[7]) - f[1] * (f[3] * f[8] - f[5] * f[6])
                + f[2] * (f[3] * f[7] - f[4] * f[6])
        };
        vec![
            mean(&|p| p.x[0]),
            mean(&|p| p.x[1]),
            mean(&|p| p.v.iter().map(|v| v * v).sum()),
            mean(&|p| det(&p.f)),
        ]
    }
}

/// An application as a contender: one step per sample.
pub struct Steps(pub Box<dyn App>);

impl Contender for Steps {
    fn run(&mut self) -> Result<(), String> {
        self.0.step().map_err(|e| e.to_string())
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        let sums = self.0.sums().map_err(|e| e.to_string())?;
        Ok(sums.into_iter().map(|(_, x)| x as f32).collect())
    }
}

/// The example, without its number of blocks.
struct Bodies(Steps);

impl Contender for Bodies {
    fn run(&mut self) -> Result<(), String> {
        self.0.run()
    }
    fn result(&mut self) -> Result<Vec<f32>, String> {
        Ok(self.0.result()?.split_off(1))
    }
}

impl Study for SparseMpm {
    fn name(&self) -> &'static str {
        "sparse_mpm3d"
    }
    fn size(&self) -> String {
        "2^19 on 128^3".into()
    }
    fn metric(&self) -> &'static str {
        "substeps/s"
    }

    /// Sorted into buckets, and in the memory order of the particles.
    fn rows(&self, bench: &Bench) -> Result<Vec<Row>, String> {
        use apps::mpm3d::Variant;
        let mut rows = Vec::new();
        for (metric, variant) in [
            (self.metric(), Variant::Buckets),
            ("plain_substeps/s", Variant::Plain),
        ] {
            let world = bench.world(&[])?;
            let app = apps::mpm3d::app(&world, Scale::Full, variant).map_err(|e| e.to_string())?;
            let mut wuji = Bodies(Steps(app));
            let pool = Arc::clone(&bench.pool);
            let mut hand = made(
                State::new(pool.threads()),
                move |s| s.substep(&pool),
                |s| s.sums(),
            );
            agree(self, &mut wuji, &mut *hand, 1e-4)?;
            rows.push(bench.compare(
                self,
                metric,
                Side {
                    contender: &mut wuji,
                    work: 1.0,
                },
                Side {
                    contender: &mut *hand,
                    work: 1.0,
                },
            )?);
        }
        Ok(rows)
    }
}
