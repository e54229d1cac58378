//! Split fields: every component of an element is an element of another field, in any node of the tree.

use crate::entities::Field;
use crate::env::Env;
use smallvec::SmallVec;
use std::ops::Range;

/// A field without components of its own that holds some scalars of the elements of another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// The field of the component.
    pub field: Field,
    /// The scalars it holds, in the order of [`Structs::flatten`](crate::types::Structs::flatten).
    pub scalars: Range<usize>,
}

impl Env {
    /// The fields that hold the elements of a field: itself, unless it is split. Components of a split field may be split
    /// again.
    pub fn leaves(&self, field: Field) -> SmallVec<[Leaf; 4]> {
        let mut out = SmallVec::new();
        self.add_leaves(field, 0, &mut out);
        out
    }

    fn add_leaves(&self, field: Field, start: usize, out: &mut SmallVec<[Leaf; 4]>) -> usize {
        let data = &self.fields[field];
        if data.is_split() {
            let components = data.components.iter();
            return components.fold(start, |at, c| self.add_leaves(*c, at, out));
        }
        let end = start + self.structs.flatten(data.elem).len();
        out.push(Leaf {
            field,
            scalars: start..end,
        });
        end
    }

    /// The field that loops over a field visit the cells of, and that activity is tested in: the first leaf.
    pub fn lead(&self, mut field: Field) -> Field {
        while let Some(first) = self.fields[field].components.first() {
            field = *first;
        }
        field
    }

    /// Whether all scalars of an element are in one cell.
    pub fn is_in_one_node(&self, field: Field) -> bool {
        let node = self.fields[field].node;
        let mut leaves = self.leaves(field).into_iter();
        leaves.all(|leaf| self.fields[leaf.field].node == node)
    }
}
