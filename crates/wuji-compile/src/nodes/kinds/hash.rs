//! Hash nodes: open addressing with linear probing in a sequence of tables.
//!
//! A table holds offsets of cells; a record beside each cell has its coordinates. All containers of a node share the
//! tables. Each table is twice as large as the one before. A cell is in the first table, from the one in use on, that had
//! a free slot within a few probes of the cell's hash; so a search ends at the first free slot. Slots of deactivated cells
//! are not reused until the tables are rebuilt, which happens between tasks.

mod records;
mod sweep;
mod tables;

pub use tables::rebuild;

use crate::nodes::level::{At, LevelFunctions, PathStep, ScanSource, Sweep};
use crate::nodes::lists::{Entry, Scan, Visit};
use crate::nodes::words::*;
use crate::nodes::{Service, Services};
use records::{Key, Records};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::{NodeData, header};
use wuji_ir::module::Env;
use wuji_ir::ops::*;

/// In the slot of a deactivated cell (a tombstone).
const GONE: i64 = -1;

pub(super) struct Hash;

impl LevelFunctions for Hash {
    fn step(&self, path: &mut dyn PathStep) {
        let operands = self.drop_operands(path);
        path.find(&operands);
    }

    /// The container, if it has a generation, and the coordinates of the cell.
    fn drop_operands(&self, path: &mut dyn PathStep) -> Vec<Value> {
        let mut operands = Vec::new();
        if path.below_sparse() {
            let container = path.container();
            operands.push(path.materialize(&container));
        }
        for c in path.tree_coordinates() {
            operands.push(path.materialize(&c));
        }
        operands
    }

    fn find(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let find = s.hash_find(b.env, at);
        let records = Records::of(s, b.env, at);
        let (Some(container), coords) = records.operands(operands) else {
            return call_for(b, find, operands);
        };
        let generation = load(b, at.0, container);
        let some = not_zero(b, generation);
        let zero = b.i64(0);
        let key: Vec<Value> = std::iter::once(generation)
            .chain(coords.iter().copied())
            .collect();
        choose(b, some, |b| call_for(b, find, &key), |_| zero)
    }

    fn ensure(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let found = self.find(s, b, at, operands);
        let ensure = s.hash_ensure(b.env, at);
        let zero = b.i64(0);
        let absent = is_zero(b, found);
        choose(
            b,
            absent,
            |b| call(b, ensure, operands).unwrap_or(zero),
            |_| found,
        )
    }

    fn drop_function(&self, s: &mut Services, m: &mut Env, at: At, _operands: usize) -> Func {
        s.hash_drop(m, at)
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
        let records = Records::of(scan.services(), b.env, (tree, node));
        let cells = scan.services().ever_taken(b, tree, node);
        let first = times(b, unit, scan.block() as i64);
        let left = b.binary(BinOp::Sub, cells, first);
        let most = b.i64(scan.block() as i64);
        let in_unit = b.binary(BinOp::Min, left, most);
        fold_to(b, in_unit, count, |b, k, count| {
            let number = b.binary(BinOp::Add, first, k);
            let record = records.at(b, number);
            let generation = records.generation(b, record);
            let active = not_zero(b, generation);
            choose(
                b,
                active,
                |b| {
                    let entry = Entry {
                        offset: records.cell(b, number),
                        extra: b.i64(1),
                        first: b.i64(0),
                        coords: records.coordinates(b, record),
                    };
                    scan.visit(b, visit, &entry, count)
                },
                |_| count,
            )
        })
    }

    /// Only cells of sparse nodes are deactivated, so there is a generation.
    fn clear(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) {
        s.clear_container(b, at, container);
    }

    fn sweep(&self, s: &mut Services, m: &mut Env, at: At) -> Option<Sweep> {
        let below_sparse = m.trees[at.0].path_info(at.1).below_sparse;
        below_sparse.then(|| Sweep {
            size: s.sweep_size(m, at),
            sweep: s.sweep(m, at),
        })
    }

    fn after_recycling(&self, s: &mut Services, b: &mut Builder, at: At) {
        let rebuild = s.hash_rebuild(b.env, at);
        let yes = b.i64(1);
        call(b, rebuild, &[yes]);
    }
}

impl Services {
    /// How many cells of a node were ever allocated, and perhaps some more.
    pub(in crate::nodes) fn ever_taken(&self, b: &mut Builder, tree: Tree, node: Node) -> Value {
        let head = self.node(tree, node).header;
        let high = load_at(b, tree, head + header::HIGH);
        let capacity = self.room(b, tree, node);
        b.binary(BinOp::Min, high, capacity)
    }

