//! On a GPU: merges accesses under the same guard into one `if`, so that their tree accesses can be merged and
//! neighbouring updates become one instruction.
//!
//! Two branches of a region without results and with the same condition become one, at the position of the second.
//! Instructions between them that do not access memory move in front. The pass runs twice, because merged tree
//! accesses have one check for an absent cell.

use crate::options::Target;
use crate::passes::{Cx, find};
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Region};
use wuji_ir::module::{Function, Module, Term};
use wuji_ir::ops::Op;

/// The pass; the [module](self) describes it.
pub fn merge_guards(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.target == Target::Cpu {
        return Ok(());
    }
    if merge_all(m, cx) {
        // Simplify the merged bodies.
        if let Some(simplify) = find("simplify") {
            (simplify.run)(m, cx)?;
        }
        merge_all(m, cx);
    }
    Ok(())
}

/// Returns whether anything was merged.
fn merge_all(m: &mut Module, cx: &mut Cx) -> bool {
    let mut any = false;
    for f in m.funcs.values_mut() {
        for region in f.walk_regions() {
            while let Some((first, second)) = pair(f, region) {
                if !cx.fuel() {
                    break;
                }
                merge(f, region, first, second);
                any = true;
            }
        }
    }
    any
}

/// An `if` without results whose sides both end in `yield`.
fn is_guard(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let yields = |r: &Region| matches!(&f.regions[*r].term, Term::Yield(v) if v.is_empty());
    data.op == Op::If && data.results.is_empty() && data.regions.iter().all(yields)
}

/// Two guards, by position in a region, that nothing in between prevents from merging.
fn pair(f: &Function, region: Region) -> Option<(usize, usize)> {
    let insts = &f.regions[region].insts;
    let mut first: Option<usize> = None;
    for (k, inst) in insts.iter().enumerate() {
        if is_guard(f, *inst) {
            let condition = f.insts[*inst].args[0];
            if let Some(before) = first
                && f.insts[insts[before]].args[0] == condition
            {
                return Some((before, k));
            }
            first = Some(k);
        } else if !f.insts[*inst].is_pure() {
            first = None;
        }
    }
    None
}

fn merge(f: &mut Function, region: Region, first: usize, second: usize) {
    let mut insts = std::mem::take(&mut f.regions[region].insts);
    let later = insts.remove(second);
    let guard = insts.remove(first);
    // The instructions between them are in front now.
    insts.insert(second - 1, guard);
    f.regions[region].insts = insts;
    for side in 0..2 {
        let from = f.insts[later].regions[side];
        let to = f.insts[guard].regions[side];
        let more = std::mem::take(&mut f.regions[from].insts);
        f.regions[to].insts.extend(more);
    }
}
