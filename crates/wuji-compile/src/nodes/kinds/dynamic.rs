//! Dynamic nodes: a length, and slots that point to chunks of cells.

use crate::analysis::affine::Affine;
use crate::nodes::level::{At, LevelFunctions, PathStep};
use crate::nodes::lists::{Entry, Scan, Visit};
use crate::nodes::words::*;
use crate::nodes::{Service, Services};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Value};
use wuji_ir::layout::NodeData;
use wuji_ir::module::{Env, Values};
use wuji_ir::ops::*;
use wuji_ir::types::I64;

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
        let chunks = chunks(path.data()) as i64;
        [container, Affine::constant(0), Affine::constant(chunks)]
            .iter()
            .map(|operand| path.materialize(operand))
            .collect()
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
        let &[container, first, count] = operands else {
            return;
        };
        let zero = b.i64(0);
        let old = atomic(b, AtomicOp::Exchange, tree, container, zero);
        let some = not_zero(b, old);
        when(b, some, |b| s.changed(b, tree, node));
        let retire = s.retire(b.env, tree, node);
        count_to(b, count, |b, k| {
            let number = b.binary(BinOp::Add, first, k);
            let slot = s.slot(b, at, container, number);
            s.drop_slot(b, at, slot, retire);
        });
    }

    fn push(&self, s: &mut Services, b: &mut Builder, at: At, container: Value) -> Values {
        let push = push_function(s, b.env, at);
        let call = b.push(Op::Call(push), &[container]);
        b.func.insts[call].results.iter().copied().collect()
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

/// `(container) -> (number, chunk)`: -1 when the list is full or there is no memory.
fn push_function(s: &mut Services, m: &mut Env, at: At) -> Func {
    let (tree, node) = at;
    s.function(m, (Service::Push, tree, node), (1, 2), |s, b, p| {
        let data = b.env.trees[tree].nodes[node].clone();
        // The atomic additions of a warp to a known address are combined.
        let container = match s.only_container(b.env, at) {
            Some(offset) => b.i64(offset as i64),
            None => p[0],
        };
        let exists = s.exists(b, tree, container);
        let (none, zero) = (b.i64(-1), b.i64(0));
        let failed: Values = [none, zero].into_iter().collect();
        let pushed = choose_both(b, exists, &failed, |b| {
            s.changed_unordered(b, tree, node);
            let one = b.i64(1);
            let number = atomic(b, AtomicOp::Add, tree, container, one);
            let most = b.i64(data.cells() as i64);
            let fits = b.compare(CmpOp::Lt, number, most);
            choose_both(b, fits, &failed, |b| {
                let (chunk, _) = divide(b, number, chunk(&data));
                let slot = s.slot(b, at, container, chunk);
                let found = s.ensure_slot(b, at, slot);
                let got = not_zero(b, found);
                let number = b.select(got, number, none);
                [number, found].into_iter().collect()
            })
        });
        pushed.to_vec()
    })
}

/// `if` with two numbers as its results.
fn choose_both(
    b: &mut Builder,
    cond: Value,
    otherwise: &Values,
    then: impl FnOnce(&mut Builder) -> Values,
) -> Values {
    let branch = b.if_else(cond, &[I64, I64], then, |_| otherwise.clone());
    b.func.insts[branch].results.iter().copied().collect()
}
