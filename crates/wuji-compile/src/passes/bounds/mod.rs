//! Proves that accesses are in range, or transforms loops so that they are.
//!
//! Three methods, tried in this order:
//! - *prove*: the range of every index lies in the domain;
//! - *version*: a short loop nest, or on a GPU an unrolled stencil, gets one comparison per index in front, and two bodies;
//! - *split*: a long loop runs checked, unchecked and checked again; in the middle part every index is in range.
//!
//! Before the last one, loops are split by what their indices are made of ([`peel`](peel::peel)).
//!
//! The remaining accesses stay checked, and `lower_access` masks them.

mod peel;
mod stencil;
mod version;

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::analysis::entries;
use crate::options;
use crate::passes::Cx;
use crate::rewrite::{Map, Structure, Substitution, clone_inst, make_scalar, materialize};
use rustc_hash::{FxHashMap, FxHashSet};
use stencil::version_stencils;
use version::{freeze_values, split, version};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Array, Func, Inst, Region, Tree, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// Loops of at most this many iterations are versioned as a whole.
const SHORT: i128 = 32;
/// And nests of short loops up to this many iterations.
const SHORT_NEST: i128 = 1024;
/// Larger numbers could wrap in the arithmetic of the comparisons.
const SAFE: i128 = 1 << 61;

/// The pass; the [module](self) describes it.
pub fn bounds(m: &mut Module, cx: &mut Cx) -> Result<()> {
    let cooperative: FxHashSet<Func> = m
        .tasks
        .iter()
        .filter(|t| matches!(&t.kind, TaskKind::Chunks { hints, .. } if hints.cooperative))
        .map(|t| t.func)
        .collect();
    for (func, f) in m.funcs.iter_mut() {
        if cx.options.bounds == options::Bounds::Unchecked {
            trust(f);
        } else {
            prove(&m.env, f, cx);
            make_scalar(&mut m.env, f);
            if cx.options.target == options::Target::Cpu && cx.uses("peel") {
                peel::peel(&mut m.env, f, cx);
            }
            arrange(&mut m.env, f, cooperative.contains(&func), cx);
        }
    }
    Ok(())
}

fn trust(f: &mut Function) {
    for inst in f.insts.values_mut() {
        if let Some(a) = inst.op.access_mut() {
            a.guard = Guard::InBounds;
        }
    }
}

/// The end of a domain: a constant, or the extent of an array's axis.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum End {
    Const(i128),
    Extent(Array, u8),
}

/// The domain of every index of an access, in the order of its arguments: indices, then dynamic steps.
fn domains(m: &Env, f: &Function, access: &Access) -> Vec<(i128, End)> {
    let mut out: Vec<(i128, End)> = match access.place {
        Place::Field(field) => m.fields[field]
            .domain(&m.trees)
            .iter()
            .map(|(lo, e)| {
                (
                    i128::from(*lo),
                    End::Const(i128::from(*lo) + i128::from(*e)),
                )
            })
            .collect(),
        Place::Array(a) => match &m.arrays[a].shape {
            Some(shape) => (shape.extents.iter())
                .map(|e| (0, End::Const(i128::from(*e))))
                .collect(),
            None => (0..m.arrays[a].rank)
                .map(|k| (0, End::Extent(a, k)))
                .collect(),
        },
        Place::Local(l) => f.locals[l]
            .len
            .iter()
            .map(|n| (0, End::Const((*n).into())))
            .collect(),
        Place::Temp(_) => Vec::new(),
    };
    let mut ty = m.place_elem(f, access.place).0;
    for step in &access.path {
        let k = match step {
            Step::Const(k) => *k,
            Step::Dynamic => {
                out.push((0, End::Const(m.structs.arity(ty).into())));
                0
            }
        };
        ty = m.structs.component(ty, k).unwrap_or(ty);
    }
    out
}

/// The domain, intersected with the range of the index's type: inside it, index and affine expression are equal.
fn effective(f: &Function, index: Value, domain: (i128, End)) -> (i128, End) {
    let (min, max) = f
        .ty(index)
        .as_scalar()
        .and_then(Scalar::int_range)
        .unwrap_or((0, -1));
    let end = match domain.1 {
        End::Const(hi) => End::Const(hi.min(max + 1)),
        End::Extent(a, k) => End::Extent(a, k),
    };
    (domain.0.max(min), end)
}

