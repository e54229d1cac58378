//! Dense nodes: all cells, contiguous.

use super::{Container, LevelFormat, NodeKind, PathInfo};

#[derive(Debug)]
pub(super) struct Dense;

impl LevelFormat for Dense {
    fn kind(&self) -> NodeKind {
        NodeKind::Dense
    }

    fn name(&self) -> &'static str {
        "dense"
    }

    fn supports_morton(&self) -> bool {
        true
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
}
