//! One step of a walk: what is often done stays in line, what is seldom done is a call.

use super::words::*;
use super::{Service, Services, allocates_below};
use crate::options::Target;
use smallvec::smallvec;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::{Dynamic, NodeKind};
use wuji_ir::module::{Env, Term, Values};
use wuji_ir::ops::*;
use wuji_ir::types::Scalar;

/// Emits a step; gives its results.
pub fn expand(
    s: &mut Services,
    b: &mut Builder,
    (op, tree, node): (TreeAccessOp, Tree, Node),
    args: &[Value],
) -> Values {
    let kind = b.env.trees[tree].nodes[node].kind;
    match op {
        TreeAccessOp::Find if kind == NodeKind::Hash => {
            let find = s.hash_find(b.env, tree, node);
            call(b, find, args).into_iter().collect()
        }
        TreeAccessOp::Ensure if kind == NodeKind::Hash => {
            let find = s.hash_find(b.env, tree, node);
            let ensure = s.hash_ensure(b.env, tree, node);
            let zero = b.i64(0);
            let found = call(b, find, args).unwrap_or(zero);
            let absent = is_zero(b, found);
            let cell = choose(
                b,
                absent,
                |b| call(b, ensure, args).unwrap_or(zero),
                |_| found,
            );
            smallvec![cell]
        }
        TreeAccessOp::Find => {
            let slot = s.slot(b, tree, node, args[0], args[1]);
            smallvec![load(b, tree, slot)]
        }
        TreeAccessOp::Ensure => {
            let slot = s.slot(b, tree, node, args[0], args[1]);
            smallvec![s.ensure_slot(b, tree, node, slot)]
        }
        TreeAccessOp::Test => smallvec![test(b, tree, kind, args)],
        TreeAccessOp::Touch => {
            let there = test(b, tree, kind, args);
            let absent = b.value(Op::Unary(UnOp::Not), &[there]);
            let touch = s.touch(b.env, tree, node);
            when(b, absent, |b| {
                call(b, touch, args);
            });
            Values::new()
        }
        TreeAccessOp::Drop => {
            let drop = match kind {
                NodeKind::Hash => s.hash_drop(b.env, tree, node),
                _ => s.drop(b.env, tree, node),
            };
            call(b, drop, args);
            Values::new()
        }
        TreeAccessOp::Push => {
            let push = s.push(b.env, tree, node);
            call(b, push, args).into_iter().collect()
        }
        TreeAccessOp::Length => smallvec![length(b, tree, node, args[0])],
        TreeAccessOp::Entry => s.entry(b, tree, node, args[0]),
    }
}

/// Where the bit of a cell is: the word's offset, and the word with that bit alone.
fn bit(b: &mut Builder, container: Value, number: Value) -> (Value, Value) {
    let (at, shift) = divide(b, number, 64);
    let at = word_at(b, container, at);
    let one = b.i64(1);
    (at, b.binary(BinOp::Shl, one, shift))
}

fn test(b: &mut Builder, tree: Tree, kind: NodeKind, args: &[Value]) -> Value {
    let (container, number) = (args[0], args[1]);
    if let NodeKind::Dynamic { .. } = kind {
        let length = load(b, tree, container);
        return b.compare(CmpOp::Lt, number, length);
    }
    let (at, bit) = bit(b, container, number);
    let mask = load(b, tree, at);
    let set = b.binary(BinOp::And, mask, bit);
    not_zero(b, set)
}

/// Appends that found the list full have raised the number beyond what there is.
fn length(b: &mut Builder, tree: Tree, node: Node, container: Value) -> Value {
    let most = b.env.trees[tree].nodes[node].cells();
    let most = b.i64(most as i64);
    let length = load(b, tree, container);
    b.binary(BinOp::Min, length, most)
}

impl Services {
    /// Offset of the pointer to a cell (to a chunk, in a dynamic node).
    fn slot(
        &self,
        b: &mut Builder,
        tree: Tree,
        node: Node,
        container: Value,
        number: Value,
    ) -> Value {
        let first = self.memory[tree].first_cell[node];
        let start = plus(b, container, first as i64);
        word_at(b, start, number)
    }

