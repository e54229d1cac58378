//! Verifies that everything an operation refers to exists, so that type rules may look it up.

use super::MAX_COMPONENTS;
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
    match op.class() {
        OpClass::Constant(_)
        | OpClass::Elementwise(_)
        | OpClass::Reduce(_)
        | OpClass::Algebra(_)
        | OpClass::Random
        | OpClass::Thread(_) => Ok(()),
        OpClass::Component(op) => match op {
            ComponentOp::Splat(ty) | ComponentOp::Compose(ty) => value_type(m, ty),
            ComponentOp::Extract(_)
            | ComponentOp::Insert(_)
            | ComponentOp::ExtractDyn
            | ComponentOp::InsertDyn
            | ComponentOp::Shuffle(_) => Ok(()),
        },
        OpClass::Query(op) => match op {
            QueryOp::ArrayExtent(a, _) | QueryOp::ArrayStride(a, _) => known(&m.arrays, a),
            QueryOp::RandomKey | QueryOp::Iteration => Ok(()),
        },
        OpClass::Hint(op) => match op {
            HintOp::AssumeRange(..) | HintOp::Unique(_) => Ok(()),
            HintOp::Cache(id) => known(&m.fields, id),
        },
        OpClass::Access(_, a) => match a.place {
            Place::Field(id) => known(&m.fields, id),
            Place::Array(id) => known(&m.arrays, id),
            Place::Local(id) => known(&f.locals, id),
            Place::Temp(id) => known(&m.temps, id),
        },
        OpClass::Cell(_, id) => known(&m.fields, id),
        OpClass::TreeAccess(_, tree, node) => walk(m, tree, node),
        OpClass::Memory(op) => memory_op(m, op),
        OpClass::Control(op) => match op {
            ControlOp::ForEach(_, Domain::Field(id), _) => known(&m.fields, *id),
            ControlOp::ForEach(_, Domain::Range { .. }, _)
            | ControlOp::If
            | ControlOp::Block(_)
            | ControlOp::Loop(_)
            | ControlOp::For(..) => Ok(()),
        },
        OpClass::Call(id) => known(&m.funcs, id),
        OpClass::Check(op) => match op {
            CheckOp::Print(id) | CheckOp::Assert(id) => known(&m.messages, id),
            CheckOp::Index(_) => Ok(()),
            CheckOp::Report(id) => known(&m.sites, id),
        },
    }
}

fn memory_op(m: &Module, op: MemoryOp<'_>) -> Result<(), String> {
    match op {
        MemoryOp::Load(space, ty) => {
            value_type(m, ty)?;
            memory(m, &space)
        }
        MemoryOp::Store(space)
        | MemoryOp::Atomic(_, space, _)
        | MemoryOp::CompareExchange(space) => memory(m, &space),
        MemoryOp::LoadInterleaved(rows) | MemoryOp::StoreInterleaved(rows) => {
            rows.columns.iter().try_for_each(|(s, _)| memory(m, s))?;
            one_origin(rows.columns.iter().map(|(s, _)| *s))
        }
        MemoryOp::AddInterleaved(spaces) => {
            spaces.iter().try_for_each(|s| memory(m, s))?;
            one_origin(spaces.iter().copied())
        }
    }
}

/// A row of interleaved numbers has one offset.
fn one_origin(mut spaces: impl Iterator<Item = Space>) -> Result<(), String> {
    let first = spaces.next().map(Space::origin);
    match spaces.find(|s| Some(s.origin()) != first) {
        None => Ok(()),
        Some(_) => Err("the numbers of a row lie in different trees or arrays".to_owned()),
    }
}

pub(super) fn value_type(m: &Module, ty: Type) -> Result<(), String> {
    match ty {
        Type::Struct(id) => known(&m.structs.0, id),
        Type::Vector(_, 0) | Type::Matrix(_, 0, _) | Type::Matrix(_, _, 0) => {
            Err(format!("`{ty}` has no components"))
        }
        Type::Vector(..) | Type::Matrix(..) if ty.too_large() => {
            Err(format!("`{ty}` has more than {MAX_COMPONENTS} components"))
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
        return Ok(());
    }
    Err(format!(
        "{tree}.{node} is a {} node; none of its cells can be absent",
        kind.name()
    ))
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
