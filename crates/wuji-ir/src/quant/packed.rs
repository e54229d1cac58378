//! Reading and writing packed elements, given their words.

use super::{Member, Packing, Quantized, SharedExponent, decode_shared, encode_shared};
use crate::entities::Field;
use crate::env::Env;
use crate::eval;
use crate::layout::FieldData;
use crate::ops::AtomicOp;
use crate::types::{Imm, Scalar};
use smallvec::SmallVec;

/// The words around one element of a packed field.
pub trait Words {
    /// Reads a word.
    fn get(&self, word: Field) -> u64;
    /// Writes a word.
    fn set(&mut self, word: Field, bits: u64);
}

/// A scalar of a packed element: where it is, and its compute type.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct PackedScalar {
    /// The field and where it is in its word.
    pub member: Member,
    /// The type that kernels compute with.
    pub compute: Scalar,
}

impl PackedScalar {
    /// Moved up by some bits, in a bit array.
    fn shifted(mut self, by: u32) -> PackedScalar {
        self.member.at += by as u8;
        self
    }

    fn extract(&self, word: u64) -> u64 {
        bits(word, self.member.at, self.member.ty.bits())
    }

    fn read(&self, word: u64) -> Imm {
        let own = self.extract(word);
        match self.member.ty {
            Quantized::Int { .. } | Quantized::Fixed { .. } | Quantized::Float { .. } => {
                self.member.ty.decode(own, self.compute)
            }
            Quantized::Fraction {
                bits: width,
                signed,
                exponent,
            } => {
                let shared = bits(word, exponent.at, exponent.bits.into());
                decode_shared(exponent.bits, shared, width, signed, own, self.compute)
            }
        }
    }
}

/// `width` bits of a word, from `at` on.
fn bits(word: u64, at: u8, width: u32) -> u64 {
    word >> at & mask(width)
}

/// The lowest bits.
pub const fn mask(width: u32) -> u64 {
    match width {
        64.. => u64::MAX,
        _ => (1 << width) - 1,
    }
}

fn insert(word: &mut u64, at: u8, width: u32, value: u64) {
    *word = *word & !(mask(width) << at) | (value & mask(width)) << at;
}

impl Env {
    /// The scalars of a packed field in the order of its elements; empty for other fields.
    pub fn packed_scalars(&self, field: Field) -> SmallVec<[PackedScalar; 4]> {
        let data = &self.fields[field];
        let members = data.packing.iter().flat_map(|p| &p.members);
        let scalars = self.structs.flatten(data.elem);
        let scalars = members.zip(scalars);
        scalars
            .map(|(member, compute)| PackedScalar {
                member: *member,
                compute,
            })
            .collect()
    }

    /// All scalars that share an exponent, in the order of fields: those of all fields of the word.
    pub fn exponent_group(
        &self,
        word: Field,
        exponent: SharedExponent,
    ) -> SmallVec<[(Field, PackedScalar); 4]> {
        let tree = self.fields[word].tree;
        let packed = (self.fields.iter()).filter(|(_, f)| f.tree == tree && f.packing.is_some());
        let scalars = packed.flat_map(|(field, _)| {
            let scalars = self.packed_scalars(field);
            scalars.into_iter().map(move |s| (field, s))
        });
        let shares = |s: &PackedScalar| match s.member.ty {
            Quantized::Fraction { exponent: e, .. } => s.member.word == word && e == exponent,
            Quantized::Int { .. } | Quantized::Fixed { .. } | Quantized::Float { .. } => false,
        };
        scalars.filter(|(_, s)| shares(s)).collect()
    }

    /// The other fields whose numbers a store to a field may round again, because they share an exponent.
    pub fn sharing_exponents(&self, field: Field) -> SmallVec<[Field; 4]> {
        let mut found = SmallVec::new();
        let members = self.fields[field].packing.iter().flat_map(|p| &p.members);
        for member in members {
            let Quantized::Fraction { exponent, .. } = member.ty else {
                continue;
            };
            for (other, _) in self.exponent_group(member.word, exponent) {
                if other != field && !found.contains(&other) {
                    found.push(other);
                }
            }
        }
        found
    }

    /// The bits of a word that some field uses.
    pub fn used_bits(&self, word: Field) -> u64 {
        let data = &self.fields[word];
        let tree = &self.trees[data.tree];
        let mut used = 0;
        for field in self.fields.values().filter(|f| f.tree == data.tree) {
            let Some(packing) = &field.packing else {
                continue;
            };
            let cells = tree.bit_array(field.node).map_or(1, |n| n.cells());
            for member in packing.members.iter().filter(|m| m.word == word) {
                for k in 0..cells {
                    let at = u32::from(member.at) + k as u32 * packing.stride();
                    used |= mask(member.ty.bits()) << at;
                }
                if let Quantized::Fraction { exponent, .. } = member.ty {
                    used |= mask(exponent.bits.into()) << exponent.at;
                }
            }
        }
        used
    }
}

/// One element of a packed field.
#[derive(Clone, Debug)]
pub struct PackedElement<'a> {
    env: &'a Env,
    scalars: SmallVec<[PackedScalar; 4]>,
}

