//! Turns loops into parallel ones.

use super::candidates::{Nest, ParallelLoop};
use crate::analysis::sums::Sum;
use crate::rewrite::{Map, Structure, Substitution, clone_inst};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

pub(super) fn apply(env: &mut Env, f: &mut Function, nest: Nest) {
    let mut subst = Substitution::new();
    count_serially(env, f, nest.outer);
    let chosen = nest.is_versioned().then(|| choose(env, f, &nest));
    if let Some(branch) = chosen {
        let old = f.insts[nest.outer].results.clone();
        for (old, new) in old.iter().zip(f.insts[branch].results.clone()) {
            subst.set(*old, new);
        }
    }
    for parallel in &nest.loops {
        parallelize(env, f, parallel, &mut subst);
    }
    subst.apply(f);
    if let Some(branch) = chosen {
        // What was replaced elsewhere is what this branch yields.
        let long = f.insts[branch].regions[0];
        let own = f.insts[nest.outer].results.iter().copied().collect();
        if let Term::Yield(values) = &mut f.regions[long].term {
            *values = own;
        }
    }
}

/// A serial `foreach` becomes a `for`.
fn count_serially(env: &mut Env, f: &mut Function, inst: Inst) {
    let Op::ForEach(label, ..) = f.insts[inst].op else {
        return;
    };
    let ty = f.ty(f.insts[inst].args[0]);
    let one = Imm::int(ty.as_scalar().unwrap_or(Scalar::I64), 1);
    let one = insert_before(f, inst, |f, region| {
        let mut b = Builder::new(env, f);
        b.region = region;
        b.value(Op::Const(one), &[])
    });
    f.insts[inst].op = Op::For(label, ForKind::Serial);
    f.insts[inst].args.push(one);
}

/// Runs `write` on an empty region, whose instructions are then those before `inst`.
fn insert_before<R>(
    f: &mut Function,
    inst: Inst,
    write: impl FnOnce(&mut Function, Region) -> R,
) -> R {
    let aside = f.add_region(&[]);
    let result = write(f, aside);
    let new = std::mem::take(&mut f.regions[aside].insts);
    insert(f, inst, 0, new);
    result
}

/// Inserts instructions before (0) or after (1) another one.
pub(super) fn insert(f: &mut Function, inst: Inst, after: usize, new: Vec<Inst>) {
    for region in f.walk_regions() {
        let insts = &mut f.regions[region].insts;
        if let Some(at) = insts.iter().position(|i| *i == inst) {
            insts.splice(at + after..at + after, new);
            return;
        }
    }
}

/// Puts the nest under an `if`, whose other branch is a serial copy for loops that have few iterations.
fn choose(env: &mut Env, f: &mut Function, nest: &Nest) -> Inst {
    let (outer, entry) = (nest.outer, f.entry);
    let types: Vec<Type> = f.insts[outer].results.iter().map(|v| f.ty(*v)).collect();
    let copy = clone_inst(f, outer, &mut Map::new());
    let last = f.regions[entry].insts.last() == Some(&outer);
    let never_ends = last && matches!(f.regions[entry].term, Term::Unreachable);
    let branch_with = |f: &mut Function, inst: Inst| {
        let region = f.add_region(&[]);
        f.regions[region].insts.push(inst);
        f.regions[region].term = if never_ends {
            Term::Unreachable
        } else {
            Term::Yield(f.insts[inst].results.iter().copied().collect())
        };
        region
    };
    let regions = [branch_with(f, outer), branch_with(f, copy)];
    let aside = f.add_region(&[]);
    let mut b = Builder::new(env, f);
    b.region = aside;
    let condition = is_long(&mut b, nest);
    let branch = b.push_typed(Op::If, &[condition], &types);
    f.insts[branch].regions.extend(regions);
    f.spans[branch] = f.spans[outer];
    let new = std::mem::take(&mut f.regions[aside].insts);
    let insts = &mut f.regions[entry].insts;
    if let Some(at) = insts.iter().position(|i| *i == outer) {
        insts.splice(at..=at, new);
    }
    branch
}

/// Whether some loop has enough iterations.
fn is_long(b: &mut Builder, nest: &Nest) -> Value {
    let mut any = b.value(Op::Const(Imm::bool(false)), &[]);
    for parallel in &nest.loops {
        let [lo, hi] = [0, 1].map(|k| b.func.insts[parallel.inst].args[k]);
        let [lo, hi] = [lo, hi].map(|v| b.convert(v, Scalar::I64));
        let count = b.binary(BinOp::Sub, hi, lo);
        let from = i64::try_from(parallel.from.unwrap_or(0)).unwrap_or(i64::MAX);
        let from = b.i64(from);
        let long = b.compare(CmpOp::Ge, count, from);
        any = b.binary(BinOp::Or, any, long);
    }
    any
}

