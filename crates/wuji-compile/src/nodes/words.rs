//! Shorthands: words at byte offsets of a tree, and control flow around them.

use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Label, Tree, Value};
use wuji_ir::module::{Term, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{I64, Scalar, Type};

/// `base + 8 * number`.
pub(super) fn word_at(b: &mut Builder, base: Value, number: Value) -> Value {
    let eight = b.i64(8);
    let bytes = b.binary(BinOp::Mul, number, eight);
    b.binary(BinOp::Add, base, bytes)
}

/// `base + 8 * number`, for a base that is known.
pub(super) fn word(b: &mut Builder, base: u64, number: Value) -> Value {
    let base = b.i64(base as i64);
    word_at(b, base, number)
}

pub(super) fn plus(b: &mut Builder, a: Value, c: i64) -> Value {
    if c == 0 {
        return a;
    }
    let c = b.i64(c);
    b.binary(BinOp::Add, a, c)
}

pub(super) fn times(b: &mut Builder, a: Value, c: i64) -> Value {
    if c == 1 {
        return a;
    }
    let c = b.i64(c);
    b.binary(BinOp::Mul, a, c)
}

/// Quotient and remainder of a number that is not negative.
pub(crate) fn divide(b: &mut Builder, a: Value, by: u64) -> (Value, Value) {
    if by == 1 {
        let zero = b.i64(0);
        return (a, zero);
    }
    if by.is_power_of_two() {
        let shift = b.i64(i64::from(by.trailing_zeros()));
        let mask = b.i64(by as i64 - 1);
        let q = b.binary(BinOp::Shr, a, shift);
        return (q, b.binary(BinOp::And, a, mask));
    }
    let by = b.i64(by as i64);
    let q = b.binary(BinOp::Div, a, by);
    (q, b.binary(BinOp::Rem, a, by))
}

pub(super) fn load(b: &mut Builder, tree: Tree, at: Value) -> Value {
    b.value(Op::MemLoad(Space::Nodes(tree), I64), &[at])
}

pub(super) fn load_at(b: &mut Builder, tree: Tree, at: u64) -> Value {
    let at = b.i64(at as i64);
    load(b, tree, at)
}

pub(super) fn store(b: &mut Builder, tree: Tree, at: Value, value: Value) {
    b.push(Op::MemStore(Space::Nodes(tree)), &[at, value]);
}

pub(super) fn store_at(b: &mut Builder, tree: Tree, at: u64, value: Value) {
    let at = b.i64(at as i64);
    store(b, tree, at, value);
}

pub(super) fn atomic(b: &mut Builder, op: AtomicOp, tree: Tree, at: Value, value: Value) -> Value {
    b.value(
        Op::MemAtomic(op, Space::Nodes(tree), Sharing::Shared),
        &[at, value],
    )
}

/// Adds to a word at a known offset; returns its old value.
pub(super) fn add_at(b: &mut Builder, tree: Tree, at: u64, value: Value) -> Value {
    let at = b.i64(at as i64);
    atomic(b, AtomicOp::Add, tree, at, value)
}

pub(super) fn exchange(b: &mut Builder, tree: Tree, at: Value, old: Value, new: Value) -> Value {
    b.value(Op::MemCompareExchange(Space::Nodes(tree)), &[at, old, new])
}

pub(super) fn call(b: &mut Builder, func: Func, args: &[Value]) -> Option<Value> {
    let inst = b.push(Op::Call(func), args);
    b.func.insts[inst].results.first().copied()
}

/// As `call`, of a function with a result.
pub(super) fn call_for(b: &mut Builder, func: Func, args: &[Value]) -> Value {
    match call(b, func, args) {
        Some(result) => result,
        None => b.i64(0),
    }
}

/// `if` without results.
pub(super) fn when(b: &mut Builder, cond: Value, then: impl FnOnce(&mut Builder)) {
    b.if_else(
        cond,
        &[],
        |b| {
            then(b);
            Values::new()
        },
        |_| Values::new(),
    );
}

/// `if` with one number as its result.
pub(super) fn choose(
    b: &mut Builder,
    cond: Value,
    then: impl FnOnce(&mut Builder) -> Value,
    otherwise: impl FnOnce(&mut Builder) -> Value,
) -> Value {
    let inst = b.if_else(
        cond,
        &[I64],
        |b| [then(b)].into_iter().collect(),
        |b| [otherwise(b)].into_iter().collect(),
    );
    b.func.result(inst)
}

/// A number, or another one if it is zero.
pub(super) fn or_else(
    b: &mut Builder,
    number: Value,
    otherwise: impl FnOnce(&mut Builder) -> Value,
) -> Value {
    let none = is_zero(b, number);
    choose(b, none, otherwise, |_| number)
}

pub(super) fn is_zero(b: &mut Builder, v: Value) -> Value {
    let zero = b.i64(0);
    b.compare(CmpOp::Eq, v, zero)
}

pub(super) fn not_zero(b: &mut Builder, v: Value) -> Value {
    let zero = b.i64(0);
    b.compare(CmpOp::Ne, v, zero)
}

/// `for k in 0..count`, in order. Not worth optimizing: the loop waits for memory.
pub(super) fn count_to(b: &mut Builder, count: Value, body: impl FnOnce(&mut Builder, Value)) {
    let (zero, one) = (b.i64(0), b.i64(1));
    b.for_range(ForKind::Boundary, (zero, count, one), &[], |b, _, k, _| {
        body(b, k);
        Values::new()
    });
}

/// `for k in 0..count` with one loop-carried number.
pub(super) fn fold_to(
    b: &mut Builder,
    count: Value,
    start: Value,
    body: impl FnOnce(&mut Builder, Value, Value) -> Value,
) -> Value {
    let (zero, one) = (b.i64(0), b.i64(1));
    let inst = b.for_range(
        ForKind::Serial,
        (zero, count, one),
        &[start],
        |b, _, k, c| {
            let next = body(b, k, c[0]);
            [next].into_iter().collect()
        },
    );
    b.func.result(inst)
}

/// For each bit of a number that is set, lowest first, with one loop-carried number.
pub(super) fn each_bit(
    b: &mut Builder,
    bits: Value,
    start: Value,
    body: impl FnOnce(&mut Builder, Value, Value) -> Value,
) -> Value {
    let (zero, one) = (b.i64(0), b.i64(1));
    let count = b.unary(UnOp::PopCount, bits);
    let inst = b.for_range(
        ForKind::Serial,
        (zero, count, one),
        &[bits, start],
        |b, _, _, carried| {
            let (bits, acc) = (carried[0], carried[1]);
            let bit = b.unary(UnOp::TrailingZeros, bits);
            let lower = plus(b, bits, -1);
            let rest = b.binary(BinOp::And, bits, lower);
            [rest, body(b, bit, acc)].into_iter().collect()
        },
    );
    b.func.insts[inst].results[1]
}

/// A loop that runs until `body` breaks out of it with one number.
pub(super) fn repeat(
    b: &mut Builder,
    carried: &[Value],
    body: impl FnOnce(&mut Builder, Label, &[Value]),
) -> Value {
    let label = b.func.fresh_label();
    let inst = b.push_typed(Op::Loop(label), carried, &[I64]);
    let types: Vec<Type> = vec![I64; carried.len()];
    let region = b.region(&types, |b, p| body(b, label, p));
    b.func.insts[inst].regions.push(region);
    b.func.result(inst)
}

/// Leaves `repeat` with a number when a condition holds.
pub(super) fn break_if(b: &mut Builder, label: Label, cond: Value, value: Value) {
    let inst = b.push_typed(Op::If, &[cond], &[]);
    let yes = b.region(&[], |b, _| {
        b.end(Term::Break(label, [value].into_iter().collect()));
    });
    let no = b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
    b.func.insts[inst].regions.extend([yes, no]);
}

/// Zeros in any memory of a tree, a whole number of words.
pub(super) fn clear(b: &mut Builder, tree: Tree, at: Value, bytes: u64) {
    let (lo, hi, one) = (b.i64(0), b.i64((bytes / 8) as i64), b.i64(1));
    let zero = b.i64(0);
    b.for_range(ForKind::Parallel, (lo, hi, one), &[], |b, _, k, _| {
        let at = word_at(b, at, k);
        b.push(Op::MemStore(Space::Bytes(tree)), &[at, zero]);
        Values::new()
    });
}

/// The largest power of two, up to the size of a word, that divides some numbers.
pub(super) fn alignment(numbers: &[u64]) -> u64 {
    let bits = numbers.iter().fold(8, |all, n| all | n);
    1 << bits.trailing_zeros()
}

/// Zeros over some bytes, by scalars of the largest size that the offset and their number are multiples of.
pub(super) fn clear_bytes(b: &mut Builder, tree: Tree, at: Value, (bytes, align): (u64, u64)) {
    let (unit, zero) = match alignment(&[bytes, align]) {
        1 => (1, b.int(Scalar::U8, 0)),
        2 => (2, b.int(Scalar::U16, 0)),
        4 => (4, b.int(Scalar::U32, 0)),
        _ => return clear(b, tree, at, bytes),
    };
    let count = b.i64((bytes / unit) as i64);
    count_to(b, count, |b, k| {
        let skip = times(b, k, unit as i64);
        let at = b.binary(BinOp::Add, at, skip);
        b.push(Op::MemStore(Space::Bytes(tree)), &[at, zero]);
    });
}

/// Bytes of a cache line.
pub(super) const LINE: u64 = 64;

/// Non-temporal stores of zeros over a cell that has cache lines to itself.
pub(super) fn stream_zeros(b: &mut Builder, tree: Tree, at: Value, bytes: u64) {
    // The offset is aligned already; the mask makes that visible to backends.
    let lines = b.i64(-(LINE as i64));
    let at = b.binary(BinOp::And, at, lines);
    let (lo, hi, one) = (b.i64(0), b.i64((bytes / LINE) as i64), b.i64(1));
    let zero = b.i64(0);
    b.for_range(ForKind::Parallel, (lo, hi, one), &[], |b, _, k, _| {
        let skip = times(b, k, LINE as i64);
        let line = b.binary(BinOp::Add, at, skip);
        for k in 0..LINE as i64 / 8 {
            let at = plus(b, line, 8 * k);
            b.push(Op::MemStore(Space::Streamed(tree)), &[at, zero]);
        }
        Values::new()
    });
}
