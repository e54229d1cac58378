//! As-rigid-as-possible deformation of surfaces (figure 7; Sorkine and Alexa, 2007).

use super::laplacian::cotan;
use super::vectors::{cross, dot, length, minus, plus, point, times};
use crate::definite::diagonalize;
use crate::real::Real;
use crate::sparse::Csr;
use wuji_ir::Result;

/// Sweeps of Jacobi's method, as in McAdams et al., *Computing the singular value decomposition of 3x3 matrices with minimal branching*
/// (2011).
const SWEEPS: usize = 4;

/// A surface at rest.
#[derive(Clone, Debug)]
pub struct Surface {
    /// The cotan Laplacian.
    pub laplacian: Csr<f64>,
    points: Vec<f64>,
}

impl Surface {
    /// A surface at rest, from triangles and three coordinates per vertex.
    pub fn new(triangles: &[[usize; 3]], points: &[f64]) -> Result<Surface> {
        let (laplacian, _) = cotan(triangles, points)?;
        let points = points.to_vec();
        Ok(Surface { laplacian, points })
    }

    /// Edges of a vertex at rest, with their weights and ends.
    fn edges(&self, vertex: usize) -> impl Iterator<Item = (usize, f64, [f64; 3])> {
        let here = point(&self.points, vertex);
        let others = self
            .laplacian
            .row(vertex)
            .filter(move |(n, _)| *n != vertex);
        others.map(move |(n, weight)| (n, -weight, minus(here, point(&self.points, n))))
    }

    /// The local step: rotations of all vertices, and from them the right-hand side of the global step.
    pub fn right_hand_side<T: Real>(&self, points: &[T]) -> Vec<T> {
        let vertices = self.laplacian.rows();
        let rotations: Vec<_> = (0..vertices).map(|v| self.rotation(v, points)).collect();
        let mut all = Vec::with_capacity(3 * vertices);
        for vertex in 0..vertices {
            let mut sum = [T::zero(); 3];
            for (other, weight, edge) in self.edges(vertex) {
                let edge = edge.map(|x| T::from_f64(0.5 * weight * x));
                let (own, its) = (rotations[vertex], rotations[other]);
                let turned = [0, 1, 2].map(|k| dot(plus(own[k], its[k]), edge));
                sum = plus(sum, turned);
            }
            all.extend(sum);
        }
        all
    }

    /// The rotation of a vertex that fits its deformed edges best.
    fn rotation<T: Real>(&self, vertex: usize, points: &[T]) -> [[T; 3]; 3] {
        let mut covariance = [[T::zero(); 3]; 3];
        for (other, weight, edge) in self.edges(vertex) {
            let deformed = minus(point(points, vertex), point(points, other));
            for (row, deformed) in covariance.iter_mut().zip(deformed) {
                *row = plus(*row, edge.map(|x| T::from_f64(weight * x) * deformed));
            }
        }
        // The decomposition is one loop: its input and its output are in memory.
        T::block(covariance.as_flattened());
        let rotation = nearest_rotation(covariance);
        T::block(rotation.as_flattened());
        rotation
    }
}

/// The rotation that is nearest to a matrix, from its singular value decomposition.
///
/// Without branches and with a fixed number of sweeps, so that it can be traced.
pub fn nearest_rotation<T: Real>(a: [[T; 3]; 3]) -> [[T; 3]; 3] {
    let column = |k: usize| [a[0][k], a[1][k], a[2][k]];
    let mut square: Vec<T> = (0..9).map(|n| dot(column(n / 3), column(n % 3))).collect();
    let flat = diagonalize(3, SWEEPS, &mut square);
    let mut right = [0, 1, 2].map(|k| [flat[k], flat[3 + k], flat[6 + k]]);
    let image = |v: [T; 3]| [0, 1, 2].map(|row| dot(a[row], v));
    let mut left = right.map(image);
    for (p, q) in [(0, 1), (0, 2), (1, 2)] {
        order(&mut left, &mut right, p, q);
    }
    // The third vector follows from the others, so that the result has no reflection.
    let first = unit(left[0]);
    let along = dot(first, left[1]);
    let second = unit(minus(left[1], times(first, along)));
    let third = cross(first, second);
    let left = [first, second, third];
    [0, 1, 2].map(|i| {
        [0, 1, 2]
            .map(|j| left[0][i] * right[0][j] + left[1][i] * right[1][j] + left[2][i] * right[2][j])
    })
}

fn unit<T: Real>(a: [T; 3]) -> [T; 3] {
    let size = length(a).max(T::from_f64(1e-30));
    a.map(|x| x / size)
}

/// Exchanges two singular vectors unless the first is longer. One is negated, so that the right ones stay a rotation.
fn order<T: Real>(left: &mut [[T; 3]; 3], right: &mut [[T; 3]; 3], p: usize, q: usize) {
    let wrong = dot(left[p], left[p]).less(dot(left[q], left[q]));
    for vectors in [left, right] {
        let (a, b) = (vectors[p], vectors[q]);
        for k in 0..3 {
            vectors[p][k] = T::select(wrong, b[k], a[k]);
            vectors[q][k] = T::select(wrong, -a[k], b[k]);
        }
    }
}
