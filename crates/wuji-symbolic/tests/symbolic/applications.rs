//! Applications of sparsity-specific code, against the same code on numbers.

use crate::{Random, assert_close, world};
use wuji_symbolic::{Csr, Program, Real};

/// A grid of triangles with noise: corners of each triangle, and coordinates of each vertex.
fn mesh(n: usize) -> (Vec<[usize; 3]>, Vec<f64>) {
    let mut random = Random(41);
    let (mut triangles, mut points) = (Vec::new(), Vec::new());
    for i in 0..n {
        for j in 0..n {
            let noise = random.numbers(3).into_iter().map(|x| 0.2 * x);
            let at = [i as f64, j as f64, 0.0];
            points.extend(at.iter().zip(noise).map(|(a, b)| a + b));
            if i > 0 && j > 0 {
                let (a, b) = ((i - 1) * n + j - 1, (i - 1) * n + j);
                let (c, d) = (i * n + j - 1, i * n + j);
                let halves = match random.below(2) {
                    0 => [[a, c, b], [b, c, d]],
                    _ => [[a, c, d], [a, d, b]],
                };
                triangles.extend(halves);
            }
        }
    }
    (triangles, points)
}

/// The cotan Laplacian and the lumped masses of a mesh.
fn cotan<T: Real>(triangles: &[[usize; 3]], points: &[T]) -> wuji::Result<(Csr<T>, Vec<T>)> {
    let vertices = points.len() / 3;
    let mut triplets = Vec::new();
    let mut masses = vec![T::zero(); vertices];
    let edge = |a: usize, b: usize| [0, 1, 2].map(|k| points[3 * b + k] - points[3 * a + k]);
    let dot = |a: [T; 3], b: [T; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    for triangle in triangles {
        let (u, v) = (
            edge(triangle[0], triangle[1]),
            edge(triangle[0], triangle[2]),
        );
        let normal = [
            u[1] * v[2] - u[2] * v[1],
            u[2] * v[0] - u[0] * v[2],
            u[0] * v[1] - u[1] * v[0],
        ];
        let twice_area = dot(normal, normal).sqrt();
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

#[test]
fn the_cotan_laplacian_of_a_mesh_agrees_with_direct_evaluation() {
    let world = world();
    let (triangles, mut points) = mesh(9);
    let program = Program::trace(&world, &points, |x| cotan(&triangles, &x)).unwrap();
    for point in &mut points {
        *point *= 1.25;
    }
    let (laplacian, masses) = program.run(&points).unwrap();
    let (expected, expected_masses) = cotan(&triangles, &points).unwrap();
    assert_eq!(laplacian.indices(), expected.indices());
    assert_close(laplacian.values(), expected.values());
    assert_close(&masses, &expected_masses);
    // Sums over triangles around vertices and edges: their number varies, their structure does not.
    assert!(program.explain().groups.len() < 32, "{}", program.explain());
}

#[test]
fn powers_of_a_matrix_agree_with_direct_evaluation() {
    let world = world();
    let a = crate::programs::mesh_laplacian(6).map(|x| x as f32);
    let program = Program::trace(&world, &a, |a| {
        let second = a.mul(&a)?;
        let third = second.mul(&a)?;
        let fourth = third.mul(&a)?;
        wuji::Result::Ok((second, third, fourth))
    })
    .unwrap();
    let (second, third, fourth) = program.run(&a).unwrap();
    let mut expected = a.map(f64::from);
    for found in [second, third, fourth] {
        expected = expected.mul(&a.map(f64::from)).unwrap();
        assert_eq!(found.indices(), expected.indices());
        for (a, b) in found.values().iter().zip(expected.values()) {
            assert!((f64::from(*a) - b).abs() < 1e-3 * b.abs().max(1000.0));
        }
    }
}
