//! The rewrite: an inner loop becomes steps of the loop around it.

use super::Nest;
use super::converge::converge;
use crate::analysis::uses::{used_by, used_in};
use crate::rewrite::{Structure, Substitution};
use rustc_hash::FxHashSet;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Label, Region, Value};
use wuji_ir::module::{Env, Function, Term, Values};
use wuji_ir::ops::{BinOp, CmpOp, ForKind, Op};
use wuji_ir::types::{BOOL, I32, Scalar, Type};

/// Makes an inner loop a part of the loop around it, up to so many iterations at a time.
pub(super) fn flatten(env: &mut Env, f: &mut Function, nest: Nest, steps: u64) {
    count_up(env, f, nest.outer);
    count_up(env, f, nest.inner);
    let mut path = levels(f, nest.inner, &path(f, nest));
    let state = State::add(env, f, nest, &path);
    let merged = state.enter(env, f, nest.outer);
    path.levels[0].region = merged.region;
    let entered = guard(env, f, &state, &path.levels, nest.inner);
    let resume = Resume {
        state: &state,
        merged: &merged,
        entered: &entered,
    };
    if let Some(label) = f.insts[nest.inner].op.label() {
        step(env, f, nest.inner, label, resume, steps);
    }
    // Those inside first.
    converge(env, f, nest.inner);
    for guard in entered.guards.into_iter().rev() {
        converge(env, f, guard);
    }
}

/// Registers of 32 bits that the merged loop carries in addition.
pub(super) fn state(f: &Function, nest: Nest) -> u64 {
    let carried = f.regions[f.insts[nest.inner].regions[0]].params.iter();
    let path = levels(f, nest.inner, &path(f, nest));
    let saved = path.levels.iter().flat_map(|l| &l.saved);
    let words = |v: &Value| match f.ty(*v) {
        Type::Scalar(s) => u64::from(s.bytes().div_ceil(4)),
        Type::Vector(s, n) => u64::from(s.bytes().div_ceil(4)) * u64::from(n),
        Type::Matrix(..) | Type::Struct(_) => u64::MAX / 1024,
    };
    carried.chain(saved).map(words).sum()
}

/// Rewrites a `for` with a step of 1 as a `loop`.
pub(super) fn count_up(env: &mut Env, f: &mut Function, inst: Inst) {
    let Op::For(label, _) = f.insts[inst].op else {
        return;
    };
    let (hi, one) = (f.insts[inst].args[1], f.insts[inst].args[2]);
    f.insts[inst].op = Op::Loop(label);
    f.insts[inst].args.drain(1..3);
    let body = f.insts[inst].regions[0];
    let index = f.regions[body].params[0];
    let carried: Values = f.regions[body].params[1..].iter().copied().collect();
    for region in f.regions_in(body) {
        if !matches!(f.regions[region].term, Term::Continue(to, _) if to == label) {
            continue;
        }
        let mut b = Builder::new(env, f);
        b.region = region;
        let next = b.binary(BinOp::Add, index, one);
        if let Term::Continue(_, values) = &mut f.regions[region].term {
            values.insert(0, next);
        }
    }
    let insts = std::mem::take(&mut f.regions[body].insts);
    let mut b = Builder::new(env, f);
    b.region = body;
    b.span = b.func.spans[inst];
    let more = b.compare(CmpOp::Lt, index, hi);
    let branch = b.push_typed(Op::If, &[more], &[]);
    let inside = b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
    let end = b.region(&[], |b, _| b.end(Term::Break(label, carried)));
    f.insts[branch].regions.extend([inside, end]);
    f.regions[body].insts.extend(insts);
}

/// A region between the outer and the inner loop, and the position of the instruction in it that leads to the inner loop.
#[derive(Clone, Debug)]
struct Level {
    region: Region,
    at: usize,
    /// Values from before that instruction which something behind it uses.
    given: Vec<Value>,
    /// Those of them that are used after the inner loop was resumed.
    saved: Vec<Value>,
}