/// Whether every element of a place exists, so that a check of its indices is all there is.
fn is_dense(m: &Env, place: Place) -> bool {
    match place {
        Place::Field(field) => {
            let field = &m.fields[field];
            m.trees[field.tree].sparse_path(field.node).is_empty()
        }
        Place::Array(_) | Place::Local(_) | Place::Temp(_) => true,
    }
}

fn checked(f: &Function, inst: Inst) -> Option<&Access> {
    f.insts[inst].op.access().filter(|a| a.guard.is_checked())
}

fn proved(affine: &mut AffineAnalysis, index: Value, domain: (i128, End)) -> bool {
    let (lo, end) = effective(affine.func, index, domain);
    let End::Const(hi) = end else { return false };
    let expr = affine.expr(index);
    let range = affine.range_of(&expr);
    lo <= range.0 && range.1 < hi
}

fn prove(m: &Env, f: &mut Function, cx: &mut Cx) {
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut fine = Vec::new();
    f.walk(|inst| {
        let Some(access) = checked(f, inst) else {
            return;
        };
        let domains = domains(m, f, access);
        let args = &f.insts[inst].args;
        if domains
            .iter()
            .zip(args)
            .all(|(d, v)| proved(&mut affine, *v, *d))
        {
            fine.push(inst);
        }
    });
    for inst in fine {
        if cx.fuel()
            && let Some(a) = f.insts[inst].op.access_mut()
        {
            a.guard = Guard::InBounds;
        }
    }
}

/// One comparison before a loop: `lo <= invariant + spread < end`. When splitting, the loop's own index is added.
#[derive(Clone, Debug)]
struct Constraint {
    with_index: bool,
    invariant: Affine,
    /// The smallest and largest contribution of inner loops.
    spread: (i128, i128),
    lo: i128,
    end: End,
}

/// A loop, and the conditions under which some of its accesses are in range.
struct LoopVersion {
    inst: Inst,
    versioned: bool,
    constraints: Vec<Constraint>,
    accesses: Vec<Inst>,
}

/// All loops in a few walks over the function; the plan for one loop does not affect the others.
fn arrange(m: &mut Env, f: &mut Function, cooperative: bool, cx: &mut Cx) {
    let near = if cx.uses("neighbours") {
        near_loads(m, f)
    } else {
        FxHashSet::default()
    };
    if cx.options.target == options::Target::Cuda && !cooperative && cx.uses("stencil_versions") {
        version_stencils(m, f, &near, cx);
    }
    let found = plans(m, f, &near, cooperative, cx);
    if found.is_empty() {
        return;
    }
    let constraints = found.iter().flat_map(|plan| &plan.constraints);
    freeze_values(m, f, constraints.cloned().collect());
    // The expressions refer to frozen values now.
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let found: Vec<(Region, LoopVersion)> = found
        .iter()
        .filter_map(|old| {
            let region = structure.region_of[old.inst].expand()?;
            Some((
                region,
                plan(m, &mut affine, &near, old.inst, old.versioned)?,
            ))
        })
        .collect();
    let mut edits = Edits::default();
    for (region, plan) in found {
        // The replacement is built as if the loop were the only instruction of its region.
        let rest = std::mem::take(&mut f.regions[region].insts);
        let whole = if plan.versioned {
            version(m, f, region, &plan)
        } else {
            split(m, f, region, &plan)
        };
        let built = std::mem::replace(&mut f.regions[region].insts, rest);
        edits.replace(f, region, &plan, whole, built);
    }
    edits.apply(f);
}

