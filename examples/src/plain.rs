//! Single-threaded MLS-MPM of three materials in plain Rust: the reference for the example `mpm88`.

use wuji::Element;

/// The material of a particle.
#[derive(Element, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Material {
    /// Weakly compressible.
    Water = 0,
    /// Elastic.
    Jelly = 1,
    /// Elastic and plastic.
    Snow = 2,
}

/// Cells along each axis.
pub const GRID: usize = 128;
/// The size of a cell.
pub const DX: f32 = 1.0 / GRID as f32;
/// The time step.
pub const DT: f32 = 1e-4;
/// Four particles per cell.
pub const VOLUME: f32 = DX * DX * 0.25;
/// Mass per volume.
pub const DENSITY: f32 = 1.0;
/// The mass of a particle.
pub const MASS: f32 = VOLUME * DENSITY;
/// The acceleration downwards.
pub const GRAVITY: f32 = 40.0;
/// Boundary cells.
pub const WALL: usize = 3;
const YOUNG: f32 = 4000.0;
const POISSON: f32 = 0.2;
/// Lamé parameters of undamaged snow.
pub const MU: f32 = YOUNG / (2.0 * (1.0 + POISSON));
/// The other Lamé parameter of undamaged snow.
pub const LAMBDA: f32 = YOUNG * POISSON / ((1.0 + POISSON) * (1.0 - 2.0 * POISSON));
/// Stiffness of jelly relative to snow.
pub const JELLY: f32 = 0.15;
/// Snow yields plastically beyond these stretches.
pub const SNOW_MIN: f32 = 1.0 - 0.025;
/// The largest elastic stretch.
pub const SNOW_MAX: f32 = 1.0 + 0.0045;

/// A matrix, by rows.
pub type Mat2 = [[f32; 2]; 2];

/// A particle.
#[derive(Clone, Copy, Debug)]
pub struct Particle {
    /// Its position.
    pub x: [f32; 2],
    /// Its velocity.
    pub v: [f32; 2],
    /// Affine velocity around the particle.
    pub c: Mat2,
    /// Deformation gradient.
    pub f: Mat2,
    /// Plastic volume of snow.
    pub jp: f32,
    /// Its material.
    pub material: Material,
}

/// The initial scene: a column of water, a block of jelly, a ball of snow.
pub fn scene() -> Vec<Particle> {
    let mut particles = Vec::new();
    let mut add = |count: usize, material, v: [f32; 2], place: &dyn Fn([f32; 2]) -> [f32; 2]| {
        for k in 0..count {
            let x = place(even(k));
            particles.push(Particle {
                x,
                v,
                c: [[0.0; 2]; 2],
                f: [[1.0, 0.0], [0.0, 1.0]],
                jp: 1.0,
                material,
            });
        }
    };
    let edge = (WALL as f32 + 0.5) * DX;
    // Counts follow from the areas, with four particles per cell.
    add(6800, Material::Water, [0.0; 2], &|u| {
        [edge + u[0] * 0.32, edge + u[1] * 0.324]
    });
    add(2600, Material::Jelly, [-1.5, 0.0], &|u| {
        let (s, c) = 0.4f32.sin_cos();
        let (a, b) = ((u[0] - 0.5) * 0.2, (u[1] - 0.5) * 0.2);
        [0.66 + c * a - s * b, 0.42 + s * a + c * b]
    });
    add(2800, Material::Snow, [1.5, -2.0], &|u| {
        let (r, angle) = (0.117 * u[0].sqrt(), u[1] * std::f32::consts::TAU);
        [0.3 + r * angle.cos(), 0.72 + r * angle.sin()]
    });
    particles
}

/// A low-discrepancy (R2) sequence in the unit square.
fn even(k: usize) -> [f32; 2] {
    [0.754_877_666_246_692_8, 0.569_840_290_998_053_2]
        .map(|step: f64| ((k as f64 + 0.5) * step).fract() as f32)
}

/// A 2 x 2 matrix in row-major order.
fn mul(a: Mat2, b: Mat2) -> Mat2 {
    std::array::from_fn(|i| std::array::from_fn(|j| a[i][0] * b[0][j] + a[i][1] * b[1][j]))
}

