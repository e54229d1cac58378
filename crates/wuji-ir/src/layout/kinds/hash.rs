//! Hash nodes: cells in the node's arena, found by hashing their coordinates.
//!
//! The node occupies nothing in its parent's cell, so it must be directly below the root. Next to each cell
//! is a record: whether it is active, and its coordinates.

use super::{Activity, Container, LevelFormat, NodeKind, WORD, malformed};
use crate::diag::{Error, Result};
use crate::entities::Node;
use crate::layout::{Axis, TreeData};
use crate::ops::TreeAccessOp;

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

    fn container(&self, _cells: Option<u64>, _cell_size: u64, _align: u64) -> Option<Container> {
        Some(Container {
            size: 0,
            align: WORD,
            first_cell: 0,
        })
    }

    fn record_words(&self, axes: usize) -> u64 {
        1 + axes as u64
    }

    fn table_words(&self) -> (u64, u64) {
        (
            hash_table::start(hash_table::LEVELS),
            hash_table::start(hash_table::GPU_LEVELS),
        )
    }

    fn operands(&self, op: TreeAccessOp, axes: usize) -> Option<usize> {
        match op {
            TreeAccessOp::Find | TreeAccessOp::Ensure | TreeAccessOp::Drop => Some(axes),
            TreeAccessOp::Entry => Some(1),
            TreeAccessOp::Test
            | TreeAccessOp::Touch
            | TreeAccessOp::Push
            | TreeAccessOp::Length => None,
        }
    }

    fn verify(&self, tree: &TreeData, node: Node, name: &str) -> Result<()> {
        let parent = tree.nodes[node].parent;
        if parent == Some(tree.root()) {
            return Ok(());
        }
        let above = parent.map_or("root", |p| tree.nodes[p].kind.name());
        Err(malformed(format!(
            "{name}: a hash node stands directly below the root, not below a {above} node"
        ))
        .help("use a pointer node here"))
    }

    fn check_axes(&self, tree: &TreeData, parent: Node, _axes: &[Axis]) -> Result<()> {
        if parent == tree.root() {
            return Ok(());
        }
        let above = tree.describe(parent);
        Err(Error::new(
            "W0120",
            format!("a hash node hangs below {above}"),
        )
        .note("cells of a hash node are found by their coordinates alone, so it hangs directly below the root")
        .help("use `pointer` here, or put the hash node at the top"))
    }
}
