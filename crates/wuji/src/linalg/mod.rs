//! Linear systems: iterative solvers whose matrix is a kernel, and, with the feature `faer`, sparse matrices with direct solvers.
//!
//! ```
//! use wuji::linalg::{Stop, conjugate_gradient};
//! use wuji::prelude::*;
//!
//! /// `y = A x`, where `A` is the negative Laplace operator with zeros around it.
//! #[kernel]
//! fn laplace(x: &Field<f32, 2>, y: &Field<f32, 2>) {
//!     for [i, j] in x {
//!         y[[i, j]] = 4.0 * x[[i, j]] - x[[i - 1, j]] - x[[i + 1, j]] - x[[i, j - 1]] - x[[i, j + 1]];
//!     }
//! }
//!
//! # fn main() -> wuji::Result<()> {
//! let world = World::cpu()?;
//! let (b, x) = (world.field::<f32, 2>("b", [16, 16])?, world.field::<f32, 2>("x", [16, 16])?);
//! b.fill(1.0)?;
//! let report = conjugate_gradient(laplace, &b, &x, Stop::default())?;
//! assert!(report.converged && report.steps < 40);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "faer")]
#[doc(hidden)]
pub mod columns;
mod iterative;
#[cfg(feature = "faer")]
mod sparse;
#[cfg(feature = "faer")]
mod triplets;

#[cfg(feature = "faer")]
pub use columns::{Method, Ordering};
pub use iterative::{SolveReport, Stop, bicgstab, conjugate_gradient};
#[cfg(feature = "faer")]
pub use sparse::{Factorization, SparseMatrix};
#[cfg(feature = "faer")]
pub use triplets::Triplets;
