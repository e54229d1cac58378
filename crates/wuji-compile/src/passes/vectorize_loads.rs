//! On a GPU: unrolls contiguous loops within an iteration by four, so that four elements are one vector load.
//!
//! `for j in lo..hi` is split into up to three parts, in order: up to the first multiple of four, by fours, and the
//! rest. The loop by fours counts groups: the offset of group `q` is a multiple of 16 bytes for any `q`, which the
//! backend can see. Short bodies are unrolled by sixteen, so that four loads are in flight.
//!
//! What is the same in all iterations moves in front of a loop first, also pointers of trees that do not change, so that the
//! offsets of elements are affine in the index.

use crate::analysis::affine::AffineAnalysis;
use crate::options::Target;
use crate::passes::Cx;
use crate::rewrite::{Map, Structure, Substitution, clone_body, clone_inst};
use rustc_hash::FxHashSet;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Region, Tree, Value};
use wuji_ir::module::{Env, Function, Module, Term, ValueDef, Values};
use wuji_ir::ops::{BinOp, CmpOp, Effect, ForKind, Op, Space, UnOp};
use wuji_ir::types::{Imm, Scalar, Type};

/// The unroll factor.
const GROUP: i64 = 4;
/// Groups per iteration if the body is short, so that the next loads are in flight during the computation.
const GROUPS: i64 = 4;
/// The most instructions of a short body.
const SHORT_BODY: usize = 32;
/// The largest load of one instruction, and its alignment.
const LOAD: i64 = 16;
/// Longer bodies are not worth four copies.
const MAX_BODY: usize = 48;
/// The same if no iterations are left over, so that there are no copies beside the groups.
const MAX_WHOLE_BODY: usize = 160;
/// How many operations are looked through to find the alignment of an offset.
const MAX_DEPTH: u32 = 6;
/// The backend unrolls shorter loops.
const MIN_TRIPS: i128 = 16;

/// The pass; the [module](self) describes it.
pub fn vectorize_loads(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.target == Target::Cpu {
        return Ok(());
    }
    let changed = changed_trees(m);
    for f in m.funcs.values_mut() {
        hoist(f, &changed);
        let mut loops = candidates(f);
        loops.retain(|_| cx.fuel());
        for (region, inst) in loops {
            group(&mut m.env, f, region, inst);
        }
    }
    Ok(())
}

/// Trees whose nodes some function changes.
fn changed_trees(m: &Module) -> FxHashSet<Tree> {
    let mut changed = FxHashSet::default();
    for f in m.funcs.values() {
        f.walk(|inst| {
            let written = f.insts[inst].op.written_space();
            if let Some(Space::Nodes(t) | Space::Bytes(t) | Space::Streamed(t)) = written {
                changed.insert(t);
            }
        });
    }
    changed
}

/// Moves what is the same in all iterations in front of short loops that run at least once.
fn hoist(f: &mut Function, changed: &FxHashSet<Tree>) {
    let structure = Structure::of(f);
    for region in f.walk_regions() {
        for inst in f.regions[region].insts.clone() {
            if is_straight(f, inst) && trips(f, inst).is_some_and(|n| n > 0) {
                hoist_from(f, &structure, (region, inst), changed);
            }
        }
    }
}

fn hoist_from(
    f: &mut Function,
    structure: &Structure,
    (region, inst): (Region, Inst),
    changed: &FxHashSet<Tree>,
) {
    let body = f.insts[inst].regions[0];
    let mut moved: FxHashSet<Inst> = FxHashSet::default();
    for k in &f.regions[body].insts {
        let data = &f.insts[*k];
        let is_steady = match data.op {
            Op::MemLoad(Space::Nodes(tree), _) => !changed.contains(&tree),
            _ => data.op.effect() == Effect::Pure,
        };
        let before = |v: &Value| match f.values[*v].def {
            ValueDef::Result(def, _) if moved.contains(&def) => true,
            _ => structure.is_invariant(f, *v, body),
        };
        if is_steady && data.args.iter().all(before) {
            moved.insert(*k);
        }
    }
    if moved.is_empty() {
        return;
    }
    let (out, stay): (Vec<Inst>, Vec<Inst>) = f.regions[body]
        .insts
        .iter()
        .partition(|i| moved.contains(i));
    f.regions[body].insts = stay;
    let around = &mut f.regions[region].insts;
    if let Some(at) = around.iter().position(|i| *i == inst) {
        around.splice(at..at, out);
    }
}

/// The loops to transform, each with its region.
fn candidates(f: &Function) -> Vec<(Region, Inst)> {
    let structure = Structure::of(f);
    let mut affine = AffineAnalysis::new(f, &structure);
    let mut found = Vec::new();
    for region in f.walk_regions() {
        for inst in &f.regions[region].insts {
            if is_simple(f, *inst) && reads_neighbours(f, &mut affine, *inst) {
                found.push((region, *inst));
            }
        }
    }
    found
}

