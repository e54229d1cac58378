//! Which field of which tree a handle of the public API refers to.

use crate::host::{HostAccess, Window};
use crate::layout::{Tree, TreeInner};
use crate::world::World;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_runtime::array::ArrayArg;

/// A field, or a view of cells, of a tree. Handles keep their tree alive.
#[derive(Clone)]
pub(crate) struct FieldHandle {
    pub(crate) tree: Arc<TreeInner>,
    pub(crate) field: Field,
}

/// Whether two handles refer to the same field.
impl PartialEq for FieldHandle {
    fn eq(&self, other: &FieldHandle) -> bool {
        Arc::ptr_eq(&self.tree, &other.tree) && self.field == other.field
    }
}

impl Eq for FieldHandle {}

impl fmt::Debug for FieldHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldHandle({:?})", self.name())
    }
}

impl FieldHandle {
    /// Starts an access of the host, on behalf of the caller's line.
    #[track_caller]
    pub(crate) fn access(&self) -> Result<HostAccess<'_>> {
        HostAccess::new(&self.tree, self.field)
    }

    /// Its position in the tables of the tree.
    pub(crate) fn index(&self) -> usize {
        self.field.as_u32() as usize
    }

    /// The name in the layout; empty while the layout is incomplete.
    pub(crate) fn name(&self) -> &str {
        let body = self.tree.body();
        body.map_or("", |b| b.names.get(self.index()).map_or("", String::as_str))
    }

    /// Smallest coordinate and extent along each index.
    pub(crate) fn domain(&self) -> Result<&[(i64, u64)]> {
        Ok(&self.tree.body()?.domains[self.index()])
    }

    /// The same for a rank that is part of the type.
    pub(crate) fn domain_of_rank<const D: usize>(&self) -> Result<[(i64, u64); D]> {
        let domain = self.domain()?;
        Ok(std::array::from_fn(|k| {
            domain.get(k).copied().unwrap_or((0, 1))
        }))
    }

    /// Whether no node above it is sparse: all elements always exist, and the host finds them by itself.
    pub(crate) fn is_dense(&self) -> Result<bool> {
        Ok(self.tree.body()?.addresses.get(self.index()).is_some())
    }

    /// Whether the memory of its tree is an array of its elements: it is alone there, and dense, and its elements are one run.
    pub(crate) fn is_array(&self) -> Result<bool> {
        let (body, size) = (self.tree.body()?, self.size()?);
        let [field] = &body.shape.fields[..] else {
            return Ok(false);
        };
        let Some(address) = body.addresses.get(self.index()) else {
            return Ok(false);
        };
        let whole: Window = address.domain().map(|(_, extent)| (0, extent)).collect();
        let is_plain = !field.view && field.packing.is_none();
        let starts_there = address.span(&whole, size).start == 0;
        Ok(is_plain && starts_there && address.is_one_run(&whole, size))
    }

    /// The other fields that a store to it may round again, because they share an exponent.
    pub(crate) fn rounded_with(&self) -> Result<Vec<FieldHandle>> {
        let found = self.tree.body()?.shape.rounded_together(self.field);
        let others = found.into_iter().filter(|field| *field != self.field);
        let handle = |field| FieldHandle {
            tree: self.tree.clone(),
            field,
        };
        Ok(others.map(handle).collect())
    }

    /// All elements of a dense field that is alone in its tree, as an array argument.
    pub(crate) fn array(&self) -> Result<ArrayArg<'_>> {
        let body = self.tree.body()?;
        let extents = body.domains[self.index()].iter().map(|d| d.1 as usize);
        let extents: SmallVec<[usize; 4]> = extents.collect();
        ArrayArg::in_memory(&body.memory, self.size()?, &extents, true)
    }

    pub(crate) fn tree(&self) -> Tree {
        Tree {
            inner: self.tree.clone(),
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.tree.world
    }
}
