//! Node kinds: one file per kind, each with the [`LevelFormat`] of one level of a tree.
//!
//! [`NodeKind::format`] is the only place of this crate that matches on [`NodeKind`]; everything else asks the format.
//! The level functions, which emit code for a kind, are in `wuji_compile::nodes`.

mod bit_array;
mod bitmasked;
mod dense;
mod dynamic;
mod hash;
mod pointer;
mod root;

pub use dynamic::Dynamic;
pub use hash::{hash_table, record};

use super::{Axis, TreeData};
use crate::diag::{Error, Result};
use crate::entities::Node;
use crate::ops::TreeAccessOp;
use smallvec::SmallVec;
use std::fmt;

/// Bytes of the largest vector that one instruction of a GPU loads or stores, and its alignment.
pub const GPU_VECTOR: u64 = 16;

/// Bytes of a pointer, of a word of a mask and of a length.
pub(super) const WORD: u64 = 8;

/// How a node stores its cells.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum NodeKind {
    /// One cell, always present.
    Root,
    /// All cells, contiguous, present whenever the parent's cell is.
    Dense,
    /// As dense, with one bit per cell: whether it is active.
    Bitmasked,
    /// One pointer per cell; a cell has memory while it is active.
    Pointer,
    /// Cells that have memory while they are active, found by hashing their coordinates.
    Hash,
    /// A list that grows at its end: cells `0..length` are active.
    Dynamic(Dynamic),
    /// The elements of a packed field in a word of the parent's cell. It has no memory of its own.
    BitArray,
}

impl NodeKind {
    /// Every kind that is allowed below the root. Parameters are 0.
    pub const BELOW_ROOT: [NodeKind; 6] = [
        NodeKind::Dense,
        NodeKind::Pointer,
        NodeKind::Bitmasked,
        NodeKind::Hash,
        NodeKind::dynamic(0),
        NodeKind::BitArray,
    ];

    /// A list that allocates `chunk` cells at a time.
    pub const fn dynamic(chunk: u32) -> NodeKind {
        NodeKind::Dynamic(Dynamic { chunk })
    }

    /// Properties and layout of the kind.
    pub fn format(&self) -> &dyn LevelFormat {
        match self {
            NodeKind::Root => &root::Root,
            NodeKind::Dense => &dense::Dense,
            NodeKind::Bitmasked => &bitmasked::Bitmasked,
            NodeKind::Pointer => &pointer::Pointer,
            NodeKind::Hash => &hash::Hash,
            NodeKind::Dynamic(dynamic) => dynamic,
            NodeKind::BitArray => &bit_array::BitArray,
        }
    }

    /// The kind with this keyword, if it is allowed below the root. Parameters are 0.
    pub fn from_name(name: &str) -> Option<NodeKind> {
        NodeKind::BELOW_ROOT.into_iter().find(|k| k.name() == name)
    }

    /// The keyword in the text format.
    pub fn name(&self) -> &'static str {
        self.format().name()
    }

    /// Whether it is the kind of the first node of a tree.
    pub fn is_root(&self) -> bool {
        *self == NodeKind::Root
    }

    /// Whether cells can be absent though their parent's cell is present.
    pub fn is_sparse(&self) -> bool {
        self.format().activity() != Activity::Inherited
    }

    /// Whether active cells get memory of their own.
    pub fn allocates(&self) -> bool {
        self.format().allocates()
    }

    /// Whether cells are found by hashing their coordinates.
    pub fn is_hashed(&self) -> bool {
        self.format().is_hashed()
    }

    /// Whether cells are bits of a word.
    pub fn is_bit_array(&self) -> bool {
        self.format().is_bit_array()
    }
}

/// Which cells of a container are active.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Activity {
    /// All of them, whenever the parent's cell is.
    Inherited,
    /// Any subset.
    Individual,
    /// The first ones: a list, along the node's only axis.
    Prefix,
}

/// The cells that one entry of a node's list of active cells covers.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ListEntry {
    /// One cell. The offset and the coordinates are those of the cell.
    Cell,
    /// Up to 64 consecutive cells of a container; the second word is their mask. The offset and the coordinates are those
    /// of the container.
    MaskWord,
    /// The first cells of an allocation; the second word is their number. The offset is that of the allocation, the
    /// coordinate along the list is its number in the container.
    Chunk {
        /// Cells of an allocation.
        cells: u64,
    },
}

