//! The state-flow graph: tasks in order, with an edge for each state that one leaves to another.

use crate::storage::Storage;
use crate::task::Task;
use std::fmt;
use std::sync::Arc;
use wuji_ir::module::Module;

/// A part of what a program computes on. Trees and arrays are numbered in their window, together: an array may be the only field of a
/// tree.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum State {
    /// The values of a field, by its number in the tree, or of an array, which is number 0; packed fields of a node share one.
    Value {
        /// The number of the tree or array.
        tree: u32,
        /// The number of the field in the tree.
        field: u32,
    },
    /// Which cells of a tree are active.
    Mask(u32),
    /// The lists of active cells of a tree.
    List(u32),
    /// The memory of the cells of a tree.
    Allocator(u32),
    /// Prints, checks and random numbers.
    Output,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Value { tree, field } => write!(f, "T{tree}.f{field}"),
            State::Mask(tree) => write!(f, "T{tree}.mask"),
            State::List(tree) => write!(f, "T{tree}.list"),
            State::Allocator(tree) => write!(f, "T{tree}.allocator"),
            State::Output => f.write_str("output"),
        }
    }
}

/// A task of a window, with its arguments.
#[derive(Clone, Debug)]
pub struct Node {
    /// The task.
    pub task: Arc<Task>,
    /// The number of each tree of the task in the window.
    pub trees: Vec<u32>,
    /// The number of each of its arrays.
    pub arrays: Vec<u32>,
    /// The parameters by value, one slot for each scalar.
    pub params: Vec<u64>,
    /// The launches it comes from, in order.
    pub launches: Vec<usize>,
    /// States it reads, sorted.
    pub reads: Vec<State>,
    /// States it writes, sorted.
    pub writes: Vec<State>,
}

impl Node {
    /// A task with its arguments; the states come from its summary.
    pub fn new(
        task: Arc<Task>,
        (trees, arrays): (Vec<u32>, Vec<u32>),
        params: Vec<u64>,
        launches: Vec<usize>,
    ) -> Node {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        let (m, summary) = (&task.module, &task.summary);
        for used in &summary.uses {
            let state = value_state(m, used.storage, (&trees, &arrays));
            if used.writes {
                writes.push(state);
            }
            // What is not stored keeps its old value.
            if used.reads || used.writes && !used.covers {
                reads.push(state);
            }
        }
        for mask in &summary.masks {
            let tree = trees[mask.tree.as_u32() as usize];
            if mask.reads {
                reads.extend([State::Mask(tree), State::List(tree)]);
            }
            if mask.activates || mask.deactivates {
                writes.extend([State::Mask(tree), State::List(tree), State::Allocator(tree)]);
            }
            if mask.deactivates {
                // Only some cells: the others keep their values.
                let fields = m.fields.iter().filter(|(_, data)| data.tree == mask.tree);
                let values: Vec<State> = fields
                    .map(|(f, _)| value_state(m, Storage::Field(f), (&trees, &arrays)))
                    .collect();
                reads.extend(&values);
                writes.extend(values);
            }
        }
        if summary.ordered {
            writes.push(State::Output);
        }
        for states in [&mut reads, &mut writes] {
            states.sort_unstable();
            states.dedup();
        }
        Node {
            task,
            trees,
            arrays,
            params,
            launches,
            reads,
            writes,
        }
    }

    /// The same arguments for a task that was made of this one.
    pub(crate) fn with_task(&self, task: Arc<Task>) -> Node {
        let data = (self.trees.clone(), self.arrays.clone());
        Node::new(task, data, self.params.clone(), self.launches.clone())
    }

    /// The state of the values of a field or array.
    pub fn state_of(&self, storage: Storage) -> State {
        value_state(&self.task.module, storage, (&self.trees, &self.arrays))
    }
}

fn value_state(m: &Module, storage: Storage, (trees, arrays): (&[u32], &[u32])) -> State {
    let field = match storage {
        Storage::Field(field) => field,
        Storage::Array(array) => {
            return State::Value {
                tree: arrays[array.as_u32() as usize],
                field: storage.number(m),
            };
        }
    };
    let data = &m.fields[field];
    let tree = trees[data.tree.as_u32() as usize];
    // Packed fields of a node may share words and exponents.
    let first = data.packing.as_ref().and_then(|_| {
        let mut packed = m.fields.iter().filter(|(_, other)| {
            other.tree == data.tree && other.node == data.node && other.packing.is_some()
        });
        packed.next().map(|(field, _)| field)
    });
    State::Value {
        tree,
        field: Storage::Field(first.unwrap_or(field)).number(m),
    }
}

/// Why one task is after another.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum EdgeKind {
    /// The second reads what the first wrote.
    ReadAfterWrite,
    /// The second overwrites what the first wrote.
    WriteAfterWrite,
    /// The second overwrites what the first read.
    WriteAfterRead,
}

