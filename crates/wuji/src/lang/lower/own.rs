//! Operators that a type of the user may have.

use super::binding::Val;
use super::body::{Body, get};
use crate::lang::ast::{At, Binary, Expr, Unary};
use crate::lang::recording::CallTarget;
use wuji_ir::Result;
use wuji_ir::ops::UnOp;

impl Body<'_, '_> {
    /// The function that is behind an operator, if there is one.
    fn own_operator(&self, at: At, number: u32) -> Result<Option<usize>> {
        Ok(match &self.callee_of(at, number)?.target {
            CallTarget::Function(k) => Some(*k),
            CallTarget::Builtin(_)
            | CallTarget::Method(_)
            | CallTarget::Constructor
            | CallTarget::Variant(_)
            | CallTarget::Unknown(_) => None,
        })
    }

    pub(super) fn own_binary(
        &mut self,
        at: At,
        number: u32,
        op: Binary,
        operands: &'static [Expr; 2],
    ) -> Result<Val> {
        let Some(k) = self.own_operator(at, number)? else {
            let [a, b] = operands;
            let (a, b) = (get!(self.value(a)), get!(self.value(b)));
            self.at(at);
            return self.operator(at, op, a, b).map(Val::Value);
        };
        let val = self.call_function(at, k, operands)?;
        match (op, val) {
            (Binary::Ne, Val::Value(equal)) => Ok(Val::Value(self.unary(UnOp::Not, equal))),
            (_, val) => Ok(val),
        }
    }

    pub(super) fn own_unary(
        &mut self,
        at: At,
        number: u32,
        op: Unary,
        operand: &'static [Expr; 1],
    ) -> Result<Val> {
        if let Some(k) = self.own_operator(at, number)? {
            return self.call_function(at, k, operand);
        }
        let a = get!(self.value(&operand[0]));
        self.at(at);
        Ok(Val::Value(match op {
            Unary::Neg => self.negate(a),
            Unary::Not => self.unary(UnOp::Not, a),
        }))
    }

    pub(super) fn own_assign(
        &mut self,
        at: At,
        number: u32,
        op: Binary,
        operands: &'static [Expr; 2],
    ) -> Result<Val> {
        match self.own_operator(at, number)? {
            Some(k) => self.call_function(at, k, operands),
            None => {
                let [place, value] = operands;
                self.assign_op(at, op, place, value)
            }
        }
    }
}
