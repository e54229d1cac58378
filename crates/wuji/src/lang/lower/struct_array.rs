//! Arrays inside of structs. A struct has one field for each element of such an array: `corners[0]`, `corners[1]`, ...; nested arrays have
//! `rows[0][0]`, `rows[0][1]`, ...

use super::binding::{ArrayVal, Val};
use super::body::Body;
use super::place::{PlaceRef, Spot};
use crate::lang::ast::At;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp, Op};
use wuji_ir::types::{Scalar, Type};

/// The fields that are the elements of an array in a struct, row by row.
pub(super) struct ArrayFields {
    pub(super) fields: Vec<u32>,
    /// The lengths of the dimensions.
    pub(super) dims: Vec<usize>,
}

/// An array in a struct, or a row of one.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// The elements, row by row. With a number in `first`, those of the whole array.
    pub(super) places: Vec<PlaceRef>,
    /// The lengths of the dimensions.
    pub(super) dims: Vec<usize>,
    /// The number of the first element, where it is known at run time only.
    pub(super) first: Option<Value>,
}

impl Body<'_, '_> {
    /// The fields of an array in a struct; `None` if there is no such array.
    pub(super) fn array_fields(&self, ty: Type, name: &str) -> Option<ArrayFields> {
        let Type::Struct(id) = ty else {
            return None;
        };
        let fields = &self.cx.module.structs.0[id].fields;
        let indices = |field: &str| indices_of(field.strip_prefix(name)?);
        let (mut found, mut last) = (Vec::new(), None);
        for (k, (field, _)) in fields.iter().enumerate() {
            if let Some(indices) = indices(field) {
                found.push(k as u32);
                last = Some(indices);
            }
        }
        // The last element has the largest indices.
        let dims = last?.into_iter().map(|k| k + 1).collect();
        Some(ArrayFields {
            fields: found,
            dims,
        })
    }

    /// A field of a struct, or an array in it.
    pub(super) fn struct_field(&mut self, at: At, v: Value, name: &str) -> Result<Val> {
        let ty = self.ty(v);
        if let Some(ArrayFields { fields, dims }) = self.array_fields(ty, name) {
            let items: Vec<Value> = fields.into_iter().map(|k| self.extract(v, k)).collect();
            return Ok(nested(&mut items.into_iter(), &dims));
        }
        let k = self.component(at, ty, name)?;
        Ok(Val::Value(self.extract(v, k)))
    }

    /// All elements of an array in a struct.
    pub(super) fn load_parts(&mut self, parts: &Parts) -> Val {
        let count: usize = parts.dims.iter().product();
        let items: Vec<Value> = (0..count)
            .map(|k| match parts.first {
                None => self.load(&parts.places[k]),
                Some(first) => {
                    let k = self.number_after(first, k);
                    self.load_one_of(&parts.places, k)
                }
            })
            .collect();
        nested(&mut items.into_iter(), &parts.dims)
    }

    /// An element, or a row, of an array in a struct.
    pub(super) fn part_of(&mut self, at: At, parts: Parts, k: Value) -> Result<Spot> {
        let Parts {
            mut places,
            mut dims,
            mut first,
        } = parts;
        let n = dims.remove(0);
        let row: usize = dims.iter().product();
        match (self.known(k).map(usize::try_from), first) {
            (Some(Ok(k)), None) if k < n => places = places[k * row..(k + 1) * row].to_vec(),
            (Some(Ok(k)), Some(start)) if k < n => first = Some(self.number_after(start, k * row)),
            (Some(_), _) => return Err(self.outside(at, self.known(k).unwrap_or(0), n)),
            (None, start) => {
                self.push(Op::CheckIndex(n as u32), &[k]);
                first = Some(self.row_number(start, k, row));
            }
        }
        Ok(match first {
            _ if !dims.is_empty() => Spot::Parts(Parts {
                places,
                dims,
                first,
            }),
            None => Spot::Place(places.swap_remove(0)),
            Some(number) => Spot::OneOf(places, number),
        })
    }

    /// `start + k * row`
    pub(super) fn row_number(&mut self, start: Option<Value>, k: Value, row: usize) -> Value {
        if start.is_none() && row == 1 {
            return k;
        }
        let k = self.convert(k, Scalar::I64);
        let row = self.int(Scalar::I64, row as i128);
        let offset = self.binary(BinOp::Mul, k, row);
        match start {
            Some(start) => {
                let start = self.convert(start, Scalar::I64);
                self.binary(BinOp::Add, start, offset)
            }
            None => offset,
        }
    }

    fn number_after(&mut self, first: Value, k: usize) -> Value {
        let first = self.convert(first, Scalar::I64);
        let k = self.int(Scalar::I64, k as i128);
        self.binary(BinOp::Add, first, k)
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

    /// Stores a whole array of a struct, or a row of it.
    pub(super) fn store_parts(&mut self, at: At, parts: &Parts, array: &ArrayVal) -> Result<()> {
        let mut items = Vec::new();
        self.flat_items(at, array, &mut items)?;
        for (k, v) in items.into_iter().enumerate() {
            match parts.first {
                None => self.store(&parts.places[k], v),
                Some(first) => {
                    let k = self.number_after(first, k);
                    self.store_one_of(&parts.places, k, v);
                }
            }
        }
        Ok(())
    }

    /// The elements of an array, row by row.
    pub(super) fn flat_items(
        &mut self,
        at: At,
        array: &ArrayVal,
        out: &mut Vec<Value>,
    ) -> Result<()> {
        for item in self.array_items(at, array)? {
            match item {
                Val::Value(v) => out.push(v),
                Val::Array(inner) => self.flat_items(at, &inner, out)?,
                Val::Unit | Val::Never => return Err(self.no_array(at)),
            }
        }
        Ok(())
    }
}

/// The numbers in `[1][2]`.
fn indices_of(text: &str) -> Option<Vec<usize>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.split("][").map(|k| k.parse().ok()).collect()
}

/// An array from its elements, row by row.
fn nested(items: &mut impl Iterator<Item = Value>, dims: &[usize]) -> Val {
    let Some((n, rest)) = dims.split_first() else {
        return items.next().map_or(Val::Unit, Val::Value);
    };
    let rows = (0..*n).map(|_| nested(items, rest)).collect();
    Val::Array(ArrayVal::Items(rows))
}
