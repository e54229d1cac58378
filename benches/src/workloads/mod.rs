//! The workloads, each with its hand-written reference.

mod fluids;
mod jacobi;
mod julia;
pub mod mpm2d;
pub mod mpm3d;
mod nbody;
pub mod quantized;
mod rows;
mod saxpy;
mod sum;
mod writes;

use crate::case::Case;

/// All of them, in the order of the table.
pub fn all() -> Vec<Box<dyn Case>> {
    vec![
        Box::new(saxpy::Saxpy),
        Box::new(writes::Fill),
        Box::new(writes::Triad),
        Box::new(jacobi::Jacobi),
        Box::new(sum::Sum),
        Box::new(julia::Julia),
        Box::new(nbody::Nbody),
        Box::new(mpm2d::Mpm2d),
        Box::new(mpm3d::small::Mpm3d),
        Box::new(mpm3d::large::Mpm3d),
        Box::new(fluids::Fluids),
        Box::new(quantized::Life),
        Box::new(quantized::Advect),
        Box::new(rows::Rows2),
        Box::new(rows::Rows3),
        Box::new(rows::Rows4),
    ]
}
