//! Expands tree accesses: the common case stays inline, the rare one is a call of one function per node.

use super::kinds::level_functions;
use super::words::*;
use super::{Service, Services};
use crate::options::Target;
use smallvec::smallvec;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Func, Node, Tree, Value};
use wuji_ir::layout::GPU_VECTOR;
use wuji_ir::module::{Env, Values};
use wuji_ir::ops::*;

/// Emits a tree access; returns its results.
pub fn expand(
    s: &mut Services,
    b: &mut Builder,
    (op, tree, node): (TreeAccessOp, Tree, Node),
    operands: &[Value],
) -> Values {
    let at = (tree, node);
    let level = level_functions(b.env.trees[tree].nodes[node].kind);
    match op {
        TreeAccessOp::Find => {
            let cell = level.find(s, b, at, operands);
            smallvec![s.aligned(b, at, cell)]
        }
        TreeAccessOp::Ensure => {
            let cell = level.ensure(s, b, at, operands);
            smallvec![s.aligned(b, at, cell)]
        }
        TreeAccessOp::Test => smallvec![level.test(b, at, operands[0], operands[1])],
        TreeAccessOp::Touch => {
            let active = level.test(b, at, operands[0], operands[1]);
            let inactive = b.value(Op::Unary(UnOp::Not), &[active]);
            let touch = s.touch_function(b.env, tree, node);
            when(b, inactive, |b| {
                call(b, touch, operands);
            });
            Values::new()
        }
        TreeAccessOp::Drop => {
            let drop = level.drop_function(s, b.env, at, operands.len());
            call(b, drop, operands);
            Values::new()
        }
        TreeAccessOp::Push => {
            let mut found = level.push(s, b, at, operands[0]);
            found[1] = s.aligned(b, at, found[1]);
            found
        }
        TreeAccessOp::Length => smallvec![level.length(b, at, operands[0])],
        TreeAccessOp::Entry => {
            let mut words = s.entry(b, tree, node, operands[0]);
            words[0] = s.aligned(b, at, words[0]);
            words
        }
    }
}

impl Services {
    /// The offset of an allocated cell, or of a container, in a form that shows its alignment: a GPU loads vectors from aligned
    /// addresses only.
    fn aligned(&self, b: &mut Builder, (tree, node): (Tree, Node), offset: Value) -> Value {
        let memory = &self.memory[tree];
        let alignment = match &self.node(tree, node).arena {
            Some(arena) => arena.alignment(),
            None => memory.container_alignment(&b.env.trees[tree], node),
        };
        if self.target == Target::Cpu || alignment < GPU_VECTOR {
            return offset;
        }
        let mask = b.i64(-(alignment as i64));
        b.binary(BinOp::And, offset, mask)
    }

    /// `(container, number)`: the cell becomes active.
    fn touch_function(&mut self, m: &mut Env, tree: Tree, node: Node) -> Func {
        self.function(m, (Service::Touch, tree, node), (2, 0), |s, b, p| {
            let exists = s.exists(b, tree, p[0]);
            let level = level_functions(b.env.trees[tree].nodes[node].kind);
            when(b, exists, |b| level.touch(s, b, (tree, node), p[0], p[1]));
            Vec::new()
        })
    }
}