fn transpose(a: Mat2) -> Mat2 {
    [[a[0][0], a[1][0]], [a[0][1], a[1][1]]]
}

fn det(a: Mat2) -> f32 {
    a[0][0] * a[1][1] - a[0][1] * a[1][0]
}

/// Polar decomposition `a = r s`: a rotation and a symmetric matrix.
fn polar(a: Mat2) -> (Mat2, Mat2) {
    let (x, y) = (a[0][0] + a[1][1], a[1][0] - a[0][1]);
    let scale = 1.0 / (x * x + y * y).sqrt().max(1e-12);
    let r = [[x * scale, -y * scale], [y * scale, x * scale]];
    (r, mul(transpose(r), a))
}

/// Singular value decomposition `a = u diag(s) v^T`, from the polar decomposition and one Jacobi rotation.
fn svd(a: Mat2) -> (Mat2, [f32; 2], Mat2) {
    let (r, s) = polar(a);
    let (b, d) = (s[0][1], 0.5 * (s[0][0] - s[1][1]));
    let angle = 0.5 * b.atan2(d);
    let (sin, cos) = angle.sin_cos();
    let mean = 0.5 * (s[0][0] + s[1][1]);
    let radius = (b * b + d * d).sqrt();
    let v = [[cos, -sin], [sin, cos]];
    (mul(r, v), [mean + radius, mean - radius], v)
}

fn weights(f: f32) -> [f32; 3] {
    [
        0.5 * (1.5 - f) * (1.5 - f),
        0.75 - (f - 1.0) * (f - 1.0),
        0.5 * (f - 0.5) * (f - 0.5),
    ]
}

/// Particles and their grid.
#[derive(Debug)]
pub struct Plain {
    /// The particles.
    pub particles: Vec<Particle>,
    /// Momentum, then velocity, and mass.
    grid: Vec<[f32; 3]>,
}

impl Plain {
    /// The scene at the start.
    pub fn new() -> Plain {
        Plain {
            particles: scene(),
            grid: vec![[0.0; 3]; GRID * GRID],
        }
    }

    /// One time step.
    pub fn substep(&mut self) {
        self.grid.fill([0.0; 3]);
        for p in &mut self.particles {
            scatter(p, &mut self.grid);
        }
        for (k, node) in self.grid.iter_mut().enumerate() {
            let [i, j] = [k / GRID, k % GRID];
            let inverse = if node[2] > 0.0 { 1.0 / node[2] } else { 0.0 };
            let mut v = [node[0] * inverse, node[1] * inverse - DT * GRAVITY];
            for (d, place) in [i, j].into_iter().enumerate() {
                if (place < WALL && v[d] < 0.0) || (place + WALL > GRID && v[d] > 0.0) {
                    v[d] = 0.0;
                }
            }
            *node = [v[0], v[1], node[2]];
        }
        for p in &mut self.particles {
            gather(p, &self.grid);
        }
    }
}

impl Default for Plain {
    fn default() -> Plain {
        Plain::new()
    }
}