/// One task leaves a state to another.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Edge {
    /// The number of the first node.
    pub from: usize,
    /// The number of the second node.
    pub to: usize,
    /// What orders them.
    pub state: State,
    /// How.
    pub kind: EdgeKind,
}

/// Tasks in an order in which they may run, and the edges between them.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The tasks, in the order of the program.
    pub nodes: Vec<Node>,
    /// What orders them.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// The graph of tasks that are launched in this order.
    pub fn of(nodes: Vec<Node>) -> Graph {
        let states: Vec<(&[State], &[State])> = nodes
            .iter()
            .map(|n| (&n.reads[..], &n.writes[..]))
            .collect();
        let edges = edges(&states);
        Graph { nodes, edges }
    }

    /// For each task, the tasks that it reaches.
    pub fn closure(&self) -> Closure {
        Closure::of(self.nodes.len(), &self.edges)
    }

    /// For each task, the length of the longest path to it.
    pub fn levels(&self) -> Vec<usize> {
        let mut levels = vec![0; self.nodes.len()];
        // Edges are sorted by their first task, and point forward.
        for edge in &self.edges {
            levels[edge.to] = levels[edge.to].max(levels[edge.from] + 1);
        }
        levels
    }

    /// The same tasks in an order that the edges allow, as near to the given one as possible.
    pub fn sorted(&self, rank: impl Fn(usize) -> usize) -> Vec<usize> {
        sorted(self.nodes.len(), &self.edges, rank)
    }
}

/// The edges between tasks that read and write these states, launched in this order: state-flow chains of all states.
pub fn edges(tasks: &[(&[State], &[State])]) -> Vec<Edge> {
    use rustc_hash::FxHashMap;
    let mut owners: FxHashMap<State, usize> = FxHashMap::default();
    let mut readers: FxHashMap<State, Vec<usize>> = FxHashMap::default();
    let mut out = Vec::new();
    for (to, (reads, writes)) in tasks.iter().enumerate() {
        for state in *reads {
            if let Some(from) = owners.get(state) {
                out.push(Edge {
                    from: *from,
                    to,
                    state: *state,
                    kind: EdgeKind::ReadAfterWrite,
                });
            }
            if !writes.contains(state) {
                readers.entry(*state).or_default().push(to);
            }
        }
        for state in *writes {
            let since = readers.remove(state).unwrap_or_default();
            let after = since.iter().map(|from| (*from, EdgeKind::WriteAfterRead));
            let owner = owners.insert(*state, to);
            let owner = owner.filter(|_| !reads.contains(state));
            let owner = owner.map(|from| (from, EdgeKind::WriteAfterWrite));
            for (from, kind) in after.chain(owner) {
                out.push(Edge {
                    from,
                    to,
                    state: *state,
                    kind,
                });
            }
        }
    }
    out.sort_unstable();
    out
}

/// A topological order; among the tasks that may come next, the one with the smallest rank does.
pub fn sorted(count: usize, edges: &[Edge], rank: impl Fn(usize) -> usize) -> Vec<usize> {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    let mut waits = vec![0usize; count];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for edge in edges {
        waits[edge.to] += 1;
        next[edge.from].push(edge.to);
    }
    let ready = (0..count).filter(|n| waits[*n] == 0);
    let mut heap: BinaryHeap<Reverse<(usize, usize)>> =
        ready.map(|n| Reverse((rank(n), n))).collect();
    let mut out = Vec::with_capacity(count);
    while let Some(Reverse((_, node))) = heap.pop() {
        out.push(node);
        for to in &next[node] {
            waits[*to] -= 1;
            if waits[*to] == 0 {
                heap.push(Reverse((rank(*to), *to)));
            }
        }
    }
    out
}

/// Which tasks each task reaches, as sets of bits.
#[derive(Clone, Debug)]
pub struct Closure {
    words: usize,
    bits: Vec<u64>,
}

impl Closure {
    /// The closure of a graph with this many nodes.
    pub fn of(count: usize, edges: &[Edge]) -> Closure {
        let words = count.div_ceil(64);
        let mut closure = Closure {
            words,
            bits: vec![0; words * count],
        };
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
        for edge in edges {
            next[edge.from].push(edge.to);
        }
        // Edges point forward, so what a task reaches is complete before the tasks in front of it look at it.
        for from in (0..count).rev() {
            for to in &next[from] {
                closure.bits[from * words + to / 64] |= 1 << (to % 64);
                for w in 0..words {
                    let reached = closure.bits[to * words + w];
                    closure.bits[from * words + w] |= reached;
                }
            }
        }
        closure
    }

