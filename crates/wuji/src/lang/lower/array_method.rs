//! Methods of local arrays.

use super::MISTAKE;
use super::binding::{ArrayPlace, ArrayVal, Val};
use super::body::{Body, get};
use crate::lang::ast::{At, Expr};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::Op;
use wuji_ir::types::Scalar;

impl Body<'_, '_> {
    pub(super) fn array_method(
        &mut self,
        at: At,
        name: &str,
        array: ArrayVal,
        rest: &'static [Expr],
    ) -> Result<Val> {
        match (name, rest) {
            ("clone", []) => Ok(Val::Array(array)),
            ("len", []) => {
                let n = self.array_len(&array);
                Ok(Val::Value(self.int(Scalar::U64, n as i128)))
            }
            ("swap", [i, j]) => {
                let (i, j) = (get!(self.value(i)), get!(self.value(j)));
                self.at(at);
                let place = self.stored(at, array)?;
                self.swap_items(at, &place, i, j)?;
                Ok(Val::Unit)
            }
            ("reverse", []) => {
                let n = self.array_len(&array);
                let place = self.stored(at, array)?;
                for k in 0..n / 2 {
                    let (i, j) = (k as i128, (n - 1 - k) as i128);
                    let (i, j) = (self.int(Scalar::I64, i), self.int(Scalar::I64, j));
                    self.swap_items(at, &place, i, j)?;
                }
                Ok(Val::Unit)
            }
            ("fill", [value]) => {
                let value = self.expr(value)?;
                if let Val::Never = value {
                    return Ok(Val::Never);
                }
                let n = self.array_len(&array);
                let place = self.stored(at, array)?;
                self.fill(at, &place, ArrayVal::Repeat(Box::new(value), n))?;
                Ok(Val::Unit)
            }
            _ => Err(self.no_method(at, name)),
        }
    }

    /// The variable behind an array that a method changes.
    fn stored(&mut self, at: At, array: ArrayVal) -> Result<ArrayPlace> {
        match array {
            ArrayVal::Stored(place) | ArrayVal::Shared(place) => Ok(place),
            // A temporary array: the change is unused.
            ArrayVal::Items(_) | ArrayVal::Repeat(..) => self.materialize(at, "", array),
        }
    }

    fn swap_items(&mut self, at: At, place: &ArrayPlace, i: Value, j: Value) -> Result<()> {
        let Some(n) = place.dims.first().copied() else {
            return Err(self.fail(at, MISTAKE, "this is not an array"));
        };
        for k in [i, j] {
            match self.known(k) {
                Some(k) if k < 0 || k >= i128::from(n) => {
                    return Err(self.outside(at, k, n as usize));
                }
                Some(_) => {}
                None => {
                    self.push(Op::CheckIndex(n), &[k]);
                }
            }
        }
        let first = match self.item(place, i) {
            // A copy: its place is about to change.
            Val::Array(array) => {
                let copy = self.materialize(at, "", array)?;
                Val::Array(ArrayVal::Stored(copy))
            }
            val => val,
        };
        let second = self.item(place, j);
        self.put(at, place, i, second)?;
        self.put(at, place, j, first)
    }
}
