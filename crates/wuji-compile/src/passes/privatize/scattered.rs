//! What a task only updates, each by one operation whose old value is not used.

use crate::analysis::uses::used_values;
use rustc_hash::FxHashSet;
use std::hash::Hash;
use wuji_ir::entities::Field;
use wuji_ir::infer;
use wuji_ir::module::{Env, Function, Module, Slice};
use wuji_ir::ops::{AtomicOp, Op, Sharing, Space};
use wuji_ir::types::Type;

/// Fields that a task only updates, outside of their slices in any way, and of which all elements exist.
pub(super) fn scattered_fields(
    m: &Module,
    f: &Function,
    slices: &[Slice],
) -> Vec<(Field, AtomicOp)> {
    // Loads and stores are outside of the slice.
    let outside = |op: &Op, field: Field| {
        let plain = matches!(op, Op::MemLoad(..) | Op::MemStore(_));
        plain && slices.iter().any(|s| s.field == field)
    };
    let mut found = scattered(m, f, field_of, outside);
    found.retain(|(field, op)| {
        let data = &m.fields[*field];
        let exists = m.trees[data.tree].sparse_path(data.node).is_empty();
        exists && merges(m, data.elem, *op)
    });
    found
}

/// Whether an operation can be applied to whole elements, as merging does.
pub(super) fn merges(m: &Env, elem: Type, op: AtomicOp) -> bool {
    let scalars = m.structs.flatten(elem);
    scalars.iter().all(|s| infer::atomic(op, *s).is_ok())
}

/// The fields or arrays that a function only updates. `of` says which one a space belongs to; accesses that are `outside` of the
/// updated part do not matter.
pub(super) fn scattered<K: Copy + Eq + Hash>(
    m: &Module,
    f: &Function,
    of: impl Fn(&Space) -> Option<K>,
    outside: impl Fn(&Op, K) -> bool,
) -> Vec<(K, AtomicOp)> {
    let used = used_values(f);
    let accessed = |op: &Op| of(&op.space()?);
    let mut found: Vec<(K, AtomicOp)> = Vec::new();
    let mut spoiled: FxHashSet<K> = FxHashSet::default();
    for callee in m.called_from(f) {
        let callee = &m.funcs[callee];
        callee.walk(|inst| spoiled.extend(accessed(&callee.insts[inst].op)));
    }
    f.walk(|inst| {
        let data = &f.insts[inst];
        let Some(key) = accessed(&data.op) else {
            return;
        };
        let Op::MemAtomic(op, _, Sharing::Shared) = &data.op else {
            spoiled.extend((!outside(&data.op, key)).then_some(key));
            return;
        };
        let known = found.iter().find(|(other, _)| *other == key);
        let same = known.is_none_or(|(_, other)| other == op);
        if *op == AtomicOp::Exchange || used.contains(&data.results[0]) || !same {
            spoiled.insert(key);
        } else if known.is_none() {
            found.push((key, *op));
        }
    });
    found.retain(|(key, _)| !spoiled.contains(key));
    found
}

/// The field in a space.
fn field_of(space: &Space) -> Option<Field> {
    match space {
        Space::Tree(_, field) | Space::Private(_, field) => Some(*field),
        // Only sparse trees have the first three, and their fields do not qualify.
        Space::Nodes(_) | Space::Bytes(_) | Space::Streamed(_) | Space::Array(_) | Space::Temps => {
            None
        }
    }
}
