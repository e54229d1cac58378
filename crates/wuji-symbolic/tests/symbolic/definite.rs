//! The projection of local Hessians.

use crate::{Random, assert_close, interpreter};
use wuji_symbolic::{Program, Real, Sym, local_hessian, project_definite};

fn symmetric(random: &mut Random, n: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; n * n];
    for row in 0..n {
        for column in row..n {
            let x = random.number() - 1.25;
            matrix[row * n + column] = x;
            matrix[column * n + row] = x;
        }
    }
    matrix
}

fn product(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let entry = |at: usize| (0..n).map(|k| a[at / n * n + k] * b[k * n + at % n]).sum();
    (0..n * n).map(entry).collect()
}

/// Whether all eigenvalues are at least zero, up to rounding: the Cholesky factorization of the matrix and a little more exists.
fn is_semidefinite(n: usize, matrix: &[f64]) -> bool {
    let mut a = matrix.to_vec();
    for k in 0..n {
        a[k * n + k] += 1e-9;
        for j in 0..k {
            a[k * n + k] -= a[k * n + j] * a[k * n + j];
        }
        if a[k * n + k] <= 0.0 {
            return false;
        }
        a[k * n + k] = a[k * n + k].sqrt();
        for i in k + 1..n {
            for j in 0..k {
                a[i * n + k] -= a[i * n + j] * a[k * n + j];
            }
            a[i * n + k] /= a[k * n + k];
        }
    }
    true
}

/// A matrix is the difference of two semidefinite ones whose product is zero in one way only: the first is the projection.
#[test]
fn projected_matrices_are_the_nearest_semidefinite_ones() {
    let mut random = Random(51);
    for n in [1, 2, 3, 4, 6, 9] {
        for _ in 0..20 {
            let matrix = symmetric(&mut random, n);
            let mut projected = matrix.clone();
            project_definite(n, &mut projected).unwrap();
            let rest: Vec<f64> = projected.iter().zip(&matrix).map(|(p, m)| p - m).collect();
            assert!(is_semidefinite(n, &projected) && is_semidefinite(n, &rest));
            let zero = product(n, &projected, &rest);
            assert!(zero.iter().all(|x| x.abs() < 1e-9), "{n}: {zero:?}");
            // A semidefinite matrix stays as it is.
            let mut again = projected.clone();
            project_definite(n, &mut again).unwrap();
            assert_close(&again, &projected);
        }
    }
    assert_eq!(project_definite(2, &mut [1.0]).unwrap_err().code, "W0806");
}

fn spring<T: Real>(x: &[T]) -> T {
    let d = [x[3] - x[0], x[4] - x[1], x[5] - x[2]];
    let length = (d[0] * d[0] + d[1] * d[1] + d[2] * d[2]).sqrt();
    (length - T::one()) * (length - T::one())
}

#[test]
fn hessians_of_compressed_springs_are_projected_in_a_program() {
    let world = interpreter();
    let mut random = Random(52);
    let x: Vec<f64> = random.numbers(24).iter().map(|x| 0.4 * x).collect();
    let compute = |x: Vec<Sym>, project: bool| -> wuji::Result<Vec<Sym>> {
        let mut all = Vec::new();
        for ends in x.chunks(6) {
            let mut local = local_hessian(spring(ends), ends)?;
            if project {
                project_definite(6, &mut local)?;
                wuji_symbolic::block(&local);
            }
            all.extend(local);
        }
        Ok(all)
    };
    let plain = Program::trace(&world, &x, |x| compute(x, false)).unwrap();
    let plain = plain.run(&x).unwrap();
    let program = Program::trace(&world, &x, |x| compute(x, true)).unwrap();
    let projected = program.run(&x).unwrap();
    // The same code for all springs.
    assert!(program.explain().groups.len() < 40, "{}", program.explain());
    for (plain, projected) in plain.chunks(36).zip(projected.chunks(36)) {
        let mut expected = plain.to_vec();
        assert!(!is_semidefinite(6, plain));
        project_definite(6, &mut expected).unwrap();
        for (a, b) in projected.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-8, "{a} instead of {b}");
        }
    }
}

/// At rest and along an axis there is nothing to turn, and quotients of zeros must not appear.
#[test]
fn diagonal_and_singular_hessians_stay_finite() {
    let world = interpreter();
    let x = [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.25, 0.5, 0.0];
    let energies = |way: &[Sym]| {
        let length = (way[0] * way[0] + way[1] * way[1] + way[2] * way[2]).sqrt();
        let depth = (Sym::new(0.5) - length).max(Sym::new(0.0));
        [(length - 1.0) * (length - 1.0), depth * depth]
    };
    let compute = |x: Vec<Sym>, project: bool| -> wuji::Result<Vec<Sym>> {
        let mut all = Vec::new();
        for way in x.chunks(3) {
            for energy in energies(way) {
                let mut local = local_hessian(energy, way)?;
                if project {
                    project_definite(3, &mut local)?;
                    wuji_symbolic::block(&local);
                }
                all.extend(local);
            }
        }
        Ok(all)
    };
    let plain = Program::trace(&world, &x[..], |x| compute(x, false)).unwrap();
    let plain = plain.run(&x[..]).unwrap();
    let program = Program::trace(&world, &x[..], |x| compute(x, true)).unwrap();
    let projected = program.run(&x[..]).unwrap();
    for (plain, projected) in plain.chunks(9).zip(projected.chunks(9)) {
        let mut expected = plain.to_vec();
        project_definite(3, &mut expected).unwrap();
        assert_close(projected, &expected);
        assert!(projected.iter().all(|x| x.is_finite()), "{projected:?}");
    }
}
