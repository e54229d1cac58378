//! From the indices of an element to its word, and to its bits there.

use super::{Lower, PackedAccess};
use crate::quant::Bit;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Value};
use wuji_ir::layout::Axis;
use wuji_ir::module::{SiteData, SiteKind, Values};
use wuji_ir::ops::*;
use wuji_ir::quant::{Member, Packing};
use wuji_ir::types::Scalar;

/// An element of a packed field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Element {
    pub(super) indices: Values,
    /// In a bit array: the number of the element times the bits of one, as `i64`.
    pub(super) bit: Option<Value>,
    /// In a bit array: the indices of the word along the axes that the array splits.
    split: Vec<(Axis, Value)>,
    /// For loads and for writes of the word.
    pub(super) read_guard: Guard,
    pub(super) write_guard: Guard,
}

impl Lower<'_> {
    /// Finds an element. A write outside is reported here, under the name of the packed field, and so is a read where
    /// reads are checked.
    pub(super) fn locate(
        &mut self,
        field: Field,
        access: &Access,
        indices: &[Value],
        writes: bool,
    ) -> Element {
        let domain = self.b.env.fields[field].domain(&self.b.env.trees);
        let inside = domain.iter().zip(indices).all(|((lo, extent), index)| {
            let (least, most) = self.range(*index);
            least >= i128::from(*lo) && most < i128::from(*lo) + i128::from(*extent)
        });
        let indices: Values = indices.iter().map(|v| self.subst.get(*v)).collect();
        let guard = match access.guard {
            Guard::Checked if inside => Guard::Checked,
            Guard::Checked | Guard::Silent => Guard::Silent,
            Guard::InBounds => Guard::InBounds,
        };
        if access.guard == Guard::Checked && !inside && (writes || self.check_reads) {
            self.report_outside(field, &domain, &indices, writes);
        }
        let (bit, split) = self.in_bit_array(field, &indices);
        Element {
            indices,
            bit,
            split,
            // The guard of a write reports, if anything is to be reported.
            read_guard: match guard {
                Guard::Checked | Guard::Silent => Guard::Silent,
                Guard::InBounds => Guard::InBounds,
            },
            write_guard: guard,
        }
    }

    /// The range of an index, given those of the loop.
    fn range(&mut self, index: Value) -> (i128, i128) {
        let expr = self.affine.expr(index);
        let (mut least, mut most) = (i128::from(expr.constant), i128::from(expr.constant));
        for (atom, factor) in &expr.terms {
            let known = self.loop_ranges.iter().find(|r| r.0 == *atom);
            let (lo, hi) = known.map_or_else(|| self.affine.range(*atom), |r| r.1);
            let factor = i128::from(*factor);
            let ends = (lo.saturating_mul(factor), hi.saturating_mul(factor));
            least = least.saturating_add(ends.0.min(ends.1));
            most = most.saturating_add(ends.0.max(ends.1));
        }
        // The expression may have wrapped.
        let ty = self.b.func.ty(index).as_scalar();
        match ty.and_then(Scalar::int_range) {
            Some((lo, hi)) if least >= lo && most <= hi => (least, most),
            _ => self.affine.range(index),
        }
    }

    fn report_outside(
        &mut self,
        field: Field,
        domain: &[(i64, u64)],
        indices: &[Value],
        writes: bool,
    ) {
        let place = Place::Field(field);
        let kind = if writes {
            SiteKind::OutOfRange(place)
        } else {
            SiteKind::ReadOutOfRange(place)
        };
        let b = &mut self.b;
        let mut found = Values::new();
        let mut inside = b.bool(true);
        for ((lo, extent), index) in domain.iter().zip(indices) {
            let index = widened(b, *index);
            found.push(index);
            let lo = b.i64(*lo);
            let from = b.binary(BinOp::Sub, index, lo);
            let from = b.value(Op::Bitcast(Scalar::U64), &[from]);
            let extent = b.int(Scalar::U64, (*extent).into());
            let ok = b.compare(CmpOp::Lt, from, extent);
            inside = b.binary(BinOp::And, inside, ok);
        }
        let span = b.span;
        let site = b.env.sites.push(SiteData { kind, span });
        b.if_else(
            inside,
            &[],
            |_| Values::new(),
            |b| {
                b.push(Op::Report(site), &found);
                Values::new()
            },
        );
    }

    /// The position of an element in the word of its bit array, and the indices of the word.
    fn in_bit_array(
        &mut self,
        field: Field,
        indices: &[Value],
    ) -> (Option<Value>, Vec<(Axis, Value)>) {
        let data = self.b.env.fields[field].clone();
        let array = self.b.env.trees[data.tree].bit_array(data.node).cloned();
        let Some(array) = array else {
            return (None, Vec::new());
        };
        let b = &mut self.b;
        let mut number = b.i64(0);
        let mut split = Vec::new();
        for (axis, extent) in &array.extents {
            let Some(k) = data.axes.iter().position(|a| a.0 == *axis) else {
                continue;
            };
            let index = widened(b, indices[k]);
            let lo = b.i64(data.axes[k].1);
            let index = b.binary(BinOp::Sub, index, lo);
            let n = b.i64(*extent as i64);
            let (word, within) = if extent.is_power_of_two() {
                let shift = b.i64(extent.trailing_zeros().into());
                let low = b.i64(*extent as i64 - 1);
                let word = b.binary(BinOp::Shr, index, shift);
                (word, b.binary(BinOp::And, index, low))
            } else {
                let word = b.binary(BinOp::Div, index, n);
                let within = b.binary(BinOp::Rem, index, n);
                // Below the first element there is no word.
                let zero = b.i64(0);
                let negative = b.compare(CmpOp::Lt, index, zero);
                let none = b.i64(-1);
                let within = b.select(negative, zero, within);
                (b.select(negative, none, word), within)
            };
            split.push((*axis, word));
            let before = b.binary(BinOp::Mul, number, n);
            number = b.binary(BinOp::Add, before, within);
        }
        let stride = data.packing.as_ref().map_or(0, Packing::stride);
        let stride = b.i64(stride.into());
        (Some(b.binary(BinOp::Mul, number, stride)), split)
    }

    /// The lowest bit of a scalar in its word.
    pub(super) fn position(&mut self, element: &Element, member: &Member) -> Bit {
        match element.bit {
            None => Bit::Const(member.at),
            Some(bit) => {
                let at = self.b.i64(member.at.into());
                Bit::At(self.b.binary(BinOp::Add, bit, at))
            }
        }
    }

    /// The indices of a word of the element.
    pub(super) fn word_indices(&mut self, packed: &PackedAccess, word: Field) -> Values {
        let data = self.b.env.fields[packed.field].clone();
        let axes = self.b.env.fields[word].axes.clone();
        let mut at = Values::new();
        for (axis, lo) in axes {
            let split = packed.element.split.iter().find(|s| s.0 == axis);
            let own = data.axes.iter().position(|a| a.0 == axis);
            let (index, from) = match (split, own) {
                (Some((_, index)), _) => (*index, 0),
                (None, Some(k)) => (packed.element.indices[k], data.axes[k].1),
                (None, None) => continue,
            };
            at.push(if from == lo {
                index
            } else {
                let index = widened(&mut self.b, index);
                let by = self.b.i64(lo.wrapping_sub(from));
                self.b.binary(BinOp::Add, index, by)
            });
        }
        at
    }
}

/// An index as `i64`. Larger `u64` values count as the largest one, which is outside of every field.
fn widened(b: &mut Builder, index: Value) -> Value {
    let index = match b.func.ty(index).as_scalar() {
        Some(Scalar::U64) => {
            let most = b.int(Scalar::U64, i64::MAX.into());
            b.binary(BinOp::Min, index, most)
        }
        _ => index,
    };
    b.convert(index, Scalar::I64)
}
