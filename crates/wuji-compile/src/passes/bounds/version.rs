//! Emits loop versions: an unchecked one whose accesses are in range, and a checked one.

use super::*;

/// A number loaded from memory must not change between its comparison and its use: each gets a `freeze` after its
/// definition, for all its uses.
pub(super) fn freeze_values(m: &mut Env, f: &mut Function, constraints: Vec<Constraint>) {
    let structure = Structure::of(f);
    let affine = AffineAnalysis::new(f, &structure);
    let mut atoms: Vec<Value> = Vec::new();
    let mut known: FxHashSet<Value> = FxHashSet::default();
    for (v, _) in constraints.iter().flat_map(|c| &c.invariant.terms) {
        if !affine.is_steady_atom(*v) && known.insert(*v) {
            atoms.push(*v);
        }
    }
    // By the instruction they follow, or the region they begin.
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
    // The freezes themselves use the originals.
    for (inst, v) in frozen {
        f.insts[inst].args[0] = v;
    }
}

/// A copy that keeps its checks; it only runs at the boundary.
pub(super) fn guarded_copy(f: &mut Function, inst: Inst) -> Inst {
    let copy = clone_inst(f, inst, &mut Map::new());
    mark_boundary(f, copy);
    copy
}

/// Marks an instruction and those inside it as code that seldom runs.
pub(super) fn mark_boundary(f: &mut Function, inst: Inst) {
    let mut loops = vec![inst];
    for r in f.insts[inst].regions.clone() {
        f.insts_in(r).for_each(|i| loops.push(i));
    }
    for i in loops {
        if let Op::For(_, kind) = &mut f.insts[i].op {
            *kind = ForKind::Boundary;
        }
    }
}

pub(super) fn mark(f: &mut Function, accesses: &[Inst]) {
    for i in accesses {
        if let Some(a) = f.insts[*i].op.access_mut() {
            a.guard = Guard::InBounds;
        }
    }
}

/// `if in_range { unchecked loop } else { checked loop }`.
pub(super) fn version(m: &mut Env, f: &mut Function, region: Region, plan: &LoopVersion) -> Whole {
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

/// `if c { a } else { b }` for two instructions with the same results.
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

pub(super) fn all_hold(b: &mut Builder, constraints: &[Constraint]) -> Value {
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
            let extent = b.extent(a, k);
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

/// Splits the loop into up to three parts, in order: before, inside and after the range where every index is in
/// range.
pub(super) fn split(m: &mut Env, f: &mut Function, region: Region, plan: &LoopVersion) -> Whole {
    if !plan.constraints.iter().any(|c| c.with_index) {
        return version(m, f, region, plan);
    }
    let guarded = guarded_copy(f, plan.inst);
    mark(f, &plan.accesses);
    split_around(m, f, region, plan, guarded)
}

/// The loop runs where the constraints hold, and another version of it before and after.
pub(super) fn split_around(
    m: &mut Env,
    f: &mut Function,
    region: Region,
    plan: &LoopVersion,
    guarded: Inst,
) -> Whole {
    let data = f.insts[plan.inst].clone();
    let scalar = f.ty(data.args[0]).as_scalar().unwrap_or(Scalar::I64);
    let mut b = Builder::new(m, f);
    b.region = region;
    b.span = b.func.spans[plan.inst];
    let (lo, hi) = (data.args[0], data.args[1]);
    let wide_lo = saturate(&mut b, lo);
    let wide_hi = saturate(&mut b, hi);
    // In an empty loop all parts begin at `lo`.
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
    // Beyond the range of `i64`, everything is in the last part.
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
            let start = b.select(first, lo, tail);
            let stop = b.select(first, from, hi);
            for (inst, start, stop) in [(plan.inst, from, to), (guarded, start, stop)] {
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

/// An integer as `i64`, saturated.
fn saturate(b: &mut Builder, v: Value) -> Value {
    if b.func.ty(v).as_scalar() != Some(Scalar::U64) {
        return b.convert(v, Scalar::I64);
    }
    let most = b.int(Scalar::U64, i64::MAX.into());
    let v = b.binary(BinOp::Min, v, most);
    b.convert(v, Scalar::I64)
}

/// The half-open range of indices for which a constraint holds.
fn interior(b: &mut Builder, c: &Constraint) -> (Value, Value) {
    let inv = materialize(b, &c.invariant);
    let least = b.i64(clamp64(c.lo - c.spread.0));
    let least = b.binary(BinOp::Sub, least, inv);
    let most = match c.end {
        End::Const(hi) => b.i64(clamp64(hi - c.spread.1)),
        End::Extent(a, k) => {
            let extent = b.extent(a, k);
            let less = b.i64(clamp64(c.spread.1));
            b.binary(BinOp::Sub, extent, less)
        }
    };
    (least, b.binary(BinOp::Sub, most, inv))
}
