//! Task fusion: two tasks over the same iterations become one, if no iteration needs what another one of the first task leaves.

use crate::bank::{Bank, Placed, numbers_of_both};
use crate::graph::{Edge, EdgeKind, Graph, Node, State, sorted};
use crate::print::Names;
use crate::storage::Storage;
use crate::summary::{IndexSource, Reach, Space, StorageUse};
use crate::task::Task;
use crate::window::Fuel;
use std::sync::Arc;
use wuji_compile::{Math, Options};
use wuji_ir::module::{Bound, BoundBase};
use wuji_ir::ops::AtomicOp;
use wuji_ir::types::{Imm, Type};

/// The most kernels in a task.
const MOST_PARTS: usize = 32;
/// The most estimated instructions of an iteration: more do not fit the registers and the instruction cache any better.
const MOST_COST: u64 = 6000;
/// The most fields and arrays of a task: processors follow so many streams.
const MOST_FIELDS: usize = 24;

/// Why two tasks are not fused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// By the name of a task, which stays alone.
    Obstacle(String, &'static str),
    /// They run over different iterations.
    Iterations,
    /// An iteration accesses what other iterations write.
    Conflict(State),
    /// The first changes which cells are active.
    Cells(u32),
    /// It would not be faster.
    Cost(&'static str),
}

impl Refusal {
    /// In words.
    pub fn text(&self, names: &Names) -> String {
        match self {
            Refusal::Obstacle(task, why) => format!("`{task}` stays alone: {why}"),
            Refusal::Iterations => "they run over different iterations".to_owned(),
            Refusal::Conflict(state) => format!(
                "an iteration accesses elements of {} that other iterations write",
                names.state(state)
            ),
            Refusal::Cells(tree) => {
                format!(
                    "one changes the {} that the other one uses",
                    names.state(&State::Mask(*tree))
                )
            }
            Refusal::Cost(why) => format!("it would not be faster: {why}"),
        }
    }
}

/// Two tasks that share states, are neighbours in the graph, and were not fused.
#[derive(Clone, Debug)]
pub struct Unfused {
    /// The number of the first node.
    pub first: usize,
    /// The number of the second node.
    pub second: usize,
    /// Why they are not fused.
    pub refusal: Refusal,
}

/// The pairs that fusion has left, with the reasons.
pub fn unfused(graph: &Graph, options: &Options) -> Vec<Unfused> {
    let count = graph.nodes.len();
    let closure = graph.closure();
    let shares = |a: &Node, b: &Node| {
        let mut states = a.reads.iter().chain(&a.writes);
        states.any(|s| b.reads.contains(s) || b.writes.contains(s))
    };
    let mut out = Vec::new();
    for second in 1..count {
        for first in 0..second {
            if closure.detours(first, second, count)
                || !shares(&graph.nodes[first], &graph.nodes[second])
            {
                continue;
            }
            if let Some(refusal) = refusal(graph, options, first, second) {
                out.push(Unfused {
                    first,
                    second,
                    refusal,
                });
            }
        }
    }
    out
}

/// Fuses tasks, pair by pair. Every task is fused at most once in a round, so a chain of n takes log n rounds, and the tasks that it
/// goes through are found in the bank again when the chain has another length.
///
/// Tasks of the same level that share fields come first: they have more in common than a task and what uses its results.
pub fn fuse_tasks(mut graph: Graph, bank: &mut Bank, fuel: &mut Fuel) -> Graph {
    for pairs in [Pairs::SameLevel, Pairs::All] {
        while let Some(next) = fuse_round(&graph, bank, fuel, pairs) {
            graph = next;
        }
    }
    graph
}

/// Which tasks a round looks at.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Pairs {
    /// Those with paths of the same length to them that share fields.
    SameLevel,
    All,
}

fn fuse_round(graph: &Graph, bank: &mut Bank, fuel: &mut Fuel, pairs: Pairs) -> Option<Graph> {
    let count = graph.nodes.len();
    let closure = graph.closure();
    let levels = graph.levels();
    let mut partner: Vec<Option<usize>> = vec![None; count];
    let mut fused: Vec<Option<Node>> = vec![None; count];
    for b in 1..count {
        for a in (0..b).rev() {
            let (first, second) = (&graph.nodes[a], &graph.nodes[b]);
            let wanted = match pairs {
                Pairs::SameLevel => levels[a] == levels[b] && shares_fields(first, second),
                Pairs::All => true,
            };
            let free = partner[a].is_none() && partner[b].is_none();
            if !wanted || !free || closure.detours(a, b, count) {
                continue;
            }
            if refusal(graph, bank.options(), a, b).is_some()
                || makes_cycle(graph, &mut partner, a, b)
                || !fuel.take()
            {
                continue;
            }
            let Some(node) = fuse(bank, first, second) else {
                continue;
            };
            fused[a] = Some(node);
            (partner[a], partner[b]) = (Some(b), Some(a));
            break;
        }
    }
    let any = partner.iter().any(Option::is_some);
    any.then(|| rebuild(graph, &partner, fused))
}

