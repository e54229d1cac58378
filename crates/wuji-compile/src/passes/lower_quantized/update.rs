//! Changes of words: stores that wait to be fused, and atomics.

use super::bits::{lowered, shifted};
use super::place::Element;
use super::sharing::Exclusive;
use super::{Lower, PackedAccess};
use crate::quant::{self, Bit};
use crate::remark::WordWrite;
use crate::rewrite::{bits_equal, combine};
use smallvec::SmallVec;
use wuji_ir::entities::{Field, Value};
use wuji_ir::module::{Span, Term, Values};
use wuji_ir::ops::*;
use wuji_ir::quant::{Member, PackedScalar, Quantized, SharedExponent, adds_integers, mask};
use wuji_ir::types::{Scalar, Type};

/// A change of some bits of a word.
pub(super) enum Part {
    /// Bits at a constant position.
    Bits { mask: u64, bits: Value },
    /// Bits of an element of a bit array.
    BitsAt { mask: Value, bits: Value },
    /// Some numbers of a group with a shared exponent.
    Group {
        exponent: SharedExponent,
        stored: Vec<(PackedScalar, Value)>,
    },
}

impl Part {
    /// Adds a number to its group, or starts one.
    pub(super) fn add_to(self, list: &mut Vec<Part>) {
        if let Part::Group { exponent, stored } = &self {
            for part in list.iter_mut() {
                if let Part::Group {
                    exponent: e,
                    stored: others,
                } = part
                    && e == exponent
                {
                    others.extend(stored.iter().copied());
                    return;
                }
            }
        }
        list.push(self);
    }
}

/// A store that has not been written yet.
pub(super) struct Pending {
    word: Field,
    at: Values,
    element: Element,
    write: Access,
    exclusive: Exclusive,
    parts: Vec<Part>,
    span: Span,
}

