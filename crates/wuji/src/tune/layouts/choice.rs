//! The layouts that a search chooses from.

use std::fmt;
use wuji_ir::layout::{Axis, CellOrder, NodeKind};

/// The outermost node of a grid.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum CellNode {
    /// Every cell has memory.
    Dense,
    /// Cells are allocated when they are activated.
    Pointer,
    /// Every cell has memory, and a bit says whether it is active.
    Bitmasked,
    /// Active cells are in a hash table.
    Hash,
}

impl CellNode {
    pub(super) const SPARSE: [CellNode; 3] =
        [CellNode::Pointer, CellNode::Bitmasked, CellNode::Hash];

    /// The keyword of the kind, which is the function of a layout in Python.
    pub(super) fn name(self) -> &'static str {
        match self {
            CellNode::Dense => "dense",
            CellNode::Pointer => "pointer",
            CellNode::Bitmasked => "bitmasked",
            CellNode::Hash => "hash",
        }
    }

    pub(super) fn kind(self) -> NodeKind {
        // All of these names are those of kinds.
        NodeKind::from_name(self.name()).unwrap_or(NodeKind::BELOW_ROOT[0])
    }

    /// The function of a layout in Rust.
    pub(super) fn rust(self) -> &'static str {
        match self {
            CellNode::Dense => "dense",
            CellNode::Pointer => "pointer",
            CellNode::Bitmasked => "bitmasked",
            CellNode::Hash => "hash_sized",
        }
    }
}

/// The order of cells in memory.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum MemoryOrder {
    /// The last axis is the fastest.
    RowMajor,
    /// The first axis is the fastest.
    ColumnMajor,
    /// Along a Z-curve: in the whole grid, or in every block.
    Morton,
}

/// Where the fields of a grid are.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Placement {
    /// Array of structs: all fields in one cell.
    Together,
    /// Structure of arrays: a node for each field.
    Apart,
    /// A node for each scalar of each field.
    Components,
}

/// The layout of a grid: cells over a box that some fields share.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct LayoutChoice {
    /// The outermost node.
    pub node: CellNode,
    /// Cells along each axis of a block; `None` without blocks.
    pub block: Option<u64>,
    /// The order of cells in memory.
    pub order: MemoryOrder,
    /// How the fields share nodes.
    pub placement: Placement,
}

/// One node of a layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Level {
    pub(super) node: CellNode,
    pub(super) order: CellOrder,
    /// Slowest first.
    pub(super) extents: Vec<(Axis, u64)>,
}

impl LayoutChoice {
    /// Row by row, all fields together: what a program has that does not care.
    pub fn plain(sparse: bool) -> LayoutChoice {
        LayoutChoice {
            node: if sparse {
                CellNode::Bitmasked
            } else {
                CellNode::Dense
            },
            block: None,
            order: MemoryOrder::RowMajor,
            placement: Placement::Together,
        }
    }

    /// The nodes that all fields share, and the node that holds the elements; `None` if the extents do not allow it.
    pub(super) fn levels(&self, extents: &[(Axis, u64)]) -> Option<(Option<Level>, Level)> {
        let mut axes = extents.to_vec();
        if self.order == MemoryOrder::ColumnMajor {
            axes.reverse();
        }
        let inner_order = match self.order {
            MemoryOrder::RowMajor | MemoryOrder::ColumnMajor => CellOrder::RowMajor,
            MemoryOrder::Morton => CellOrder::Morton,
        };
        let fits = |level: &Level| {
            level.order == CellOrder::RowMajor
                || level.extents.iter().all(|e| e.1.is_power_of_two())
        };
        let Some(block) = self.block else {
            // A pointer for each element takes more memory than the element; fields apart have activity of their own.
            let separate = self.placement != Placement::Together;
            let sparse = self.node != CellNode::Dense;
            if matches!(self.node, CellNode::Pointer | CellNode::Hash) || sparse && separate {
                return None;
            }
            let level = Level {
                node: self.node,
                order: inner_order,
                extents: axes,
            };
            return fits(&level).then_some((None, level));
        };
        if axes.iter().any(|e| e.1 % block != 0 || e.1 <= block) {
            return None;
        }
        let inner = Level {
            node: CellNode::Dense,
            order: inner_order,
            extents: axes.iter().map(|e| (e.0, block)).collect(),
        };
        let outer = Level {
            node: self.node,
            order: CellOrder::RowMajor,
            extents: extents.iter().map(|e| (e.0, e.1 / block)).collect(),
        };
        fits(&inner).then_some((Some(outer), inner))
    }
}

impl fmt::Display for LayoutChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.node.name())?;
        if let Some(block) = self.block {
            write!(f, " > dense {block}")?;
        }
        f.write_str(match self.order {
            MemoryOrder::RowMajor => "",
            MemoryOrder::ColumnMajor => ", column-major",
            MemoryOrder::Morton => ", Morton",
        })?;
        f.write_str(match self.placement {
            Placement::Together => ", AoS",
            Placement::Apart => ", SoA",
            Placement::Components => ", SoA by component",
        })
    }
}