/// Whether two tasks read or write the values of the same field.
fn shares_fields(a: &Node, b: &Node) -> bool {
    let mut values = a.reads.iter().chain(&a.writes);
    values.any(|s| {
        let value = matches!(s, State::Value { .. });
        value && (b.reads.contains(s) || b.writes.contains(s))
    })
}

/// The edges between tasks when pairs are at the place of their first task.
fn contracted(graph: &Graph, partner: &[Option<usize>]) -> Vec<Edge> {
    let place = |n: usize| partner[n].map_or(n, |p| p.min(n));
    let edges = graph.edges.iter().map(|edge| Edge {
        from: place(edge.from),
        to: place(edge.to),
        ..*edge
    });
    edges.filter(|edge| edge.from != edge.to).collect()
}

/// Whether tasks would wait for each other: pairs that are harmless alone may form a cycle.
fn makes_cycle(graph: &Graph, partner: &mut [Option<usize>], a: usize, b: usize) -> bool {
    (partner[a], partner[b]) = (Some(b), Some(a));
    let edges = contracted(graph, partner);
    let cyclic = sorted(graph.nodes.len(), &edges, |n| n).len() < graph.nodes.len();
    (partner[a], partner[b]) = (None, None);
    cyclic
}

/// The graph in which two tasks are one.
pub(crate) fn fused_pair(graph: &Graph, a: usize, b: usize, node: Node) -> Graph {
    let count = graph.nodes.len();
    let (mut partner, mut fused) = (vec![None; count], vec![None; count]);
    (partner[a], partner[b]) = (Some(b), Some(a));
    fused[a] = Some(node);
    rebuild(graph, &partner, fused)
}

/// The graph in which pairs are one task each.
fn rebuild(graph: &Graph, partner: &[Option<usize>], fused: Vec<Option<Node>>) -> Graph {
    // The second of a pair is at the place of the first.
    let place = |n: usize| partner[n].map_or(n, |p| p.min(n));
    let edges = contracted(graph, partner);
    let order = sorted(graph.nodes.len(), &edges, |n| n);
    let kept = order.into_iter().filter(|n| place(*n) == *n);
    let nodes = kept.map(|n| fused[n].clone().unwrap_or_else(|| graph.nodes[n].clone()));
    Graph::of(nodes.collect())
}

fn fuse(bank: &mut Bank, a: &Node, b: &Node) -> Option<Node> {
    let equal = equal_params(a, b);
    let task = bank.fuse(placed(a), placed(b), equal)?;
    Some(joined(task, a, b))
}

pub(crate) fn placed(node: &Node) -> Placed<'_> {
    Placed {
        task: &node.task,
        trees: &node.trees,
        arrays: &node.arrays,
    }
}

/// The node of a task that was made of two.
pub(crate) fn joined(task: Arc<Task>, a: &Node, b: &Node) -> Node {
    let all = numbers_of_both(&placed(a), &placed(b));
    let numbers = |own: &[u32]| -> Vec<u32> { own.iter().map(|n| all[*n as usize]).collect() };
    let data = (numbers(&task.trees), numbers(&task.arrays));
    let mut launches = a.launches.clone();
    launches.extend(&b.launches);
    let params = [&a.params[..], &b.params[..]].concat();
    Node::new(task, data, params, launches)
}

/// For each parameter of the second task, the one of the first that is the same float. Integers may be equal by chance, so that code
/// would be made for a window that does not come again.
pub(crate) fn equal_params(a: &Node, b: &Node) -> Vec<Option<u32>> {
    let mut equal = vec![None; b.task.module.params.len()];
    for (k, scalar, slot) in &b.task.summary.floats {
        let value = b.params.get(*slot);
        let mut first = a.task.summary.floats.iter();
        let same = first.find(|(_, s, at)| s == scalar && a.params.get(*at) == value);
        equal[*k] = same.map(|(number, ..)| *number as u32);
    }
    equal
}

