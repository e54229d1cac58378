//! Activation of cells of pointer nodes, in a new tree and in one whose memory is there already.

use super::{Line, median, world};
use std::time::Instant;
use wuji::prelude::*;
use wuji::{Math, Result};

/// Cells of a block, and blocks that a launch activates: 1 GiB.
const BLOCK: i32 = 1024;
const BLOCKS: i32 = 1 << 18;

#[kernel]
fn fill(x: &Field<f32, 1>, n: i32) {
    for i in 0..n {
        x[[i]] = 1.0;
    }
}

fn seconds(world: &World, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    world.synchronize()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Lines of the table.
pub(super) fn lines() -> Result<Vec<Line>> {
    let world = world(Math::default())?;
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..5 {
        let mut tree = None;
        times[0].push(seconds(&world, || {
            tree = Some(world.layout(|root| {
                let block = root.pointer(I, 1 << 20);
                let x = block.dense(I, BLOCK as u32).place::<f32, 1>("x");
                (block.cells::<1>("blocks"), x)
            })?);
            Ok(())
        })?);
        let Some((blocks, x)) = tree else { continue };
        // The code is compiled first.
        fill(&x, BLOCK)?;
        world.synchronize()?;
        times[1].push(seconds(&world, || fill(&x, BLOCKS * BLOCK))?);
        blocks.deactivate_all()?;
        world.synchronize()?;
        times[2].push(seconds(&world, || fill(&x, BLOCKS * BLOCK))?);
        times[3].push(seconds(&world, || fill(&x, BLOCKS * BLOCK))?);
    }
    let metrics = [
        "ms to create the tree",
        "ms to fill it",
        "ms to fill it after deactivation",
        "ms to fill active cells",
    ];
    let lines = metrics.into_iter().zip(times).map(|(metric, times)| Line {
        name: "activation",
        size: "2^18 blocks of 4 KiB".into(),
        metric,
        value: median(times) * 1e3,
        against: "",
        reference: None,
    });
    Ok(lines.collect())
}