/// A serial loop with a step of 1, and a body without branches.
fn is_straight(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let Op::For(label, ForKind::Serial) = data.op else {
        return false;
    };
    let body = data.regions[0];
    let insts = &f.regions[body].insts;
    f.constant(data.args[2]).and_then(Imm::as_int) == Some(1)
        && insts.iter().all(|i| f.insts[*i].regions.is_empty())
        && matches!(&f.regions[body].term, Term::Continue(to, _) if *to == label)
}

/// The known range of a loop.
fn known_range(f: &Function, inst: Inst) -> Option<(i128, i128)> {
    let int = |v: Value| f.constant(v).and_then(Imm::as_int);
    let args = &f.insts[inst].args;
    Some((int(args[0])?, int(args[1])?))
}

fn trips(f: &Function, inst: Inst) -> Option<i128> {
    known_range(f, inst).map(|(lo, hi)| hi - lo)
}

/// Whether a loop has nothing but whole groups of `by` iterations.
fn is_whole(f: &Function, inst: Inst, by: i64) -> bool {
    let multiple = |n: i128| n % i128::from(by) == 0;
    known_range(f, inst).is_some_and(|(lo, hi)| multiple(lo) && multiple(hi))
}

/// A straight loop that is long enough and has a short body.
fn is_simple(f: &Function, inst: Inst) -> bool {
    if !is_straight(f, inst) {
        return false;
    }
    let data = &f.insts[inst];
    let index = f.ty(data.args[0]).as_scalar();
    let length = f.regions[data.regions[0]].insts.len();
    let most = if is_whole(f, inst, GROUP) {
        MAX_WHOLE_BODY
    } else {
        MAX_BODY
    };
    trips(f, inst).is_none_or(|n| n >= MIN_TRIPS)
        && matches!(index, Some(Scalar::I32 | Scalar::I64))
        && length <= most
}

/// Whether iterations read consecutive elements of a tree.
fn reads_neighbours(f: &Function, affine: &mut AffineAnalysis, inst: Inst) -> bool {
    let body = f.insts[inst].regions[0];
    let index = f.regions[body].params[0];
    let mut read = 0;
    let mut step = 0;
    for inst in &f.regions[body].insts {
        let data = &f.insts[*inst];
        let Op::MemLoad(Space::Tree(..), ty) = data.op else {
            continue;
        };
        let Type::Scalar(scalar) = ty else {
            continue;
        };
        let expr = affine.expr(data.args[0]);
        let coefficient = expr.coefficient(index);
        let others = expr.without(index);
        let aligned = (others.terms.iter()).all(|(v, c)| c * alignment(f, *v) % LOAD == 0);
        if coefficient > 0 && (GROUP * coefficient) % LOAD == 0 && aligned {
            step = coefficient;
            read += i64::from(scalar.bytes());
        }
    }
    step > 0 && read >= step
}

/// A power of two that divides a value, at most the size of a load: of the offset of a cell, its alignment.
fn alignment(f: &Function, value: Value) -> i64 {
    alignment_within(f, value, MAX_DEPTH)
}

fn alignment_within(f: &Function, value: Value, depth: u32) -> i64 {
    let power = |n: i128| 1 << n.trailing_zeros().min(LOAD.ilog2());
    if let Some(n) = f.constant(value).and_then(Imm::as_int) {
        return power(n);
    }
    let Some(data) = f
        .def(value)
        .map(|inst| &f.insts[inst])
        .filter(|_| depth > 0)
    else {
        return 1;
    };
    let of = |k: usize| alignment_within(f, data.args[k], depth - 1);
    match data.op {
        Op::Binary(BinOp::And) => of(0).max(of(1)),
        Op::Binary(BinOp::Add | BinOp::Sub) => of(0).min(of(1)),
        Op::Binary(BinOp::Mul) => (of(0) * of(1)).min(LOAD),
        Op::Select => of(1).min(of(2)),
        Op::Convert(_) | Op::Unary(UnOp::Freeze) => of(0),
        _ => 1,
    }
}

