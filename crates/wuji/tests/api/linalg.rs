//! Linear systems.

use crate::backend::worlds;
use crate::files::Folder;
use expect_test::expect;
use wuji::linalg::{Method, SparseMatrix, Stop, Triplets, bicgstab, conjugate_gradient};
use wuji::prelude::*;

/// `y = A x`: the negative Laplace operator with zeros around it, and a wind.
#[kernel]
fn flow<T: Float>(x: &Field<T, 2>, y: &Field<T, 2>, wind: T) {
    let four = T::from_f64(4.0);
    for [i, j] in x {
        let sum = x[[i - 1, j]] + x[[i + 1, j]] + x[[i, j - 1]] + x[[i, j + 1]];
        y[[i, j]] = four * x[[i, j]] - sum + wind * (x[[i, j]] - x[[i - 1, j]]);
    }
}

fn fields<T: Float>(world: &World, n: i64) -> (Field<T, 2>, Field<T, 2>) {
    let field = |name: &str| {
        let made = world.layout(|root| root.dense(IJ, n).offset([-3, 2]).place::<T, 2>(name));
        made.unwrap()
    };
    let (b, x) = (field("b"), field("x"));
    let values = (0..n * n).map(|k| T::from_f64(((k * 7919) % 101) as f64 / 101.0 - 0.3));
    b.copy_from(&values.collect::<Vec<_>>()).unwrap();
    (b, x)
}

/// The largest difference between `A x` and `b`.
fn error<T: Float>(b: &Field<T, 2>, x: &Field<T, 2>, wind: T) -> f64 {
    let y = b.world().layout(|root| {
        let n = b.shape().unwrap();
        root.dense(IJ, n).offset([-3, 2]).place::<T, 2>("y")
    });
    let y = y.unwrap();
    flow(x, &y, wind).unwrap();
    let pairs = y.to_vec().unwrap().into_iter().zip(b.to_vec().unwrap());
    pairs
        .map(|(y, b)| (y - b).abs().cast::<f64>())
        .fold(0.0, f64::max)
}

#[test]
fn iterative_solvers() {
    for world in worlds() {
        let n = if world.threads() == 2 { 40 } else { 12 };
        let (b, x) = fields::<f64>(&world, n);
        let stop = Stop {
            tolerance: 1e-10,
            max_steps: 400,
        };
        let report = conjugate_gradient(|x, y| flow(x, y, 0.0), &b, &x, stop).unwrap();
        assert!(report.converged && report.residual <= 1e-10, "{report:?}");
        assert!(error(&b, &x, 0.0) < 1e-8);
        let again = conjugate_gradient(|x, y| flow(x, y, 0.0), &b, &x, stop).unwrap();
        assert!(again.steps <= 1, "{again:?}");
        let report = bicgstab(|x, y| flow(x, y, 0.7), &b, &x, stop).unwrap();
        assert!(report.converged, "{report:?}");
        assert!(error(&b, &x, 0.7) < 1e-8);
        let (b, x) = fields::<f32>(&world, 12);
        let report = bicgstab(|x, y| flow(x, y, 0.7), &b, &x, Stop::default()).unwrap();
        let wrong = error(&b, &x, 0.7);
        assert!(report.converged && wrong < 1e-3, "{report:?} {wrong}");
    }
}

#[test]
fn solvers_stop() {
    let world = World::interpreter().unwrap();
    let (b, x) = fields::<f64>(&world, 8);
    let stop = Stop {
        tolerance: 1e-12,
        max_steps: 3,
    };
    let report = conjugate_gradient(|x, y| flow(x, y, 0.0), &b, &x, stop).unwrap();
    assert!(
        !report.converged && report.steps == 3 && report.residual > 1e-12,
        "{report:?}"
    );
    // Without a right-hand side, zero is the solution.
    b.fill(0.0).unwrap();
    x.fill(0.0).unwrap();
    for report in [
        conjugate_gradient(|x, y| flow(x, y, 0.0), &b, &x, stop).unwrap(),
        bicgstab(|x, y| flow(x, y, 0.0), &b, &x, stop).unwrap(),
    ] {
        assert!(report.converged && report.steps == 0, "{report:?}");
    }
    // A matrix of zeros: no step, and no panic.
    b.fill(1.0).unwrap();
    let zero = |_: &Field<f64, 2>, y: &Field<f64, 2>| y.fill(0.0);
    assert!(!conjugate_gradient(zero, &b, &x, stop).unwrap().converged);
    assert!(!bicgstab(zero, &b, &x, stop).unwrap().converged);
}