/// Why two tasks of a graph are not fused, but for the tasks between them.
pub fn refusal(graph: &Graph, options: &Options, a: usize, b: usize) -> Option<Refusal> {
    let (first, second) = (&graph.nodes[a], &graph.nodes[b]);
    for node in [first, second] {
        if let Some(obstacle) = node.task.summary.obstacle {
            return Some(Refusal::Obstacle(
                node.task.name().to_owned(),
                obstacle.text(),
            ));
        }
    }
    // In a fused loop, the parts of a sum could be others.
    if let Some(node) = [first, second]
        .into_iter()
        .find(|n| options.deterministic && sums_floats(n))
    {
        let name = node.task.name().to_owned();
        return Some(Refusal::Obstacle(name, "its float sums have a fixed order"));
    }
    if !same_iterations(first, second) {
        return Some(Refusal::Iterations);
    }
    let serial = first.task.summary.space == Space::Serial;
    if !serial {
        if let Some(tree) = changes_cells(first, second) {
            return Some(Refusal::Cells(tree));
        }
        if let Some(state) = conflict(first, second, options) {
            return Some(Refusal::Conflict(state));
        }
    }
    cost(graph, a, b).map(Refusal::Cost)
}

fn same_iterations(a: &Node, b: &Node) -> bool {
    a.task.summary.hints == b.task.summary.hints && same_space(a, b)
}

/// Whether two tasks run over the same range, or the cells of the same node.
pub(crate) fn same_space(a: &Node, b: &Node) -> bool {
    let (x, y) = (&a.task.summary, &b.task.summary);
    match (&x.space, &y.space) {
        (Space::Serial, Space::Serial) => true,
        (Space::Box(p), Space::Box(q)) => {
            let ends = |node: &Node, axis: &(Bound, Bound)| {
                Some((value(node, axis.0)?, value(node, axis.1)?))
            };
            p.len() == q.len()
                && (p.iter().zip(q)).all(|(p, q)| {
                    let (p, q) = (ends(a, p), ends(b, q));
                    p.is_some() && p == q
                })
        }
        (Space::Cells(p), Space::Cells(q)) => {
            let place = |node: &Node, field: &wuji_ir::entities::Field| {
                let data = &node.task.module.fields[*field];
                let tree = node.trees[data.tree.as_u32() as usize];
                (tree, data.node, data.axes.clone())
            };
            place(a, p) == place(b, q)
        }
        (Space::Serial | Space::Box(_) | Space::Cells(_) | Space::Unknown, _) => false,
    }
}

/// Whether iterations update floats that others update, too.
pub(crate) fn sums_floats(node: &Node) -> bool {
    let m = &node.task.module;
    node.task.summary.uses.iter().any(|used| {
        let elem = used.storage.elem(m);
        let floats = m.structs.flatten(elem).iter().any(|s| s.is_float());
        floats && used.updates.is_some() && used.reach == Reach::Anywhere
    })
}

/// The value of a bound in this launch.
pub(crate) fn value(node: &Node, bound: Bound) -> Option<i128> {
    match bound {
        Bound::Const(c) => Some(c.into()),
        Bound::Param(n) => {
            let m = &node.task.module;
            let Type::Scalar(scalar) = m.params.get(n as usize)?.ty else {
                return None;
            };
            let slot = *m.param_slots().get(n as usize)?;
            Imm::from_bits(scalar, *node.params.get(slot)?).as_int()
        }
        Bound::Sum { base, plus, scalar } => {
            let BoundBase::Param(n) = base else {
                return None;
            };
            Some(Bound::sum(value(node, Bound::Param(n))?, plus, scalar))
        }
        Bound::Temp(_) | Bound::List(..) => None,
    }
}

/// A tree whose cells one task changes while the other one uses them.
fn changes_cells(a: &Node, b: &Node) -> Option<u32> {
    let changes = |node: &Node, tree: u32| node.writes.binary_search(&State::Mask(tree)).is_ok();
    let uses = |node: &Node, tree: u32| node.trees.contains(&tree);
    let mut trees = a.trees.iter().chain(&b.trees);
    let changed = trees.find(|tree| {
        changes(a, **tree) && uses(b, **tree) || changes(b, **tree) && uses(a, **tree)
    });
    changed.copied()
}

/// A state for which the order of iterations of the two tasks matters.
fn conflict(a: &Node, b: &Node, options: &Options) -> Option<State> {
    for x in &a.task.summary.uses {
        let state = a.state_of(x.storage);
        for y in &b.task.summary.uses {
            if b.state_of(y.storage) != state || !x.writes && !y.writes {
                continue;
            }
            if !same_view(a, x.storage, b, y.storage) {
                return Some(state);
            }
            if !same_elements(a, x, b, y) && !commute(a, x, y, options) {
                return Some(state);
            }
        }
    }
    None
}

