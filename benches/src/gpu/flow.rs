//! The microbenchmarks of inter-kernel optimization: wall-clock time in a lazy world against an eager one.

use super::{Line, median, without};
use crate::flow::{Program, contender};
use std::time::Instant;
use wuji::prelude::*;
use wuji::{CacheChoice, Error, Result};

/// How many times larger the programs are than on a CPU.
const FACTOR: i64 = 16;
const RUNS: usize = 30;

/// Lines of the table.
pub(super) fn lines() -> Result<Vec<Line>> {
    let programs = Program::ALL.into_iter();
    programs.map(line).collect()
}

fn line(program: Program) -> Result<Line> {
    let time = |lazy: bool| -> Result<(f64, String)> {
        let builder = World::builder().cuda(0).cache(CacheChoice::Off);
        let world = builder.lazy(lazy).without(&without()).build()?;
        let mut ours = contender(program, &world, FACTOR)?;
        let mut run = || ours.run().map_err(|e| Error::new("W0502", e));
        run()?;
        let statistics = world.lazy_statistics();
        let tasks = format!("{} -> {}", statistics.launched_tasks, statistics.tasks);
        run()?;
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let begun = Instant::now();
            run()?;
            times.push(begun.elapsed().as_secs_f64());
        }
        Ok((median(times), tasks))
    };
    let (eager, _) = time(false)?;
    let (lazy, tasks) = time(true)?;
    Ok(Line {
        name: program.name(),
        size: tasks,
        metric: "1/s",
        value: 1.0 / lazy,
        against: "eager",
        reference: Some(1.0 / eager),
    })
}