/// The matrix of [`flow`] on `n` by `n` points.
#[kernel]
fn assemble<T: Float>(a: &Triplets<T>, n: i32, wind: T) {
    let four = T::from_f64(4.0);
    for [i, j] in grid([0..n, 0..n]) {
        let k = i * n + j;
        a.add(k, k, four + wind);
        if i > 0 {
            a.add(k, k - n, -T::ONE - wind);
        }
        if i < n - 1 {
            a.add(k, k + n, -T::ONE);
        }
        if j > 0 {
            a.add(k, k - 1, -T::ONE);
        }
        if j < n - 1 {
            // In two parts, which are added up.
            a.add(k, k + 1, -T::ONE * T::from_f64(0.25));
            a.add(k, k + 1, -T::ONE * T::from_f64(0.75));
        }
    }
}

#[test]
fn direct_solvers() {
    for world in worlds() {
        let n = 9;
        let (b, x) = fields::<f64>(&world, n);
        let triplets = Triplets::<f64>::new(&world, 600).unwrap();
        for (method, wind) in [(Method::Llt, 0.0), (Method::Ldlt, 0.0), (Method::Lu, 0.7)] {
            triplets.clear().unwrap();
            assert!(triplets.is_empty().unwrap());
            assemble(&triplets, n as i32, wind).unwrap();
            assert_eq!(triplets.len().unwrap(), 81 * 5 - 36 + 72);
            let matrix = triplets.build(81, 81).unwrap();
            assert_eq!(
                (matrix.rows(), matrix.columns(), matrix.stored()),
                (81, 81, 81 * 5 - 36)
            );
            assert_eq!(
                (matrix.get(0, 1), matrix.get(0, 80), matrix.get(99, 0)),
                (-1.0, 0.0, 0.0)
            );
            let solver = matrix.factorize(method).unwrap();
            let right = b.to_vec().unwrap();
            let solution = solver.solve(&right).unwrap();
            x.copy_from(&solution).unwrap();
            assert!(error(&b, &x, wind) < 1e-12, "{method:?}");
            let product = matrix.multiply(&solution).unwrap();
            assert!(
                product
                    .iter()
                    .zip(&right)
                    .all(|(p, b)| (p - b).abs() < 1e-12)
            );
        }
    }
}

#[test]
fn matrices() {
    let entries = [(0, 0, 2.0f32), (1, 2, 3.0), (0, 0, 1.0)];
    let a = SparseMatrix::from_triplets(2, 3, &entries).unwrap();
    assert_eq!(a.triplets().collect::<Vec<_>>(), [(0, 0, 3.0), (1, 2, 3.0)]);
    let t = a.transposed();
    assert_eq!((t.rows(), t.columns(), t.get(2, 1)), (3, 2, 3.0));
    let square = a.product(&t).unwrap();
    assert_eq!(
        square.triplets().collect::<Vec<_>>(),
        [(0, 0, 9.0), (1, 1, 9.0)]
    );
    assert_eq!(a.plus(&a.scaled(2.0)).unwrap().get(1, 2), 9.0);
    let mut solver = square.factorize(Method::Llt).unwrap();
    solver.update(&square.scaled(2.0)).unwrap();
    let x = solver.solve(&[18.0, 36.0]).unwrap();
    assert!((x[0] - 1.0).abs() < 1e-5 && (x[1] - 2.0).abs() < 1e-5);
    let other = SparseMatrix::from_triplets(1, 1, &[(0, 0, 4.0)]).unwrap();
    solver.update(&other).unwrap();
    assert_eq!(solver.solve(&[8.0]).unwrap(), [2.0]);
}

