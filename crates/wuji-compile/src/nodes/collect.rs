//! Cells that were deactivated become ready to be handed out again, between tasks.

use super::memory::{can_stream, run};
use super::words::*;
use super::{Service, Services, allocates_below};
use crate::options::Target;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Temp, Tree, Value};
use wuji_ir::layout::{Arena, Child, Dynamic, NodeKind, header, shard};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::I64;

/// From so many bytes on, recycled cells are in no cache any more, and are cleared past the caches.
const STREAM_BYTES: u64 = 64 << 20;

impl Services {
    /// `(offset)`: everything below a cell of a node is no more.
    pub(super) fn empty(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let key = (Service::Empty, tree, node);
        self.function(m, key, (1, 0), |s, b, p| {
            for child in b.env.trees[tree].nodes[node].children.clone() {
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
        let data = b.env.trees[tree].nodes[node].clone();
        let (first, cell) = (
            self.memory[tree].first_cell[node],
            self.memory[tree].cell_size[node],
        );
        let slots = |b: &mut Builder, s: &mut Services, count: u64| {
            let retire = s.retire(b.env, tree, node);
            let count = b.i64(count as i64);
            count_to(b, count, |b, k| {
                let start = plus(b, container, first as i64);
                let at = word_at(b, start, k);
                s.drop_slot(b, (tree, node), at, retire);
            });
        };
        match data.kind {
            NodeKind::Root | NodeKind::Hash => {}
            NodeKind::Pointer => {
                slots(b, self, data.cells());
            }
            NodeKind::Dynamic(Dynamic { chunk }) => {
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
                if !allocates_below(b.env, tree, node) && !masks_below(b.env, tree, node) {
                    return;
                }
                let below = self.empty(b.env, tree, node);
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

fn masks_below(m: &Env, tree: Tree, node: Node) -> bool {
    m.trees[tree].nodes[node].children.iter().any(|c| match c {
        Child::Place(_) => false,
        Child::Node(n) => {
            m.trees[tree].nodes[*n].kind == NodeKind::Bitmasked || masks_below(m, tree, *n)
        }
    })
}

/// A step of the upkeep of a tree.
#[derive(Debug)]
pub enum Upkeep {
    /// Functions without parameters, one after the other.
    Alone(Vec<Func>),
    /// A function of a range, for parts of `0..temp` at once.
    Shared(Func, Temp),
    /// On a GPU: a block of threads brings the tables of a hash node in order.
    Block(Tables),
}

/// The tables of a hash node that are to be brought in order.
#[derive(Copy, Clone, Debug)]
pub struct Tables {
    pub node: Node,
    /// The last step of a collection, whether the tables are full or not.
    pub collected: bool,
}

/// Makes the cells that a tree has lost ready to be handed out again.
///
/// Parents come first: what is found below a cell that is gone is gone, too.
pub fn collect(s: &mut Services, m: &mut Env, tree: Tree) -> Vec<Upkeep> {
    let mut steps = Vec::new();
    let mut alone = Vec::new();
    let nodes: Vec<Node> = m.trees[tree].nodes.keys().collect();
    for node in nodes {
        if !m.trees[tree].nodes[node].kind.allocates() {
            continue;
        }
        alone.push(s.gather(m, tree, node));
        if allocates_below(m, tree, node) {
            let below = s.empty_pending(m, tree, node);
            steps.push(Upkeep::Alone(std::mem::take(&mut alone)));
            steps.push(Upkeep::Shared(below, s.temp(m)));
        }
        match s.target {
            Target::Cpu => alone.push(s.recycle(m, tree, node)),
            Target::Cuda => {
                alone.push(s.open_queue(m, tree, node));
                steps.push(Upkeep::Alone(std::mem::take(&mut alone)));
                steps.push(Upkeep::Shared(s.recycle_some(m, tree, node), s.temp(m)));
                match m.trees[tree].nodes[node].kind {
                    NodeKind::Hash => steps.push(Upkeep::Block(Tables {
                        node,
                        collected: true,
                    })),
                    _ => alone.push(s.close_queue(m, tree, node)),
                }
            }
        }
    }
    if !alone.is_empty() {
        steps.push(Upkeep::Alone(alone));
    }
    steps
}

impl Services {
    /// How many cells a step is about.
    fn temp(&mut self, m: &mut Env) -> Temp {
        let new = || m.temps.push(TempData { ty: I64 });
        *self.temp.get_or_insert_with(new)
    }

    /// `()`: the runs of all shards end. Unused places for deactivated cells become gaps, cells that a shard had ready are
    /// among the deactivated ones.
    fn gather(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let temp = self.temp(m).as_u32() as usize;
        let temp = m.temp_offsets().0[temp];
        self.function(m, (Service::Gather, tree, node), (0, 0), |s, b, _| {
            let arena = s.arena(tree, node);
            let pending = s.node(tree, node).header + header::PENDING;
            let count = load_at(b, tree, pending);
            let zero = b.i64(0);
            let some = not_zero(b, count);
            let count = choose(
                b,
                some,
                |b| {
                    let shards = b.i64(shard::COUNT as i64);
                    let count = fold_to(b, shards, count, |b, k, count| {
                        let at = times(b, k, shard::SIZE as i64);
                        let at = plus(b, at, arena.shards as i64);
                        end_run(b, tree, at, shard::PENDING, |b, k| {
                            let at = word(b, arena.pending, k);
                            store(b, tree, at, zero);
                        });
                        let more = end_run(b, tree, at, shard::RECYCLED, |_, _| {});
                        let first = more.0;
                        count_to(b, more.1, |b, k| {
                            let from = b.binary(BinOp::Add, first, k);
                            let from = word(b, arena.free, from);
                            let cell = load(b, tree, from);
                            let to = b.binary(BinOp::Add, count, k);
                            let to = word(b, arena.pending, to);
                            store(b, tree, to, cell);
                        });
                        b.binary(BinOp::Add, count, more.1)
                    });
                    store_at(b, tree, pending, count);
                    count
                },
                |_| zero,
            );
            let at = b.i64(temp as i64);
            b.push(Op::MemStore(Space::Temps), &[at, count]);
            Vec::new()
        })
    }

    /// `(begin, end)`: everything below some of the deactivated cells is no more.
    fn empty_pending(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::EmptyPending, tree, node), (2, 0), |s, b, p| {
            let arena = s.arena(tree, node);
            let below = s.empty_allocation(b.env, tree, node);
            let count = b.binary(BinOp::Sub, p[1], p[0]);
            count_to(b, count, |b, k| {
                let from = b.binary(BinOp::Add, p[0], k);
                let from = word(b, arena.pending, from);
                let cell = load(b, tree, from);
                let there = not_zero(b, cell);
                when(b, there, |b| {
                    call(b, below, &[cell]);
                });
            });
            Vec::new()
        })
    }

    /// `()`: the deactivated cells go to the end of the queue of those to be handed out.
    fn recycle(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Recycle, tree, node), (0, 0), |s, b, _| {
            let arena = s.arena(tree, node);
            let head = s.node(tree, node).header;
            let pending = load_at(b, tree, head + header::PENDING);
            let some = not_zero(b, pending);
            when(b, some, |b| {
                let zero = b.i64(0);
                let (start, end) = {
                    let room = s.room(b, tree, node);
                    make_room(b, tree, &arena, head, (pending, room))
                };
                let end = fold_to(b, pending, end, |b, k, end| {
                    let from = word(b, arena.pending, k);
                    let cell = load(b, tree, from);
                    // A gap is overwritten by the next one.
                    let to = word(b, arena.free, end);
                    store(b, tree, to, cell);
                    let there = not_zero(b, cell);
                    let next = plus(b, end, 1);
                    b.select(there, next, end)
                });
                store_at(b, tree, head + header::TAKEN, start);
                store_at(b, tree, head + header::FREE, end);
                store_at(b, tree, head + header::PENDING, zero);
                if can_stream(&arena) {
                    let many = b.i64((STREAM_BYTES / arena.cell) as i64);
                    let count = b.binary(BinOp::Sub, end, start);
                    let ahead = b.compare(CmpOp::Ge, count, many);
                    let one = b.i64(1);
                    let ahead = b.select(ahead, one, zero);
                    store_at(b, tree, head + header::AHEAD, ahead);
                }
                if b.env.trees[tree].nodes[node].kind == NodeKind::Hash {
                    let rebuild = s.hash_rebuild(b.env, tree, node);
                    let yes = b.i64(1);
                    call(b, rebuild, &[yes]);
                }
            });
            Vec::new()
        })
    }

    /// `()`: the queue of cells to be handed out has room for the deactivated ones, and the next step has as many parts as they have pieces.
    fn open_queue(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let temp = self.temp(m).as_u32() as usize;
        let temp = m.temp_offsets().0[temp];
        self.function(m, (Service::OpenQueue, tree, node), (0, 0), |s, b, _| {
            let arena = s.arena(tree, node);
            let head = s.node(tree, node).header;
            let pending = load_at(b, tree, head + header::PENDING);
            let parts = times(b, pending, (arena.cell / piece(&arena)) as i64);
            let at = b.i64(temp as i64);
            b.push(Op::MemStore(Space::Temps), &[at, parts]);
            let some = not_zero(b, pending);
            when(b, some, |b| {
                let (start, end) = {
                    let room = s.room(b, tree, node);
                    make_room(b, tree, &arena, head, (pending, room))
                };
                store_at(b, tree, head + header::TAKEN, start);
                store_at(b, tree, head + header::FREE, end);
            });
            Vec::new()
        })
    }

    /// `(begin, end)`: some pieces of deactivated cells are cleared; with its first piece a cell goes to the queue, in no order. Neighbouring
    /// threads clear neighbouring pieces.
    fn recycle_some(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::RecycleSome, tree, node), (2, 0), |s, b, p| {
            let arena = s.arena(tree, node);
            let free = s.node(tree, node).header + header::FREE;
            let bytes = piece(&arena);
            let count = b.binary(BinOp::Sub, p[1], p[0]);
            count_to(b, count, |b, k| {
                let part = b.binary(BinOp::Add, p[0], k);
                let (number, part) = divide(b, part, arena.cell / bytes);
                let from = word(b, arena.pending, number);
                let cell = load(b, tree, from);
                let there = not_zero(b, cell);
                when(b, there, |b| {
                    let skip = times(b, part, bytes as i64);
                    let at = b.binary(BinOp::Add, cell, skip);
                    clear(b, tree, at, bytes);
                    let first = is_zero(b, part);
                    when(b, first, |b| {
                        let one = b.i64(1);
                        let at = add_at(b, tree, free, one);
                        let to = word(b, arena.free, at);
                        store(b, tree, to, cell);
                    });
                });
            });
            Vec::new()
        })
    }

    /// `()`: no deactivated cell waits any more.
    fn close_queue(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::CloseQueue, tree, node), (0, 0), |s, b, _| {
            let pending = s.node(tree, node).header + header::PENDING;
            let count = load_at(b, tree, pending);
            let some = not_zero(b, count);
            when(b, some, |b| {
                let zero = b.i64(0);
                store_at(b, tree, pending, zero);
            });
            Vec::new()
        })
    }

    /// `(offset)`: everything below one allocation, which in a dynamic node is several cells.
    fn empty_allocation(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let one = self.empty(m, tree, node);
        let NodeKind::Dynamic(Dynamic { chunk }) = m.trees[tree].nodes[node].kind else {
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

/// Bytes of a cell that a thread of a GPU clears.
fn piece(arena: &Arena) -> u64 {
    const SHORT: u64 = 8;
    const LONG: u64 = 16;
    match arena.cell.is_multiple_of(LONG) {
        true => LONG,
        false => SHORT,
    }
}

/// Ends a run of a shard; `visit` gets its numbers. Gives the first, and how many there were.
fn end_run(
    b: &mut Builder,
    tree: Tree,
    shard: Value,
    what: u64,
    visit: impl FnOnce(&mut Builder, Value),
) -> (Value, Value) {
    let at = plus(b, shard, what as i64);
    let seen = load(b, tree, at);
    let (next, end) = run(b, seen);
    let zero = b.i64(0);
    let count = b.binary(BinOp::Sub, end, next);
    let count = b.binary(BinOp::Max, count, zero);
    count_to(b, count, |b, k| {
        let number = b.binary(BinOp::Add, next, k);
        visit(b, number);
    });
    store(b, tree, at, zero);
    (next, count)
}

/// Where the queue starts and ends, with room for so many cells more.
///
/// It goes on where it was; when it would run out of its memory, or is empty, it moves to the front.
fn make_room(
    b: &mut Builder,
    tree: Tree,
    arena: &Arena,
    head: u64,
    (more, capacity): (Value, Value),
) -> (Value, Value) {
    let zero = b.i64(0);
    let end = load_at(b, tree, head + header::FREE);
    let start = load_at(b, tree, head + header::TAKEN);
    let left = b.binary(BinOp::Sub, end, start);
    let left = b.binary(BinOp::Max, left, zero);
    let needed = b.binary(BinOp::Add, end, more);
    let fits = b.compare(CmpOp::Le, needed, capacity);
    let some = not_zero(b, left);
    let stays = b.binary(BinOp::And, fits, some);
    let moves = b.value(Op::Unary(UnOp::Not), &[stays]);
    when(b, moves, |b| {
        count_to(b, left, |b, k| {
            let from = b.binary(BinOp::Add, start, k);
            let from = word(b, arena.free, from);
            let cell = load(b, tree, from);
            let to = word(b, arena.free, k);
            store(b, tree, to, cell);
        });
    });
    let start = b.select(stays, start, zero);
    (start, b.binary(BinOp::Add, start, left))
}
