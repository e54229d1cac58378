//! Slots: pointers to allocated cells, in the containers of pointer and dynamic nodes.

use super::level::At;
use super::words::*;
use super::{Service, Services};
use crate::options::Target;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::module::{Env, Term, Values};
use wuji_ir::ops::*;

impl Services {
    /// Offset of the pointer to a cell, or to a chunk in a dynamic node.
    pub(super) fn slot(
        &self,
        b: &mut Builder,
        (tree, node): At,
        container: Value,
        number: Value,
    ) -> Value {
        let first = self.memory[tree].first_cell[node];
        let start = plus(b, container, first as i64);
        word_at(b, start, number)
    }

    /// The offset of the container of a node that has only one, because its parent is the root.
    pub(super) fn only_container(&self, m: &Env, (tree, node): At) -> Option<u64> {
        let root = m.trees[tree].root();
        let offsets = &self.memory[tree].node_offset;
        (m.trees[tree].nodes[node].parent == Some(root)).then(|| offsets[root] + offsets[node])
    }

    /// What a slot points to, allocated if it is empty.
    pub(super) fn ensure_slot(&mut self, b: &mut Builder, (tree, node): At, slot: Value) -> Value {
        let found = load(b, tree, slot);
        let absent = match self.target {
            Target::Cpu => is_zero(b, found),
            Target::Cuda => {
                let exists = self.exists(b, tree, found);
                b.value(Op::Unary(UnOp::Not), &[exists])
            }
        };
        let ensure = self.ensure(b.env, tree, node);
        choose(
            b,
            absent,
            |b| match call(b, ensure, &[slot]) {
                Some(cell) => cell,
                None => found,
            },
            |_| found,
        )
    }

    /// `(slot) -> offset`. Nothing is allocated below an absent cell, which reads as zeros.
    fn ensure(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        if self.target == Target::Cuda {
            return self.ensure_by_one(m, tree, node);
        }
        self.function(m, (Service::Ensure, tree, node), (1, 1), |s, b, p| {
            let slot = p[0];
            let exists = s.exists(b, tree, slot);
            let (allocate, free_unused) = (
                s.allocate(b.env, tree, node),
                s.free_unused(b.env, tree, node),
            );
            let zero = b.i64(0);
            vec![choose(
                b,
                exists,
                |b| {
                    let shard = s.shard(b, (tree, node), slot);
                    let cell = call(b, allocate, &[shard]).unwrap_or(zero);
                    let got = not_zero(b, cell);
                    choose(
                        b,
                        got,
                        |b| {
                            let old = exchange(b, tree, slot, zero, cell);
                            let mine = is_zero(b, old);
                            choose(
                                b,
                                mine,
                                |b| {
                                    s.changed(b, tree, node);
                                    cell
                                },
                                |b| {
                                    call(b, free_unused, &[cell]);
                                    old
                                },
                            )
                        },
                        |_| zero,
                    )
                },
                |_| zero,
            )]
        })
    }

    /// Like `ensure`, for thousands of threads that want the same cell at the same time: the first one allocates
    /// it, the others wait. A pointer to the zeros, which reads as an absent cell, marks a slot that is being
    /// filled. The filling thread waits for no other, and GPU threads make progress independently, so the wait
    /// ends.
    fn ensure_by_one(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Ensure, tree, node), (1, 1), |s, b, p| {
            let slot = p[0];
            let exists = s.exists(b, tree, slot);
            let allocate = s.allocate(b.env, tree, node);
            let busy = s.memory[tree].absent() as i64;
            let zero = b.i64(0);
            vec![choose(
                b,
                exists,
                |b| {
                    repeat(b, &[], |b, label, _| {
                        let seen = load(b, tree, slot);
                        let there = s.exists(b, tree, seen);
                        break_if(b, label, there, seen);
                        let free = is_zero(b, seen);
                        let made = choose(
                            b,
                            free,
                            |b| {
                                let busy = b.i64(busy);
                                let old = exchange(b, tree, slot, zero, busy);
                                let mine = is_zero(b, old);
                                choose(
                                    b,
                                    mine,
                                    |b| {
                                        let shard = s.shard(b, (tree, node), slot);
                                        let cell = call(b, allocate, &[shard]).unwrap_or(zero);
                                        atomic(b, AtomicOp::Exchange, tree, slot, cell);
                                        s.changed(b, tree, node);
                                        let none = is_zero(b, cell);
                                        let failed = b.i64(-1);
                                        b.select(none, failed, cell)
                                    },
                                    |_| zero,
                                )
                            },
                            |_| zero,
                        );
                        let got = s.exists(b, tree, made);
                        break_if(b, label, got, made);
                        let failed = b.compare(CmpOp::Lt, made, zero);
                        break_if(b, label, failed, zero);
                        b.end(Term::Continue(label, Values::new()));
                    })
                },
                |_| zero,
            )]
        })
    }

    /// Whether an offset is outside the zeros, which represent absent cells.
    pub(super) fn exists(&self, b: &mut Builder, tree: Tree, at: Value) -> Value {
        let zeros = self.tree_header(b.env, tree);
        let zeros = b.i64(zeros as i64);
        b.compare(CmpOp::Ge, at, zeros)
    }

    /// Deactivates what a slot points to.
    pub(super) fn drop_slot(&self, b: &mut Builder, (tree, node): At, slot: Value, retire: Func) {
        let zero = b.i64(0);
        let seen = load(b, tree, slot);
        let there = match self.target {
            Target::Cpu => not_zero(b, seen),
            Target::Cuda => self.exists(b, tree, seen),
        };
        when(b, there, |b| {
            let (old, mine) = match self.target {
                Target::Cpu => {
                    let old = atomic(b, AtomicOp::Exchange, tree, slot, zero);
                    (old, not_zero(b, old))
                }
                // If another thread fills the slot meanwhile, its mark must stay: a second one would fill it, too.
                Target::Cuda => {
                    let old = exchange(b, tree, slot, seen, zero);
                    (old, b.compare(CmpOp::Eq, old, seen))
                }
            };
            when(b, mine, |b| {
                self.changed(b, tree, node);
                let shard = self.shard(b, (tree, node), slot);
                call(b, retire, &[old, shard]);
            });
        });
    }

    /// Deactivates everything that the first slots of a container point to.
    pub(super) fn drop_slots(&mut self, b: &mut Builder, at: At, container: Value, slots: u64) {
        let first = self.memory[at.0].first_cell[at.1];
        let retire = self.retire(b.env, at.0, at.1);
        let count = b.i64(slots as i64);
        count_to(b, count, |b, k| {
            let start = plus(b, container, first as i64);
            let slot = word_at(b, start, k);
            self.drop_slot(b, at, slot, retire);
        });
    }
}