/// Turns one loop into a parallel one.
fn parallelize(env: &mut Env, f: &mut Function, parallel: &ParallelLoop, subst: &mut Substitution) {
    let inst = parallel.inst;
    let Op::For(label, _) = f.insts[inst].op else {
        return;
    };
    let body = f.insts[inst].regions[0];
    for sum in &parallel.sums {
        add_in_temp(env, f, (inst, body), sum, subst);
    }
    drop_carried(f, &parallel.sums, subst);
    let data = &mut f.insts[inst];
    data.op = Op::ForEach(label, Domain::Range { rank: 1 }, LoopHints::default());
    data.args.truncate(2);
    data.results.clear();
    f.regions[body].params.truncate(1);
    for r in f.regions_in(body) {
        if let Term::Continue(l, values) = &mut f.regions[r].term
            && *l == label
        {
            values.clear();
        }
    }
}

/// A carried sum becomes atomics on a temp.
fn add_in_temp(
    env: &mut Env,
    f: &mut Function,
    (inst, body): (Inst, Region),
    sum: &Sum,
    subst: &mut Substitution,
) {
    let first = f.insts[inst].args[3 + sum.number];
    let ty = f.ty(first);
    let place = Place::Temp(env.temps.push(TempData { ty }));
    let store = Op::Store(Access::write(place));
    let store = f.add_inst(store, Values::from_slice(&[first]), &[], Span::UNKNOWN);
    insert_store(f, inst, first, store);
    let load = Op::Load(Access::read(place));
    let load = f.add_inst(load, Values::new(), &[ty], Span::UNKNOWN);
    insert(f, inst, 1, vec![load]);
    subst.set(f.insts[inst].results[sum.number], f.result(load));
    for update in &sum.updates {
        let atomic = Op::Atomic(sum.op, Access::write(place));
        let args = Values::from_slice(&[update.operand]);
        let mut new = f.add_inst(atomic, args, &[ty], f.spans[update.after]);
        for (condition, holds) in &update.conditions {
            new = under(f, (*condition, *holds), new);
        }
        insert(f, update.after, 1, vec![new]);
    }
    // Nothing sees the sums so far.
    subst.set(f.regions[body].params[sum.number + 1], first);
}

/// Puts the store of a sum's first value before a loop: at the start of the region, if it is known there, so that serial
/// code between loops is one task less.
fn insert_store(f: &mut Function, inst: Inst, first: Value, store: Inst) {
    let structure = Structure::of(f);
    let Some(region) = structure.region_of[inst].expand() else {
        return;
    };
    let home = structure.def_region(f, first);
    if region != f.entry && home.is_some_and(|home| home != region) {
        f.regions[region].insts.insert(0, store);
    } else {
        insert(f, inst, 0, vec![store]);
    }
}

/// Loops inside no longer carry the sums.
fn drop_carried(f: &mut Function, sums: &[Sum], subst: &mut Substitution) {
    let mut through: Vec<(Inst, usize)> = sums.iter().flat_map(|s| s.through.clone()).collect();
    through.sort_by_key(|(inst, number)| (*inst, std::cmp::Reverse(*number)));
    for (inst, number) in through {
        let first = f.insts[inst].args.remove(3 + number);
        let result = f.insts[inst].results.remove(number);
        subst.set(result, first);
        let body = f.insts[inst].regions[0];
        let own = f.regions[body].params.remove(number + 1);
        subst.set(own, first);
        let label = f.insts[inst].op.label();
        for r in f.regions_in(body) {
            if let Term::Continue(l, values) = &mut f.regions[r].term
                && Some(*l) == label
            {
                values.remove(number);
            }
        }
    }
}

/// An instruction that runs only where a condition has a value.
fn under(f: &mut Function, (condition, holds): (Value, bool), inst: Inst) -> Inst {
    let branch = f.add_inst(Op::If, Values::from_slice(&[condition]), &[], f.spans[inst]);
    let sides = [true, false].map(|side| {
        let region = f.add_region(&[]);
        f.regions[region].term = Term::Yield(Values::new());
        if side == holds {
            f.regions[region].insts.push(inst);
        }
        region
    });
    f.insts[branch].regions.extend(sides);
    branch
}
