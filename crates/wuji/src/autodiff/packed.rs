//! Copies of packed fields: bits of words.
//!
//! A store of a number that was loaded does not always give the same bits, and it may round other fields again. So the bits are copied.

use crate::autodiff::saves::{Copy, Storage, WholeTree};
use crate::autodiff::trees::{active, restore_bits};
use crate::host::{ActiveCells, FieldHandle};
use crate::world::World;
use wuji_ir::Result;
use wuji_ir::entities::Field;

/// Packed fields that are copied together: one, or all that share exponents.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PackedFields {
    tree: WholeTree,
    fields: Vec<Field>,
}

/// The words of packed fields, and which of their bits were copied.
pub(crate) struct PackedCopy(Vec<(u64, WordCopy)>);

enum WordCopy {
    Dense(Copy),
    /// Those of a sparse tree that were active.
    Active(ActiveCells),
}

impl PackedFields {
    /// The fields that are copied with a packed one; `None` if it is not packed.
    pub(crate) fn with(field: &FieldHandle) -> Result<Option<PackedFields>> {
        let shape = &field.tree.body()?.shape;
        let fields = shape.rounded_together(field.field);
        Ok((!fields.is_empty()).then(|| PackedFields {
            tree: WholeTree(field.tree.clone()),
            fields,
        }))
    }

    pub(crate) fn world(&self) -> &World {
        &self.tree.0.world
    }

    pub(crate) fn handles(&self) -> impl Iterator<Item = FieldHandle> {
        let handle = |field: &Field| FieldHandle {
            tree: self.tree.0.clone(),
            field: *field,
        };
        self.fields.iter().map(handle)
    }

    /// The words, and which bits of them are copied.
    fn words(&self) -> Result<Vec<(FieldHandle, u64)>> {
        let tree = &self.tree.0;
        let words = tree.body()?.shape.own_bits(&self.fields).into_iter();
        let handle = |field| FieldHandle {
            tree: tree.clone(),
            field,
        };
        Ok(words.map(|(word, bits)| (handle(word), bits)).collect())
    }

    pub(crate) fn bytes(&self) -> Result<u64> {
        let words = self.words()?;
        words.iter().map(|(word, _)| Copy::bytes_of(word)).sum()
    }

    pub(crate) fn take(&self, storage: Storage) -> Result<PackedCopy> {
        let words = self.words()?.into_iter();
        let copies = words.map(|(word, bits)| {
            let copy = if word.is_dense()? {
                WordCopy::Dense(Copy::take(&word, storage)?)
            } else {
                WordCopy::Active(active(&word, true)?)
            };
            Ok((bits, copy))
        });
        Ok(PackedCopy(copies.collect::<Result<_>>()?))
    }

    /// Gives the fields the bits that they had. Others in the same words keep theirs. What was not active becomes zero where it is active now.
    pub(crate) fn restore(&self, copy: &PackedCopy) -> Result<()> {
        for ((word, _), (bits, copy)) in self.words()?.iter().zip(&copy.0) {
            match copy {
                WordCopy::Dense(copy) => copy.restore_bits(word, *bits)?,
                WordCopy::Active(cells) => restore_bits(word, Some(cells), *bits)?,
            }
        }
        Ok(())
    }
}
