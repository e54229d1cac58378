//! Proves accesses inside their places, or arranges loops so that they are.
//!
//! Three ways, tried in this order:
//! - *prove*: the range of every index lies in the domain;
//! - *version*: a short loop nest gets one comparison per index in front and two bodies;
//! - *split*: a long loop runs guarded, unguarded and guarded again, the middle part being where every
//!   index is inside.
//!
//! Versioning stretches of straight-line code (an unrolled stencil) was measured and left out: masked
//! loads vectorize, a branch around them does not.
//!
//! What is left stays checked, and `lower_access` masks it.

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::analysis::entries;
use crate::options;
use crate::passes::Cx;
use crate::rewrite::{Map, Structure, Substitution, clone_inst, make_scalar, materialize};
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Array, Func, Inst, Region, Tree, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// Loops of at most so many iterations are versioned as a whole.
const SHORT: i128 = 32;
/// And nests of short loops up to this many iterations.
const SHORT_NEST: i128 = 1024;
/// Numbers beyond this could wrap in the arithmetic of the comparisons.
const SAFE: i128 = 1 << 60;

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

/// The end of a domain: `lo..hi` with `hi` a number, or the extent of an array's axis.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum End {
    Const(i128),
    Extent(Array, u8),
}

/// Domain of every index of an access, in the order of its arguments: indices, then dynamic steps.
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
        Place::Array(a) => (0..m.arrays[a].rank)
            .map(|k| (0, End::Extent(a, k)))
            .collect(),
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

/// The domain narrowed to what the index's type can hold: inside it, index and form are one number.
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

