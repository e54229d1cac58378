//! Derivatives against differences, and their patterns.

use crate::operations::smooth;
use crate::{Random, assert_close, interpreter};
use wuji_symbolic::{Program, Real, Sym, Trace, gradient, hessian, jacobian};

#[test]
fn every_operation_has_the_derivative_that_differences_have() {
    let trace = Trace::record(&[2], |x| {
        let values = smooth(&x[0]);
        let gradients = values.iter().flat_map(|y| gradient(*y, &x[0])).collect();
        vec![gradients]
    })
    .unwrap();
    for point in [[1.3, 0.7], [0.6, 1.9]] {
        let found = &trace.evaluate(&[&point]).unwrap()[0];
        let mut expected = Vec::new();
        let step = 1e-6;
        let count = smooth(&point).len();
        for n in 0..count {
            for k in 0..2 {
                let mut at = [point, point];
                at[0][k] -= step;
                at[1][k] += step;
                expected.push((smooth(&at[1])[n] - smooth(&at[0])[n]) / (2.0 * step));
            }
        }
        for (n, (a, b)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (a - b).abs() < 1e-7 * (1.0 + b.abs()),
                "{n}: {a} instead of {b}"
            );
        }
    }
}

/// The energy of springs between neighbours in a chain of points.
fn springs<T: Real>(x: &[T]) -> T {
    let points: Vec<&[T]> = x.chunks(2).collect();
    let energies = points.windows(2).map(|p| {
        let d = [p[1][0] - p[0][0], p[1][1] - p[0][1]];
        let stretch = (d[0] * d[0] + d[1] * d[1]).sqrt() - T::from_f64(0.5);
        stretch * stretch
    });
    energies.sum()
}

#[test]
fn the_hessian_of_springs_has_the_pattern_of_the_chain() {
    let world = interpreter();
    let mut random = Random(31);
    let x = random.numbers(16);
    let program = Program::trace(&world, &x, |x| {
        let energy = springs(&x);
        let first = gradient(energy, &x);
        hessian(energy, &x).map(|second| (energy, first, second))
    })
    .unwrap();
    let (energy, first, second) = program.run(&x).unwrap();
    assert_close(&[energy], &[springs(&x)]);
    assert_eq!(second.values().len(), 8 * 4 + 7 * 2 * 4);
    let slope = |x: &[f64], k: usize| {
        let (mut low, mut high) = (x.to_vec(), x.to_vec());
        low[k] -= 1e-5;
        high[k] += 1e-5;
        (springs(&high) - springs(&low)) / 2e-5
    };
    for (k, derivative) in first.iter().enumerate() {
        assert!((derivative - slope(&x, k)).abs() < 1e-7);
    }
    for (row, column, value) in second.triplets() {
        let (mut low, mut high) = (x.clone(), x.clone());
        low[column] -= 1e-4;
        high[column] += 1e-4;
        let expected = (slope(&high, row) - slope(&low, row)) / 2e-4;
        assert!(
            (value - expected).abs() < 1e-3,
            "{row}, {column}: {value} instead of {expected}"
        );
    }
    assert_eq!(second, second.transpose());
}

#[test]
fn a_jacobian_has_no_entries_where_nothing_depends() {
    let world = interpreter();
    let x = [1.0, 2.0, 3.0];
    let program = Program::trace(&world, &x[..], |x| {
        jacobian(&[x[0] * x[2], Sym::new(4.0), x[1] - x[1] * 0.0], &x)
    })
    .unwrap();
    let found = program.run(&x[..]).unwrap();
    assert_eq!(found.triplets(), [(0, 0, 3.0), (0, 2, 1.0), (2, 1, 1.0)]);
}

#[test]
fn variables_may_be_any_values() {
    let trace = Trace::record(&[1], |x| {
        let inner = x[0][0].sin();
        let y = inner * inner;
        vec![
            gradient(y, &[inner, x[0][0], inner]),
            gradient(Sym::new(2.0), &x[0]),
        ]
    })
    .unwrap();
    let found = trace.evaluate(&[&[0.5]]).unwrap();
    let sine = 0.5f64.sin();
    assert_eq!(found, [vec![2.0 * sine, 0.0, 2.0 * sine], vec![0.0]]);
}
