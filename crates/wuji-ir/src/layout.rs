//! Layout trees: where the elements of fields live.
//!
//! A tree is a root with nodes below it; a node splits some axes into cells, and every cell holds the
//! node's children, one after the other. The leaves are placed fields.

use crate::entities::{Field, Node, Tree};
use crate::types::{Structs, Type};
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;
use std::fmt;

/// One of the eight named axes, `i` to `p`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Axis(u8);

impl Axis {
    pub const COUNT: usize = 8;
    const NAMES: [&'static str; Axis::COUNT] = ["i", "j", "k", "l", "m", "n", "o", "p"];

    pub fn new(number: usize) -> Option<Axis> {
        (number < Axis::COUNT).then_some(Axis(number as u8))
    }

    pub fn from_name(name: &str) -> Option<Axis> {
        Axis::NAMES
            .iter()
            .position(|n| *n == name)
            .and_then(Axis::new)
    }

    pub fn number(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Axis::NAMES[self.number()])
    }
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum NodeKind {
    /// One cell, always there.
    Root,
    /// All cells, one after the other; the last axis is the fastest.
    Dense,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Child {
    Node(Node),
    Place(Field),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeData {
    pub kind: NodeKind,
    pub parent: Option<Node>,
    /// How many cells along which axis, slowest first. An axis occurs once per node.
    pub extents: SmallVec<[(Axis, u64); 3]>,
    /// In memory order within a cell.
    pub children: Vec<Child>,
}

impl NodeData {
    /// Cells of this node in one cell of its parent.
    pub fn cells(&self) -> u64 {
        self.extents.iter().map(|e| e.1).product()
    }
}

/// A layout tree; its first node is the root.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TreeData {
    pub nodes: PrimaryMap<Node, NodeData>,
}

impl Default for TreeData {
    fn default() -> TreeData {
        let mut nodes = PrimaryMap::new();
        nodes.push(NodeData {
            kind: NodeKind::Root,
            parent: None,
            extents: SmallVec::new(),
            children: Vec::new(),
        });
        TreeData { nodes }
    }
}

impl TreeData {
    pub fn root(&self) -> Node {
        Node::from_u32(0)
    }

    /// Adds a node below `parent`.
    pub fn add(&mut self, parent: Node, kind: NodeKind, extents: &[(Axis, u64)]) -> Node {
        let node = self.nodes.push(NodeData {
            kind,
            parent: Some(parent),
            extents: extents.iter().copied().collect(),
            children: Vec::new(),
        });
        self.nodes[parent].children.push(Child::Node(node));
        node
    }

    /// The nodes from the root to `node`, both included.
    pub fn path(&self, node: Node) -> Vec<Node> {
        let mut path = vec![node];
        let mut at = node;
        while let Some(parent) = self.nodes[at].parent {
            path.push(parent);
            at = parent;
        }
        path.reverse();
        path
    }

    /// Total extent of an axis from the root down to `node`: 1 where no node splits it.
    pub fn extent(&self, node: Node, axis: Axis) -> u64 {
        self.path(node)
            .iter()
            .flat_map(|n| &self.nodes[*n].extents)
            .filter(|e| e.0 == axis)
            .map(|e| e.1)
            .product()
    }
}

/// A field: what its elements are, and where in which tree they are placed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FieldData {
    pub name: String,
    pub elem: Type,
    pub tree: Tree,
    /// The node whose cells hold the elements.
    pub node: Node,
    /// Which axis each index of the field runs along, and the smallest coordinate there.
    pub axes: SmallVec<[(Axis, i64); 3]>,
}

impl FieldData {
    pub fn rank(&self) -> usize {
        self.axes.len()
    }

