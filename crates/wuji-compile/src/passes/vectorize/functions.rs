//! First code calls the mathematical functions that better code will call.
//!
//! Functions of vectors round differently from those of scalars. Where a loop will run in vectors, its scalar code calls the
//! function of the same vectors too, with the argument in every lane.

use super::{LoopFacts, components, nested};
use crate::passes::Cx;
use crate::passes::vectorize::shapes::Shape;
use crate::rewrite::Structure;
use wuji_ir::entities::Inst;
use wuji_ir::module::{Function, Module, TaskKind};
use wuji_ir::ops::{CostClass, Op};
use wuji_ir::types::Type;

/// The module with calls of such functions, where there are any.
pub fn call_vector_functions(m: &Module, cx: &Cx) -> Option<Module> {
    if cx.options.vector_bits == 0 {
        return None;
    }
    let calls: Vec<_> = m
        .tasks
        .iter()
        .flat_map(|t| {
            let (TaskKind::Chunks { hints, .. }, None) = (&t.kind, &t.lists) else {
                return Vec::new();
            };
            calls_in(m, &m.funcs[t.func], hints.simd, cx)
                .into_iter()
                .map(|(inst, lanes)| (t.func, inst, lanes))
                .collect()
        })
        .collect();
    if calls.is_empty() {
        return None;
    }
    let mut m = m.clone();
    for (func, inst, lanes) in calls {
        call_with_lanes(&mut m.funcs[func], inst, lanes);
    }
    Some(m)
}

/// The calls that will have vectors as arguments, with their lanes.
fn calls_in(m: &Module, f: &Function, simd: Option<bool>, cx: &Cx) -> Vec<(Inst, u16)> {
    let is_function = |i: &Inst| {
        matches!(
            f.insts[*i].op.cost(),
            CostClass::Function | CostClass::LongFunction
        )
    };
    let mut found = Vec::new();
    // Most kernels have none, and are done here.
    if f.traits.precise || !f.insts_in(f.entry).any(|i| is_function(&i)) {
        return found;
    }
    if components(f).is_some() {
        return found;
    }
    let (loops, wide) = nested::choose(&m.env, f);
    let f = wide.as_ref().unwrap_or(f);
    let structure = Structure::of(f);
    for inst in loops {
        let Ok(facts) = LoopFacts::of((m, f), &structure, inst, simd, cx) else {
            continue;
        };
        let body = f.insts[inst].regions[0];
        let calls = f.insts_in(body).filter(is_function);
        let varying = calls.filter(|i| facts.shapes.shape(f.result(*i)) == Shape::Varying);
        found.extend(varying.map(|i| (i, facts.plan.lanes)));
    }
    found
}

/// `f(x)` as one lane of the `f` of a vector.
fn call_with_lanes(f: &mut Function, inst: Inst, lanes: u16) {
    let (Some(s), span) = (f.ty(f.result(inst)).as_scalar(), f.spans[inst]) else {
        return;
    };
    let Some((region, at)) = f.walk_regions().into_iter().find_map(|r| {
        let at = f.regions[r].insts.iter().position(|i| *i == inst)?;
        Some((r, at))
    }) else {
        return;
    };
    let ty = Type::Vector(s, lanes);
    let mut new = Vec::new();
    let mut add = |f: &mut Function, op: Op, args: Vec<_>| {
        let i = f.add_inst(op, args.into_iter().collect(), &[ty], span);
        new.push(i);
        f.result(i)
    };
    let (op, args) = (f.insts[inst].op.clone(), f.insts[inst].args.clone());
    let args: Vec<_> = args
        .into_iter()
        .map(|a| add(f, Op::Splat(ty), vec![a]))
        .collect();
    let call = add(f, op, args);
    f.insts[inst].op = Op::Extract(0);
    f.insts[inst].args = [call].into_iter().collect();
    f.regions[region].insts.splice(at..at, new);
}
