//! Adjoints under construction.

use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::module::Values;
use wuji_ir::ops::{BinOp, Op};
use wuji_ir::types::Type;

/// What has been added to the adjoint of a value so far. Components to which nothing was added are absent, so that
/// no code is made for them.
#[derive(Clone, Debug)]
pub(super) enum Adjoint {
    Whole(Value),
    /// One for each component of a vector, matrix or struct.
    Parts(Vec<Option<Value>>),
}

impl Adjoint {
    /// The components, if some of them are absent.
    pub(super) fn sparse_parts(&self) -> Option<&[Option<Value>]> {
        match self {
            Adjoint::Parts(parts) if parts.iter().any(Option::is_none) => Some(parts),
            Adjoint::Parts(_) | Adjoint::Whole(_) => None,
        }
    }

    /// One value of the type, with zeros where nothing was added.
    pub(super) fn whole(&self, b: &mut Builder, ty: Type) -> Value {
        match self {
            Adjoint::Whole(v) => *v,
            Adjoint::Parts(parts) => {
                let parts: Values = parts
                    .iter()
                    .enumerate()
                    .map(|(k, part)| part.unwrap_or_else(|| zero_part(b, ty, k as u32)))
                    .collect();
                b.value(Op::Compose(ty), &parts)
            }
        }
    }

    /// Component `k`, if something was added to it.
    pub(super) fn part(&self, b: &mut Builder, k: usize) -> Option<Value> {
        match self {
            Adjoint::Whole(v) => Some(b.value(Op::Extract(k as u32), &[*v])),
            Adjoint::Parts(parts) => parts[k],
        }
    }

    pub(super) fn add(&self, b: &mut Builder, other: &Adjoint) -> Adjoint {
        match (self, other) {
            (Adjoint::Whole(x), Adjoint::Whole(y)) => Adjoint::Whole(add(b, *x, *y)),
            (Adjoint::Parts(parts), _) => {
                let sums = (0..parts.len()).map(|k| {
                    let y = other.part(b, k);
                    match (parts[k], y) {
                        (Some(x), Some(y)) => Some(add(b, x, y)),
                        (x, y) => x.or(y),
                    }
                });
                Adjoint::Parts(sums.collect())
            }
            (Adjoint::Whole(_), Adjoint::Parts(_)) => other.add(b, self),
        }
    }
}

fn zero_part(b: &mut Builder, ty: Type, k: u32) -> Value {
    let part = b.env.structs.component(ty, k);
    b.zero(part.unwrap_or(ty))
}

/// The sum of two values of one type; members of structs that are not floats keep their value.
pub(super) fn add(b: &mut Builder, x: Value, y: Value) -> Value {
    let ty = b.func.ty(x);
    match ty.elem() {
        Some(s) if s.is_float() => b.binary(BinOp::Add, x, y),
        Some(_) => x,
        None => {
            let parts: Values = (0..b.env.structs.arity(ty))
                .map(|k| {
                    let p = b.value(Op::Extract(k), &[x]);
                    let q = b.value(Op::Extract(k), &[y]);
                    add(b, p, q)
                })
                .collect();
            b.value(Op::Compose(ty), &parts)
        }
    }
}