fn scatter(p: &mut Particle, grid: &mut [[f32; 3]]) {
    let stretch = [
        [1.0 + DT * p.c[0][0], DT * p.c[0][1]],
        [DT * p.c[1][0], 1.0 + DT * p.c[1][1]],
    ];
    p.f = mul(stretch, p.f);
    let (mut u, mut sigma, v) = svd(p.f);
    let hardness = match p.material {
        Material::Jelly => JELLY,
        Material::Snow => (10.0 * (1.0 - p.jp)).exp().clamp(0.1, 5.0),
        Material::Water => 1.0,
    };
    let mu = if p.material == Material::Water {
        0.0
    } else {
        MU * hardness
    };
    let lambda = LAMBDA * hardness;
    if p.material == Material::Snow {
        for s in &mut sigma {
            let yielded = s.clamp(SNOW_MIN, SNOW_MAX);
            p.jp *= *s / yielded;
            *s = yielded;
        }
    }
    let j = sigma[0] * sigma[1];
    match p.material {
        // A fluid keeps only its volume ratio.
        Material::Water => {
            let s = det(p.f).max(1e-6).sqrt();
            p.f = [[s, 0.0], [0.0, s]];
        }
        Material::Snow => {
            for row in &mut u {
                row[0] *= sigma[0];
                row[1] *= sigma[1];
            }
            p.f = mul(u, transpose(v));
        }
        Material::Jelly => {}
    }
    let (r, _) = polar(p.f);
    let deviation = std::array::from_fn(|i| std::array::from_fn(|k| p.f[i][k] - r[i][k]));
    let mut stress = mul(deviation, transpose(p.f)).map(|row| row.map(|s| 2.0 * mu * s));
    stress[0][0] += lambda * j * (j - 1.0);
    stress[1][1] += lambda * j * (j - 1.0);
    let scale = -DT * VOLUME * 4.0 / (DX * DX);
    let affine: Mat2 =
        std::array::from_fn(|i| std::array::from_fn(|k| scale * stress[i][k] + MASS * p.c[i][k]));

    let base = p.x.map(|x| (x * GRID as f32 - 0.5) as usize);
    let f = [
        p.x[0] * GRID as f32 - base[0] as f32,
        p.x[1] * GRID as f32 - base[1] as f32,
    ];
    let (wx, wy) = (weights(f[0]), weights(f[1]));
    for i in 0..3 {
        for j in 0..3 {
            let d = [(i as f32 - f[0]) * DX, (j as f32 - f[1]) * DX];
            let w = wx[i] * wy[j];
            let node = &mut grid[(base[0] + i) * GRID + base[1] + j];
            for k in 0..2 {
                node[k] += w * (MASS * p.v[k] + affine[k][0] * d[0] + affine[k][1] * d[1]);
            }
            node[2] += w * MASS;
        }
    }
}

fn gather(p: &mut Particle, grid: &[[f32; 3]]) {
    let base = p.x.map(|x| (x * GRID as f32 - 0.5) as usize);
    let f = [
        p.x[0] * GRID as f32 - base[0] as f32,
        p.x[1] * GRID as f32 - base[1] as f32,
    ];
    let (wx, wy) = (weights(f[0]), weights(f[1]));
    let (mut v, mut c) = ([0.0; 2], [[0.0; 2]; 2]);
    for i in 0..3 {
        for j in 0..3 {
            let d = [i as f32 - f[0], j as f32 - f[1]];
            let w = wx[i] * wy[j];
            let node = &grid[(base[0] + i) * GRID + base[1] + j];
            for k in 0..2 {
                v[k] += w * node[k];
                c[k][0] += w * node[k] * d[0] * 4.0 * GRID as f32;
                c[k][1] += w * node[k] * d[1] * 4.0 * GRID as f32;
            }
        }
    }
    p.v = v;
    p.c = c;
    let (low, high) = (2.0 * DX, 1.0 - 2.0 * DX);
    p.x = [
        (p.x[0] + DT * v[0]).clamp(low, high),
        (p.x[1] + DT * v[1]).clamp(low, high),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decomposition_multiplies_back() {
        for a in [
            [[1.0, 0.2], [-0.3, 0.9]],
            [[0.5, 0.0], [0.0, 2.0]],
            [[0.0, -1.0], [1.0, 0.0]],
            [[1.0, 0.0], [0.0, 1.0]],
        ] {
            let (u, s, v) = svd(a);
            let back = mul(
                [
                    [u[0][0] * s[0], u[0][1] * s[1]],
                    [u[1][0] * s[0], u[1][1] * s[1]],
                ],
                transpose(v),
            );
            for i in 0..2 {
                for j in 0..2 {
                    assert!((back[i][j] - a[i][j]).abs() < 1e-6, "{a:?} {back:?}");
                }
            }
            assert!(s[0] >= s[1]);
        }
    }

    #[test]
    fn things_fall_and_stay_in_the_box() {
        let mut plain = Plain::new();
        assert!(plain.particles.len() >= 9000);
        let height =
            |p: &Plain| p.particles.iter().map(|p| p.x[1]).sum::<f32>() / p.particles.len() as f32;
        let before = height(&plain);
        for _ in 0..50 {
            plain.substep();
        }
        assert!(height(&plain) < before);
        assert!(
            plain
                .particles
                .iter()
                .all(|p| p.x.iter().all(|x| (0.0..1.0).contains(x)))
        );
    }
}
