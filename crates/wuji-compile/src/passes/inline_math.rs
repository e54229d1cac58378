//! Inlines the short functions that `lower_math` has written, so that the vectorizer sees arithmetic and not calls.
//!
//! They are `precise`, so this comes after `relax_math`. On a GPU LLVM inlines them.

use super::Cx;
use crate::options::Target;
use crate::rewrite::{Map, Substitution, copy_body};
use rustc_hash::FxHashMap;
use wuji_ir::Result;
use wuji_ir::entities::{Func, Inst, Region};
use wuji_ir::module::{Function, Module};

/// The pass; the [module](self) describes it.
pub fn inline_math(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.target != Target::Cpu {
        return Ok(());
    }
    let short: FxHashMap<Func, Function> = (m.funcs.iter())
        .filter(|(_, f)| f.traits.precise && f.traits.inline && is_straight(f))
        .map(|(func, f)| (func, f.clone()))
        .collect();
    if short.is_empty() {
        return Ok(());
    }
    for (func, f) in m.funcs.iter_mut() {
        if !short.contains_key(&func) {
            inline_into(f, &short, cx);
        }
    }
    Ok(())
}

/// Whether all instructions are in one region.
fn is_straight(f: &Function) -> bool {
    let insts = &f.regions[f.entry].insts;
    f.locals.is_empty() && insts.iter().all(|i| f.insts[*i].regions.is_empty())
}

fn inline_into(f: &mut Function, short: &FxHashMap<Func, Function>, cx: &mut Cx) {
    let mut substitution = Substitution::new();
    for region in f.walk_regions() {
        let callee = |f: &Function, inst: Inst| short.get(&f.insts[inst].op.callee()?);
        let calls = |inst: &Inst| callee(f, *inst).is_some();
        if !f.regions[region].insts.iter().any(calls) {
            continue;
        }
        for inst in std::mem::take(&mut f.regions[region].insts) {
            match callee(f, inst).filter(|_| cx.fuel()) {
                Some(callee) => inline_call(f, (region, inst), callee, &mut substitution),
                None => f.regions[region].insts.push(inst),
            }
        }
    }
    if !substitution.is_empty() {
        substitution.apply(f);
    }
}

fn inline_call(
    f: &mut Function,
    (region, inst): (Region, Inst),
    callee: &Function,
    substitution: &mut Substitution,
) {
    let (args, results) = (f.insts[inst].args.clone(), f.insts[inst].results.clone());
    let mut map = Map::of(callee.params(), &args);
    let first = f.insts.len() as u32;
    let term = copy_body(callee, callee.entry, f, region, &mut map);
    // What the function does, the operation in the program does.
    for copy in first..f.insts.len() as u32 {
        f.spans[Inst::from_u32(copy)] = f.spans[inst];
    }
    for (result, value) in results.iter().zip(term.args()) {
        substitution.set(*result, *value);
    }
}
