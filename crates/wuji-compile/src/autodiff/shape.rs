//! The normalized form of loops.

use wuji_ir::entities::{Region, Value};
use wuji_ir::module::{Function, Term};
use wuji_ir::ops::{AlgebraOp, ComponentOp, Op, OpClass, ReduceOp};
use wuji_ir::types::{Structs, Type};

/// The end of the body of a `loop`: it is left with `results` if `condition` holds, and repeated with `carried`
/// otherwise.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exit<'f> {
    pub condition: Value,
    pub results: &'f [Value],
    pub carried: &'f [Value],
}

/// The only exit of the body of a `loop`.
pub(super) fn exit_of(f: &Function, body: Region) -> Option<Exit<'_>> {
    let inst = *f.regions[body].insts.last()?;
    let data = &f.insts[inst];
    let [leave, stay] = data.regions[..] else {
        return None;
    };
    let (Op::If, Term::Break(_, results), Term::Continue(_, carried)) =
        (&data.op, &f.regions[leave].term, &f.regions[stay].term)
    else {
        return None;
    };
    Some(Exit {
        condition: data.args[0],
        results,
        carried,
    })
}

/// Whether a type has a float in it, so that a value of it can have an adjoint.
pub(super) fn has_floats(structs: &Structs, ty: Type) -> bool {
    match ty.elem() {
        Some(s) => s.is_float(),
        None => structs.flatten(ty).iter().any(|s| s.is_float()),
    }
}

/// Whether a pure operation passes derivatives of its k-th argument on to its result, as far as its types allow.
pub(super) fn passes_on(op: &Op, k: usize) -> bool {
    match op.class() {
        OpClass::Elementwise(op) => super::partials::is_differentiable(op, k),
        OpClass::Component(op) => match op {
            ComponentOp::Splat(_)
            | ComponentOp::Compose(_)
            | ComponentOp::Extract(_)
            | ComponentOp::Insert(_)
            | ComponentOp::Shuffle(_) => true,
            ComponentOp::ExtractDyn | ComponentOp::InsertDyn => k != 1,
        },
        OpClass::Reduce(op) => match op {
            ReduceOp::Add | ReduceOp::Mul | ReduceOp::Min | ReduceOp::Max => true,
            ReduceOp::And | ReduceOp::Or => false,
        },
        OpClass::Algebra(op) => match op {
            AlgebraOp::MatMul
            | AlgebraOp::Transpose
            | AlgebraOp::Dot
            | AlgebraOp::Cross
            | AlgebraOp::Outer
            | AlgebraOp::Determinant
            | AlgebraOp::Inverse => true,
        },
        OpClass::Constant(_)
        | OpClass::Query(_)
        | OpClass::Hint(_)
        | OpClass::Access(..)
        | OpClass::Cell(..)
        | OpClass::TreeAccess(..)
        | OpClass::Memory(_)
        | OpClass::Control(_)
        | OpClass::Call(_)
        | OpClass::Random
        | OpClass::Thread(_)
        | OpClass::Check(_) => false,
    }
}
