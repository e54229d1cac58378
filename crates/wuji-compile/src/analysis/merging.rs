//! What it costs to merge the private copies that workers have of a tree.

use wuji_ir::entities::{Field, Node};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::Env;

/// To merge so many bytes costs about as much as is won by one update that needs no other core.
pub const BYTES_PER_UPDATE: u64 = 4;

/// Bytes that are looked at to merge some fields of one node.
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
    // What lies between the elements is passed over when it is much.
    cells.saturating_mul(memory.cell_size[node].min(4 * elements))
}
