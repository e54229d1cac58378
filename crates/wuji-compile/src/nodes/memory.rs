//! Cells are handed out, given back and collected.

use super::words::*;
use super::{Service, Services, allocates_below};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::{Arena, Child, NodeKind, header};
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// Bytes of fresh cells that are counted at once, and how many cells at most.
const SLAB_BYTES: u64 = 1 << 16;
const SLAB_CELLS: u64 = 64;

/// Below the tag of the stack of returned cells.
const NUMBER: i64 = 0xffff_ffff;

impl Services {
    pub(super) fn arena(&self, tree: Tree, node: Node) -> Arena {
        match &self.node(tree, node).arena {
            Some(arena) => arena.clone(),
            None => unreachable!("{tree}.{node} allocates nothing"),
        }
    }

    /// `() -> offset`: a cell full of zeros, 0 when there is no memory.
    pub(super) fn allocate(&mut self, m: &mut Module, tree: Tree, node: Node) -> Func {
        let key = (Service::Allocate, tree, node);
        self.function(m, key, (0, 1), |s, b, _| {
            let arena = s.arena(tree, node);
            let head = s.node(tree, node).header;
            let returned = s.pop_returned(b, tree, &arena, head);
            let found = not_zero(b, returned);
            vec![choose(
                b,
                found,
                // Nobody has seen it, so it is still zero.
                |_| returned,
                |b| s.take(b, (tree, node), &arena, head),
            )]
        })
    }

    /// The next recycled or fresh cell.
    fn take(
        &mut self,
        b: &mut Builder,
        (tree, node): (Tree, Node),
        arena: &Arena,
        head: u64,
    ) -> Value {
        let (used, limit) = (self.used(b.module, tree), self.limit(b.module, tree));
        let free = load_at(b, tree, head + header::FREE);
        let taken = load_at(b, tree, head + header::TAKEN);
        // Looked at before anything is taken: a number that is taken cannot be put back.
        let in_use = load_at(b, tree, used);
        let limit = load_at(b, tree, limit);
        let recycled = b.compare(CmpOp::Lt, taken, free);
        let within = b.compare(CmpOp::Lt, in_use, limit);
        let may = b.binary(BinOp::Or, recycled, within);
        let charge = arena.cell + 24 + 8 * self.node(tree, node).list.words;
        let slab = (SLAB_BYTES / arena.cell).clamp(1, SLAB_CELLS);
        let slab = 1u64 << slab.ilog2();
        choose(
            b,
            may,
            |b| {
                let one = b.i64(1);
                let number = add_at(b, tree, head + header::TAKEN, one);
                let recycled = b.compare(CmpOp::Lt, number, free);
                choose(
                    b,
                    recycled,
                    |b| {
                        let first = load_at(b, tree, head + header::FIRST);
                        let at = b.binary(BinOp::Add, first, number);
                        let at = word(b, arena.free, at);
                        let cell = load(b, tree, at);
                        clear(b, tree, cell, arena.cell);
                        cell
                    },
                    |b| {
                        let fresh = b.binary(BinOp::Sub, number, free);
                        let high = load_at(b, tree, head + header::HIGH);
                        let fresh = b.binary(BinOp::Add, fresh, high);
                        let capacity = b.i64(arena.capacity as i64);
                        let inside = b.compare(CmpOp::Lt, fresh, capacity);
                        choose(
                            b,
                            inside,
                            |b| {
                                // Counted for many at once: the word is one for all threads.
                                let mask = b.i64(slab as i64 - 1);
                                let in_slab = b.binary(BinOp::And, fresh, mask);
                                let starts = is_zero(b, in_slab);
                                when(b, starts, |b| {
                                    let charge = b.i64((charge * slab) as i64);
                                    add_at(b, tree, used, charge);
                                });
                                let bytes = times(b, fresh, arena.cell as i64);
                                plus(b, bytes, arena.data as i64)
                            },
                            |b| out_of_memory(b, tree, node),
                        )
                    },
                )
            },
            |b| out_of_memory(b, tree, node),
        )
    }

    /// A cell from the stack of those that were given back unused, 0 when there is none.
    fn pop_returned(&mut self, b: &mut Builder, tree: Tree, arena: &Arena, head: u64) -> Value {
        let top = b.i64((head + header::RETURNED) as i64);
        repeat(b, &[], |b, label, _| {
            let seen = load(b, tree, top);
            let mask = b.i64(NUMBER);
            let number = b.binary(BinOp::And, seen, mask);
            let none = is_zero(b, number);
            let zero = b.i64(0);
            break_if(b, label, none, zero);
            let number = plus(b, number, -1);
            let at = word(b, arena.next, number);
            let next = load(b, tree, at);
            let new = tagged(b, seen, next);
            let old = exchange(b, tree, top, seen, new);
            let done = b.compare(CmpOp::Eq, old, seen);
            let bytes = times(b, number, arena.cell as i64);
            let cell = plus(b, bytes, arena.data as i64);
            break_if(b, label, done, cell);
            b.end(Term::Continue(label, Values::new()));
        })
    }

