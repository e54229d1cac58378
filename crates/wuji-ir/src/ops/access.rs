//! Operands of memory operations: places, paths, byte spaces, cells and tree access steps.

use super::table::{Effect, op_enum};
use crate::entities::{Array, Field, Local, Temp, Tree};
use crate::types::Type;
use smallvec::SmallVec;

op_enum! {
    /// How an access treats an absent cell.
    Activation: () {
        /// The cell stays absent: a read gives zero, a write is dropped.
        Never = "never", ();
        /// The cell and the path to it are activated.
        IfAbsent = "if_absent", ();
        /// The compiler has proved that the cell is active.
        KnownActive = "known_active", ();
    }
}

/// Whether an access still has to be checked against its domain.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Guard {
    /// Compared with the domain; a violation is reported.
    Checked,
    /// As `Checked`, but nothing is reported: the adjoint of a read, which may be outside.
    Silent,
    /// Proved, split or versioned to be in range; or the user has disabled checks.
    InBounds,
}

impl Guard {
    /// Whether the indices are still compared with the domain.
    pub const fn is_checked(self) -> bool {
        match self {
            Guard::Checked | Guard::Silent => true,
            Guard::InBounds => false,
        }
    }
}

/// Memory with elements that can be loaded and stored.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// An element of a field.
    Field(Field),
    /// An element of an array.
    Array(Array),
    /// A local variable (no index) or local array (one index).
    Local(Local),
    /// No index.
    Temp(Temp),
}

/// One step from an element into its components.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// A constant component.
    Const(u32),
    /// The component number is an argument; only into a vector or a matrix (row by row).
    Dynamic,
}

/// An access of an element of a place: `place[indices].path`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The memory.
    pub place: Place,
    /// The way from the element to the part that is accessed.
    pub path: SmallVec<[Step; 2]>,
    /// What happens with absent cells.
    pub activation: Activation,
    /// Whether indices are compared with the domain.
    pub guard: Guard,
}

impl Access {
    /// The number of steps with a computed index.
    pub fn dynamic_steps(&self) -> usize {
        self.path.iter().filter(|s| **s == Step::Dynamic).count()
    }
}

/// Memory after access lowering: a run of bytes, addressed by an `i64` offset.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// The elements of a field, in the memory of its tree.
    Tree(Tree, Field),
    /// Which cells of a tree exist: pointers, masks, lengths, lists.
    Nodes(Tree),
    /// Any byte of a tree; overlaps with both of the above.
    Bytes(Tree),
    /// As `Bytes`, for non-temporal stores, which bypass the caches. Other threads may read the bytes after an atomic
    /// operation of the thread that stored them. A vector is stored at a multiple of its size; other threads may read it
    /// when the function has returned.
    Streamed(Tree),
    /// The elements of an array.
    Array(Array),
    /// The values between tasks.
    Temps,
    /// The elements of a field in the worker's private copy of its tree. The copy of worker 0 is the tree.
    /// Offsets are those in the tree.
    Private(Tree, Field),
}

/// What the offsets in a space count from.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The memory of a tree.
    Tree(Tree),
    /// The worker's private copy of a tree.
    Copy(Tree),
    /// An array.
    Array(Array),
    /// The values between tasks.
    Temps,
}

impl Space {
    /// What its offsets count from.
    pub fn origin(self) -> Origin {
        match self {
            Space::Tree(tree, _)
            | Space::Nodes(tree)
            | Space::Bytes(tree)
            | Space::Streamed(tree) => Origin::Tree(tree),
            Space::Private(tree, _) => Origin::Copy(tree),
            Space::Array(array) => Origin::Array(array),
            Space::Temps => Origin::Temps,
        }
    }
}

/// Numbers interleaved in memory: a row for each lane, at a constant stride.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Interleaved {
    /// The type of one column: a vector with a component for each lane.
    pub ty: Type,
    /// Bytes from the row of a lane to that of the next one.
    pub stride: i64,
    /// The columns of a row: their space, and their distance from the offset in bytes. In ascending order; no
    /// column overlaps another one of this or of another lane.
    pub columns: SmallVec<[(Space, i64); 4]>,
}

/// Which threads may access the memory of an atomic while a task runs.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Sharing {
    /// Any thread.
    #[default]
    Shared,
    /// Only the running thread: load, operation and store suffice. Other iterations on that thread may access
    /// the same memory, before and after.
    Owned,
}

op_enum! {
    /// A query or change of the activity of the cell that holds an element.
    CellOp: Effect {
        /// `(indices)`: `bool`.
        IsActive = "is_active", Effect::Reads;
        /// `(indices)`: activates the cell and the path to it.
        Activate = "activate", Effect::Writes;
        /// `(indices)`: deactivates the cell and everything below it.
        Deactivate = "deactivate", Effect::Writes;
        /// `(indices)`: deactivates the cells of a dynamic node, and frees the memory of the chunk that begins at this cell, if
        /// one does. A loop deactivates a list in parallel by this operation on all of its chunks.
        DeactivateChunk = "deactivate_chunk", Effect::Writes;
        /// `(indices but that along the list)`: number of the new cell of a dynamic node, `i32`; -1 when full.
        Append = "append", Effect::Writes;
        /// `(indices but that along the list)`: number of active cells of a dynamic node, `i32`.
        Length = "length", Effect::Reads;
    }
}

impl CellOp {
    /// What it does with memory.
    pub const fn effect(self) -> Effect {
        self.row()
    }
}

op_enum! {
    /// One step from the root of a tree to a cell. Offsets are bytes from the start of the tree.
    TreeAccessOp: Effect {
        /// Offset of an allocated cell (of a chunk, in a dynamic node), 0 when absent:
        /// `(container, number)`; in a hash node `(coordinates of the cell...)`, behind the container if a node above is sparse.
        Find = "find", Effect::Reads;
        /// As `Find`, and activates the cell; 0 only when memory has run out.
        Ensure = "ensure", Effect::Writes;
        /// `(container, number)`: whether the cell is active: its bit is set, it is below the length.
        Test = "test", Effect::Reads;
        /// `(container, number)`: sets the bit of a cell, or raises the length so that it is inside.
        Touch = "touch", Effect::Writes;
        /// The arguments of `Find`: deactivates the cell. Of a dynamic node, `(container, first, count)`: deactivates its cells,
        /// and frees the memory of these chunks.
        Drop = "drop", Effect::Writes;
        /// `(container)`: appends a cell to a dynamic node; its number, or -1, and the offset of its chunk.
        Push = "push", Effect::Writes;
        /// `(container)`: length of a dynamic node.
        Length = "count", Effect::Reads;
        /// `(number)`: an entry of the list of active cells: offset, mask or count, number of the first
        /// cell, then one coordinate per axis on the path to the node, in the order of the axes.
        Entry = "entry", Effect::Reads;
    }
}

impl TreeAccessOp {
    /// What it does with memory.
    pub const fn effect(self) -> Effect {
        self.row()
    }
}
