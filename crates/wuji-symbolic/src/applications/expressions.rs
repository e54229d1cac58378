//! Expressions of random sparse matrices (figure 3), and powers of matrices (figure 4, table 1).

use super::mesh::Random;
use crate::real::Real;
use crate::sparse::Csr;
use wuji_ir::Result;

/// A matrix of `n` by `n` with six entries per row at random columns, or fewer where two coincide.
pub fn random_matrix(random: &mut Random, n: usize) -> Result<Csr<f64>> {
    let mut triplets = Vec::with_capacity(6 * n);
    for row in 0..n {
        for _ in 0..6 {
            triplets.push((row, random.below(n), 0.5 + random.number()));
        }
    }
    Csr::from_triplets(n, n, &triplets)
}

/// An expression of three matrices.
pub type Expression<T> = fn(&[Csr<T>; 3]) -> Result<Csr<T>>;

/// The expressions `numeric_0` to `numeric_2`: `A B + C`, `(A + B)ᵀ (Bᵀ + C)` and `Aᵀ B C`.
pub fn numeric<T: Real>() -> [Expression<T>; 3] {
    [
        |[a, b, c]| a.mul(b)?.add(c),
        |[a, b, c]| a.add(b)?.transpose().mul(&b.transpose().add(c)?),
        |[a, b, c]| a.transpose().mul(b)?.mul(c),
    ]
}

/// The power of a square matrix.
pub fn power<T: Real>(a: &Csr<T>, exponent: usize) -> Result<Csr<T>> {
    (1..exponent).try_fold(a.clone(), |power, _| power.mul(a))
}
