//! Bitmasked nodes: a mask, followed by all cells.
//!
//! Inactive cells keep their memory and are zero.

use super::{Activity, Container, GPU_VECTOR, LevelFormat, ListEntry, NodeKind, PathInfo, WORD};
use crate::ops::TreeAccessOp;

/// Cells per word of the mask.
const BITS: u64 = 64;

#[derive(Debug)]
pub(super) struct Bitmasked;

impl LevelFormat for Bitmasked {
    fn kind(&self) -> NodeKind {
        NodeKind::Bitmasked
    }

    fn name(&self) -> &'static str {
        "bitmasked"
    }

    fn activity(&self) -> Activity {
        Activity::Individual
    }

    fn list_entry(&self) -> ListEntry {
        ListEntry::MaskWord
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
        let cells = cells?;
        // So that a GPU can load vectors from them.
        let whole = cell_size > 0 && cell_size.is_multiple_of(GPU_VECTOR);
        let align = align.max(if whole { GPU_VECTOR } else { WORD });
        let mask = cells.div_ceil(BITS) * WORD;
        let first_cell = mask.checked_next_multiple_of(align)?;
        let bytes = cell_size.checked_mul(cells)?;
        Some(Container {
            size: first_cell.checked_add(bytes)?,
            align,
            first_cell,
        })
    }

    fn list_entries(&self, cells: u64) -> u64 {
        cells.div_ceil(BITS)
    }

    fn operands(&self, op: TreeAccessOp, _path: PathInfo) -> Option<usize> {
        match op {
            TreeAccessOp::Test | TreeAccessOp::Touch | TreeAccessOp::Drop => Some(2),
            TreeAccessOp::Entry => Some(1),
            TreeAccessOp::Find
            | TreeAccessOp::Ensure
            | TreeAccessOp::Push
            | TreeAccessOp::Length => None,
        }
    }
}
