//! Computes the grain size of a task: as many iterations as take some microseconds.

use crate::passes::Cx;
use wuji_ir::Result;
use wuji_ir::entities::Region;
use wuji_ir::module::{Bound, Function, Module, TaskKind};
use wuji_ir::ops::{ControlOp, ForKind, Op};

use crate::analysis::cost::likely_trips;

/// Scalar instructions that a chunk should have. Vectorized, they take about as long as it takes to wake a thread.
const WORK: u64 = 200_000;
/// A chunk has at least this many iterations, even if they are long...
const FEWEST: u32 = 128;
/// ... and need not have more than this, even if they are short.
const MOST: u32 = 32_768;

/// Sets the smallest number of iterations per chunk for each task.
pub fn grain_size(m: &mut Module, _: &mut Cx) -> Result<()> {
    for task in &mut m.tasks {
        let TaskKind::Chunks { dims, hints, .. } = &mut task.kind else {
            continue;
        };
        let list = |b: Bound| matches!(b, Bound::List(..));
        hints.grain_size = Some(if dims.iter().any(|d| list(d.lo) || list(d.hi)) {
            // The work per list entry is unknown.
            FEWEST
        } else {
            least(&m.funcs[task.func])
        });
    }
    Ok(())
}

fn least(f: &Function) -> u32 {
    let mut costs: Vec<Option<u64>> = Vec::new();
    iterations(f, f.entry, &mut costs);
    let longest = costs
        .into_iter()
        .try_fold(0, |most, cost| Some(most.max(cost?)));
    match longest {
        // The trip count of an inner loop is unknown.
        None | Some(0) => FEWEST,
        Some(cost) => (WORK / cost).clamp(FEWEST.into(), MOST.into()) as u32,
    }
}

/// Collects the cost of an iteration of each innermost parallel loop. Returns whether there are any.
fn iterations(f: &Function, region: Region, costs: &mut Vec<Option<u64>>) -> bool {
    let mut found = false;
    for inst in &f.regions[region].insts {
        let data = &f.insts[*inst];
        let mut inside = false;
        for r in &data.regions {
            inside |= iterations(f, *r, costs);
        }
        if !inside && matches!(data.op, Op::For(_, ForKind::Parallel)) {
            costs.push(cost(f, data.regions[0]));
            inside = true;
        }
        found |= inside;
    }
    found
}

/// The cost of a region, if it is known.
fn cost(f: &Function, region: Region) -> Option<u64> {
    let mut sum = 0u64;
    for inst in &f.regions[region].insts {
        let data = &f.insts[*inst];
        let inside = || {
            let costs = data.regions.iter().map(|r| cost(f, *r));
            costs.sum::<Option<u64>>()
        };
        let own = match data.op.control() {
            // Divergent lanes run both sides.
            Some(ControlOp::If | ControlOp::Block(_)) => 1 + inside()?,
            // Rarely executed.
            Some(ControlOp::For(_, ForKind::Boundary)) => 0,
            Some(ControlOp::For(_, ForKind::Serial | ForKind::Parallel)) => {
                likely_trips(f, *inst)?.saturating_mul(inside()?.saturating_add(1))
            }
            Some(ControlOp::Loop(_)) => return None,
            Some(ControlOp::ForEach(..)) => 1,
            None if matches!(data.op, Op::Call(_)) => return None,
            None => data.op.cost().units(),
        };
        sum = sum.saturating_add(own);
    }
    Some(sum)
}
