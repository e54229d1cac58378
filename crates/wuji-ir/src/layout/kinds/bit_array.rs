//! Bit arrays: the elements of a packed field in one word, which is a field of the parent's cell.

use super::{Container, LevelFormat, NodeKind, PathInfo, malformed};
use crate::diag::Result;
use crate::entities::Node;
use crate::layout::{Child, TreeData};

#[derive(Debug)]
pub(super) struct BitArray;

impl LevelFormat for BitArray {
    fn kind(&self) -> NodeKind {
        NodeKind::BitArray
    }

    fn name(&self) -> &'static str {
        "bit_array"
    }

    fn is_bit_array(&self) -> bool {
        true
    }

    fn container(&self, _: PathInfo, cells: Option<u64>, _: u64, _: u64) -> Option<Container> {
        cells.map(|_| Container {
            size: 0,
            align: 1,
            first_cell: 0,
        })
    }

    fn verify(&self, tree: &TreeData, node: Node, name: &str) -> Result<()> {
        match tree.nodes[node].children[..] {
            [Child::Place(_)] => Ok(()),
            _ => Err(malformed(format!("{name}: a bit array holds one field"))),
        }
    }
}
