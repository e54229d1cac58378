//! Hash nodes: open addressing with linear probing in a sequence of tables.
//!
//! A table holds offsets of cells; a record beside each cell has its coordinates. Each table is twice as large as the one
//! before. A cell is in the first table, from the one in use on, that had a free slot within a few probes of the cell's
//! hash; so a search ends at the first free slot. Slots of deactivated cells are not reused until the tables are
//! rebuilt, which happens between tasks.

use crate::nodes::level::{At, LevelFunctions, PathStep, ScanSource};
use crate::nodes::lists::{Entry, Scan, Visit};
use crate::nodes::words::*;
use crate::nodes::{Service, Services, Tables, Upkeep};
use crate::options::Target;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Label, Node, Tree, Value};
use wuji_ir::layout::{Arena, NodeData, hash_table, header};
use wuji_ir::module::{Env, Term};
use wuji_ir::ops::*;
use wuji_ir::types::Scalar;

/// In the slot of a deactivated cell (a tombstone).
const GONE: i64 = -1;

/// A slot that a search probes.
#[derive(Copy, Clone)]
struct Probe {
    /// Leaves the search with a result.
    label: Label,
    /// Number of the table.
    level: Value,
    slot: Value,
    found: Value,
}

pub(super) struct Hash;

impl LevelFunctions for Hash {
    fn step(&self, path: &mut dyn PathStep) {
        let operands = self.drop_operands(path);
        path.find(&operands);
    }

    /// The coordinates of the cell.
    fn drop_operands(&self, path: &mut dyn PathStep) -> Vec<Value> {
        let coordinates = path.coordinates();
        coordinates.iter().map(|c| path.materialize(c)).collect()
    }

    fn find(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let find = s.hash_find(b.env, at.0, at.1);
        call_for(b, find, operands)
    }

    fn ensure(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let find = s.hash_find(b.env, at.0, at.1);
        let ensure = s.hash_ensure(b.env, at.0, at.1);
        let zero = b.i64(0);
        let found = call(b, find, operands).unwrap_or(zero);
        let absent = is_zero(b, found);
        choose(
            b,
            absent,
            |b| call(b, ensure, operands).unwrap_or(zero),
            |_| found,
        )
    }

    fn drop_function(&self, s: &mut Services, m: &mut Env, at: At, _operands: usize) -> Func {
        s.hash_drop(m, at.0, at.1)
    }

    fn scan_source(&self, _data: &NodeData) -> ScanSource {
        ScanSource::Arena
    }

    fn scan_arena(
        &self,
        scan: &Scan,
        b: &mut Builder,
        unit: Value,
        (count, visit): (Value, Visit),
    ) -> Value {
        let (tree, node) = scan.at();
        let data = scan.data();
        let arena = scan.services().arena(tree, node);
        let axes = scan.axes();
        let cells = scan.services().ever_taken(b, tree, node);
        let first = times(b, unit, scan.block() as i64);
        let left = b.binary(BinOp::Sub, cells, first);
        let most = b.i64(scan.block() as i64);
        let in_unit = b.binary(BinOp::Min, left, most);
        fold_to(b, in_unit, count, |b, k, count| {
            let number = b.binary(BinOp::Add, first, k);
            let record = Services::record(b, &arena, number, data.extents.len());
            let alive = load(b, tree, record);
            let alive = not_zero(b, alive);
            choose(
                b,
                alive,
                |b| {
                    let coords: Vec<Value> = axes
                        .iter()
                        .map(|a| {
                            let k = data.extents.iter().position(|e| e.0 == *a).unwrap_or(0);
                            let at = plus(b, record, 8 * (k as i64 + 1));
                            load(b, tree, at)
                        })
                        .collect();
                    let bytes = times(b, number, arena.cell as i64);
                    let entry = Entry {
                        offset: plus(b, bytes, arena.data as i64),
                        extra: b.i64(1),
                        first: b.i64(0),
                        coords,
                    };
                    scan.visit(b, visit, &entry, count)
                },
                |_| count,
            )
        })
    }

    /// A hash node stands below the root, whose cell is never deactivated.
    fn clear(&self, _s: &mut Services, _b: &mut Builder, _at: At, _container: Value) {}

    fn after_recycling(&self, s: &mut Services, b: &mut Builder, (tree, node): At) {
        let rebuild = s.hash_rebuild(b.env, tree, node);
        let yes = b.i64(1);
        call(b, rebuild, &[yes]);
    }
}

impl Services {
    /// Offset of a cell's record: whether it is active; its coordinates follow.
    fn record(b: &mut Builder, arena: &Arena, number: Value, axes: usize) -> Value {
        let words = times(b, number, 1 + axes as i64);
        word(b, arena.records, words)
    }

