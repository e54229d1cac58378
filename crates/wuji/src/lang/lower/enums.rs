//! Enums, and the methods of `Option`.

use super::MISTAKE;
use super::binding::{Shape, Val};
use super::body::{Body, get};
use crate::lang::ast::{At, Expr, Node};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::enums::variants;
use wuji_ir::module::{MessageData, Piece};
use wuji_ir::ops::{CmpOp, Op};
use wuji_ir::types::{Imm, Scalar, Type};

/// The number of `Some`.
const SOME: i128 = 1;

impl Body<'_, '_> {
    pub(super) fn is_enum(&self, ty: Type) -> bool {
        match ty {
            Type::Struct(id) => variants(&self.cx.module.structs.0[id]).is_some(),
            Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) => false,
        }
    }

    /// The number of the variant that a value is; `None` if it is not an enum.
    pub(super) fn tag_of(&mut self, v: Value) -> Option<Value> {
        self.is_enum(self.ty(v)).then(|| self.extract(v, 0))
    }

    /// The number of a variant, and the numbers of its fields with their names.
    fn variant(&self, at: At, ty: Type, name: &str) -> Result<(usize, Vec<(String, usize)>)> {
        let found = match ty {
            Type::Struct(id) => variants(&self.cx.module.structs.0[id]).and_then(|all| {
                let k = all.iter().position(|v| v.name == name)?;
                let fields = all[k].fields.iter();
                Some((k, fields.map(|(n, at)| (n.to_string(), *at)).collect()))
            }),
            Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) => None,
        };
        found.ok_or_else(|| self.fail(at, MISTAKE, format!("`{ty}` has no variant `{name}`")))
    }

    /// Whether a value is a variant; `None` if it is a struct or tuple, which has no other.
    pub(super) fn is_variant(&mut self, at: At, val: &Val, name: &str) -> Result<Option<Value>> {
        let Val::Value(v) = val else {
            return Ok(None);
        };
        let Some(tag) = self.tag_of(*v) else {
            return Ok(None);
        };
        let (k, _) = self.variant(at, self.ty(*v), name)?;
        let number = self.int(Scalar::U8, k as i128);
        Ok(Some(self.compare(CmpOp::Eq, tag, number)))
    }

    /// The number of a field of a variant, struct or tuple.
    pub(super) fn field_of(&self, at: At, ty: Type, variant: &str, field: &str) -> Result<u32> {
        if !self.is_enum(ty) {
            return self.component(at, ty, field);
        }
        let (_, fields) = self.variant(at, ty, variant)?;
        match fields.iter().find(|f| f.0 == field) {
            Some((_, k)) => Ok(*k as u32),
            None => Err(self.fail(at, MISTAKE, format!("`{variant}` has no field `{field}`"))),
        }
    }

    /// A variant with its fields by name. Those of other variants are zero.
    pub(super) fn build_variant(
        &mut self,
        at: At,
        ty: Type,
        name: &str,
        given: &[(String, Value)],
    ) -> Result<Value> {
        let (k, fields) = self.variant(at, ty, name)?;
        let mut parts = vec![self.int(Scalar::U8, k as i128)];
        for (number, part) in self
            .cx
            .module
            .structs
            .components(ty)
            .into_iter()
            .enumerate()
        {
            if number == 0 {
                continue;
            }
            let field = fields.iter().find(|f| f.1 == number);
            let value = field.and_then(|f| given.iter().find(|g| g.0 == f.0));
            parts.push(match value {
                Some((_, v)) => *v,
                None => self.build().zero(part),
            });
        }
        Ok(self.op(Op::Compose(ty), &parts))
    }

    /// `Shape::Ball(r)`.
    pub(super) fn construct_variant(
        &mut self,
        at: At,
        shape: &Shape,
        name: &str,
        args: &'static [Expr],
    ) -> Result<Val> {
        let Shape::Value(ty) = *shape else {
            return Err(self.no_array(at));
        };
        let values = get!(self.values(args));
        self.at(at);
        let given: Vec<(String, Value)> = (0..values.len())
            .map(|k| k.to_string())
            .zip(values)
            .collect();
        self.build_variant(at, ty, name, &given).map(Val::Value)
    }

    /// `e as i32` of an enum.
    pub(super) fn discriminant(&mut self, v: Value, to: Scalar) -> Option<Value> {
        let tag = self.tag_of(v)?;
        let Type::Struct(id) = self.ty(v) else {
            return None;
        };
        let all: Vec<i64> = variants(&self.cx.module.structs.0[id])?
            .iter()
            .map(|v| v.discriminant)
            .collect();
        if (0i64..).zip(&all).all(|(k, d)| k == *d) {
            return Some(self.convert(tag, to));
        }
        let mut found = self.int(to, 0);
        for (k, discriminant) in all.iter().enumerate() {
            let number = self.int(Scalar::U8, k as i128);
            let here = self.compare(CmpOp::Eq, tag, number);
            let value = self.int(Scalar::I64, i128::from(*discriminant));
            let value = self.convert(value, to);
            found = self.select(here, value, found);
        }
        Some(found)
    }

    fn is_some(&mut self, v: Value) -> Value {
        let tag = self.extract(v, 0);
        let some = self.int(Scalar::U8, SOME);
        self.compare(CmpOp::Eq, tag, some)
    }

    /// `e?`: nothing is all zeros.
    pub(super) fn try_expr(&mut self, at: At, e: Node) -> Result<Val> {
        let v = get!(self.value(e));
        self.at(at);
        let cond = self.is_some(v);
        let result = self.frame().source.result.clone();
        let shape = self.cx.shape(&result);
        self.branch(
            cond,
            |_| Ok(Val::Unit),
            |b| match shape {
                Shape::Value(ty) => {
                    let nothing = b.build().zero(ty);
                    b.returns(at, Val::Value(nothing))
                }
                Shape::Unit | Shape::Array(..) | Shape::Data => Err(b.no_array(at)),
            },
        )?;
        Ok(Val::Value(self.extract(v, 1)))
    }

    /// `c.then_some(v)`.
    pub(super) fn then_some(&mut self, ty: Type, c: Value, v: Value) -> Value {
        let tag = self.convert(c, Scalar::U8);
        let part = self.ty(v);
        let zero = self.build().zero(part);
        let value = self.select(c, v, zero);
        self.op(Op::Compose(ty), &[tag, value])
    }

    /// Methods of `Option`; `None` if there is no such method.
    pub(super) fn option_method(&mut self, name: &str, v: Value, rest: &[Value]) -> Option<Value> {
        self.tag_of(v)?;
        let some = self.is_some(v);
        Some(match (name, rest) {
            ("is_some", []) => some,
            ("is_none", []) => {
                let no = self.imm(Imm::bool(false));
                self.compare(CmpOp::Eq, some, no)
            }
            ("unwrap", []) => {
                let pieces = vec![Piece::Text(
                    "called `Option::unwrap()` on a `None` value".to_string(),
                )];
                let message = self.cx.module.messages.push(MessageData { pieces });
                self.push(Op::Assert(message), &[some]);
                self.extract(v, 1)
            }
            // The value of nothing is zero.
            ("unwrap_or_default", []) => self.extract(v, 1),
            ("unwrap_or", [other]) => {
                let value = self.extract(v, 1);
                self.select(some, value, *other)
            }
            ("or", [other]) => self.select(some, v, *other),
            _ => return None,
        })
    }
}
