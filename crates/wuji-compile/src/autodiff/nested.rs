//! Parallel loops inside of serial loops: which of them have derivatives.

use super::activity::Activity;
use crate::rewrite::Structure;
use rustc_hash::FxHashSet;
use wuji_ir::entities::Inst;
use wuji_ir::module::{Function, Module};
use wuji_ir::ops::{AccessOp, ControlOp, Op, OpClass, Place};
use wuji_ir::{Error, Position, Result};

/// Refuses a parallel loop inside of a serial one if the reverse sweep needs values of earlier rounds: iterations of parallel loops do not
/// share a history.
pub(super) fn check(m: &Module, f: &Function, activity: &Activity) -> Result<()> {
    let structure = Structure::of(f);
    for inner in f.insts_in(f.entry) {
        if !matches!(f.insts[inner].op, Op::ForEach(..)) {
            continue;
        }
        let mut outer = structure.parent(inner);
        while let Some(control) = outer {
            if let Some(why) = refusal(f, activity, control) {
                return Err(refuse(m, f, inner, why));
            }
            outer = structure.parent(control);
        }
    }
    Ok(())
}

/// Why the rounds of control flow around a parallel loop cannot be reversed.
fn refusal(f: &Function, activity: &Activity, control: Inst) -> Option<&'static str> {
    let data = &f.insts[control];
    match data.op.control() {
        Some(ControlOp::Loop(_)) => {
            Some("the number of rounds of the loop around it is not known before it runs")
        }
        Some(ControlOp::For(..)) => {
            let carried = &f.regions[data.regions[0]].params[1..];
            if carried.iter().any(|p| activity.needed().contains(*p)) {
                return Some("its gradient needs a variable of each round of the loop around it");
            }
            overwrites_needed(f, activity, control).then_some(
                "its gradient needs values that other rounds of the loop around it overwrite",
            )
        }
        Some(ControlOp::If | ControlOp::Block(_) | ControlOp::ForEach(..)) | None => None,
    }
}

/// Whether a loop writes to something of which its gradient needs values.
fn overwrites_needed(f: &Function, activity: &Activity, control: Inst) -> bool {
    let (mut needed, mut written) = (FxHashSet::default(), FxHashSet::default());
    for inst in f.insts[control].regions.iter().flat_map(|r| f.insts_in(*r)) {
        let data = &f.insts[inst];
        let OpClass::Access(op, access) = data.op.class() else {
            continue;
        };
        match op {
            AccessOp::Load if activity.needed().contains(data.results[0]) => {
                needed.insert(access.place);
            }
            AccessOp::Load => {}
            AccessOp::Store | AccessOp::Atomic(_) | AccessOp::CompareExchange => {
                written.insert(access.place);
            }
        }
    }
    // Arrays may overlap.
    let array = |p: &Place| matches!(p, Place::Array(_));
    !needed.is_disjoint(&written) || needed.iter().any(array) && written.iter().any(array)
}

fn refuse(m: &Module, f: &Function, inst: Inst, why: &str) -> Error {
    let what = format!(
        "kernel `{}`: a parallel loop inside of other control flow has no derivative",
        m.name
    );
    Error::new("W0711", what)
        .at(Position::of(m, f.spans[inst]))
        .note(why.to_owned())
        .help("make the loop a kernel of its own, and launch it in a loop")
}
