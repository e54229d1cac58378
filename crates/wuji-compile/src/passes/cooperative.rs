//! Checks that cooperative iterations can run as threads of a block: the target must have thread blocks, and the
//! loop must give each thread one iteration.

use crate::analysis::uniformity::{Divergence, find_divergence};
use crate::options::Target;
use crate::passes::Cx;
use wuji_ir::entities::{Func, Inst};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::{Error, Position, Result};

/// The pass; the [module](self) describes it.
pub fn cooperative(m: &mut Module, cx: &mut Cx) -> Result<()> {
    for task in &m.tasks {
        let found = m.among_threads(task.func, m.funcs[task.func].entry);
        let Some((func, inst)) = found else {
            continue;
        };
        let hints = match &task.kind {
            TaskKind::Range { hints, .. } => *hints,
            TaskKind::Cells { field, hints } => {
                let data = &m.fields[*field];
                if !m.trees[data.tree].sparse_path(data.node).is_empty() {
                    let why = format!(
                        "{} is in a loop over the active cells of `{}`",
                        what(&m.funcs[func], inst),
                        data.name
                    );
                    return Err(at(m, func, inst, "W0353", why)
                        .note("the cells of one block are not known in advance")
                        .help("loop over a range or a dense field"));
                }
                *hints
            }
            // A serial task has one thread per block, so a barrier does nothing.
            TaskKind::Serial if matches!(m.funcs[func].insts[inst].op, Op::Thread(_)) => {
                LoopHints::default()
            }
            TaskKind::Serial => {
                let why = format!(
                    "{} is outside of a parallel loop",
                    what(&m.funcs[func], inst)
                );
                return Err(at(m, func, inst, "W0353", why)
                    .help("thread blocks run the iterations of a parallel loop"));
            }
            // Emitted by passes.
            TaskKind::Chunks { .. } => continue,
        };
        if hints.serial {
            let why = format!("{} is in a serial loop", what(&m.funcs[func], inst));
            return Err(at(m, func, inst, "W0353", why)
                .help("only iterations of a parallel loop run on several threads"));
        }
        if func != task.func {
            let why = format!(
                "{} is in `{}`, a function that is called",
                what(&m.funcs[func], inst),
                m.funcs[func].name
            );
            return Err(at(m, func, inst, "W0353", why)
                .note("recursive functions are not inlined")
                .help("move it to the body of the parallel loop"));
        }
        if hints.block_size.is_some_and(|n| n > MOST_THREADS) {
            let why = format!("a block has at most {MOST_THREADS} threads");
            return Err(at(m, func, inst, "W0353", why).help("ask for a smaller block size"));
        }
        if let Some(Divergence { inst, by }) = find_divergence(m, task) {
            return Err(divergence_error(m, func, inst, by));
        }
        if cx.options.target == Target::Cpu {
            return Err(at(
                m,
                func,
                inst,
                "W0350",
                format!("{} needs a GPU", what(&m.funcs[func], inst)),
            )
            .note("CPU threads are not grouped into blocks")
            .help("run the kernel in a world on a GPU, or make the iterations independent"));
        }
    }
    Ok(())
}

/// Reports a cooperative operation in divergent control flow.
fn divergence_error(m: &Module, func: Func, inst: Inst, by: Inst) -> Error {
    let f = &m.funcs[func];
    let Op::Thread(op) = f.insts[inst].op else {
        return at(m, func, inst, "W0352", "control flow is divergent".into());
    };
    let (whose, help) = match op.party() {
        Party::Block => (
            "the block",
            "move the barrier out of the branch, and keep only the divergent code under the condition; barriers with a \
             vote have a uniform result",
        ),
        Party::Warp | Party::Thread => (
            "a warp",
            "move it out of the branch, and select the result afterwards",
        ),
    };
    let why = format!("not all threads of {whose} reach {}", what(f, inst));
    let where_ = Position::of(m, f.spans[by]);
    let cause = if f.insts[by].op == Op::If {
        "a condition that is not uniform"
    } else {
        "a loop that threads leave in different iterations"
    };
    let note = match where_ {
        Some(p) => format!("control flow diverges at {p}: {cause}"),
        None => format!("control flow diverges: {cause}"),
    };
    at(m, func, inst, "W0352", why)
        .note(note)
        .note("the other threads would wait forever")
        .help(help)
}

fn at(m: &Module, func: Func, inst: Inst, code: &'static str, why: String) -> Error {
    Error::new(code, why).at(Position::of(m, m.funcs[func].spans[inst]))
}

/// The name of an operation in error messages.
fn what(f: &Function, inst: Inst) -> String {
    let op = &f.insts[inst].op;
    if let Op::Thread(op) = op {
        return match op {
            ThreadOp::Index
            | ThreadOp::BlockSize
            | ThreadOp::Block
            | ThreadOp::Blocks
            | ThreadOp::Lane => "the number of a thread".into(),
            ThreadOp::Barrier
            | ThreadOp::BarrierAll
            | ThreadOp::BarrierAny
            | ThreadOp::BarrierCount => "a barrier".into(),
            ThreadOp::ActiveMask => "the mask of a warp".into(),
            ThreadOp::Ballot => "a ballot of a warp".into(),
            ThreadOp::MatchAny => "a comparison in a warp".into(),
            ThreadOp::Shuffle(_) => "a shuffle".into(),
            ThreadOp::Segment | ThreadOp::SegmentSum => "a segment of a warp".into(),
            ThreadOp::WarpBarrier => "a barrier of a warp".into(),
            ThreadOp::BlockFence | ThreadOp::GridFence => "a fence".into(),
        };
    }
    match op.access().map(|a| a.place) {
        Some(Place::Local(l)) if f.locals[l].name.is_empty() => "a shared array".into(),
        Some(Place::Local(l)) => format!("the shared array `{}`", f.locals[l].name),
        _ => "a cooperative operation".into(),
    }
}
