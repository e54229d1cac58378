//! Temps that hold extents of arrays, or sums with them: a loop computes its bounds again, so that later passes know how
//! they are related to the accesses.

use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Temp, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// At most this many instructions are computed again.
const MOST: usize = 8;

/// How values of temps are computed, where that is short.
#[derive(Default)]
pub(super) struct TempValues {
    known: FxHashMap<Temp, Vec<Computed>>,
}

/// An instruction without effects.
struct Computed {
    op: Op,
    args: Vec<Argument>,
}

enum Argument {
    /// A parameter of the kernel.
    Param(usize),
    /// The result of an earlier instruction.
    Earlier(usize),
}

impl TempValues {
    /// Of the temps that are bounds of a task.
    pub(super) fn of(m: &Module) -> TempValues {
        let is_bound = m.tasks.iter().any(|t| match &t.kind {
            TaskKind::Range { dims, .. } => dims
                .iter()
                .any(|d| matches!((d.lo, d.hi), (Bound::Temp(_), _) | (_, Bound::Temp(_)))),
            TaskKind::Serial | TaskKind::Cells { .. } | TaskKind::Chunks { .. } => false,
        });
        let mut known = FxHashMap::default();
        if !is_bound {
            return TempValues { known };
        }
        let stored_often = stored_often(m);
        for task in m.tasks.iter().filter(|t| t.kind == TaskKind::Serial) {
            let f = &m.funcs[task.func];
            for inst in &f.regions[f.entry].insts {
                let data = &f.insts[*inst];
                if let Op::Store(access) = &data.op
                    && let Place::Temp(temp) = access.place
                    && access.path.is_empty()
                    && !stored_often.contains(&temp)
                {
                    let mut code = Vec::new();
                    let mut done = FxHashMap::default();
                    let found = compute(f, data.args[0], &mut code, &mut done);
                    let extent = code.iter().any(|c| matches!(c.op, Op::ArrayExtent(..)));
                    if matches!(found, Some(Argument::Earlier(_))) && extent {
                        known.insert(temp, code);
                    }
                }
            }
        }
        TempValues { known }
    }

    /// The value of a temp: computed or loaded.
    pub(super) fn value(&self, b: &mut Builder, temp: Temp, params: &[Value]) -> Value {
        let Some(code) = self.known.get(&temp) else {
            return b.load(Place::Temp(temp), &[]);
        };
        let mut made: Vec<Value> = Vec::new();
        for step in code {
            let args: Vec<Value> = step
                .args
                .iter()
                .map(|a| match a {
                    Argument::Param(k) => params[*k],
                    Argument::Earlier(k) => made[*k],
                })
                .collect();
            made.push(b.value(step.op.clone(), &args));
        }
        match made.last() {
            Some(last) => *last,
            None => b.load(Place::Temp(temp), &[]),
        }
    }
}

/// Temps that several instructions write.
fn stored_often(m: &Module) -> FxHashSet<Temp> {
    let (mut once, mut often) = (FxHashSet::default(), FxHashSet::default());
    for task in &m.tasks {
        let f = &m.funcs[task.func];
        f.walk(|inst| {
            if let Some(access) = f.insts[inst].op.written_access()
                && let Place::Temp(temp) = access.place
                && !once.insert(temp)
            {
                often.insert(temp);
            }
        });
    }
    often
}

/// Appends what computes a value; `None` if it is too long, or depends on memory.
fn compute(
    f: &Function,
    v: Value,
    code: &mut Vec<Computed>,
    done: &mut FxHashMap<Inst, usize>,
) -> Option<Argument> {
    if let Some(k) = f.params().iter().position(|p| *p == v) {
        return Some(Argument::Param(k));
    }
    let inst = f.def(v)?;
    if let Some(k) = done.get(&inst) {
        return Some(Argument::Earlier(*k));
    }
    let data = &f.insts[inst];
    if !data.is_pure() || data.results.len() != 1 || code.len() >= MOST {
        return None;
    }
    let args = data.args.iter().map(|a| compute(f, *a, code, done));
    let args: Vec<Argument> = args.collect::<Option<_>>()?;
    code.push(Computed {
        op: data.op.clone(),
        args,
    });
    done.insert(inst, code.len() - 1);
    Some(Argument::Earlier(code.len() - 1))
}
