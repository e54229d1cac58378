//! The root: one cell, always present.

use super::{Container, LevelFormat, NodeKind, PathInfo, malformed};
use crate::diag::Result;
use crate::entities::Node;
use crate::layout::TreeData;

#[derive(Debug)]
pub(super) struct Root;

impl LevelFormat for Root {
    fn kind(&self) -> NodeKind {
        NodeKind::Root
    }

    fn name(&self) -> &'static str {
        "root"
    }

    fn container(
        &self,
        _: PathInfo,
        cells: Option<u64>,
        cell_size: u64,
        align: u64,
    ) -> Option<Container> {
        Some(Container {
            size: cell_size.checked_mul(cells?)?,
            align,
            first_cell: 0,
        })
    }

    fn verify(&self, tree: &TreeData, node: Node, name: &str) -> Result<()> {
        if tree.nodes[node].extents.is_empty() {
            Ok(())
        } else {
            Err(malformed(format!("{name}: the root splits no axis")))
        }
    }
}
