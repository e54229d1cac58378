//! Atomics as plain instructions.

use super::{Structure, Substitution};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// All atomics of a function, in pre-order.
pub fn all_atomics(f: &Function) -> Vec<Inst> {
    let mut found = Vec::new();
    f.walk(|i| {
        if matches!(f.insts[i].op, Op::Atomic(..) | Op::CompareExchange(_)) {
            found.push(i);
        }
    });
    found
}

/// Atomics on private local arrays become plain updates, so that no backend has to support them.
pub fn demote_local_atomics(m: &mut Module) {
    for f in m.funcs.values_mut() {
        let mut found = all_atomics(f);
        found.retain(|i| {
            let place = f.insts[*i].op.access().map(|a| a.place);
            matches!(place, Some(Place::Local(l)) if !f.locals[l].shared)
        });
        demote(&mut m.env, f, &found, || true);
    }
}

/// Turns these atomics into plain loads, operations and stores, while there is fuel.
pub fn demote(m: &mut Env, f: &mut Function, found: &[Inst], mut fuel: impl FnMut() -> bool) {
    if found.is_empty() {
        return;
    }
    let structure = Structure::of(f);
    let mut subst = Substitution::new();
    for &inst in found {
        if !fuel() {
            break;
        }
        let Some(region) = structure.region_of[inst].expand() else {
            continue;
        };
        let Some(at) = f.regions[region].insts.iter().position(|i| *i == inst) else {
            continue;
        };
        let rest = f.regions[region].insts.split_off(at);
        let data = f.insts[inst].clone();
        let mut b = Builder::new(m, f);
        b.region = region;
        b.span = b.func.spans[inst];
        let old = replacement(&mut b, &data);
        subst.set(data.results[0], old);
        f.regions[region].insts.extend(&rest[1..]);
    }
    subst.apply(f);
}

fn replacement(b: &mut Builder, data: &InstData) -> Value {
    let OpClass::Access(op, access) = data.op.class() else {
        unreachable!("only atomics are demoted");
    };
    let (address, values) = data.args.split_at(data.args.len() - op.operands());
    let load = Access {
        activation: Activation::Never,
        ..access.clone()
    };
    let old = b.value(Op::Load(load), address);
    let new = match op {
        AccessOp::Load => old,
        AccessOp::Store => values[0],
        AccessOp::Atomic(op) => combine(b, op, old, values[0]),
        AccessOp::CompareExchange => {
            let same = bits_equal(b, old, values[0]);
            b.select(same, values[1], old)
        }
    };
    let mut args: Values = address.into();
    args.push(new);
    b.push(Op::Store(access.clone()), &args);
    old
}

/// The value that an atomic stores.
pub fn combine(b: &mut Builder, op: AtomicOp, old: Value, value: Value) -> Value {
    let Some(binary) = op.binary() else {
        return value;
    };
    let ty = b.func.ty(old);
    if ty.elem().is_some() {
        return b.binary(binary, old, value);
    }
    let parts: Values = (0..b.env.structs.arity(ty))
        .map(|k| {
            let x = b.value(Op::Extract(k), &[old]);
            let y = b.value(Op::Extract(k), &[value]);
            combine(b, op, x, y)
        })
        .collect();
    b.value(Op::Compose(ty), &parts)
}

/// Whether two scalars have the same bits.
pub fn bits_equal(b: &mut Builder, x: Value, y: Value) -> Value {
    let to = match b.func.ty(x).as_scalar() {
        Some(Scalar::F16) => Some(Scalar::U16),
        Some(Scalar::F32) => Some(Scalar::U32),
        Some(Scalar::F64) => Some(Scalar::U64),
        _ => None,
    };
    let (x, y) = match to {
        Some(s) => (b.value(Op::Bitcast(s), &[x]), b.value(Op::Bitcast(s), &[y])),
        None => (x, y),
    };
    b.compare(CmpOp::Eq, x, y)
}

/// The identity of an operation. For float minima and maxima that is NaN.
pub fn identity(b: &mut Builder, op: AtomicOp, ty: Type) -> Value {
    match ty {
        Type::Scalar(s) => b.imm(scalar_identity(op, s)),
        Type::Vector(s, _) | Type::Matrix(s, _, _) => {
            let one = b.imm(scalar_identity(op, s));
            b.value(Op::Splat(ty), &[one])
        }
        Type::Struct(_) => {
            let parts: Vec<Type> = (0..b.env.structs.arity(ty))
                .filter_map(|k| b.env.structs.component(ty, k))
                .collect();
            let parts: Values = parts.into_iter().map(|t| identity(b, op, t)).collect();
            b.value(Op::Compose(ty), &parts)
        }
    }
}

/// The scalar identity of an operation.
pub fn scalar_identity(op: AtomicOp, s: Scalar) -> Imm {
    let float = s.is_float();
    let (lo, hi) = s.int_range().unwrap_or((0, 0));
    match op {
        AtomicOp::Add if float => Imm::float(s, -0.0),
        AtomicOp::Add | AtomicOp::Or | AtomicOp::Xor => Imm::zero(s),
        AtomicOp::Mul => Imm::int(s, 1),
        AtomicOp::Min | AtomicOp::Max if float => Imm::float(s, f64::NAN),
        AtomicOp::Min => Imm::int(s, hi),
        AtomicOp::Max => Imm::int(s, lo),
        AtomicOp::And => Imm::from_bits(s, u64::MAX),
        AtomicOp::Exchange => Imm::zero(s),
    }
}
