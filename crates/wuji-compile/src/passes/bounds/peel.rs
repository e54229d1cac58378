//! Peels off the iterations at the ends of a loop that choose another neighbour: `select(j - 1 >= 0, j - 1, n - 1)` is `j - 1` in all
//! but the first one.
//!
//! At periodic and clamped boundaries, indices are made of comparisons, minima, maxima, masks and remainders that have one outcome
//! in most iterations. Such a loop is split like one whose accesses may be out of range. In the middle part the outcomes are
//! known, so neighbours are adjacent in memory and vectors load them as such.

use super::version::{guarded_copy, split_around};
use super::*;

/// The most iterations at an end of the loop.
const MOST_PEELED: i128 = 8;
/// A replacement can decide others: the remainder of a number that is in range is not negative.
const ROUNDS: usize = 3;

/// A loop whose middle part is being simplified.
struct Peeling {
    inst: Inst,
    /// The loop as it was.
    guarded: Inst,
    constraints: Vec<Constraint>,
}

/// What an instruction comes down to in the middle part of a loop.
struct Outcome {
    around: Inst,
    inst: Inst,
    constraints: Vec<Constraint>,
    result: Known,
}

#[derive(Copy, Clone)]
enum Known {
    Truth(bool),
    Operand(Value),
    /// An operand less a number of periods.
    Less(Value, i64),
}

/// Splits the loops with such indices.
pub(super) fn peel(m: &mut Env, f: &mut Function, cx: &mut Cx) {
    let mut peelings: Vec<Peeling> = Vec::new();
    for round in 0..ROUNDS {
        let found = outcomes(m, f);
        if round == 0 {
            for inst in loops_to_peel(f, &found) {
                if cx.fuel() {
                    peelings.push(Peeling {
                        inst,
                        guarded: guarded_copy(f, inst),
                        constraints: Vec::new(),
                    });
                }
            }
        }
        let mut replaced = Substitution::new();
        let mut any = false;
        for outcome in found {
            let Some(peeling) = peelings.iter_mut().find(|p| p.inst == outcome.around) else {
                continue;
            };
            any = true;
            for c in outcome.constraints {
                merge(&mut peeling.constraints, c);
            }
            match outcome.result {
                Known::Truth(holds) => {
                    f.insts[outcome.inst].op = Op::Const(Imm::bool(holds));
                    f.insts[outcome.inst].args.clear();
                }
                Known::Operand(v) => replaced.set(f.result(outcome.inst), v),
                Known::Less(v, periods) => subtract(f, outcome.inst, v, periods),
            }
        }
        for peeling in &peelings {
            fold_selections(f, peeling.inst, &mut replaced);
        }
        if !any {
            break;
        }
        replaced.apply(f);
    }
    emit(m, f, peelings);
}

/// Makes an instruction the difference of a value and a constant.
fn subtract(f: &mut Function, inst: Inst, v: Value, constant: i64) {
    let ty = f.ty(f.result(inst));
    let scalar = ty.as_scalar().unwrap_or(Scalar::I64);
    let imm = Op::Const(Imm::int(scalar, constant.into()));
    let number = f.add_inst(imm, Values::new(), &[ty], f.spans[inst]);
    f.regions[f.entry].insts.insert(0, number);
    let args = [v, f.result(number)];
    f.insts[inst].op = Op::Binary(BinOp::Sub);
    f.insts[inst].args = args.into_iter().collect();
}

/// Replaces selections whose condition is known by now.
fn fold_selections(f: &Function, inst: Inst, replaced: &mut Substitution) {
    f.insts_in(f.insts[inst].regions[0]).for_each(|i| {
        let data = &f.insts[i];
        if data.op == Op::Select
            && let Some(holds) = f.constant(data.args[0]).and_then(Imm::as_bool)
        {
            let chosen = data.args[if holds { 1 } else { 2 }];
            if replaced.get(f.result(i)) == f.result(i) {
                replaced.set(f.result(i), chosen);
            }
        }
    });
}

fn emit(m: &mut Env, f: &mut Function, peelings: Vec<Peeling>) {
    if peelings.is_empty() {
        return;
    }
    let structure = Structure::of(f);
    let mut edits = Edits::default();
    for peeling in peelings {
        let Some(region) = structure.region_of[peeling.inst].expand() else {
            continue;
        };
        let plan = LoopVersion {
            inst: peeling.inst,
            versioned: false,
            constraints: peeling.constraints,
            accesses: Vec::new(),
        };
        let rest = std::mem::take(&mut f.regions[region].insts);
        let whole = split_around(m, f, region, &plan, peeling.guarded);
        let built = std::mem::replace(&mut f.regions[region].insts, rest);
        edits.replace(f, region, &plan, whole, built);
    }
    edits.apply(f);
}

