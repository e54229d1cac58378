//! Allocates and frees cells.
//!
//! On a CPU, [shards] keep threads apart. On a GPU, warps combine their additions, so [counters] are enough.

mod counters;
mod shards;

pub(super) use shards::run;

use super::words::*;
use super::{Service, Services};
use crate::options::Target;
use shards::shard_near;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::{Arena, budget, header, tree_header};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::I64;

/// Mask of the number below the tag of the stack of returned cells, and below the end of a run.
const NUMBER: i64 = 0xffff_ffff;

impl Services {
    pub(super) fn arena(&self, tree: Tree, node: Node) -> Arena {
        match &self.node(tree, node).arena {
            Some(arena) => arena.clone(),
            None => unreachable!("{tree}.{node} allocates nothing"),
        }
    }

    /// The capacity of a node in cells.
    pub(super) fn room(&self, b: &mut Builder, tree: Tree, node: Node) -> Value {
        match self.target {
            Target::Cpu => b.i64(self.arena(tree, node).capacity as i64),
            Target::Cuda => load_at(b, tree, self.node(tree, node).header + header::ROOM),
        }
    }

    /// `(shard) -> offset`: a cell full of zeros, 0 when there is no memory.
    pub(super) fn allocate(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let key = (Service::Allocate, tree, node);
        self.function(m, key, (1, 1), |s, b, p| {
            let arena = s.arena(tree, node);
            let head = s.node(tree, node).header;
            // No other thread has seen it, so it is still zero.
            let hashed = b.env.trees[tree].nodes[node].kind.is_hashed();
            let returned = if s.target == Target::Cuda && !hashed {
                // The thread that fills a slot waits for no other, so it never has a cell too many.
                b.i64(0)
            } else {
                s.pop_returned(b, tree, &arena, head)
            };
            vec![or_else(b, returned, |b| match s.target {
                Target::Cpu => s.take_from_shard(b, (tree, node), p[0]),
                Target::Cuda => s.take_from_counters(b, tree, node),
            })]
        })
    }

    /// What keeps apart threads that allocate around different offsets in the tree: the offset of a shard.
    pub(super) fn shard(&self, b: &mut Builder, (tree, node): (Tree, Node), place: Value) -> Value {
        match self.target {
            Target::Cpu => shard_near(b, &self.arena(tree, node), place),
            Target::Cuda => b.i64(0),
        }
    }

    /// Bytes that a cell takes, with its words in the queue, the stack and the lists.
    fn charge(&self, tree: Tree, node: Node) -> u64 {
        self.arena(tree, node).cell + 24 + 8 * self.node(tree, node).list.words
    }

    /// What limits the cells of a tree.
    fn budgets(&self, b: &mut Builder, tree: Tree) -> Vec<Budget> {
        let head = self.tree_header(b.env, tree);
        let mut budgets = vec![Budget {
            claimed: b.i64((head + tree_header::USED) as i64),
            limit: load_at(b, tree, head + tree_header::LIMIT),
        }];
        if self.target == Target::Cuda && !self.memory[tree].has_short_offsets() {
            let shared = load_at(b, tree, head + tree_header::BUDGET);
            let limit = plus(b, shared, budget::LIMIT as i64);
            budgets.push(Budget {
                claimed: plus(b, shared, budget::CLAIMED as i64),
                limit: load(b, tree, limit),
            });
        }
        budgets
    }

    /// A cell from the stack of those that were freed unused, 0 when there is none.
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

