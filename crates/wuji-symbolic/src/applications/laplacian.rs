//! Laplace operators and mass matrices of meshes (figures 5 and 6).

use super::vectors::{cross, dot, length, minus, plus, point, times};
use crate::real::Real;
use crate::sparse::Csr;
use wuji_ir::Result;

/// The cotan Laplacian of triangles, and the lumped masses of vertices.
pub fn cotan<T: Real>(triangles: &[[usize; 3]], points: &[T]) -> Result<(Csr<T>, Vec<T>)> {
    let vertices = points.len() / 3;
    let mut triplets = Vec::with_capacity(12 * triangles.len());
    let mut masses = vec![T::zero(); vertices];
    let edge = |a: usize, b: usize| minus(point(points, b), point(points, a));
    for triangle in triangles {
        let (u, v) = (
            edge(triangle[0], triangle[1]),
            edge(triangle[0], triangle[2]),
        );
        let twice_area = length(cross(u, v));
        for k in 0..3 {
            let (a, b, c) = (triangle[k], triangle[(k + 1) % 3], triangle[(k + 2) % 3]);
            let weight = dot(edge(a, b), edge(a, c)) / (twice_area * T::from_f64(2.0));
            triplets.extend([
                (b, c, -weight),
                (c, b, -weight),
                (b, b, weight),
                (c, c, weight),
            ]);
            masses[a] += twice_area / T::from_f64(6.0);
        }
    }
    Ok((Csr::from_triplets(vertices, vertices, &triplets)?, masses))
}

/// The dual Laplacian of tetrahedra, and the volumes of Voronoi cells (Alexa et al., *Properties of Laplace operators for tetrahedral
/// meshes*, 2020).
///
/// The weight of an edge is the area of its dual polygon, whose corners are the circumcenters of the tetrahedra around it, by the
/// length of the edge.
pub fn dual<T: Real>(tetrahedra: &[[usize; 4]], points: &[T]) -> Result<(Csr<T>, Vec<T>)> {
    let vertices = points.len() / 3;
    let mut triplets = Vec::with_capacity(24 * tetrahedra.len());
    let mut volumes = vec![T::zero(); vertices];
    for corners in tetrahedra {
        let places = corners.map(|c| point(points, c));
        let center = circumcenter(places);
        for (i, j, k, l) in EDGES {
            let (a, b) = (places[i], places[j]);
            let area = dual_area([a, b, places[k], places[l]], center)
                + dual_area([a, b, places[l], places[k]], center);
            let edge = minus(b, a);
            let weight = area / length(edge);
            let (a, b) = (corners[i], corners[j]);
            triplets.extend([
                (a, b, -weight),
                (b, a, -weight),
                (a, a, weight),
                (b, b, weight),
            ]);
            // Two pyramids over the dual polygon.
            let volume = weight * dot(edge, edge) / T::from_f64(6.0);
            volumes[a] += volume;
            volumes[b] += volume;
        }
    }
    Ok((Csr::from_triplets(vertices, vertices, &triplets)?, volumes))
}

/// Edges of a tetrahedron, and the corners that are not on them.
const EDGES: [(usize, usize, usize, usize); 6] = [
    (0, 1, 2, 3),
    (0, 2, 1, 3),
    (0, 3, 1, 2),
    (1, 2, 0, 3),
    (1, 3, 0, 2),
    (2, 3, 0, 1),
];

/// The point at the same distance from all corners: the solution of three linear equations.
fn circumcenter<T: Real>([a, b, c, d]: [[T; 3]; 4]) -> [T; 3] {
    let (u, v, w) = (minus(b, a), minus(c, a), minus(d, a));
    let (vw, wu, uv) = (cross(v, w), cross(w, u), cross(u, v));
    let determinant = dot(u, vw) * T::from_f64(2.0);
    let sum = plus(
        plus(times(vw, dot(u, u)), times(wu, dot(v, v))),
        times(uv, dot(w, w)),
    );
    plus(a, sum.map(|x| x / determinant))
}

/// The signed area between the middle of the edge `a b`, the circumcenter of the face `a b c` and that of the tetrahedron, on the side
/// of `d`.
fn dual_area<T: Real>([a, b, c, d]: [[T; 3]; 4], center: [T; 3]) -> T {
    let half = T::from_f64(0.5);
    let edge = minus(b, a);
    let (to_a, to_b) = (minus(a, c), minus(b, c));
    let normal = cross(edge, minus(c, a));
    let twice_area = length(normal);
    // The distance of the face's circumcenter from the edge, by the angle at `c`.
    let from_edge = length(edge) * half * dot(to_a, to_b) / twice_area;
    let side = dot(normal, minus(d, a));
    let inside = side / side.abs();
    let from_face = dot(normal, minus(center, a)) * inside / twice_area;
    from_edge * from_face * half
}
