//! The cloth of Baraff and Witkin, *Large steps in cloth simulation* (1998): energies, their derivatives by hand and by
//! differentiation, and the system of an implicit step (figures 8 to 10).

use super::vectors::{cross, dot, length, minus, point};
use crate::definite::local_hessian;
use crate::derivatives::gradient;
use crate::real::Real;
use crate::sparse::Csr;
use crate::sym::Sym;
use wuji_ir::Result;

/// A triangle of the cloth. In material coordinates, the tangents of the cloth are sums of its corners with these factors.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Triangle {
    /// The numbers of its vertices.
    pub corners: [usize; 3],
    /// For the tangent in either direction.
    pub factors: [[f64; 3]; 2],
    /// The area at rest.
    pub area: f64,
}

impl Triangle {
    /// A triangle whose corners have these material coordinates.
    pub fn new(corners: [usize; 3], material: [[f64; 2]; 3]) -> Triangle {
        let edge = |n: usize| [0, 1].map(|k| material[n][k] - material[0][k]);
        let (a, b) = (edge(1), edge(2));
        let determinant = a[0] * b[1] - a[1] * b[0];
        let of = |x: f64, y: f64| [-x - y, x, y].map(|c| c / determinant);
        Triangle {
            corners,
            factors: [of(b[1], -a[1]), of(-b[0], a[0])],
            area: 0.5 * determinant.abs(),
        }
    }
}

/// A piece of cloth: triangles, and pairs of them with a common edge.
#[derive(Clone, PartialEq, Debug)]
pub struct Cloth {
    /// The triangles.
    pub triangles: Vec<Triangle>,
    /// Two vertices of an edge, and the vertices opposite to it on either side.
    pub hinges: Vec<[usize; 4]>,
    /// The mass of each vertex.
    pub masses: Vec<f64>,
    /// Factors of energies and damping.
    pub stiffness: Stiffness,
}

/// Factors of the energies, and of the damping forces in proportion to them.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Stiffness {
    /// Of stretch.
    pub stretch: f64,
    /// Of shear.
    pub shear: f64,
    /// Of bending.
    pub bend: f64,
    /// Of damping.
    pub damping: f64,
}

impl Cloth {
    /// A cloth from triangles with material coordinates, two per vertex.
    pub fn new(
        corners: &[[usize; 3]],
        material: &[f64],
        density: f64,
        stiffness: Stiffness,
    ) -> Cloth {
        let at = |n: usize| [material[2 * n], material[2 * n + 1]];
        let triangle = |c: &[usize; 3]| Triangle::new(*c, c.map(at));
        let triangles: Vec<Triangle> = corners.iter().map(triangle).collect();
        let mut masses = vec![0.0; material.len() / 2];
        for triangle in &triangles {
            for corner in triangle.corners {
                masses[corner] += density * triangle.area / 3.0;
            }
        }
        Cloth {
            hinges: hinges(corners),
            triangles,
            masses,
            stiffness,
        }
    }

    /// The Hessians of all triangles, 9 by 9 numbers each, by hand.
    pub fn hessians_by_hand<T: Real>(&self, x: &[T]) -> Vec<T> {
        let blocks = self.triangles.iter().flat_map(|triangle| {
            let block = by_hand(&self.stiffness, triangle, x);
            T::block(&block);
            block
        });
        blocks.collect()
    }

    /// The same by differentiation of the energy.
    pub fn hessians_derived(&self, x: &[Sym]) -> Result<Vec<Sym>> {
        let mut all = Vec::with_capacity(81 * self.triangles.len());
        for triangle in &self.triangles {
            let own: Vec<Sym> = (triangle.corners.iter())
                .flat_map(|c| point(x, *c))
                .collect();
            let tangents = tangents(triangle, [0, 1, 2], &own);
            let block = local_hessian(energy(&self.stiffness, triangle.area, tangents), &own)?;
            crate::block(&block);
            all.extend(block);
        }
        Ok(all)
    }

    /// The Hessian of stretch and shear as a sparse matrix, from those of all triangles.
    pub fn assemble<T: Real>(&self, blocks: &[T]) -> Result<Csr<T>> {
        let mut triplets = Vec::with_capacity(blocks.len());
        for (triangle, block) in self.triangles.iter().zip(blocks.chunks(81)) {
            let at = |k: usize| 3 * triangle.corners[k / 3] + k % 3;
            triplets.extend((0..81).map(|n| (at(n / 9), at(n % 9), block[n])));
        }
        let size = 3 * self.masses.len();
        Csr::from_triplets(size, size, &triplets)
    }

