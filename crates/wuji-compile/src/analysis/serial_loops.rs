//! Loops of a kernel that run on one thread, because they are under a `while` or an `if`.

use crate::remark::Enclosing;
use wuji_ir::entities::{Inst, Region};
use wuji_ir::module::{Function, Module, Span};
use wuji_ir::ops::Op;
use wuji_ir::types::Imm;

/// A loop that would be parallel at the top level of its kernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SerialLoop {
    /// The `for`.
    pub inst: Inst,
    /// Where the loop is in the source.
    pub span: Span,
    /// What makes it serial.
    pub under: Enclosing,
    /// How many iterations it has, if that is known.
    pub iterations: Option<u64>,
}

/// Loops with fewer iterations are not worth more threads.
const FEW: u64 = 64;

/// The outermost serial loops of a kernel before it is offloaded, those with few iterations left out.
pub fn serial_loops(m: &Module) -> Vec<SerialLoop> {
    let mut found = Vec::new();
    if let Some(f) = m.kernel_func() {
        look_in(f, f.entry, None, &mut found);
    }
    found
}

fn look_in(f: &Function, region: Region, under: Option<Enclosing>, found: &mut Vec<SerialLoop>) {
    for inst in &f.regions[region].insts {
        let data = &f.insts[*inst];
        if let Op::For(..) = data.op {
            let iterations = iterations(f, *inst);
            if let Some(under) = under
                && iterations.is_none_or(|n| n >= FEW)
            {
                found.push(SerialLoop {
                    inst: *inst,
                    span: f.spans[*inst],
                    under,
                    iterations,
                });
            }
            continue;
        }
        if let Op::ForEach(..) = data.op {
            continue;
        }
        // A `while` around an `if`, or in one, is what makes the loop run again and again.
        let inside = if let Op::Loop(_) = data.op {
            Some(Enclosing::While)
        } else if data.op == Op::If {
            under.or(Some(Enclosing::If))
        } else {
            under
        };
        for inner in &data.regions {
            look_in(f, *inner, inside, found);
        }
    }
}

fn iterations(f: &Function, inst: Inst) -> Option<u64> {
    let number = |k: usize| f.constant(f.insts[inst].args[k]).and_then(Imm::as_int);
    let (lo, hi, step) = (number(0)?, number(1)?, number(2)?);
    let distance = hi.saturating_sub(lo).max(0).unsigned_abs();
    u64::try_from(distance.div_ceil(step.unsigned_abs().max(1))).ok()
}
