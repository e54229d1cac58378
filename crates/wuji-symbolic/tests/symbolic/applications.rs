//! The applications of the paper, traced, against the same code on numbers and against what is known about their results.

use crate::{assert_close, interpreter, world};
use wuji_symbolic::applications::mesh::{Random, grid, tetrahedra};
use wuji_symbolic::applications::{arap, cloth, dirichlet, expressions, laplacian};
use wuji_symbolic::{Csr, Options, Program, Sym};

#[test]
fn the_cotan_laplacian_of_a_mesh_agrees_with_direct_evaluation() {
    let world = world();
    let mut mesh = grid(9);
    let compute = |x: Vec<Sym>| laplacian::cotan(&mesh.elements, &x);
    let program = Program::trace(&world, &mesh.points, compute).unwrap();
    mesh.points.iter_mut().for_each(|x| *x *= 1.25);
    let (found, masses) = program.run(&mesh.points).unwrap();
    let (expected, expected_masses) = laplacian::cotan(&mesh.elements, &mesh.points).unwrap();
    assert_eq!(found.indices(), expected.indices());
    assert_close(found.values(), expected.values());
    assert_close(&masses, &expected_masses);
    // Sums over triangles around vertices and edges: their number varies, their structure does not.
    assert!(program.explain().groups.len() < 40, "{}", program.explain());
}

fn times(a: &Csr<f64>, x: impl Fn(usize) -> f64) -> Vec<f64> {
    let row = |r: usize| a.row(r).map(|(c, value)| value * x(c)).sum();
    (0..a.rows()).map(row).collect()
}

/// Linear functions are harmonic inside, and Voronoi cells fill the volume.
#[test]
fn the_dual_laplacian_has_linear_precision() {
    let n = 4;
    let mesh = tetrahedra(n);
    let (matrix, volumes) = laplacian::dual(&mesh.elements, &mesh.points).unwrap();
    let inside = |v: usize| {
        let place = [v / (n * n), v / n % n, v % n];
        place.iter().all(|x| (1..n - 1).contains(x))
    };
    let mut checked = 0;
    for k in 0..3 {
        let image = times(&matrix, |v| mesh.points[3 * v + k]);
        for (vertex, value) in image.iter().enumerate().filter(|(v, _)| inside(*v)) {
            assert!(value.abs() < 1e-9, "{vertex}, {k}: {value}");
            checked += 1;
        }
    }
    assert_eq!(checked, 3 * 8);
    let edge = |t: &[usize; 4], m: usize| {
        [0, 1, 2].map(|k| mesh.points[3 * t[m] + k] - mesh.points[3 * t[0] + k])
    };
    let volume = |t: &[usize; 4]| {
        let (u, v, w) = (edge(t, 1), edge(t, 2), edge(t, 3));
        let triple = u[0] * (v[1] * w[2] - v[2] * w[1])
            + u[1] * (v[2] * w[0] - v[0] * w[2])
            + u[2] * (v[0] * w[1] - v[1] * w[0]);
        triple.abs() / 6.0
    };
    let whole: f64 = mesh.elements.iter().map(volume).sum();
    assert!((volumes.iter().sum::<f64>() - whole).abs() < 1e-9 * whole);
}

#[test]
fn the_dual_laplacian_of_a_mesh_agrees_with_direct_evaluation() {
    let world = world();
    let mut mesh = tetrahedra(4);
    let compute = |x: Vec<Sym>| laplacian::dual(&mesh.elements, &x);
    let program = Program::trace(&world, &mesh.points, compute).unwrap();
    mesh.points.iter_mut().for_each(|x| *x *= 0.75);
    let (found, volumes) = program.run(&mesh.points).unwrap();
    let (expected, expected_volumes) = laplacian::dual(&mesh.elements, &mesh.points).unwrap();
    assert_eq!(found.indices(), expected.indices());
    assert_close(found.values(), expected.values());
    assert_close(&volumes, &expected_volumes);
}

