//! Activation demotion: a task does not activate cells that an earlier task has activated, if nothing has been deactivated since.

use crate::activation::ActivatingWrite;
use crate::bank::Bank;
use crate::graph::{Graph, Node, State};
use crate::rules::fusion::same_space;
use crate::summary::Space;
use crate::window::Fuel;
use wuji_ir::entities::Field;

/// Removes activations that find every cell active.
pub fn demote_activations(graph: Graph, bank: &mut Bank, fuel: &mut Fuel) -> Graph {
    let mut nodes = graph.nodes.clone();
    let mut changed = false;
    // From the first to the last: a task that activates nothing any more keeps what later ones know.
    for at in 1..nodes.len() {
        let known = known_active(&nodes, at);
        if known.is_empty() || !fuel.take() {
            continue;
        }
        let node = &nodes[at];
        let task = bank.demote_activations(&node.task, &known);
        nodes[at] = node.with_task(task);
        changed = true;
    }
    if changed { Graph::of(nodes) } else { graph }
}

/// The fields of a task whose activations an earlier task has made.
fn known_active(nodes: &[Node], at: usize) -> Vec<Field> {
    let node = &nodes[at];
    let summary = &node.task.summary;
    if node.task.whole || summary.masks.iter().any(|mask| mask.deactivates) {
        return Vec::new();
    }
    let mut fields: Vec<Field> = summary.activations.iter().map(|w| w.field).collect();
    fields.sort_unstable();
    fields.dedup();
    fields.retain(|field| {
        let mut writes = summary.activations.iter().filter(|w| w.field == *field);
        writes.all(|write| is_made_before(nodes, at, write))
    });
    fields
}

/// Whether an earlier task activates the cells of a write, and nothing deactivates them before it.
fn is_made_before(nodes: &[Node], at: usize, write: &ActivatingWrite) -> bool {
    let node = &nodes[at];
    let tree = tree_of(node, write.field);
    for earlier in nodes[..at].iter().rev() {
        if deactivates(earlier, tree) {
            return false;
        }
        let same_cells = space_is_unchanged(nodes, at, earlier);
        if same_cells && makes(earlier, node, write) {
            return true;
        }
    }
    false
}

/// Whether two tasks run over the same iterations, at the time of each.
fn space_is_unchanged(nodes: &[Node], at: usize, earlier: &Node) -> bool {
    let node = &nodes[at];
    if !same_space(earlier, node) {
        return false;
    }
    let Space::Cells(field) = node.task.summary.space else {
        return true;
    };
    let mask = State::Mask(tree_of(node, field));
    let since = nodes[..at].iter().rev();
    let mut since = since.take_while(|n| !std::ptr::eq(*n, earlier));
    // The earlier task itself must not change what it runs over, either.
    !earlier.writes.contains(&mask) && since.all(|n| !n.writes.contains(&mask))
}

fn makes(earlier: &Node, node: &Node, write: &ActivatingWrite) -> bool {
    let place = |node: &Node, field: Field| {
        let data = &node.task.module.fields[field];
        (tree_of(node, field), data.node, data.axes.clone())
    };
    let wanted = place(node, write.field);
    let uses_params = |indices: &[String]| indices.iter().any(|i| i.contains('$'));
    earlier.task.summary.activations.iter().any(|made| {
        let same_indices = match (&made.indices, &write.indices) {
            (Some(a), Some(b)) => a == b && (!uses_params(a) || earlier.params == node.params),
            _ => false,
        };
        made.always && same_indices && place(earlier, made.field) == wanted
    })
}

fn deactivates(node: &Node, tree: u32) -> bool {
    let masks = node.task.summary.masks.iter();
    let mut masks = masks.filter(|mask| node.trees[mask.tree.as_u32() as usize] == tree);
    masks.any(|mask| mask.deactivates)
}

fn tree_of(node: &Node, field: Field) -> u32 {
    let tree = node.task.module.fields[field].tree;
    node.trees[tree.as_u32() as usize]
}
