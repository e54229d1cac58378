//! On a CPU, cells are allocated through shards (`wuji_ir::layout::shard`), so that threads seldom contend. A shard whose
//! run of numbers has ended is marked while one thread fetches the next run; other threads do not wait, they fetch a single
//! number past the shard.

use super::super::words::*;
use super::super::{Service, Services};
use super::{NUMBER, can_stream, cell_or_none, out_of_memory, release, reserve, unless_exhausted};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::{Arena, header, shard};
use wuji_ir::module::*;
use wuji_ir::ops::*;

/// Bytes of cells that a shard claims at once, unless a single cell has more.
const RUN_BYTES: u64 = 1 << 16;
/// A shard claims at most this part of the available cells, so that all shards together hold at most a quarter.
const RUN_SHARE: u64 = 4 * shard::COUNT;
/// Pointers within a range of this size (log2 of bytes) use the same shard: one thread activates neighbours.
const NEAR: i64 = 12;

impl Services {
    /// A recycled cell, a fresh one, or one that another shard has claimed; 0 when there is no memory.
    pub(super) fn take_from_shard(
        &mut self,
        b: &mut Builder,
        (tree, node): (Tree, Node),
        shard: Value,
    ) -> Value {
        let cell = self.recycled(b, (tree, node), shard);
        let cell = or_else(b, cell, |b| self.fresh(b, (tree, node), shard));
        let rest = self.rest(b.env, tree, node);
        or_else(b, cell, |b| call_for(b, rest, &[]))
    }

    /// A position in the list of deactivated cells.
    pub(super) fn claim_pending(
        &mut self,
        b: &mut Builder,
        (tree, node): (Tree, Node),
        shard: Value,
    ) -> Value {
        let pending = self.node(tree, node).header + header::PENDING;
        let at = plus(b, shard, shard::PENDING as i64);
        self.claim_or(
            (b, tree, at),
            |b, claimed| plus(b, claimed, -1),
            |s, b| {
                let count = b.i64(shard::LONGEST as i64);
                let fetch = |b: &mut Builder, _, count| {
                    let first = add_at(b, tree, pending, count);
                    (first, b.binary(BinOp::Add, first, count))
                };
                s.fetch(b, tree, at, count, fetch).0
            },
        )
    }

    /// A number from the next number of the run at `at` plus one, or from `otherwise` if the run has ended.
    fn claim_or(
        &mut self,
        (b, tree, at): (&mut Builder, Tree, Value),
        claimed: impl FnOnce(&mut Builder, Value) -> Value,
        otherwise: impl FnOnce(&mut Services, &mut Builder) -> Value,
    ) -> Value {
        let claim = self.claim(b.env, tree);
        let number = call_for(b, claim, &[at]);
        let found = not_zero(b, number);
        choose(b, found, |b| claimed(b, number), |b| otherwise(self, b))
    }

    /// `(run) -> number + 1`: the next number of a run, 0 when there is none.
    fn claim(&mut self, m: &mut Env, tree: Tree) -> Func {
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
        let at = plus(b, shard, shard::RECYCLED as i64);
        let zero = b.i64(0);
        self.claim_or(
            (b, tree, at),
            |b, claimed| {
                let cell = queued(b, tree, &arena, claimed, -1);
                clear_unless_ahead(b, tree, &arena, head, cell);
                cell
            },
            |s, b| {
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
                        let (first, mine) = s.fetch(b, tree, at, count, |b, mine, count| {
                            let first = add_at(b, tree, head + header::TAKEN, count);
                            let last = b.binary(BinOp::Add, first, count);
                            let last = b.binary(BinOp::Min, last, end);
                            if can_stream(&arena) {
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
                                let cleared = b.binary(BinOp::And, mine, ahead);
                                let dirty = b.value(Op::Unary(UnOp::Not), &[cleared]);
                                when(b, dirty, |b| clear(b, tree, cell, arena.cell));
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
        let charge = self.charge(tree, node);
        let at = plus(b, shard, shard::FRESH as i64);
        let zero = b.i64(0);
        let number = self.claim_or(
            (b, tree, at),
            |b, claimed| plus(b, claimed, -1),
            |s, b| {
                let high = load_at(b, tree, head + header::HIGH);
                let capacity = s.room(b, tree, node);
                let inside = b.compare(CmpOp::Lt, high, capacity);
                let budgets = s.budgets(b, tree);
                let may = unless_exhausted(b, tree, &budgets, inside);
                let none = b.i64(-1);
                choose(
                    b,
                    may,
                    |b| {
                        let count = run_length(b, &arena, high);
                        s.fetch(b, tree, at, count, |b, _, count| {
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
                        call_for(b, claim, &[at])
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
                    clear_unless_ahead(b, tree, &arena, head, cell);
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
}

/// Clears a recycled cell, unless it was cleared when its shard claimed it.
fn clear_unless_ahead(b: &mut Builder, tree: Tree, arena: &Arena, head: u64, cell: Value) {
    let ahead = load_at(b, tree, head + header::AHEAD);
    let dirty = is_zero(b, ahead);
    when(b, dirty, |b| clear(b, tree, cell, arena.cell));
}

/// How many of the available numbers a shard claims at a time.
fn run_length(b: &mut Builder, arena: &Arena, of: Value) -> Value {
    let most = (RUN_BYTES / arena.cell).clamp(1, shard::LONGEST);
    let (share, _) = divide(b, of, RUN_SHARE);
    let (one, most) = (b.i64(1), b.i64(most as i64));
    let least = b.binary(BinOp::Max, share, one);
    b.binary(BinOp::Min, least, most)
}

/// The next number of a run, and its end.
pub(in crate::nodes) fn run(b: &mut Builder, word: Value) -> (Value, Value) {
    let (mask, half) = (b.i64(NUMBER), b.i64(32));
    (
        b.binary(BinOp::And, word, mask),
        b.binary(BinOp::Shr, word, half),
    )
}

/// Offset of the shard for an offset in the tree; offsets near each other share one.
pub(super) fn shard_near(b: &mut Builder, arena: &Arena, place: Value) -> Value {
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

/// The cell at a position in the queue of recycled cells, counted from `before`.
fn queued(b: &mut Builder, tree: Tree, arena: &Arena, place: Value, before: i64) -> Value {
    let base = b.i64(arena.free as i64 + 8 * before);
    let at = word_at(b, base, place);
    load(b, tree, at)
}
