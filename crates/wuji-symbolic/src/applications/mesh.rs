//! Generated meshes: grids with noise, whose structure varies like that of real meshes.

/// Random numbers, the same in every run.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Any seed but 0.
    pub fn new(seed: u64) -> Random {
        Random(seed.max(1))
    }

    /// Between 0 and 1.
    pub fn number(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() * bound as f64) as usize
    }
}

/// Triangles or tetrahedra, by the numbers of their corners.
#[derive(Clone, PartialEq, Debug)]
pub struct Mesh<const CORNERS: usize> {
    /// The corners of each element.
    pub elements: Vec<[usize; CORNERS]>,
    /// Three coordinates per vertex.
    pub points: Vec<f64>,
}

impl<const CORNERS: usize> Mesh<CORNERS> {
    /// The number of vertices.
    pub fn vertices(&self) -> usize {
        self.points.len() / 3
    }
}

/// A grid of `n` by `n` vertices at unit distance, with noise and diagonals in random directions.
pub fn grid(n: usize) -> Mesh<3> {
    let mut random = Random::new(41);
    let (mut elements, mut points) = (Vec::new(), Vec::new());
    for at in 0..n * n {
        let (i, j) = (at / n, at % n);
        points.extend([i as f64, j as f64, 0.0].map(|x| x + 0.3 * random.number()));
        if i > 0 && j > 0 {
            let (a, b, c, d) = (at - n - 1, at - n, at - 1, at);
            let halves = if random.number() < 0.5 {
                [[a, c, b], [b, c, d]]
            } else {
                [[a, c, d], [a, d, b]]
            };
            elements.extend(halves);
        }
    }
    Mesh { elements, points }
}

/// The six tetrahedra of a cube around its diagonal. Corners are numbered by their bits.
const CUBE: [[usize; 4]; 6] = [
    [0, 1, 3, 7],
    [0, 3, 2, 7],
    [0, 2, 6, 7],
    [0, 6, 4, 7],
    [0, 4, 5, 7],
    [0, 5, 1, 7],
];

/// A grid of `n` by `n` by `n` vertices at unit distance, with noise, filled with tetrahedra.
pub fn tetrahedra(n: usize) -> Mesh<4> {
    let mut random = Random::new(43);
    let (mut elements, mut points) = (Vec::new(), Vec::new());
    for at in 0..n * n * n {
        let place = [at / (n * n), at / n % n, at % n];
        points.extend(place.map(|x| x as f64 + 0.2 * random.number()));
        if place.iter().all(|x| *x > 0) {
            let corner = |bits: usize| {
                let back = |k: usize| 1 - (bits >> k & 1);
                at - back(0) * n * n - back(1) * n - back(2)
            };
            elements.extend(CUBE.iter().map(|cell| cell.map(corner)));
        }
    }
    Mesh { elements, points }
}
