//! Inlines functions, except recursive ones.

use super::Cx;
use crate::analysis::calls::CallGraph;
use crate::rewrite::{Map, Substitution, copy_body};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Scalar;

/// A function does not grow beyond this; further calls stay calls.
const MAX_INSTS: usize = 200_000;

/// The pass; the [module](self) describes it.
pub fn inline(module: &mut Module, cx: &mut Cx) -> Result<()> {
    if !cx.keeps_reverse {
        for f in module.funcs.values_mut() {
            f.reverse = None;
        }
    }
    let graph = CallGraph::of(module);
    let mut rest: SecondaryMap<Func, Option<Function>> = SecondaryMap::new();
    for (func, f) in std::mem::take(&mut module.funcs) {
        rest[func] = Some(f);
    }
    let mut done: SecondaryMap<Func, Option<Function>> = SecondaryMap::new();
    for caller in &graph.callees_first {
        let Some(mut f) = rest[*caller].take() else {
            continue;
        };
        let mut inliner = Inliner {
            b: Builder::new(&mut module.env, &mut f),
            done: &done,
            graph: &graph,
            substitution: Substitution::new(),
            cx,
            depth: 0,
            loops: 0,
        };
        let entry = inliner.b.region;
        inliner.region(entry);
        done[*caller] = Some(f);
    }
    let all = module.env.signatures.keys();
    module.funcs = all.filter_map(|func| done[func].take()).collect();
    remove_uncalled(module);
    Ok(())
}

struct Inliner<'a, 'b, 'c> {
    b: Builder<'a>,
    /// Callees that are complete: all but recursive ones.
    done: &'b SecondaryMap<Func, Option<Function>>,
    graph: &'b CallGraph,
    substitution: Substitution,
    cx: &'b mut Cx<'c>,
    /// Regions that enclose this point.
    depth: usize,
    /// Loops that enclose this point, not counting `foreach`.
    loops: usize,
}

impl Inliner<'_, '_, '_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        let outer = std::mem::replace(&mut self.b.region, region);
        self.depth += 1;
        for inst in insts {
            self.substitution.apply_to_inst(self.b.func, inst);
            match self.b.func.insts[inst].op.callee() {
                Some(callee) if self.wants(callee) => self.call(inst, callee),
                _ => {
                    let data = &self.b.func.insts[inst];
                    let repeats = matches!(data.op, Op::Loop(_) | Op::For(..));
                    self.loops += usize::from(repeats);
                    for r in data.regions.clone() {
                        self.region(r);
                    }
                    self.loops -= usize::from(repeats);
                    self.b.func.regions[region].insts.push(inst);
                }
            }
        }
        self.substitution.apply_to_term(self.b.func, region);
        self.depth -= 1;
        self.b.region = outer;
    }

    fn wants(&mut self, callee: Func) -> bool {
        let Some(g) = &self.done[callee] else {
            return false;
        };
        !self.graph.recursive[callee]
            && g.reverse.is_none()
            && self.b.func.insts.len() + g.insts.len() <= MAX_INSTS
            && self.depth + nesting(g) < MAX_NESTING
            && self.cx.fuel()
    }

    fn call(&mut self, inst: Inst, callee: Func) {
        let InstData { args, results, .. } = self.b.func.insts[inst].clone();
        let Some(g) = &self.done[callee] else {
            return;
        };
        let mut map = Map::of(g.params(), &args);
        self.b.span = self.b.func.spans[inst];
        self.copy_locals(g, &mut map);
        if returns_once(g) {
            let term = copy_body(g, g.entry, self.b.func, self.b.region, &mut map);
            for (r, v) in results.iter().zip(term.args()) {
                self.substitution.set(*r, *v);
            }
        } else {
            let label = self.b.func.fresh_label();
            let block = self.b.push_typed(Op::Block(label), &[], &g.results);
            let body = self.b.func.add_region(&[]);
            self.b.func.insts[block].regions.push(body);
            let term = copy_body(g, g.entry, self.b.func, body, &mut map);
            self.b.func.regions[body].term = term;
            self.b.func.regions[body].term_span = g.regions[g.entry].term_span;
            leave_by(self.b.func, body, label);
            let made = self.b.func.insts[block].results.clone();
            for (r, v) in results.iter().zip(made) {
                self.substitution.set(*r, v);
            }
        }
    }

    /// Adds the callee's locals to the caller. Each activation starts with zeros, so in a loop they have to be
    /// cleared.
    fn copy_locals(&mut self, g: &Function, map: &mut Map) {
        for (local, data) in g.locals.iter() {
            let copy = self.b.func.locals.push(data.clone());
            map.locals.insert(local, copy);
            if self.loops == 0 {
                continue;
            }
            let zero = self.b.zero(data.ty);
            match data.len {
                None => {
                    self.b.store(Place::Local(copy), &[], zero);
                }
                Some(len) => {
                    let lo = self.b.int(Scalar::I32, 0);
                    let hi = self.b.int(Scalar::I32, i128::from(len));
                    let step = self.b.int(Scalar::I32, 1);
                    self.b
                        .for_range(ForKind::Serial, (lo, hi, step), &[], |b, _, i, _| {
                            let store = b.store(Place::Local(copy), &[i], zero);
                            if let Some(access) = b.func.insts[store].op.access_mut() {
                                access.guard = Guard::InBounds;
                            }
                            Values::new()
                        });
                }
            }
        }
    }
}

