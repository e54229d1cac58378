//! The rows that all differentiable programs have.

use std::time::Instant;

use wuji::Tier;
use wuji::prelude::*;

use crate::case::{Contender, launches};
use crate::measure::{Row, interleave};
use crate::study::{Bench, Study};

/// A program, and the same program with its gradient.
pub struct Program {
    /// Runs the program alone.
    pub forward: Box<dyn FnMut() -> wuji::Result<()>>,
    /// Runs it and computes gradients.
    pub gradient: Box<dyn FnMut() -> wuji::Result<()>>,
    /// The gradient, or a part of it.
    pub result: Box<dyn Fn() -> wuji::Result<Vec<f32>>>,
}

impl Program {
    /// The program and its gradient as contenders.
    pub fn contenders(self) -> [Box<dyn Contender>; 2] {
        let nothing = || Ok(Vec::new());
        [
            launches(self.forward, nothing),
            launches(self.gradient, self.result),
        ]
    }
}

/// How long the first gradient takes in a fresh world, compilation included, and how long a backward pass takes compared with a
/// forward pass.
pub fn rows(
    study: &dyn Study,
    bench: &Bench,
    program: impl Fn(&World) -> wuji::Result<Program>,
) -> Result<Vec<Row>, String> {
    let row = |metric: &str, value, reference, ratio| Row {
        workload: study.name().into(),
        size: study.size(),
        backend: "cpu".into(),
        metric: metric.into(),
        value,
        reference,
        ratio,
        compile_ms: None,
    };
    let say = |e: wuji::Error| e.to_string();
    let world = World::builder()
        .cache(wuji::CacheChoice::Off)
        .threads(bench.threads)
        .tier(Tier::Auto)
        .build()
        .map_err(say)?;
    let mut first = program(&world).map_err(say)?;
    let start = Instant::now();
    (first.gradient)().map_err(say)?;
    let seconds = start.elapsed().as_secs_f64();
    drop(first);
    let world = bench.world(&[])?;
    let [mut forward, mut gradient] = program(&world).map_err(say)?.contenders();
    let pair = interleave(&mut *gradient, &mut *forward, bench.pairs, bench.clock)?;
    let backward = 1.0 / pair.ratio - 1.0;
    Ok(vec![
        row("first gradient, ms", seconds * 1e3, f64::NAN, f64::NAN),
        row(
            "backward : forward",
            (pair.first_s - pair.second_s) * 1e3,
            pair.second_s * 1e3,
            backward,
        ),
    ])
}