    fn record_of(b: &mut Builder, arena: &Arena, cell: Value, axes: usize) -> Value {
        let bytes = plus(b, cell, -(arena.data as i64));
        let (number, _) = divide(b, bytes, arena.cell);
        Services::record(b, arena, number, axes)
    }

    /// How many cells of a node were ever allocated, and perhaps some more.
    pub(in crate::nodes) fn ever_taken(&self, b: &mut Builder, tree: Tree, node: Node) -> Value {
        let head = self.node(tree, node).header;
        let high = load_at(b, tree, head + header::HIGH);
        let capacity = self.room(b, tree, node);
        b.binary(BinOp::Min, high, capacity)
    }

    /// Number of tables.
    fn levels(&self) -> i64 {
        match self.target {
            Target::Cpu => hash_table::LEVELS as i64,
            Target::Cuda => hash_table::GPU_LEVELS as i64,
        }
    }

    /// Visits the slots that a cell may be in, until `visit` leaves.
    fn probe(
        &self,
        b: &mut Builder,
        (tree, node): (Tree, Node),
        key: &[Value],
        visit: impl FnOnce(&mut Builder, Probe),
    ) -> Value {
        let memory = self.node(tree, node);
        let table = memory.table;
        let level = load_at(b, tree, memory.header + header::LEVEL);
        let hash = mix(b, key);
        let zero = b.i64(0);
        repeat(b, &[level, zero], |b, label, p| {
            let (level, step) = (p[0], p[1]);
            let beyond = b.i64(self.levels());
            let over = b.compare(CmpOp::Ge, level, beyond);
            break_if(b, label, over, zero);
            let (start, size) = table_start(b, level);
            let mask = plus(b, size, -1);
            let home = b.binary(BinOp::And, hash, mask);
            let at = b.binary(BinOp::Add, start, home);
            let at = b.binary(BinOp::Add, at, step);
            let slot = word(b, table, at);
            let found = load(b, tree, slot);
            let probe = Probe {
                label,
                level,
                slot,
                found,
            };
            visit(b, probe);
            let next = plus(b, step, 1);
            let last = b.i64(hash_table::PROBES as i64);
            let up = b.compare(CmpOp::Ge, next, last);
            let above = plus(b, level, 1);
            let level = b.select(up, above, level);
            let step = b.select(up, zero, next);
            b.end(Term::Continue(label, [level, step].into_iter().collect()));
        })
    }

    /// The shard of a cell; neighbours along the last axis share it.
    fn key_shard(&self, b: &mut Builder, at: (Tree, Node), key: &[Value]) -> Value {
        let zero = b.i64(0);
        let place = key.iter().fold(zero, |sum, c| {
            let row = times(b, sum, 1 << 8);
            b.binary(BinOp::Add, row, *c)
        });
        let place = times(b, place, 1 << 7);
        self.shard(b, at, place)
    }

    /// Whether a slot holds the cell with these coordinates.
    fn is_same(
        &self,
        b: &mut Builder,
        (tree, node): (Tree, Node),
        cell: Value,
        key: &[Value],
    ) -> Value {
        let arena = self.arena(tree, node);
        let zero = b.i64(0);
        let real = b.compare(CmpOp::Gt, cell, zero);
        // Without a cell, the record of the first one is read; the result is false.
        let first = b.i64(arena.data as i64);
        let cell = b.select(real, cell, first);
        let record = Services::record_of(b, &arena, cell, key.len());
        let mut same = real;
        for (k, c) in key.iter().enumerate() {
            let at = plus(b, record, 8 * (k as i64 + 1));
            let kept = load(b, tree, at);
            let equal = b.compare(CmpOp::Eq, kept, *c);
            same = b.binary(BinOp::And, same, equal);
        }
        same
    }

    /// `(coordinates...) -> offset`, 0 when absent.
    fn hash_find(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let axes = m.trees[tree].nodes[node].extents.len();
        self.function(m, (Service::Find, tree, node), (axes, 1), |s, b, key| {
            vec![s.probe(b, (tree, node), key, |b, p| {
                let free = is_zero(b, p.found);
                break_if(b, p.label, free, p.found);
                let same = s.is_same(b, (tree, node), p.found, key);
                break_if(b, p.label, same, p.found);
            })]
        })
    }