#[test]
fn powers_of_a_matrix_agree_with_direct_evaluation() {
    let world = world();
    let a = crate::programs::mesh_laplacian(6).map(|x| x as f32);
    let program = Program::trace(&world, &a, |a| {
        let [second, third, fourth] = [2, 3, 4].map(|n| expressions::power(&a, n));
        wuji::Result::Ok((second?, third?, fourth?))
    })
    .unwrap();
    let (second, third, fourth) = program.run(&a).unwrap();
    let a = a.map(f64::from);
    for (found, exponent) in [(second, 2), (third, 3), (fourth, 4)] {
        let expected = expressions::power(&a, exponent).unwrap();
        assert_eq!(found.indices(), expected.indices());
        for (a, b) in found.values().iter().zip(expected.values()) {
            assert!((f64::from(*a) - b).abs() < 1e-3 * b.abs().max(1000.0));
        }
    }
}

#[test]
fn expressions_of_random_matrices_agree_with_direct_evaluation() {
    let world = world();
    let mut random = Random::new(5);
    let [a, b, c] = [(); 3].map(|()| expressions::random_matrix(&mut random, 40).unwrap());
    let numbers = expressions::numeric::<f64>();
    for (symbolic, number) in expressions::numeric::<Sym>().into_iter().zip(numbers) {
        let compute = |(a, b, c)| symbolic(&[a, b, c]);
        let program = Program::trace(&world, (&a, &b, &c), compute).unwrap();
        let found = program.run((&a, &b, &c)).unwrap();
        let expected = number(&[a.clone(), b.clone(), c.clone()]).unwrap();
        assert_eq!(found.indices(), expected.indices());
        assert_close(found.values(), expected.values());
    }
}

fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
    m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
}

/// The nearest rotation has the largest inner product with the matrix: turning it a little makes that smaller.
#[test]
fn the_nearest_rotation_is_a_rotation_and_nearest() {
    let mut random = Random::new(6);
    let inner = |a: &[[f64; 3]; 3], r: &[[f64; 3]; 3]| -> f64 {
        (0..9).map(|n| a[n / 3][n % 3] * r[n / 3][n % 3]).sum()
    };
    for case in 0..60 {
        let mut a = [[0.0; 3]; 3].map(|row| row.map(|_: f64| random.number() - 0.5));
        // Some are singular, some are rotations, some reflect.
        match case % 4 {
            0 => a[2] = [0.0; 3],
            1 => a = arap::nearest_rotation(a),
            _ => {}
        }
        let r = arap::nearest_rotation(a);
        for n in 0..9 {
            let product: f64 = (0..3).map(|k| r[n / 3][k] * r[n % 3][k]).sum();
            let expected = f64::from(n / 3 == n % 3);
            assert!((product - expected).abs() < 1e-9, "{case}: {r:?}");
        }
        assert!((determinant(&r) - 1.0).abs() < 1e-9, "{case}: {r:?}");
        for axis in 0..3 {
            for step in [1e-3, -1e-3f64] {
                let (p, q) = ((axis + 1) % 3, (axis + 2) % 3);
                let mut turned = r;
                for row in 0..3 {
                    let (s, c) = step.sin_cos();
                    turned[row][p] = c * r[row][p] - s * r[row][q];
                    turned[row][q] = s * r[row][p] + c * r[row][q];
                }
                assert!(inner(&a, &turned) <= inner(&a, &r) + 1e-9, "{case}: {a:?}");
            }
        }
    }
}

#[test]
fn the_local_step_of_arap_agrees_with_direct_evaluation() {
    let world = world();
    let mesh = grid(7);
    let surface = arap::Surface::new(&mesh.elements, &mesh.points).unwrap();
    let compute = |x: Vec<Sym>| surface.right_hand_side(&x);
    let program = Program::trace(&world, &mesh.points, compute).unwrap();
    let bent = mesh
        .points
        .chunks(3)
        .flat_map(|p| [p[0], p[1] * 1.1, 0.05 * p[0] * p[0] + p[2]]);
    let bent: Vec<f64> = bent.collect();
    assert_close(
        &program.run(&bent).unwrap(),
        &surface.right_hand_side(&bent),
    );
    // At rest all rotations are the identity, and the surface is a solution of the global step.
    let right = program.run(&mesh.points).unwrap();
    for k in 0..3 {
        let image = times(&surface.laplacian, |v| mesh.points[3 * v + k]);
        let own: Vec<f64> = right.iter().skip(k).step_by(3).copied().collect();
        assert_close(&own, &image);
    }
    // The decomposition is one loop for all vertices.
    let explained = program.explain();
    let large: Vec<u64> = (explained.groups.iter())
        .filter(|g| g.operations > 200)
        .map(|g| g.members)
        .collect();
    assert_eq!(large, [49], "{explained}");
}

