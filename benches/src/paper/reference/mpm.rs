//! MLS-MPM on a sparse grid by hand: particles sorted by block, a scratchpad for each block, and blocks
//! in eight colours instead of atomics.

use crate::host_fn;
use crate::pool::Pool;
use crate::transfer::{self, Node, Strides};

// ANCHOR: substep
/// Nodes along each axis of a block.
const B: usize = 4;
const NODES: usize = B * B * B;
/// The particles of a block reach two nodes beyond it.
const REACH: usize = B + 2;
const E: f32 = 5e3;
const POISSON: f32 = 0.3;
const MU: f32 = E / (2.0 * (1.0 + POISSON));
const LAMBDA: f32 = E * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON));
const GRAVITY: f32 = 9.8;
const WALL: usize = 3;
/// Particles whose stress is computed together.
const L: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Particle {
    pub x: [f32; 3],
    pub v: [f32; 3],
    /// Affine velocity, row-major.
    pub c: [f32; 9],
    /// Deformation gradient, row-major.
    pub f: [f32; 9],
}

/// Scratchpad: the nodes that the particles of one block reach.
type Pad = [Node; REACH * REACH * REACH];
/// Matrices of several particles, lane by lane.
type Matrices = [[f32; L]; 9];

/// The elastic part of a deformation, the new history and the Kirchhoff stress.
pub type Response = ([f32; 9], f32, [f32; 9]);

/// The stress of a deformation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elastic {
    NeoHookean,
    Corotated,
}

#[derive(Clone, Copy, Debug)]
pub enum Material {
    /// Several particles at a time.
    Elastic(Elastic),
    /// One particle at a time, from its deformation and its history.
    Pointwise(fn([f32; 9], f32) -> Response),
}

/// The numbers of a simulation.
#[derive(Clone, Copy, Debug)]
struct Scene {
    /// Nodes along each axis.
    n: usize,
    dt: f32,
    volume: f32,
    material: Material,
}

impl Scene {
    /// Blocks along each axis.
    #[inline(always)]
    fn side(&self) -> usize {
        self.n / B
    }
}

/// The lowest of the 27 nodes around a particle, and the particle's position relative to it.
#[inline(always)]
fn locate(x: [f32; 3], n: usize) -> ([usize; 3], [f32; 3]) {
    let g = x.map(|x| x * n as f32);
    let b = g.map(|g| ((g - 0.5).max(0.0) as i32 as usize).min(n - 3));
    (b, std::array::from_fn(|d| g[d] - b[d] as f32))
}

/// Blocks of nodes, a block table, and the particles of each block.
#[derive(Debug)]
pub struct State {
    scene: Scene,
    pub particles: Vec<Particle>,
    /// What particles remember of plastic deformations.
    history: Vec<f32>,
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
    fn homes(n: usize, first: usize, particles: &[Particle], homes: &mut [u32], counts: &mut [u32]) {
        counts.fill(0);
        let side = n / B;
        for (home, p) in homes.iter_mut().zip(&particles[first..]) {
            let (b, _) = locate(p.x, n);
            *home = (((b[0] / B) * side + b[1] / B) * side + b[2] / B) as u32;
            counts[*home as usize] += 1;
        }
    }
}

/// `a` times the transpose of `b`, lane by lane.
#[inline(always)]
fn times_transposed(a: &Matrices, b: &Matrices, out: &mut Matrices) {
    for (e, out) in out.iter_mut().enumerate() {
        let (r, k) = (e / 3 * 3, e % 3 * 3);
        for l in 0..L {
            out[l] = a[r][l] * b[k][l] + a[r + 1][l] * b[k + 1][l] + a[r + 2][l] * b[k + 2][l];
        }
    }
}

