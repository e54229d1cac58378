//! Locality: among the tasks that may run next, the one that uses most of what the last one used does, while that is in the cache.

use crate::graph::{Graph, Node, State};
use crate::window::Fuel;

/// Fields above this size are not in a cache any more when the next task begins.
const CACHE_BYTES: u64 = 32 << 20;

/// The same tasks in another order that the edges allow.
pub fn order_for_locality(graph: Graph, fuel: &mut Fuel) -> Graph {
    let count = graph.nodes.len();
    let order = order(&graph);
    let same = order.iter().copied().eq(0..count);
    if same || !fuel.take() {
        return graph;
    }
    Graph::of(order.into_iter().map(|n| graph.nodes[n].clone()).collect())
}

fn order(graph: &Graph) -> Vec<usize> {
    let count = graph.nodes.len();
    let mut waits = vec![0usize; count];
    for edge in &graph.edges {
        waits[edge.to] += 1;
    }
    let bytes: Vec<Vec<(State, u64)>> = graph.nodes.iter().map(cached_bytes).collect();
    let mut ready: Vec<usize> = (0..count).filter(|n| waits[*n] == 0).collect();
    let mut out: Vec<usize> = Vec::with_capacity(count);
    while !ready.is_empty() {
        let next = match out.last() {
            Some(last) => best(graph, &bytes, &ready, *last),
            None => 0,
        };
        let node = ready.remove(next);
        out.push(node);
        for edge in graph.edges.iter().filter(|e| e.from == node) {
            waits[edge.to] -= 1;
            if waits[edge.to] == 0 {
                let at = ready.partition_point(|n| *n < edge.to);
                ready.insert(at, edge.to);
            }
        }
    }
    out
}

/// The position of the best one among those that are ready, which are in the order of launches.
fn best(graph: &Graph, bytes: &[Vec<(State, u64)>], ready: &[usize], last: usize) -> usize {
    // The tasks of a kernel stay together: it runs as it is.
    let launch = &graph.nodes[last].launches;
    let follows = |n: &&usize| graph.nodes[**n].launches == *launch;
    if let Some(at) = ready.iter().position(|n| follows(&n)) {
        return at;
    }
    let shared = |n: usize| -> u64 {
        let own = bytes[n].iter();
        let both = own.filter(|(state, _)| bytes[last].iter().any(|(s, _)| s == state));
        both.map(|(_, bytes)| bytes).sum()
    };
    let mut best = (0, shared(ready[0]));
    for (at, n) in ready.iter().enumerate().skip(1) {
        let shared = shared(*n);
        if shared > best.1 {
            best = (at, shared);
        }
    }
    best.0
}

/// The fields and arrays of a task that stay in a cache, with their bytes; nothing if it uses more than fits.
fn cached_bytes(node: &Node) -> Vec<(State, u64)> {
    let m = &node.task.module;
    let fields = node.task.summary.uses.iter().map(|used| {
        let domain = used.storage.domain(m);
        let elements = domain.map_or(u64::MAX, |domain| {
            let extents = domain.iter().map(|(_, extent)| *extent);
            extents.fold(1, u64::saturating_mul)
        });
        let bytes = elements.saturating_mul(m.structs.size_align(used.storage.elem(m)).0);
        (node.state_of(used.storage), bytes)
    });
    let fields: Vec<(State, u64)> = fields.collect();
    let all = fields
        .iter()
        .fold(0u64, |all, (_, bytes)| all.saturating_add(*bytes));
    if all > CACHE_BYTES {
        Vec::new()
    } else {
        fields
    }
}
