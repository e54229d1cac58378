//! Versions a stretch of straight-line code: an unrolled stencil around one cell gets one comparison
//! per axis in front and two copies.

use super::*;
use rustc_hash::FxHashMap;

/// Fewer accesses than this are masked one by one.
const FEW: usize = 4;

/// Longer stretches are not copied.
const LONG: usize = 1000;

/// A stretch of one region, and what has to hold for its accesses to be inside.
struct Segment {
    region: Region,
    first: Inst,
    last: Inst,
    constraints: Vec<Constraint>,
    accesses: Vec<Inst>,
}

/// Versions every stretch worth it, inside of loops only: elsewhere it would not pay.
pub(super) fn version_segments(m: &mut Module, f: &mut Function, cx: &mut Cx) {
    let structure = Structure::of(f);
    let many = |r: &Region| {
        let insts = &f.regions[*r].insts;
        insts.iter().filter(|i| checked(f, **i).is_some()).count() >= FEW
    };
    let regions: Vec<Region> = f
        .walk_regions()
        .into_iter()
        .filter(|r| many(r) && is_hot(f, &structure, *r))
        .collect();
    for region in regions {
        let Some(segment) = find(m, f, region) else {
            continue;
        };
        if !cx.fuel() {
            return;
        }
        freeze_values(m, f, &segment.constraints);
        // Freezing has put other values into the forms.
        if let Some(segment) = find(m, f, region) {
            version_segment(m, f, &segment);
        }
    }
}

/// In a loop, and not in the part of one that seldom runs.
fn is_hot(f: &Function, structure: &Structure, region: Region) -> bool {
    let mut at = structure.owner[region].expand();
    let mut in_loop = false;
    while let Some(inst) = at {
        match f.insts[inst].op {
            Op::For(_, ForKind::Boundary) => return false,
            Op::For(..) | Op::Loop(_) => in_loop = true,
            _ => {}
        }
        at = structure.parent(inst);
    }
    in_loop
}

fn find(m: &Module, f: &Function, region: Region) -> Option<Segment> {
    let structure = Structure::of(f);
    let mut sums = Sums::new(f, &structure);
    let insts = &f.regions[region].insts;
    let positions: FxHashMap<Inst, usize> =
        insts.iter().enumerate().map(|(k, i)| (*i, k)).collect();
    let place_of = |v: Value| -> Option<usize> { positions.get(&f.def(v)?).copied() };
    let mut found: Option<(usize, usize, Segment)> = None;
    for (at, inst) in insts.iter().enumerate() {
        let Some(access) = checked(f, *inst) else {
            continue;
        };
        if found.as_ref().is_some_and(|s| at - s.0 > LONG) {
            break;
        }
        let start = found.as_ref().map_or(at, |s| s.0);
        let constraints: Option<Vec<Option<Constraint>>> = domains(m, f, access)
            .iter()
            .zip(&f.insts[*inst].args)
            .map(|(d, v)| {
                let c = invariant_constraint(&mut sums, *v, *d)?;
                // Everything compared must be there when the stretch begins.
                let early = c.iter().flat_map(|c| &c.invariant.terms).all(|(v, _)| {
                    place_of(*v).is_none_or(|p| p < start)
                        && !matches!(f.values[*v].def, ValueDef::Result(..) if is_nested(f, &structure, *v, region))
                });
                early.then_some(c)
            })
            .collect();
        let Some(constraints) = constraints else {
            continue;
        };
        let (_, last, segment) = found.get_or_insert_with(|| {
            (
                at,
                at,
                Segment {
                    region,
                    first: *inst,
                    last: *inst,
                    constraints: Vec::new(),
                    accesses: Vec::new(),
                },
            )
        });
        *last = at;
        segment.last = *inst;
        segment.accesses.push(*inst);
        constraints
            .into_iter()
            .flatten()
            .for_each(|c| merge(&mut segment.constraints, c));
    }
    found.map(|s| s.2).filter(|s| s.accesses.len() >= FEW)
}

