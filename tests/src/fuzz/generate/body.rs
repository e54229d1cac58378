//! Statements.

use super::Generator;
use super::types::any_int;
use wuji_ir::entities::{Message, Value};
use wuji_ir::format::Format;
use wuji_ir::module::{MessageData, Piece};
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Type};

impl Generator<'_> {
    /// About `count` statements. `false` if control does not reach the end.
    pub(super) fn statements(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if self.budget <= 0 {
                return true;
            }
            if !self.statement() {
                return false;
            }
        }
        true
    }

    fn statement(&mut self) -> bool {
        let deep = self.body.nesting > 5;
        let weights = [
            6,                        // an expression
            5,                        // a local
            9,                        // a write
            if deep { 0 } else { 4 }, // if
            if deep { 0 } else { 5 }, // loops
            if deep { 0 } else { 1 }, // block
            if deep { 0 } else { 2 }, // guarded access
            2,                        // call
            1,                        // print
            1,                        // assert
            1,                        // check_index
            if self.m.trees.values().any(|t| t.is_sparse()) {
                5
            } else {
                0
            }, // cells
        ];
        match self.dice.weighted(&weights) {
            0 => {
                let ty = self.any_type();
                let depth = self.dice.between(1, 4) as usize;
                self.value(ty, depth);
            }
            1 => self.store_local(),
            2 => self.write(),
            3 => return self.branch(),
            4 => {
                if self.dice.chance(50) {
                    self.counted_loop()
                } else {
                    self.for_loop()
                }
            }
            5 => return self.block(),
            6 => self.guarded(),
            7 => self.call(),
            8 => self.print(),
            9 => self.assert(),
            11 => self.change_cells(),
            _ if self.waits => {}
            _ => {
                let s = any_int(self.dice);
                let n = self.dice.between(1, 9) as u32;
                let index = if self.dice.chance(80) {
                    self.any_index((0, u64::from(n)))
                } else {
                    self.value(Type::Scalar(s), 2)
                };
                self.b().push(Op::CheckIndex(n), &[index]);
            }
        }
        true
    }

    /// A write under a condition that keeps an index in range.
    fn guarded(&mut self) {
        let Some((index, lo, hi)) = self.body.indices.last().copied() else {
            return self.write();
        };
        let Some(s) = self.ty(index).as_scalar() else {
            return;
        };
        let low = self.dice.between(lo.saturating_sub(1), hi);
        let high = self.dice.between(low, hi.saturating_add(1));
        let mut b = self.b();
        let (low, high) = (b.int(s, low.into()), b.int(s, high.into()));
        let above = b.compare(CmpOp::Ge, index, low);
        let below = b.compare(CmpOp::Lt, index, high);
        let inside = if self.dice.chance(50) {
            self.b().binary(BinOp::And, above, below)
        } else {
            above
        };
        self.if_statement(inside, |g| {
            g.write();
            g.write();
            true
        });
    }

    /// A message with holes for some values.
    fn message(&mut self) -> (Message, Vec<Value>) {
        let mut pieces = vec![Piece::Text(format!("m{} ", self.m.messages.len()))];
        let mut values = Vec::new();
        for _ in 0..self.dice.below(3) {
            let ty = self.any_type();
            let floats = self.m.structs.flatten(ty).iter().any(|s| s.is_float());
            let mut format = Format::with_precision((floats && self.dice.chance(30)).then_some(2));
            format.width = self.dice.chance(20).then_some(6);
            pieces.push(Piece::Hole { ty, format });
            pieces.push(Piece::Text(" ".to_owned()));
            values.push(self.value(ty, 1));
        }
        (self.m.messages.push(MessageData { pieces }), values)
    }

    fn print(&mut self) {
        if self.waits {
            return;
        }
        let (message, values) = self.message();
        // Not too many lines.
        if self.body.indices.is_empty() || self.dice.chance(20) {
            self.b().push(Op::Print(message), &values);
        } else {
            let condition = self.condition(2);
            self.if_statement(condition, |g| {
                g.b().push(Op::Print(message), &values);
                true
            });
        }
    }

    fn assert(&mut self) {
        if self.waits {
            return;
        }
        let mut condition = self.condition(2);
        if self.dice.chance(85) {
            // True, but not trivially so.
            let other = self.value(BOOL, 1);
            let not = self.b().unary(UnOp::Not, other);
            let either = self.b().binary(BinOp::Or, other, not);
            condition = self.b().binary(BinOp::Or, condition, either);
        }
        let (message, values) = self.message();
        let mut args = vec![condition];
        args.extend(values);
        self.b().push(Op::Assert(message), &args);
    }
}
