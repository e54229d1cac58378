//! The functions of tasks.

use super::crossing::{Crossing, each_inst, uses_in, uses_in_region};
use super::jumps::Jumper;
use super::segments::{Exit, Segments, SerialSegment};
use crate::analysis::launch_bound::launch_bound;
use crate::rewrite::{Map, copy_body, copy_inst};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Inst, Region, Temp, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I32, Type};

pub(super) struct Split<'a> {
    pub(super) env: &'a mut Env,
    pub(super) f: &'a Function,
    pub(super) segments: &'a Segments,
    pub(super) temps: FxHashMap<Value, Temp>,
    /// The step that runs next at the earliest, if tasks are skipped or repeated.
    pub(super) next: Option<Temp>,
    pub(super) result: Option<Temp>,
    /// Whether reads outside are reported, so that a task with nothing else is worth running.
    pub(super) check_reads: bool,
}

impl Split<'_> {
    pub(super) fn temp_for(&mut self, v: Value) -> Temp {
        let ty = self.f.ty(v);
        *self
            .temps
            .entry(v)
            .or_insert_with(|| self.env.temps.push(TempData { ty }))
    }

    /// Temps for the kernel's result and for jumps.
    pub(super) fn plan_exits(&mut self) {
        let f = self.f;
        let early = f
            .walk_regions()
            .iter()
            .any(|r| *r != f.entry && matches!(f.regions[*r].term, Term::Return(_)));
        if let Some(ty) = f.results.first() {
            let own = final_temp(f).filter(|_| !early);
            self.result = Some(own.unwrap_or_else(|| self.env.temps.push(TempData { ty: *ty })));
        }
        if early || self.segments.has_jumps() {
            self.next = Some(self.env.temps.push(TempData { ty: I32 }));
        }
    }

    /// Allocates temps for bounds that are neither constants nor parameters.
    pub(super) fn plan_bounds(&mut self, inst: Inst) {
        for v in self.f.insts[inst].args.clone() {
            if launch_bound(self.f, v).is_none() {
                self.temp_for(v);
            }
        }
    }

    /// A function with the kernel's parameters, and the mapping of values. Only what a task needs is copied, so
    /// that the size of a kernel with many tasks does not grow quadratically.
    fn function(&self, name: &str) -> (Function, Map) {
        let f = self.f;
        let types: Vec<Type> = f.params().iter().map(|p| f.ty(*p)).collect();
        let mut g = Function::new(name, &types, &[]);
        let entry = g.entry;
        g.regions[entry].term = Term::Return(Values::new());
        let map = Map::of(f.params(), g.params());
        (g, map)
    }

    /// Makes the values from other segments available at the start of `g`: recomputed or loaded.
    fn provide(
        &mut self,
        g: &mut Function,
        crossing: &Crossing,
        used: &[Value],
        own: &FxHashSet<Value>,
        map: &mut Map,
    ) {
        for v in used {
            if !own.contains(v) {
                self.provide_one(g, crossing, *v, map);
            }
        }
    }

    fn provide_one(
        &mut self,
        g: &mut Function,
        crossing: &Crossing,
        v: Value,
        map: &mut Map,
    ) -> Value {
        if let Some(there) = map.values.get(&v) {
            return *there;
        }
        let Some(def) = self.f.def(v) else { return v };
        let ty = self.f.ty(v);
        let (op, args) = if crossing.recompute[v].is_some() {
            let data = self.f.insts[def].clone();
            let args = data
                .args
                .iter()
                .map(|a| self.provide_one(g, crossing, *a, map))
                .collect();
            (data.op, args)
        } else {
            let temp = self.temp_for(v);
            (Op::Load(Access::read(Place::Temp(temp))), Values::new())
        };
        let inst = g.add_inst(op, args, &[ty], self.f.spans[def]);
        let entry = g.entry;
        g.regions[entry].insts.push(inst);
        let there = g.result(inst);
        map.set(v, there);
        there
    }

    pub(super) fn serial(&mut self, crossing: &Crossing, segment: &SerialSegment) -> Option<Task> {
        let f = self.f;
        let SerialSegment { exit, .. } = segment;
        let insts = &self.without_zeros(segment);
        // Store what later tasks need.
        let results = insts.iter().flat_map(|i| &f.insts[*i].results);
        let mut leave: Vec<(Value, Temp)> = results
            .filter_map(|v| Some((*v, *self.temps.get(v)?)))
            .collect();
        leave.sort();
        let returned = self.returned(exit);
        let (own, early) = contents(f, insts);
        let is_quiet = |i: &Inst| {
            let InstData { op, args, .. } = &f.insts[*i];
            match op.effect() {
                Effect::Pure => true,
                Effect::Reads => !(self.check_reads && op.is_checked_read(args)),
                Effect::Writes | Effect::Control => false,
            }
        };
        let quiet = insts.iter().all(is_quiet);
        let stays = matches!(exit, Exit::Next | Exit::End);
        if quiet && leave.is_empty() && returned.is_empty() && !early && stays {
            return None;
        }
        let name = self.name(segment.ordinal, segment.step);
        let (mut g, mut map) = self.function(&name);
        let entry = g.entry;
        let mut used = Vec::new();
        insts
            .iter()
            .for_each(|i| uses_in(f, *i, &mut |v| used.push(v)));
        used.extend(&returned);
        if let Exit::Branch { condition, .. } = exit {
            used.push(*condition);
        }
        let mut jumper = Jumper::new(self, segment, &mut g, &mut map);
        self.provide(&mut g, crossing, &used, &own, &mut map);
        for i in insts {
            let copy = copy_inst(f, *i, &mut g, &mut map);
            g.regions[entry].insts.push(copy);
        }
        for (v, t) in &leave {
            store_temp(&mut g, entry, *t, map.value(*v));
        }
        if let (Some(t), Some(v)) = (self.result, returned.first()) {
            store_temp(&mut g, entry, t, map.value(*v));
        }
        jumper.end(&mut g, exit, &map);
        jumper.leave_early(&mut g);
        let flow = jumper.flow();
        let span = insts.first().map_or(Span::UNKNOWN, |i| f.spans[*i]);
        let func = self.env.add(g);
        Some(Task {
            name,
            lists: None,
            slices: Vec::new(),
            copies: Copies::None,
            kind: TaskKind::Serial,
            func,
            ordinal: segment.ordinal,
            flow,
            span,
        })
    }

    /// The instructions of a segment. The first one need not set temps to zero: they are.
    fn without_zeros(&self, segment: &SerialSegment) -> Vec<Inst> {
        let f = self.f;
        if segment.step != 0 || self.segments.has_jumps() {
            return segment.insts.clone();
        }
        let mut stored = FxHashSet::default();
        let mut kept = segment.insts.clone();
        kept.retain(|inst| {
            let data = &f.insts[*inst];
            let Op::Store(access) = &data.op else {
                each_inst(f, *inst, &mut |i| {
                    let written = f.insts[i].op.written_access();
                    stored.extend(written.map(|a| a.place));
                });
                return true;
            };
            let zero = f.constant(data.args[0]).is_some_and(|imm| imm.bits() == 0);
            let whole = matches!(access.place, Place::Temp(_)) && access.path.is_empty();
            !(stored.insert(access.place) && whole && zero)
        });
        kept
    }

    /// The result that a segment leaves behind.
    fn returned(&self, exit: &Exit) -> Vec<Value> {
        let f = self.f;
        match exit {
            Exit::End if self.result.is_some_and(|t| final_temp(f) != Some(t)) => {
                f.regions[f.entry].term.args().to_vec()
            }
            Exit::Return(values) => values.to_vec(),
            Exit::End | Exit::Next | Exit::Jump(_) | Exit::Branch { .. } => Vec::new(),
        }
    }

    fn name(&self, ordinal: u32, step: u32) -> String {
        let name = &self.env.name;
        if self.segments.share_ordinals(self.f) {
            format!("{name}.{ordinal}.{step}")
        } else {
            format!("{name}.{ordinal}")
        }
    }

    pub(super) fn parallel(
        &mut self,
        crossing: &Crossing,
        (ordinal, step): (u32, u32),
        inst: Inst,
    ) -> Task {
        let name = self.name(ordinal, step);
        let f = self.f;
        let data = &f.insts[inst];
        let Op::ForEach(label, domain, mut hints) = data.op.clone() else {
            unreachable!("parallel segments are foreach loops")
        };
        hints.uncounted = false;
        let body = data.regions[0];
        let (mut g, mut map) = self.function(&name);
        let mut used = Vec::new();
        uses_in_region(f, body, &mut |v| used.push(v));
        let mut own = FxHashSet::default();
        own.extend(f.regions[body].params.iter().copied());
        for i in &f.regions[body].insts {
            each_inst(f, *i, &mut |i| {
                own.extend(f.insts[i].results.iter().copied());
                for r in &f.insts[i].regions {
                    own.extend(f.regions[*r].params.iter().copied());
                }
            });
        }
        // The loop's body becomes the function's body, with the indices as the last parameters.
        let entry = g.entry;
        for old in &f.regions[body].params {
            let new = g.add_region_param(entry, f.ty(*old));
            map.set(*old, new);
        }
        self.provide(&mut g, crossing, &used, &own, &mut map);
        let next = g.fresh_label();
        map.labels.insert(label, next);
        g.regions[entry].term = copy_body(f, body, &mut g, entry, &mut map);
        g.regions[entry].term_span = f.regions[body].term_span;
        for r in g.walk_regions() {
            if matches!(g.regions[r].term, Term::Continue(l, _) if l == next) {
                g.regions[r].term = Term::Return(Values::new());
            }
        }
        let func = self.env.add(g);
        let kind = match domain {
            Domain::Field(field) => TaskKind::Cells { field, hints },
            Domain::Range { .. } => {
                let bounds: Vec<Bound> = data
                    .args
                    .iter()
                    .map(|v| launch_bound(self.f, *v).unwrap_or_else(|| Bound::Temp(self.temps[v])))
                    .collect();
                let dims = bounds
                    .chunks(2)
                    .map(|b| RangeDim::new(b[0], b[1]))
                    .collect();
                TaskKind::Range { dims, hints }
            }
        };
        Task {
            lists: None,
            slices: Vec::new(),
            copies: Copies::None,
            name,
            kind,
            func,
            ordinal,
            flow: TaskFlow {
                step: self.segments.flow_step(step),
                repeat: None,
            },
            span: f.spans[inst],
        }
    }
}