    /// `(offset)`: a cell that nobody has seen goes back.
    pub(super) fn give_back(&mut self, m: &mut Module, tree: Tree, node: Node) -> Func {
        let key = (Service::GiveBack, tree, node);
        self.function(m, key, (1, 0), |s, b, p| {
            let arena = s.arena(tree, node);
            let top = s.node(tree, node).header + header::RETURNED;
            let top = b.i64(top as i64);
            let bytes = plus(b, p[0], -(arena.data as i64));
            let (number, _) = divide(b, bytes, arena.cell);
            let at = word(b, arena.next, number);
            let number = plus(b, number, 1);
            repeat(b, &[], |b, label, _| {
                let seen = load(b, tree, top);
                let mask = b.i64(NUMBER);
                let below = b.binary(BinOp::And, seen, mask);
                store(b, tree, at, below);
                let new = tagged(b, seen, number);
                let old = exchange(b, tree, top, seen, new);
                let done = b.compare(CmpOp::Eq, old, seen);
                break_if(b, label, done, old);
                b.end(Term::Continue(label, Values::new()));
            });
            Vec::new()
        })
    }

    /// Notes that a cell came or went. Looking first keeps the line shared.
    pub(super) fn changed(&self, b: &mut Builder, tree: Tree, node: Node) {
        let at = self.node(tree, node).header + header::CHANGED;
        let seen = load_at(b, tree, at);
        let not_yet = is_zero(b, seen);
        when(b, not_yet, |b| {
            let one = b.i64(1);
            store_at(b, tree, at, one);
        });
    }

    /// A cell that nothing points to any more waits for a collection.
    pub(super) fn retire(&self, b: &mut Builder, tree: Tree, node: Node, cell: Value) {
        let arena = self.arena(tree, node);
        let pending = self.node(tree, node).header + header::PENDING;
        let one = b.i64(1);
        let number = add_at(b, tree, pending, one);
        let at = word(b, arena.pending, number);
        store(b, tree, at, cell);
    }

    /// `(offset)`: everything below a cell of a node is no more.
    pub(super) fn empty(&mut self, m: &mut Module, tree: Tree, node: Node) -> Func {
        let key = (Service::Empty, tree, node);
        self.function(m, key, (1, 0), |s, b, p| {
            for child in b.module.trees[tree].nodes[node].children.clone() {
                if let Child::Node(n) = child {
                    let start = s.memory[tree].node_offset[n];
                    let container = plus(b, p[0], start as i64);
                    s.empty_container(b, tree, n, container);
                }
            }
            Vec::new()
        })
    }

    fn empty_container(&mut self, b: &mut Builder, tree: Tree, node: Node, container: Value) {
        let data = b.module.trees[tree].nodes[node].clone();
        let (first, cell) = (
            self.memory[tree].first_cell[node],
            self.memory[tree].cell_size[node],
        );
        let slots = |b: &mut Builder, s: &Services, count: u64| {
            let count = b.i64(count as i64);
            count_to(b, count, |b, k| {
                let start = plus(b, container, first as i64);
                let at = word_at(b, start, k);
                let zero = b.i64(0);
                let old = atomic(b, AtomicOp::Exchange, tree, at, zero);
                let there = not_zero(b, old);
                when(b, there, |b| s.retire(b, tree, node, old));
            });
        };
        match data.kind {
            NodeKind::Root | NodeKind::Hash => {}
            NodeKind::Pointer => {
                slots(b, self, data.cells());
                self.changed(b, tree, node);
            }
            NodeKind::Dynamic { chunk } => {
                let zero = b.i64(0);
                store(b, tree, container, zero);
                slots(b, self, data.cells().div_ceil(u64::from(chunk)));
                self.changed(b, tree, node);
            }
            NodeKind::Dense | NodeKind::Bitmasked => {
                if data.kind == NodeKind::Bitmasked {
                    let words = data.cells().div_ceil(64) * 8;
                    clear(b, tree, container, words);
                    self.changed(b, tree, node);
                }
                if !allocates_below(b.module, tree, node) && !masks_below(b.module, tree, node) {
                    return;
                }
                let below = self.empty(b.module, tree, node);
                let count = b.i64(data.cells() as i64);
                count_to(b, count, |b, k| {
                    let bytes = times(b, k, cell as i64);
                    let at = b.binary(BinOp::Add, container, bytes);
                    let at = plus(b, at, first as i64);
                    call(b, below, &[at]);
                });
            }
        }
    }
}

fn masks_below(m: &Module, tree: Tree, node: Node) -> bool {
    m.trees[tree].nodes[node].children.iter().any(|c| match c {
        Child::Place(_) => false,
        Child::Node(n) => {
            m.trees[tree].nodes[*n].kind == NodeKind::Bitmasked || masks_below(m, tree, *n)
        }
    })
}

