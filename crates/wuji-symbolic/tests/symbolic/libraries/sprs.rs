//! Matrices of sprs are inputs and outputs, its products are traced, and they are converted to ours and back.

use super::example;
use sprs::CsMat;
use wuji::World;
use wuji_symbolic::{Csc, Csr, Program, Sym};

#[test]
fn conversions_keep_every_entry() {
    let a = example();
    for stored in [CsMat::from(&a), CsMat::from(&a.to_csc())] {
        assert_eq!(stored.get(3, 1), Some(&4.0));
        assert_eq!(stored.nnz(), a.values().len());
        assert_eq!(Csr::try_from(&stored).unwrap(), a);
        assert_eq!(Csc::try_from(&stored).unwrap(), a.to_csc());
    }
    assert!(CsMat::from(&a).is_csr() && CsMat::from(&a.to_csc()).is_csc());
}

#[test]
fn products_are_traced_unchanged() {
    fn cubed<T>(a: &CsMat<T>) -> CsMat<T>
    where
        for<'x> &'x CsMat<T>: std::ops::Mul<&'x CsMat<T>, Output = CsMat<T>>,
    {
        &(a * a) * a
    }
    let world = World::interpreter().unwrap();
    let rows = CsMat::from(&example());
    for a in [rows.clone(), rows.to_csc()] {
        let program = Program::trace(&world, &a, |a: CsMat<Sym>| cubed(&a)).unwrap();
        let found: CsMat<f64> = program.run(&a).unwrap();
        assert_eq!(found, cubed(&a));
        let again = a.map(|x| x * 0.5);
        assert_eq!(program.run(&again).unwrap(), cubed(&again));
    }
}

#[test]
fn another_pattern_or_order_is_an_error() {
    let world = World::interpreter().unwrap();
    let a = CsMat::from(&example());
    let program = Program::trace(&world, &a, |a: CsMat<Sym>| a).unwrap();
    assert_eq!(program.run(&a).unwrap(), a);
    for other in [a.to_csc(), a.transpose_view().to_csr()] {
        assert_eq!(program.run(&other).unwrap_err().code, "W0803");
    }
}
