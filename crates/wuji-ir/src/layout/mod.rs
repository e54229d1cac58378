//! Layout trees: the memory layout of fields.
//!
//! A tree is a root with nodes below it; a node splits some axes into cells, and every cell contains the
//! node's children, one after the other. The leaves are placed fields. How a node stores its cells is its [`NodeKind`].

use crate::entities::{Field, Node, Tree};
use crate::quant::Packing;
use crate::types::{Structs, Type};
use cranelift_entity::PrimaryMap;
use smallvec::SmallVec;
use std::fmt;

mod kinds;
mod memory;
mod split;

pub use kinds::{
    Activity, Container, Dynamic, GPU_VECTOR, LevelFormat, ListEntry, NodeKind, Parameter,
    PathInfo, hash_table, record,
};
pub use memory::{Arena, ListMemory, NodeMemory, TreeMemory, budget, header, shard, tree_header};
pub use split::Leaf;

/// One of the eight named axes, `i` to `p`.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Axis(u8);

impl Axis {
    /// The number of axes.
    pub const COUNT: usize = 8;
    const NAMES: [&'static str; Axis::COUNT] = ["i", "j", "k", "l", "m", "n", "o", "p"];

    /// The axis with a number below [`Axis::COUNT`].
    pub fn new(number: usize) -> Option<Axis> {
        (number < Axis::COUNT).then_some(Axis(number as u8))
    }

    /// The axis with a name of the text format.
    pub fn from_name(name: &str) -> Option<Axis> {
        Axis::NAMES
            .iter()
            .position(|n| *n == name)
            .and_then(Axis::new)
    }

    /// The number of the axis, from 0.
    pub fn number(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Axis::NAMES[self.number()])
    }
}

/// How the cells of a node are numbered.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum CellOrder {
    /// The last axis is the fastest.
    #[default]
    RowMajor,
    /// Along a Z-shaped curve: bits of the coordinates interleaved, the last axis lowest. Extents are
    /// powers of two.
    Morton,
}

/// A child of a node.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Child {
    /// A node.
    Node(Node),
    /// A field.
    Place(Field),
}

/// A node of a tree.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeData {
    /// The kind, with its parameters.
    pub kind: NodeKind,
    /// The order of the cells in memory.
    pub order: CellOrder,
    /// The node above; `None` for the root.
    pub parent: Option<Node>,
    /// Cells along each axis, slowest first. An axis occurs once per node.
    pub extents: SmallVec<[(Axis, u64); 3]>,
    /// In memory order within a cell.
    pub children: Vec<Child>,
}

impl NodeData {
    /// Cells of this node in one cell of its parent; saturates.
    pub fn cells(&self) -> u64 {
        self.extents.iter().fold(1u64, |n, e| n.saturating_mul(e.1))
    }
}

/// A layout tree; its first node is the root.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TreeData {
    /// The nodes; parents are before their children.
    pub nodes: PrimaryMap<Node, NodeData>,
}

impl Default for TreeData {
    fn default() -> TreeData {
        let mut nodes = PrimaryMap::new();
        nodes.push(NodeData {
            kind: NodeKind::Root,
            order: CellOrder::RowMajor,
            parent: None,
            extents: SmallVec::new(),
            children: Vec::new(),
        });
        TreeData { nodes }
    }
}

impl TreeData {
    /// The root.
    pub fn root(&self) -> Node {
        Node::from_u32(0)
    }

    /// Adds a node below `parent`.
    pub fn add(&mut self, parent: Node, kind: NodeKind, extents: &[(Axis, u64)]) -> Node {
        let node = self.nodes.push(NodeData {
            kind,
            order: CellOrder::RowMajor,
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

    /// The axes that are split on the path to a node, in order.
    pub fn axes(&self, node: Node) -> Vec<Axis> {
        let mut axes: Vec<Axis> = self
            .path(node)
            .iter()
            .flat_map(|n| self.nodes[*n].extents.iter().map(|e| e.0))
            .collect();
        axes.sort();
        axes.dedup();
        axes
    }

    /// Whether some cells may be inactive.
    pub fn is_sparse(&self) -> bool {
        self.nodes.values().any(|n| n.kind.is_sparse())
    }

    /// The sparse nodes from the root to `node`, `node` included.
    pub fn sparse_path(&self, node: Node) -> Vec<Node> {
        let mut path = self.path(node);
        path.retain(|n| self.nodes[*n].kind.is_sparse());
        path
    }

    /// What the format of a node depends on above the node.
    pub fn path_info(&self, node: Node) -> PathInfo {
        let above = self.nodes[node].parent;
        PathInfo {
            axes: self.axes(node).len(),
            below_sparse: above.is_some_and(|n| !self.sparse_path(n).is_empty()),
        }
    }

    /// The axis along which a node is a list, if it is one.
    pub fn list_axis(&self, node: Node) -> Option<Axis> {
        let data = &self.nodes[node];
        match data.kind.format().activity() {
            Activity::Prefix => data.extents.first().map(|e| e.0),
            Activity::Inherited | Activity::Individual => None,
        }
    }

    /// Whether cells of some node from the root to `node` are found by hashing.
    pub fn is_hashed(&self, node: Node) -> bool {
        let path = self.path(node);
        path.iter().any(|n| self.nodes[*n].kind.is_hashed())
    }

    /// "the pointer node over `i`, `j`", for errors.
    pub fn describe(&self, node: Node) -> String {
        if node == self.root() {
            return "the root".to_owned();
        }
        let data = &self.nodes[node];
        let axes: Vec<String> = data.extents.iter().map(|e| format!("`{}`", e.0)).collect();
        format!("the {} node over {}", data.kind.name(), axes.join(", "))
    }

    /// The bit array whose elements a node holds, if it is one.
    pub fn bit_array(&self, node: Node) -> Option<&NodeData> {
        let data = &self.nodes[node];
        data.kind.is_bit_array().then_some(data)
    }

    /// Total extent of an axis from the root down to `node`: 1 where no node splits it.
    pub fn extent(&self, node: Node, axis: Axis) -> u64 {
        self.path(node)
            .iter()
            .flat_map(|n| &self.nodes[*n].extents)
            .filter(|e| e.0 == axis)
            .fold(1u64, |n, e| n.saturating_mul(e.1))
    }
}

/// A field: the type of its elements, and the node of a tree they are placed in.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FieldData {
    /// Its name in the source.
    pub name: String,
    /// The type of an element.
    pub elem: Type,
    /// Its tree.
    pub tree: Tree,
    /// The node whose cells contain the elements.
    pub node: Node,
    /// Which axis each index of the field runs along, and the smallest coordinate there.
    pub axes: SmallVec<[(Axis, i64); 3]>,
    /// Of a packed field, which has no memory of its own: where its scalars are.
    pub packing: Option<Packing>,
    /// Of a split field, which has no memory of its own either: the field of each component.
    pub components: Vec<Field>,
}

impl FieldData {
    /// Size and alignment of an element in a cell.
    pub fn size_align(&self, structs: &Structs) -> (u64, u64) {
        if self.has_memory() {
            structs.size_align(self.elem)
        } else {
            (0, 1)
        }
    }

    /// Whether its elements are stored in its own cells, and not in other fields.
    pub fn has_memory(&self) -> bool {
        self.packing.is_none() && !self.is_split()
    }

    /// Whether every component of an element is an element of another field.
    pub fn is_split(&self) -> bool {
        !self.components.is_empty()
    }

    /// The number of axes.
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
/// Conservative: `false`, too, for some arrays with many elements whose axes interleave.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_apart_is_false_for_arrays_whose_elements_overlap() {
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
