//! The reverse sweep of accesses.

use super::Reverse;
use super::adjoint::Adjoint;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Temp, Value};
use wuji_ir::module::{TempData, Values};
use wuji_ir::ops::{Access, AccessOp, Activation, AtomicOp, CmpOp, Guard, Op, Place, Step};
use wuji_ir::types::Type;

impl Reverse<'_, '_> {
    pub(super) fn access(&mut self, inst: Inst, op: AccessOp, access: &Access) -> Result<()> {
        let data = &self.f.insts[inst];
        if let (true, Some(old)) = (op != AccessOp::Load, data.results.first())
            && self.take(*old).is_some()
        {
            return Err(self.refuse(
                inst,
                "W0705",
                "the old value of an atomic has no gradient",
                "read the element before the update instead",
            ));
        }
        let (at, operands) = data.args.split_at(data.args.len() - op.operands());
        let at = self.values(at)?;
        let Some(adjoint) = self.adjoint_of(access) else {
            return Ok(());
        };
        match op {
            AccessOp::Load => {
                if let Some(x) = self.take(data.results[0]) {
                    let ty = self.f.ty(data.results[0]);
                    self.add_to_memory(&adjoint, &at, ty, &x);
                }
                Ok(())
            }
            AccessOp::Store => {
                self.read_adjoint(&adjoint, &at, operands[0]);
                if self.shared.adjoints.is_overwritten(access.place) {
                    let zero = self.b.zero(self.f.ty(operands[0]));
                    let mut args = at.clone();
                    args.push(zero);
                    self.b.push(Op::Store(adjoint), &args);
                }
                Ok(())
            }
            AccessOp::Atomic(AtomicOp::Add) => {
                self.read_adjoint(&adjoint, &at, operands[0]);
                Ok(())
            }
            AccessOp::Atomic(AtomicOp::Min | AtomicOp::Max) => {
                self.extremum(access, &adjoint, &at, operands[0])
            }
            AccessOp::Atomic(AtomicOp::Mul) if !self.activity.is_active(operands[0]) => {
                let mut args = at.clone();
                args.push(self.value(operands[0])?);
                self.b.push(Op::Atomic(AtomicOp::Mul, adjoint), &args);
                Ok(())
            }
            AccessOp::Atomic(
                AtomicOp::Mul | AtomicOp::And | AtomicOp::Or | AtomicOp::Xor | AtomicOp::Exchange,
            )
            | AccessOp::CompareExchange => Err(self.refuse(
                inst,
                "W0705",
                "this atomic has no gradient",
                "atomics add, sub, min and max have one",
            )),
        }
    }

    /// The same element of the adjoint. Outside of the domain nothing happens.
    fn adjoint_of(&mut self, access: &Access) -> Option<Access> {
        let (place, activation) = match access.place {
            Place::Field(f) => {
                let adjoint = *self.shared.adjoints.fields.get(&f)?;
                let (own, other) = (&self.b.env.fields[f], &self.b.env.fields[adjoint]);
                // A cell that both share must not become active by a gradient.
                let shared = (own.tree, own.node) == (other.tree, other.node);
                let activation = if shared {
                    Activation::Never
                } else {
                    Activation::IfAbsent
                };
                (Place::Field(adjoint), activation)
            }
            Place::Array(a) => {
                let adjoint = *self.shared.adjoints.arrays.get(&a)?;
                (Place::Array(adjoint), Activation::IfAbsent)
            }
            Place::Temp(t) => (Place::Temp(self.adjoint_temp(t)), Activation::IfAbsent),
            Place::Local(_) => return None,
        };
        Some(Access {
            place,
            path: access.path.clone(),
            activation,
            guard: match access.guard {
                Guard::Checked | Guard::Silent => Guard::Silent,
                Guard::InBounds => Guard::InBounds,
            },
        })
    }

    fn adjoint_temp(&mut self, t: Temp) -> Temp {
        let ty = self.b.env.temps[t].ty;
        let temps = &mut self.b.env.temps;
        *(self.shared.temps.entry(t)).or_insert_with(|| temps.push(TempData { ty }))
    }