fn checked(f: &Function, inst: Inst) -> Option<&Access> {
    f.insts[inst]
        .op
        .access()
        .filter(|a| a.guard == Guard::Checked)
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

/// One comparison in front of a loop: `lo <= invariant + spread < end`, and in a split also with the
/// loop's own index added.
#[derive(Clone, Debug)]
struct Constraint {
    with_index: bool,
    invariant: Affine,
    /// Smallest and largest contribution of the loops inside.
    spread: (i128, i128),
    lo: i128,
    end: End,
}

/// A loop, and what has to hold for some of its accesses to be inside.
struct LoopVersion {
    inst: Inst,
    versioned: bool,
    constraints: Vec<Constraint>,
    accesses: Vec<Inst>,
}

/// All loops in a few walks over the function: what is planned for one changes nothing for the others.
fn arrange(m: &mut Env, f: &mut Function, cooperative: bool, cx: &mut Cx) {
    let near = if cx.uses("neighbours") {
        near_loads(m, f)
    } else {
        FxHashSet::default()
    };
    let found = plans(m, f, &near, cooperative, cx);
    if found.is_empty() {
        return;
    }
    freeze_values(m, f, &found);
    // Freezing has put other values into the forms.
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
        // What takes the place of the loop is built as if nothing else were in its region.
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

/// What has to be arranged, innermost loops first. Loops that are arranged, those inside of them and those
/// around them are left alone by the others: two versions are enough.
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
        if checked(f, inst).is_some()
            && !near.contains(&inst)
            && let Some(l) = nearest_for(f, &structure, inst)
            && known.insert(l)
            && !is_joint(f, l, cooperative)
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
        // What is around an arranged loop keeps its one version.
        let top =
            short_nest(&mut affine, l).map(|top| if settled.contains(&top) { l } else { top });
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

/// Whether threads of a block run a loop together, so that all of them have to run the same one.
fn is_joint(f: &Function, inst: Inst, cooperative: bool) -> bool {
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

/// Changes of regions and values, to be made in one go.
#[derive(Default)]
struct Edits {
    /// What takes the place of a loop in its region.
    instead: FxHashMap<Inst, Vec<Inst>>,
    regions: Vec<Region>,
    subst: Substitution,
    /// The ends of regions that hand the results of a loop to what takes its place.
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

/// What a loop has become.
struct Whole {
    /// Its results are those of the loop.
    results: Inst,
    /// The `if` that chooses between the loop and its copy with checks.
    choice: Inst,
}

/// Loads near the entry of a list that a loop is at: `lower_access` finds the blocks around it once per
/// entry, and what is beyond the domain is absent like any other.
fn near_loads(m: &Env, f: &Function) -> FxHashSet<Inst> {
    let mut found = FxHashSet::default();
    let entries = entries::entries(f);
    if entries.is_empty() {
        return found;
    }
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    f.walk(|inst| {
        if let Op::Load(access) = &f.insts[inst].op
            && let Place::Field(field) = access.place
            && access.dynamic_steps() == 0
            && entries::near(m, &mut affine, &entries, field, &f.insts[inst].args).is_some()
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
    // Bounds may still be sums of constants: one step back is enough for what `loops` writes.
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

/// The outermost loop of a nest of short loops around and including `inst`; none when it is long.
fn short_nest(affine: &mut AffineAnalysis, inst: Inst) -> Option<Inst> {
    let (f, structure) = (affine.func, affine.structure);
    let mut total = trip_count(affine, inst).filter(|n| *n <= SHORT)?;
    let mut top = inst;
    while let Some(up) = structure.parent(top)
        && let Op::For(..) = f.insts[up].op
        && !is_joint(f, up, false)
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
            .map(|(d, v)| constraint(affine, body, index, versioned, *v, *d))
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

/// A split runs the loop in pieces: its index must count up by one, and nothing may leave it by name.
fn splittable(f: &Function, inst: Inst, label: wuji_ir::entities::Label) -> bool {
    let data = &f.insts[inst];
    let by_one = f.constant(data.args[2]).and_then(Imm::as_int) == Some(1);
    let leaves = |r: &Region| matches!(f.regions[*r].term, Term::Break(l, _) if l == label);
    by_one && !f.regions_in(data.regions[0]).iter().any(leaves)
}

/// What one index needs: `Some(None)` when it is proved already, `None` when nothing helps.
fn constraint(
    affine: &mut AffineAnalysis,
    body: Region,
    index: Value,
    versioned: bool,
    value: Value,
    domain: (i128, End),
) -> Option<Option<Constraint>> {
    if proved(affine, value, domain) {
        return Some(None);
    }
    let (lo, end) = effective(affine.func, value, domain);
    let expr = affine.expr(value);
    let mut c = Constraint {
        with_index: false,
        invariant: Affine::constant(expr.constant),
        spread: (0, 0),
        lo,
        end,
    };
    for (v, k) in &expr.terms {
        if *v == index && *k == 1 && !versioned {
            c.with_index = true;
        } else if affine.structure.is_invariant(affine.func, *v, body) {
            c.invariant = c.invariant.add_scaled(&Affine::atom(*v), *k)?;
        } else {
            let range = loop_index_range(affine, *v)?;
            let (a, b) = (range.0 * i128::from(*k), range.1 * i128::from(*k));
            c.spread = (c.spread.0 + a.min(b), c.spread.1 + a.max(b));
        }
    }
    let range = affine.range_of(&c.invariant);
    let small = |n: i128| -SAFE < n && n < SAFE;
    // Unbounded atoms of 64 bits could wrap; narrower ones cannot get far.
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

/// Constraints that differ in their constants only become one.
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

/// A number that came from memory must not change between its comparison and its use: each gets a `freeze` right
/// behind its definition, for all its uses.
fn freeze_values(m: &mut Env, f: &mut Function, plans: &[LoopVersion]) {
    let structure = Structure::of(f);
    let affine = AffineAnalysis::new(f, &structure);
    let mut atoms: Vec<Value> = Vec::new();
    let mut known: FxHashSet<Value> = FxHashSet::default();
    let constraints = plans.iter().flat_map(|p| &p.constraints);
    for (v, _) in constraints.flat_map(|c| &c.invariant.terms) {
        if !affine.is_steady_atom(*v) && known.insert(*v) {
            atoms.push(*v);
        }
    }
    // By the instruction they stand behind, or the region they begin.
    let mut behind: FxHashMap<Inst, Vec<Inst>> = FxHashMap::default();
    let mut first: FxHashMap<Region, Vec<Inst>> = FxHashMap::default();
    let mut regions: Vec<Region> = Vec::new();
    let mut subst = Substitution::new();
    let mut frozen: Vec<(Inst, Value)> = Vec::new();
    for v in atoms {
        let Some(region) = structure.def_region(f, v) else {
            continue;
        };
        let rest = std::mem::take(&mut f.regions[region].insts);
        let mut b = Builder::new(m, f);
        b.region = region;
        let new = b.unary(UnOp::Freeze, v);
        let built = std::mem::replace(&mut f.regions[region].insts, rest);
        frozen.extend(built.iter().map(|i| (*i, v)));
        match f.values[v].def {
            ValueDef::Param(..) => first.entry(region).or_default().extend(built),
            ValueDef::Result(inst, _) => behind.entry(inst).or_default().extend(built),
        }
        subst.set(v, new);
        regions.push(region);
    }
    regions.sort();
    regions.dedup();
    for region in regions {
        let old = std::mem::take(&mut f.regions[region].insts);
        let mut new = first.remove(&region).unwrap_or_default();
        new.reserve(old.len());
        for inst in old {
            new.push(inst);
            new.extend(behind.remove(&inst).unwrap_or_default());
        }
        f.regions[region].insts = new;
    }
    subst.apply(f);
    // The freezes themselves still look at the originals.
    for (inst, v) in frozen {
        f.insts[inst].args[0] = v;
    }
}

/// A copy that keeps its checks; it runs at the edges only.
fn guarded_copy(f: &mut Function, inst: Inst) -> Inst {
    let copy = clone_inst(f, inst, &mut Map::new());
    let mut loops = vec![copy];
    for r in f.insts[copy].regions.clone() {
        f.insts_in(r).for_each(|i| loops.push(i));
    }
    for i in loops {
        if let Op::For(_, kind) = &mut f.insts[i].op {
            *kind = ForKind::Boundary;
        }
    }
    copy
}

fn mark(f: &mut Function, accesses: &[Inst]) {
    for i in accesses {
        if let Some(a) = f.insts[*i].op.access_mut() {
            a.guard = Guard::InBounds;
        }
    }
}

/// `if inside { loop without checks } else { loop with checks }`.
fn version(m: &mut Env, f: &mut Function, region: Region, plan: &LoopVersion) -> Whole {
    let guarded = guarded_copy(f, plan.inst);
    mark(f, &plan.accesses);
    let mut b = Builder::new(m, f);
    b.region = region;
    b.span = b.func.spans[plan.inst];
    let inside = all_hold(&mut b, &plan.constraints);
    let choice = choose(&mut b, inside, plan.inst, guarded);
    Whole {
        results: choice,
        choice,
    }
}

/// `if c { a } else { b }` of two instructions with the same results.
fn choose(b: &mut Builder, c: Value, then: Inst, otherwise: Inst) -> Inst {
    let types: Vec<Type> = b.func.insts[then]
        .results
        .iter()
        .map(|v| b.func.ty(*v))
        .collect();
    let choice = b.push_typed(Op::If, &[c], &types);
    for inst in [then, otherwise] {
        let region = b.region(&[], |b, _| {
            b.func.regions[b.region].insts.push(inst);
            let results: Values = b.func.insts[inst].results.iter().copied().collect();
            b.end(Term::Yield(results));
        });
        b.func.insts[choice].regions.push(region);
    }
    choice
}

fn all_hold(b: &mut Builder, constraints: &[Constraint]) -> Value {
    let mut all: Option<Value> = None;
    for c in constraints.iter().filter(|c| !c.with_index) {
        let ok = holds(b, c);
        all = Some(match all {
            Some(a) => b.binary(BinOp::And, a, ok),
            None => ok,
        });
    }
    match all {
        Some(v) => v,
        None => b.bool(true),
    }
}

/// `lo <= invariant + spread.0` and `invariant + spread.1 < end`.
fn holds(b: &mut Builder, c: &Constraint) -> Value {
    let inv = materialize(b, &c.invariant);
    let low = b.i64(clamp64(c.spread.0 - c.lo));
    let from_lo = b.binary(BinOp::Add, inv, low);
    let width = c.spread.1 - c.spread.0;
    let room = match c.end {
        End::Const(hi) => b.i64(clamp64(hi - c.lo - width)),
        End::Extent(a, k) => {
            let extent = b.value(Op::ArrayExtent(a, k), &[]);
            let less = b.i64(clamp64(c.lo + width));
            b.binary(BinOp::Sub, extent, less)
        }
    };
    let zero = b.i64(0);
    let above = b.compare(CmpOp::Ge, from_lo, zero);
    let below = b.compare(CmpOp::Lt, from_lo, room);
    b.binary(BinOp::And, above, below)
}

fn clamp64(n: i128) -> i64 {
    n.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Runs the loop in up to three pieces, in order: before, inside and after the part where every index
/// is inside.
fn split(m: &mut Env, f: &mut Function, region: Region, plan: &LoopVersion) -> Whole {
    let data = f.insts[plan.inst].clone();
    let scalar = f.ty(data.args[0]).as_scalar();
    let (Some(scalar), true) = (scalar, plan.constraints.iter().any(|c| c.with_index)) else {
        return version(m, f, region, plan);
    };
    let guarded = guarded_copy(f, plan.inst);
    mark(f, &plan.accesses);
    let mut b = Builder::new(m, f);
    b.region = region;
    b.span = b.func.spans[plan.inst];
    let (lo, hi) = (data.args[0], data.args[1]);
    let wide_lo = saturate(&mut b, lo);
    let wide_hi = saturate(&mut b, hi);
    // An empty loop has all its pieces at `lo`.
    let wide_hi = b.binary(BinOp::Max, wide_lo, wide_hi);
    let (mut from, mut to) = (wide_lo, wide_hi);
    for c in plan.constraints.iter().filter(|c| c.with_index) {
        let (least, most) = interior(&mut b, c);
        from = b.binary(BinOp::Max, from, least);
        to = b.binary(BinOp::Min, to, most);
    }
    let from = b.binary(BinOp::Min, from, wide_hi);
    let inside = all_hold(&mut b, &plan.constraints);
    let from = b.select(inside, from, wide_hi);
    let to = b.binary(BinOp::Max, to, from);
    let to = b.binary(BinOp::Min, to, wide_hi);
    let (from, to) = (b.convert(from, scalar), b.convert(to, scalar));
    // Beyond what `i64` can say, everything is the last piece.
    let tail = b.binary(BinOp::Max, to, lo);
    let (zero, three, one) = (b.i64(0), b.i64(3), b.i64(1));
    let carried = &data.args[3..];
    let mut chosen = plan.inst;
    let pieces = b.for_range(
        ForKind::Serial,
        (zero, three, one),
        carried,
        |b, _, piece, now| {
            let (zero, one) = (b.i64(0), b.i64(1));
            let first = b.compare(CmpOp::Eq, piece, zero);
            let middle = b.compare(CmpOp::Eq, piece, one);
            let start = b.select(middle, from, tail);
            let start = b.select(first, lo, start);
            let stop = b.select(middle, to, hi);
            let stop = b.select(first, from, stop);
            for inst in [plan.inst, guarded] {
                let args = &mut b.func.insts[inst].args;
                args[0] = start;
                args[1] = stop;
                for (a, v) in args[3..].iter_mut().zip(now) {
                    *a = *v;
                }
            }
            chosen = choose(b, middle, plan.inst, guarded);
            b.func.insts[chosen].results.iter().copied().collect()
        },
    );
    Whole {
        results: pieces,
        choice: chosen,
    }
}

/// An integer as `i64`; what is larger than that is as large as it gets.
fn saturate(b: &mut Builder, v: Value) -> Value {
    if b.func.ty(v).as_scalar() != Some(Scalar::U64) {
        return b.convert(v, Scalar::I64);
    }
    let most = b.int(Scalar::U64, i64::MAX.into());
    let v = b.binary(BinOp::Min, v, most);
    b.convert(v, Scalar::I64)
}

/// The indices for which a constraint holds: from the first to before the second.
fn interior(b: &mut Builder, c: &Constraint) -> (Value, Value) {
    let inv = materialize(b, &c.invariant);
    let least = b.i64(clamp64(c.lo - c.spread.0));
    let least = b.binary(BinOp::Sub, least, inv);
    let most = match c.end {
        End::Const(hi) => b.i64(clamp64(hi - c.spread.1)),
        End::Extent(a, k) => {
            let extent = b.value(Op::ArrayExtent(a, k), &[]);
            let less = b.i64(clamp64(c.spread.1));
            b.binary(BinOp::Sub, extent, less)
        }
    };
    (least, b.binary(BinOp::Sub, most, inv))
}
