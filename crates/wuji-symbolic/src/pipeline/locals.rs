//! Local decomposition: which subexpressions of a template are computed once and kept.

use super::harvest::Template;
use crate::arena::Id;

/// A subexpression of less complexity is computed again: it costs less than a register.
const LEAST: u32 = 1;

/// Whether each node of a template is kept for its further uses. Leaves are always kept.
pub fn locals(template: &Template, enabled: bool) -> Vec<bool> {
    let arena = &template.arena;
    let mut uses = vec![0u32; arena.len()];
    for id in arena.ids() {
        arena.children(id).for_each(|c| uses[c.at()] += 1);
    }
    for root in &template.roots {
        uses[root.at()] += 1;
    }
    let is_kept = |id: Id| {
        let op = arena.op(id);
        op.is_leaf() || enabled && uses[id.at()] > 1 && op.cost() >= LEAST
    };
    arena.ids().map(is_kept).collect()
}
