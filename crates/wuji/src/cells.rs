//! Views of the cells of a node: activation without elements.

use crate::axes::{Coordinates, ListCoordinates};
use crate::host::{FieldHandle, HostAccess};
use crate::layout::{Tree, TreeInner};
use crate::world::World;
use std::fmt;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities;

/// A handle to the cells of one node of a layout: which of them are active, apart from what they hold.
/// Made by [`Node::cells`](crate::Node::cells); kernels take it as `&Cells<D>`.
///
/// ```
/// use wuji::prelude::*;
/// # fn main() -> wuji::Result<()> {
/// let world = World::cpu()?;
/// let (blocks, x) = world.layout(|root| {
///     let node = root.pointer(IJ, 64);
///     (node.cells::<2>("blocks"), node.dense(IJ, 8).place::<f32, 2>("x"))
/// })?;
/// x.set([17, 3], 2.5)?;
/// assert_eq!(blocks.active()?, [[2, 0]]);
/// blocks.deactivate_all()?;
/// assert_eq!(x.get([17, 3])?, 0.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Cells<const D: usize> {
    handle: FieldHandle,
}

impl<const D: usize> fmt::Debug for Cells<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cells({:?}, rank {D})", self.name())
    }
}

impl<const D: usize> Cells<D> {
    pub(crate) fn new(tree: Arc<TreeInner>, field: entities::Field) -> Cells<D> {
        Cells {
            handle: FieldHandle { tree, field },
        }
    }

    pub(crate) fn tree_inner(&self) -> &Arc<TreeInner> {
        &self.handle.tree
    }

    pub(crate) fn number(&self) -> entities::Field {
        self.handle.field
    }

    #[track_caller]
    fn access(&self) -> Result<HostAccess<'_>> {
        self.handle.access()
    }

    /// The name it has in the layout.
    pub fn name(&self) -> &str {
        self.handle.name()
    }

    /// The tree of the node.
    pub fn tree(&self) -> Tree {
        self.handle.tree()
    }

    /// The world it lives in.
    pub fn world(&self) -> &World {
        self.handle.world()
    }

    /// How many cells there can be along each index.
    pub fn shape(&self) -> Result<[u64; D]> {
        Ok(self.handle.domain_of_rank()?.map(|d| d.1))
    }

    /// The smallest coordinate along each index.
    pub fn offset(&self) -> Result<[i64; D]> {
        Ok(self.handle.domain_of_rank()?.map(|d| d.0))
    }

    /// Whether a cell is active; those outside are not.
    #[track_caller]
    pub fn is_active(&self, at: impl Coordinates<D>) -> Result<bool> {
        self.access()?.is_active(&at.coordinates())
    }

    /// Activates a cell, with all cells around it.
    #[track_caller]
    pub fn activate(&self, at: impl Coordinates<D>) -> Result<()> {
        self.access()?.activate(&at.coordinates())
    }

    /// Deactivates a cell and everything in it; of a list, all of its cells.
    #[track_caller]
    pub fn deactivate(&self, at: impl Coordinates<D>) -> Result<()> {
        self.access()?.deactivate(&at.coordinates())
    }

    /// Deactivates all cells, with everything in them. Cells of a dense node go with the innermost sparse
    /// node around them.
    #[track_caller]
    pub fn deactivate_all(&self) -> Result<()> {
        self.access()?.deactivate_all()
    }

    /// Adds a cell at the end of a list; gives its number. The list is named by all indices but its
    /// own.
    #[track_caller]
    pub fn append(&self, list: impl ListCoordinates<D>) -> Result<i32> {
        self.access()?.append(&list.coordinates(), &[])
    }

    /// How many cells a list has.
    #[track_caller]
    pub fn length(&self, list: impl ListCoordinates<D>) -> Result<i32> {
        self.access()?.length(&list.coordinates())
    }

    /// How many cells are active.
    #[track_caller]
    pub fn count_active(&self) -> Result<u64> {
        self.access()?.count()
    }

    /// The coordinates of all active cells, row by row.
    #[track_caller]
    pub fn active(&self) -> Result<Vec<[i32; D]>> {
        Ok(self.access()?.export(0)?.0)
    }

    /// Activates many cells at once.
    #[track_caller]
    pub fn import(&self, coordinates: &[[i32; D]]) -> Result<()> {
        self.access()?.import(coordinates, None)
    }
}
