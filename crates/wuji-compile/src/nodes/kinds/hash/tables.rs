//! The tables of hash nodes: searches, insertions, rebuilds.

use super::records::{Key, Records};
use crate::nodes::level::At;
use crate::nodes::words::*;
use crate::nodes::{Service, Services, Tables, Upkeep};
use crate::options::Target;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Label, Node, Tree, Value};
use wuji_ir::layout::{hash_table, header};
use wuji_ir::module::{Env, Term};
use wuji_ir::ops::*;
use wuji_ir::types::Scalar;

/// A slot that a search probes.
#[derive(Copy, Clone)]
pub(super) struct Probe {
    /// Leaves the search with a result.
    pub(super) label: Label,
    /// Number of the table.
    level: Value,
    pub(super) slot: Value,
    pub(super) found: Value,
}

impl Services {
    /// Number of tables.
    fn levels(&self) -> i64 {
        match self.target {
            Target::Cpu => hash_table::LEVELS as i64,
            Target::Cuda => hash_table::GPU_LEVELS as i64,
        }
    }

    /// Visits the slots that a cell may be in, until `visit` leaves. `key` distinguishes cells.
    pub(super) fn probe(
        &self,
        b: &mut Builder,
        (tree, node): At,
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

    /// Puts a cell into the first free slot, unless one with the same key is found; returns the one in the table.
    pub(super) fn insert(
        &self,
        b: &mut Builder,
        (tree, node): At,
        (records, key): (&Records, &Key),
        cell: Value,
    ) -> Value {
        let top = self.node(tree, node).header + header::TOP;
        self.probe(b, (tree, node), &records.distinct(key), |b, p| {
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
            let same = records.is_same(b, seen, key);
            let done = b.binary(BinOp::Or, mine, same);
            break_if(b, p.label, done, seen);
        })
    }

    /// `(force)`: rebuilds the tables if they are rather full, or forced to.
    pub(super) fn hash_rebuild(&mut self, m: &mut Env, at: At) -> Func {
        self.function(m, (Service::Rebuild, at.0, at.1), (1, 0), |s, b, p| {
            let forced = not_zero(b, p[0]);
            s.rebuild_tables(b, at, forced);
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
    fn rebuild_tables(&mut self, b: &mut Builder, (tree, node): At, forced: Value) {
        let records = Records::of(self, b.env, (tree, node));
        let head = self.node(tree, node).header;
        let table = self.node(tree, node).table;
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
                let record = records.at(b, number);
                let generation = records.generation(b, record);
                let active = not_zero(b, generation);
                when(b, active, |b| {
                    let key = records.read_key(b, record);
                    let cell = records.cell(b, number);
                    self.insert(b, (tree, node), (&records, &key), cell);
                });
            });
        });
    }

    /// A barrier, where a block of threads runs.
    fn barrier(&self, b: &mut Builder) {
        match self.target {
            Target::Cpu => {}
            Target::Cuda => b.barrier(),
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
                    let rebuild = s.hash_rebuild(b.env, (tree, node));
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

/// Hashes what distinguishes cells.
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
