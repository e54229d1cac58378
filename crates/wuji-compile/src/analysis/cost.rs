//! Trip counts, estimated work, and cost models of GPUs.

use wuji_ir::entities::{Field, Inst, Region, Value};
use wuji_ir::module::{Env, Function};
use wuji_ir::ops::{BinOp, ControlOp, ForKind, Op};
use wuji_ir::types::Imm;

/// The trip count of a loop with constant bounds.
pub fn trips(f: &Function, inst: Inst) -> Option<u64> {
    let args = &f.insts[inst].args;
    let number = |k: usize| f.constant(args[k]).and_then(Imm::as_int);
    let (lo, hi, step) = (number(0)?, number(1)?, number(2)?);
    let count = (hi - lo).checked_div(step)?;
    Some(count.clamp(0, 1 << 20) as u64)
}

/// The trip count of a loop, for estimates: exact if its bounds are constants.
///
/// A loop that `bounds` has split is a loop over its parts, of which one runs nearly all iterations. The bounds of parts are chosen
/// among constants; the greatest distance counts.
pub fn likely_trips(f: &Function, inst: Inst) -> Option<u64> {
    if is_over_parts(f, inst) {
        return Some(1);
    }
    trips(f, inst).or_else(|| {
        let args = &f.insts[inst].args;
        let step = f.constant(args[2]).and_then(Imm::as_int)?;
        let lo = limits(f, args[0], &mut { MOST_CHOICES })?;
        let hi = limits(f, args[1], &mut { MOST_CHOICES })?;
        let (from, to) = if step > 0 { (lo.0, hi.1) } else { (lo.1, hi.0) };
        let count = to.checked_sub(from)?.checked_div(step)?;
        Some(count.clamp(0, 1 << 20) as u64)
    })
}

/// Whether a loop runs over the parts of another one: in its body is an `if` between a part and its boundary.
fn is_over_parts(f: &Function, inst: Inst) -> bool {
    let [body] = f.insts[inst].regions[..] else {
        return false;
    };
    let is_boundary = |i: &Inst| matches!(f.insts[*i].op, Op::For(_, ForKind::Boundary));
    f.regions[body].insts.iter().any(|i| {
        let data = &f.insts[*i];
        let otherwise = (data.op == Op::If).then(|| data.regions[1]);
        otherwise.is_some_and(|r| f.regions[r].insts.iter().any(is_boundary))
    })
}

/// The most values that are looked at for the limits of one.
const MOST_CHOICES: usize = 64;

/// The smallest and the largest of the constants that a value is chosen among.
fn limits(f: &Function, v: Value, budget: &mut usize) -> Option<(i128, i128)> {
    if let Some(n) = f.constant(v).and_then(Imm::as_int) {
        return Some((n, n));
    }
    *budget = budget.checked_sub(1)?;
    let data = &f.insts[f.def(v)?];
    if let Op::Convert(_) = data.op {
        return limits(f, data.args[0], budget);
    }
    let is_select = data.op == Op::Select;
    if !is_select && !matches!(data.op, Op::Binary(BinOp::Min | BinOp::Max)) {
        return None;
    }
    let sides = &data.args[usize::from(is_select)..];
    let a = limits(f, sides[0], budget)?;
    let b = limits(f, sides[1], budget)?;
    Some(if is_select {
        (a.0.min(b.0), a.1.max(b.1))
    } else if data.op == Op::Binary(BinOp::Min) {
        (a.0.min(b.0), a.1.min(b.1))
    } else {
        (a.0.max(b.0), a.1.max(b.1))
    })
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
                Some(ControlOp::For(..)) => likely_trips(f, *inst).unwrap_or(MANY),
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