/// Depth of the deepest region.
fn nesting(f: &Function) -> usize {
    let mut depth: SecondaryMap<Region, usize> = SecondaryMap::new();
    let mut deepest = 1;
    for region in f.walk_regions() {
        for inst in &f.regions[region].insts {
            for r in &f.insts[*inst].regions {
                depth[*r] = depth[region] + 1;
                deepest = deepest.max(depth[*r] + 1);
            }
        }
    }
    deepest
}

/// Whether the only `return` is the one at the end.
fn returns_once(f: &Function) -> bool {
    f.walk_regions()
        .iter()
        .all(|r| matches!(f.regions[*r].term, Term::Return(_)) == (*r == f.entry))
}

/// Turns `return` in the region of a block into an exit of that block.
fn leave_by(f: &mut Function, body: Region, label: Label) {
    for region in f.regions_in(body) {
        let term = &mut f.regions[region].term;
        if let Term::Return(values) = term {
            let values = std::mem::take(values);
            *term = if region == body {
                Term::Yield(values)
            } else {
                Term::Break(label, values)
            };
        }
    }
}

/// Removes functions that neither the kernel nor a task calls any more.
fn remove_uncalled(module: &mut Module) {
    let mut roots: Vec<Func> = module.tasks.iter().map(|t| t.func).collect();
    roots.extend(module.kernel);
    if roots.is_empty() {
        return;
    }
    let mut reached: SecondaryMap<Func, bool> = SecondaryMap::new();
    for func in module.reachable(roots) {
        reached[func] = true;
    }
    let named_by_sites: Vec<Func> = module
        .sites
        .values()
        .filter_map(|s| match s.kind {
            SiteKind::TooDeep(func) => Some(func),
            SiteKind::OutOfRange(_)
            | SiteKind::ReadOutOfRange(_)
            | SiteKind::BadIndex { .. }
            | SiteKind::Assert(_)
            | SiteKind::Print(_)
            | SiteKind::OutOfMemory(..)
            | SiteKind::ListFull(_) => None,
        })
        .collect();
    for func in named_by_sites {
        reached[func] = true;
    }
    if module.funcs.keys().all(|f| reached[f]) {
        return;
    }
    let mut renamed: SecondaryMap<Func, PackedOption<Func>> = SecondaryMap::new();
    let mut funcs: PrimaryMap<Func, Function> = PrimaryMap::new();
    for (func, f) in std::mem::take(&mut module.funcs) {
        if reached[func] {
            renamed[func] = funcs.push(f).into();
        }
    }
    module.set_funcs(funcs);
    let rename = |func: &mut Func| {
        if let Some(new) = renamed[*func].expand() {
            *func = new;
        }
    };
    for f in module.funcs.values_mut() {
        f.reverse.iter_mut().for_each(rename);
        let mut calls = Vec::new();
        f.walk(|inst| calls.push(inst));
        for inst in calls {
            if let Op::Call(callee) = &mut f.insts[inst].op {
                rename(callee);
            }
        }
    }
    module.kernel.iter_mut().for_each(rename);
    module.tasks.iter_mut().for_each(|t| rename(&mut t.func));
    for site in module.sites.values_mut() {
        if let SiteKind::TooDeep(func) = &mut site.kind {
            rename(func);
        }
    }
}