/// A square of cloth with `n` by `n` vertices, and positions of it that are stretched and bent.
fn square_of_cloth(n: usize) -> (cloth::Cloth, Vec<f64>) {
    let mesh = grid(n);
    let material: Vec<f64> = mesh.points.chunks(3).flat_map(|p| [p[0], p[1]]).collect();
    let stiffness = cloth::Stiffness {
        stretch: 50.0,
        shear: 10.0,
        bend: 0.5,
        damping: 0.1,
    };
    let cloth = cloth::Cloth::new(&mesh.elements, &material, 0.1, stiffness);
    let bent = mesh.points.chunks(3).flat_map(|p| {
        [
            1.1 * p[0],
            p[1] + 0.1 * p[0],
            0.3 * p[2] + 0.1 * p[1] * p[1],
        ]
    });
    (cloth, bent.collect())
}

#[test]
fn hessians_of_cloth_by_hand_and_by_differentiation_agree() {
    let world = world();
    let (cloth, x) = square_of_cloth(5);
    let expected = cloth.hessians_by_hand(&x);
    let by_hand = Program::trace(&world, &x, |x| cloth.hessians_by_hand(&x)).unwrap();
    assert_close(&by_hand.run(&x).unwrap(), &expected);
    let derived = Program::trace(&world, &x, |x| cloth.hessians_derived(&x)).unwrap();
    assert_close(&derived.run(&x).unwrap(), &expected);
    let assembled = Program::trace(&world, &x, |x| {
        cloth
            .hessians_derived(&x)
            .and_then(|blocks| cloth.assemble(&blocks))
    });
    let assembled = assembled.unwrap().run(&x).unwrap();
    let expected = cloth.assemble(&expected).unwrap();
    assert_eq!(assembled.indices(), expected.indices());
    assert_close(assembled.values(), expected.values());
}

/// Detection finds what the application tags: the matrix of each triangle, also where sums over triangles follow.
#[test]
fn the_blocks_of_cloth_are_detected() {
    let world = interpreter();
    let (cloth, x) = square_of_cloth(5);
    let blocks = cloth.hessians_by_hand(&x);
    let expected = cloth.assemble(&blocks).unwrap();
    let program = |tagging: bool, detect_blocks: bool| {
        let options = Options {
            tagging,
            detect_blocks,
            ..Options::default()
        };
        let program = Program::trace_with(&world, &options, &x, |x| {
            let blocks = cloth.hessians_derived(&x)?;
            Ok((cloth.assemble(&blocks)?, blocks))
        });
        let program = program.unwrap();
        let (matrix, local) = program.run(&x).unwrap();
        assert_close(matrix.values(), expected.values());
        assert_close(&local, &blocks);
        program.explain()
    };
    let (plain, tagged) = (program(false, false), program(true, false));
    let (detected, both) = (program(false, true), program(true, true));
    assert_eq!(detected.intermediates, tagged.intermediates);
    assert_eq!((both.intermediates, both.dissolved_blocks), (0, 0));
    assert!(plain.intermediates > 1000, "{}", plain.intermediates);
    assert_eq!(detected.groups.len(), tagged.groups.len());
}

