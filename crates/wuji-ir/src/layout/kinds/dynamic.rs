//! Dynamic nodes: lists that grow at their end.
//!
//! The container is the length, followed by one pointer per chunk of cells in the node's arena.

use super::{
    Activity, Container, LevelFormat, ListEntry, NodeKind, Parameter, PathInfo, WORD, malformed,
};
use crate::diag::{Error, Result};
use crate::entities::Node;
use crate::layout::{Axis, TreeData};
use crate::ops::TreeAccessOp;
use smallvec::{SmallVec, smallvec};

/// The longest list, so that lengths and numbers of cells fit `i32`.
const LONGEST: u64 = i32::MAX as u64;

/// A list along one axis, which no other node on its path splits.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dynamic {
    /// Cells per allocation.
    pub chunk: u32,
}

impl Dynamic {
    /// The default chunk size for lists of at most `longest` cells: about 64 pointers per container, if
    /// chunks are neither tiny nor mostly empty.
    pub fn for_length(longest: i128) -> Dynamic {
        Dynamic {
            chunk: (longest / 64).clamp(32, 1024).min(longest.max(1)) as u32,
        }
    }
}

impl LevelFormat for Dynamic {
    fn kind(&self) -> NodeKind {
        NodeKind::Dynamic(*self)
    }

    fn name(&self) -> &'static str {
        "dynamic"
    }

    fn activity(&self) -> Activity {
        Activity::Prefix
    }

    fn list_entry(&self) -> ListEntry {
        ListEntry::Chunk {
            cells: self.cells_per_allocation(),
        }
    }

    fn allocates(&self) -> bool {
        true
    }

    fn cells_per_allocation(&self) -> u64 {
        u64::from(self.chunk).max(1)
    }

    fn container(
        &self,
        _: PathInfo,
        cells: Option<u64>,
        _cell_size: u64,
        _align: u64,
    ) -> Option<Container> {
        let chunks = cells?.div_ceil(self.cells_per_allocation());
        Some(Container {
            size: chunks.checked_add(1)?.checked_mul(WORD)?,
            align: WORD,
            first_cell: WORD,
        })
    }

    fn parameters(&self) -> SmallVec<[Parameter; 1]> {
        smallvec![Parameter {
            keyword: "chunk",
            meaning: "a number of cells",
            value: self.chunk,
        }]
    }

    fn with_parameters(&self, values: &[u32]) -> NodeKind {
        NodeKind::dynamic(values.first().copied().unwrap_or(0))
    }

    fn with_defaults(&self, extents: &[i128]) -> NodeKind {
        let longest = extents.first().copied().unwrap_or(1);
        if self.chunk == 0 {
            return NodeKind::Dynamic(Dynamic::for_length(longest));
        }
        // Longer chunks would only reserve memory that the list can never use.
        let chunk = i128::from(self.chunk).min(longest.max(1)) as u32;
        NodeKind::dynamic(chunk)
    }

    fn operands(&self, op: TreeAccessOp, _path: PathInfo) -> Option<usize> {
        match op {
            TreeAccessOp::Find
            | TreeAccessOp::Ensure
            | TreeAccessOp::Test
            | TreeAccessOp::Touch => Some(2),
            TreeAccessOp::Drop => Some(3),
            TreeAccessOp::Push | TreeAccessOp::Length | TreeAccessOp::Entry => Some(1),
        }
    }

    fn verify(&self, tree: &TreeData, node: Node, name: &str) -> Result<()> {
        let &[(axis, extent)] = tree.nodes[node].extents.as_slice() else {
            return Err(malformed(format!(
                "{name}: a dynamic node splits exactly one axis, found {}",
                tree.nodes[node].extents.len()
            )));
        };
        if extent > LONGEST {
            return Err(malformed(format!(
                "{name} has extent {extent} along axis {axis}; a dynamic node has at most {LONGEST} cells"
            )));
        }
        let chunk = self.chunk;
        if chunk == 0 || u64::from(chunk) > extent {
            return Err(malformed(format!(
                "{name}: a chunk of a dynamic node with extent {extent} has 1 to {extent} cells, not {chunk}"
            )));
        }
        let related = |other: Node| {
            other != node && (tree.path(node).contains(&other) || tree.path(other).contains(&node))
        };
        let splits = |other: &Node| tree.nodes[*other].extents.iter().any(|e| e.0 == axis);
        match tree.nodes.keys().filter(|n| related(*n)).find(splits) {
            None => Ok(()),
            Some(other) => Err(malformed(format!(
                "{name} is a list along axis {axis}, which {other} splits, too"
            ))
            .help("give the dynamic node an axis of its own")),
        }
    }

    fn check_axes(&self, tree: &TreeData, parent: Node, axes: &[Axis]) -> Result<()> {
        let &[axis] = axes else {
            let n = axes.len();
            return Err(
                Error::new("W0121", format!("a dynamic node splits {n} axes"))
                    .note("a dynamic node is a list, which has one index")
                    .help("split the other axes in a node above or below it"),
            );
        };
        let path = tree.path(parent);
        let splits = |n: &&Node| tree.nodes[**n].extents.iter().any(|e| e.0 == axis);
        let Some(above) = path.iter().rev().find(splits) else {
            return Ok(());
        };
        let above = tree.describe(*above);
        Err(Error::new(
            "W0121",
            format!("a dynamic node splits axis `{axis}`, which {above} splits, too"),
        )
        .note("the index along a list is an axis of its own")
        .help("use an axis that no other node on the way splits, such as `L`"))
    }

    fn check_extents(&self, extents: &[i128]) -> Result<()> {
        let &[most] = extents else { return Ok(()) };
        if most > i128::from(LONGEST) {
            return Err(
                Error::new("W0101", format!("a list has room for {most} cells"))
                    .help("`append` gives an `i32`, so it is at most 2147483647"),
            );
        }
        Ok(())
    }
}
