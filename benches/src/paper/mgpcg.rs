//! Poisson's equation on a dense cube, solved until the residual has fallen to a millionth.

use std::f32::consts::TAU;
use std::sync::Arc;

use wuji::World;
use wuji_examples::apps::mgpcg::Mgpcg;

use super::by_colour;
use super::reference::mgpcg::Solver;
use super::{Application, Size, lines};
use crate::case::{Contender, launches, made};
use crate::pool::Pool;

pub const MGPCG: Application = Application {
    name: "mgpcg",
    title: "MGPCG solver",
    size: |size| format!("{0}^3", side(size)),
    ours: |world, size| ours(Mgpcg::new(world, side(size), 1.0, |_| true)?),
    reference,
    tolerance: 1e-4,
    lines: || {
        let ours = include_str!("../../../examples/src/apps/mgpcg.rs");
        (
            lines::count(include_str!("reference/mgpcg.rs"), &["solver"]),
            lines::count(ours, &["kernels", "layout", "solver"]),
        )
    },
    kernels: "mgpcg",
    cuda: Some(|size| by_colour::solver(side(size) as usize)),
};

/// When to stop.
pub const FACTOR: f64 = 1e-6;
/// More iterations than any of the solvers needs.
pub const MOST: usize = 100;

fn side(size: Size) -> i32 {
    match size {
        Size::Small => 64,
        Size::Paper => 256,
    }
}

/// The same in dense fields instead of blocks.
pub fn dense(world: &World, size: Size) -> wuji::Result<Box<dyn Contender>> {
    ours(Mgpcg::dense(world, side(size), 1.0)?)
}

fn ours(mut solver: Mgpcg) -> wuji::Result<Box<dyn Contender>> {
    let solution = solver.solution().clone();
    let run = move || {
        let iterations = solver.solve(FACTOR, MOST)?;
        converged(iterations)
    };
    Ok(launches(run, move || solution.to_vec()))
}

pub fn converged(iterations: usize) -> wuji::Result<()> {
    if iterations < MOST {
        return Ok(());
    }
    let what = format!("the solver has not converged in {MOST} iterations");
    Err(wuji::Error::new("W0520", what))
}

/// The right-hand side: one wave along each axis.
pub fn source(n: usize) -> impl Fn([usize; 3]) -> f32 {
    let angle = TAU / n as f32;
    move |[i, j, k]| {
        let at = |c: usize| c as f32 * angle;
        at(i).sin() * at(j).cos() * at(k).sin()
    }
}

fn reference(pool: &Arc<Pool>, size: Size) -> Box<dyn Contender> {
    let n = side(size) as usize;
    let pool = Arc::clone(pool);
    made(
        Solver::new(n, source(n)),
        move |solver: &mut Solver| {
            solver.solve(&pool, FACTOR, MOST);
        },
        Solver::solution,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both need the same number of iterations.
    #[test]
    fn the_reference_converges_as_ours() {
        let world = World::builder().threads(2).build().expect("a world");
        let mut ours = Mgpcg::new(&world, 64, 1.0, |_| true).expect("fields");
        let steps = ours.solve(FACTOR, MOST).expect("a solution");
        let mut solver = Solver::new(64, source(64));
        let by_hand = solver.solve(&Pool::new(2), FACTOR, MOST);
        assert!(steps.abs_diff(by_hand) <= 1, "{steps} {by_hand}");
        assert!(steps < MOST);
    }
}