/// Plans versions and splits, innermost loops first. A loop is transformed at most once: the loops inside and
/// around it keep one version, because two are enough.
fn plans(
    m: &Env,
    f: &Function,
    near: &FxHashSet<Inst>,
    cooperative: bool,
    cx: &mut Cx,
) -> Vec<LoopVersion> {
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut candidates: Vec<Inst> = Vec::new();
    let mut known: FxHashSet<Inst> = FxHashSet::default();
    f.walk(|inst| {
        // Beside the path through a tree, a GPU does not notice the check.
        let is_versioned = |access: &Access| {
            cx.options.target == options::Target::Cpu || is_dense(m, access.place)
        };
        if checked(f, inst).is_some_and(is_versioned)
            && !near.contains(&inst)
            && let Some(l) = nearest_for(f, &structure, inst)
            && !matches!(f.insts[l].op, Op::For(_, ForKind::Boundary))
            && known.insert(l)
            && !is_cooperative(f, l, cooperative)
        {
            candidates.push(l);
        }
    });
    candidates.sort_by_key(|l| std::cmp::Reverse(depth(f, &structure, *l)));
    let mut settled: FxHashSet<Inst> = FxHashSet::default();
    let mut plans = Vec::new();
    for l in candidates {
        if settled.contains(&l) {
            continue;
        }
        settled.insert(l);
        // Loops around a transformed one are not transformed.
        let top =
            short_nest(&mut affine, l).map(|top| if settled.contains(&top) { l } else { top });
        // Three loops one after the other would be distributed over the threads of a GPU three times, and a comparison costs them
        // nothing that memory does not.
        let threads =
            cx.options.target == options::Target::Cuda && is_distributed(f, &structure, l);
        if top.is_none() && threads {
            continue;
        }
        let Some(plan) = plan(m, &mut affine, near, top.unwrap_or(l), top.is_some()) else {
            continue;
        };
        if !cx.fuel() {
            break;
        }
        settled.extend(std::iter::successors(Some(plan.inst), |i| {
            structure.parent(*i)
        }));
        for r in &f.insts[plan.inst].regions {
            f.insts_in(*r).for_each(|i| {
                settled.insert(i);
            });
        }
        plans.push(plan);
    }
    plans
}

/// Whether threads of a GPU take the iterations of a loop: it is the outermost one.
fn is_distributed(f: &Function, structure: &Structure, inst: Inst) -> bool {
    let parallel = matches!(f.insts[inst].op, Op::For(_, ForKind::Parallel));
    parallel && depth(f, structure, inst) == 0
}

/// Whether the threads of a block run a loop cooperatively, so that all of them must take the same version.
fn is_cooperative(f: &Function, inst: Inst, cooperative: bool) -> bool {
    if cooperative && matches!(f.insts[inst].op, Op::For(_, ForKind::Parallel)) {
        return true;
    }
    let mut found = false;
    for r in &f.insts[inst].regions {
        f.insts_in(*r).for_each(|i| {
            found |= matches!(f.insts[i].op, Op::Thread(op) if op.is_convergent());
        });
    }
    found
}

/// Edits of regions and values, applied at the end.
#[derive(Default)]
struct Edits {
    /// The replacement of a loop in its region.
    instead: FxHashMap<Inst, Vec<Inst>>,
    regions: Vec<Region>,
    subst: Substitution,
    /// Terminators that forward the results of a loop to its replacement.
    kept: Vec<(Region, Term)>,
}

impl Edits {
    fn replace(
        &mut self,
        f: &Function,
        region: Region,
        plan: &LoopVersion,
        whole: Whole,
        built: Vec<Inst>,
    ) {
        let old = &f.insts[plan.inst].results;
        for (old, new) in old.iter().zip(&f.insts[whole.results].results) {
            self.subst.set(*old, *new);
        }
        let hands_over = f.insts[whole.choice].regions[0];
        self.kept
            .push((hands_over, f.regions[hands_over].term.clone()));
        self.instead.insert(plan.inst, built);
        self.regions.push(region);
    }

    fn apply(mut self, f: &mut Function) {
        self.regions.sort();
        self.regions.dedup();
        for region in self.regions {
            let old = std::mem::take(&mut f.regions[region].insts);
            let mut new = Vec::with_capacity(old.len());
            for inst in old {
                match self.instead.remove(&inst) {
                    Some(built) => new.extend(built),
                    None => new.push(inst),
                }
            }
            f.regions[region].insts = new;
        }
        self.subst.apply(f);
        for (region, term) in self.kept {
            f.regions[region].term = term;
        }
    }
}

/// The replacement of a loop.
struct Whole {
    /// The instruction with the loop's results.
    results: Inst,
    /// The `if` that selects between the loop and its checked copy.
    choice: Inst,
}