/// The temp that a kernel returns as its last loop has left it.
fn final_temp(f: &Function) -> Option<Temp> {
    let entry = &f.regions[f.entry];
    let result = entry.term.args().first()?;
    let (load, before) = entry.insts.split_last()?;
    let Op::Load(access) = &f.insts[*load].op else {
        return None;
    };
    let Place::Temp(temp) = access.place else {
        return None;
    };
    let after_loop = before
        .last()
        .is_some_and(|i| matches!(f.insts[*i].op, Op::ForEach(..)));
    (f.result(*load) == *result && access.path.is_empty() && after_loop).then_some(temp)
}

pub(super) fn store_temp(g: &mut Function, region: Region, t: Temp, v: Value) {
    let op = Op::Store(Access::write(Place::Temp(t)));
    let inst = g.add_inst(op, Values::from_slice(&[v]), &[], Span::UNKNOWN);
    g.regions[region].insts.push(inst);
}

/// The values that instructions define, and whether they may leave the segment early.
fn contents(f: &Function, insts: &[Inst]) -> (FxHashSet<Value>, bool) {
    let mut own = FxHashSet::default();
    let (mut inside, mut jumps) = (FxHashSet::default(), FxHashSet::default());
    let mut early = false;
    for i in insts {
        each_inst(f, *i, &mut |i| {
            own.extend(f.insts[i].results.iter().copied());
            inside.extend(f.insts[i].op.label());
            for r in &f.insts[i].regions {
                let region = &f.regions[*r];
                own.extend(region.params.iter().copied());
                match region.term {
                    Term::Return(_) => early = true,
                    Term::Break(l, _) | Term::Continue(l, _) => {
                        jumps.insert(l);
                    }
                    Term::Yield(_) | Term::Unreachable => {}
                }
            }
        });
    }
    early |= !jumps.is_subset(&inside);
    (own, early)
}
