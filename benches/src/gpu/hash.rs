//! Concurrent activation and deactivation of the cells of a hash node.

use super::{Line, world};
use std::time::Instant;
use wuji::prelude::*;
use wuji::{Math, Result};

/// Blocks of 4^3, scattered over a large domain.
const BLOCKS: i32 = 1 << 17;

#[kernel]
fn scatter(x: &Field<f32, 3>, n: i32) {
    for i in 0..n {
        let h = (i as u32) * 2_654_435_761u32;
        let far = |k: u32| ((h >> k) & 1023) as i32 * 4;
        x[[far(0), far(10), i * 4]] += 1.0;
    }
}

/// Lines of the table.
pub(super) fn lines() -> Result<Vec<Line>> {
    let world = world(Math::default())?;
    let (cells, x) = world.layout(|root| {
        let block = root.hash(IJK);
        (
            block.cells::<3>("blocks"),
            block.dense(IJK, 4).place::<f32, 3>("x"),
        )
    })?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..7 {
        let begun = Instant::now();
        scatter(&x, BLOCKS)?;
        world.synchronize()?;
        times[0].push(begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        cells.deactivate_all()?;
        world.synchronize()?;
        times[1].push(begun.elapsed().as_secs_f64());
    }
    world.profiler().start();
    scatter(&x, BLOCKS)?;
    cells.deactivate_all()?;
    world.profiler().stop();
    eprintln!("{}", world.profiler().report());
    let lines = ["ms to activate", "ms to deactivate"]
        .into_iter()
        .zip(times);
    let lines = lines.map(|(metric, times)| Line {
        name: "hash",
        size: "2^17 blocks of 4^3".into(),
        metric,
        value: super::median(times) * 1e3,
        against: "",
        reference: None,
    });
    Ok(lines.collect())
}