#[test]
fn errors() {
    let (folder, world) = (Folder::new("linalg"), World::interpreter().unwrap());
    let a = SparseMatrix::from_triplets(2, 3, &[(0, 0, 2.0), (1, 2, 3.0)]).unwrap();
    folder.check(
        SparseMatrix::from_triplets(2, 2, &[(0, 2, 1.0)]),
        expect!["error[W0141]: a matrix of 2 x 2 has no entry at row 0, column 2"],
    );
    folder.check(
        a.factorize(Method::Lu),
        expect![[r#"
        error[W0141]: cannot factorize a matrix of 2 x 3
          = help: it has to be square"#]],
    );
    folder.check(
        a.multiply(&[1.0; 2]),
        expect!["error[W0141]: a vector of 2 numbers does not fit a matrix, which needs 3"],
    );
    folder.check(
        a.product(&a),
        expect!["error[W0141]: cannot multiply matrices of 2 x 3 and 2 x 3"],
    );
    folder.check(
        a.plus(&a.transposed()),
        expect!["error[W0141]: cannot add matrices of 2 x 3 and 3 x 2"],
    );
    let matrix =
        |entries: &[(usize, usize, f64)]| SparseMatrix::from_triplets(2, 2, entries).unwrap();
    let skew = matrix(&[(0, 0, 1.0), (1, 1, 1.0), (0, 1, 0.5)]);
    folder.check(
        skew.factorize(Method::Llt),
        expect![[r#"
        error[W0142]: the matrix has no LLT factorization
          = note: the matrix is not symmetric
          = help: `Method::Lu` factorizes every invertible matrix"#]],
    );
    folder.check(
        matrix(&[(0, 0, -1.0), (1, 1, 1.0)]).factorize(Method::Llt),
        expect![[r#"
            error[W0142]: the matrix has no LLT factorization
              = note: the matrix is not positive definite
              = help: `Method::Lu` factorizes every invertible matrix"#]],
    );
    folder.check(
        matrix(&[(0, 0, 1.0)]).factorize(Method::Ldlt),
        expect![[r#"
        error[W0142]: the matrix has no LDLT factorization
          = note: the matrix is singular
          = help: `Method::Lu` factorizes every invertible matrix"#]],
    );
    folder.check(
        matrix(&[(0, 0, 1.0)]).factorize(Method::Lu),
        expect![[r#"
        error[W0142]: the matrix has no LU factorization
          = note: the matrix is singular
          = help: remove rows that depend on others"#]],
    );
    folder.check(
        skew.factorize(Method::Lu).unwrap().solve(&[1.0]),
        expect![
            "error[W0141]: a right-hand side of 1 numbers does not fit a matrix, which needs 2"
        ],
    );
    let triplets = Triplets::<f64>::new(&world, 10).unwrap();
    assemble(&triplets, 3, 0.0).unwrap();
    folder.check(
        triplets.build(9, 9),
        expect![[r#"
        error[W0141]: kernels added 39 entries to triplets with space for 10
          = help: make space for all of them: `Triplets::new(&world, capacity)`"#]],
    );
    folder.check(
        Triplets::<f64>::new(&world, 1 << 40),
        expect!["error[W0141]: 1099511627776 entries of a matrix are more than 2147483647"],
    );
    let triplets = Triplets::<f64>::new(&world, 100).unwrap();
    assemble(&triplets, 3, 0.0).unwrap();
    folder.check(
        triplets.build(9, 8),
        expect!["error[W0141]: a matrix of 9 x 8 has no entry at row 5, column 8"],
    );
    let (b, x) = fields::<f64>(&world, 4);
    let run = |b: &Field<f64, 2>, x: &Field<f64, 2>| {
        conjugate_gradient(|x, y| flow(x, y, 0.0), b, x, Stop::default())
    };
    folder.check(run(&b, &b), expect!["error[W0141]: a solver needs another field than `b` for its solution, in the same world"]);
    folder.check(
        run(&b, &world.field("x", [4, 4]).unwrap()),
        expect![[r#"
        error[W0141]: the right-hand side `b` and the solution `x` have other elements
          = note: their shapes are [4, 4] and [4, 4]"#]],
    );
    let sparse = world
        .layout(|root| root.pointer(IJ, 4).place::<f64, 2>("sparse"))
        .unwrap();
    folder.check(
        run(&b, &sparse),
        expect![[r#"
        error[W0141]: a solver cannot use the sparse field `sparse`
          = help: use a dense field"#]],
    );
    drop(x);
}
