//! Loops in the serial code of a kernel become parallel where their iterations are independent.
//!
//! A `for` under a `while` or an `if` runs on one thread by the rules of the language. If the results are the same,
//! it is a parallel loop, and the control flow around it runs between tasks. Loops of which only the launch knows how many
//! iterations they have exist twice: short ones stay serial. On a GPU, the deactivation of a long list is such a loop over its
//! chunks.

mod apply;
mod candidates;
mod lists;

use crate::analysis::serial_loops::serial_loops;
use crate::passes::Cx;
use crate::remark::{Decision, Remark};
use candidates::{Candidates, Found};
use rustc_hash::FxHashSet;
use wuji_ir::entities::Inst;
use wuji_ir::module::Module;
use wuji_ir::{Position, Result};

/// The pass; the [module](self) describes it.
pub fn parallelize(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let Some(kernel) = m.kernel else {
        return Ok(());
    };
    let mut found = Candidates::of(&m.env, &m.funcs[kernel], &cx.options);
    found.nests.retain(|_| cx.fuel());
    remark_serial_loops(m, &found, cx);
    for nest in found.nests {
        apply::apply(&mut m.env, &mut m.funcs[kernel], nest);
    }
    lists::deactivate_in_parallel(&mut m.env, &mut m.funcs[kernel], cx);
    Ok(())
}

/// Says which loops run on one thread, though they would be parallel elsewhere in the kernel.
fn remark_serial_loops(m: &Module, found: &Found, cx: &mut Cx) {
    let Some(f) = m.kernel_func() else {
        return;
    };
    let parallel = found.nests.iter().flat_map(|n| n.loops());
    let independent: FxHashSet<Inst> = parallel.chain(found.short.iter().copied()).collect();
    for serial in serial_loops(m) {
        let body = f.insts[serial.inst].regions[0];
        let inside = f.insts_in(body).any(|i| independent.contains(&i));
        if !inside && !independent.contains(&serial.inst) {
            cx.remarks.push(Remark {
                task: m.name.clone(),
                at: Position::of(m, serial.span),
                decision: Decision::Serial(serial.under),
            });
        }
    }
}