impl<'a> PackedElement<'a> {
    /// An element by its number in the bit array, or 0.
    pub fn new(env: &'a Env, field: Field, number: u64) -> PackedElement<'a> {
        let stride = env.fields[field]
            .packing
            .as_ref()
            .map_or(0, Packing::stride);
        let by = number as u32 * stride;
        let scalars = env.packed_scalars(field).into_iter();
        PackedElement {
            env,
            scalars: scalars.map(|s| s.shifted(by)).collect(),
        }
    }

    /// The number of scalars.
    pub fn len(&self) -> usize {
        self.scalars.len()
    }

    /// Whether there is no scalar.
    pub fn is_empty(&self) -> bool {
        self.scalars.is_empty()
    }

    /// `word` gives the bits of a word.
    pub fn read(&self, scalar: usize, word: impl Fn(Field) -> u64) -> Imm {
        let scalar = &self.scalars[scalar];
        scalar.read(word(scalar.member.word))
    }

    /// Stores consecutive scalars at once. `draw` is called for each scalar with stochastic rounding.
    pub fn write(
        &self,
        words: &mut impl Words,
        start: usize,
        values: &[Imm],
        mut draw: impl FnMut() -> u64,
    ) {
        let stored = &self.scalars[start..start + values.len()];
        let mut groups: SmallVec<[(Field, SharedExponent); 1]> = SmallVec::new();
        for (scalar, value) in stored.iter().zip(values) {
            let Member { word, at, ty } = scalar.member;
            if let Quantized::Fraction { exponent, .. } = ty {
                if !groups.contains(&(word, exponent)) {
                    groups.push((word, exponent));
                }
                continue;
            }
            let draw = if ty.is_stochastic() { draw() } else { 0 };
            let mut bits = words.get(word);
            insert(&mut bits, at, ty.bits(), ty.encode(*value, draw));
            words.set(word, bits);
        }
        for (word, exponent) in groups {
            let mut bits = words.get(word);
            self.write_group(&mut bits, (word, exponent), stored, values);
            words.set(word, bits);
        }
    }

    /// Stores some numbers of a group; the others are encoded again.
    fn write_group(
        &self,
        word: &mut u64,
        (of, exponent): (Field, SharedExponent),
        stored: &[PackedScalar],
        values: &[Imm],
    ) {
        let group = self.env.exponent_group(of, exponent);
        let mut numbers: SmallVec<[Imm; 4]> = SmallVec::new();
        let mut shapes: SmallVec<[(u8, bool); 4]> = SmallVec::new();
        for (_, scalar) in &group {
            let new = stored.iter().position(|s| s == scalar);
            numbers.push(new.map_or_else(|| scalar.read(*word), |k| values[k]));
            let ty = scalar.member.ty;
            shapes.push((ty.bits() as u8, ty.is_signed()));
        }
        let (shared, fractions) = encode_shared(exponent.bits, &shapes, &numbers);
        insert(word, exponent.at, exponent.bits.into(), shared);
        for ((_, scalar), fraction) in group.iter().zip(fractions) {
            let Member { at, ty, .. } = scalar.member;
            insert(word, at, ty.bits(), fraction);
        }
    }

    /// An atomic on one scalar; the old value, or `None` if the operation is not defined on the type.
    pub fn update(
        &self,
        words: &mut impl Words,
        scalar: usize,
        (op, operand): (AtomicOp, Imm),
        mut draw: impl FnMut() -> u64,
    ) -> Option<Imm> {
        let old = self.read(scalar, |word| words.get(word));
        let member = self.scalars[scalar].member;
        if op == AtomicOp::Add && adds_integers(member.ty) {
            let mut bits = words.get(member.word);
            let sum = self.scalars[scalar].extract(bits);
            let draw = if member.ty.is_stochastic() { draw() } else { 0 };
            let sum = sum.wrapping_add(member.ty.increment(operand, draw));
            insert(&mut bits, member.at, member.ty.bits(), sum);
            words.set(member.word, bits);
        } else {
            let new = eval::combine(op, old, operand)?;
            self.write(words, scalar, &[new], draw);
        }
        Some(old)
    }
}

/// Whether an atomic `add` is one of integers, which wraps.
pub const fn adds_integers(ty: Quantized) -> bool {
    match ty {
        Quantized::Int { .. } | Quantized::Fixed { .. } => true,
        Quantized::Float { .. } | Quantized::Fraction { .. } => false,
    }
}

impl FieldData {
    /// Coordinates of an element's word, and the number of the element in its bit array, from its own coordinates.
    /// Coordinates are counted from the smallest one of each field.
    pub fn word_of(&self, env: &Env, word: Field, at: &[u64]) -> (SmallVec<[u64; 4]>, u64) {
        let array = env.trees[self.tree].bit_array(self.node);
        let coordinate = |axis| {
            let index = self.axes.iter().position(|a| a.0 == axis);
            index.map_or(0, |k| at[k])
        };
        let mut number = 0;
        for (axis, extent) in array.iter().flat_map(|n| &n.extents) {
            number = number * extent + coordinate(*axis) % extent;
        }
        let coords = env.fields[word].axes.iter().map(|(axis, _)| {
            let split = array.and_then(|n| n.extents.iter().find(|e| e.0 == *axis));
            coordinate(*axis) / split.map_or(1, |e| e.1)
        });
        (coords.collect(), number)
    }
}