/// Loads near the list entry of a loop: `lower_access` finds the neighbouring blocks once per entry, and a block
/// outside the domain is absent like any other.
fn near_loads(m: &Env, f: &Function) -> FxHashSet<Inst> {
    let mut found = FxHashSet::default();
    let structure = Structure::of(f);
    let entries = entries::entries(f, &structure);
    if entries.is_empty() {
        return found;
    }
    let mut affine = AffineAnalysis::new(f, &structure);
    f.walk(|inst| {
        if let Op::Load(access) = &f.insts[inst].op
            && let Place::Field(field) = access.place
            && access.dynamic_steps() == 0
            && let visible = entries::visible(&entries, &structure, inst)
            && entries::near(m, &mut affine, &visible, field, &f.insts[inst].args).is_some()
        {
            found.insert(inst);
        }
    });
    let mut changed: FxHashMap<Tree, bool> = FxHashMap::default();
    found.retain(|inst| match f.insts[*inst].op.access() {
        Some(Access {
            place: Place::Field(field),
            ..
        }) => {
            let tree = m.fields[*field].tree;
            !*changed
                .entry(tree)
                .or_insert_with(|| entries::changes_cells(m, f, tree))
        }
        _ => false,
    });
    found
}

fn nearest_for(f: &Function, structure: &Structure, inst: Inst) -> Option<Inst> {
    let mut at = structure.parent(inst);
    while let Some(i) = at {
        if let Op::For(..) = f.insts[i].op {
            return Some(i);
        }
        at = structure.parent(i);
    }
    None
}

fn depth(f: &Function, structure: &Structure, inst: Inst) -> usize {
    std::iter::successors(structure.parent(inst), |i| structure.parent(*i))
        .filter(|i| matches!(f.insts[*i].op, Op::For(..)))
        .count()
}

fn trip_count(affine: &mut AffineAnalysis, inst: Inst) -> Option<i128> {
    let f = affine.func;
    let args = &f.insts[inst].args;
    let number = |v: Value| f.constant(v).and_then(Imm::as_int);
    // Bounds may still be sums of constants: one step back is enough for the code that `loops` emits.
    let (lo, hi, step) = (number(args[0]), number(args[1]), number(args[2])?);
    if step != 1 {
        return None;
    }
    match (lo, hi) {
        (Some(lo), Some(hi)) => Some((hi - lo).max(0)),
        _ => {
            let (lo, hi) = (affine.expr(args[0]), affine.expr(args[1]));
            let length = hi.add_scaled(&lo, -1)?.as_constant()?;
            Some(i128::from(length).max(0))
        }
    }
}

/// The outermost loop of a nest of short loops that contains `inst`; `None` if the loop is long.
fn short_nest(affine: &mut AffineAnalysis, inst: Inst) -> Option<Inst> {
    let (f, structure) = (affine.func, affine.structure);
    let mut total = trip_count(affine, inst).filter(|n| *n <= SHORT)?;
    let mut top = inst;
    while let Some(up) = structure.parent(top)
        && let Op::For(..) = f.insts[up].op
        && !is_cooperative(f, up, false)
        && let Some(n) = trip_count(affine, up)
        && n <= SHORT
        && total * n <= SHORT_NEST
    {
        total *= n;
        top = up;
    }
    Some(top)
}

fn plan(
    m: &Env,
    affine: &mut AffineAnalysis,
    near: &FxHashSet<Inst>,
    inst: Inst,
    versioned: bool,
) -> Option<LoopVersion> {
    let f = affine.func;
    let data = &f.insts[inst];
    let Op::For(label, _) = data.op else {
        return None;
    };
    let body = data.regions[0];
    let index = f.regions[body].params[0];
    if !versioned && !splittable(f, inst, label) {
        return None;
    }
    let mut plan = LoopVersion {
        inst,
        versioned,
        constraints: Vec::new(),
        accesses: Vec::new(),
    };
    let scope = if versioned {
        Scope::Loop(body)
    } else {
        Scope::Split(body, index)
    };
    let mut inside = Vec::new();
    f.insts_in(body).for_each(|i| inside.push(i));
    for i in inside {
        let Some(access) = checked(f, i).filter(|_| !near.contains(&i)) else {
            continue;
        };
        let domains = domains(m, f, access);
        let found: Option<Vec<Option<Constraint>>> = domains
            .iter()
            .zip(&f.insts[i].args)
            .map(|(d, v)| constraint(affine, scope, *v, *d))
            .collect();
        if let Some(found) = found {
            plan.accesses.push(i);
            found
                .into_iter()
                .flatten()
                .for_each(|c| merge(&mut plan.constraints, c));
        }
    }
    (!plan.accesses.is_empty()).then_some(plan)
}

