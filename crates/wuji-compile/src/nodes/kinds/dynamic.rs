//! Dynamic nodes: a length, and slots that point to chunks of cells.

use crate::nodes::level::{At, LevelFunctions, PathStep};
use crate::nodes::lists::{Entry, Scan, Visit};
use crate::nodes::words::*;
use crate::nodes::{Service, Services};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Value};
use wuji_ir::layout::NodeData;
use wuji_ir::module::Env;
use wuji_ir::ops::*;

pub(super) struct Dynamic;

/// Cells of a chunk.
fn chunk(data: &NodeData) -> u64 {
    data.kind.format().cells_per_allocation()
}

/// Slots of a container.
fn chunks(data: &NodeData) -> u64 {
    data.cells().div_ceil(chunk(data))
}

impl LevelFunctions for Dynamic {
    fn step(&self, path: &mut dyn PathStep) {
        let chunk = chunk(path.data());
        let number = path.number();
        let (chunk, within) = path.divide(&number, chunk);
        let container = path.container();
        let operands = [path.materialize(&container), path.materialize(&chunk)];
        path.find(&operands);
        path.test_or_touch(&container, &number);
        path.advance(&within, 0);
    }

    /// The whole list.
    fn drop_operands(&self, path: &mut dyn PathStep) -> Vec<Value> {
        let container = path.container();
        vec![path.materialize(&container)]
    }

    fn find(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let slot = s.slot(b, at, operands[0], operands[1]);
        load(b, at.0, slot)
    }

    fn ensure(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) -> Value {
        let slot = s.slot(b, at, operands[0], operands[1]);
        s.ensure_slot(b, at, slot)
    }

    fn test(&self, b: &mut Builder, (tree, _): At, container: Value, number: Value) -> Value {
        let length = load(b, tree, container);
        b.compare(CmpOp::Lt, number, length)
    }

    fn touch(&self, s: &mut Services, b: &mut Builder, at: At, container: Value, number: Value) {
        let (tree, node) = at;
        let chunk = chunk(&b.env.trees[tree].nodes[node]);
        let length = plus(b, number, 1);
        let old = atomic(b, AtomicOp::Max, tree, container, length);
        let fresh = b.compare(CmpOp::Lt, old, length);
        when(b, fresh, |b| {
            s.changed(b, tree, node);
            // The cells in between become active, too, so they need memory.
            let (first, _) = divide(b, old, chunk);
            let (last, _) = divide(b, number, chunk);
            let chunks = b.binary(BinOp::Sub, last, first);
            let chunks = plus(b, chunks, 1);
            count_to(b, chunks, |b, k| {
                let k = b.binary(BinOp::Add, first, k);
                let slot = s.slot(b, at, container, k);
                s.ensure_slot(b, at, slot);
            });
        });
    }

    fn deactivate(&self, s: &mut Services, b: &mut Builder, at: At, operands: &[Value]) {
        let (tree, node) = at;
        let container = operands[0];
        let zero = b.i64(0);
        let old = atomic(b, AtomicOp::Exchange, tree, container, zero);
        let some = not_zero(b, old);
        when(b, some, |b| s.changed(b, tree, node));
        let slots = chunks(&b.env.trees[tree].nodes[node]);
        let slots = b.i64(slots as i64);
        let retire = s.retire(b.env, tree, node);
        count_to(b, slots, |b, k| {
            let slot = s.slot(b, at, container, k);
            s.drop_slot(b, at, slot, retire);
        });
    }

    fn push(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) -> Value {
        let push = push_function(s, b.env, at);
        call_for(b, push, &[container])
    }

    /// Appends to a full list have raised the length beyond the capacity.
    fn length(&self, b: &mut Builder, (tree, node): At, container: Value) -> Value {
        let most = b.env.trees[tree].nodes[node].cells();
        let most = b.i64(most as i64);
        let length = load(b, tree, container);
        b.binary(BinOp::Min, length, most)
    }

    fn scan_container(
        &self,
        scan: &Scan,
        b: &mut Builder,
        (container, coords): (Value, &[Value]),
        (count, visit): (Value, Visit),
    ) -> Value {
        let data = scan.data();
        let (tree, _) = scan.at();
        let most = b.i64(data.cells() as i64);
        let length = load(b, tree, container);
        let length = b.binary(BinOp::Min, length, most);
        let chunk = chunk(data) as i64;
        let up = plus(b, length, chunk - 1);
        let (chunks, _) = divide(b, up, chunk as u64);
        fold_to(b, chunks, count, |b, k, count| {
            let at = word_at(b, container, k);
            let at = plus(b, at, 8);
            let found = load(b, tree, at);
            let there = not_zero(b, found);
            choose(
                b,
                there,
                |b| {
                    let first = times(b, k, chunk);
                    let left = b.binary(BinOp::Sub, length, first);
                    let all = b.i64(chunk);
                    let extra = b.binary(BinOp::Min, left, all);
                    let entry = Entry {
                        offset: found,
                        extra,
                        first,
                        coords: scan.along_list(coords, k),
                    };
                    scan.visit(b, visit, &entry, count)
                },
                |_| count,
            )
        })
    }

    fn clear(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) {
        let (tree, node) = at;
        let slots = chunks(&b.env.trees[tree].nodes[node]);
        let zero = b.i64(0);
        store(b, tree, container, zero);
        s.drop_slots(b, at, container, slots);
        s.changed(b, tree, node);
    }
}

/// `(container) -> number`, -1 when the list is full or there is no memory.
fn push_function(s: &mut Services, m: &mut Env, at: At) -> Func {
    let (tree, node) = at;
    s.function(m, (Service::Push, tree, node), (1, 1), |s, b, p| {
        let data = b.env.trees[tree].nodes[node].clone();
        let chunk = chunk(&data);
        let exists = s.exists(b, tree, p[0]);
        let none = b.i64(-1);
        let most = b.i64(data.cells() as i64);
        vec![choose(
            b,
            exists,
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
                        let slot = s.slot(b, at, p[0], chunk);
                        let found = s.ensure_slot(b, at, slot);
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
