//! Collection: deactivated cells are recycled, between tasks.

use super::kinds::level_functions;
use super::level::At;
use super::memory::{can_stream, run};
use super::words::*;
use super::{Service, Services, allocates_below};
use crate::options::Target;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Temp, Tree, Value};
use wuji_ir::layout::{Arena, Child, ListEntry, header, shard};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::I64;

/// From this size on, recycled cells are not cached, and are cleared by non-temporal stores.
const STREAM_BYTES: u64 = 64 << 20;

impl Services {
    /// `(offset)`: deactivates everything below a cell of a node.
    pub(super) fn clear_below(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let key = (Service::Empty, tree, node);
        self.function(m, key, (1, 0), |s, b, p| {
            for child in b.env.trees[tree].nodes[node].children.clone() {
                if let Child::Node(n) = child {
                    let start = s.memory[tree].node_offset[n];
                    let container = plus(b, p[0], start as i64);
                    let level = level_functions(b.env.trees[tree].nodes[n].kind);
                    level.clear(s, b, (tree, n), container);
                }
            }
            Vec::new()
        })
    }

    /// Zeros over the fields in a cell, and over cells below it that have no memory of their own. Other threads may be
    /// filling the containers of allocating nodes, which have been cleared.
    pub(super) fn clear_fields(&self, b: &mut Builder, at: At, cell: Value, align: u64) {
        let (tree, node) = at;
        for child in b.env.trees[tree].nodes[node].children.clone() {
            match child {
                Child::Place(f) if !b.env.fields[f].has_memory() => {}
                Child::Place(f) => {
                    let (bytes, _) = b.env.fields[f].size_align(&b.env.structs);
                    let start = self.memory[tree].place(f);
                    let at = plus(b, cell, start as i64);
                    clear_bytes(b, tree, at, (bytes, alignment(&[align, start])));
                }
                Child::Node(n) if b.env.trees[tree].nodes[n].kind.allocates() => {}
                Child::Node(n) => self.clear_fields_of(b, (tree, n), cell, align),
            }
        }
    }

    /// The same for all cells of a node in a cell of its parent.
    fn clear_fields_of(&self, b: &mut Builder, at: At, parent: Value, align: u64) {
        let (tree, node) = at;
        let memory = &self.memory[tree];
        let start = memory.node_offset[node] + memory.first_cell[node];
        let (count, size) = (
            b.env.trees[tree].nodes[node].cells(),
            memory.cell_size[node],
        );
        let align = alignment(&[align, start, size]);
        let first = plus(b, parent, start as i64);
        if !allocates_below(b.env, tree, node) {
            return clear_bytes(b, tree, first, (count * size, align));
        }
        let count = b.i64(count as i64);
        count_to(b, count, |b, k| {
            let bytes = times(b, k, size as i64);
            let cell = b.binary(BinOp::Add, first, bytes);
            self.clear_fields(b, at, cell, align);
        });
    }

    /// Deactivates everything below the cells of a container, for kinds whose cells are in it.
    pub(super) fn clear_cells(&mut self, b: &mut Builder, at: At, container: Value) {
        let (tree, node) = at;
        if !sparse_below(b.env, tree, node) {
            return;
        }
        let below = self.clear_below(b.env, tree, node);
        let data = &b.env.trees[tree].nodes[node];
        let (level, count) = (level_functions(data.kind), data.cells());
        let count = b.i64(count as i64);
        count_to(b, count, |b, k| {
            let cell = level.cell_offset(self, b, at, container, k);
            call(b, below, &[cell]);
        });
    }
}

/// Whether some node below this one is sparse.
fn sparse_below(m: &Env, tree: Tree, node: Node) -> bool {
    m.trees[tree].nodes[node].children.iter().any(|c| match c {
        Child::Place(_) => false,
        Child::Node(n) => m.trees[tree].nodes[*n].kind.is_sparse() || sparse_below(m, tree, *n),
    })
}

/// A step of the upkeep of a tree.
#[derive(Debug)]
pub enum Upkeep {
    /// Functions without parameters, one after the other.
    Alone(Vec<Func>),
    /// A function of a range, for parts of `0..temp` at once.
    Shared(Func, Temp),
    /// On a GPU: a block of threads rebuilds the tables of a hash node.
    Block(Tables),
}

/// The tables of a hash node, to be rebuilt.
#[derive(Copy, Clone, Debug)]
pub struct Tables {
    /// The hash node.
    pub node: Node,
    /// Whether this is the last step of a collection, which rebuilds full and sparse tables alike.
    pub collected: bool,
}