/// The regions from the body of the outer loop to that with the inner one, with positions.
fn path(f: &Function, nest: Nest) -> Vec<(Region, usize)> {
    let structure = Structure::of(f);
    let mut path = Vec::new();
    let mut inst = nest.inner;
    while inst != nest.outer {
        let Some(region) = structure.region_of[inst].expand() else {
            break;
        };
        let at = f.regions[region].insts.iter().position(|i| *i == inst);
        path.push((region, at.unwrap_or(0)));
        let Some(owner) = structure.owner[region].expand() else {
            break;
        };
        inst = owner;
    }
    path.reverse();
    path
}

/// The way from the outer to the inner loop.
struct Path {
    levels: Vec<Level>,
    /// The values that are used after the inner loop was resumed.
    resumed: FxHashSet<Value>,
}

fn levels(f: &Function, inner: Inst, path: &[(Region, usize)]) -> Path {
    let mut used = FxHashSet::default();
    let body = f.insts[inner].regions[0];
    let mut resumed: FxHashSet<Value> = used_in(f, body).into_iter().collect();
    used.extend(resumed.iter().copied());
    used.extend(f.insts[inner].args.iter().copied());
    let mut levels = Vec::new();
    for (k, (region, at)) in path.iter().enumerate().rev() {
        let data = &f.regions[*region];
        let mut behind: FxHashSet<Value> = data.term.args().iter().copied().collect();
        for inst in &data.insts[at + 1..] {
            behind.extend(used_by(f, *inst));
        }
        resumed.extend(behind.iter().copied());
        used.extend(behind);
        let before = data.insts[..*at].iter().filter(|i| !is_constant(f, **i));
        let given: Vec<Value> = before
            .flat_map(|i| f.insts[*i].results.iter().copied())
            .filter(|v| used.contains(v))
            .collect();
        let saved = given.iter().copied().filter(|v| resumed.contains(v));
        levels.push(Level {
            region: *region,
            at: *at,
            saved: saved.collect(),
            given,
        });
        for inst in &data.insts[..*at] {
            used.extend(used_by(f, *inst));
        }
        if let Some((outer, at)) = k.checked_sub(1).map(|k| path[k]) {
            let owner = &f.insts[f.regions[outer].insts[at]];
            used.extend(owner.args.iter().copied());
            for other in owner.regions.iter().filter(|r| *r != region) {
                used.extend(used_in(f, *other));
            }
        }
    }
    levels.reverse();
    Path { levels, resumed }
}

/// Constants need not be saved.
pub(super) fn is_constant(f: &Function, inst: Inst) -> bool {
    matches!(f.insts[inst].op, Op::Const(_))
}

/// What the merged loop carries.
struct State {
    /// The values that it carries: first those of the outer loop before, then whether the inner loop is to be resumed, then more.
    params: Values,
    /// The number of those that the outer loop carried before.
    own: usize,
    /// The numbers of those with the values that the inner loop carries, if it is to be resumed.
    carried: Vec<usize>,
    /// The numbers of those with the saved values of all levels.
    saved: Vec<usize>,
}

impl State {
    /// Adds parameters to the outer loop, which start as zeros. Values that it does not need while the inner loop is to be resumed
    /// make room for others.
    fn add(env: &mut Env, f: &mut Function, nest: Nest, path: &Path) -> State {
        let body = f.insts[nest.outer].regions[0];
        let own = f.regions[body].params.clone();
        let mut unused: Vec<usize> = (0..own.len())
            .filter(|k| !path.resumed.contains(&own[*k]))
            .collect();
        f.add_region_param(body, BOOL);
        let mut added = vec![BOOL];
        let mut place = |v: &Value, f: &mut Function| {
            let ty = f.ty(*v);
            if let Some(at) = unused.iter().position(|k| f.ty(own[*k]) == ty) {
                return unused.remove(at);
            }
            added.push(ty);
            f.add_region_param(body, ty);
            own.len() + added.len() - 1
        };
        let inner = f.insts[nest.inner].regions[0];
        let carried = f.regions[inner].params.clone();
        let carried = carried.iter().map(|v| place(v, f)).collect();
        let saved = path.levels.iter().flat_map(|l| &l.saved);
        let saved = saved.map(|v| place(v, f)).collect();
        let zeros = zeros_before(env, f, nest.outer, &added);
        f.insts[nest.outer].args.extend(zeros);
        State {
            params: f.regions[body].params.clone(),
            own: own.len(),
            carried,
            saved,
        }
    }

