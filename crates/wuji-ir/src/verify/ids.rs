//! Whether everything an operation mentions exists, so that type rules may look it up.

use crate::entities::{Node, Tree};
use crate::module::{Function, Module};
use crate::ops::*;
use crate::types::Type;
use cranelift_entity::{EntityRef, PrimaryMap};
use std::fmt::Display;

fn known<K: EntityRef + Display, V>(table: &PrimaryMap<K, V>, id: K) -> Result<(), String> {
    if table.is_valid(id) {
        Ok(())
    } else {
        Err(format!("{id} is not defined"))
    }
}

pub(super) fn operation(m: &Module, f: &Function, op: &Op) -> Result<(), String> {
    match op {
        Op::Const(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Compare(_)
        | Op::Select
        | Op::Fma
        | Op::Convert(_)
        | Op::Bitcast(_)
        | Op::Extract(_)
        | Op::Insert(_)
        | Op::ExtractDyn
        | Op::InsertDyn
        | Op::Shuffle(_)
        | Op::MatMul
        | Op::Transpose
        | Op::Dot
        | Op::Cross
        | Op::Outer
        | Op::Determinant
        | Op::Inverse
        | Op::Reduce(_)
        | Op::If
        | Op::Loop(_)
        | Op::For(..)
        | Op::Block(_)
        | Op::ForEach(_, Domain::Range { .. }, _)
        | Op::Random
        | Op::RandomKey
        | Op::Iteration
        | Op::Thread(_)
        | Op::AssumeRange(..)
        | Op::CheckIndex(_) => Ok(()),
        Op::Splat(ty) | Op::Compose(ty) => value_type(m, *ty),
        Op::Load(a) | Op::Store(a) | Op::Atomic(_, a) | Op::CompareExchange(a) => match a.place {
            Place::Field(id) => known(&m.fields, id),
            Place::Array(id) => known(&m.arrays, id),
            Place::Local(id) => known(&f.locals, id),
            Place::Temp(id) => known(&m.temps, id),
        },
        Op::Cache(id) | Op::Cell(_, id) => known(&m.fields, *id),
        Op::TreeAccess(_, tree, node) => walk(m, *tree, *node),
        Op::ArrayExtent(a, _) | Op::ArrayStride(a, _) => known(&m.arrays, *a),
        Op::MemLoad(space, ty) => {
            value_type(m, *ty)?;
            memory(m, space)
        }
        Op::MemStore(space) | Op::MemAtomic(_, space, _) | Op::MemCompareExchange(space) => {
            memory(m, space)
        }
        Op::LoadInterleaved(rows) | Op::StoreInterleaved(rows) => {
            rows.columns.iter().try_for_each(|(s, _)| memory(m, s))
        }
        Op::AddInterleaved(spaces) => spaces.iter().try_for_each(|s| memory(m, s)),
        Op::ForEach(_, Domain::Field(id), _) => known(&m.fields, *id),
        Op::Call(id) => known(&m.funcs, *id),
        Op::Print(id) | Op::Assert(id) => known(&m.messages, *id),
        Op::Report(id) => known(&m.sites, *id),
    }
}

pub(super) fn value_type(m: &Module, ty: Type) -> Result<(), String> {
    match ty {
        Type::Struct(id) => known(&m.structs.0, id),
        Type::Vector(_, 0) | Type::Matrix(_, 0, _) | Type::Matrix(_, _, 0) => {
            Err(format!("`{ty}` has no components"))
        }
        Type::Scalar(_) | Type::Vector(..) | Type::Matrix(..) => Ok(()),
    }
}

/// A sparse node of a tree.
pub(super) fn walk(m: &Module, tree: Tree, node: Node) -> Result<(), String> {
    known(&m.trees, tree)?;
    let kind = match m.trees[tree].nodes.get(node) {
        Some(data) => data.kind,
        None => return Err(format!("{tree}.{node} is not defined")),
    };
    if kind.is_sparse() {
        Ok(())
    } else {
        Err(format!(
            "{tree}.{node} is a {} node; none of its cells can be absent",
            kind.name()
        ))
    }
}

fn memory(m: &Module, space: &Space) -> Result<(), String> {
    match space {
        Space::Tree(tree, field) | Space::Private(tree, field) => {
            known(&m.trees, *tree)?;
            known(&m.fields, *field)?;
            let home: Tree = m.fields[*field].tree;
            if home == *tree {
                Ok(())
            } else {
                Err(format!("{field} is in {home}, not in {tree}"))
            }
        }
        Space::Nodes(tree) | Space::Bytes(tree) | Space::Streamed(tree) => known(&m.trees, *tree),
        Space::Array(array) => known(&m.arrays, *array),
        Space::Temps => Ok(()),
    }
}
