//! Loads and stores of words instead of bits.

use super::evaluate::Evaluator;
use super::lanes::{Lane, PeriodicPart, Sum};
use super::{BitField, Refusal, bit_field};
use smallvec::SmallVec;
use wuji_ir::entities::{Field, Value};
use wuji_ir::module::Values;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar};

/// Bits at a constant distance from those of the loop.
struct Shifted {
    bits: BitField,
    /// Indices of the word that holds the first of them, except that along the bits.
    at: Vec<Option<Value>>,
    /// That along the bits, counted from the loop's own word; and the position in the word.
    words: i64,
    by: u32,
    /// The words after which the first one comes again.
    period: Option<i64>,
}

impl Evaluator<'_> {
    /// The bits that an access names for all elements of a word; `None` if it is not one of bits.
    fn shifted(&mut self, field: Field, indices: &[Lane]) -> Result<Option<Shifted>, Refusal> {
        let Some(bits) = bit_field(self.b.env, field) else {
            return Ok(None);
        };
        let name = self.b.env.fields[field].name.clone();
        if bits.bits != self.bits {
            return Err(format!("`{name}` has words of {} bits", bits.bits));
        }
        let (axes, own) = {
            let m = &self.b.env;
            (
                m.fields[bits.word].axes.clone(),
                m.fields[field].axes.clone(),
            )
        };
        let mut at = Vec::new();
        let mut distance = None;
        let mut period = None;
        for (k, (axis, lo)) in own.iter().enumerate() {
            if *axis == bits.axis {
                let by = match indices[k] {
                    Lane::Index(by) => by,
                    Lane::Periodic(p) if p.part == PeriodicPart::Coordinate => {
                        period = Some(self.period_in_words(p.period, *lo)?);
                        p.by
                    }
                    Lane::Periodic(_) | Lane::Const(_) | Lane::Uniform(_) | Lane::Bits(_) => {
                        return Err(format!("an index of `{name}` does not run along the bits"));
                    }
                };
                distance = self.first.checked_add(by).and_then(|d| d.checked_sub(*lo));
            } else if let Lane::Index(_) | Lane::Periodic(_) | Lane::Bits(_) = indices[k] {
                return Err(format!(
                    "an index of `{name}` differs between the bits of a word"
                ));
            }
        }
        let distance = distance.ok_or_else(|| format!("an index of `{name}` is too large"))?;
        for (axis, lo) in &axes {
            if *axis == bits.axis {
                at.push(None);
                continue;
            }
            let Some(k) = own.iter().position(|a| a.0 == *axis) else {
                return Err(format!("`{name}` has no index along axis `{axis}`"));
            };
            let index = self.uniform(&indices[k])?;
            let by = lo
                .checked_sub(own[k].1)
                .filter(|d| d.unsigned_abs() < 1 << 31);
            let by = by.ok_or_else(|| format!("`{name}` and its words start far apart"))?;
            at.push(Some(self.plus(index, by)));
        }
        let n = i64::from(bits.bits);
        Ok(Some(Shifted {
            bits,
            at,
            words: distance.div_euclid(n),
            by: distance.rem_euclid(n) as u32,
            period,
        }))
    }

    /// The words of a period of coordinates, which must begin and end with a word and contain the loop.
    fn period_in_words(&self, period: i64, from: i64) -> Result<i64, Refusal> {
        let n = i64::from(self.bits);
        if period % n != 0 {
            return Err(format!(
                "an index has a period of {period}, which is no multiple of {n}"
            ));
        }
        if self.first != 0 || from != 0 || self.range.0 < 0 || self.range.1 > period {
            return Err(format!(
                "an index has a period of {period}, and the loop leaves 0..{period}"
            ));
        }
        Ok(period / n)
    }

    /// The loop's own word plus some words, modulo a period that contains it.
    fn periodic(&mut self, by: i64, period: i64) -> Value {
        let by = by.rem_euclid(period);
        let sum = self.plus(self.counter, by);
        if by == 0 {
            return sum;
        }
        let end = self.constant(Imm::int(Scalar::I64, period.into()));
        let wraps = self.pure(Op::Compare(CmpOp::Ge), &[sum, end]);
        let back = self.plus(self.counter, by - period);
        self.pure(Op::Select, &[wraps, back, sum])
    }

    /// The indices of a word, counted from the first one of the bits.
    fn word_at(&mut self, shifted: &Shifted, further: i64) -> Result<Values, Refusal> {
        let word = &self.b.env.fields[shifted.bits.word];
        let axes = word.axes.clone();
        let mut out = Values::new();
        let by = shifted.words + further;
        let by = shifted.period.map_or(by, |period| by.rem_euclid(period));
        for ((axis, lo), index) in axes.iter().zip(&shifted.at) {
            out.push(match index {
                Some(index) => *index,
                None if *axis == shifted.bits.axis => match shifted.period {
                    None => self.plus(self.counter, by.wrapping_add(*lo)),
                    Some(period) => {
                        let number = self.periodic(by, period);
                        self.plus(number, *lo)
                    }
                },
                None => return Err("a word has an axis of its own".into()),
            });
        }
        if axes.iter().all(|a| a.0 != shifted.bits.axis) && by != 0 {
            return Err("neighbours are in other words, and there is one word".into());
        }
        Ok(out)
    }

    fn load_word(&mut self, shifted: &Shifted, further: i64) -> Result<Value, Refusal> {
        let access = Access {
            place: Place::Field(shifted.bits.word),
            path: SmallVec::new(),
            activation: Activation::Never,
            guard: Guard::Silent,
        };
        let at = self.word_at(shifted, further)?;
        Ok(self.pure(Op::Load(access), &at))
    }

    /// A load of bits; `None` if the field is not one of bits.
    pub(super) fn load(&mut self, field: Field, indices: &[Lane]) -> Result<Option<Lane>, Refusal> {
        let Some(shifted) = self.shifted(field, indices)? else {
            return Ok(None);
        };
        let mut word = self.load_word(&shifted, 0)?;
        if shifted.by != 0 {
            let next = self.load_word(&shifted, 1)?;
            let down = self.constant(Imm::int(self.word, shifted.by.into()));
            let up = self.constant(Imm::int(self.word, (self.bits - shifted.by).into()));
            let low = self.pure(Op::Binary(BinOp::Shr), &[word, down]);
            let high = self.pure(Op::Binary(BinOp::Shl), &[next, up]);
            word = self.or(low, high);
        }
        let mut sum = Sum::bit(word);
        if shifted.bits.signed {
            // A set bit is -1.
            sum.digits[0][0] = self.not(word);
            (sum.offset, sum.least, sum.most) = (-1, -1, 0);
        }
        Ok(Some(Lane::Bits(sum)))
    }

    /// A store of bits, where the mask is set.
    pub(super) fn store(
        &mut self,
        (field, access): (Field, &Access),
        indices: &[Lane],
        value: &Lane,
        mask: Option<Value>,
    ) -> Result<(), Refusal> {
        let name = self.b.env.fields[field].name.clone();
        let Some(shifted) = self.shifted(field, indices)? else {
            return Err(format!("`{name}` is stored to, which has no bits"));
        };
        if shifted.by != 0 || shifted.period.is_some() {
            return Err(format!("stores to `{name}` are in two words at a time"));
        }
        let mut word = self.low_bits(value)?;
        if let Some(mask) = mask {
            let old = self.load_word(&shifted, 0)?;
            let keep = self.not(mask);
            let (new, old) = (self.and(word, mask), self.and(old, keep));
            word = self.or(new, old);
        }
        let write = Access {
            place: Place::Field(shifted.bits.word),
            path: SmallVec::new(),
            activation: access.activation,
            guard: access.guard,
        };
        let mut args = self.word_at(&shifted, 0)?;
        args.push(word);
        self.b.push(Op::Store(write), &args);
        self.known.retain(|(op, _), _| op.access().is_none());
        Ok(())
    }

    /// Whether some elements may be outside of a field. Only a loop over single bits can say which.
    pub(super) fn leaves(&self, field: Field, indices: &[Value], lanes: &[Lane]) -> bool {
        let m = &self.b.env;
        let domain = m.fields[field].domain(&m.trees);
        let ends = |index: &Value, lane: &Lane| match lane {
            Lane::Index(by) => {
                let moved = |c: i64| i128::from(c) + i128::from(*by);
                Some((moved(self.range.0), moved(self.range.1) - 1))
            }
            // A remainder by the length of the axis.
            Lane::Periodic(p) => Some((0, i128::from(p.period) - 1)),
            Lane::Const(_) | Lane::Uniform(_) | Lane::Bits(_) => self.range_of(*index),
        };
        let mut axes = indices.iter().zip(lanes).zip(domain);
        axes.any(|((index, lane), (lo, extent))| {
            let end = i128::from(lo) + i128::from(extent);
            ends(index, lane).is_none_or(|(least, most)| least < lo.into() || most >= end)
        })
    }

    /// The range of a loop index, a constant, or their sum.
    fn range_of(&self, v: Value) -> Option<(i128, i128)> {
        if let Some(range) = self.loop_ranges.get(&v) {
            return Some(*range);
        }
        if let Some(c) = self.old.constant(v).and_then(Imm::as_int) {
            return Some((c, c));
        }
        let data = &self.old.insts[self.old.def(v)?];
        if data.op != Op::Binary(BinOp::Add) {
            return None;
        }
        let (a, b) = (self.range_of(data.args[0])?, self.range_of(data.args[1])?);
        let (least, most) = (a.0 + b.0, a.1 + b.1);
        let (lo, hi) = self.old.ty(v).as_scalar()?.int_range()?;
        (least >= lo && most <= hi).then_some((least, most))
    }

    /// The lowest bit of a number, for each element.
    fn low_bits(&mut self, value: &Lane) -> Result<Value, Refusal> {
        match value {
            Lane::Const(_) | Lane::Bits(_) => {
                let sum = self.as_sum(value)?;
                self.low(&sum)
            }
            Lane::Uniform(v) => {
                let v = *v;
                let set = match self.b.func.ty(v).as_scalar() {
                    Some(Scalar::Bool) => v,
                    Some(ty) if ty.is_int() => {
                        let (one, zero) = (self.b.int(ty, 1), self.b.int(ty, 0));
                        let low = self.b.binary(BinOp::And, v, one);
                        self.b.compare(CmpOp::Ne, low, zero)
                    }
                    _ => return Err("there are floats".into()),
                };
                let (ones, zeros) = (self.ones(), self.zeros());
                Ok(self.b.select(set, ones, zeros))
            }
            Lane::Index(_) | Lane::Periodic(_) => {
                Err("the coordinate along the bits is stored".into())
            }
        }
    }
}
