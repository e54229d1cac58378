//! Dead store elimination: what is overwritten before anything reads it is not stored, and a task that only stores such values does
//! not run.

use crate::bank::Bank;
use crate::graph::{Graph, Node, State};
use crate::storage::Storage;
use crate::window::Fuel;

/// Removes stores to fields and arrays that a later task covers, with no reader between. The last version of a field is only dead if nothing
/// outside of the window can read it.
pub fn eliminate_dead_stores(
    graph: Graph,
    temporaries: &[u32],
    bank: &mut Bank,
    fuel: &mut Fuel,
) -> Graph {
    let Graph { nodes, .. } = &graph;
    let mut left: Vec<Option<Node>> = nodes.iter().cloned().map(Some).collect();
    // A task that is gone reads nothing, so those in front of it are looked at later.
    for at in (0..left.len()).rev() {
        let Some(node) = left[at].clone() else {
            continue;
        };
        let dead = dead_storage(&left, temporaries, at, &node);
        if dead.is_empty() || !fuel.take() {
            continue;
        }
        left[at] = bank
            .prune(&node.task, &dead)
            .map(|task| node.with_task(task));
    }
    let kept: Vec<Node> = left.into_iter().flatten().collect();
    if kept.len() == graph.nodes.len() && !changed(&kept, &graph) {
        return graph;
    }
    Graph::of(kept)
}

fn changed(kept: &[Node], graph: &Graph) -> bool {
    let pairs = kept.iter().zip(&graph.nodes);
    pairs.into_iter().any(|(a, b)| a.task.id != b.task.id)
}

/// The fields and arrays that a task stores to in vain.
fn dead_storage(
    left: &[Option<Node>],
    temporaries: &[u32],
    at: usize,
    node: &Node,
) -> Vec<Storage> {
    let summary = &node.task.summary;
    // Of a task that must stay as it is, every store stays.
    if summary.obstacle.is_some() || node.task.whole {
        return Vec::new();
    }
    let dead = summary.uses.iter().filter(|used| {
        // A write that may be out of range is reported. Within the task itself, nothing may read it, either.
        used.writes
            && used.exists
            && !used.reads
            && !used.activates
            && !used.storage.is_packed(&node.task.module)
            && is_dead_after(
                left[at + 1..].iter().flatten(),
                temporaries,
                node.state_of(used.storage),
            )
    });
    dead.map(|used| used.storage).collect()
}

/// Whether the values of a field are not needed any more: the next task that uses it stores to all of it before it reads it, or there
/// is none and the tree is gone with the window.
pub(crate) fn is_dead_after<'a>(
    later: impl Iterator<Item = &'a Node>,
    temporaries: &[u32],
    state: State,
) -> bool {
    for later in later {
        let reads = later.reads.contains(&state);
        if reads {
            return false;
        }
        if later.writes.contains(&state) {
            // It does not read the state, so it covers it.
            return true;
        }
    }
    matches!(state, State::Value { tree, .. } if temporaries.contains(&tree))
}
