//! Arrays of launches that wait.

use crate::dynamic::FreedWithWorld;
use crate::host::FieldHandle;
use crate::launch::Launch;
use crate::layout::TreeBody;
use crate::specialize::shape_of;
use crate::world::World;
use smallvec::SmallVec;
use std::sync::Arc;
use wuji_ir::Result;
use wuji_ir::module::ArrayShape;
use wuji_runtime::array::ArrayArg;

/// An array of the world as a launch sees it. The window keeps its memory.
#[derive(Clone, Debug)]
pub(crate) struct HeldArray {
    memory: ArrayMemory,
    /// The bytes of an element.
    size: usize,
    extents: SmallVec<[usize; 4]>,
}

#[derive(Clone, Debug)]
enum ArrayMemory {
    /// The only field of a tree.
    Tree(Arc<TreeBody>),
    Owned(Arc<dyn FreedWithWorld>),
}

impl HeldArray {
    /// For a launch.
    pub(super) fn view(&self) -> Result<ArrayArg<'_>> {
        match &self.memory {
            ArrayMemory::Tree(body) => {
                ArrayArg::in_memory(&body.memory, self.size, &self.extents, true)
            }
            ArrayMemory::Owned(memory) => memory.view(self.size, &self.extents),
        }
    }

    /// Equal for views of the same memory. The address is that of the tree, if it is one.
    pub(super) fn address(&self) -> usize {
        match &self.memory {
            ArrayMemory::Tree(body) => Arc::as_ptr(body).addr(),
            ArrayMemory::Owned(memory) => Arc::as_ptr(memory).addr(),
        }
    }

    /// How many handles keep the memory.
    pub(super) fn handles(&self) -> usize {
        match &self.memory {
            ArrayMemory::Tree(body) => Arc::strong_count(body),
            ArrayMemory::Owned(memory) => Arc::strong_count(memory),
        }
    }

    /// The name of the field that it is.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.memory {
            ArrayMemory::Tree(body) => body.names.first().map(String::as_str),
            ArrayMemory::Owned(_) => None,
        }
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = i64> {
        self.extents.iter().map(|e| *e as i64)
    }
}

/// The arrays of a launch, if all of them belong to the world, with their shapes. Others are only lent for the launch.
pub(super) fn held_arrays(
    world: &World,
    launch: &Launch<'_>,
) -> Result<Option<(SmallVec<[HeldArray; 2]>, Vec<ArrayShape>)>> {
    let mut held = SmallVec::new();
    let mut shapes = Vec::with_capacity(launch.arrays.len());
    for (k, arg) in launch.arrays.iter().enumerate() {
        let field = launch.array_fields.iter().find(|(n, _)| *n as usize == k);
        let owner = launch.owners.get(k).and_then(Option::as_ref);
        let memory = match (field, owner) {
            (Some((_, field)), _) => tree_memory(world, field)?,
            (None, Some(owner)) if owner.world == *world => {
                Some(ArrayMemory::Owned(owner.memory.clone()))
            }
            (None, Some(_) | None) => None,
        };
        let (Some(memory), true) = (memory, arg.is_contiguous()) else {
            return Ok(None);
        };
        shapes.push(shape_of(arg, true));
        held.push(HeldArray {
            memory,
            size: arg.elem_size(),
            extents: arg.extents().iter().map(|e| *e as usize).collect(),
        });
    }
    Ok(Some((held, shapes)))
}

fn tree_memory(world: &World, field: &FieldHandle) -> Result<Option<ArrayMemory>> {
    if field.world() != world {
        return Ok(None);
    }
    Ok(Some(ArrayMemory::Tree(field.tree.shared_body()?)))
}