/// The determinant and the cofactors of every lane.
#[inline(always)]
fn cofactors(m: &Matrices, out: &mut Matrices) -> [f32; L] {
    for (e, out) in out.iter_mut().enumerate() {
        let (r, c) = (e / 3, e % 3);
        let (r1, r2, c1, c2) = ((r + 1) % 3 * 3, (r + 2) % 3 * 3, (c + 1) % 3, (c + 2) % 3);
        for l in 0..L {
            out[l] = m[r1 + c1][l] * m[r2 + c2][l] - m[r1 + c2][l] * m[r2 + c1][l];
        }
    }
    std::array::from_fn(|l| m[0][l] * out[0][l] + m[1][l] * out[1][l] + m[2][l] * out[2][l])
}

/// The rotation in a polar decomposition, by Newton's method: the mean of a matrix and its inverse transpose.
#[inline(always)]
fn rotation(f: &Matrices) -> Matrices {
    let mut r = *f;
    let mut inverse = [[0.0; L]; 9];
    for _ in 0..6 {
        let det = cofactors(&r, &mut inverse);
        let scale = det.map(|det| 0.5 / det);
        for (r, inverse) in r.iter_mut().zip(&inverse) {
            for l in 0..L {
                r[l] = 0.5 * r[l] + scale[l] * inverse[l];
            }
        }
    }
    r
}

/// Kirchhoff stress of an elastic material.
#[inline(always)]
fn stress(material: Elastic, f: &Matrices) -> Matrices {
    let mut out = [[0.0; L]; 9];
    let det = cofactors(f, &mut out);
    let pressure: [f32; L] = match material {
        Elastic::NeoHookean => {
            times_transposed(f, f, &mut out);
            out.iter_mut().flatten().for_each(|s| *s *= MU);
            std::array::from_fn(|l| LAMBDA * det[l].ln() - MU)
        }
        Elastic::Corotated => {
            let mut strain = rotation(f);
            for (r, f) in strain.iter_mut().zip(f) {
                for l in 0..L {
                    r[l] = 2.0 * MU * (f[l] - r[l]);
                }
            }
            times_transposed(&strain, f, &mut out);
            std::array::from_fn(|l| LAMBDA * (det[l] - 1.0) * det[l])
        }
    };
    for d in [0, 4, 8] {
        for l in 0..L {
            out[d][l] += pressure[l];
        }
    }
    out
}

// ANCHOR_END: substep
// ANCHOR: pointwise
/// The response of some particles, one by one: updates deformations and histories; returns the Kirchhoff stress.
#[inline(always)]
fn respond(
    law: fn([f32; 9], f32) -> Response,
    history: Shared<f32>,
    order: &[u32],
    f: &mut Matrices,
) -> Matrices {
    let mut stress = [[0.0; L]; 9];
    for (l, number) in order.iter().enumerate() {
        // SAFETY: each particle is in one block, and each block is taken by one thread.
        let past = unsafe { &mut *history.get().add(*number as usize) };
        let (kept, now, own) = law(std::array::from_fn(|e| f[e][l]), *past);
        *past = now;
        for e in 0..9 {
            (f[e][l], stress[e][l]) = (kept[e], own[e]);
        }
    }
    stress
}
// ANCHOR_END: pointwise
// ANCHOR: substep

/// Updates the deformation of some particles; returns their affine momentum, in units of cells.
#[inline(always)]
fn deform(
    scene: Scene,
    particles: Shared<Particle>,
    history: Shared<f32>,
    order: &[u32],
) -> Matrices {
    let (mut c, mut f, mut new) = ([[0.0; L]; 9], [[0.0; L]; 9], [[0.0; L]; 9]);
    for d in [0, 4, 8] {
        f[d] = [1.0; L];
    }
    for (l, number) in order.iter().enumerate() {
        // SAFETY: each particle is in one block, and each block is taken by one thread.
        let p = unsafe { &*particles.get().add(*number as usize) };
        for e in 0..9 {
            (c[e][l], f[e][l]) = (p.c[e], p.f[e]);
        }
    }
    for (e, new) in new.iter_mut().enumerate() {
        let (r, k) = (e / 3 * 3, e % 3);
        for l in 0..L {
            let turned = c[r][l] * f[k][l] + c[r + 1][l] * f[3 + k][l] + c[r + 2][l] * f[6 + k][l];
            new[l] = scene.dt.mul_add(turned, f[e][l]);
        }
    }
    let mut affine = match scene.material {
        Material::Elastic(material) => stress(material, &new),
        Material::Pointwise(law) => respond(law, history, order, &mut new),
    };
    let n = scene.n as f32;
    for (affine, c) in affine.iter_mut().zip(&c) {
        for l in 0..L {
            affine[l] = (-scene.dt * 4.0 * n * affine[l] + c[l] / n) * scene.volume;
        }
    }
    for (l, number) in order.iter().enumerate() {
        // SAFETY: as above.
        let p = unsafe { &mut *particles.get().add(*number as usize) };
        for e in 0..9 {
            p.f[e] = new[e][l];
        }
    }
    affine
}

