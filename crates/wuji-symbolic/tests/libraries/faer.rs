//! Matrices of faer are inputs, and are converted to ours and back.

use crate::example;
use faer::sparse::{SparseColMat, SparseRowMat, SymbolicSparseColMat};
use wuji::World;
use wuji_symbolic::{Csc, Csr, Program};

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