/// The right-hand side without velocities is the force, the slope of the energy.
#[test]
fn the_system_of_cloth_has_the_forces_of_its_energy() {
    let world = interpreter();
    let (mut cloth, x) = square_of_cloth(4);
    cloth.stiffness.bend = 0.0;
    let h = 0.01;
    let program = Program::trace(&world, (&x, &x), |(x, v)| cloth.system(h, &[0], &x, &v)).unwrap();
    let still = vec![0.0; x.len()];
    let (matrix, right) = program.run((&x, &still)).unwrap();
    let energy = |x: &[f64]| -> f64 {
        let each = cloth.triangles.iter().map(|t| {
            let tangents = t.factors.map(|f| {
                [0, 1, 2].map(|k| (0..3).map(|n| x[3 * t.corners[n] + k] * f[n]).sum::<f64>())
            });
            cloth::energy(&cloth.stiffness, t.area, tangents)
        });
        each.sum()
    };
    for k in 0..x.len() {
        let (mut low, mut high) = (x.clone(), x.clone());
        low[k] -= 1e-6;
        high[k] += 1e-6;
        let force = (energy(&low) - energy(&high)) / 2e-6;
        assert!(
            (right[k] / h - force).abs() < 1e-5 * (1.0 + force.abs()),
            "{k}"
        );
    }
    // Symmetric, and with the mass of the held vertex.
    for (row, column, value) in matrix.triplets() {
        let other = matrix.row(column).find(|(c, _)| *c == row).map(|(_, v)| *v);
        assert!((other.unwrap() - value).abs() < 1e-9 * (1.0 + value.abs()));
    }
    assert!(matrix.row(0).next().unwrap().1 > &(1e5 * cloth.masses[0]));
    // Velocities are damped: a uniform one is not, and a stretching one is.
    let (_, moving) = program.run((&x, &vec![1.0; x.len()])).unwrap();
    assert_close(&moving, &right);
    let (_, stretching) = program.run((&x, &x)).unwrap();
    let power: f64 = stretching
        .iter()
        .zip(&right)
        .zip(&x)
        .map(|((a, b), v)| (a - b) * v)
        .sum();
    assert!(power < 0.0, "{power}");
}

/// A flat cloth has no bending force, and a folded one is pushed back.
#[test]
fn bending_forces_unfold_the_cloth() {
    let world = interpreter();
    let stiffness = cloth::Stiffness {
        stretch: 0.0,
        shear: 0.0,
        bend: 1.0,
        damping: 0.0,
    };
    let material = [0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    let cloth = cloth::Cloth::new(&[[0, 1, 2], [1, 3, 2]], &material, 1.0, stiffness);
    assert_eq!(cloth.hinges, [[1, 2, 0, 3]]);
    let mut x = vec![0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0];
    let program =
        Program::trace(&world, (&x, &x), |(x, v)| cloth.system(1.0, &[], &x, &v)).unwrap();
    let still = vec![0.0; 12];
    let (_, flat) = program.run((&x, &still)).unwrap();
    assert_close(&flat, &still);
    x[11] = 0.5;
    let (_, folded) = program.run((&x, &still)).unwrap();
    assert!(folded[11] < -0.01, "{folded:?}");
    for k in 0..3 {
        let sum: f64 = folded.iter().skip(k).step_by(3).sum();
        assert!(sum.abs() < 1e-9, "{folded:?}");
    }
}

#[test]
fn derivatives_of_the_symmetric_dirichlet_energy_agree_with_those_by_hand() {
    let world = world();
    let mesh = grid(5);
    let at = |v: usize| [mesh.points[3 * v], mesh.points[3 * v + 1]];
    let rest: Vec<_> = (mesh.elements.iter())
        .map(|t| dirichlet::Rest::new(t.map(at)))
        .collect();
    let x: Vec<f64> = (0..mesh.vertices())
        .flat_map(|v| [1.2 * at(v)[0] + 0.1 * at(v)[1], 0.9 * at(v)[1]])
        .collect();
    let corners = |t: &[usize; 3]| t.map(|v| [2 * v, 2 * v + 1]).concat();
    let program = Program::trace(&world, &x, |x| {
        let mut all = Vec::new();
        for (triangle, rest) in mesh.elements.iter().zip(&rest) {
            let own: Vec<Sym> = corners(triangle).into_iter().map(|k| x[k]).collect();
            all.extend(dirichlet::derived(rest, &own)?);
        }
        wuji::Result::Ok(all)
    })
    .unwrap();
    let found = program.run(&x).unwrap();
    for (n, (triangle, rest)) in mesh.elements.iter().zip(&rest).enumerate() {
        let own: Vec<f64> = corners(triangle).into_iter().map(|k| x[k]).collect();
        let expected = dirichlet::by_hand(rest, &own);
        assert_close(&found[42 * n..][..42], &expected);
        for k in 0..6 {
            let (mut low, mut high) = (own.clone(), own.clone());
            low[k] -= 1e-6;
            high[k] += 1e-6;
            let slope = (dirichlet::energy(rest, &high) - dirichlet::energy(rest, &low)) / 2e-6;
            assert!((slope - expected[k]).abs() < 1e-6, "{n}, {k}");
        }
    }
    assert_eq!(program.explain().groups.len(), 1, "{}", program.explain());
}
