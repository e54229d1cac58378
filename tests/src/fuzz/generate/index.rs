//! Indices: mostly in range, sometimes at the edge, sometimes random.

use super::Generator;
use super::roles::{Own, OwnAxis};
use super::types::{INTS, any_int};
use wuji_ir::entities::Value;
use wuji_ir::ops::BinOp;
use wuji_ir::types::{Scalar, Type};

impl Generator<'_> {
    /// A type that holds all numbers from `lo` to `hi`.
    pub(super) fn int_for(&mut self, lo: i64, hi: i64) -> Scalar {
        let holds = |s: Scalar| {
            s.int_range()
                .is_some_and(|(l, h)| l <= i128::from(lo) && i128::from(hi) <= h)
        };
        let s = any_int(self.dice);
        if holds(s) {
            return s;
        }
        let fit: Vec<Scalar> = INTS.into_iter().filter(|s| holds(*s)).collect();
        *self.dice.pick(&fit)
    }

    /// An index along an axis with `extent` elements from `from` on.
    pub(super) fn any_index(&mut self, (from, extent): (i64, u64)) -> Value {
        let last = from.saturating_add(extent as i64 - 1).max(from);
        match self.dice.weighted(&[40, 15, 15, 8, 8, 4]) {
            0 if !self.body.indices.is_empty() => {
                let near = self.dice.between(-2, 2) * i64::from(self.dice.chance(50));
                self.loop_index(from, near)
            }
            0 | 1 => {
                let at = match self.dice.weighted(&[6, 1, 1]) {
                    0 => self.dice.between(from, last.min(from.saturating_add(400))),
                    1 => from.saturating_sub(self.dice.between(0, 2)),
                    _ => last.saturating_add(self.dice.between(0, 2)),
                };
                let s = self.int_for(at, at);
                self.b().int(s, i128::from(at))
            }
            2 => {
                let s = self.int_for(from, last);
                let x = self.value(Type::Scalar(s), 1);
                let mut b = self.b();
                let (lo, hi) = (b.int(s, from.into()), b.int(s, last.into()));
                let x = b.binary(BinOp::Max, x, lo);
                b.binary(BinOp::Min, x, hi)
            }
            3 => {
                let s = self.int_for(from.min(0), last.max(extent as i64));
                let x = self.value(Type::Scalar(s), 1);
                let n = self.b().int(s, i128::from(extent.max(1)));
                let rest = self.b().binary(BinOp::Rem, x, n);
                let from = self.b().int(s, from.into());
                self.b().binary(BinOp::Add, rest, from)
            }
            4 if !self.body.indices.is_empty() => self.affine(from),
            _ => {
                let s = any_int(self.dice);
                self.value(Type::Scalar(s), 1)
            }
        }
    }

    /// A loop index, shifted to the start of a place.
    fn loop_index(&mut self, from: i64, near: i64) -> Value {
        let (value, lo, _) = *self.dice.pick(&self.body.indices);
        let offset = from.wrapping_sub(lo).wrapping_add(near);
        if offset == 0 && self.dice.chance(80) {
            return value;
        }
        let own = self.ty(value).as_scalar().unwrap_or(Scalar::I64);
        if self.dice.chance(12) {
            // Through a type in which the sum may wrap.
            let narrow = *self.dice.pick(&[Scalar::I8, Scalar::U8, Scalar::I16, own]);
            let away = i128::from(*self.dice.pick(&[100, 120, 250, 32_760, 3]));
            let mut b = self.b();
            let x = b.convert(value, narrow);
            let there = b.int(narrow, away);
            let x = b.binary(BinOp::Add, x, there);
            let wide = b.convert(x, Scalar::I64);
            let back = b.i64(offset.wrapping_sub(away as i64));
            return b.binary(BinOp::Add, wide, back);
        }
        let s = match self.dice.weighted(&[6, 3, 1]) {
            0 => own,
            1 => Scalar::I64,
            _ => any_int(self.dice),
        };
        let wide = self.b().convert(value, s);
        let step = self.b().int(s, i128::from(offset));
        self.b().binary(BinOp::Add, wide, step)
    }

    fn affine(&mut self, from: i64) -> Value {
        let s = *self.dice.pick(&[Scalar::I32, Scalar::I64, Scalar::I64]);
        let mut sum = self.b().int(s, i128::from(from));
        for _ in 0..self.dice.between(1, 3) {
            let (value, ..) = *self.dice.pick(&self.body.indices);
            let factor = self.dice.between(-2, 3);
            let mut b = Self::b(self);
            let wide = b.convert(value, s);
            let k = b.int(s, i128::from(factor));
            let term = b.binary(BinOp::Mul, wide, k);
            sum = b.binary(BinOp::Add, sum, term);
        }
        sum
    }

    /// Indices of the iteration's own part of a place.
    pub(super) fn own_indices(&mut self, own: &Own) -> Vec<Value> {
        let domain = self.places[own.place].domain.clone();
        own.axes
            .iter()
            .zip(domain)
            .map(|(axis, domain)| match *axis {
                OwnAxis::Free => self.any_index(domain),
                OwnAxis::Index {
                    index,
                    scale,
                    offset,
                    ty,
                } => {
                    let (value, ..) = self.body.indices[index];
                    let mut b = self.b();
                    let wide = b.convert(value, ty);
                    let scaled = match scale {
                        1 => wide,
                        _ => {
                            let factor = b.int(ty, i128::from(scale));
                            b.binary(BinOp::Mul, wide, factor)
                        }
                    };
                    if offset == 0 {
                        return scaled;
                    }
                    let offset = b.int(ty, i128::from(offset));
                    b.binary(BinOp::Add, offset, scaled)
                }
            })
            .collect()
    }
}
