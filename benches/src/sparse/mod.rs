//! Benchmarks of sparse data structures.

pub mod ablation;
mod activate;
mod blocks;
mod contention;
mod jacobi;
mod loops;
mod mpm;
mod tiles;

use crate::study::Study;

/// All of them, in the order of the table.
pub fn all() -> Vec<Box<dyn Study>> {
    let mut all: Vec<Box<dyn Study>> = vec![
        Box::new(jacobi::SparseJacobi::SHELL),
        Box::new(jacobi::SparseJacobi::RANDOM),
        Box::new(mpm::SparseMpm),
        Box::new(tiles::Tiles),
        Box::new(loops::Loop::POINTER),
        Box::new(loops::Loop::BITMASKED),
        Box::new(loops::Loop::DYNAMIC),
        Box::new(activate::Activate::FRESH),
        Box::new(activate::Activate::RECYCLED),
        Box::new(contention::Contention),
    ];
    for ablation in ablation::Ablation::ALL {
        all.push(Box::new(ablation));
    }
    all
}