    /// Whether the inner loop is to be resumed.
    fn resumed(&self) -> Value {
        self.params[self.own]
    }

    /// Moves the body of the outer loop into a block with the carried values of its next iteration as results, so that
    /// the loop is continued at one place: lanes converge there.
    fn enter(&self, env: &mut Env, f: &mut Function, outer: Inst) -> Merged {
        let body = f.insts[outer].regions[0];
        let label = f.insts[outer].op.label();
        let data = &mut f.regions[body];
        let insts = std::mem::take(&mut data.insts);
        let term = std::mem::replace(&mut data.term, Term::Unreachable);
        let types: Vec<Type> = f.regions[body].params.iter().map(|v| f.ty(*v)).collect();
        let leave = f.fresh_label();
        let region = f.add_region(&[]);
        let mut b = Builder::new(env, f);
        b.region = body;
        b.span = b.func.spans[outer];
        let (no, yes) = (b.bool(false), b.bool(true));
        let block = b.push_typed(Op::Block(leave), &[], &types);
        f.insts[block].regions.push(region);
        f.regions[region].insts = insts;
        f.regions[region].term = term;
        for inside in f.regions_in(region) {
            if let Term::Continue(to, values) = &f.regions[inside].term
                && Some(*to) == label
            {
                let mut values = values.clone();
                values.push(no);
                values.extend(self.params[self.own + 1..].iter().copied());
                f.regions[inside].term = Term::Break(leave, values);
            }
        }
        if let Some(label) = label {
            let results = f.insts[block].results.iter().copied().collect();
            f.regions[body].term = Term::Continue(label, results);
        }
        Merged { region, leave, yes }
    }
}

/// The body of the merged loop.
struct Merged {
    region: Region,
    /// Ends an iteration.
    leave: Label,
    /// `true`.
    yes: Value,
}

/// Zeros of these types in front of an instruction, one for each type.
fn zeros_before(env: &mut Env, f: &mut Function, inst: Inst, types: &[Type]) -> Vec<Value> {
    let aside = f.add_region(&[]);
    let mut b = Builder::new(env, f);
    b.region = aside;
    let zeros = zeros(&mut b, types);
    let insts = std::mem::take(&mut f.regions[aside].insts);
    let structure = Structure::of(f);
    if let Some(region) = structure.region_of[inst].expand() {
        let at = f.regions[region].insts.iter().position(|i| *i == inst);
        let at = at.unwrap_or(0);
        f.regions[region].insts.splice(at..at, insts);
    }
    zeros
}

/// Zeros of these types, one for each type.
pub(super) fn zeros(b: &mut Builder, types: &[Type]) -> Vec<Value> {
    let mut known: Vec<(Type, Value)> = Vec::new();
    let mut zeros = Vec::new();
    for ty in types {
        let found = known.iter().find(|(t, _)| t == ty).map(|(_, v)| *v);
        let zero = found.unwrap_or_else(|| b.zero(*ty));
        if found.is_none() {
            known.push((*ty, zero));
        }
        zeros.push(zero);
    }
    zeros
}

/// The values in front of the inner loop.
struct Entered {
    /// The values that it starts or resumes with.
    carried: Values,
    /// The saved values of all levels.
    saved: Values,
    /// The guards of the levels that have one.
    guards: Vec<Inst>,
}