    /// Smallest coordinate and extent along each index.
    pub fn domain(&self, trees: &PrimaryMap<Tree, TreeData>) -> Vec<(i64, u64)> {
        let tree = &trees[self.tree];
        self.axes
            .iter()
            .map(|(axis, lo)| (*lo, tree.extent(self.node, *axis)))
            .collect()
    }
}

/// Whether no two elements of a strided array share bytes. Strides are in bytes.
///
/// Says no, too, of some arrays with many elements whose axes interleave.
pub fn elements_apart(extents: &[i64], strides: &[i64], element_bytes: u64) -> bool {
    let mut axes: Vec<(u128, u128)> = extents
        .iter()
        .zip(strides)
        .filter(|(extent, _)| **extent != 1)
        .map(|(extent, stride)| (stride.unsigned_abs().into(), (*extent).max(0) as u128))
        .collect();
    axes.sort_unstable();
    if axes.iter().any(|(_, extent)| *extent == 0) {
        return true;
    }
    // Bytes from the first to the last element along the axes so far.
    let mut span = u128::from(element_bytes);
    let nested = axes.iter().all(|(stride, extent)| {
        let fits = *stride >= span;
        span = span.saturating_add(stride.saturating_mul(extent - 1));
        fits
    });
    nested || {
        const MOST: u128 = 1 << 16;
        let count = axes.iter().fold(1u128, |n, (_, e)| n.saturating_mul(*e));
        count <= MOST && {
            let mut offsets = vec![0u128];
            for (stride, extent) in &axes {
                offsets = offsets
                    .iter()
                    .flat_map(|at| (0..*extent).map(move |k| at.saturating_add(k * stride)))
                    .collect();
            }
            offsets.sort_unstable();
            offsets
                .windows(2)
                .all(|w| w[1] - w[0] >= u128::from(element_bytes))
        }
    }
}

/// Sizes and offsets in bytes of everything in one tree of dense nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeMemory {
    /// Bytes from one cell of a node to the next.
    pub cell_size: PrimaryMap<Node, u64>,
    /// Where a node starts within a cell of its parent; 0 for the root.
    pub node_offset: PrimaryMap<Node, u64>,
    /// Where a field's element starts within a cell of its node.
    pub place_offset: Vec<(Field, u64)>,
    /// Bytes of the whole tree.
    pub size: u64,
    pub align: u64,
}

impl TreeMemory {
    pub fn place(&self, field: Field) -> u64 {
        self.place_offset
            .iter()
            .find(|p| p.0 == field)
            .map_or(0, |p| p.1)
    }
}

impl TreeMemory {
    /// Lays a tree out; `None` when it needs more than 2^62 bytes.
    pub fn of(
        tree: &TreeData,
        fields: &PrimaryMap<Field, FieldData>,
        structs: &Structs,
    ) -> Option<TreeMemory> {
        let count = tree.nodes.len();
        let mut cell_size: PrimaryMap<Node, u64> = (0..count).map(|_| 0).collect();
        let mut align: PrimaryMap<Node, u64> = (0..count).map(|_| 1).collect();
        let mut node_offset: PrimaryMap<Node, u64> = (0..count).map(|_| 0).collect();
        let mut place_offset = Vec::new();
        // Children come after their parents, so backwards is bottom-up.
        for node in tree.nodes.keys().rev() {
            let mut at = 0u64;
            for child in &tree.nodes[node].children {
                let (size, child_align) = match *child {
                    Child::Place(f) => structs.size_align(fields[f].elem),
                    Child::Node(n) => (
                        cell_size[n].checked_mul(tree.nodes[n].cells_checked()?)?,
                        align[n],
                    ),
                };
                at = at.checked_next_multiple_of(child_align)?;
                match *child {
                    Child::Place(f) => place_offset.push((f, at)),
                    Child::Node(n) => node_offset[n] = at,
                }
                align[node] = align[node].max(child_align);
                at = at.checked_add(size)?;
                if at > 1 << 62 {
                    return None;
                }
            }
            cell_size[node] = at.checked_next_multiple_of(align[node])?;
        }
        let root = tree.root();
        Some(TreeMemory {
            size: cell_size[root],
            align: align[root],
            cell_size,
            node_offset,
            place_offset,
        })
    }
}

impl NodeData {
    fn cells_checked(&self) -> Option<u64> {
        self.extents
            .iter()
            .try_fold(1u64, |n, e| n.checked_mul(e.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_share_bytes() {
        assert!(elements_apart(&[], &[], 4));
        assert!(elements_apart(&[3, 5], &[20, 4], 4));
        assert!(elements_apart(&[3, 5], &[-4, 12], 4));
        assert!(elements_apart(&[1, 5], &[0, 4], 4));
        assert!(elements_apart(&[0, 5], &[0, 0], 4));
        assert!(elements_apart(&[2, 3], &[12, 8], 4));
        assert!(elements_apart(&[4], &[0], 0));
        assert!(!elements_apart(&[3], &[0], 4));
        assert!(!elements_apart(&[3], &[2], 4));
        assert!(!elements_apart(&[3, 5], &[4, 4], 4));
        assert!(!elements_apart(&[4, 3], &[8, 12], 4));
        assert!(!elements_apart(&[i64::MAX, 2], &[i64::MAX, 1], 4));
    }
}
