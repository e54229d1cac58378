//! What a task accesses: fields of trees, and arrays.

use crate::summary::number_in_tree;
use wuji_ir::entities::{Array, Field};
use wuji_ir::module::{ArrayData, Module};
use wuji_ir::ops::Place;
use wuji_ir::types::Type;

/// Elements outside of the task.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Storage {
    /// A field of a tree.
    Field(Field),
    /// An array of the world.
    Array(Array),
}

impl Storage {
    /// `None` for what belongs to the task itself.
    pub fn of(place: Place) -> Option<Storage> {
        match place {
            Place::Field(field) => Some(Storage::Field(field)),
            Place::Array(array) => Some(Storage::Array(array)),
            Place::Local(_) | Place::Temp(_) => None,
        }
    }

    /// The place of an access.
    pub fn place(self) -> Place {
        match self {
            Storage::Field(field) => Place::Field(field),
            Storage::Array(array) => Place::Array(array),
        }
    }

    /// The type of an element.
    pub fn elem(self, m: &Module) -> Type {
        match self {
            Storage::Field(field) => m.fields[field].elem,
            Storage::Array(array) => m.arrays[array].elem,
        }
    }

    /// The number of indices.
    pub fn rank(self, m: &Module) -> usize {
        match self {
            Storage::Field(field) => m.fields[field].rank(),
            Storage::Array(array) => usize::from(m.arrays[array].rank),
        }
    }

    /// The first index and the extent of each axis. `None` for an array whose shape is not known.
    pub fn domain(self, m: &Module) -> Option<Vec<(i64, u64)>> {
        match self {
            Storage::Field(field) => Some(m.fields[field].domain(&m.trees)),
            Storage::Array(array) => {
                let shape = m.arrays[array].shape.as_ref()?;
                let axes = shape.extents.iter();
                axes.map(|e| Some((0, u64::try_from(*e).ok()?))).collect()
            }
        }
    }

    /// Whether some cell above it can be inactive.
    pub fn is_sparse(self, m: &Module) -> bool {
        match self {
            Storage::Field(field) => {
                let data = &m.fields[field];
                !m.trees[data.tree].sparse_path(data.node).is_empty()
            }
            Storage::Array(_) => false,
        }
    }

    /// Whether elements are parts of words.
    pub fn is_packed(self, m: &Module) -> bool {
        match self {
            Storage::Field(field) => m.fields[field].packing.is_some(),
            Storage::Array(_) => false,
        }
    }

    /// The number of a field in its tree; an array is alone.
    pub(crate) fn number(self, m: &Module) -> u32 {
        match self {
            Storage::Field(field) => number_in_tree(m, field),
            Storage::Array(_) => 0,
        }
    }
}

/// Whether tasks with this array can be fused: its elements are known, and no other array of the kernel shares them.
pub(crate) fn is_fixed(array: &ArrayData) -> bool {
    array.shape.is_some() && array.contiguous && array.unaliased
}
