//! Local arrays.

use super::binding::{ArrayPlace, ArrayVal, Shape, Val};
use super::body::Body;
use crate::lang::ast::At;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::module::{LocalData, LocalRole, Values};
use wuji_ir::ops::{BinOp, ForKind, Op, Place};
use wuji_ir::types::{Imm, Scalar, Type};

/// Arrays up to this length are filled without a loop.
const SHORT: usize = 16;
/// More elements than this in one local array are refused.
const LONGEST: usize = 1 << 20;

impl Body<'_, '_> {
    /// Puts an array into a local of its own.
    pub(super) fn materialize(
        &mut self,
        at: At,
        name: &str,
        array: ArrayVal,
    ) -> Result<ArrayPlace> {
        if let ArrayVal::Shared(place) = array {
            // There is one for all threads, and no copies.
            self.f.locals[place.local].name = name.to_string();
            return Ok(place);
        }
        let (elem, dims) = self.array_type(at, &array)?;
        let len: usize = dims.iter().map(|d| *d as usize).product();
        if len > LONGEST {
            return Err(self
                .fail(
                    at,
                    "W0211",
                    format!("an array of {len} elements is too large for a variable"),
                )
                .note(format!(
                    "every iteration has its own, of at most {LONGEST} elements"
                ))
                .help("keep it in a field, with one more axis"));
        }
        let local = self.f.locals.push(LocalData {
            name: name.to_string(),
            ty: elem,
            len: Some(len as u32),
            shared: false,
            role: LocalRole::Variable,
        });
        let place = ArrayPlace {
            local,
            elem,
            dims,
            base: None,
        };
        self.fill(at, &place, array)?;
        Ok(place)
    }

    /// The element type and the extents of an array.
    fn array_type(&mut self, at: At, array: &ArrayVal) -> Result<(Type, Vec<u32>)> {
        let (item, n) = match array {
            ArrayVal::Stored(place) | ArrayVal::Shared(place) => {
                return Ok((place.elem, place.dims.clone()));
            }
            ArrayVal::Items(items) => (items.first(), items.len()),
            ArrayVal::Repeat(item, n) => (Some(&**item), *n),
        };
        let n = n as u32;
        match item {
            Some(Val::Value(v)) if n > 0 => Ok((self.ty(*v), vec![n])),
            Some(Val::Array(inner)) if n > 0 => {
                let (elem, mut dims) = self.array_type(at, &inner.clone())?;
                dims.insert(0, n);
                Ok((elem, dims))
            }
            _ => Err(self
                .fail(
                    at,
                    "W0212",
                    "an array without elements has no place in a kernel",
                )
                .help("give it a length of at least 1")),
        }
    }

    /// Writes an array into a place of its type.
    pub(super) fn fill(&mut self, at: At, place: &ArrayPlace, array: ArrayVal) -> Result<()> {
        match array {
            ArrayVal::Items(items) => {
                for (k, item) in items.into_iter().enumerate() {
                    let k = self.int(Scalar::I64, k as i128);
                    self.put(at, place, k, item)?;
                }
                Ok(())
            }
            ArrayVal::Repeat(item, n) => {
                self.each(at, n, |b, k| b.put(at, place, k, (*item).clone()))
            }
            ArrayVal::Stored(from) | ArrayVal::Shared(from) => {
                let n = place.dims.first().map_or(0, |d| *d as usize);
                self.each(at, n, |b, k| {
                    let item = b.item(&from, k);
                    b.put(at, place, k, item)
                })
            }
        }
    }

    /// Runs `f` for the numbers below `n`, in a loop when there are many.
    fn each(
        &mut self,
        at: At,
        n: usize,
        mut f: impl FnMut(&mut Self, Value) -> Result<()>,
    ) -> Result<()> {
        if n <= SHORT {
            for k in 0..n {
                let k = self.int(Scalar::I64, k as i128);
                f(self, k)?;
            }
            return Ok(());
        }
        self.at(at);
        let label = self.f.fresh_label();
        let (lo, hi, step) = (
            self.int(Scalar::I64, 0),
            self.int(Scalar::I64, n as i128),
            self.int(Scalar::I64, 1),
        );
        let inst = self.push(Op::For(label, ForKind::Serial), &[lo, hi, step]);
        let (region, ()) = self.region(&[Type::Scalar(Scalar::I64)], |b, params| {
            f(b, params[0])?;
            b.end(wuji_ir::module::Term::Continue(label, Values::new()));
            Ok(())
        })?;
        self.own(inst, region);
        Ok(())
    }

    pub(super) fn put(&mut self, at: At, place: &ArrayPlace, k: Value, item: Val) -> Result<()> {
        let (part, index) = self.part_at(place, k);
        match item {
            Val::Value(v) if part.dims.is_empty() => {
                self.snapshots.remove(&part.local);
                self.build().store(Place::Local(part.local), &[index], v);
                Ok(())
            }
            Val::Array(inner) => self.fill(at, &part, inner),
            Val::Value(_) | Val::Unit | Val::Never => Err(self.no_array(at)),
        }
    }

