//! The programs of inter-kernel optimization: wall-clock time in a lazy world against an eager one. `--gpu --flow` prints all metrics.

use super::{Line, median, without};
use crate::flow::{Make, Program, Size, programs};
use std::time::Instant;
use wuji::prelude::*;
use wuji::{CacheChoice, Error, Result};

const RUNS: usize = 30;

/// Lines of the table.
pub(super) fn lines(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for program in programs().filter(|p| wanted(p.name)) {
        lines.extend(compared(&program)?);
    }
    Ok(lines)
}

/// Seconds of a run in the steady state, and the tasks of the first.
fn time(lazy: bool, make: Make) -> Result<(f64, String)> {
    let builder = World::builder().cuda(0).cache(CacheChoice::Off);
    let world = builder.lazy(lazy).without(&without()).build()?;
    let mut ours = make(&world, Size::Gpu)?;
    world.synchronize()?;
    let before = world.lazy_statistics();
    let mut run = || ours.run().map_err(|e| Error::new("W0502", e));
    run()?;
    let after = world.lazy_statistics();
    let launched = after.launched_tasks - before.launched_tasks;
    let tasks = format!("{launched} -> {}", after.tasks - before.tasks);
    run()?;
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        run()?;
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok((median(times), tasks))
}

fn compared(program: &Program) -> Result<Vec<Line>> {
    let (lazy, tasks) = time(true, program.make)?;
    let line = |against, reference: f64| Line {
        name: program.name,
        size: tasks.clone(),
        metric: "1/s",
        value: 1.0 / lazy,
        against,
        reference: Some(1.0 / reference),
    };
    let mut lines = vec![line("eager", time(false, program.make)?.0)];
    if let Some(by_hand) = program.by_hand {
        lines.push(line("fused by hand", time(false, by_hand)?.0));
    }
    Ok(lines)
}
