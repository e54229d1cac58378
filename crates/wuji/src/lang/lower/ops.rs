//! Operators.

use super::MISTAKE;
use super::binding::Val;
use super::body::{Body, get};
use crate::lang::ast::{At, Binary, Expr, Node};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AlgebraOp, BinOp, CmpOp, Op, ReduceOp};
use wuji_ir::types::{Imm, Scalar, Type};

fn arithmetic(op: Binary) -> Option<BinOp> {
    match op {
        Binary::Add => Some(BinOp::Add),
        Binary::Sub => Some(BinOp::Sub),
        Binary::Mul => Some(BinOp::Mul),
        Binary::Div => Some(BinOp::Div),
        Binary::Rem => Some(BinOp::Rem),
        Binary::BitAnd => Some(BinOp::And),
        Binary::BitOr => Some(BinOp::Or),
        Binary::BitXor => Some(BinOp::Xor),
        Binary::Shl => Some(BinOp::Shl),
        Binary::Shr => Some(BinOp::Shr),
        Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => None,
    }
}

fn comparison(op: Binary) -> Option<CmpOp> {
    match op {
        Binary::Eq => Some(CmpOp::Eq),
        Binary::Ne => Some(CmpOp::Ne),
        Binary::Lt => Some(CmpOp::Lt),
        Binary::Le => Some(CmpOp::Le),
        Binary::Gt => Some(CmpOp::Gt),
        Binary::Ge => Some(CmpOp::Ge),
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Rem
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr => None,
    }
}

impl Body<'_, '_> {
    /// An operator of the language on two values.
    pub(super) fn operator(&mut self, at: At, op: Binary, a: Value, b: Value) -> Result<Value> {
        match (arithmetic(op), comparison(op)) {
            (Some(op), _) => self.arithmetic(at, op, a, b),
            (None, Some(op)) => self.comparison(at, op, a, b),
            (None, None) => Err(self.fail(at, MISTAKE, "this operator is not supported")),
        }
    }

    pub(super) fn arithmetic(&mut self, at: At, op: BinOp, a: Value, b: Value) -> Result<Value> {
        let (ta, tb) = (self.ty(a), self.ty(b));
        if let (Type::Matrix(..), Type::Matrix(..) | Type::Vector(..)) = (ta, tb)
            && op == BinOp::Mul
        {
            return Ok(self.op(Op::Algebra(AlgebraOp::MatMul), &[a, b]));
        }
        let is_shift = matches!(op, BinOp::Shl | BinOp::Shr);
        // The amount may have another type.
        let b = match ta.elem() {
            Some(s) if is_shift => self.convert(b, s),
            Some(_) | None => b,
        };
        let (a, b) = self.widen(a, b);
        if self.ty(a) != self.ty(b) {
            let (ta, tb) = (self.ty(a), self.ty(b));
            return Err(self.fail(at, MISTAKE, format!("no operator for `{ta}` and `{tb}`")));
        }
        if let Err(why) = wuji_ir::infer::binary(op, self.ty(a)) {
            return Err(self.fail(at, MISTAKE, why));
        }
        Ok(self.binary(op, a, b))
    }

    /// A scalar next to a vector or matrix becomes one too.
    pub(super) fn widen(&mut self, a: Value, b: Value) -> (Value, Value) {
        match (self.ty(a), self.ty(b)) {
            (Type::Scalar(_), t @ (Type::Vector(..) | Type::Matrix(..))) => (self.splat(a, t), b),
            (t @ (Type::Vector(..) | Type::Matrix(..)), Type::Scalar(_)) => (a, self.splat(b, t)),
            _ => (a, b),
        }
    }

    fn comparison(&mut self, at: At, op: CmpOp, a: Value, b: Value) -> Result<Value> {
        let ty = self.ty(a);
        // The junction of the parts, where an aggregate can be compared.
        let join = match op {
            CmpOp::Eq => Some(ReduceOp::And),
            CmpOp::Ne => Some(ReduceOp::Or),
            CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => None,
        };
        match (ty, join) {
            (Type::Scalar(Scalar::Bool), None) => {
                let (a, b) = (self.convert(a, Scalar::U8), self.convert(b, Scalar::U8));
                Ok(self.compare(op, a, b))
            }
            (Type::Scalar(_), _) => Ok(self.compare(op, a, b)),
            (Type::Vector(..) | Type::Matrix(..), Some(join)) => {
                let lanes = self.compare(op, a, b);
                Ok(self.op(Op::Reduce(join), &[lanes]))
            }
            (Type::Struct(_), Some(join)) => {
                let mut all = self.imm(Imm::bool(op == CmpOp::Eq));
                for k in 0..self.cx.module.structs.arity(ty) {
                    let (x, y) = (self.extract(a, k), self.extract(b, k));
                    let part = self.comparison(at, op, x, y)?;
                    all = if k == 0 {
                        part
                    } else {
                        self.binary(join.binary(), all, part)
                    };
                }
                Ok(all)
            }
            _ => Err(self
                .fail(at, "W0230", "this comparison is not supported in kernels")
                .help("compare the parts, or write a `#[func]` method")),
        }
    }

    /// `a && b` and `a || b`.
    pub(super) fn short_circuit(
        &mut self,
        e: &'static Expr,
        a: Node,
        b: Node,
        and: bool,
    ) -> Result<Val> {
        let a = get!(self.value(a));
        if let Some(known) = self.constant(a).and_then(Imm::as_bool) {
            return if known == and {
                self.expr(b)
            } else {
                Ok(Val::Value(a))
            };
        }
        self.at(e.at);
        let settled = move |body: &mut Self| Ok(Val::Value(body.imm(Imm::bool(!and))));
        if and {
            self.branch(a, |body| body.expr(b), settled)
        } else {
            self.branch(a, settled, |body| body.expr(b))
        }
    }
}