    /// Element or part `k`, and the number of its first element in the local.
    pub(super) fn part_at(&mut self, place: &ArrayPlace, k: Value) -> (ArrayPlace, Value) {
        let dims = place.dims[1..].to_vec();
        let stride: u32 = dims.iter().product();
        let index = if stride == 1 && place.base.is_none() {
            k
        } else {
            let k = self.convert(k, Scalar::I64);
            let stride = self.int(Scalar::I64, i128::from(stride));
            let offset = self.binary(BinOp::Mul, k, stride);
            match place.base {
                Some(base) => self.binary(BinOp::Add, base, offset),
                None => offset,
            }
        };
        let part = ArrayPlace {
            local: place.local,
            elem: place.elem,
            dims,
            base: Some(index),
        };
        (part, index)
    }

    /// The value of element or part `k`.
    pub(super) fn item(&mut self, place: &ArrayPlace, k: Value) -> Val {
        let (part, index) = self.part_at(place, k);
        if part.dims.is_empty() {
            Val::Value(self.build().load(Place::Local(part.local), &[index]))
        } else {
            Val::Array(ArrayVal::Stored(part))
        }
    }

    /// Part `k`, which is inside.
    pub(super) fn array_item(&mut self, at: At, array: &ArrayVal, k: usize) -> Result<Val> {
        match array {
            ArrayVal::Items(items) => match items.get(k) {
                Some(item) => Ok(item.clone()),
                None => Err(self.outside(at, k as i128, items.len())),
            },
            ArrayVal::Repeat(item, n) if k < *n => Ok((**item).clone()),
            ArrayVal::Repeat(_, n) => Err(self.outside(at, k as i128, *n)),
            ArrayVal::Stored(place) | ArrayVal::Shared(place) => {
                let n = place.dims.first().map_or(0, |d| *d as usize);
                if k >= n {
                    return Err(self.outside(at, k as i128, n));
                }
                let k = self.int(Scalar::I64, k as i128);
                Ok(self.item(place, k))
            }
        }
    }

    /// What is in a local array now, element by element.
    pub(super) fn stored_items(&mut self, place: &ArrayPlace) -> ArrayVal {
        let n = place.dims.first().map_or(0, |d| *d as usize);
        let mut items = Vec::with_capacity(n);
        for k in 0..n {
            let k = self.int(Scalar::I64, k as i128);
            items.push(match self.item(place, k) {
                Val::Array(ArrayVal::Stored(part)) => Val::Array(self.stored_items(&part)),
                item => item,
            });
        }
        ArrayVal::Items(items)
    }

    pub(super) fn outside(&self, at: At, k: i128, n: usize) -> wuji_ir::Error {
        self.fail(
            at,
            "W0213",
            format!("index {k} is outside of the {n} components"),
        )
        .help(format!(
            "components are numbered from 0 to {}",
            n.max(1) - 1
        ))
    }

    pub(super) fn array_len(&self, array: &ArrayVal) -> usize {
        match array {
            ArrayVal::Items(items) => items.len(),
            ArrayVal::Repeat(_, n) => *n,
            ArrayVal::Stored(place) | ArrayVal::Shared(place) => {
                place.dims.first().map_or(0, |d| *d as usize)
            }
        }
    }

    /// All items of an array, as values.
    pub(super) fn array_items(&mut self, at: At, array: &ArrayVal) -> Result<Vec<Val>> {
        (0..self.array_len(array))
            .map(|k| self.array_item(at, array, k))
            .collect()
    }

    /// A captured constant.
    pub(super) fn constant_val(&mut self, shape: &Shape, bits: &mut &[u64]) -> Val {
        match shape {
            Shape::Unit | Shape::Data => Val::Unit,
            Shape::Value(ty) => Val::Value(self.constant_value(*ty, bits)),
            Shape::Array(part, n) => Val::Array(ArrayVal::Items(
                (0..*n).map(|_| self.constant_val(part, bits)).collect(),
            )),
        }
    }

    fn constant_value(&mut self, ty: Type, bits: &mut &[u64]) -> Value {
        match ty {
            Type::Scalar(s) => {
                let (first, rest) = bits.split_first().map_or((0, *bits), |(f, r)| (*f, r));
                *bits = rest;
                self.imm(Imm::from_bits(s, first))
            }
            Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => {
                let structs = &self.cx.module.structs;
                let parts: Vec<Type> = (0..structs.arity(ty))
                    .filter_map(|k| structs.component(ty, k))
                    .collect();
                let parts: Vec<Value> = parts
                    .into_iter()
                    .map(|t| self.constant_value(t, bits))
                    .collect();
                self.op(Op::Compose(ty), &parts)
            }
        }
    }
}