    /// `(coordinates...) -> offset`, 0 only when memory has run out.
    fn hash_ensure(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let axes = m.trees[tree].nodes[node].extents.len();
        self.function(m, (Service::Ensure, tree, node), (axes, 1), |s, b, key| {
            let allocate = s.allocate(b.env, tree, node);
            let free_unused = s.free_unused(b.env, tree, node);
            let arena = s.arena(tree, node);
            let zero = b.i64(0);
            let shard = s.key_shard(b, (tree, node), key);
            let cell = call(b, allocate, &[shard]).unwrap_or(zero);
            let got = not_zero(b, cell);
            vec![choose(
                b,
                got,
                |b| {
                    // The record is written before other threads can see the cell.
                    let record = Services::record_of(b, &arena, cell, key.len());
                    for (k, c) in key.iter().enumerate() {
                        let at = plus(b, record, 8 * (k as i64 + 1));
                        store(b, tree, at, *c);
                    }
                    // So is this word: another thread may deactivate the cell as soon as it is visible.
                    let one = b.i64(1);
                    store(b, tree, record, one);
                    let found = s.insert(b, (tree, node), key, cell);
                    let mine = b.compare(CmpOp::Eq, found, cell);
                    b.if_else(
                        mine,
                        &[],
                        |b| {
                            s.changed(b, tree, node);
                            Default::default()
                        },
                        |b| {
                            store(b, tree, record, zero);
                            call(b, free_unused, &[cell]);
                            Default::default()
                        },
                    );
                    found
                },
                |_| zero,
            )]
        })
    }

    /// Puts a cell into the first free slot, unless one with the same coordinates is found; returns the one in the table.
    fn insert(
        &self,
        b: &mut Builder,
        (tree, node): (Tree, Node),
        key: &[Value],
        cell: Value,
    ) -> Value {
        let top = self.node(tree, node).header + header::TOP;
        self.probe(b, (tree, node), key, |b, p| {
            let free = is_zero(b, p.found);
            let seen = choose(
                b,
                free,
                |b| {
                    let zero = b.i64(0);
                    let old = exchange(b, tree, p.slot, zero, cell);
                    let mine = is_zero(b, old);
                    b.select(mine, cell, old)
                },
                |_| p.found,
            );
            let mine = b.compare(CmpOp::Eq, seen, cell);
            when(b, mine, |b| {
                let at = b.i64(top as i64);
                let highest = load(b, tree, at);
                let higher = b.compare(CmpOp::Gt, p.level, highest);
                when(b, higher, |b| {
                    atomic(b, AtomicOp::Max, tree, at, p.level);
                });
            });
            let same = self.is_same(b, (tree, node), seen, key);
            let done = b.binary(BinOp::Or, mine, same);
            break_if(b, p.label, done, seen);
        })
    }

    /// `(coordinates...)`: deactivates a cell.
    fn hash_drop(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        let axes = m.trees[tree].nodes[node].extents.len();
        self.function(m, (Service::Drop, tree, node), (axes, 0), |s, b, key| {
            let arena = s.arena(tree, node);
            let retire = s.retire(b.env, tree, node);
            let zero = b.i64(0);
            s.probe(b, (tree, node), key, |b, p| {
                let free = is_zero(b, p.found);
                break_if(b, p.label, free, zero);
                let same = s.is_same(b, (tree, node), p.found, key);
                when(b, same, |b| {
                    let gone = b.i64(GONE);
                    let old = exchange(b, tree, p.slot, p.found, gone);
                    let mine = b.compare(CmpOp::Eq, old, p.found);
                    when(b, mine, |b| {
                        let record = Services::record_of(b, &arena, p.found, key.len());
                        store(b, tree, record, zero);
                        s.changed(b, tree, node);
                        let shard = s.key_shard(b, (tree, node), key);
                        call(b, retire, &[p.found, shard]);
                    });
                });
                break_if(b, p.label, same, zero);
            });
            Vec::new()
        })
    }