/// Guards everything in front of the inner loop: it does not run when the inner loop is resumed.
fn guard(env: &mut Env, f: &mut Function, state: &State, levels: &[Level], inner: Inst) -> Entered {
    let mut replaced = Substitution::new();
    let mut entered = Entered {
        carried: Values::new(),
        saved: Values::new(),
        guards: Vec::new(),
    };
    let mut saved = state.saved.iter().map(|k| state.params[*k]);
    for (k, level) in levels.iter().enumerate() {
        let insts = std::mem::take(&mut f.regions[level.region].insts);
        let (before, rest) = insts.split_at(level.at);
        for inst in before {
            replace_in(f, &replaced, *inst);
        }
        let next = levels.get(k + 1).map(|l| l.region);
        let own: Vec<Value> = saved.by_ref().take(level.saved.len()).collect();
        let passed = Passed::of(f, state, level, rest[0], next, &replaced);
        let guard = passed.guard(env, f, state, level, before, &own);
        let results = guard.map_or(Vec::new(), |guard| f.insts[guard].results.to_vec());
        entered.guards.extend(guard);
        for (from, to) in level.given.iter().zip(&results) {
            replaced.set(*from, *to);
        }
        entered
            .saved
            .extend(level.saved.iter().map(|v| replaced.get(*v)));
        let more = &results[level.given.len()..];
        if next.is_none() {
            entered.carried.extend(more.iter().copied());
        } else if let [condition] = more {
            f.insts[rest[0]].args[0] = *condition;
        }
        for inst in rest {
            // What is inside of the first one comes with the next level.
            if *inst != rest[0] {
                replace_in(f, &replaced, *inst);
            }
        }
        for other in f.insts[rest[0]].regions.clone() {
            if Some(other) != next && rest[0] != inner {
                replace_in_region(f, &replaced, other);
            }
        }
        replaced.apply_to_term(f, level.region);
        f.regions[level.region].insts.extend(rest);
    }
    replace_in_region(f, &replaced, f.insts[inner].regions[0]);
    entered
}

/// Values that a guard passes on besides those that its level gives: a condition, or the values that the inner loop starts with.
struct Passed {
    started: Vec<Value>,
    resumed: Vec<Resumed>,
}

/// What takes the place of a value when the inner loop is resumed.
enum Resumed {
    Value(Value),
    Condition(bool),
}

impl Passed {
    fn of(
        f: &Function,
        state: &State,
        level: &Level,
        inst: Inst,
        next: Option<Region>,
        replaced: &Substitution,
    ) -> Passed {
        let data = &f.insts[inst];
        let own = |v: &Value| {
            if level.given.contains(v) {
                *v
            } else {
                replaced.get(*v)
            }
        };
        let started = data.args.iter().map(own).collect();
        let resumed = match next {
            None => (state.carried.iter())
                .map(|k| Resumed::Value(state.params[*k]))
                .collect(),
            Some(next) if data.op == Op::If => {
                vec![Resumed::Condition(data.regions[0] == next)]
            }
            Some(_) => Vec::new(),
        };
        Passed { started, resumed }
    }

    /// Adds the guard to a level, if it has to have one.
    fn guard(
        self,
        env: &mut Env,
        f: &mut Function,
        state: &State,
        level: &Level,
        before: &[Inst],
        saved: &[Value],
    ) -> Option<Inst> {
        let is_free = |i: &Inst| is_constant(f, *i);
        let (constants, guarded): (Vec<Inst>, Vec<Inst>) = before.iter().partition(|i| is_free(i));
        f.regions[level.region].insts = constants;
        if guarded.is_empty() && self.resumed.is_empty() {
            return None;
        }
        let values = level.given.iter().chain(&self.started);
        let types: Vec<Type> = values.map(|v| f.ty(*v)).collect();
        let mut b = Builder::new(env, f);
        b.region = level.region;
        let mut saved = level.saved.iter().zip(saved);
        let resumes = |b: &mut Builder| {
            let mut values = Values::new();
            for v in &level.given {
                let is_saved = level.saved.contains(v);
                let kept = is_saved.then(|| saved.next()).flatten();
                values.push(match kept {
                    Some((_, kept)) => *kept,
                    None => b.zero(b.func.ty(*v)),
                });
            }
            for resumed in &self.resumed {
                values.push(match resumed {
                    Resumed::Value(v) => *v,
                    Resumed::Condition(c) => b.bool(*c),
                });
            }
            values
        };
        let starts = |b: &mut Builder| {
            b.func.regions[b.region].insts.extend(guarded);
            level.given.iter().chain(&self.started).copied().collect()
        };
        Some(b.if_else(state.resumed(), &types, resumes, starts))
    }
}