impl Lower<'_> {
    /// A group that is stored as a whole does not depend on the word.
    pub(super) fn complete(&mut self, word: Field, part: Part) -> Part {
        let Part::Group { exponent, stored } = &part else {
            return part;
        };
        let group = self.b.env.exponent_group(word, *exponent);
        let values: Option<Values> = group
            .iter()
            .map(|(_, s)| stored.iter().find(|(t, _)| t == s).map(|(_, v)| *v))
            .collect();
        match values {
            None => part,
            Some(values) => {
                let (mask, bits) = self.encode_group(word, *exponent, &values);
                Part::Bits { mask, bits }
            }
        }
    }

    /// All numbers of a group, in place.
    fn encode_group(
        &mut self,
        word: Field,
        exponent: SharedExponent,
        values: &[Value],
    ) -> (u64, Value) {
        let ty = self.word_type(word);
        let group = self.b.env.exponent_group(word, exponent);
        let shapes: Vec<(u8, bool)> = group
            .iter()
            .map(|(_, s)| (s.member.ty.bits() as u8, s.member.ty.is_signed()))
            .collect();
        let (shared, fractions) =
            quant::encode_shared(&mut self.b, exponent.bits, &shapes, values, ty);
        let mut bits = shifted(&mut self.b, shared, Bit::Const(exponent.at));
        let mut own = mask(exponent.bits.into()) << exponent.at;
        for ((_, scalar), fraction) in group.iter().zip(fractions) {
            let Member { at, ty, .. } = scalar.member;
            let fraction = shifted(&mut self.b, fraction, Bit::Const(at));
            bits = self.b.binary(BinOp::Or, bits, fraction);
            own |= mask(ty.bits()) << at;
        }
        (own, bits)
    }

    // ---- stores ----

    /// Stores some bits of a word, at the latest when something else may access it.
    pub(super) fn enqueue(&mut self, packed: &PackedAccess, word: Field, parts: Vec<Part>) {
        let write = Access {
            place: Place::Field(word),
            path: SmallVec::new(),
            activation: packed.access.activation,
            guard: packed.element.write_guard,
        };
        let same = |p: &Pending| {
            p.word == word && p.element.indices == packed.element.indices && p.write == write
        };
        if self.fuse
            && packed.element.bit.is_none()
            && let Some(at) = self.pending.iter().position(same)
        {
            let own = self.sharing.of_store(self.b.env, packed.field, word);
            let pending = &mut self.pending[at];
            pending.exclusive = weaker(pending.exclusive, own);
            pending.parts.extend(parts);
            return;
        }
        self.flush(word);
        let at = self.word_indices(packed, word);
        self.pending.push(Pending {
            word,
            at,
            element: packed.element.clone(),
            write,
            exclusive: self.sharing.of_store(self.b.env, packed.field, word),
            parts,
            span: self.b.span,
        });
        if !self.fuse {
            self.flush(word);
        }
    }

    /// Writes what is pending of a word.
    pub(super) fn flush(&mut self, word: Field) {
        if let Some(at) = self.pending.iter().position(|p| p.word == word) {
            let pending = self.pending.remove(at);
            self.write(pending);
        }
    }

    pub(super) fn flush_all(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            self.write(pending);
        }
    }

    fn write(&mut self, pending: Pending) {
        let span = std::mem::replace(&mut self.b.span, pending.span);
        let ty = self.word_type(pending.word);
        let used = self.b.env.used_bits(pending.word);
        let covered = pending.parts.iter().fold(0, |all, part| match part {
            Part::Bits { mask, .. } => all | mask,
            Part::BitsAt { .. } | Part::Group { .. } => all,
        });
        let constant = pending.parts.iter().all(|p| matches!(p, Part::Bits { .. }));
        let depends = pending.parts.iter().any(|p| match p {
            Part::Bits { .. } | Part::BitsAt { .. } => false,
            Part::Group { .. } => true,
        });
        let parts = &pending.parts;
        if covered & used == used && constant {
            self.note(pending.word, WordWrite::Store);
            let word = self.whole(ty, parts);
            self.store_word(&pending, word);
        } else if pending.exclusive == Exclusive::Bits && !depends {
            self.note(pending.word, WordWrite::Xor);
            let old = self.load_pending(&pending);
            let new = self.apply(pending.word, old, parts);
            let change = self.b.binary(BinOp::Xor, old, new);
            let op = Op::Atomic(AtomicOp::Xor, pending.write.clone());
            let mut args = pending.at.clone();
            args.push(change);
            self.b.push(op, &args);
        } else {
            self.note(pending.word, exclusive_write(pending.exclusive));
            let target = (&pending.write, pending.element.read_guard, &pending.at[..]);
            self.modify(target, ty, pending.exclusive, |lower, old| {
                lower.apply(pending.word, old, parts)
            });
        }
        self.b.span = span;
    }

    /// A word of which all bits in use are stored.
    fn whole(&mut self, ty: Scalar, parts: &[Part]) -> Value {
        let mut word: Option<(u64, Value)> = None;
        for part in parts {
            // The caller has seen that there are no others.
            let Part::Bits { mask, bits } = part else {
                continue;
            };
            word = Some(match word {
                None => (*mask, *bits),
                Some((set, word)) if set & mask == 0 => {
                    (set | mask, self.b.binary(BinOp::Or, word, *bits))
                }
                Some((set, word)) => {
                    let keep = self.b.int(ty, i128::from(!mask));
                    (set | mask, self.insert(word, keep, *bits))
                }
            });
        }
        match word {
            Some((_, word)) => word,
            None => self.b.int(ty, 0),
        }
    }

    fn load_pending(&mut self, pending: &Pending) -> Value {
        let load = reading(&pending.write, pending.element.read_guard);
        self.b.value(Op::Load(load), &pending.at)
    }

    fn store_word(&mut self, pending: &Pending, word: Value) {
        let mut args = pending.at.clone();
        args.push(word);
        self.b.push(Op::Store(pending.write.clone()), &args);
    }

    /// A word after some changes.
    fn apply(&mut self, of: Field, mut word: Value, parts: &[Part]) -> Value {
        for part in parts {
            word = match part {
                Part::Bits { mask, bits } => {
                    let ty = self.word_type(of);
                    let keep = self.b.int(ty, i128::from(!mask));
                    self.insert(word, keep, *bits)
                }
                Part::BitsAt { mask, bits } => {
                    let keep = self.b.unary(UnOp::Not, *mask);
                    self.insert(word, keep, *bits)
                }
                Part::Group { exponent, stored } => self.apply_group(of, word, *exponent, stored),
            };
        }
        word
    }

    fn insert(&mut self, word: Value, keep: Value, bits: Value) -> Value {
        let rest = self.b.binary(BinOp::And, word, keep);
        self.b.binary(BinOp::Or, rest, bits)
    }

    fn apply_group(
        &mut self,
        of: Field,
        word: Value,
        exponent: SharedExponent,
        stored: &[(PackedScalar, Value)],
    ) -> Value {
        let mut values = Values::new();
        for (_, scalar) in self.b.env.exponent_group(of, exponent) {
            let new = stored.iter().find(|(s, _)| *s == scalar);
            values.push(match new {
                Some((_, value)) => *value,
                None => self.decode_at(&scalar, Bit::Const(scalar.member.at), word),
            });
        }
        let (mask, bits) = self.encode_group(of, exponent, &values);
        let ty = self.word_type(of);
        let keep = self.b.int(ty, i128::from(!mask));
        self.insert(word, keep, bits)
    }

    // ---- read, modify, write ----

    /// Changes a word and returns its old bits.
    fn modify(
        &mut self,
        (write, guard, at): (&Access, Guard, &[Value]),
        ty: Scalar,
        exclusive: Exclusive,
        change: impl FnOnce(&mut Self, Value) -> Value,
    ) -> Value {
        let old = self.b.value(Op::Load(reading(write, guard)), at);
        if exclusive == Exclusive::Word {
            let new = change(self, old);
            let mut args: Values = at.into();
            args.push(new);
            self.b.push(Op::Store(write.clone()), &args);
            return old;
        }
        let ty = Type::Scalar(ty);
        let label = self.b.func.fresh_label();
        let inst = self.b.push_typed(Op::Loop(label), &[old], &[ty]);
        let region = self.b.func.add_region(&[ty]);
        let outer = std::mem::replace(&mut self.b.region, region);
        let expected = self.b.func.regions[region].params[0];
        let new = change(self, expected);
        let mut args: Values = at.into();
        args.extend([expected, new]);
        let found = self.b.value(Op::CompareExchange(write.clone()), &args);
        let same = self.b.compare(CmpOp::Eq, found, expected);
        let done: Values = [found].into_iter().collect();
        let leave = self.b.push_typed(Op::If, &[same], &[]);
        let yes = self
            .b
            .region(&[], |b, _| b.end(Term::Break(label, done.clone())));
        let no = self.b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
        self.b.func.insts[leave].regions.extend([yes, no]);
        self.b.end(Term::Continue(label, done));
        self.b.region = outer;
        self.b.func.insts[inst].regions.push(region);
        self.b.func.result(inst)
    }

    /// An atomic on each scalar; returns the old values.
    pub(super) fn atomic(&mut self, packed: &PackedAccess, op: AtomicOp, operand: Value) -> Value {
        let mut operands = Values::new();
        quant::decompose(&mut self.b, operand, &mut operands);
        let mut old = Values::new();
        for (scalar, operand) in self.scalars(packed).iter().zip(operands) {
            self.flush(scalar.member.word);
            let word = self.update(packed, scalar, op, operand);
            old.push(self.decode(scalar, &packed.element, word));
        }
        self.compose(packed.ty, &mut old.into_iter())
    }

    /// An atomic on one scalar; returns the old word.
    fn update(
        &mut self,
        packed: &PackedAccess,
        scalar: &PackedScalar,
        op: AtomicOp,
        operand: Value,
    ) -> Value {
        let Member { word, at, ty } = scalar.member;
        let word_ty = self.word_type(word);
        let exclusive = self.sharing.of_store(self.b.env, packed.field, word);
        let position = self.position(&packed.element, &scalar.member);
        let write = self.word_access(packed, word);
        let indices = self.word_indices(packed, word);
        let adds = op == AtomicOp::Add && adds_integers(ty);
        let increment = adds.then(|| {
            let b = &mut self.b;
            let draw = ty.is_stochastic().then(|| b.value(Op::Random, &[]));
            quant::increment(b, ty, scalar.compute, operand, draw, word_ty)
        });
        let highest =
            packed.element.bit.is_none() && self.b.env.used_bits(word) >> at <= mask(ty.bits());
        if let Some(increment) = increment
            && highest
            && exclusive != Exclusive::Word
        {
            // What overflows leaves the word, or changes bits that are not in use.
            self.note(word, WordWrite::Add);
            let increment = shifted(&mut self.b, increment, position);
            let mut args = indices;
            args.push(increment);
            return self.b.value(Op::Atomic(AtomicOp::Add, write), &args);
        }
        self.note(word, exclusive_write(exclusive));
        let draw = (!adds && ty.is_stochastic()).then(|| self.b.value(Op::Random, &[]));
        let target = (&write, packed.element.read_guard, &indices[..]);
        self.modify(target, word_ty, exclusive, |lower, old| {
            let part = match increment {
                Some(increment) => lower.sum(ty, position, old, increment),
                None => {
                    let number = lower.decode_at(scalar, position, old);
                    let new = combine(&mut lower.b, op, number, operand);
                    lower.part_with(scalar, position, new, draw)
                }
            };
            lower.apply(word, old, &[part])
        })
    }

    /// A sum of integers, modulo the number of bits.
    fn sum(&mut self, ty: Quantized, at: Bit, word: Value, increment: Value) -> Part {
        let scalar = self.b.func.ty(word).as_scalar().unwrap_or(Scalar::U64);
        let own = lowered(&mut self.b, word, at);
        let sum = self.b.binary(BinOp::Add, own, increment);
        let low = self.b.int(scalar, mask(ty.bits()).into());
        let sum = self.b.binary(BinOp::And, sum, low);
        self.bits_at(sum, ty.bits(), at)
    }

    /// The change of a word that stores one scalar at a position.
    pub(super) fn part_with(
        &mut self,
        scalar: &PackedScalar,
        at: Bit,
        value: Value,
        draw: Option<Value>,
    ) -> Part {
        let ty = scalar.member.ty;
        if let Quantized::Fraction { exponent, .. } = ty {
            return Part::Group {
                exponent,
                stored: vec![(*scalar, value)],
            };
        }
        let word = self.word_type(scalar.member.word);
        let bits = quant::encode(&mut self.b, ty, scalar.compute, value, draw, word);
        self.bits_at(bits, ty.bits(), at)
    }

    /// `cmpxchg` of one scalar; returns the old number.
    pub(super) fn exchange(&mut self, packed: &PackedAccess, expected: Value, new: Value) -> Value {
        let scalar = self.scalars(packed)[0];
        let word = scalar.member.word;
        self.flush(word);
        let exclusive = self.sharing.of_store(self.b.env, packed.field, word);
        let at = self.position(&packed.element, &scalar.member);
        let write = self.word_access(packed, word);
        let indices = self.word_indices(packed, word);
        let stochastic = scalar.member.ty.is_stochastic();
        let draw = stochastic.then(|| self.b.value(Op::Random, &[]));
        let ty = self.word_type(word);
        self.note(word, exclusive_write(exclusive));
        let target = (&write, packed.element.read_guard, &indices[..]);
        let old = self.modify(target, ty, exclusive, |lower, old| {
            let number = lower.decode_at(&scalar, at, old);
            let same = bits_equal(&mut lower.b, number, expected);
            let part = lower.part_with(&scalar, at, new, draw);
            let changed = lower.apply(word, old, &[part]);
            lower.b.select(same, changed, old)
        });
        self.decode(&scalar, &packed.element, old)
    }

    fn word_access(&self, packed: &PackedAccess, word: Field) -> Access {
        Access {
            place: Place::Field(word),
            path: SmallVec::new(),
            activation: packed.access.activation,
            guard: packed.element.write_guard,
        }
    }
}

/// The load before a write.
fn reading(write: &Access, guard: Guard) -> Access {
    Access {
        activation: Activation::Never,
        guard,
        ..write.clone()
    }
}

/// How [`Lower::modify`] changes a word.
fn exclusive_write(exclusive: Exclusive) -> WordWrite {
    match exclusive {
        Exclusive::Word => WordWrite::Insert,
        Exclusive::Bits | Exclusive::Nothing => WordWrite::Swap,
    }
}

fn weaker(a: Exclusive, b: Exclusive) -> Exclusive {
    match (a, b) {
        (Exclusive::Nothing, _) | (_, Exclusive::Nothing) => Exclusive::Nothing,
        (Exclusive::Bits, _) | (_, Exclusive::Bits) => Exclusive::Bits,
        (Exclusive::Word, Exclusive::Word) => Exclusive::Word,
    }
}
