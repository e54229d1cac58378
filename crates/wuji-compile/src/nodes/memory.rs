//! Allocates and frees cells.
//!
//! Everything goes through shards (`wuji_ir::layout::shard`), so that threads seldom contend. A shard whose run of numbers
//! has ended is marked while one thread fetches the next run; other threads do not wait, they fetch a single number past
//! the shard.

use super::words::*;
use super::{Service, Services};
use crate::options::Target;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::{Arena, budget, header, shard, tree_header};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::I64;

/// Bytes of cells that a shard claims at once, unless a single cell has more.
const RUN_BYTES: u64 = 1 << 16;
/// A shard claims at most this part of the available cells, so that all shards together hold at most a quarter.
const RUN_SHARE: u64 = 4 * shard::COUNT;
/// Pointers within a range of this size (log2 of bytes) use the same shard: one thread activates neighbours.
const NEAR: i64 = 12;

/// Mask of the number below the tag of the stack of returned cells, and below the end of a run.
pub(super) const NUMBER: i64 = 0xffff_ffff;

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

    /// Offset of the shard for an offset in the tree; offsets near each other share one.
    pub(super) fn shard(&self, b: &mut Builder, (tree, node): (Tree, Node), place: Value) -> Value {
        let arena = self.arena(tree, node);
        let near = b.i64(NEAR);
        let near = b.binary(BinOp::Shr, place, near);
        // Threads are often a power of two apart.
        let factor = b.i64(0x9e37_79b9_7f4a_7c15_u64 as i64);
        let mixed = b.binary(BinOp::Mul, near, factor);
        let high = b.i64(64 - i64::from(shard::COUNT.ilog2()));
        let mixed = b.binary(BinOp::Shr, mixed, high);
        let mask = b.i64(shard::COUNT as i64 - 1);
        let number = b.binary(BinOp::And, mixed, mask);
        let bytes = times(b, number, shard::SIZE as i64);
        plus(b, bytes, arena.shards as i64)
    }

    /// `(shard) -> offset`: a cell full of zeros, 0 when there is no memory.
    pub(super) fn allocate(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let key = (Service::Allocate, tree, node);
        self.function(m, key, (1, 1), |s, b, p| {
            let arena = s.arena(tree, node);
            let head = s.node(tree, node).header;
            // No other thread has seen it, so it is still zero.
            let returned = s.pop_returned(b, tree, &arena, head);
            let cell = or_else(b, returned, |b| s.recycled(b, (tree, node), p[0]));
            let cell = or_else(b, cell, |b| s.fresh(b, (tree, node), p[0]));
            let rest = s.rest(b.env, tree, node);
            let zero = b.i64(0);
            vec![or_else(b, cell, |b| call(b, rest, &[]).unwrap_or(zero))]
        })
    }

    /// `(run) -> number + 1`: the next number of a run, 0 when there is none.
    pub(super) fn claim(&mut self, m: &mut Env, tree: Tree) -> Func {
        let root = m.trees[tree].root();
        self.function(m, (Service::Claim, tree, root), (1, 1), |_, b, p| {
            vec![repeat(b, &[], |b, label, _| {
                let seen = load(b, tree, p[0]);
                let (next, end) = run(b, seen);
                let none = b.compare(CmpOp::Ge, next, end);
                let zero = b.i64(0);
                break_if(b, label, none, zero);
                let new = plus(b, seen, 1);
                let old = exchange(b, tree, p[0], seen, new);
                let done = b.compare(CmpOp::Eq, old, seen);
                let number = plus(b, next, 1);
                break_if(b, label, done, number);
                b.end(Term::Continue(label, Values::new()));
            })]
        })
    }

    /// Fetches a run of numbers if the run at `at` has ended and no other thread is fetching one; otherwise a
    /// single number. `fetch` claims a given number and returns the range it got. Returns the first number, or -1
    /// if there was none, and whether the shard has a new run.
    fn fetch(
        &mut self,
        b: &mut Builder,
        tree: Tree,
        at: Value,
        count: Value,
        fetch: impl FnOnce(&mut Builder, Value, Value) -> (Value, Value),
    ) -> (Value, Value) {
        let busy = b.i64(shard::BUSY as i64);
        let one = b.i64(1);
        let zero = b.i64(0);
        let seen = load(b, tree, at);
        let (next, end) = run(b, seen);
        let ended = b.compare(CmpOp::Ge, next, end);
        let idle = b.compare(CmpOp::Ne, seen, busy);
        let may = b.binary(BinOp::And, ended, idle);
        let mine = choose(
            b,
            may,
            |b| {
                let old = exchange(b, tree, at, seen, busy);
                let mine = b.compare(CmpOp::Eq, old, seen);
                b.select(mine, one, zero)
            },
            |_| zero,
        );
        let mine = not_zero(b, mine);
        let count = b.select(mine, count, one);
        let (first, last) = fetch(b, mine, count);
        let got = b.compare(CmpOp::Lt, first, last);
        when(b, mine, |b| {
            let next = plus(b, first, 1);
            let half = b.i64(32);
            let high = b.binary(BinOp::Shl, last, half);
            let new = b.binary(BinOp::Or, high, next);
            let new = b.select(got, new, zero);
            // Not a plain store: it is ordered after the non-temporal stores.
            atomic(b, AtomicOp::Exchange, tree, at, new);
        });
        let none = b.i64(-1);
        (b.select(got, first, none), mine)
    }

    /// A cell that was used before, 0 when there is none.
    fn recycled(&mut self, b: &mut Builder, (tree, node): (Tree, Node), shard: Value) -> Value {
        let arena = self.arena(tree, node);
        let head = self.node(tree, node).header;
        let target = self.target;
        let at = plus(b, shard, shard::RECYCLED as i64);
        let claim = self.claim(b.env, tree);
        let zero = b.i64(0);
        let claimed = call(b, claim, &[at]).unwrap_or(zero);
        let found = not_zero(b, claimed);
        choose(
            b,
            found,
            |b| {
                let cell = queued(b, tree, &arena, claimed, -1);
                clear_unless_ahead(b, target, tree, &arena, head, cell);
                cell
            },
            |b| {
                let taken = load_at(b, tree, head + header::TAKEN);
                let end = load_at(b, tree, head + header::FREE);
                let some = b.compare(CmpOp::Lt, taken, end);
                choose(
                    b,
                    some,
                    |b| {
                        let left = b.binary(BinOp::Sub, end, taken);
                        let count = run_length(b, &arena, left);
                        let ahead = load_at(b, tree, head + header::AHEAD);
                        let ahead = not_zero(b, ahead);
                        let (first, mine) = self.fetch(b, tree, at, count, |b, mine, count| {
                            let first = add_at(b, tree, head + header::TAKEN, count);
                            let last = b.binary(BinOp::Add, first, count);
                            let last = b.binary(BinOp::Min, last, end);
                            if target == Target::Cpu && can_stream(&arena) {
                                let stream = b.binary(BinOp::And, mine, ahead);
                                when(b, stream, |b| {
                                    let count = b.binary(BinOp::Sub, last, first);
                                    count_to(b, count, |b, k| {
                                        let at = b.binary(BinOp::Add, first, k);
                                        let cell = queued(b, tree, &arena, at, 0);
                                        stream_zeros(b, tree, cell, arena.cell);
                                    });
                                });
                            }
                            (first, last)
                        });
                        let got = b.compare(CmpOp::Ge, first, zero);
                        choose(
                            b,
                            got,
                            |b| {
                                let cell = queued(b, tree, &arena, first, 0);
                                if target == Target::Cpu {
                                    let cleared = b.binary(BinOp::And, mine, ahead);
                                    let dirty = b.value(Op::Unary(UnOp::Not), &[cleared]);
                                    when(b, dirty, |b| clear(b, tree, cell, arena.cell));
                                }
                                cell
                            },
                            |_| zero,
                        )
                    },
                    |_| zero,
                )
            },
        )
    }

    /// A cell that was never used, 0 when there is none.
    fn fresh(&mut self, b: &mut Builder, (tree, node): (Tree, Node), shard: Value) -> Value {
        let arena = self.arena(tree, node);
        let head = self.node(tree, node).header;
        let charge = arena.cell + 24 + 8 * self.node(tree, node).list.words;
        let at = plus(b, shard, shard::FRESH as i64);
        let claim = self.claim(b.env, tree);
        let zero = b.i64(0);
        let claimed = call(b, claim, &[at]).unwrap_or(zero);
        let found = not_zero(b, claimed);
        let number = choose(
            b,
            found,
            |b| plus(b, claimed, -1),
            |b| {
                let high = load_at(b, tree, head + header::HIGH);
                let capacity = self.room(b, tree, node);
                let inside = b.compare(CmpOp::Lt, high, capacity);
                let budgets = self.budgets(b, tree);
                // Most threads find out here that there is no memory.
                let may = budgets.iter().fold(inside, |may, budget| {
                    let claimed = load(b, tree, budget.claimed);
                    let left = b.compare(CmpOp::Lt, claimed, budget.limit);
                    b.binary(BinOp::And, may, left)
                });
                let none = b.i64(-1);
                choose(
                    b,
                    may,
                    |b| {
                        let count = run_length(b, &arena, high);
                        self.fetch(b, tree, at, count, |b, _, count| {
                            // Before a number is claimed, which cannot be returned.
                            let bytes = times(b, count, charge as i64);
                            let granted = reserve(b, tree, &budgets, bytes);
                            let count = b.select(granted, count, zero);
                            let first = add_at(b, tree, head + header::HIGH, count);
                            let last = b.binary(BinOp::Add, first, count);
                            let last = b.binary(BinOp::Min, last, capacity);
                            let got = b.binary(BinOp::Sub, last, first);
                            let got = b.binary(BinOp::Max, got, zero);
                            let unused = b.binary(BinOp::Sub, count, got);
                            let some = not_zero(b, unused);
                            when(b, some, |b| {
                                let bytes = times(b, unused, charge as i64);
                                release(b, tree, &budgets, bytes);
                            });
                            (first, last)
                        })
                        .0
                    },
                    |_| none,
                )
            },
        );
        cell_or_none(b, &arena, number)
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

    /// `() -> offset`: a cell that another shard has claimed; 0 when there is none.
    fn rest(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Rest, tree, node), (0, 1), |s, b, _| {
            let arena = s.arena(tree, node);
            let head = s.node(tree, node).header;
            let claim = s.claim(b.env, tree);
            let (zero, none) = (b.i64(0), b.i64(-1));
            let search = |b: &mut Builder, what: u64| {
                let count = b.i64(shard::COUNT as i64);
                fold_to(b, count, zero, |b, k, found| {
                    or_else(b, found, |b| {
                        let at = times(b, k, shard::SIZE as i64);
                        let at = plus(b, at, (arena.shards + what) as i64);
                        call(b, claim, &[at]).unwrap_or(zero)
                    })
                })
            };
            let recycled = search(b, shard::RECYCLED);
            let found = not_zero(b, recycled);
            vec![choose(
                b,
                found,
                |b| {
                    let cell = queued(b, tree, &arena, recycled, -1);
                    clear_unless_ahead(b, s.target, tree, &arena, head, cell);
                    cell
                },
                |b| {
                    let fresh = search(b, shard::FRESH);
                    let found = not_zero(b, fresh);
                    let number = plus(b, fresh, -1);
                    let number = b.select(found, number, none);
                    let cell = cell_or_none(b, &arena, number);
                    or_else(b, cell, |b| out_of_memory(b, tree, node))
                },
            )]
        })
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
            let pending = s.node(tree, node).header + header::PENDING;
            if s.target == Target::Cuda {
                // The atomic additions of a warp are combined.
                let one = b.i64(1);
                let number = add_at(b, tree, pending, one);
                let to = word(b, arena.pending, number);
                store(b, tree, to, p[0]);
                return Vec::new();
            }
            let at = plus(b, p[1], shard::PENDING as i64);
            let claim = s.claim(b.env, tree);
            let zero = b.i64(0);
            let claimed = call(b, claim, &[at]).unwrap_or(zero);
            let found = not_zero(b, claimed);
            let number = choose(
                b,
                found,
                |b| plus(b, claimed, -1),
                |b| {
                    let count = b.i64(shard::LONGEST as i64);
                    s.fetch(b, tree, at, count, |b, _, count| {
                        let first = add_at(b, tree, pending, count);
                        (first, b.binary(BinOp::Add, first, count))
                    })
                    .0
                },
            );
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