    /// `(offset)`: frees a cell that no other thread has seen.
    pub(super) fn free_unused(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let key = (Service::FreeUnused, tree, node);
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

    /// Records that a cell was activated or deactivated. Reading first keeps the cache line shared.
    pub(super) fn changed(&self, b: &mut Builder, tree: Tree, node: Node) {
        self.changed_in(b, Space::Nodes(tree), tree, node);
    }

    /// The same without ordering other accesses: on a GPU, the word may come from a cache, because only other tasks reset it.
    pub(super) fn changed_unordered(&self, b: &mut Builder, tree: Tree, node: Node) {
        let space = match self.target {
            Target::Cpu => Space::Nodes(tree),
            Target::Cuda => Space::Bytes(tree),
        };
        self.changed_in(b, space, tree, node);
    }

    fn changed_in(&self, b: &mut Builder, space: Space, tree: Tree, node: Node) {
        let at = self.node(tree, node).header + header::CHANGED;
        let address = b.i64(at as i64);
        let seen = b.value(Op::MemLoad(space, I64), &[address]);
        let not_yet = is_zero(b, seen);
        when(b, not_yet, |b| {
            let one = b.i64(1);
            store_at(b, tree, at, one);
        });
    }

    /// `(offset, shard)`: adds a cell that nothing points to any more to the deactivated ones, for the next collection.
    pub(super) fn retire(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Retire, tree, node), (2, 0), |s, b, p| {
            let arena = s.arena(tree, node);
            let number = match s.target {
                Target::Cpu => s.claim_pending(b, (tree, node), p[1]),
                Target::Cuda => {
                    let one = b.i64(1);
                    add_at(b, tree, s.node(tree, node).header + header::PENDING, one)
                }
            };
            let to = word(b, arena.pending, number);
            store(b, tree, to, p[0]);
            Vec::new()
        })
    }
}

/// A number of bytes that cells may have.
struct Budget {
    /// The offset of the word that counts them.
    claimed: Value,
    limit: Value,
}

/// A condition, and whether all budgets have something left. Most threads find out here that there is no memory.
fn unless_exhausted(b: &mut Builder, tree: Tree, budgets: &[Budget], condition: Value) -> Value {
    budgets.iter().fold(condition, |may, budget| {
        let claimed = load(b, tree, budget.claimed);
        let left = b.compare(CmpOp::Lt, claimed, budget.limit);
        b.binary(BinOp::And, may, left)
    })
}

/// Claims bytes in all budgets, or in none if one of them is exceeded. Whether they were claimed.
fn reserve(b: &mut Builder, tree: Tree, budgets: &[Budget], bytes: Value) -> Value {
    let yes = b.bool(true);
    let granted = budgets.iter().fold(yes, |granted, budget| {
        let before = atomic(b, AtomicOp::Add, tree, budget.claimed, bytes);
        let after = b.binary(BinOp::Add, before, bytes);
        let within = b.compare(CmpOp::Le, after, budget.limit);
        b.binary(BinOp::And, granted, within)
    });
    let refused = b.value(Op::Unary(UnOp::Not), &[granted]);
    when(b, refused, |b| release(b, tree, budgets, bytes));
    granted
}

/// Returns claimed bytes.
fn release(b: &mut Builder, tree: Tree, budgets: &[Budget], bytes: Value) {
    let less = times(b, bytes, -1);
    for budget in budgets {
        atomic(b, AtomicOp::Add, tree, budget.claimed, less);
    }
}

/// Offset of a cell with some number, 0 for a negative one.
fn cell_or_none(b: &mut Builder, arena: &Arena, number: Value) -> Value {
    let zero = b.i64(0);
    let some = b.compare(CmpOp::Ge, number, zero);
    let bytes = times(b, number, arena.cell as i64);
    let cell = plus(b, bytes, arena.data as i64);
    b.select(some, cell, zero)
}

/// Whether cells may be cleared by non-temporal stores: they have cache lines to themselves.
pub(super) fn can_stream(arena: &Arena) -> bool {
    arena.cell.is_multiple_of(LINE)
}

/// A new top of a stack: the counter in the high half is incremented.
fn tagged(b: &mut Builder, seen: Value, number: Value) -> Value {
    let mask = b.i64(!NUMBER);
    let tag = b.binary(BinOp::And, seen, mask);
    let tag = plus(b, tag, NUMBER + 1);
    b.binary(BinOp::Or, tag, number)
}

fn out_of_memory(b: &mut Builder, tree: Tree, node: Node) -> Value {
    let span = b.span;
    let site = b.env.sites.push(SiteData {
        kind: SiteKind::OutOfMemory(tree, node),
        span,
    });
    b.push(Op::Report(site), &[]);
    b.i64(0)
}
