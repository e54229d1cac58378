//! Elements of packed fields, which are stored in their words.

use super::bytes::TreeBytes;
use super::store::{FieldDomain, FieldStore, Relative};
use super::{Machine, Memory};
use crate::entities::Field;
use crate::module::Module;
use crate::ops::AtomicOp;
use crate::quant::{PackedElement, Words};
use crate::types::Imm;
use cranelift_entity::PrimaryMap;

/// The words around an element, by their coordinates.
struct AbstractWords<'a> {
    module: &'a Module,
    fields: &'a mut PrimaryMap<Field, FieldStore>,
    field: Field,
    at: &'a Relative,
}

/// The words around an element, in bytes.
struct LoweredWords<'a> {
    module: &'a Module,
    domains: &'a PrimaryMap<Field, FieldDomain>,
    tree: &'a mut TreeBytes,
    field: Field,
    at: &'a Relative,
}

fn coords(m: &Module, field: Field, word: Field, at: &Relative) -> Relative {
    m.fields[field].word_of(m, word, at).0
}

fn word_imm(m: &Module, word: Field, bits: u64) -> Imm {
    let ty = m.structs.flatten(m.fields[word].elem)[0];
    Imm::from_bits(ty, bits)
}

impl Words for AbstractWords<'_> {
    fn get(&self, word: Field) -> u64 {
        abstract_word(self.module, self.fields, (self.field, self.at), word)
    }

    fn set(&mut self, word: Field, bits: u64) {
        let at = coords(self.module, self.field, word, self.at);
        let value = word_imm(self.module, word, bits);
        self.fields[word].set(&at, 0, value);
    }
}

fn abstract_word(
    m: &Module,
    fields: &PrimaryMap<Field, FieldStore>,
    (field, at): (Field, &Relative),
    word: Field,
) -> u64 {
    fields[word].get(&coords(m, field, word, at), 0).bits()
}

/// The offset of a word in its tree.
fn offset(
    m: &Module,
    (domains, tree): (&PrimaryMap<Field, FieldDomain>, &TreeBytes),
    (field, at): (Field, &Relative),
    word: Field,
) -> u64 {
    let domain = &domains[word];
    let at = domain.coords(&coords(m, field, word, at));
    tree.element(m, word, domain, &at)
}

fn lowered_word(
    m: &Module,
    (domains, tree): (&PrimaryMap<Field, FieldDomain>, &TreeBytes),
    at: (Field, &Relative),
    word: Field,
) -> u64 {
    let offset = offset(m, (domains, tree), at, word);
    tree.bytes.read(offset, word_imm(m, word, 0).ty).bits()
}

impl Words for LoweredWords<'_> {
    fn get(&self, word: Field) -> u64 {
        let at = (self.field, self.at);
        lowered_word(self.module, (self.domains, self.tree), at, word)
    }

    fn set(&mut self, word: Field, bits: u64) {
        let at = (self.field, self.at);
        let offset = offset(self.module, (self.domains, self.tree), at, word);
        let value = word_imm(self.module, word, bits);
        self.tree.bytes.write(offset, value);
    }
}

impl Machine<'_> {
    pub(super) fn is_packed(&self, field: Field) -> bool {
        self.module.fields[field].packing.is_some()
    }

    fn packed<'a>(&self, env: &'a Module, field: Field, at: &Relative) -> PackedElement<'a> {
        let number = env.fields[field].packing.as_ref().map_or(0, |p| {
            let word = p.members[0].word;
            env.fields[field].word_of(env, word, at).1
        });
        PackedElement::new(env, field, number)
    }

    pub(super) fn read_packed(&self, field: Field, at: &Relative, scalar: usize) -> Imm {
        let m = self.module;
        let element = self.packed(m, field, at);
        match &self.memory {
            Memory::Abstract { fields, .. } => {
                element.read(scalar, |word| abstract_word(m, fields, (field, at), word))
            }
            Memory::Lowered { domains, trees, .. } => {
                let tree = &trees[m.fields[field].tree];
                element.read(scalar, |word| {
                    lowered_word(m, (domains, tree), (field, at), word)
                })
            }
        }
    }

    pub(super) fn write_packed(
        &mut self,
        field: Field,
        at: &Relative,
        (start, values): (usize, &[Imm]),
        draw: impl FnMut() -> u64,
    ) {
        let module = self.module;
        let element = self.packed(module, field, at);
        match &mut self.memory {
            Memory::Abstract { fields, .. } => {
                let mut words = AbstractWords {
                    module,
                    fields,
                    field,
                    at,
                };
                element.write(&mut words, start, values, draw);
            }
            Memory::Lowered { domains, trees, .. } => {
                let tree = &mut trees[module.fields[field].tree];
                let mut words = LoweredWords {
                    module,
                    domains,
                    tree,
                    field,
                    at,
                };
                element.write(&mut words, start, values, draw);
            }
        }
    }

    /// An atomic; `None` if it is not defined on the type. Only before lowering.
    pub(super) fn update_packed(
        &mut self,
        field: Field,
        at: &Relative,
        scalar: usize,
        update: (AtomicOp, Imm),
        draw: impl FnMut() -> u64,
    ) -> Option<Imm> {
        let module = self.module;
        let element = self.packed(module, field, at);
        match &mut self.memory {
            Memory::Abstract { fields, .. } => {
                let mut words = AbstractWords {
                    module,
                    fields,
                    field,
                    at,
                };
                element.update(&mut words, scalar, update, draw)
            }
            Memory::Lowered { .. } => None,
        }
    }
}