/// Whether a value is defined in a region inside of this one, and so not visible in it.
fn is_nested(f: &Function, structure: &Structure, v: Value, region: Region) -> bool {
    structure
        .def_region(f, v)
        .is_some_and(|d| d != region && structure.is_inside(d, region))
}

/// What an index needs when all its terms are compared as they are.
fn invariant_constraint(
    sums: &mut Sums,
    value: Value,
    domain: (i128, End),
) -> Option<Option<Constraint>> {
    if proved(sums, value, domain) {
        return Some(None);
    }
    let (lo, end) = effective(sums.func, value, domain);
    let invariant = sums.form(value);
    let range = sums.range_of(&invariant);
    let small = |n: i128| -SAFE < n && n < SAFE;
    (small(range.0) && small(range.1)).then_some(Some(Constraint {
        with_index: false,
        invariant,
        spread: (0, 0),
        lo,
        end,
    }))
}

fn version_segment(m: &mut Module, f: &mut Function, segment: &Segment) {
    let region = segment.region;
    let at = |f: &Function, i: Inst| f.regions[region].insts.iter().position(|x| *x == i);
    let (Some(first), Some(last)) = (at(f, segment.first), at(f, segment.last)) else {
        return;
    };
    let rest = f.regions[region].insts.split_off(last + 1);
    let body = f.regions[region].insts.split_off(first);
    let live = used_later(f, &body, &rest, region);
    let types: Vec<Type> = live.iter().map(|v| f.ty(*v)).collect();

    let mut map = Map::new();
    let guarded: Vec<Inst> = body.iter().map(|i| clone_inst(f, *i, &mut map)).collect();
    mark(f, &segment.accesses);
    let mut b = Builder::new(m, f);
    b.region = region;
    b.span = b.func.spans[segment.first];
    let inside = all_hold(&mut b, &segment.constraints);
    let choice = b.push_typed(Op::If, &[inside], &types);
    let free = b.func.add_region(&[]);
    let checked = b.func.add_region(&[]);
    b.func.insts[choice].regions.extend([free, checked]);
    f.regions[free].insts = body;
    f.regions[free].term = Term::Yield(live.iter().copied().collect());
    f.regions[checked].insts = guarded;
    f.regions[checked].term = Term::Yield(live.iter().map(|v| map.value(*v)).collect());

    let mut subst = Substitution::new();
    for (old, new) in live.iter().zip(f.insts[choice].results.clone()) {
        subst.set(*old, new);
    }
    for inst in &rest {
        apply(f, &subst, *inst);
    }
    subst.apply_to_term(f, region);
    f.regions[region].insts.extend(rest);
}

fn apply(f: &mut Function, subst: &Substitution, inst: Inst) {
    subst.apply_to_inst(f, inst);
    for r in f.insts[inst].regions.clone() {
        for i in f.regions[r].insts.clone() {
            apply(f, subst, i);
        }
        subst.apply_to_term(f, r);
    }
}

/// Values of the stretch that what comes after it uses, in order.
fn used_later(f: &Function, body: &[Inst], rest: &[Inst], region: Region) -> Vec<Value> {
    let own: FxHashSet<Value> = body
        .iter()
        .flat_map(|i| f.insts[*i].results.iter().copied())
        .collect();
    let mut live: Vec<Value> = Vec::new();
    let mut seen = FxHashSet::default();
    let mut note = |values: &[Value]| {
        for v in values {
            if own.contains(v) && seen.insert(*v) {
                live.push(*v);
            }
        }
    };
    let mut work: Vec<Inst> = rest.iter().rev().copied().collect();
    while let Some(i) = work.pop() {
        note(&f.insts[i].args);
        for r in &f.insts[i].regions {
            note(f.regions[*r].term.args());
            work.extend(f.regions[*r].insts.iter().rev());
        }
    }
    note(f.regions[region].term.args());
    live
}