/// A loop can be split if its index counts up by one and nothing jumps out of it.
fn splittable(f: &Function, inst: Inst, label: wuji_ir::entities::Label) -> bool {
    let data = &f.insts[inst];
    let by_one = f.constant(data.args[2]).and_then(Imm::as_int) == Some(1);
    let leaves = |r: &Region| matches!(f.regions[*r].term, Term::Break(l, _) if l == label);
    by_one && !f.regions_in(data.regions[0]).iter().any(leaves)
}

/// Where a condition is checked.
#[derive(Copy, Clone)]
enum Scope {
    /// Before a loop with this body.
    Loop(Region),
    /// In front of the parts of a loop with this body, whose index is known there.
    Split(Region, Value),
    /// In an iteration of a loop with this body: what the body itself computes is known.
    Iteration(Region),
}

impl Scope {
    fn has(self, affine: &AffineAnalysis, v: Value) -> bool {
        let (f, structure) = (affine.func, affine.structure);
        match self {
            Scope::Loop(body) | Scope::Split(body, _) => structure.is_invariant(f, v, body),
            Scope::Iteration(body) => {
                structure.def_region(f, v) == Some(body) || structure.is_invariant(f, v, body)
            }
        }
    }
}

/// The condition of one index: `Some(None)` if it is proved already, `None` if no condition suffices.
fn constraint(
    affine: &mut AffineAnalysis,
    scope: Scope,
    value: Value,
    domain: (i128, End),
) -> Option<Option<Constraint>> {
    if proved(affine, value, domain) {
        return Some(None);
    }
    let (mut lo, mut end) = effective(affine.func, value, domain);
    let mut expr = affine.expr(value);
    // `lo <= e < end` is `1 - end <= -e < 1 - lo`, so that the index of a descending loop has a coefficient of 1, too.
    if let (Scope::Split(_, index), End::Const(hi)) = (scope, end)
        && expr.coefficient(index) == -1
        && let Some(negative) = Affine::constant(0).add_scaled(&expr, -1)
    {
        (lo, end) = (1 - hi, End::Const(1 - lo));
        expr = negative;
    }
    let mut c = Constraint {
        with_index: false,
        invariant: Affine::constant(expr.constant),
        spread: (0, 0),
        lo,
        end,
    };
    for (v, k) in &expr.terms {
        if *k == 1 && matches!(scope, Scope::Split(_, index) if index == *v) {
            c.with_index = true;
        } else if scope.has(affine, *v) {
            c.invariant = c.invariant.add_scaled(&Affine::atom(*v), *k)?;
        } else {
            let range = loop_index_range(affine, *v)?;
            let (a, b) = (range.0 * i128::from(*k), range.1 * i128::from(*k));
            c.spread = (c.spread.0 + a.min(b), c.spread.1 + a.max(b));
        }
    }
    let range = affine.range_of(&c.invariant);
    let small = |n: i128| -SAFE < n && n < SAFE;
    // Unbounded 64-bit atoms could wrap; narrower ones cannot.
    if !small(range.0) || !small(range.1) || !small(c.spread.0) || !small(c.spread.1) {
        return None;
    }
    Some(Some(c))
}

/// Range of the index of a `for` whose bounds are constants.
fn loop_index_range(affine: &mut AffineAnalysis, v: Value) -> Option<(i128, i128)> {
    let ValueDef::Param(region, 0) = affine.func.values[v].def else {
        return None;
    };
    let owner = affine.structure.owner[region].expand()?;
    matches!(affine.func.insts[owner].op, Op::For(..)).then_some(())?;
    let range = affine.range(v);
    let all = affine.func.ty(v).as_scalar()?.int_range()?;
    (range != all).then_some(range)
}

/// Merges constraints that differ only in their constants.
fn merge(list: &mut Vec<Constraint>, new: Constraint) {
    let (lo, hi) = (
        new.spread.0 + i128::from(new.invariant.constant),
        new.spread.1 + i128::from(new.invariant.constant),
    );
    let new = Constraint {
        spread: (lo, hi),
        invariant: Affine {
            constant: 0,
            ..new.invariant
        },
        ..new
    };
    match list.iter_mut().find(|c| {
        c.with_index == new.with_index
            && c.invariant == new.invariant
            && c.lo == new.lo
            && c.end == new.end
    }) {
        Some(c) => c.spread = (c.spread.0.min(new.spread.0), c.spread.1.max(new.spread.1)),
        None => list.push(new),
    }
}
