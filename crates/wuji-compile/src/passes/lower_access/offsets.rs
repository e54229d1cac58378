//! Byte offsets of elements, as affine expressions.

use super::Lower;
use super::path::AccessMode;
use crate::analysis::affine::Affine;
use wuji_ir::entities::{Array, Field, Value};
use wuji_ir::ops::*;
use wuji_ir::types::Scalar;

impl Lower<'_> {
    /// Byte offset of an access whose indices are inside.
    pub(super) fn offset(&mut self, access: &Access, indices: &[Affine]) -> Value {
        let rank = indices.len() - access.dynamic_steps();
        let (indices, steps) = indices.split_at(rank);
        let within = self.path_offset(access, steps);
        match access.place {
            Place::Field(f) => {
                let at = self.field_offset(f, indices);
                let sum = self.sum(&at, &within, 1);
                self.materialize(&sum)
            }
            Place::Array(a) => self.array_offset(a, indices, &within),
            Place::Temp(t) => {
                let base = self.temps[t.as_u32() as usize] as i64;
                let sum = self.sum(&within, &Affine::constant(base), 1);
                self.materialize(&sum)
            }
            Place::Local(_) => self.materialize(&within),
        }
    }

    pub(super) fn path_offset(&mut self, access: &Access, steps: &[Affine]) -> Affine {
        let mut ty = self.b.env.place_elem(self.b.func, access.place).0;
        let mut at = Affine::default();
        let mut steps = steps.iter();
        for step in &access.path {
            let structs = &self.b.env.structs;
            let k = match step {
                Step::Const(k) => {
                    let offset = structs.component_offset(ty, *k) as i64;
                    at.constant = at.constant.wrapping_add(offset);
                    *k
                }
                Step::Dynamic => {
                    let size = ty.elem().map_or(1, |s| i64::from(s.bytes()));
                    if let Some(expr) = steps.next() {
                        at = self.sum(&at, expr, size);
                    }
                    0
                }
            };
            ty = self.b.env.structs.component(ty, k).unwrap_or(ty);
        }
        at
    }

    /// Byte offset of an element of a field without sparse nodes on its path.
    pub(super) fn field_offset(&mut self, field: Field, indices: &[Affine]) -> Affine {
        let levels = self.levels(field);
        let path = self.path_above(field, &levels, indices, AccessMode::Read);
        let place = self.memory[self.b.env.fields[field].tree].place(field) as i64;
        self.sum(&path.at, &Affine::constant(place), 1)
    }

    /// Quotient and remainder of an expression that is not negative, when they are affine, too.
    pub(super) fn split(&mut self, sum: &Affine, by: u64) -> Option<(Affine, Affine)> {
        let (high, low) = self.parts(sum, by);
        let range = self.range(&low);
        (by == 1 || 0 <= range.0 && range.1 < i128::from(by)).then_some((high, low))
    }

    /// `by * high + low`, with all multiples in the high part.
    pub(super) fn parts(&mut self, sum: &Affine, by: u64) -> (Affine, Affine) {
        let Ok(by) = i64::try_from(by) else {
            return (Affine::default(), sum.clone());
        };
        let mut high = Affine::constant(sum.constant.div_euclid(by));
        let mut low = Affine::constant(sum.constant.rem_euclid(by));
        for (v, c) in &sum.terms {
            let term = Affine::atom(*v);
            if c % by == 0 {
                high = self.sum(&high, &term, c / by);
            } else {
                low = self.sum(&low, &term, *c);
            }
        }
        (high, low)
    }

    /// Quotient and remainder of an expression that is not negative.
    pub(super) fn divide(&mut self, sum: &Affine, by: u64) -> (Affine, Affine) {
        // Multiples of `by` are divided exactly when the rest is known to be small.
        if let Some(parts) = self.split(sum, by) {
            return parts;
        }
        let by = by as i64;
        let value = self.materialize(sum);
        let (q, r) = if by & (by - 1) == 0 {
            let shift = self.b.i64(i64::from(by.trailing_zeros()));
            let mask = self.b.i64(by - 1);
            (
                self.b.binary(BinOp::Shr, value, shift),
                self.b.binary(BinOp::And, value, mask),
            )
        } else {
            let value = self.b.value(Op::Bitcast(Scalar::U64), &[value]);
            let by = self.b.int(Scalar::U64, by.into());
            let q = self.b.binary(BinOp::Div, value, by);
            let r = self.b.binary(BinOp::Rem, value, by);
            let q = self.b.value(Op::Bitcast(Scalar::I64), &[q]);
            (q, self.b.value(Op::Bitcast(Scalar::I64), &[r]))
        };
        (Affine::atom(q), Affine::atom(r))
    }

    /// Ranges are known for values that exist before lowering.
    pub(super) fn range(&mut self, sum: &Affine) -> (i128, i128) {
        let known = self.affine.func.values.len();
        if sum.terms.iter().all(|(v, _)| (v.as_u32() as usize) < known) {
            self.affine.range_of(sum)
        } else {
            (i128::MIN, i128::MAX)
        }
    }

    pub(super) fn array_offset(
        &mut self,
        array: Array,
        indices: &[Affine],
        within: &Affine,
    ) -> Value {
        let data = self.b.env.arrays[array].clone();
        let size = self.b.env.structs.size_align(data.elem).0 as i64;
        if let Some(shape) = &data.shape {
            let mut offset = within.clone();
            let mut stride = size;
            for (expr, extent) in indices.iter().zip(&shape.extents).rev() {
                offset = self.sum(&offset, expr, stride);
                stride = stride.wrapping_mul(*extent);
            }
            return self.materialize(&offset);
        }
        let mut at: Option<Value> = None;
        if data.contiguous {
            for (k, expr) in indices.iter().enumerate() {
                // The last index is scaled with the constants, so that neighbouring accesses share the rest.
                let last = k + 1 == indices.len();
                let scaled = if last {
                    self.scale(expr, size)
                } else {
                    expr.clone()
                };
                let scaled = if last {
                    self.sum(&scaled, within, 1)
                } else {
                    scaled
                };
                at = Some(match at {
                    None => self.materialize(&scaled),
                    Some(row) => {
                        let extent = self.b.extent(array, k as u8);
                        let mut row = self.b.binary(BinOp::Mul, row, extent);
                        if last {
                            let size = self.b.i64(size);
                            row = self.b.binary(BinOp::Mul, row, size);
                        }
                        let own = self.materialize(&scaled);
                        self.b.binary(BinOp::Add, row, own)
                    }
                });
            }
        } else {
            for (k, expr) in indices.iter().enumerate() {
                let stride = self.b.value(Op::ArrayStride(array, k as u8), &[]);
                let index = self.materialize(expr);
                let part = self.b.binary(BinOp::Mul, index, stride);
                at = Some(match at {
                    None => part,
                    Some(sum) => self.b.binary(BinOp::Add, sum, part),
                });
            }
            let own = self.materialize(within);
            at = at.map(|sum| self.b.binary(BinOp::Add, sum, own));
        }
        match at {
            Some(v) => v,
            None => self.materialize(within),
        }
    }

    /// `a + factor * b`. Offsets of accesses that are inside fit `i64`; where a part does not, it is
    /// computed as a value, modulo 2^64.
    pub(super) fn sum(&mut self, a: &Affine, b: &Affine, factor: i64) -> Affine {
        if let Some(sum) = a.add_scaled(b, factor) {
            return sum;
        }
        let (x, y) = (self.materialize(a), self.materialize(b));
        let factor = self.b.i64(factor);
        let y = self.b.binary(BinOp::Mul, y, factor);
        Affine::atom(self.b.binary(BinOp::Add, x, y))
    }

    pub(super) fn scale(&mut self, a: &Affine, factor: i64) -> Affine {
        self.sum(&Affine::default(), a, factor)
    }

    /// An affine expression as an `i64` value: the terms that change least first, the constant last, so that hoisting
    /// and value numbering find equal parts.
    pub(super) fn materialize(&mut self, sum: &Affine) -> Value {
        let mut terms: Vec<(usize, Value, i64)> = sum
            .terms
            .iter()
            .map(|(v, c)| (self.depth(*v), *v, *c))
            .collect();
        terms.sort();
        let mut out: Option<Value> = None;
        for (_, v, c) in terms {
            let mut term = self.b.convert(v, Scalar::I64);
            if c != 1 {
                let c = self.b.i64(c);
                term = self.b.binary(BinOp::Mul, term, c);
            }
            out = Some(match out {
                Some(o) => self.b.binary(BinOp::Add, o, term),
                None => term,
            });
        }
        match out {
            Some(o) if sum.constant == 0 => o,
            Some(o) => {
                let c = self.b.i64(sum.constant);
                self.b.binary(BinOp::Add, o, c)
            }
            None => self.b.i64(sum.constant),
        }
    }

    /// Nesting depth of the region that defines a value; new values are innermost.
    pub(super) fn depth(&self, v: Value) -> usize {
        let f = self.affine.func;
        if v.as_u32() as usize >= f.values.len() {
            return usize::MAX;
        }
        let structure = self.affine.structure;
        let mut depth = 0;
        let mut at = structure.def_region(f, v);
        while let Some(r) = at {
            depth += 1;
            at = structure.owner[r]
                .expand()
                .and_then(|o| structure.region_of[o].expand());
        }
        depth
    }
}