    /// Adds the adjoint in memory to that of a value.
    fn read_adjoint(&mut self, adjoint: &Access, at: &[Value], v: Value) {
        if self.activity.is_active(v) {
            let read = Access {
                activation: Activation::Never,
                ..adjoint.clone()
            };
            let x = self.b.value(Op::Load(read), at);
            self.add(v, Adjoint::Whole(x));
        }
    }

    /// Adds an adjoint of a type to memory: only components that are there, and only floats.
    pub(super) fn add_to_memory(&mut self, access: &Access, at: &[Value], ty: Type, x: &Adjoint) {
        let parts = match (x, ty.elem()) {
            (Adjoint::Whole(x), Some(s)) => {
                if s.is_float() {
                    let mut args: Values = at.into();
                    args.push(*x);
                    self.b
                        .push(Op::Atomic(AtomicOp::Add, access.clone()), &args);
                }
                return;
            }
            (Adjoint::Parts(parts), _) => parts.clone(),
            (Adjoint::Whole(_), None) => {
                let arity = self.b.env.structs.arity(ty) as usize;
                (0..arity).map(|k| x.part(&mut self.b, k)).collect()
            }
        };
        if ty.elem().is_some() && parts.iter().all(Option::is_some) {
            let whole = x.whole(&mut self.b, ty);
            return self.add_to_memory(access, at, ty, &Adjoint::Whole(whole));
        }
        for (k, part) in parts.into_iter().enumerate() {
            let component = self.b.env.structs.component(ty, k as u32);
            if let (Some(part), Some(component)) = (part, component) {
                let mut inner = access.clone();
                inner.path.push(Step::Const(k as u32));
                self.add_to_memory(&inner, at, component, &Adjoint::Whole(part));
            }
        }
    }

    /// `atomic min` and `max`: the first update that is the result takes the whole adjoint.
    fn extremum(
        &mut self,
        access: &Access,
        adjoint: &Access,
        at: &[Value],
        operand: Value,
    ) -> Result<()> {
        let ty = self.f.ty(operand);
        let v = self.value(operand)?;
        let lanes = match ty {
            Type::Scalar(_) => None,
            Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => {
                Some(self.b.env.structs.arity(ty))
            }
        };
        match lanes {
            None => {
                let x = self.take_if_result(access, adjoint, at, v);
                self.add(operand, Adjoint::Whole(x));
            }
            Some(n) => {
                for k in 0..n {
                    let step = |access: &Access| {
                        let mut inner = access.clone();
                        inner.path.push(Step::Const(k));
                        inner
                    };
                    let part = self.b.value(Op::Extract(k), &[v]);
                    if self
                        .b
                        .func
                        .ty(part)
                        .as_scalar()
                        .is_some_and(|s| s.is_float())
                    {
                        let x = self.take_if_result(&step(access), &step(adjoint), at, part);
                        self.add_part(operand, k as usize, x);
                    }
                }
            }
        }
        Ok(())
    }

    fn take_if_result(
        &mut self,
        access: &Access,
        adjoint: &Access,
        at: &[Value],
        v: Value,
    ) -> Value {
        let ty = self.b.func.ty(v);
        let read = Access {
            activation: Activation::Never,
            guard: Guard::Silent,
            ..access.clone()
        };
        let result = self.b.value(Op::Load(read), at);
        let same = self.b.compare(CmpOp::Eq, result, v);
        let at: Values = at.into();
        let taken = self.b.if_else(
            same,
            &[ty],
            |b| {
                let zero = b.zero(ty);
                let mut args = at;
                args.push(zero);
                let op = Op::Atomic(AtomicOp::Exchange, adjoint.clone());
                smallvec::smallvec![b.value(op, &args)]
            },
            |b| smallvec::smallvec![b.zero(ty)],
        );
        self.b.func.result(taken)
    }
}
