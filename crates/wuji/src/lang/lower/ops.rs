//! Operators.

use super::MISTAKE;
use super::binding::Val;
use super::body::{Body, get};
use crate::lang::ast::{At, Binary, Expr, Node};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp, Op, ReduceOp};
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
        match (op, ta, tb) {
            (_, Type::Struct(_), _) | (_, _, Type::Struct(_)) => {
                return Err(self
                    .fail(
                        at,
                        "W0230",
                        "operators of structs are not supported in kernels",
                    )
                    .help("write a `#[func]` method and call it by its name"));
            }
            (BinOp::Mul, Type::Matrix(..), Type::Matrix(..) | Type::Vector(..)) => {
                return Ok(self.op(Op::MatMul, &[a, b]));
            }
            _ => {}
        }
        let b = match op {
            // The amount may have another type.
            BinOp::Shl | BinOp::Shr => match ta.elem() {
                Some(s) => self.convert(b, s),
                None => b,
            },
            _ => b,
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
        match (ty, op) {
            (Type::Scalar(Scalar::Bool), CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge) => {
                let (a, b) = (self.convert(a, Scalar::U8), self.convert(b, Scalar::U8));
                Ok(self.compare(op, a, b))
            }
            (Type::Scalar(_), _) => Ok(self.compare(op, a, b)),
            (Type::Vector(..) | Type::Matrix(..), CmpOp::Eq) => {
                let lanes = self.compare(op, a, b);
                Ok(self.op(Op::Reduce(ReduceOp::And), &[lanes]))
            }
            (Type::Vector(..) | Type::Matrix(..), CmpOp::Ne) => {
                let lanes = self.compare(op, a, b);
                Ok(self.op(Op::Reduce(ReduceOp::Or), &[lanes]))
            }
            (Type::Struct(id), CmpOp::Eq | CmpOp::Ne)
                if self.cx.module.structs.0[id].name == "tuple" =>
            {
                let mut all = self.imm(Imm::bool(op == CmpOp::Eq));
                let join = if op == CmpOp::Eq {
                    BinOp::And
                } else {
                    BinOp::Or
                };
                for k in 0..self.cx.module.structs.arity(ty) {
                    let (x, y) = (self.extract(a, k), self.extract(b, k));
                    let part = self.comparison(at, op, x, y)?;
                    all = if k == 0 {
                        part
                    } else {
                        self.binary(join, all, part)
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