/// Replaces values in an instruction and all that is inside.
pub(super) fn replace_in(f: &mut Function, replaced: &Substitution, inst: Inst) {
    replaced.apply_to_inst(f, inst);
    for region in f.insts[inst].regions.clone() {
        replace_in_region(f, replaced, region);
    }
}

fn replace_in_region(f: &mut Function, replaced: &Substitution, region: Region) {
    for region in f.regions_in(region) {
        for k in 0..f.regions[region].insts.len() {
            let inst = f.regions[region].insts[k];
            replaced.apply_to_inst(f, inst);
        }
        replaced.apply_to_term(f, region);
    }
}

/// Makes the inner loop end after some steps; then the merged loop resumes it.
fn step(env: &mut Env, f: &mut Function, inner: Inst, label: Label, resume: Resume, steps: u64) {
    let body = f.insts[inner].regions[0];
    let strip = f.fresh_label();
    for region in f.regions_in(body) {
        if let Term::Continue(to, values) = &f.regions[region].term
            && *to == label
        {
            f.regions[region].term = if steps == 1 {
                resume.with(values)
            } else {
                Term::Continue(strip, values.clone())
            };
        }
    }
    let params = std::mem::take(&mut f.regions[body].params);
    let entered = &resume.entered.carried;
    f.insts[inner].op = Op::Block(label);
    f.insts[inner].args.clear();
    if steps == 1 {
        become_values(f, body, &params, entered);
        return;
    }
    let data = &mut f.regions[body];
    let insts = std::mem::take(&mut data.insts);
    let term = std::mem::replace(&mut data.term, Term::Unreachable);
    let types: Vec<Type> = params.iter().map(|v| f.ty(*v)).collect();
    let mut b = Builder::new(env, f);
    b.region = body;
    b.span = b.func.spans[inner];
    let [zero, most, one] = [0, steps, 1].map(|n| b.int(Scalar::I32, n.into()));
    let mut args = vec![zero, most, one];
    args.extend(entered);
    let counted = b.push_typed(Op::For(strip, ForKind::Serial), &args, &types);
    let mut inside = vec![I32];
    inside.extend(types);
    let region = f.add_region(&inside);
    f.insts[counted].regions.push(region);
    f.regions[region].insts = insts;
    f.regions[region].term = term;
    let own = f.regions[region].params.clone();
    become_values(f, region, &params, &own[1..]);
    let carried = f.insts[counted].results.to_vec();
    f.regions[body].term = resume.with(&carried);
}

/// Ends an iteration of the merged loop, so that the next one resumes the inner loop.
struct Resume<'a> {
    state: &'a State,
    merged: &'a Merged,
    entered: &'a Entered,
}

impl Resume<'_> {
    /// With the carried values of the inner loop.
    fn with(&self, values: &[Value]) -> Term {
        let mut all = self.state.params.clone();
        all[self.state.own] = self.merged.yes;
        let places = self.state.carried.iter().chain(&self.state.saved);
        for (place, value) in places.zip(values.iter().chain(&self.entered.saved)) {
            all[*place] = *value;
        }
        Term::Break(self.merged.leave, all)
    }
}

/// Replaces parameters of a region that it no longer has.
fn become_values(f: &mut Function, region: Region, params: &[Value], values: &[Value]) {
    let mut replaced = Substitution::new();
    for (param, value) in params.iter().zip(values) {
        replaced.set(*param, *value);
    }
    replace_in_region(f, &replaced, region);
}
