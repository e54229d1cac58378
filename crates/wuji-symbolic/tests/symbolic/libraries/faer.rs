//! Matrices of faer are inputs, and are converted to ours and back.

use super::example;
use faer::Mat;
use faer::linalg::solvers::Solve;
use faer::sparse::{SparseColMat, SparseRowMat, SymbolicSparseColMat};
use wuji::World;
use wuji_symbolic::{Csc, Csr, Program, Sym, Trace};

#[test]
fn conversions_keep_every_entry() {
    let a = example();
    let rows = SparseRowMat::from(&a);
    assert_eq!(rows.as_ref().get(3, 1), Some(&4.0));
    assert_eq!(Csr::try_from(rows.as_ref()).unwrap(), a);
    let columns = SparseColMat::from(&a.to_csc());
    assert_eq!(columns.as_ref().get(0, 2), Some(&1.0));
    assert_eq!(Csc::try_from(columns.as_ref()).unwrap(), a.to_csc());
}

#[test]
fn matrices_are_inputs() {
    let world = World::interpreter().unwrap();
    let (a, expected) = (example(), example().mul(&example()).unwrap());
    let columns = SparseColMat::from(&a.to_csc());
    let program = Program::trace(&world, &columns, |a| {
        let rows = a.to_csr();
        rows.mul(&rows).map(|square| square.to_csc())
    })
    .unwrap();
    let found = program.run(&columns).unwrap();
    assert_eq!(found, expected.to_csc());
    let product = &columns * &columns;
    assert_eq!(Csc::try_from(product.as_ref()).unwrap(), found);
    let rows = SparseRowMat::from(&a);
    let program = Program::trace(&world, &rows, |a| a.mul(&a)).unwrap();
    assert_eq!(program.run(&rows).unwrap(), expected);
    // A matrix by columns is no matrix by rows.
    assert_eq!(program.run(&columns).unwrap_err().code, "W0803");
}

/// There is space after the entries of columns.
fn with_space(rows: [usize; 6]) -> SparseColMat<usize, f64> {
    let starts = vec![0, 3, 6];
    let pattern =
        SymbolicSparseColMat::new_unsorted_checked(2, 2, starts, Some(vec![2, 1]), rows.to_vec());
    SparseColMat::new(pattern, vec![1.0, 2.0, 77.0, 3.0, 77.0, 77.0])
}

#[test]
fn space_between_columns_is_skipped() {
    let world = World::interpreter().unwrap();
    let matrix = with_space([0, 1, 0, 1, 0, 0]);
    let expected = [(0, 0, 1.0), (1, 0, 2.0), (1, 1, 3.0)];
    let expected = Csr::from_triplets(2, 2, &expected).unwrap().to_csc();
    assert_eq!(Csc::try_from(matrix.as_ref()).unwrap(), expected);
    let program = Program::trace(&world, &matrix, |a| a).unwrap();
    assert_eq!(program.run(&matrix).unwrap(), expected);
    assert_eq!(program.run(&expected).unwrap(), expected);
}

#[test]
fn unsorted_entries_are_an_error() {
    let world = World::interpreter().unwrap();
    let matrix = with_space([1, 0, 0, 1, 0, 0]);
    assert_eq!(Csc::try_from(matrix.as_ref()).unwrap_err().code, "W0806");
    let program = Program::trace(&world, &matrix, |a| a);
    assert_eq!(program.unwrap_err().code, "W0806");
}

/// Products, a triangular system and a norm, for any scalar of faer.
fn solve<T: faer::traits::RealField>(a: &Mat<T>, b: &Mat<T>) -> Mat<T> {
    let product = a * b;
    let mut x = &product + a * faer::Scale(T::from_f64_impl(0.5));
    a.as_ref().solve_lower_triangular_in_place(&mut x);
    x[(0, 0)] = x.squared_norm_l2();
    x.transpose() * &product
}

fn matrix(n: usize) -> Mat<f64> {
    Mat::from_fn(n, n, |i, j| {
        if i == j {
            4.0
        } else {
            1.0 / (1.0 + (3 * i + j) as f64)
        }
    })
}

fn entries<T: Copy>(matrix: &Mat<T>) -> Vec<T> {
    let n = matrix.ncols();
    (0..matrix.nrows() * n)
        .map(|k| matrix[(k / n, k % n)])
        .collect()
}

#[test]
fn dense_code_for_its_scalars_traces() {
    let world = World::interpreter().unwrap();
    for n in [2, 5, 20] {
        let (a, b) = (matrix(n), matrix(n).transpose().to_owned());
        let program = Program::trace(&world, (&entries(&a)[..], &entries(&b)[..]), |(a, b)| {
            let of = |x: Vec<Sym>| Mat::from_fn(n, n, |i, j| x[n * i + j]);
            entries(&solve(&of(a), &of(b)))
        });
        let program = program.unwrap();
        for scale in [1.0, 1.5] {
            let a = &a * faer::Scale(scale);
            let found = program.run((&entries(&a)[..], &entries(&b)[..])).unwrap();
            let expected = entries(&solve(&a, &b));
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0));
            }
        }
    }
}

#[test]
fn sparse_products_of_its_matrices_trace() {
    let world = World::interpreter().unwrap();
    let a = SparseColMat::from(&example().to_csc());
    let program = Program::trace(&world, &a, |a| {
        let a = SparseColMat::from(&a);
        let square = &a * &a;
        Csc::try_from((&square + &a).as_ref())
    });
    let found = program.unwrap().run(&a).unwrap();
    let expected = &(&a * &a) + &a;
    assert_eq!(found, Csc::try_from(expected.as_ref()).unwrap());
}

#[test]
fn pivots_of_its_decompositions_are_refused() {
    let error = Trace::record(&[9], |x| {
        let a = Mat::from_fn(3, 3, |i, j| x[0][3 * i + j]);
        vec![vec![a.partial_piv_lu().solve(&a)[(0, 0)]]]
    });
    assert_eq!(error.unwrap_err().code, "W0801");
}
