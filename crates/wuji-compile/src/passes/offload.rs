//! Splits a kernel into tasks: segments of serial code, and parallel loops.
//!
//! A task's function takes the kernel's by-value parameters. Other values from earlier code are recomputed if they
//! are pure and cheap, and otherwise passed in a temp.

use crate::analysis::effects::Source;
use crate::analysis::launch_bound::launch_bound;
use crate::analysis::serial_loops::serial_loops;
use crate::passes::Cx;
use crate::remark::{Decision, Remark};
use crate::rewrite::{Map, copy_body, copy_inst, count_unsigned};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::{Func, Inst, Local, Region, Temp, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Imm, Type};
use wuji_ir::{Error, Position, Result};

/// At most this many instructions are recomputed to avoid a temp.
const RECOMPUTE_LIMIT: usize = 64;

/// The pass; the [module](self) describes it.
pub fn offload(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let Some(kernel) = m.kernel else {
        return Ok(());
    };
    remark_serial_loops(m, cx);
    count_unsigned(&mut m.funcs[kernel]);
    let f = &m.funcs[kernel];
    let stretches = stretches(f);
    let crossing = Crossing::find(f, &stretches);
    crossing.check_local_arrays(m, f, &stretches)?;

    let mut split = Split {
        env: &mut m.env,
        f,
        temps: FxHashMap::default(),
        done: None,
        result: None,
    };
    split.plan_exits();
    for v in &crossing.handed_over {
        split.temp_for(*v);
    }
    for stretch in &stretches {
        if let Stretch::Parallel { inst, .. } = stretch {
            split.plan_bounds(*inst);
        }
    }
    let mut tasks = Vec::new();
    for stretch in &stretches {
        let task = match stretch {
            Stretch::Serial {
                ordinal,
                insts,
                last,
            } => split.serial(&crossing, *ordinal, insts, *last),
            Stretch::Parallel { ordinal, inst } => Some(split.parallel(&crossing, *ordinal, *inst)),
        };
        tasks.extend(task);
    }
    let (done, result) = (split.done, split.result);
    m.add_defined();
    m.tasks = tasks;
    m.result = result;
    m.kernel = None;
    if let Some(done) = done {
        skip_when_done(m, done);
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

/// Says which loops run on one thread, though they would be parallel elsewhere in the kernel.
fn remark_serial_loops(m: &Module, cx: &mut Cx) {
    for serial in serial_loops(m) {
        cx.remarks.push(Remark {
            task: m.name.clone(),
            at: Position::of(m, serial.span),
            decision: Decision::Serial(serial.under),
        });
    }
}

/// Removes the kernel's function and every function that no task calls.
fn keep_called_functions(m: &mut Module) {
    let mut new_id: FxHashMap<Func, Func> = FxHashMap::default();
    let mut old = std::mem::take(&mut m.funcs);
    let mut funcs = PrimaryMap::new();
    let mut work: Vec<Func> = m.tasks.iter().rev().map(|t| t.func).collect();
    while let Some(id) = work.pop() {
        if new_id.contains_key(&id) {
            continue;
        }
        let f = std::mem::replace(&mut old[id], Function::new("", &[], &[]));
        f.walk(|i| {
            if let Op::Call(g) = f.insts[i].op {
                work.push(g);
            }
        });
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

enum Stretch {
    Serial {
        ordinal: u32,
        insts: Vec<Inst>,
        last: bool,
    },
    Parallel {
        ordinal: u32,
        inst: Inst,
    },
}

fn stretches(f: &Function) -> Vec<Stretch> {
    let mut out = Vec::new();
    let (mut serial, mut loops) = (Vec::new(), 0);
    for &inst in &f.regions[f.entry].insts {
        if let Op::ForEach(..) = f.insts[inst].op {
            out.push(Stretch::Serial {
                ordinal: 2 * loops,
                insts: std::mem::take(&mut serial),
                last: false,
            });
            out.push(Stretch::Parallel {
                ordinal: 2 * loops + 1,
                inst,
            });
            loops += 1;
        } else {
            serial.push(inst);
        }
    }
    out.push(Stretch::Serial {
        ordinal: 2 * loops,
        insts: serial,
        last: true,
    });
    out
}

/// Finds top-level values that are used in another segment than their own.
struct Crossing {
    /// Values that can be recomputed anywhere, with the number of instructions.
    recompute: SecondaryMap<Value, Option<u32>>,
    handed_over: Vec<Value>,
}

impl Crossing {
    fn find(f: &Function, stretches: &[Stretch]) -> Crossing {
        let mut recompute: SecondaryMap<Value, Option<u32>> = SecondaryMap::new();
        for p in f.params() {
            recompute[*p] = Some(0);
        }
        let mut home: FxHashMap<Value, usize> = FxHashMap::default();
        for (at, stretch) in stretches.iter().enumerate() {
            let Stretch::Serial { insts, .. } = stretch else {
                continue;
            };
            for &inst in insts {
                let data = &f.insts[inst];
                for r in &data.results {
                    home.insert(*r, at);
                }
                if data.op.effect() == Effect::Pure {
                    let cost = data
                        .args
                        .iter()
                        .try_fold(1u32, |n, a| recompute[*a].and_then(|c| n.checked_add(c)));
                    for r in &data.results {
                        recompute[*r] = cost.filter(|c| *c as usize <= RECOMPUTE_LIMIT);
                    }
                }
            }
        }
        let mut crossing = Crossing {
            recompute,
            handed_over: Vec::new(),
        };
        let mut seen = FxHashSet::default();
        for (at, stretch) in stretches.iter().enumerate() {
            crossing.each_use(f, stretch, &mut |v| {
                if home.get(&v).is_some_and(|h| *h != at) && crossing.recompute[v].is_none() {
                    seen.insert(v);
                }
            });
        }
        let mut handed: Vec<Value> = seen.into_iter().collect();
        handed.sort();
        crossing.handed_over = handed;
        crossing
    }

    /// Every value that a segment mentions, including its own definitions.
    fn each_use(&self, f: &Function, stretch: &Stretch, visit: &mut impl FnMut(Value)) {
        match stretch {
            Stretch::Serial { insts, last, .. } => {
                insts.iter().for_each(|i| uses_in(f, *i, visit));
                if *last {
                    f.regions[f.entry]
                        .term
                        .args()
                        .iter()
                        .for_each(|v| visit(*v));
                }
            }
            Stretch::Parallel { inst, .. } => {
                for r in &f.insts[*inst].regions {
                    uses_in_region(f, *r, visit);
                }
            }
        }
    }

    /// A local array must be used in one task only.
    fn check_local_arrays(&self, m: &Env, f: &Function, stretches: &[Stretch]) -> Result<()> {
        let mut home: FxHashMap<Local, usize> = FxHashMap::default();
        for (at, stretch) in stretches.iter().enumerate() {
            let mut bad = None;
            let mut visit = |inst: Inst| {
                if let Some(Access {
                    place: Place::Local(l),
                    ..
                }) = f.insts[inst].op.access()
                    && *home.entry(*l).or_insert(at) != at
                {
                    bad.get_or_insert((*l, inst));
                }
            };
            match stretch {
                Stretch::Serial { insts, .. } => {
                    insts.iter().for_each(|i| each_inst(f, *i, &mut visit));
                }
                Stretch::Parallel { inst, .. } => each_inst(f, *inst, &mut visit),
            }
            if let Some((l, inst)) = bad {
                return Err(Error::new(
                    "W0310",
                    format!(
                        "the local array `{}` is used inside and outside of a parallel loop",
                        f.locals[l].name
                    ),
                )
                .at(Position::of(m, f.spans[inst]))
                .note("every iteration of a parallel loop has local arrays of its own")
                .help(
                    "declare it inside the loop, or use a field to share data between iterations",
                ));
            }
        }
        Ok(())
    }
}

fn uses_in(f: &Function, inst: Inst, visit: &mut impl FnMut(Value)) {
    f.insts[inst].args.iter().for_each(|v| visit(*v));
    for r in &f.insts[inst].regions {
        uses_in_region(f, *r, visit);
    }
}

fn uses_in_region(f: &Function, region: Region, visit: &mut impl FnMut(Value)) {
    for inst in &f.regions[region].insts {
        uses_in(f, *inst, visit);
    }
    f.regions[region].term.args().iter().for_each(|v| visit(*v));
}

fn each_inst(f: &Function, inst: Inst, visit: &mut impl FnMut(Inst)) {
    visit(inst);
    for r in &f.insts[inst].regions {
        for i in &f.regions[*r].insts {
            each_inst(f, *i, visit);
        }
    }
}

struct Split<'a> {
    env: &'a mut Env,
    f: &'a Function,
    temps: FxHashMap<Value, Temp>,
    /// Set by an early return, when there is one.
    done: Option<Temp>,
    result: Option<Temp>,
}

impl Split<'_> {
    fn temp_for(&mut self, v: Value) -> Temp {
        let ty = self.f.ty(v);
        *self
            .temps
            .entry(v)
            .or_insert_with(|| self.env.temps.push(TempData { ty }))
    }

    /// Temps for the kernel's result and for early returns.
    fn plan_exits(&mut self) {
        let f = self.f;
        let early = f
            .walk_regions()
            .iter()
            .any(|r| *r != f.entry && matches!(f.regions[*r].term, Term::Return(_)));
        if let Some(ty) = f.results.first() {
            let own = final_temp(f).filter(|_| !early);
            self.result = Some(own.unwrap_or_else(|| self.env.temps.push(TempData { ty: *ty })));
        }
        if early {
            self.done = Some(self.env.temps.push(TempData { ty: BOOL }));
        }
    }

    /// Allocates temps for bounds that are neither constants nor parameters.
    fn plan_bounds(&mut self, inst: Inst) {
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

    fn serial(
        &mut self,
        crossing: &Crossing,
        ordinal: u32,
        insts: &[Inst],
        last: bool,
    ) -> Option<Task> {
        let f = self.f;
        // Store what later tasks need.
        let results = insts.iter().flat_map(|i| &f.insts[*i].results);
        let mut leave: Vec<(Value, Temp)> = results
            .filter_map(|v| Some((*v, *self.temps.get(v)?)))
            .collect();
        leave.sort();
        let returned = if last && self.result.is_some_and(|t| final_temp(f) != Some(t)) {
            f.regions[f.entry].term.args().to_vec()
        } else {
            Default::default()
        };
        let mut early = false;
        let mut own = FxHashSet::default();
        for i in insts {
            each_inst(f, *i, &mut |i| {
                own.extend(f.insts[i].results.iter().copied());
                for r in &f.insts[i].regions {
                    own.extend(f.regions[*r].params.iter().copied());
                    early |= matches!(f.regions[*r].term, Term::Return(_));
                }
            });
        }
        let quiet = insts
            .iter()
            .all(|i| matches!(f.insts[*i].op.effect(), Effect::Pure | Effect::Reads));
        if quiet && leave.is_empty() && returned.is_empty() && !early {
            return None;
        }
        let name = format!("{}.{ordinal}", self.env.name);
        let (mut g, mut map) = self.function(&name);
        let entry = g.entry;
        let mut used = Vec::new();
        insts
            .iter()
            .for_each(|i| uses_in(f, *i, &mut |v| used.push(v)));
        used.extend(&returned);
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
        leave_early(&mut g, self.result, self.done);
        let span = insts.first().map_or(Span::UNKNOWN, |i| f.spans[*i]);
        let func = self.env.add(g);
        Some(Task {
            name,
            lists: None,
            slices: Vec::new(),
            copies: Copies::None,
            kind: TaskKind::Serial,
            func,
            ordinal,
            span,
        })
    }

    fn parallel(&mut self, crossing: &Crossing, ordinal: u32, inst: Inst) -> Task {
        let name = format!("{}.{ordinal}", self.env.name);
        let f = self.f;
        let data = &f.insts[inst];
        let Op::ForEach(label, domain, hints) = data.op.clone() else {
            unreachable!("stretches() only gives foreach here")
        };
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

fn store_temp(g: &mut Function, region: Region, t: Temp, v: Value) {
    let op = Op::Store(Access::write(Place::Temp(t)));
    let inst = g.add_inst(op, Values::from_slice(&[v]), &[], Span::UNKNOWN);
    g.regions[region].insts.push(inst);
}

/// Turns `return v` in nested regions into stores of the result and of the flag.
fn leave_early(g: &mut Function, result: Option<Temp>, done: Option<Temp>) {
    for r in g.walk_regions() {
        let Term::Return(values) = g.regions[r].term.clone() else {
            continue;
        };
        if r == g.entry {
            g.regions[r].term = Term::Return(Values::new());
            continue;
        }
        if let (Some(t), Some(v)) = (result, values.first()) {
            store_temp(g, r, t, *v);
        }
        if let Some(t) = done {
            let yes = g.add_inst(
                Op::Const(Imm::bool(true)),
                Values::new(),
                &[BOOL],
                Span::UNKNOWN,
            );
            g.regions[r].insts.push(yes);
            let yes = g.result(yes);
            store_temp(g, r, t, yes);
        }
        g.regions[r].term = Term::Return(Values::new());
    }
}

/// After an early return the remaining tasks do nothing.
fn skip_when_done(m: &mut Module, done: Temp) {
    let funcs: Vec<Func> = m.tasks.iter().skip(1).map(|t| t.func).collect();
    for func in funcs {
        let g = &mut m.funcs[func];
        let load = Op::Load(Access::read(Place::Temp(done)));
        let flag = g.add_inst(load, Values::new(), &[BOOL], Span::UNKNOWN);
        let cond = g.result(flag);
        let branch = g.add_inst(Op::If, Values::from_slice(&[cond]), &[], Span::UNKNOWN);
        let (leave, stay) = (g.add_region(&[]), g.add_region(&[]));
        g.regions[leave].term = Term::Return(Values::new());
        g.regions[stay].term = Term::Yield(Values::new());
        g.insts[branch].regions.extend([leave, stay]);
        let entry = g.entry;
        g.regions[entry].insts.splice(0..0, [flag, branch]);
    }
}