    /// Whether a path leads from one node to another.
    pub fn reaches(&self, from: usize, to: usize) -> bool {
        self.bits[from * self.words + to / 64] >> (to % 64) & 1 == 1
    }

    /// Whether a path leads from one task to another by a third one.
    pub fn detours(&self, from: usize, to: usize, count: usize) -> bool {
        (from + 1..to.min(count)).any(|by| self.reaches(from, by) && self.reaches(by, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::hash::{DefaultHasher, Hash, Hasher};

    /// A task of a random program: the states it reads and writes.
    type Effects = (Vec<State>, Vec<State>);

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1);
            (self.0 >> 33) as usize % n
        }
    }

    fn program(random: &mut Random) -> Vec<Effects> {
        let state = |random: &mut Random| match random.below(6) {
            0 => State::Mask(0),
            n => State::Value {
                tree: (n % 2) as u32,
                field: (n / 2) as u32,
            },
        };
        let count = 1 + random.below(12);
        let tasks = (0..count).map(|_| {
            let mut list = |most: usize| {
                let count = random.below(most);
                let mut states: Vec<State> = (0..count).map(|_| state(random)).collect();
                states.sort_unstable();
                states.dedup();
                states
            };
            (list(4), list(3))
        });
        tasks.collect()
    }

    fn edges_of(tasks: &[Effects]) -> Vec<Edge> {
        let tasks: Vec<_> = tasks.iter().map(|(r, w)| (&r[..], &w[..])).collect();
        edges(&tasks)
    }

    /// What each state is after the tasks ran: a hash of everything that it depends on.
    fn run(tasks: &[Effects], order: &[usize]) -> BTreeMap<State, u64> {
        let mut memory: BTreeMap<State, u64> = BTreeMap::new();
        for task in order {
            let (reads, writes) = &tasks[*task];
            let read: Vec<u64> = (reads.iter())
                .map(|s| memory.get(s).copied().unwrap_or(0))
                .collect();
            for state in writes {
                let mut hash = DefaultHasher::new();
                (task, &read, state).hash(&mut hash);
                memory.insert(*state, hash.finish());
            }
        }
        memory
    }

    fn random_order(random: &mut Random, count: usize, edges: &[Edge]) -> Vec<usize> {
        let ranks: Vec<usize> = (0..count).map(|_| random.below(1000)).collect();
        sorted(count, edges, |n| ranks[n])
    }

    #[test]
    fn any_topological_order_gives_the_same_states() {
        let mut random = Random(7);
        let mut reordered = 0;
        for _ in 0..2000 {
            let tasks = program(&mut random);
            let edges = edges_of(&tasks);
            let launched: Vec<usize> = (0..tasks.len()).collect();
            let order = random_order(&mut random, tasks.len(), &edges);
            assert_eq!(order.len(), tasks.len(), "there are no cycles");
            reordered += usize::from(order != launched);
            assert_eq!(
                run(&tasks, &order),
                run(&tasks, &launched),
                "{tasks:?} as {order:?}"
            );
        }
        assert!(reordered > 500, "{reordered}");
    }

    #[test]
    fn any_topological_order_builds_the_same_graph() {
        let mut random = Random(8);
        for _ in 0..2000 {
            let tasks = program(&mut random);
            let edges = edges_of(&tasks);
            let order = random_order(&mut random, tasks.len(), &edges);
            let moved: Vec<Effects> = order.iter().map(|n| tasks[*n].clone()).collect();
            let mut again: Vec<Edge> = (edges_of(&moved).into_iter())
                .map(|edge| Edge {
                    from: order[edge.from],
                    to: order[edge.to],
                    ..edge
                })
                .collect();
            again.sort_unstable();
            assert_eq!(again, edges, "{tasks:?} as {order:?}");
        }
    }

    #[test]
    fn every_edge_is_needed_for_the_order() {
        // A write after a read that was left out would let the reader see the new value.
        let x = State::Value { tree: 0, field: 0 };
        let tasks = [(vec![], vec![x]), (vec![x], vec![]), (vec![], vec![x])];
        let kinds: Vec<EdgeKind> = edges_of(&tasks).iter().map(|e| e.kind).collect();
        let all = [
            EdgeKind::ReadAfterWrite,
            EdgeKind::WriteAfterWrite,
            EdgeKind::WriteAfterRead,
        ];
        assert_eq!(kinds, all);
    }

    #[test]
    fn paths_are_closed() {
        let mut random = Random(9);
        for _ in 0..300 {
            let tasks = program(&mut random);
            let edges = edges_of(&tasks);
            let closure = Closure::of(tasks.len(), &edges);
            for edge in &edges {
                assert!(closure.reaches(edge.from, edge.to));
                for to in 0..tasks.len() {
                    assert!(!closure.reaches(edge.to, to) || closure.reaches(edge.from, to));
                }
            }
        }
    }
}
