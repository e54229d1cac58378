//! Cooperative thread blocks: thread indices, and zero-initialized shared arrays.

use crate::rewrite::Substitution;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Local, Region, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

/// Defines the block size, and clears shared arrays before any thread begins. All threads of a block take part in
/// that, including those without an iteration.
pub(super) fn prepare_threads(
    b: &mut Builder,
    body: Region,
    threads: u32,
    subst: &mut Substitution,
) {
    let asks = |inst: &Inst| {
        let op = &b.func.insts[*inst].op;
        matches!(op, Op::Thread(ThreadOp::Index | ThreadOp::BlockSize))
    };
    let asked: Vec<Inst> = b.func.insts_in(body).filter(asks).collect();
    let arrays: Vec<_> = b
        .func
        .locals
        .iter()
        .filter(|(_, d)| d.shared)
        .filter_map(|(l, d)| d.len.map(|n| (l, d.ty, n)))
        .collect();
    if asked.is_empty() && arrays.is_empty() {
        return;
    }
    let own = b.value(Op::Thread(ThreadOp::Index), &[]);
    let last = b.int(Scalar::I32, i128::from(threads) - 1);
    // Has no effect, but gives later passes the range of the number.
    let own = b.binary(BinOp::Min, own, last);
    let all = b.int(Scalar::I32, i128::from(threads));
    for inst in asked {
        let result = b.func.result(inst);
        let is_index = b.func.insts[inst].op == Op::Thread(ThreadOp::Index);
        let known = if is_index { own } else { all };
        subst.set(result, known);
    }
    if arrays.is_empty() {
        return;
    }
    for (local, ty, len) in arrays {
        clear_shared(b, own, threads, (local, ty, len));
    }
    b.barrier();
}

/// Clears a shared array, each thread with a stride of the block size.
pub(super) fn clear_shared(
    b: &mut Builder,
    own: Value,
    threads: u32,
    (local, ty, len): (Local, Type, u32),
) {
    let mut access = Access::write(Place::Local(local));
    access.guard = Guard::InBounds;
    let zero = b.zero(ty);
    let (lo, one) = (b.int(Scalar::I32, 0), b.int(Scalar::I32, 1));
    let rounds = b.int(Scalar::I32, i128::from(len / threads));
    let all = b.int(Scalar::I32, i128::from(threads));
    b.for_range(ForKind::Serial, (lo, rounds, one), &[], |b, _, k, _| {
        let before = b.binary(BinOp::Mul, k, all);
        let at = b.binary(BinOp::Add, before, own);
        b.push(Op::Store(access.clone()), &[at, zero]);
        Values::new()
    });
    let rest = len % threads;
    if rest == 0 {
        return;
    }
    let rest = b.int(Scalar::I32, i128::from(rest));
    let wanted = b.compare(CmpOp::Lt, own, rest);
    let branch = b.push_typed(Op::If, &[wanted], &[]);
    let yes = b.region(&[], |b, _| {
        let before = b.int(Scalar::I32, i128::from(len - len % threads));
        let at = b.binary(BinOp::Add, before, own);
        b.push(Op::Store(access), &[at, zero]);
        b.end(Term::Yield(Values::new()));
    });
    let no = b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
    b.func.insts[branch].regions.extend([yes, no]);
}