/// Replaces a loop by its parts.
fn group(m: &mut Env, f: &mut Function, region: Region, inst: Inst) {
    let data = f.insts[inst].clone();
    let Some(scalar) = f.ty(data.args[0]).as_scalar() else {
        return;
    };
    let Some(at) = f.regions[region].insts.iter().position(|i| *i == inst) else {
        return;
    };
    let rest = f.regions[region].insts.split_off(at);
    let by = by(f, data.regions[0]);
    let whole = known_range(f, inst).filter(|_| is_whole(f, inst, by));
    let mut b = Builder::new(m, f);
    b.region = region;
    b.span = b.func.spans[inst];
    if let Some((lo, hi)) = whole {
        let range = (
            b.int(scalar, lo / i128::from(by)),
            b.int(scalar, hi / i128::from(by)),
        );
        let made = in_groups(&mut b, &data.regions, scalar, range, &data.args[3..]);
        f.regions[region].insts.extend(&rest[1..]);
        replace_results(f, &data.results, &made);
        return;
    }
    let (lo, hi) = (data.args[0], data.args[1]);
    let by = i128::from(by);
    let (zero, low, high) = (b.int(scalar, 0), b.int(scalar, by - 1), b.int(scalar, -by));
    let less = b.binary(BinOp::Sub, zero, lo);
    let missing = b.binary(BinOp::And, less, low);
    let from = b.binary(BinOp::Add, lo, missing);
    // There is no multiple beyond the largest number.
    let wrapped = b.compare(CmpOp::Lt, from, lo);
    let from = b.select(wrapped, hi, from);
    let from = b.binary(BinOp::Min, from, hi);
    let to = b.binary(BinOp::And, hi, high);
    let to = b.binary(BinOp::Max, to, from);
    let shift = b.int(scalar, by.ilog2().into());
    let first_group = b.binary(BinOp::Shr, from, shift);
    let last_group = b.binary(BinOp::Shr, to, shift);
    let (begin, end, step) = (b.i64(0), b.i64(3), b.i64(1));
    let pieces = b.for_range(
        ForKind::Serial,
        (begin, end, step),
        &data.args[3..],
        |b, _, piece, now| {
            let one = b.i64(1);
            let middle = b.compare(CmpOp::Eq, piece, one);
            let before = b.compare(CmpOp::Lt, piece, one);
            let start = b.select(before, lo, to);
            let stop = b.select(before, from, hi);
            let types: Vec<Type> = now.iter().map(|v| b.func.ty(*v)).collect();
            let choice = b.push_typed(Op::If, &[middle], &types);
            let groups = b.region(&[], |b, _| {
                let range = (first_group, last_group);
                let results = in_groups(b, &data.regions, scalar, range, now);
                b.end(Term::Yield(results));
            });
            let ones = b.region(&[], |b, _| {
                let copy = clone_inst(b.func, inst, &mut Map::new());
                let data = &mut b.func.insts[copy];
                data.args[0] = start;
                data.args[1] = stop;
                for (a, v) in data.args[3..].iter_mut().zip(now) {
                    *a = *v;
                }
                if let Op::For(_, kind) = &mut data.op {
                    *kind = ForKind::Boundary;
                }
                let results = data.results.iter().copied().collect();
                let into = b.region;
                b.func.regions[into].insts.push(copy);
                b.end(Term::Yield(results));
            });
            b.func.insts[choice].regions.extend([groups, ones]);
            b.func.insts[choice].results.iter().copied().collect()
        },
    );
    let made: Values = f.insts[pieces].results.iter().copied().collect();
    f.regions[region].insts.extend(&rest[1..]);
    replace_results(f, &data.results, &made);
}

fn replace_results(f: &mut Function, old: &[Value], new: &[Value]) {
    let mut subst = Substitution::new();
    for (old, new) in old.iter().zip(new) {
        subst.set(*old, *new);
    }
    subst.apply(f);
}

/// The number of iterations that become one.
fn by(f: &Function, body: Region) -> i64 {
    if f.regions[body].insts.len() <= SHORT_BODY {
        GROUP * GROUPS
    } else {
        GROUP
    }
}

/// The loop over groups: consecutive copies of the body.
fn in_groups(
    b: &mut Builder,
    body: &[Region],
    scalar: Scalar,
    (first, last): (Value, Value),
    carried: &[Value],
) -> Values {
    let body = body[0];
    let by = by(b.func, body);
    let step = b.int(scalar, 1);
    let made = b.for_range(
        ForKind::Serial,
        (first, last, step),
        carried,
        |b, _, q, now| {
            let by_value = b.int(scalar, by.into());
            let base = b.binary(BinOp::Mul, q, by_value);
            let params = b.func.regions[body].params.clone();
            let mut state: Vec<Value> = now.to_vec();
            for k in 0..by {
                let k = b.int(scalar, k.into());
                let index = b.binary(BinOp::Add, base, k);
                let values: Vec<Value> = std::iter::once(index).chain(state).collect();
                let mut map = Map::of(&params, &values);
                let into = b.region;
                let term = clone_body(b.func, body, into, &mut map);
                // The body has no early exits: see `is_simple`.
                state = term.args().to_vec();
            }
            state.into_iter().collect()
        },
    );
    b.func.insts[made].results.iter().copied().collect()
}