    /// What a pointer leads to, made if there is nothing yet.
    fn ensure_slot(&mut self, b: &mut Builder, tree: Tree, node: Node, slot: Value) -> Value {
        let found = load(b, tree, slot);
        let absent = match self.target {
            Target::Cpu => is_zero(b, found),
            Target::Cuda => {
                let real = self.is_real(b, tree, found);
                b.value(Op::Unary(UnOp::Not), &[real])
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

    /// `(slot) -> offset`. Below an absent cell, which reads as zeros, nothing can be made.
    fn ensure(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        if self.target == Target::Cuda {
            return self.ensure_by_one(m, tree, node);
        }
        self.function(m, (Service::Ensure, tree, node), (1, 1), |s, b, p| {
            let slot = p[0];
            let real = s.is_real(b, tree, slot);
            let (allocate, give_back) = (
                s.allocate(b.env, tree, node),
                s.give_back(b.env, tree, node),
            );
            let zero = b.i64(0);
            vec![choose(
                b,
                real,
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
                                    call(b, give_back, &[cell]);
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

    /// As `ensure`, for thousands of threads that want the same cell at once: the first of them makes it, the others wait. A
    /// pointer to the zeros, which reads as an absent cell, says that somebody is at it. He waits for nobody, and threads of
    /// a GPU get on independently of each other, so there is an end to it.
    fn ensure_by_one(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Ensure, tree, node), (1, 1), |s, b, p| {
            let slot = p[0];
            let real = s.is_real(b, tree, slot);
            let allocate = s.allocate(b.env, tree, node);
            let busy = s.memory[tree].absent() as i64;
            let zero = b.i64(0);
            vec![choose(
                b,
                real,
                |b| {
                    repeat(b, &[], |b, label, _| {
                        let seen = load(b, tree, slot);
                        let there = s.is_real(b, tree, seen);
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
                        let got = s.is_real(b, tree, made);
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

    /// Whether an offset is not among the zeros that stand for absent cells.
    fn is_real(&self, b: &mut Builder, tree: Tree, at: Value) -> Value {
        let zeros = self.tree_header(b.env, tree);
        let zeros = b.i64(zeros as i64);
        b.compare(CmpOp::Ge, at, zeros)
    }

    /// `(container, number)`: the cell becomes active.
    fn touch(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Touch, tree, node), (2, 0), |s, b, p| {
            let real = s.is_real(b, tree, p[0]);
            let kind = b.env.trees[tree].nodes[node].kind;
            when(b, real, |b| {
                if let NodeKind::Dynamic(Dynamic { chunk }) = kind {
                    let length = plus(b, p[1], 1);
                    let old = atomic(b, AtomicOp::Max, tree, p[0], length);
                    let fresh = b.compare(CmpOp::Lt, old, length);
                    when(b, fresh, |b| {
                        s.changed(b, tree, node);
                        // The cells between are active, too, so they have memory.
                        let (first, _) = divide(b, old, u64::from(chunk));
                        let (last, _) = divide(b, p[1], u64::from(chunk));
                        let chunks = b.binary(BinOp::Sub, last, first);
                        let chunks = plus(b, chunks, 1);
                        count_to(b, chunks, |b, k| {
                            let k = b.binary(BinOp::Add, first, k);
                            let slot = s.slot(b, tree, node, p[0], k);
                            s.ensure_slot(b, tree, node, slot);
                        });
                    });
                } else {
                    let (at, bit) = bit(b, p[0], p[1]);
                    let old = atomic(b, AtomicOp::Or, tree, at, bit);
                    let set = b.binary(BinOp::And, old, bit);
                    let fresh = is_zero(b, set);
                    when(b, fresh, |b| s.changed(b, tree, node));
                }
            });
            Vec::new()
        })
    }

    /// `(container, number)`, or `(container)` of a dynamic node.
    fn drop(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let kind = m.trees[tree].nodes[node].kind;
        let params = match kind {
            NodeKind::Dynamic { .. } => 1,
            _ => 2,
        };
        self.function(m, (Service::Drop, tree, node), (params, 0), |s, b, p| {
            let real = s.is_real(b, tree, p[0]);
            when(b, real, |b| match kind {
                NodeKind::Dynamic(Dynamic { chunk }) => s.drop_list(b, tree, node, chunk, p[0]),
                NodeKind::Bitmasked => s.drop_bit(b, tree, node, p[0], p[1]),
                NodeKind::Pointer | NodeKind::Hash | NodeKind::Root | NodeKind::Dense => {
                    let slot = s.slot(b, tree, node, p[0], p[1]);
                    let retire = s.retire(b.env, tree, node);
                    s.drop_slot(b, (tree, node), slot, retire);
                }
            });
            Vec::new()
        })
    }

    /// What a pointer leads to is no more.
    pub(super) fn drop_slot(
        &self,
        b: &mut Builder,
        (tree, node): (Tree, Node),
        slot: Value,
        retire: Func,
    ) {
        let zero = b.i64(0);
        let seen = load(b, tree, slot);
        let there = not_zero(b, seen);
        when(b, there, |b| {
            let old = atomic(b, AtomicOp::Exchange, tree, slot, zero);
            let mine = match self.target {
                Target::Cpu => not_zero(b, old),
                // Perhaps somebody is about to put a cell there.
                Target::Cuda => self.is_real(b, tree, old),
            };
            when(b, mine, |b| {
                self.changed(b, tree, node);
                let shard = self.shard(b, (tree, node), slot);
                call(b, retire, &[old, shard]);
            });
        });
    }

    fn drop_list(&mut self, b: &mut Builder, tree: Tree, node: Node, chunk: u32, container: Value) {
        let zero = b.i64(0);
        let old = atomic(b, AtomicOp::Exchange, tree, container, zero);
        let some = not_zero(b, old);
        when(b, some, |b| self.changed(b, tree, node));
        let cells = b.env.trees[tree].nodes[node].cells();
        let chunks = b.i64(cells.div_ceil(u64::from(chunk)) as i64);
        let retire = self.retire(b.env, tree, node);
        count_to(b, chunks, |b, k| {
            let slot = self.slot(b, tree, node, container, k);
            self.drop_slot(b, (tree, node), slot, retire);
        });
    }

    /// What is inactive is zero, so that reads need not look at the bit.
    fn drop_bit(
        &mut self,
        b: &mut Builder,
        tree: Tree,
        node: Node,
        container: Value,
        number: Value,
    ) {
        let (first, size) = (
            self.memory[tree].first_cell[node],
            self.memory[tree].cell_size[node],
        );
        let (at, bit) = bit(b, container, number);
        let others = b.unary(UnOp::Not, bit);
        let old = atomic(b, AtomicOp::And, tree, at, others);
        let was = b.binary(BinOp::And, old, bit);
        let mine = not_zero(b, was);
        let below = match allocates_below(b.env, tree, node) {
            true => Some(self.empty(b.env, tree, node)),
            false => None,
        };
        when(b, mine, |b| {
            self.changed(b, tree, node);
            let bytes = times(b, number, size as i64);
            let cell = b.binary(BinOp::Add, container, bytes);
            let cell = plus(b, cell, first as i64);
            if let Some(below) = below {
                call(b, below, &[cell]);
            }
            clear_bytes(b, tree, cell, size);
        });
    }

    /// `(container) -> number`, -1 when the list is full or there is no memory.
    fn push(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Push, tree, node), (1, 1), |s, b, p| {
            let data = b.env.trees[tree].nodes[node].clone();
            let chunk = match data.kind {
                NodeKind::Dynamic(Dynamic { chunk }) => u64::from(chunk),
                _ => 1,
            };
            let real = s.is_real(b, tree, p[0]);
            let none = b.i64(-1);
            let most = b.i64(data.cells() as i64);
            vec![choose(
                b,
                real,
                |b| {
                    let one = b.i64(1);
                    let number = atomic(b, AtomicOp::Add, tree, p[0], one);
                    let fits = b.compare(CmpOp::Lt, number, most);
                    choose(
                        b,
                        fits,
                        |b| {
                            s.changed(b, tree, node);
                            let (chunk, _) = divide(b, number, chunk);
                            let slot = s.slot(b, tree, node, p[0], chunk);
                            let found = s.ensure_slot(b, tree, node, slot);
                            let got = not_zero(b, found);
                            b.select(got, number, none)
                        },
                        |_| none,
                    )
                },
                |_| none,
            )]
        })
    }
}

/// Zeros over a cell, by the largest scalars that all cells of this size are aligned for.
fn clear_bytes(b: &mut Builder, tree: Tree, at: Value, bytes: u64) {
    let (unit, zero) = match bytes.trailing_zeros() {
        0 => (1, b.int(Scalar::U8, 0)),
        1 => (2, b.int(Scalar::U16, 0)),
        2 => (4, b.int(Scalar::U32, 0)),
        _ => return clear(b, tree, at, bytes),
    };
    let count = b.i64((bytes / unit) as i64);
    count_to(b, count, |b, k| {
        let skip = times(b, k, unit as i64);
        let at = b.binary(BinOp::Add, at, skip);
        b.push(Op::MemStore(Space::Bytes(tree)), &[at, zero]);
    });
}
