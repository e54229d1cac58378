//! What kernels do to the cells of fields: ask, activate, deactivate, append.

use super::MISTAKE;
use super::binding::{Data, Val};
use super::body::{Body, get};
use crate::lang::ast::{At, Cell, Expr, Node};
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::infer::dynamic_index;
use wuji_ir::module::Values;
use wuji_ir::ops::{CellOp, CmpOp, Op, Place};
use wuji_ir::types::Scalar;

impl Body<'_, '_> {
    pub(super) fn cell(
        &mut self,
        at: At,
        op: Cell,
        var: u32,
        indices: &'static [Expr],
        value: Option<Node>,
    ) -> Result<Val> {
        let name = self.name(var);
        let Data::Field(field) = self.data(at, var)? else {
            return Err(self.fail(at, MISTAKE, format!("`{name}` is not a field")));
        };
        let m = &self.cx.module;
        let (rank, elem) = (m.fields[field].rank(), m.fields[field].elem);
        let node = m.trees[m.fields[field].tree].nodes[m.fields[field].node].kind;
        let listed = matches!(op, Cell::Append | Cell::Length);
        let list = dynamic_index(m, field);
        if listed && list.is_err() {
            let kind = node.name();
            return Err(self
                .fail(
                    at,
                    "W0250",
                    format!("`{name}` is in a {kind} node, which is not a list"),
                )
                .help("lists are made with `dynamic` in the layout"));
        }
        if op == Cell::Deactivate && !node.is_sparse() {
            let kind = node.name();
            return Err(self
                .fail(
                    at,
                    "W0251",
                    format!(
                        "`{name}` is in a {kind} node, whose cells cannot be deactivated one by one"
                    ),
                )
                .note("they come and go with the cell around them")
                .help("take the cells of a sparse node above: `node.cells(..)` in the layout, `&Cells<D>` in the kernel"));
        }
        let indices = get!(self.index_values(at, indices, rank - usize::from(listed)));
        let value = match value {
            Some(value) => Some(get!(self.value(value))),
            None => None,
        };
        self.at(at);
        let op = match op {
            Cell::IsActive => CellOp::IsActive,
            Cell::Activate => CellOp::Activate,
            Cell::Deactivate => CellOp::Deactivate,
            Cell::Append => CellOp::Append,
            Cell::Length => CellOp::Length,
        };
        let inst = self.push(Op::Cell(op, field), &indices);
        let Some(&result) = self.f.insts[inst].results.first() else {
            return Ok(Val::Unit);
        };
        if let (Some(value), Ok(list)) = (value, list) {
            debug_assert_eq!(self.ty(value), elem);
            let mut indices = indices.to_vec();
            indices.insert(list, result);
            self.store_if_there(field, result, &indices, value);
        }
        Ok(Val::Value(result))
    }

    /// Stores to the new element of a list, unless there was no room for it.
    fn store_if_there(
        &mut self,
        field: Field,
        number: wuji_ir::entities::Value,
        indices: &[wuji_ir::entities::Value],
        value: wuji_ir::entities::Value,
    ) {
        let zero = self.int(Scalar::I32, 0);
        let there = self.compare(CmpOp::Ge, number, zero);
        self.build().if_else(
            there,
            &[],
            |b| {
                b.store(Place::Field(field), indices, value);
                Values::new()
            },
            |_| Values::new(),
        );
    }
}
