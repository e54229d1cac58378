//! On a GPU, cells are allocated by one counter for recycled cells and one for fresh ones: the threads of a warp add to
//! them together.
//!
//! Recycled cells are a stack. The collection that pushes cells and the launches that pop them take turns, so a cell is
//! where it was, however many are popped: `TAKEN` counts them from the top, `FREE` is the height.

use super::super::Services;
use super::super::words::*;
use super::{cell_or_none, out_of_memory, release, reserve, unless_exhausted};
use wuji_ir::build::Builder;
use wuji_ir::entities::{Node, Tree, Value};
use wuji_ir::layout::header;
use wuji_ir::ops::*;

impl Services {
    /// A recycled cell or a fresh one, 0 when there is no memory.
    pub(super) fn take_from_counters(&mut self, b: &mut Builder, tree: Tree, node: Node) -> Value {
        let cell = self.pop_recycled(b, tree, node);
        let cell = or_else(b, cell, |b| self.next_fresh(b, tree, node));
        or_else(b, cell, |b| out_of_memory(b, tree, node))
    }

    /// A cell that was used before, 0 when there is none. It was cleared when it was collected: other threads might see a
    /// cell before they see that it was cleared here.
    fn pop_recycled(&self, b: &mut Builder, tree: Tree, node: Node) -> Value {
        let arena = self.arena(tree, node);
        let head = self.node(tree, node).header;
        let taken = load_at(b, tree, head + header::TAKEN);
        let height = load_at(b, tree, head + header::FREE);
        let some = b.compare(CmpOp::Lt, taken, height);
        let place = choose(
            b,
            some,
            |b| {
                let one = b.i64(1);
                let taken = add_at(b, tree, head + header::TAKEN, one);
                b.binary(BinOp::Sub, height, taken)
            },
            |b| b.i64(0),
        );
        let zero = b.i64(0);
        let found = b.compare(CmpOp::Gt, place, zero);
        choose(
            b,
            found,
            |b| {
                let base = b.i64(arena.free as i64 - 8);
                let at = word_at(b, base, place);
                load(b, tree, at)
            },
            |_| zero,
        )
    }

    /// A cell that was never used, 0 when there is none.
    fn next_fresh(&self, b: &mut Builder, tree: Tree, node: Node) -> Value {
        let arena = self.arena(tree, node);
        let head = self.node(tree, node).header;
        let high = load_at(b, tree, head + header::HIGH);
        let capacity = self.room(b, tree, node);
        let inside = b.compare(CmpOp::Lt, high, capacity);
        let budgets = self.budgets(b, tree);
        let may = unless_exhausted(b, tree, &budgets, inside);
        let charge = b.i64(self.charge(tree, node) as i64);
        let none = b.i64(-1);
        let number = choose(
            b,
            may,
            |b| {
                // Before a number is claimed, which cannot be returned.
                let granted = reserve(b, tree, &budgets, charge);
                choose(
                    b,
                    granted,
                    |b| {
                        let one = b.i64(1);
                        let number = add_at(b, tree, head + header::HIGH, one);
                        let beyond = b.compare(CmpOp::Ge, number, capacity);
                        when(b, beyond, |b| release(b, tree, &budgets, charge));
                        b.select(beyond, none, number)
                    },
                    |_| none,
                )
            },
            |_| none,
        );
        cell_or_none(b, &arena, number)
    }
}