/// Clears a recycled cell, unless it was cleared when its shard claimed it, or, on a GPU, when it was collected: other
/// threads might see a cell before they see that it was cleared.
fn clear_unless_ahead(
    b: &mut Builder,
    target: Target,
    tree: Tree,
    arena: &Arena,
    head: u64,
    cell: Value,
) {
    if target == Target::Cpu {
        let ahead = load_at(b, tree, head + header::AHEAD);
        let dirty = is_zero(b, ahead);
        when(b, dirty, |b| clear(b, tree, cell, arena.cell));
    }
}

/// The cell at a position in the queue of recycled cells, counted from `before`.
fn queued(b: &mut Builder, tree: Tree, arena: &Arena, place: Value, before: i64) -> Value {
    let base = b.i64(arena.free as i64 + 8 * before);
    let at = word_at(b, base, place);
    load(b, tree, at)
}

/// How many of the available numbers a shard claims at a time.
fn run_length(b: &mut Builder, arena: &Arena, of: Value) -> Value {
    let most = (RUN_BYTES / arena.cell).clamp(1, shard::LONGEST);
    let (share, _) = divide(b, of, RUN_SHARE);
    let (one, most) = (b.i64(1), b.i64(most as i64));
    let least = b.binary(BinOp::Max, share, one);
    b.binary(BinOp::Min, least, most)
}

/// Offset of a cell with some number, 0 for a negative one.
fn cell_or_none(b: &mut Builder, arena: &Arena, number: Value) -> Value {
    let zero = b.i64(0);
    let some = b.compare(CmpOp::Ge, number, zero);
    let bytes = times(b, number, arena.cell as i64);
    let cell = plus(b, bytes, arena.data as i64);
    b.select(some, cell, zero)
}

/// The next number of a run, and its end.
pub(super) fn run(b: &mut Builder, word: Value) -> (Value, Value) {
    let (mask, half) = (b.i64(NUMBER), b.i64(32));
    (
        b.binary(BinOp::And, word, mask),
        b.binary(BinOp::Shr, word, half),
    )
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