/// Distances in a scratchpad.
const STRIDES: Strides = Strides {
    plane: REACH * REACH,
    row: REACH,
};

/// The place of a node in a scratchpad with this corner.
#[inline(always)]
fn in_pad(node: [usize; 3], corner: [usize; 3]) -> usize {
    let [i, j, k] = std::array::from_fn(|d| node[d] - corner[d]);
    i * STRIDES.plane + j * STRIDES.row + k
}

host_fn! {
    fn scatter(scene: Scene, particles: Shared<Particle>, history: Shared<f32>, order: &[u32], corner: [usize; 3], pad: &mut Pad) {
        *pad = [[0.0; 4]; REACH * REACH * REACH];
        for order in order.chunks(L) {
            let affine = deform(scene, particles, history, order);
            for (l, number) in order.iter().enumerate() {
                // SAFETY: each particle is in one block, and each block is taken by one thread.
                let p = unsafe { &*particles.get().add(*number as usize) };
                let (node, part) = locate(p.x, scene.n);
                let volume = scene.volume;
                let base = [volume * p.v[0], volume * p.v[1], volume * p.v[2], volume];
                let column = |d: usize| [affine[d][l], affine[3 + d][l], affine[6 + d][l], 0.0];
                let columns = [column(0), column(1), column(2)];
                transfer::scatter(pad, in_pad(node, corner), STRIDES, part, base, columns);
            }
        }
    }
}

host_fn! {
    fn gather(scene: Scene, particles: Shared<Particle>, order: &[u32], corner: [usize; 3], pad: &Pad) {
        for number in order {
            // SAFETY: each particle is in one block, and each block is taken by one thread.
            let p = unsafe { &mut *particles.get().add(*number as usize) };
            let (node, part) = locate(p.x, scene.n);
            (p.v, p.c) = transfer::gather(pad, in_pad(node, corner), STRIDES, part, scene.n);
            for d in 0..3 {
                p.x[d] += scene.dt * p.v[d];
            }
        }
    }
}