    /// `(force)`: rebuilds the tables if they are rather full, or forced to.
    fn hash_rebuild(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Rebuild, tree, node), (1, 0), |s, b, p| {
            let forced = not_zero(b, p[0]);
            s.rebuild_tables(b, (tree, node), forced);
            Vec::new()
        })
    }

    /// The same, by all threads of a block. After a collection the tables are rebuilt in any case.
    pub fn rebuild_by_block(&mut self, b: &mut Builder, tree: Tree, tables: Tables) {
        let pending = self.node(tree, tables.node).header + header::PENDING;
        if !tables.collected {
            let no = b.bool(false);
            return self.rebuild_tables(b, (tree, tables.node), no);
        }
        let count = load_at(b, tree, pending);
        let some = not_zero(b, count);
        when(b, some, |b| {
            self.rebuild_tables(b, (tree, tables.node), some);
            let zero = b.i64(0);
            store_at(b, tree, pending, zero);
        });
    }

    /// Rebuilds the tables of a node when they are rather full, or forced to: a table that is large enough becomes the first
    /// one, with all active cells in it. The threads of a block share the loops, with barriers in between.
    fn rebuild_tables(&mut self, b: &mut Builder, (tree, node): (Tree, Node), forced: Value) {
        let axes = b.env.trees[tree].nodes[node].extents.len();
        let head = self.node(tree, node).header;
        let table = self.node(tree, node).table;
        let arena = self.arena(tree, node);
        let cells = self.ever_taken(b, tree, node);
        let level = load_at(b, tree, head + header::LEVEL);
        let top = load_at(b, tree, head + header::TOP);
        let (_, size) = table_start(b, level);
        let twice = times(b, cells, 2);
        let full = b.compare(CmpOp::Gt, twice, size);
        let due = b.binary(BinOp::Or, full, forced);
        when(b, due, |b| {
            let first = table_start(b, level).0;
            let above = plus(b, top, 1);
            let last = table_start(b, above).0;
            let count = b.binary(BinOp::Sub, last, first);
            let zero = b.i64(0);
            count_to(b, count, |b, k| {
                let k = b.binary(BinOp::Add, first, k);
                let at = word(b, table, k);
                store(b, tree, at, zero);
            });
            // All threads have read the header.
            self.barrier(b);
            // The first table with room for four times as many.
            let least = times(b, cells, 4);
            let most = b.i64(self.levels() - 1);
            let new = repeat(b, &[level], |b, label, p| {
                let (_, size) = table_start(b, p[0]);
                let enough = b.compare(CmpOp::Ge, size, least);
                let end = b.compare(CmpOp::Ge, p[0], most);
                let done = b.binary(BinOp::Or, enough, end);
                break_if(b, label, done, p[0]);
                let next = plus(b, p[0], 1);
                b.end(Term::Continue(label, [next].into_iter().collect()));
            });
            store_at(b, tree, head + header::LEVEL, new);
            store_at(b, tree, head + header::TOP, new);
            self.barrier(b);
            count_to(b, cells, |b, number| {
                let record = Services::record(b, &arena, number, axes);
                let alive = load(b, tree, record);
                let alive = not_zero(b, alive);
                when(b, alive, |b| {
                    let key: Vec<Value> = (0..axes)
                        .map(|k| {
                            let at = plus(b, record, 8 * (k as i64 + 1));
                            load(b, tree, at)
                        })
                        .collect();
                    let bytes = times(b, number, arena.cell as i64);
                    let cell = plus(b, bytes, arena.data as i64);
                    self.insert(b, (tree, node), &key, cell);
                });
            });
        });
    }

    /// A barrier, where a block of threads runs.
    fn barrier(&self, b: &mut Builder) {
        match self.target {
            Target::Cpu => {}
            Target::Cuda => {
                b.push(Op::Thread(ThreadOp::Barrier), &[]);
            }
        }
    }
}

/// Rebuilds the hash tables of a tree when they are rather full.
pub fn rebuild(s: &mut Services, m: &mut Env, tree: Tree) -> Vec<Upkeep> {
    let nodes = m.trees[tree].nodes.iter();
    let hashed = nodes.filter(|(_, data)| data.kind.is_hashed());
    let hashed: Vec<Node> = hashed.map(|(node, _)| node).collect();
    match s.target {
        Target::Cpu => {
            let root = m.trees[tree].root();
            let all = s.function(m, (Service::RebuildAll, tree, root), (0, 0), |s, b, _| {
                for node in hashed {
                    let rebuild = s.hash_rebuild(b.env, tree, node);
                    let no = b.i64(0);
                    call(b, rebuild, &[no]);
                }
                Vec::new()
            });
            vec![Upkeep::Alone(vec![all])]
        }
        Target::Cuda => {
            let steps = hashed.into_iter().map(|node| Tables {
                node,
                collected: false,
            });
            steps.map(Upkeep::Block).collect()
        }
    }
}

/// Where a table starts, in slots, and how many it has.
fn table_start(b: &mut Builder, level: Value) -> (Value, Value) {
    let first = b.i64(hash_table::FIRST as i64);
    let size = b.binary(BinOp::Shl, first, level);
    let start = b.binary(BinOp::Sub, size, first);
    let gaps = times(b, level, hash_table::PROBES as i64);
    (b.binary(BinOp::Add, start, gaps), size)
}

/// Hashes coordinates.
fn mix(b: &mut Builder, key: &[Value]) -> Value {
    let mut h = b.int(Scalar::I64, 0x51_7cc1_b727_220a);
    for c in key {
        let factor = b.int(Scalar::I64, i128::from(0x9e37_79b9_7f4a_7c15_u64 as i64));
        h = b.binary(BinOp::Xor, h, *c);
        h = b.binary(BinOp::Mul, h, factor);
        let shift = b.i64(29);
        let bits = b.value(Op::Bitcast(Scalar::U64), &[h]);
        let shift = b.value(Op::Bitcast(Scalar::U64), &[shift]);
        let high = b.binary(BinOp::Shr, bits, shift);
        let high = b.value(Op::Bitcast(Scalar::I64), &[high]);
        h = b.binary(BinOp::Xor, h, high);
    }
    h
}
