//! On a GPU: unrolls contiguous loops within an iteration by four, so that four elements are one vector load.
//!
//! `for j in lo..hi` is split into up to three parts, in order: up to the first multiple of four, by fours, and the
//! rest. The loop by fours counts groups: the offset of group `q` is a multiple of 16 bytes for any `q`, which the
//! backend can see. Short bodies are unrolled by sixteen, so that four loads are in flight.

use crate::analysis::affine::AffineAnalysis;
use crate::options::Target;
use crate::passes::Cx;
use crate::rewrite::{Map, Structure, Substitution, clone_body, clone_inst};
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::layout::GPU_VECTOR;
use wuji_ir::module::{Env, Function, Module, Term, Values};
use wuji_ir::ops::{BinOp, CmpOp, ForKind, Op, Space};
use wuji_ir::types::{Scalar, Type};

/// The unroll factor.
const GROUP: i64 = 4;
/// Groups per iteration if the body is short, so that the next loads are in flight during the computation.
const GROUPS: i64 = 4;
/// The most instructions of a short body.
const SHORT_BODY: usize = 32;
/// The largest load of one instruction, and its alignment.
const LOAD: i64 = GPU_VECTOR as i64;
/// Longer bodies are not worth four copies.
const MAX_BODY: usize = 48;
/// The backend unrolls shorter loops.
const MIN_TRIPS: i128 = 16;

/// The pass; the [module](self) describes it.
pub fn vectorize_loads(m: &mut Module, cx: &mut Cx) -> Result<()> {
    if cx.options.target == Target::Cpu {
        return Ok(());
    }
    for f in m.funcs.values_mut() {
        let mut loops = candidates(f);
        loops.retain(|_| cx.fuel());
        for (region, inst) in loops {
            group(&mut m.env, f, region, inst);
        }
    }
    Ok(())
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

/// A loop with a step of 1 and a short body without early exits.
fn is_simple(f: &Function, inst: Inst) -> bool {
    let data = &f.insts[inst];
    let Op::For(label, ForKind::Serial) = data.op else {
        return false;
    };
    let (lo, hi) = (data.args[0], data.args[1]);
    let index = f.ty(lo).as_scalar();
    let int = |v: Value| f.constant(v).and_then(|imm| imm.as_int());
    let long = match (int(lo), int(hi)) {
        (Some(lo), Some(hi)) => hi - lo >= MIN_TRIPS,
        (_, _) => true,
    };
    let body = data.regions[0];
    let insts = &f.regions[body].insts;
    long && matches!(index, Some(Scalar::I32 | Scalar::I64))
        && int(data.args[2]) == Some(1)
        && insts.len() <= MAX_BODY
        && insts.iter().all(|i| f.insts[*i].regions.is_empty())
        && matches!(&f.regions[body].term, Term::Continue(to, _) if *to == label)
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
    let masked = f.def(value).map(|inst| &f.insts[inst]);
    let masked = masked.filter(|data| data.op == Op::Binary(BinOp::And));
    let mask = masked.and_then(|data| f.constant(data.args[1])?.as_int());
    mask.map_or(1, |mask| 1 << mask.trailing_zeros().min(LOAD.ilog2()))
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
    let mut b = Builder::new(m, f);
    b.region = region;
    b.span = b.func.spans[inst];
    let (lo, hi) = (data.args[0], data.args[1]);
    let by = i128::from(by(b.func, data.regions[0]));
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
    let mut subst = Substitution::new();
    for (old, new) in data.results.iter().zip(&f.insts[pieces].results) {
        subst.set(*old, *new);
    }
    f.regions[region].insts.extend(&rest[1..]);
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
