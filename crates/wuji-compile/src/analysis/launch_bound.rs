//! Bounds of parallel loops that are known when a kernel is launched, without running any of it.

use wuji_ir::entities::Value;
use wuji_ir::module::{Bound, BoundBase, Function};
use wuji_ir::ops::{BinOp, Op};
use wuji_ir::types::{Imm, Scalar};

/// The bound that a value of a kernel is: a constant, a parameter, or a sum with a parameter or with an extent of an array.
pub fn launch_bound(f: &Function, v: Value) -> Option<Bound> {
    if let Some(c) = f.constant(v).and_then(Imm::as_int) {
        return i64::try_from(c).ok().map(Bound::Const);
    }
    match base_and_sum(f, v)? {
        (BoundBase::Param(p), 0) if f.params()[p as usize] == v => Some(Bound::Param(p)),
        (base, plus) => {
            let scalar = f.ty(v).as_scalar()?;
            Some(Bound::Sum { base, plus, scalar })
        }
    }
}

/// A parameter or an extent of an array, converted at most once, plus a constant.
fn base_and_sum(f: &Function, v: Value) -> Option<(BoundBase, i64)> {
    let (mut at, mut plus) = (v, 0i64);
    loop {
        if let Some(base) = base(f, at) {
            return Some((base, plus));
        }
        let data = &f.insts[f.def(at)?];
        // The sum is computed in the type of the bound, so only the base itself may have another one.
        if let Op::Convert(_) = data.op {
            let int = f.ty(data.args[0]).as_scalar().is_some_and(Scalar::is_int);
            let base = base(f, data.args[0]).filter(|_| int)?;
            return Some((base, plus));
        }
        let Op::Binary(op) = data.op else {
            return None;
        };
        let (next, more) = term(f, op, data.args[0], data.args[1])?;
        (at, plus) = (next, plus.checked_add(more)?);
    }
}

/// A value and a constant whose sum a sum or difference is.
fn term(f: &Function, op: BinOp, a: Value, b: Value) -> Option<(Value, i64)> {
    let number = |v: Value| {
        let n = f.constant(v).and_then(Imm::as_int)?;
        i64::try_from(n).ok()
    };
    if op == BinOp::Sub {
        return Some((a, number(b)?.checked_neg()?));
    }
    match (number(a), number(b)) {
        _ if op != BinOp::Add => None,
        (_, Some(n)) => Some((a, n)),
        (Some(n), None) => Some((b, n)),
        (None, None) => None,
    }
}

fn base(f: &Function, v: Value) -> Option<BoundBase> {
    if let Some(p) = f.params().iter().position(|p| *p == v) {
        return Some(BoundBase::Param(p as u32));
    }
    if let Op::ArrayExtent(a, axis) = f.insts[f.def(v)?].op {
        return Some(BoundBase::Extent(a, axis));
    }
    None
}
