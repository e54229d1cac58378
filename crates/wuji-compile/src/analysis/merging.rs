//! The cost of merging the private copies of a tree.

use wuji_ir::entities::{Field, Node};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::Env;

/// Merging this many bytes costs about as much as one contended update saves.
pub const BYTES_PER_UPDATE: u64 = 4;

/// Bytes that are scanned to merge some fields of one node.
pub fn merged_bytes(
    m: &Env,
    memory: &TreeMemory,
    node: Node,
    fields: impl Iterator<Item = Field>,
) -> u64 {
    let (mut elements, mut cells) = (0u64, 1u64);
    for field in fields {
        let data = &m.fields[field];
        let tree = &m.trees[data.tree];
        elements += m.structs.size_align(data.elem).0;
        cells = tree
            .path(node)
            .iter()
            .fold(1, |n, d| n.saturating_mul(tree.nodes[*d].cells()));
    }
    // Large gaps between elements are skipped.
    cells.saturating_mul(memory.cell_size[node].min(4 * elements))
}
