//! Elements of packed fields in the memory of dense trees.

use super::fields::read_scalar;
use crate::address::Address;
use crate::program::field_address;
use std::ops::Range;
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::module::Module;
use wuji_ir::quant::{PackedElement, Words};
use wuji_ir::types::{Imm, Scalar};

/// A packed field and the addresses of its words.
pub(crate) struct PackedField<'m> {
    module: &'m Module,
    field: Field,
    words: Vec<(Field, Address, Scalar)>,
}

/// The words of one element.
struct ElementWords<'a> {
    packed: &'a PackedField<'a>,
    at: &'a [u64],
    bytes: &'a mut [u8],
}

impl<'m> PackedField<'m> {
    /// `None` for other fields.
    pub(crate) fn new(module: &'m Module, field: Field) -> Result<Option<PackedField<'m>>> {
        let Some(packing) = &module.fields[field].packing else {
            return Ok(None);
        };
        let mut words: Vec<(Field, Address, Scalar)> = Vec::new();
        for member in &packing.members {
            if words.iter().all(|w| w.0 != member.word) {
                let ty = module.fields[member.word].elem.as_scalar();
                let address = field_address(module, member.word)?;
                words.push((member.word, address, ty.unwrap_or(Scalar::U64)));
            }
        }
        Ok(Some(PackedField {
            module,
            field,
            words,
        }))
    }

    /// From the first to the last byte of its words.
    pub(crate) fn span(&self) -> Range<usize> {
        let spans = self.words.iter().map(|(_, address, ty)| {
            let window: Vec<(u64, u64)> = address.domain().map(|d| (0, d.1)).collect();
            address.span(&window, ty.bytes() as usize)
        });
        spans
            .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
            .unwrap_or(0..0)
    }

    /// The scalars of an element. Coordinates are counted from the smallest ones.
    pub(crate) fn read(&self, at: &[u64], bytes: &[u8]) -> Vec<Imm> {
        let element = self.element(at);
        let word = |word: Field| {
            let (offset, ty) = self.word(word, at);
            read_scalar(&bytes[offset..], ty).bits()
        };
        (0..element.len()).map(|k| element.read(k, word)).collect()
    }

    pub(crate) fn write(&self, at: &[u64], values: &[Imm], bytes: &mut [u8]) {
        let packed = self;
        let mut words = ElementWords { packed, at, bytes };
        self.element(at).write(&mut words, 0, values, || 0);
    }

    fn element(&self, at: &[u64]) -> PackedElement<'m> {
        let data = &self.module.fields[self.field];
        let number = self
            .words
            .first()
            .map_or(0, |(word, ..)| data.word_of(self.module, *word, at).1);
        PackedElement::new(self.module, self.field, number)
    }

    /// Offset and type of a word.
    fn word(&self, word: Field, at: &[u64]) -> (usize, Scalar) {
        let data = &self.module.fields[self.field];
        let (at, _) = data.word_of(self.module, word, at);
        match self.words.iter().find(|w| w.0 == word) {
            None => (0, Scalar::U8),
            Some((_, address, ty)) => {
                let coords = address.domain().zip(&at);
                let coords = coords.map(|((lo, _), c)| lo + *c as i64);
                (address.offset(coords.collect::<Vec<_>>()), *ty)
            }
        }
    }
}

impl Words for ElementWords<'_> {
    fn get(&self, word: Field) -> u64 {
        let (offset, ty) = self.packed.word(word, self.at);
        read_scalar(&self.bytes[offset..], ty).bits()
    }

    fn set(&mut self, word: Field, bits: u64) {
        let (offset, ty) = self.packed.word(word, self.at);
        let n = ty.bytes() as usize;
        self.bytes[offset..offset + n].copy_from_slice(&bits.to_le_bytes()[..n]);
    }
}

/// Coordinates of all elements of a domain, row by row, counted from the smallest ones.
pub(crate) fn points(domain: &[(i64, u64)], mut visit: impl FnMut(&[u64])) {
    let mut at = vec![0; domain.len()];
    if domain.iter().any(|d| d.1 == 0) {
        return;
    }
    loop {
        visit(&at);
        let mut k = domain.len();
        loop {
            if k == 0 {
                return;
            }
            k -= 1;
            at[k] += 1;
            if at[k] < domain[k].1 {
                break;
            }
            at[k] = 0;
        }
    }
}