    /// The linear system of an implicit step of `h` seconds from positions `x` and velocities `v`: the matrix, and the right-hand side
    /// for the change of velocities. `held` vertices are heavy.
    pub fn system(
        &self,
        h: f64,
        held: &[usize],
        x: &[Sym],
        v: &[Sym],
    ) -> Result<(Csr<Sym>, Vec<Sym>)> {
        let mut system = System::new(self, h, held, x.len());
        let Stiffness {
            stretch,
            shear,
            bend,
            damping,
        } = self.stiffness;
        for triangle in &self.triangles {
            let [u, w] = tangents(triangle, triangle.corners, x);
            let area = triangle.area;
            for (direction, tangent) in [u, w].into_iter().enumerate() {
                let parts = triangle.factors[direction];
                let corners = [0, 1, 2].map(|k| (triangle.corners[k], parts[k]));
                let size = length(tangent);
                let force = Force {
                    condition: (size - 1.0) * area,
                    stiffness: stretch,
                    damping: damping * stretch,
                };
                // The condition is a function of the length: it curves across the tangent only. A shorter tangent would make it indefinite.
                let across = (1.0 - 1.0 / size).max(Sym::new(0.0)) * (stretch * area * area);
                system.add(&force, &tangent, across, &corners, v);
            }
            let places: Vec<Sym> = triangle.corners.iter().flat_map(|c| point(x, *c)).collect();
            let corners = triangle.corners.map(|c| (c, 1.0));
            let [u, w] = tangents(triangle, [0, 1, 2], &places);
            let force = Force {
                condition: dot(u, w) * area,
                stiffness: shear,
                damping: damping * shear,
            };
            system.add(&force, &places, Sym::new(0.0), &corners, v);
        }
        for hinge in &self.hinges {
            let places: Vec<Sym> = hinge.iter().flat_map(|c| point(x, *c)).collect();
            let force = Force {
                condition: angle(&places),
                stiffness: bend,
                damping: damping * bend,
            };
            system.add(&force, &places, Sym::new(0.0), &hinge.map(|c| (c, 1.0)), v);
        }
        system.finish()
    }
}

/// Edges between two triangles, with the opposite vertices.
fn hinges(triangles: &[[usize; 3]]) -> Vec<[usize; 4]> {
    let mut edges: Vec<(usize, usize, usize)> = Vec::with_capacity(3 * triangles.len());
    for t in triangles {
        for k in 0..3 {
            let (a, b, opposite) = (t[k], t[(k + 1) % 3], t[(k + 2) % 3]);
            edges.push((a.min(b), a.max(b), opposite));
        }
    }
    edges.sort_unstable();
    let pairs = edges
        .windows(2)
        .filter(|w| (w[0].0, w[0].1) == (w[1].0, w[1].1));
    pairs.map(|w| [w[0].0, w[0].1, w[0].2, w[1].2]).collect()
}

/// The tangents of a triangle whose corners are at these places.
fn tangents<T: Real>(triangle: &Triangle, corners: [usize; 3], x: &[T]) -> [[T; 3]; 2] {
    triangle.factors.map(|factors| {
        [0, 1, 2].map(|k| {
            let terms = (0..3).map(|n| x[3 * corners[n] + k] * T::from_f64(factors[n]));
            terms.sum()
        })
    })
}

/// The energy of stretch and shear of a triangle.
pub fn energy<T: Real>(stiffness: &Stiffness, area: f64, [u, w]: [[T; 3]; 2]) -> T {
    let size = T::from_f64(area);
    let (a, b) = ((length(u) - T::one()) * size, (length(w) - T::one()) * size);
    let shear = dot(u, w) * size;
    (a * a + b * b) * T::from_f64(0.5 * stiffness.stretch)
        + shear * shear * T::from_f64(0.5 * stiffness.shear)
}

/// The Hessian of that energy, 9 by 9.
fn by_hand<T: Real>(stiffness: &Stiffness, triangle: &Triangle, x: &[T]) -> Vec<T> {
    let number = T::from_f64;
    let [u, w] = tangents(triangle, triangle.corners, x);
    let [cu, cw] = triangle.factors;
    let area = triangle.area;
    let mut block = vec![T::zero(); 81];
    for (tangent, factors) in [(u, cu), (w, cw)] {
        let size = length(tangent);
        let unit = tangent.map(|k| k / size);
        // Times the second derivative of the condition, which is that of a length.
        let curved = (size - T::one()) / size;
        for (n, entry) in block.iter_mut().enumerate() {
            let (i, j) = (n / 9, n % 9);
            let scale = number(stiffness.stretch * area * area * factors[i / 3] * factors[j / 3]);
            let along = unit[i % 3] * unit[j % 3];
            let same = if i % 3 == j % 3 { T::one() } else { T::zero() };
            *entry += (along + curved * (same - along)) * scale;
        }
    }
    let condition = dot(u, w);
    let scale = stiffness.shear * area * area;
    let slope = |i: usize| w[i % 3] * number(cu[i / 3]) + u[i % 3] * number(cw[i / 3]);
    for (n, entry) in block.iter_mut().enumerate() {
        let (i, j) = (n / 9, n % 9);
        *entry += slope(i) * slope(j) * number(scale);
        if i % 3 == j % 3 {
            let second = cu[i / 3] * cw[j / 3] + cw[i / 3] * cu[j / 3];
            *entry += condition * number(scale * second);
        }
    }
    block
}