/// Whether two tasks see the same elements in what they share: an array may have another shape for each of them.
fn same_view(a: &Node, x: Storage, b: &Node, y: Storage) -> bool {
    match (x, y) {
        (Storage::Field(_), Storage::Field(_)) => true,
        (Storage::Array(x), Storage::Array(y)) => {
            let (p, q) = (&a.task.module.arrays[x], &b.task.module.arrays[y]);
            p.elem == q.elem && p.shape == q.shape
        }
        (Storage::Field(_) | Storage::Array(_), _) => false,
    }
}

/// Whether an iteration accesses the same elements of a field or array in both tasks, and no other iteration does.
fn same_elements(a: &Node, x: &StorageUse, b: &Node, y: &StorageUse) -> bool {
    let (Reach::Own(p), Reach::Own(q)) = (&x.reach, &y.reach) else {
        return false;
    };
    let mut axes = p.iter().zip(q);
    p.len() == q.len()
        && axes.all(|(p, q)| {
            let same_source = match (p.1, q.1) {
                (IndexSource::Loop(m), IndexSource::Loop(n)) => m == n,
                (IndexSource::Unique(m), IndexSource::Unique(n)) => same_unique(a, m, b, n),
                (IndexSource::Loop(_) | IndexSource::Unique(_), _) => false,
            };
            same_source && (p.0, p.2, p.3) == (q.0, q.2, q.3)
        })
}

/// Whether two unique values are computed in the same way, from fields and arrays that neither task writes.
fn same_unique(a: &Node, m: usize, b: &Node, n: usize) -> bool {
    let (p, q) = (&a.task.summary.uniques[m], &b.task.summary.uniques[n]);
    let states = |node: &Node, loads: &[Storage]| -> Vec<State> {
        loads.iter().map(|s| node.state_of(*s)).collect()
    };
    let views = p.loads.iter().zip(&q.loads);
    let same_views = views.clone().all(|(x, y)| same_view(a, *x, b, *y));
    let (from, to) = (states(a, &p.loads), states(b, &q.loads));
    let written = |s: &State| a.writes.contains(s) || b.writes.contains(s);
    let params = p.expression.contains('$');
    p.expression == q.expression
        && from == to
        && same_views
        && !from.iter().any(written)
        && (!params || a.params == b.params)
}

/// Whether the updates of two tasks can be applied in any order.
fn commute(a: &Node, x: &StorageUse, y: &StorageUse, options: &Options) -> bool {
    let (Some(op), true) = (x.updates, x.updates == y.updates) else {
        return false;
    };
    if x.reads || y.reads {
        return false;
    }
    let m = &a.task.module;
    let floats = (m.structs.flatten(x.storage.elem(m)).iter()).any(|s| s.is_float());
    let exact = matches!(op, AtomicOp::Min | AtomicOp::Max);
    let strict = options.deterministic || options.math == Math::Strict;
    !floats || exact || !strict
}

/// Why a fused task would not be faster.
fn cost(graph: &Graph, a: usize, b: usize) -> Option<&'static str> {
    let (first, second) = (&graph.nodes[a], &graph.nodes[b]);
    let (x, y) = (&first.task.summary, &second.task.summary);
    if first.task.parts.len() + second.task.parts.len() > MOST_PARTS {
        return Some("it has many parts already");
    }
    if x.cost + y.cost > MOST_COST {
        return Some("its iterations are long already");
    }
    if x.space == Space::Serial {
        return None;
    }
    let states = |node: &Node| {
        let mut states = [&node.reads[..], &node.writes[..]].concat();
        states.retain(|s| matches!(s, State::Value { .. }));
        states
    };
    let (mut all, other) = (states(first), states(second));
    let shared = other.iter().any(|s| all.contains(s));
    all.extend(other);
    all.sort_unstable();
    all.dedup();
    if all.len() > MOST_FIELDS {
        return Some("it has many fields already");
    }
    let flows = (graph.edges.iter())
        .any(|e| e.from == a && e.to == b && e.kind == EdgeKind::ReadAfterWrite);
    let (p, q) = (is_regular(first), is_regular(second));
    if p != q && !flows {
        return Some("only one of them has scattered writes");
    }
    let simple = p && q;
    if !shared && !simple {
        return Some("they share no fields");
    }
    None
}

/// Whether iterations only write elements of their own.
fn is_regular(node: &Node) -> bool {
    let summary = &node.task.summary;
    let m = &node.task.module;
    summary.uses.iter().all(|u| {
        !u.writes || matches!(u.reach, Reach::Own(_)) && (u.exists || !u.storage.is_sparse(m))
    })
}