host_fn! {
    fn update(scene: Scene, first: usize, places: &[u32], blocks: &mut [[Node; NODES]]) {
        for (n, block) in blocks.iter_mut().enumerate() {
            let corner = corner(places[first + n], scene.side());
            for (c, node) in block.iter_mut().enumerate() {
                if node[3] <= 0.0 {
                    continue;
                }
                let place = [corner[0] + c / (B * B), corner[1] + c / B % B, corner[2] + c % B];
                let inverse = 1.0 / node[3];
                let mut u = [node[0] * inverse, node[1] * inverse - scene.dt * GRAVITY, node[2] * inverse];
                if place[1] < WALL && u[1] < 0.0 {
                    u = [0.0; 3];
                }
                for d in 0..3 {
                    if (place[d] < WALL && u[d] < 0.0) || (place[d] + WALL > scene.n && u[d] > 0.0) {
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
fn corner(place: u32, side: usize) -> [usize; 3] {
    let n = place as usize;
    [n / (side * side) * B, n / side % side * B, n % side * B]
}

/// Calls `f(block, node in it, node of the pad)` for every grid node that the particles of a block reach.
#[inline(always)]
fn around(table: &[u32], side: usize, corner: [usize; 3], mut f: impl FnMut(usize, usize, usize)) {
    for o in 0..8 {
        let o = [o >> 2 & 1, o >> 1 & 1, o & 1];
        let at: [usize; 3] = std::array::from_fn(|d| corner[d] / B + o[d]);
        if at.iter().any(|c| *c >= side) {
            continue;
        }
        let number = table[(at[0] * side + at[1]) * side + at[2]];
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
    pub fn new(
        n: usize,
        particles: Vec<Particle>,
        dt: f32,
        (material, history): (Material, f32),
        threads: usize,
    ) -> State {
        let volume = 0.125 / (n * n * n) as f32;
        let (count, side) = (particles.len(), n / B);
        State {
            scene: Scene {
                n,
                dt,
                volume,
                material,
            },
            particles,
            history: vec![history; count],
            table: vec![0; side * side * side],
            places: Vec::new(),
            nodes: Vec::new(),
            order: vec![0; count],
            begins: vec![0; side * side * side + 1],
            colours: Default::default(),
            counts: vec![vec![0; side * side * side]; threads],
            homes: vec![0; count],
        }
    }

    /// Sorts the particles by block.
    fn sort(&mut self, pool: &Pool) {
        let threads = pool.threads();
        let (scene, count) = (self.scene, self.particles.len());
        let blocks = self.table.len();
        let (particles, all) = (&self.particles[..], Shared(self.homes.as_mut_ptr()));
        let range = |t: usize| (count * t / threads, count * (t + 1) / threads);
        pool.each(&mut self.counts, |t, counts| {
            let (begin, end) = range(t);
            // SAFETY: ranges of different threads do not overlap.
            let part = unsafe { std::slice::from_raw_parts_mut(all.get().add(begin), end - begin) };
            homes(scene.n, begin, particles, part, counts);
        });
        let mut next = 0;
        for place in 0..blocks {
            self.begins[place] = next;
            for counts in &mut self.counts {
                next += std::mem::replace(&mut counts[place], next);
            }
        }
        self.begins[blocks] = next;
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
        let side = self.scene.side();
        for place in 0..self.table.len() {
            if self.begins[place] == self.begins[place + 1] {
                continue;
            }
            let at = corner(place as u32, side).map(|c| c / B);
            self.colours[(at[0] & 1) << 2 | (at[1] & 1) << 1 | at[2] & 1].push(place as u32);
            for o in 0..8 {
                let near = [at[0] + (o >> 2), at[1] + (o >> 1 & 1), at[2] + (o & 1)];
                if near.iter().all(|c| *c < side) {
                    let near = (near[0] * side + near[1]) * side + near[2];
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

    pub fn substep(&mut self, pool: &Pool) {
        self.sort(pool);
        self.activate(pool);
        let particles = Shared(self.particles.as_mut_ptr());
        let history = Shared(self.history.as_mut_ptr());
        let (scene, side) = (self.scene, self.scene.side());
        let (table, order, begins) = (&self.table[..], &self.order[..], &self.begins[..]);
        let of = |place: u32| {
            &order[begins[place as usize] as usize..begins[place as usize + 1] as usize]
        };
        let nodes = Shared(self.nodes.as_mut_ptr());
        for colour in &mut self.colours {
            pool.share(colour, 8, |_, places| {
                let mut pad: Pad = [[0.0; 4]; REACH * REACH * REACH];
                for place in places {
                    let corner = corner(*place, side);
                    scatter(scene, particles, history, of(*place), corner, &mut pad);
                    around(table, side, corner, |block, node, at| {
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
            update(scene, first, places, blocks);
        });
        let nodes = &self.nodes[..];
        for colour in &mut self.colours {
            pool.share(colour, 8, |_, places| {
                let mut pad: Pad = [[0.0; 4]; REACH * REACH * REACH];
                for place in places {
                    let corner = corner(*place, side);
                    around(table, side, corner, |block, node, at| {
                        pad[at] = nodes[block][node]
                    });
                    gather(scene, particles, of(*place), corner, &pad);
                }
            });
        }
    }
}
// ANCHOR_END: substep
