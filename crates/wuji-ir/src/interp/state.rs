//! The contents of trees, to be moved from one machine to another.

use super::bytes::Bytes;
use super::error::{BAD_LAUNCH, stop};
use super::sparse::TreeCells;
use super::store::FieldStore;
use super::{Machine, Memory};
use crate::Result;
use crate::entities::{Field, Tree};
use crate::layout::Child;

/// The contents of one tree: its active cells and their elements. Machines of different modules can use it in
/// turn, if the tree is the same in both; ids of trees and fields may differ.
#[derive(Debug)]
pub struct TreeState(State);

#[derive(Debug)]
enum State {
    Abstract {
        cells: TreeCells,
        /// In the order in which the tree places them.
        fields: Vec<FieldStore>,
    },
    Lowered(Bytes),
}

impl Machine<'_> {
    /// The fields of a tree, in placement order. Views have no contents, so modules may have different ones.
    fn placed(&self, tree: Tree) -> Vec<Field> {
        let nodes = self.module.trees[tree].nodes.values();
        nodes
            .flat_map(|n| &n.children)
            .filter_map(|c| match c {
                Child::Place(f) => Some(*f),
                Child::Node(_) => None,
            })
            .filter(|f| {
                let data = &self.module.fields[*f];
                data.size_align(&self.module.structs).0 != 0
            })
            .collect()
    }

    /// Takes the contents of a tree, and leaves a fresh one.
    pub fn take_tree(&mut self, tree: Tree) -> TreeState {
        let placed = self.placed(tree);
        let module = self.module;
        match &mut self.memory {
            Memory::Abstract { fields, cells, .. } => {
                let new = TreeCells::new(&module.trees[tree]);
                let take =
                    |f: &Field| std::mem::replace(&mut fields[*f], FieldStore::new(module, *f));
                TreeState(State::Abstract {
                    fields: placed.iter().map(take).collect(),
                    cells: std::mem::replace(&mut cells[tree], new),
                })
            }
            Memory::Lowered { trees, .. } => TreeState(State::Lowered(trees[tree].take())),
        }
    }

    /// Sets the contents of a tree.
    pub fn put_tree(&mut self, tree: Tree, state: TreeState) -> Result<()> {
        let wrong = || {
            stop(
                BAD_LAUNCH,
                format!("{tree} gets the contents of another tree"),
            )
        };
        let placed = self.placed(tree);
        match (&mut self.memory, state.0) {
            (
                Memory::Abstract { fields, cells, .. },
                State::Abstract {
                    cells: held,
                    fields: stores,
                },
            ) => {
                let fits = |(f, store): (&Field, &FieldStore)| fields[*f].fits(store);
                if !held.fits(&cells[tree])
                    || placed.len() != stores.len()
                    || !placed.iter().zip(&stores).all(fits)
                {
                    return Err(wrong());
                }
                cells[tree] = held;
                for (f, store) in placed.into_iter().zip(stores) {
                    fields[f] = store;
                }
                Ok(())
            }
            (Memory::Lowered { trees, .. }, State::Lowered(bytes)) => {
                trees[tree].put(bytes).ok_or_else(wrong)
            }
            (Memory::Abstract { .. }, State::Lowered(_))
            | (Memory::Lowered { .. }, State::Abstract { .. }) => Err(wrong()),
        }
    }
}
