//! Looks whether iterations that work together, as threads of a block, can do so: there must be such threads, and a loop of
//! a kind that gives each of them one iteration.

use crate::options::Target;
use crate::passes::Cx;
use wuji_ir::entities::{Func, Inst};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::{Error, Position, Result};

pub fn together(m: &mut Module, cx: &mut Cx) -> Result<()> {
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

fn at(m: &Module, func: Func, inst: Inst, code: &'static str, why: String) -> Error {
    Error::new(code, why).at(Position::of(m, m.funcs[func].spans[inst]))
}

/// What an instruction is to its user.
fn what(f: &Function, inst: Inst) -> String {
    match &f.insts[inst].op {
        Op::Thread(ThreadOp::Barrier) => "a barrier".into(),
        Op::Thread(_) => "the number of a thread".into(),
        op => match op.access().map(|a| a.place) {
            Some(Place::Local(l)) => format!("the shared array `{}`", f.locals[l].name),
            _ => "what threads do together".into(),
        },
    }
}