/// The angle between two triangles at their common edge.
fn angle<T: Real>(places: &[T]) -> T {
    let [a, b, c, d] = [0, 1, 2, 3].map(|n| point(places, n));
    let edge = minus(b, a);
    let (first, second) = (cross(edge, minus(c, a)), cross(minus(d, a), edge));
    let sine = dot(cross(first, second), edge) / length(edge);
    sine.atan2(dot(first, second))
}

/// A force that drives a condition to zero.
struct Force {
    condition: Sym,
    stiffness: f64,
    damping: f64,
}

/// The system of an implicit step, as it is assembled.
struct System {
    h: f64,
    /// Columns and entries of each row. Forces are added at once: all triplets together would need more memory than the trace.
    rows: Vec<Vec<(usize, Sym)>>,
    right: Vec<Sym>,
}

impl System {
    fn new(cloth: &Cloth, h: f64, held: &[usize], size: usize) -> System {
        let mass = |k: usize| {
            let heavy = if held.contains(&(k / 3)) { 1e6 } else { 1.0 };
            Sym::new(cloth.masses[k / 3] * heavy)
        };
        System {
            h,
            rows: (0..size).map(|k| vec![(k, mass(k))]).collect(),
            right: vec![Sym::new(0.0); size],
        }
    }

    /// Adds a force. Its condition depends on `by`: one vector, which is a sum of vertices with these factors, or the coordinates of
    /// all vertices. `across` is the curvature of its energy across its slope.
    fn add(
        &mut self,
        force: &Force,
        by: &[Sym],
        across: Sym,
        vertices: &[(usize, f64)],
        v: &[Sym],
    ) {
        let n = by.len();
        let slope = gradient(force.condition, by);
        // Coordinates of the system that each variable is a sum of.
        let parts = |k: usize| {
            let terms = if n == 3 {
                vertices
            } else {
                &vertices[k / 3..=k / 3]
            };
            terms
                .iter()
                .map(move |(vertex, factor)| (3 * vertex + k % 3, *factor))
        };
        let speed = |k: usize| -> Sym { parts(k).map(|(at, f)| v[at] * f).sum() };
        let speeds: Vec<Sym> = (0..n).map(speed).collect();
        let rate: Sym = (0..n).map(|k| slope[k] * speeds[k]).sum();
        // The stiffness is `along` times the square of the slope, and `across` times the identity.
        let h = self.h;
        let squares: Sym = slope.iter().map(|s| *s * *s).sum();
        let along = Sym::new(force.stiffness) - across / squares;
        let push = force.condition * force.stiffness + rate * (along * h + force.damping);
        let forces: Vec<Sym> = (0..n)
            .map(|k| slope[k] * push + across * speeds[k] * h)
            .collect();
        let factor = along * (h * h) + h * force.damping;
        let entries: Vec<Sym> = (0..n * n)
            .map(|at| {
                let (k, m) = (at / n, at % n);
                let same = if k == m {
                    across * (h * h)
                } else {
                    Sym::new(0.0)
                };
                slope[k] * slope[m] * factor + same
            })
            .collect();
        crate::block(&[&entries[..], &forces[..]].concat());
        for k in 0..n {
            for (row, factor) in parts(k) {
                self.right[row] -= forces[k] * (factor * self.h);
                for m in 0..n {
                    for (column, f) in parts(m) {
                        self.add_entry(row, column, entries[n * k + m] * (f * factor));
                    }
                }
            }
        }
    }

    fn add_entry(&mut self, row: usize, column: usize, value: Sym) {
        let row = &mut self.rows[row];
        match row.iter_mut().find(|entry| entry.0 == column) {
            Some((_, sum)) => *sum += value,
            None => row.push((column, value)),
        }
    }

    fn finish(self) -> Result<(Csr<Sym>, Vec<Sym>)> {
        let size = self.right.len();
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for mut row in self.rows {
            row.sort_unstable_by_key(|entry| entry.0);
            columns.extend(row.iter().map(|entry| entry.0));
            values.extend(row.iter().map(|entry| entry.1));
            starts.push(columns.len());
        }
        Ok((Csr::new(size, size, starts, columns, values)?, self.right))
    }
}
