//! Pointer nodes: one pointer per cell, to a cell in the node's arena.

use super::{Activity, Container, LevelFormat, NodeKind, PathInfo, WORD};
use crate::ops::TreeAccessOp;

#[derive(Debug)]
pub(super) struct Pointer;

impl LevelFormat for Pointer {
    fn kind(&self) -> NodeKind {
        NodeKind::Pointer
    }

    fn name(&self) -> &'static str {
        "pointer"
    }

    fn activity(&self) -> Activity {
        Activity::Individual
    }

    fn allocates(&self) -> bool {
        true
    }

    fn supports_morton(&self) -> bool {
        true
    }

    fn container(
        &self,
        _: PathInfo,
        cells: Option<u64>,
        _cell_size: u64,
        _align: u64,
    ) -> Option<Container> {
        Some(Container {
            size: cells?.checked_mul(WORD)?,
            align: WORD,
            first_cell: 0,
        })
    }

    fn operands(&self, op: TreeAccessOp, _path: PathInfo) -> Option<usize> {
        match op {
            TreeAccessOp::Find | TreeAccessOp::Ensure | TreeAccessOp::Drop => Some(2),
            TreeAccessOp::Entry => Some(1),
            TreeAccessOp::Test
            | TreeAccessOp::Touch
            | TreeAccessOp::Push
            | TreeAccessOp::Length => None,
        }
    }
}