/// The memory that a node occupies in a cell of its parent.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Container {
    /// Bytes.
    pub size: u64,
    /// The alignment in bytes.
    pub align: u64,
    /// Offset of the first cell, or of the first pointer, from the start.
    pub first_cell: u64,
}

/// What the format of a node depends on above the node.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct PathInfo {
    /// Axes that are split on the path to the node, itself included.
    pub axes: usize,
    /// Whether a node above is sparse, so that containers appear and disappear.
    pub below_sparse: bool,
}

/// A numeric parameter of a kind.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// The keyword in the text format.
    pub keyword: &'static str,
    /// A phrase for errors, with an article.
    pub meaning: &'static str,
    /// The value.
    pub value: u32,
}

/// Properties, layout, text and checks of a node kind.
///
/// The defaults describe a dense node without parameters.
pub trait LevelFormat: fmt::Debug + Sync {
    /// The kind, with its parameters.
    fn kind(&self) -> NodeKind;

    /// The keyword in the text format.
    fn name(&self) -> &'static str;

    // ---- cells ----

    /// How cells become active.
    fn activity(&self) -> Activity {
        Activity::Inherited
    }

    /// For sparse kinds.
    fn list_entry(&self) -> ListEntry {
        ListEntry::Cell
    }

    /// Whether active cells get memory of their own, from an arena of the node.
    fn allocates(&self) -> bool {
        false
    }

    /// Cells per allocation.
    fn cells_per_allocation(&self) -> u64 {
        1
    }

    /// Whether cells are found by hashing their coordinates: a container has no place for each of them, lists have no
    /// order, and extents may be left out.
    fn is_hashed(&self) -> bool {
        false
    }

    /// Whether cells are bits of a word, which is a field of the parent's cell.
    fn is_bit_array(&self) -> bool {
        false
    }

    /// Whether cells can be numbered along a Z-curve.
    fn supports_morton(&self) -> bool {
        false
    }

    // ---- memory ----

    /// The memory of the node in a cell of its parent, given the number of its cells, which may overflow, and
    /// the size and alignment of one. `None` on overflow.
    fn container(
        &self,
        path: PathInfo,
        cells: Option<u64>,
        cell_size: u64,
        align: u64,
    ) -> Option<Container>;

    /// List entries for one container with this many cells. Allocating kinds have one entry per allocation
    /// instead.
    fn list_entries(&self, cells: u64) -> u64 {
        cells
    }

    /// Words stored next to each allocated cell.
    fn record_words(&self, path: PathInfo) -> u64 {
        let _ = path;
        0
    }

    /// Words of the lookup table, and how many of them a GPU uses.
    fn table_words(&self) -> (u64, u64) {
        (0, 0)
    }

    // ---- text ----

    /// The parameters of this kind, in the order of the text format.
    fn parameters(&self) -> SmallVec<[Parameter; 1]> {
        SmallVec::new()
    }

    /// The kind with other values of its parameters; missing values are 0, additional ones are ignored.
    fn with_parameters(&self, values: &[u32]) -> NodeKind {
        let _ = values;
        self.kind()
    }

    /// The kind with parameters for a node of these extents where they are 0.
    fn with_defaults(&self, extents: &[i128]) -> NodeKind {
        let _ = extents;
        self.kind()
    }

    // ---- checks ----

    /// The number of operands of a tree access, all `i64`; `None` if the kind does not have the operation.
    fn operands(&self, op: TreeAccessOp, path: PathInfo) -> Option<usize> {
        let _ = (op, path);
        None
    }

    /// Checks the position of a node and its axes. Parents, children and extents are valid. `name` is the
    /// node's, for errors.
    fn verify(&self, tree: &TreeData, node: Node, name: &str) -> Result<()> {
        let _ = (tree, node, name);
        Ok(())
    }

    /// Like [`verify`](LevelFormat::verify), for users of the public API, before the node is added: checks
    /// whether it is allowed below `parent` and may split `axes`.
    fn check_axes(&self, tree: &TreeData, parent: Node, axes: &[Axis]) -> Result<()> {
        let _ = (tree, parent, axes);
        Ok(())
    }

    /// Like [`check_axes`](LevelFormat::check_axes), for its extents.
    fn check_extents(&self, extents: &[i128]) -> Result<()> {
        let _ = extents;
        Ok(())
    }
}

/// An error of the verifier.
fn malformed(why: String) -> Error {
    Error::new("W0022", why)
}
