//! The normalized form of loops, and operations by what derivatives do with them.

use wuji_ir::entities::{Func, Region, Value};
use wuji_ir::module::{Function, Term};
use wuji_ir::ops::{
    Access, AccessOp, AlgebraOp, ComponentOp, ControlOp, ElementwiseOp, Op, OpClass, ReduceOp,
};
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

/// An operation, as far as derivatives are concerned.
pub(super) enum Flow<'a> {
    Control(ControlOp<'a>),
    Call(Func),
    Access(AccessOp, &'a Access),
    /// Its result depends on its operands only.
    Pure(Pure<'a>),
    /// No derivative flows through it.
    Constant,
}

/// An operation whose result depends on its operands only.
#[derive(Copy, Clone)]
pub(super) enum Pure<'a> {
    Elementwise(ElementwiseOp),
    Component(ComponentOp<'a>),
    Reduce(ReduceOp),
    Algebra(AlgebraOp),
}

pub(super) fn flow_of(op: &Op) -> Flow<'_> {
    match op.class() {
        OpClass::Control(op) => Flow::Control(op),
        OpClass::Call(callee) => Flow::Call(callee),
        OpClass::Access(op, access) => Flow::Access(op, access),
        OpClass::Elementwise(op) => Flow::Pure(Pure::Elementwise(op)),
        OpClass::Component(op) => Flow::Pure(Pure::Component(op)),
        OpClass::Reduce(op) => Flow::Pure(Pure::Reduce(op)),
        OpClass::Algebra(op) => Flow::Pure(Pure::Algebra(op)),
        OpClass::Constant(_)
        | OpClass::Query(_)
        | OpClass::Hint(_)
        | OpClass::Cell(..)
        | OpClass::TreeAccess(..)
        | OpClass::Memory(_)
        | OpClass::Random
        | OpClass::Thread(_)
        | OpClass::Check(_) => Flow::Constant,
    }
}

/// Whether a pure operation passes derivatives of its k-th argument on to its result, as far as its types allow.
pub(super) fn passes_on(op: Pure<'_>, k: usize) -> bool {
    match op {
        Pure::Elementwise(op) => super::partials::is_differentiable(op, k),
        Pure::Component(op) => match op {
            ComponentOp::Splat(_)
            | ComponentOp::Compose(_)
            | ComponentOp::Extract(_)
            | ComponentOp::Insert(_)
            | ComponentOp::Shuffle(_) => true,
            ComponentOp::ExtractDyn | ComponentOp::InsertDyn => k != 1,
        },
        Pure::Reduce(op) => match op {
            ReduceOp::Add | ReduceOp::Mul | ReduceOp::Min | ReduceOp::Max => true,
            ReduceOp::And | ReduceOp::Or => false,
        },
        Pure::Algebra(_) => true,
    }
}
