//! Arrays inside of structs. A struct has one field for each element of such an array: `corners[0]`, `corners[1]`, ...

use super::binding::{ArrayVal, Val};
use super::body::Body;
use super::place::{PlaceRef, Spot};
use crate::lang::ast::At;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{CmpOp, Op};
use wuji_ir::types::{Scalar, Type};

impl Body<'_, '_> {
    /// The fields that are the elements of an array in a struct; `None` if there is no such array.
    pub(super) fn array_fields(&self, ty: Type, name: &str) -> Option<Vec<u32>> {
        let Type::Struct(id) = ty else {
            return None;
        };
        let fields = &self.cx.module.structs.0[id].fields;
        let mut found = Vec::new();
        for (k, (field, _)) in fields.iter().enumerate() {
            let rest = field.strip_prefix(name).and_then(|r| r.strip_prefix('['));
            if rest.is_some_and(|r| r.strip_suffix(']') == Some(found.len().to_string().as_str())) {
                found.push(k as u32);
            }
        }
        (!found.is_empty()).then_some(found)
    }

    /// A field of a struct, or an array in it.
    pub(super) fn struct_field(&mut self, at: At, v: Value, name: &str) -> Result<Val> {
        let ty = self.ty(v);
        if let Some(fields) = self.array_fields(ty, name) {
            let items = fields.into_iter().map(|k| Val::Value(self.extract(v, k)));
            return Ok(Val::Array(ArrayVal::Items(items.collect())));
        }
        let k = self.component(at, ty, name)?;
        Ok(Val::Value(self.extract(v, k)))
    }

    /// All elements of an array in a struct.
    pub(super) fn load_parts(&mut self, parts: &[PlaceRef]) -> Val {
        let items = parts.iter().map(|p| Val::Value(self.load(p))).collect();
        Val::Array(ArrayVal::Items(items))
    }

    /// An element of an array in a struct.
    pub(super) fn part_of(&mut self, at: At, parts: Vec<PlaceRef>, k: Value) -> Result<Spot> {
        let n = parts.len();
        match self.known(k).map(usize::try_from) {
            Some(Ok(k)) if k < n => Ok(Spot::Place(parts[k].clone())),
            Some(_) => Err(self.outside(at, self.known(k).unwrap_or(0), n)),
            None => {
                self.push(Op::CheckIndex(n as u32), &[k]);
                Ok(Spot::OneOf(parts, k))
            }
        }
    }

    /// Loads the element with a number that is known at run time only.
    pub(super) fn load_one_of(&mut self, parts: &[PlaceRef], k: Value) -> Value {
        let ty = parts.first().map_or(Type::Scalar(Scalar::I32), |p| p.ty);
        let mut found = self.build().zero(ty);
        for (number, part) in parts.iter().enumerate() {
            let here = self.is_number(k, number);
            let value = self.load(part);
            found = self.select(here, value, found);
        }
        found
    }

    /// Stores the element with a number that is known at run time only: the others keep their values.
    pub(super) fn store_one_of(&mut self, parts: &[PlaceRef], k: Value, v: Value) {
        for (number, part) in parts.iter().enumerate() {
            let here = self.is_number(k, number);
            let old = self.load(part);
            let new = self.select(here, v, old);
            self.store(part, new);
        }
    }

    fn is_number(&mut self, k: Value, number: usize) -> Value {
        let s = self.ty(k).as_scalar().unwrap_or(Scalar::I64);
        let number = self.int(s, number as i128);
        self.compare(CmpOp::Eq, k, number)
    }

    /// Stores a whole array of a struct.
    pub(super) fn store_parts(
        &mut self,
        at: At,
        parts: &[PlaceRef],
        array: &ArrayVal,
    ) -> Result<()> {
        let items = self.array_items(at, array)?;
        for (part, item) in parts.iter().zip(items) {
            match item {
                Val::Value(v) => self.store(part, v),
                Val::Unit | Val::Never | Val::Array(_) => return Err(self.no_array(at)),
            }
        }
        Ok(())
    }
}