/// The loops that some outcome depends on, without those around others.
fn loops_to_peel(f: &Function, found: &[Outcome]) -> Vec<Inst> {
    let structure = Structure::of(f);
    let mut loops: Vec<Inst> = Vec::new();
    let mut outer: FxHashSet<Inst> = FxHashSet::default();
    for outcome in found.iter().filter(|o| !o.constraints.is_empty()) {
        if !loops.contains(&outcome.around) {
            loops.push(outcome.around);
            let first = structure.parent(outcome.around);
            outer.extend(std::iter::successors(first, |i| structure.parent(*i)));
        }
    }
    loops.retain(|inst| !outer.contains(inst));
    loops
}

/// The instructions behind indices whose outcome is known in most iterations.
fn outcomes(m: &Env, f: &Function) -> Vec<Outcome> {
    let indices = behind_indices(m, f);
    let mut found = Vec::new();
    if indices.is_empty() {
        return found;
    }
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    f.walk(|inst| {
        let of_index = (f.insts[inst].results.first()).is_some_and(|v| indices.contains(v));
        if of_index
            && let Some(around) = long_loop(&mut affine, inst)
            && let Some((result, constraints)) = outcome(&mut affine, inst, around)
        {
            found.push(Outcome {
                around,
                inst,
                constraints,
                result,
            });
        }
    });
    found
}

/// The results of decisions that the indices of accesses are made of.
fn behind_indices(m: &Env, f: &Function) -> FxHashSet<Value> {
    let mut open: Vec<Value> = Vec::new();
    f.walk(|inst| {
        let data = &f.insts[inst];
        if let Some(access) = data.op.access() {
            let count = domains(m, f, access).len();
            open.extend(data.args.iter().take(count));
        }
    });
    let mut seen: FxHashSet<Value> = FxHashSet::default();
    let mut decisions: FxHashSet<Value> = FxHashSet::default();
    while let Some(v) = open.pop() {
        let Some(inst) = f.def(v).filter(|_| seen.insert(v)) else {
            continue;
        };
        let data = &f.insts[inst];
        let decides = matches!(
            data.op,
            Op::Compare(_) | Op::Binary(BinOp::Min | BinOp::Max | BinOp::And | BinOp::Rem)
        );
        if decides {
            decisions.insert(v);
        }
        let computes = matches!(
            data.op,
            Op::Binary(_) | Op::Unary(_) | Op::Convert(_) | Op::Select
        );
        if decides || computes {
            open.extend(data.args.iter());
        }
    }
    decisions
}

/// The innermost loop around an instruction that is long and can be split.
fn long_loop(affine: &mut AffineAnalysis, inst: Inst) -> Option<Inst> {
    let mut at = nearest_for(affine.func, affine.structure, inst)?;
    while trip_count(affine, at).is_some_and(|n| n <= SHORT) {
        at = nearest_for(affine.func, affine.structure, at)?;
    }
    let Op::For(label, kind) = affine.func.insts[at].op else {
        return None;
    };
    let (least, most) =
        affine.range(affine.func.regions[affine.func.insts[at].regions[0]].params[0]);
    let is_long = most.saturating_sub(least) >= SHORT;
    (is_long && kind != ForKind::Boundary && splittable(affine.func, at, label)).then_some(at)
}