/// Recycles the deactivated cells of a tree.
///
/// Parents come first: cells below a deactivated cell are deactivated, too.
pub fn collect(s: &mut Services, m: &mut Env, tree: Tree) -> Vec<Upkeep> {
    let mut steps = Vec::new();
    let mut alone = Vec::new();
    let nodes: Vec<Node> = m.trees[tree].nodes.keys().collect();
    for node in nodes {
        if !m.trees[tree].nodes[node].kind.allocates() {
            continue;
        }
        let level = level_functions(m.trees[tree].nodes[node].kind);
        if let Some(sweep) = level.sweep(s, m, (tree, node)) {
            alone.push(sweep.size);
            steps.push(Upkeep::Alone(std::mem::take(&mut alone)));
            steps.push(Upkeep::Shared(sweep.sweep, s.temp(m)));
        }
        alone.push(s.gather(m, tree, node));
        if allocates_below(m, tree, node) {
            let below = s.clear_pending(m, tree, node);
            steps.push(Upkeep::Alone(std::mem::take(&mut alone)));
            steps.push(Upkeep::Shared(below, s.temp(m)));
        }
        match s.target {
            Target::Cpu => alone.push(s.recycle(m, tree, node)),
            Target::Cuda => {
                alone.push(s.open_stack(m, tree, node));
                steps.push(Upkeep::Alone(std::mem::take(&mut alone)));
                steps.push(Upkeep::Shared(s.recycle_some(m, tree, node), s.temp(m)));
                if m.trees[tree].nodes[node].kind.is_hashed() {
                    steps.push(Upkeep::Block(Tables {
                        node,
                        collected: true,
                    }));
                } else {
                    alone.push(s.close_stack(m, tree, node));
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
    /// The number of cells that a step processes.
    fn temp(&mut self, m: &mut Env) -> Temp {
        let new = || m.temps.push(TempData { ty: I64 });
        *self.temp.get_or_insert_with(new)
    }

    /// Where that number is.
    pub(super) fn temp_offset(&mut self, m: &mut Env) -> u64 {
        let temp = self.temp(m).as_u32() as usize;
        m.temp_offsets().0[temp]
    }

    /// `()`: counts the deactivated cells.
    fn gather(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let temp = self.temp_offset(m);
        self.function(m, (Service::Gather, tree, node), (0, 0), |s, b, _| {
            let count = match s.target {
                Target::Cpu => s.end_runs(b, tree, node),
                Target::Cuda => load_at(b, tree, s.node(tree, node).header + header::PENDING),
            };
            let at = b.i64(temp as i64);
            b.push(Op::MemStore(Space::Temps), &[at, count]);
            Vec::new()
        })
    }

    /// Ends the runs of all shards, if there are deactivated cells. Unused places for them become gaps; recycled cells that
    /// a shard has claimed but not allocated are added to them. Returns their number.
    fn end_runs(&self, b: &mut Builder, tree: Tree, node: Node) -> Value {
        let arena = self.arena(tree, node);
        let pending = self.node(tree, node).header + header::PENDING;
        let count = load_at(b, tree, pending);
        let zero = b.i64(0);
        let some = not_zero(b, count);
        choose(
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
        )
    }

    /// `(begin, end)`: deactivates everything below some of the deactivated cells.
    fn clear_pending(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::EmptyPending, tree, node), (2, 0), |s, b, p| {
            let arena = s.arena(tree, node);
            let below = s.clear_allocation(b.env, tree, node);
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

    /// `()`: moves the deactivated cells to the end of the queue of recycled ones.
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
                let level = level_functions(b.env.trees[tree].nodes[node].kind);
                level.after_recycling(s, b, (tree, node));
            });
            Vec::new()
        })
    }

    /// `()`: removes the cells that were popped from the stack of recycled ones. The next step has one part per piece of a
    /// cell.
    fn open_stack(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let temp = self.temp_offset(m);
        self.function(m, (Service::OpenStack, tree, node), (0, 0), |s, b, _| {
            let arena = s.arena(tree, node);
            let head = s.node(tree, node).header;
            let pending = load_at(b, tree, head + header::PENDING);
            let parts = times(b, pending, (arena.cell / piece(&arena)) as i64);
            let at = b.i64(temp as i64);
            b.push(Op::MemStore(Space::Temps), &[at, parts]);
            let some = not_zero(b, pending);
            when(b, some, |b| {
                let zero = b.i64(0);
                let height = load_at(b, tree, head + header::FREE);
                let taken = load_at(b, tree, head + header::TAKEN);
                let left = b.binary(BinOp::Sub, height, taken);
                let left = b.binary(BinOp::Max, left, zero);
                store_at(b, tree, head + header::TAKEN, zero);
                store_at(b, tree, head + header::FREE, left);
            });
            Vec::new()
        })
    }

    /// `(begin, end)`: clears some pieces of deactivated cells; with its first piece a cell moves to the stack, in no order.
    /// Neighbouring threads clear neighbouring pieces.
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

    /// `()`: empties the list of deactivated cells.
    fn close_stack(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::CloseStack, tree, node), (0, 0), |s, b, _| {
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

    /// `(offset)`: deactivates everything below one allocation, which in a dynamic node is several cells.
    fn clear_allocation(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let one = self.clear_below(m, tree, node);
        let entry = m.trees[tree].nodes[node].kind.format().list_entry();
        let ListEntry::Chunk { cells } = entry else {
            return one;
        };
        let cell = self.memory[tree].cell_size[node];
        self.function(m, (Service::EmptyAll, tree, node), (1, 0), |_, b, p| {
            let count = b.i64(cells as i64);
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
    if arena.cell.is_multiple_of(LONG) {
        LONG
    } else {
        SHORT
    }
}

/// Ends a run of a shard; `visit` gets its numbers. Returns the first, and how many there were.
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

/// Makes room for more cells in the queue; returns its start and end.
///
/// The queue stays where it is; when it would reach the end of its memory, or is empty, it moves to the front.
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
