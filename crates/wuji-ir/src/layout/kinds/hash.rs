//! Hash nodes: cells in the node's arena, found by hashing their coordinates.
//!
//! All containers of a node share its tables: the coordinates of a cell in the whole tree identify it. Where a node above
//! is sparse, a container is one word, its *generation*: a number that no other container has ever had, 0 while it is
//! empty. A cell belongs to a generation; to clear a container is to forget the number. Without a sparse node above,
//! containers are never cleared and have no bytes.
//!
//! Next to each cell is a [`record`].

use super::{Activity, Container, LevelFormat, NodeKind, PathInfo, WORD};
use crate::ops::TreeAccessOp;

/// Words next to each cell of a hash node.
pub mod record {
    /// The generation of the cell's container, 1 where containers have none; 0 while the cell is inactive.
    pub const GENERATION: u64 = 0;
    /// Coordinates of the cell in the tree, in the order of the axes.
    pub const COORDINATES: u64 = 1;

    /// Where containers have generations: the offset of the cell's container.
    pub const fn container(axes: usize) -> u64 {
        COORDINATES + axes as u64
    }
}

/// Tables of a hash node: table `k` has `FIRST << k` slots, one table behind the other.
pub mod hash_table {
    /// The number of entries of the first table.
    pub const FIRST: u64 = 1 << 10;
    /// Number of tables.
    pub const LEVELS: u64 = 24;
    /// Number of tables on a GPU, where all of them have memory from the start.
    pub const GPU_LEVELS: u64 = 14;
    /// Slots that are probed in one table before the next.
    pub const PROBES: u64 = 16;

    /// Where table `k` starts, in slots. A probe sequence may reach beyond the end of its table.
    pub const fn start(k: u64) -> u64 {
        (FIRST << k) - FIRST + k * PROBES
    }
}

#[derive(Debug)]
pub(super) struct Hash;

impl LevelFormat for Hash {
    fn kind(&self) -> NodeKind {
        NodeKind::Hash
    }

    fn name(&self) -> &'static str {
        "hash"
    }

    fn activity(&self) -> Activity {
        Activity::Individual
    }

    fn allocates(&self) -> bool {
        true
    }

    fn is_hashed(&self) -> bool {
        true
    }

    fn container(
        &self,
        path: PathInfo,
        _cells: Option<u64>,
        _cell_size: u64,
        _align: u64,
    ) -> Option<Container> {
        Some(Container {
            size: u64::from(path.below_sparse) * WORD,
            align: WORD,
            first_cell: 0,
        })
    }

    fn record_words(&self, path: PathInfo) -> u64 {
        record::container(path.axes) + u64::from(path.below_sparse)
    }

    fn table_words(&self) -> (u64, u64) {
        (
            hash_table::start(hash_table::LEVELS),
            hash_table::start(hash_table::GPU_LEVELS),
        )
    }

    fn operands(&self, op: TreeAccessOp, path: PathInfo) -> Option<usize> {
        match op {
            TreeAccessOp::Find | TreeAccessOp::Ensure | TreeAccessOp::Drop => {
                Some(usize::from(path.below_sparse) + path.axes)
            }
            TreeAccessOp::Entry => Some(1),
            TreeAccessOp::Test
            | TreeAccessOp::Touch
            | TreeAccessOp::Push
            | TreeAccessOp::Length => None,
        }
    }
}