/// A new top of a stack: the counter above the number goes on.
fn tagged(b: &mut Builder, seen: Value, number: Value) -> Value {
    let mask = b.i64(!NUMBER);
    let tag = b.binary(BinOp::And, seen, mask);
    let tag = plus(b, tag, NUMBER + 1);
    b.binary(BinOp::Or, tag, number)
}

fn out_of_memory(b: &mut Builder, tree: Tree, node: Node) -> Value {
    let span = b.span;
    let site = b.module.sites.push(SiteData {
        kind: SiteKind::OutOfMemory(tree, node),
        span,
    });
    b.push(Op::Report(site), &[]);
    b.i64(0)
}

/// A function without parameters that makes the cells a tree has lost ready to be handed out again.
///
/// Parents come first: what is found below a cell that is gone is gone, too.
pub fn collect(s: &mut Services, m: &mut Module, tree: Tree) -> Func {
    let root = m.trees[tree].root();
    s.function(m, (Service::Collect, tree, root), (0, 0), |s, b, _| {
        let nodes: Vec<Node> = b.module.trees[tree].nodes.keys().collect();
        for node in nodes {
            if b.module.trees[tree].nodes[node].kind.allocates() {
                s.collect_node(b, tree, node);
            }
        }
        Vec::new()
    })
}

impl Services {
    fn collect_node(&mut self, b: &mut Builder, tree: Tree, node: Node) {
        let arena = self.arena(tree, node);
        let head = self.node(tree, node).header;
        let pending = load_at(b, tree, head + header::PENDING);
        let some = not_zero(b, pending);
        let below = match allocates_below(b.module, tree, node) {
            true => Some(self.empty_allocation(b.module, tree, node)),
            false => None,
        };
        when(b, some, |b| {
            let free = load_at(b, tree, head + header::FREE);
            let taken = load_at(b, tree, head + header::TAKEN);
            let high = load_at(b, tree, head + header::HIGH);
            let first = load_at(b, tree, head + header::FIRST);
            let zero = b.i64(0);
            let left = b.binary(BinOp::Sub, free, taken);
            let left = b.binary(BinOp::Max, left, zero);
            let fresh = b.binary(BinOp::Sub, taken, free);
            let fresh = b.binary(BinOp::Max, fresh, zero);
            let high = b.binary(BinOp::Add, high, fresh);
            let capacity = b.i64(arena.capacity as i64);
            let high = b.binary(BinOp::Min, high, capacity);
            // The queue goes on where it was; when it would run out of its memory, or is empty, it moves to the front.
            let gone = b.binary(BinOp::Min, taken, free);
            let start = b.binary(BinOp::Add, first, gone);
            let end = b.binary(BinOp::Add, start, left);
            let needed = b.binary(BinOp::Add, end, pending);
            let fits = b.compare(CmpOp::Le, needed, capacity);
            let stays = not_zero(b, left);
            let stays = b.binary(BinOp::And, fits, stays);
            let front = b.select(stays, start, zero);
            let moves = b.value(Op::Unary(UnOp::Not), &[fits]);
            when(b, moves, |b| {
                count_to(b, left, |b, k| {
                    let from = b.binary(BinOp::Add, start, k);
                    let from = word(b, arena.free, from);
                    let cell = load(b, tree, from);
                    let to = word(b, arena.free, k);
                    store(b, tree, to, cell);
                });
            });
            store_at(b, tree, head + header::FIRST, front);
            let end = b.binary(BinOp::Add, front, left);
            count_to(b, pending, |b, k| {
                let from = word(b, arena.pending, k);
                let cell = load(b, tree, from);
                if let Some(below) = below {
                    call(b, below, &[cell]);
                }
                let to = b.binary(BinOp::Add, end, k);
                let to = word(b, arena.free, to);
                store(b, tree, to, cell);
            });
            let free = b.binary(BinOp::Add, left, pending);
            store_at(b, tree, head + header::FREE, free);
            store_at(b, tree, head + header::HIGH, high);
            store_at(b, tree, head + header::TAKEN, zero);
            store_at(b, tree, head + header::PENDING, zero);
            if b.module.trees[tree].nodes[node].kind == NodeKind::Hash {
                let rebuild = self.hash_rebuild(b.module, tree, node);
                let yes = b.i64(1);
                call(b, rebuild, &[yes]);
            }
        });
    }

    /// `(offset)`: everything below one allocation, which in a dynamic node is several cells.
    fn empty_allocation(&mut self, m: &mut Module, tree: Tree, node: Node) -> Func {
        let one = self.empty(m, tree, node);
        let NodeKind::Dynamic { chunk } = m.trees[tree].nodes[node].kind else {
            return one;
        };
        let cell = self.memory[tree].cell_size[node];
        self.function(m, (Service::EmptyAll, tree, node), (1, 0), |_, b, p| {
            let count = b.i64(i64::from(chunk));
            count_to(b, count, |b, k| {
                let bytes = times(b, k, cell as i64);
                let at = b.binary(BinOp::Add, p[0], bytes);
                call(b, one, &[at]);
            });
            Vec::new()
        })
    }
}