    /// The shard of a cell; neighbours along the last axis share it.
    fn key_shard(&self, b: &mut Builder, at: At, coords: &[Value]) -> Value {
        let zero = b.i64(0);
        let place = coords.iter().fold(zero, |sum, c| {
            let row = times(b, sum, 1 << 8);
            b.binary(BinOp::Add, row, *c)
        });
        let place = times(b, place, 1 << 7);
        self.shard(b, at, place)
    }

    /// `(key...) -> offset`, 0 when absent.
    fn hash_find(&mut self, m: &mut Env, at: At) -> Func {
        let records = Records::of(self, m, at);
        let shape = (records.operand_count(), 1);
        self.function(m, (Service::Find, at.0, at.1), shape, |s, b, p| {
            let key = records.key(p);
            vec![s.probe(b, at, &records.distinct(&key), |b, p| {
                let free = is_zero(b, p.found);
                break_if(b, p.label, free, p.found);
                let same = records.is_same(b, p.found, &key);
                break_if(b, p.label, same, p.found);
            })]
        })
    }

    /// `(operands...) -> offset`, 0 only when memory has run out. Nothing is allocated below an absent cell.
    fn hash_ensure(&mut self, m: &mut Env, at: At) -> Func {
        let (tree, node) = at;
        let records = Records::of(self, m, at);
        let shape = (records.operand_count(), 1);
        self.function(m, (Service::Ensure, tree, node), shape, |s, b, p| {
            let (container, coords) = records.operands(p);
            let coords = coords.to_vec();
            let Some(container) = container else {
                let key = Key {
                    generation: None,
                    coords,
                };
                return vec![s.activate(b, at, (&records, None), &key)];
            };
            let exists = s.exists(b, tree, container);
            let zero = b.i64(0);
            vec![choose(
                b,
                exists,
                |b| {
                    let key = Key {
                        generation: Some(s.generation(b, at, container)),
                        coords,
                    };
                    s.activate(b, at, (&records, Some(container)), &key)
                },
                |_| zero,
            )]
        })
    }

    /// Activates a cell that was absent a moment ago.
    fn activate(
        &mut self,
        b: &mut Builder,
        at: At,
        (records, container): (&Records, Option<Value>),
        key: &Key,
    ) -> Value {
        let (tree, node) = at;
        let allocate = self.allocate(b.env, tree, node);
        let free_unused = self.free_unused(b.env, tree, node);
        let zero = b.i64(0);
        let shard = self.key_shard(b, at, &key.coords);
        let cell = call(b, allocate, &[shard]).unwrap_or(zero);
        let got = not_zero(b, cell);
        choose(
            b,
            got,
            |b| {
                // The record is written before other threads can see the cell, which may deactivate it at once.
                let record = records.of_cell(b, cell);
                records.write(b, record, key, container);
                let found = self.insert(b, at, (records, key), cell);
                let mine = b.compare(CmpOp::Eq, found, cell);
                b.if_else(
                    mine,
                    &[],
                    |b| {
                        self.changed(b, tree, node);
                        Default::default()
                    },
                    |b| {
                        records.erase(b, record);
                        call(b, free_unused, &[cell]);
                        Default::default()
                    },
                );
                found
            },
            |_| zero,
        )
    }

    /// `(operands...)`: deactivates a cell.
    fn hash_drop(&mut self, m: &mut Env, at: At) -> Func {
        let records = Records::of(self, m, at);
        let shape = (records.operand_count(), 0);
        self.function(m, (Service::Drop, at.0, at.1), shape, |s, b, p| {
            let (container, coords) = records.operands(p);
            let key = Key {
                generation: container.map(|c| load(b, at.0, c)),
                coords: coords.to_vec(),
            };
            match key.generation {
                None => s.remove(b, at, &records, &key),
                Some(generation) => {
                    let some = not_zero(b, generation);
                    when(b, some, |b| s.remove(b, at, &records, &key));
                }
            }
            Vec::new()
        })
    }

    /// Deactivates the cell with a key.
    fn remove(&mut self, b: &mut Builder, at: At, records: &Records, key: &Key) {
        let (tree, node) = at;
        let retire = self.retire(b.env, tree, node);
        let zero = b.i64(0);
        self.probe(b, at, &records.distinct(key), |b, p| {
            let free = is_zero(b, p.found);
            break_if(b, p.label, free, zero);
            let same = records.is_same(b, p.found, key);
            when(b, same, |b| {
                let gone = b.i64(GONE);
                let old = exchange(b, tree, p.slot, p.found, gone);
                let mine = b.compare(CmpOp::Eq, old, p.found);
                when(b, mine, |b| {
                    let record = records.of_cell(b, p.found);
                    records.erase(b, record);
                    self.changed(b, tree, node);
                    let shard = self.key_shard(b, at, &key.coords);
                    call(b, retire, &[p.found, shard]);
                });
            });
            break_if(b, p.label, same, zero);
        });
    }
}
