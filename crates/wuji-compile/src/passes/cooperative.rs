//! Checks whether iterations that work together, as threads of a block, can do so: there must be such threads, and a loop of
//! a kind that gives each of them one iteration.

use crate::analysis::uniformity::{Divergence, find_divergence};
use crate::options::Target;
use crate::passes::Cx;
use wuji_ir::entities::{Func, Inst};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::{Error, Position, Result};

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
                        "{} stands in a loop over the active cells of `{}`",
                        what(&m.funcs[func], inst),
                        data.name
                    );
                    return Err(at(m, func, inst, "W0353", why)
                        .note("which cells are those of one block is not known beforehand")
                        .help("loop over a range or a dense field"));
                }
                *hints
            }
            // One thread is alone in its block: it waits for nobody.
            TaskKind::Serial if matches!(m.funcs[func].insts[inst].op, Op::Thread(_)) => {
                LoopHints::default()
            }
            TaskKind::Serial => {
                let why = format!(
                    "{} stands outside of a parallel loop",
                    what(&m.funcs[func], inst)
                );
                return Err(at(m, func, inst, "W0353", why)
                    .help("blocks of threads run the iterations of a parallel loop"));
            }
            // Made by passes, which know what they do.
            TaskKind::Chunks { .. } => continue,
        };
        if hints.serial {
            let why = format!(
                "{} stands in a loop that runs in order",
                what(&m.funcs[func], inst)
            );
            return Err(at(m, func, inst, "W0353", why)
                .help("only iterations of a parallel loop run on several threads"));
        }
        if func != task.func {
            let why = format!(
                "{} stands in `{}`, a function that is called",
                what(&m.funcs[func], inst),
                m.funcs[func].name
            );
            return Err(at(m, func, inst, "W0353", why)
                .note("functions that call themselves keep their place")
                .help("let the body of the parallel loop do it"));
        }
        if hints.block_size.is_some_and(|n| n > MOST_THREADS) {
            let why = format!("a block has at most {MOST_THREADS} threads");
            return Err(at(m, func, inst, "W0353", why).help("ask for a smaller block size"));
        }
        if let Some(Divergence { inst, by }) = find_divergence(m, task) {
            return Err(apart(m, func, inst, by));
        }
        if cx.options.target == Target::Cpu {
            return Err(at(
                m,
                func,
                inst,
                "W0350",
                format!("{} needs a GPU", what(&m.funcs[func], inst)),
            )
            .note("threads of a CPU do not run in blocks")
            .help("run the kernel in a world on a GPU, or let iterations work on fields by themselves"));
        }
    }
    Ok(())
}

/// Not all threads may come to an instruction that they do together.
fn apart(m: &Module, func: Func, inst: Inst, by: Inst) -> Error {
    let f = &m.funcs[func];
    let Op::Thread(op) = f.insts[inst].op else {
        return at(m, func, inst, "W0352", "threads have parted".into());
    };
    let (whose, help) = match op.party() {
        Party::Block => (
            "the block",
            "let all threads come to it, and put only what differs under a condition; barriers that ask all threads give an \
             answer that is the same for all",
        ),
        Party::Warp | Party::Thread => (
            "a warp",
            "let all threads come to it, and choose among the results afterwards",
        ),
    };
    let why = format!("not all threads of {whose} may come to {}", what(f, inst));
    let where_ = Position::of(m, f.spans[by]);
    let parted = if f.insts[by].op == Op::If {
        "a condition that differs from thread to thread"
    } else {
        "a loop that threads leave in different turns"
    };
    let note = match where_ {
        Some(p) => format!("they part at {p}, by {parted}"),
        None => format!("they part by {parted}"),
    };
    at(m, func, inst, "W0352", why)
        .note(note)
        .note("threads that wait for others which never come would wait for ever")
        .help(help)
}

fn at(m: &Module, func: Func, inst: Inst, code: &'static str, why: String) -> Error {
    Error::new(code, why).at(Position::of(m, m.funcs[func].spans[inst]))
}

/// What an instruction is to its user.
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
            ThreadOp::WarpBarrier => "a barrier of a warp".into(),
            ThreadOp::BlockFence | ThreadOp::GridFence => "a fence".into(),
        };
    }
    match op.access().map(|a| a.place) {
        Some(Place::Local(l)) if f.locals[l].name.is_empty() => "a shared array".into(),
        Some(Place::Local(l)) => format!("the shared array `{}`", f.locals[l].name),
        _ => "what threads do together".into(),
    }
}
