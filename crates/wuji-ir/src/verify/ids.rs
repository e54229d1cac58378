//! Verifies that everything an operation refers to exists, so that type rules may look it up.

use super::MAX_COMPONENTS;
use crate::entities::{Array, Field, Func, Label, Message, Node, Site, Tree};
use crate::module::{Function, Module};
use crate::ops::*;
use crate::types::{Imm, Scalar, Type};
use cranelift_entity::{EntityRef, PrimaryMap};
use smallvec::SmallVec;
use std::fmt::Display;

fn known<K: EntityRef + Display, V>(table: &PrimaryMap<K, V>, id: K) -> Result<(), String> {
    if table.is_valid(id) {
        Ok(())
    } else {
        Err(format!("{id} is not defined"))
    }
}

/// An immediate of an operation: a part that is not a value.
pub(crate) trait Immediate {
    /// Verifies that what it refers to exists.
    fn verify(&self, m: &Module, f: &Function) -> Result<(), String>;
}

/// Immediates that refer to nothing.
macro_rules! plain {
    ($($ty:ty),* $(,)?) => {
        $(impl Immediate for $ty {
            fn verify(&self, _: &Module, _: &Function) -> Result<(), String> {
                Ok(())
            }
        })*
    };
}

plain!(u8, u32, i64, Option<u64>, SmallVec<[u8; 4]>);
plain!(
    Imm, Scalar, UnOp, BinOp, CmpOp, ReduceOp, AlgebraOp, AtomicOp, CellOp, ThreadOp, Sharing
);
// Labels are verified with the regions around them, and nodes with their trees.
plain!(Label, ForKind, LoopHints, TreeAccessOp, Node);

/// Immediates that are rows of a table of the module.
macro_rules! entities {
    ($($ty:ty: $table:ident),* $(,)?) => {
        $(impl Immediate for $ty {
            fn verify(&self, m: &Module, _: &Function) -> Result<(), String> {
                known(&m.$table, *self)
            }
        })*
    };
}

entities!(Array: arrays, Field: fields, Func: funcs, Message: messages, Site: sites, Tree: trees);

impl Immediate for Type {
    fn verify(&self, m: &Module, _: &Function) -> Result<(), String> {
        value_type(m, *self)
    }
}

impl Immediate for Access {
    fn verify(&self, m: &Module, f: &Function) -> Result<(), String> {
        match self.place {
            Place::Field(id) => known(&m.fields, id),
            Place::Array(id) => known(&m.arrays, id),
            Place::Local(id) => known(&f.locals, id),
            Place::Temp(id) => known(&m.temps, id),
        }
    }
}

impl Immediate for Domain {
    fn verify(&self, m: &Module, _: &Function) -> Result<(), String> {
        match self {
            Domain::Field(id) => known(&m.fields, *id),
            Domain::Range { .. } => Ok(()),
        }
    }
}

impl Immediate for Space {
    fn verify(&self, m: &Module, _: &Function) -> Result<(), String> {
        memory(m, self)
    }
}

impl Immediate for Interleaved {
    fn verify(&self, m: &Module, _: &Function) -> Result<(), String> {
        self.columns.iter().try_for_each(|(s, _)| memory(m, s))?;
        one_origin(self.columns.iter().map(|(s, _)| *s))
    }
}

impl Immediate for SmallVec<[Space; 4]> {
    fn verify(&self, m: &Module, _: &Function) -> Result<(), String> {
        self.iter().try_for_each(|s| memory(m, s))?;
        one_origin(self.iter().copied())
    }
}

pub(super) fn operation(m: &Module, f: &Function, op: &Op) -> Result<(), String> {
    op.verify_immediates(m, f)?;
    if let Op::TreeAccess(_, tree, node) = op {
        walk(m, *tree, *node)?;
    }
    Ok(())
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
