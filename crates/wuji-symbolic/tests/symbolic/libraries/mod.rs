//! Code and matrices of other libraries: nalgebra, faer, sprs.

mod faer;
mod nalgebra;
mod sprs;

use wuji_symbolic::Csr;

/// A matrix with rows of different lengths, one of them empty.
fn example() -> Csr<f64> {
    let triplets = [
        (0, 0, 2.0),
        (0, 2, 1.0),
        (1, 1, 3.0),
        (3, 0, -1.0),
        (3, 1, 4.0),
        (3, 3, 0.5),
    ];
    Csr::from_triplets(4, 4, &triplets).unwrap()
}
