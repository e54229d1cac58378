//! Trip counts, estimated work, and cost models of GPUs.

use wuji_ir::entities::{Field, Inst, Region};
use wuji_ir::module::{Env, Function};
use wuji_ir::ops::ControlOp;
use wuji_ir::types::Imm;

/// The trip count of a loop with constant bounds.
pub fn trips(f: &Function, inst: Inst) -> Option<u64> {
    let args = &f.insts[inst].args;
    let number = |k: usize| f.constant(args[k]).and_then(Imm::as_int);
    let (lo, hi, step) = (number(0)?, number(1)?, number(2)?);
    let count = (hi - lo).checked_div(step)?;
    Some(count.clamp(0, 1 << 20) as u64)
}

/// The trip count of a loop inside a region, if it is unknown.
const MANY: u64 = 16;

/// Estimated work of a region, in units of cost; loops of unknown length count as long ones.
pub fn work(f: &Function, region: Region) -> u64 {
    work_by(f, region, &|_| None)
}

/// Estimated work of a region, where the work of some instructions, with all that is inside, is given.
pub fn work_by(f: &Function, region: Region, given: &impl Fn(Inst) -> Option<u64>) -> u64 {
    let mut sum = 0u64;
    for inst in &f.regions[region].insts {
        let one = given(*inst).unwrap_or_else(|| {
            let data = &f.insts[*inst];
            let inside: u64 = (data.regions.iter())
                .map(|r| work_by(f, *r, given))
                .fold(0, u64::saturating_add);
            let times = match data.op.control() {
                Some(ControlOp::For(..)) => trips(f, *inst).unwrap_or(MANY),
                Some(ControlOp::Loop(_)) => MANY,
                Some(ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => 1,
            };
            let own = data.op.cost().units();
            own.saturating_add(inside.saturating_mul(times))
        });
        sum = sum.saturating_add(one);
    }
    sum
}

/// From this compute capability on, GPUs have a vector atomic that adds four neighbouring floats.
const ADDS_VECTORS: u32 = 90;

/// Whether float sums in shared memory are faster than in the field. GPUs have no float atomics in shared memory;
/// they use a compare-exchange loop.
pub fn sums_pay(m: &Env, field: Field, sm: u32) -> bool {
    let scalars = m.structs.flatten(m.fields[field].elem);
    sm < ADDS_VECTORS || !scalars.iter().any(|s| s.is_float())
}

/// The fewest iterations of a block that are worth sorting by cell.
const WORTH_SORTING: u64 = 128;

/// Whether so many iterations of a block are worth sorting by the cell that they add to: some must have one in common.
pub fn sorting_pays(iterations: u64, cells: u64) -> bool {
    iterations >= WORTH_SORTING && iterations / 2 >= cells
}
