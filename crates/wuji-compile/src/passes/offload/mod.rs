//! Splits a kernel into tasks: segments of serial code, and parallel loops.
//!
//! A task's function takes the kernel's by-value parameters. Other values from earlier code are recomputed if they
//! are pure and cheap, and otherwise passed in a temp.

mod arrays;
mod carried;
mod crossing;
mod jumps;
mod segments;
mod split;

use crate::analysis::effects::Source;
use crate::passes::Cx;
use crate::rewrite::count_unsigned;
use arrays::move_crossing_arrays;
use carried::carry_in_temps;
use cranelift_entity::PrimaryMap;
use crossing::Crossing;
use jumps::skip_earlier_steps;
use rustc_hash::FxHashMap;
use segments::{Segment, Segments};
use split::Split;
use wuji_ir::Result;
use wuji_ir::entities::Func;
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// The pass; the [module](self) describes it.
pub fn offload(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let Some(kernel) = m.kernel else {
        return Ok(());
    };
    count_unsigned(&mut m.funcs[kernel]);
    carry_in_temps(&mut m.env, &mut m.funcs[kernel]);
    let segments = Segments::of(&m.funcs[kernel]);
    move_crossing_arrays(&mut m.env, &mut m.funcs[kernel], &segments.all);
    let f = &m.funcs[kernel];
    let crossing = Crossing::find(f, &segments.all);
    crossing.check_local_arrays(&m.env, f, &segments.all)?;

    let mut split = Split {
        env: &mut m.env,
        f,
        segments: &segments,
        temps: FxHashMap::default(),
        next: None,
        result: None,
        check_reads: cx.options.check_reads,
    };
    split.plan_exits();
    for v in &crossing.handed_over {
        split.temp_for(*v);
    }
    for segment in &segments.all {
        if let Segment::Parallel { inst, .. } = segment {
            split.plan_bounds(*inst);
        }
    }
    let mut tasks = Vec::new();
    for segment in &segments.all {
        let task = match segment {
            Segment::Serial(serial) => split.serial(&crossing, serial),
            Segment::Parallel {
                ordinal,
                step,
                inst,
            } => Some(split.parallel(&crossing, (*ordinal, *step), *inst)),
        };
        tasks.extend(task);
    }
    let (next, result) = (split.next, split.result);
    m.add_defined();
    m.tasks = tasks;
    m.result = result;
    m.kernel = None;
    if let Some(next) = next {
        // Nothing comes before the first task, unless it is repeated.
        skip_earlier_steps(m, next, usize::from(!segments.has_jumps()));
    }
    keep_called_functions(m);
    for t in 0..m.tasks.len() {
        let func = m.tasks[t].func;
        let cooperative = m.among_threads(func, m.funcs[func].entry).is_some();
        if let TaskKind::Range { hints, .. } | TaskKind::Cells { hints, .. } = &mut m.tasks[t].kind
        {
            hints.cooperative |= cooperative;
        }
    }
    cx.sources = m.tasks.iter().map(|t| Source::of(m, t)).collect();
    Ok(())
}

/// Removes the kernel's function and every function that no task calls.
fn keep_called_functions(m: &mut Module) {
    let called = m.called_by(m.tasks.iter().rev().map(|t| t.func));
    let mut new_id: FxHashMap<Func, Func> = FxHashMap::default();
    let mut old = std::mem::take(&mut m.funcs);
    let mut funcs = PrimaryMap::new();
    for id in called {
        let f = std::mem::replace(&mut old[id], Function::new("", &[], &[]));
        new_id.insert(id, funcs.push(f));
    }
    for f in funcs.values_mut() {
        for inst in f.insts.values_mut() {
            if let Op::Call(g) = &mut inst.op
                && let Some(new) = new_id.get(g)
            {
                *g = *new;
            }
        }
    }
    m.set_funcs(funcs);
    for task in &mut m.tasks {
        task.func = new_id[&task.func];
    }
}
