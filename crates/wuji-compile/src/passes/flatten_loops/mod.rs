//! On a GPU: flattens divergent loop nests (loop merging), so that a lane starts its next outer iteration as soon as its
//! own inner loop has ended, instead of waiting for the longest inner loop of its warp.
//!
//! ```text
//! loop O { A; loop I { B }; C }   ->   loop O { if !resumed { A }; up to K steps of B; if I has ended { C } }
//! ```
//!
//! The merged loop carries whether I is to be resumed, the values that I carries, and the values that B and C need of A.
//! I may be below branches. Loops are flattened from the innermost to the outermost, so one rule serves nests of
//! any depth and several inner loops in a row. A thread executes the same operations in the same order as before;
//! only the interleaving of lanes changes.
//!
//! Where I is below a branch at the end of O, the part of O in front of the branch becomes an inner loop of its own first
//! (`split`), which runs until the branch is taken: null collisions of a path tracer, rejected samples.
//!
//! `choose` has the cost model.

mod choose;
mod converge;
mod flatten;
mod split;

use crate::analysis::uniformity::{self, Uniformity};
use crate::options::Target;
use crate::passes::Cx;
use crate::remark::{Decision, Remark};
use choose::{Costs, Nest};
use rustc_hash::FxHashSet;
use wuji_ir::entities::Inst;
use wuji_ir::module::{Module, TaskKind};
use wuji_ir::{Position, Result};

/// The most loops of a task that are flattened.
const MOST: usize = 16;

/// The pass; the [module](self) describes it.
pub fn flatten_loops(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.target == Target::Cpu {
        return Ok(());
    }
    for task in 0..m.tasks.len() {
        let flattened = flatten_task(m, cx, task);
        if !flattened.is_empty() {
            cx.remarks.push(Remark {
                task: m.tasks[task].name.clone(),
                at: Position::of(m, m.tasks[task].span),
                decision: Decision::Flattened {
                    loops: flattened.len() as u32,
                },
            });
        }
    }
    Ok(())
}

/// Returns the loops of a task that have become part of the loop around them.
fn flatten_task(m: &mut Module, cx: &mut Cx, task: usize) -> FxHashSet<Inst> {
    let mut flattened = FxHashSet::default();
    let TaskKind::Chunks { hints, .. } = m.tasks[task].kind else {
        return flattened;
    };
    let func = m.tasks[task].func;
    let nests = choose::nests(m, func);
    if nests.is_empty() || hints.cooperative || hints.blocks {
        return flattened;
    }
    let by_cost = cx.uses("flatten_cost");
    let values = uniformity::of_values(m, &m.tasks[task]);
    let divergent = choose::divergent(&m.funcs[func], &values, &nests);
    let mut costs = Costs::of(m, func);
    for nest in nests {
        let f = &m.funcs[func];
        if flattened.len() == MOST || choose::is_deep(f) {
            break;
        }
        // Where a loop was split, the other side of its branch is a part of the new loop.
        if !choose::is_nest(f, nest) {
            continue;
        }
        let (_, pays) = costs.steps(f, nest);
        if by_cost && !(pays && divergent.contains(&nest.inner)) {
            continue;
        }
        if !cx.fuel() {
            break;
        }
        let f = &mut m.funcs[func];
        let branch = split::branch(f, nest).filter(|branch| {
            let condition = f.insts[branch.inst].args[0];
            !by_cost || costs.splits(f, nest, branch) && values[condition] == Uniformity::Thread
        });
        let search = branch.and_then(|branch| split::split(&mut m.env, f, branch));
        for inner in search.into_iter().chain([nest.inner]) {
            let nest = Nest { inner, ..nest };
            let (steps, _) = costs.steps(f, nest);
            flatten::flatten(&mut m.env, f, nest, steps);
            costs.flattened(inner, steps);
        }
        flattened.insert(nest.inner);
        // Steps of different lanes are short and depend on each other.
        m.funcs[func].traits.many_threads = true;
    }
    flattened
}
