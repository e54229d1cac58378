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
    let number = |v: Value| {
        let n = f.constant(v).and_then(Imm::as_int)?;
        i64::try_from(n).ok()
    };
    let base = |v: Value| {
        if let Some(p) = f.params().iter().position(|p| *p == v) {
            return Some(BoundBase::Param(p as u32));
        }
        match f.insts[f.def(v)?].op {
            Op::ArrayExtent(a, axis) => Some(BoundBase::Extent(a, axis)),
            _ => None,
        }
    };
    loop {
        if let Some(base) = base(at) {
            return Some((base, plus));
        }
        let data = &f.insts[f.def(at)?];
        let (next, more) = match data.op {
            Op::Binary(BinOp::Add) => match (number(data.args[0]), number(data.args[1])) {
                (_, Some(n)) => (data.args[0], n),
                (Some(n), None) => (data.args[1], n),
                (None, None) => return None,
            },
            Op::Binary(BinOp::Sub) => (data.args[0], number(data.args[1])?.checked_neg()?),
            // The sum is computed in the type of the bound, so only the base itself may have another one.
            Op::Convert(_) if f.ty(data.args[0]).as_scalar().is_some_and(Scalar::is_int) => {
                return Some((base(data.args[0])?, plus));
            }
            _ => return None,
        };
        (at, plus) = (next, plus.checked_add(more)?);
    }
}