/// What an instruction comes down to where these conditions hold, which is nearly everywhere. Without conditions it always does.
fn outcome(
    affine: &mut AffineAnalysis,
    inst: Inst,
    around: Inst,
) -> Option<(Known, Vec<Constraint>)> {
    let data = &affine.func.insts[inst];
    let [x, y] = data.args[..] else {
        return None;
    };
    let (a, b) = (affine.exact(x)?, affine.exact(y)?);
    // `p - q - by`.
    let above = |p: &Affine, q: &Affine, by: i64| {
        let difference = p.add_scaled(q, -1)?;
        difference.add_scaled(&Affine::constant(by), -1)
    };
    let (at_most, at_least) = (above(&b, &a, 0), above(&a, &b, 0));
    // Each possible outcome, and what must not be negative.
    let possible: Vec<(Known, Vec<Option<Affine>>)> = if let Op::Compare(op) = data.op {
        let (less, greater) = (above(&b, &a, 1), above(&a, &b, 1));
        let truth = |holds: bool, e: Option<Affine>| (Known::Truth(holds), vec![e]);
        match op {
            CmpOp::Lt => vec![truth(true, less), truth(false, at_least)],
            CmpOp::Ge => vec![truth(true, at_least), truth(false, less)],
            CmpOp::Gt => vec![truth(true, greater), truth(false, at_most)],
            CmpOp::Le => vec![truth(true, at_most), truth(false, greater)],
            CmpOp::Eq => vec![truth(false, less), truth(false, greater)],
            CmpOp::Ne => vec![truth(true, less), truth(true, greater)],
        }
    } else if data.op == Op::Binary(BinOp::Max) {
        vec![
            (Known::Operand(x), vec![at_least]),
            (Known::Operand(y), vec![at_most]),
        ]
    } else if data.op == Op::Binary(BinOp::Min) {
        vec![
            (Known::Operand(x), vec![at_most]),
            (Known::Operand(y), vec![at_least]),
        ]
    } else {
        let n = b.as_constant().filter(|n| *n > 0)?;
        let period = if data.op == Op::Binary(BinOp::Rem) {
            n
        } else {
            n.checked_add(1).filter(|p| p & n == 0)?
        };
        wrapped(affine, x, &a, period, data.op == Op::Binary(BinOp::And))
    };
    for (result, conditions) in possible {
        let found: Option<Vec<Option<Constraint>>> = conditions
            .into_iter()
            .map(|e| not_negative(affine, &e?, around))
            .collect();
        if let Some(found) = found {
            return Some((result, found.into_iter().flatten().collect()));
        }
    }
    None
}

/// The outcomes of a number modulo a period: the number in the first or the last of the periods that it is in, less those before.
/// Only masks are modulo for negative numbers.
fn wrapped(
    affine: &mut AffineAnalysis,
    v: Value,
    expr: &Affine,
    period: i64,
    negative: bool,
) -> Vec<(Known, Vec<Option<Affine>>)> {
    let range = affine.range_of(expr);
    let whole = |n: i128| i64::try_from(n.div_euclid(period.into())).ok();
    let numbers = [whole(range.0), whole(range.1), Some(0)];
    let mut possible = Vec::new();
    for before in numbers
        .into_iter()
        .flatten()
        .filter_map(|k| k.checked_mul(period))
    {
        if before < 0 && !negative {
            continue;
        }
        let inside = expr.add_scaled(&Affine::constant(before), -1);
        let below = (inside.as_ref())
            .and_then(|inside| Affine::constant(period - 1).add_scaled(inside, -1));
        let result = match before {
            0 => Known::Operand(v),
            _ => Known::Less(v, before),
        };
        possible.push((result, vec![inside, below]));
    }
    possible
}

/// The condition that an expression is not negative: `Some(None)` if it never is, `None` if it is in too many iterations.
fn not_negative(
    affine: &mut AffineAnalysis,
    expr: &Affine,
    around: Inst,
) -> Option<Option<Constraint>> {
    let least = affine.range_of(expr).0;
    if least >= 0 {
        return Some(None);
    }
    let f = affine.func;
    let body = f.insts[around].regions[0];
    let index = f.regions[body].params[0];
    let sign = expr.coefficient(index);
    if sign.abs() != 1 || -least > MOST_PEELED {
        return None;
    }
    let mut c = Constraint {
        with_index: true,
        invariant: Affine::constant(sign * expr.constant),
        spread: (0, 0),
        lo: if sign > 0 { 0 } else { -SAFE },
        end: End::Const(if sign > 0 { SAFE } else { 1 }),
    };
    for (v, k) in expr.terms.iter().filter(|term| term.0 != index) {
        let k = k.checked_mul(sign)?;
        if affine.structure.is_invariant(f, *v, body) {
            affine.is_steady_atom(*v).then_some(())?;
            c.invariant = c.invariant.add_scaled(&Affine::atom(*v), k)?;
        } else {
            let range = loop_index_range(affine, *v)?;
            let (a, b) = (range.0 * i128::from(k), range.1 * i128::from(k));
            c.spread = (c.spread.0 + a.min(b), c.spread.1 + a.max(b));
        }
    }
    let range = affine.range_of(&c.invariant);
    let small = |n: i128| -SAFE / 4 < n && n < SAFE / 4;
    [range.0, range.1, c.spread.0, c.spread.1]
        .into_iter()
        .all(small)
        .then_some(Some(c))
}
