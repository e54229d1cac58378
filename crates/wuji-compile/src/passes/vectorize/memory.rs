//! Loads and stores: scalar, contiguous vector, or gather and scatter.

use super::emit::{Emitter, Lanes, Mask, Parts};
use super::shapes::Shape;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::{InstData, Values};
use wuji_ir::ops::{BinOp, Op, Space};
use wuji_ir::types::{Imm, Scalar, Type};

/// The depth to which an offset is narrowed.
const DEPTH: u32 = 24;

impl Emitter<'_> {
    pub(super) fn mem_load(&mut self, inst: Inst, space: Space, ty: Type, mask: &Mask) {
        if let Some((group, leads)) = self.groups.of(inst)
            && (group.can_mask() || matches!(mask, Mask::All))
        {
            if leads {
                self.load_interleaved(group, mask);
            }
            return;
        }
        let data = &self.old.insts[inst];
        let (offset, result) = (data.args[0], data.results[0]);
        let Some(s) = ty.as_scalar() else { return };
        let vector = self.vector(s);
        match self.shapes.shape(offset) {
            Shape::Uniform => {
                let at = self.one(offset);
                let v = self.b.value(Op::MemLoad(space, ty), &[at]);
                self.set(result, Lanes::One(v));
            }
            Shape::Strided(stride) if stride == i64::from(s.bytes()) => {
                let parts = (0..self.parts)
                    .map(|p| {
                        let mut args = Values::new();
                        args.push(self.run(offset, stride, p));
                        if let Mask::Some(m) = mask {
                            args.push(m[p]);
                        }
                        self.b.value(Op::MemLoad(space, vector), &args)
                    })
                    .collect();
                self.set(result, Lanes::Many(parts));
            }
            Shape::Strided(_) | Shape::Varying => {
                let offsets = self.offsets(space, offset);
                let parts = (0..self.parts)
                    .map(|p| {
                        let mut args = Values::new();
                        args.push(offsets[p]);
                        if let Mask::Some(m) = mask {
                            args.push(m[p]);
                        }
                        self.b.value(Op::MemLoad(space, vector), &args)
                    })
                    .collect();
                self.set(result, Lanes::Many(parts));
            }
        }
    }

    pub(super) fn mem_store(&mut self, inst: Inst, space: Space, mask: &Mask) {
        if let Some((group, leads)) = self.groups.of(inst)
            && (group.can_mask() || matches!(mask, Mask::All))
        {
            if leads {
                self.store_interleaved(group, mask);
            }
            return;
        }
        let data = &self.old.insts[inst];
        let (offset, value) = (data.args[0], data.args[1]);
        let bytes = i64::from(self.scalar_of(value).bytes());
        match self.shapes.shape(offset) {
            Shape::Uniform if self.shapes.is_uniform(value) => {
                let args = [self.one(offset), self.one(value)];
                self.b.push(Op::MemStore(space), &args);
            }
            Shape::Strided(stride) if stride == bytes => {
                let values = self.many(value);
                let space = match (space, mask) {
                    (Space::Tree(tree, _), Mask::All) if self.streamed.contains(&inst) => {
                        Space::Streamed(tree)
                    }
                    _ => space,
                };
                for (p, v) in values.iter().enumerate() {
                    let mut args = Values::new();
                    args.extend([self.run(offset, stride, p), *v]);
                    if let Mask::Some(m) = mask {
                        args.push(m[p]);
                    }
                    self.b.push(Op::MemStore(space), &args);
                }
            }
            // If several lanes store to one address, any of the values remains.
            Shape::Uniform | Shape::Strided(_) | Shape::Varying => {
                let offsets = self.offsets(space, offset);
                let values = self.many(value);
                for p in 0..self.parts {
                    let mut args = Values::new();
                    args.extend([offsets[p], values[p]]);
                    if let Mask::Some(m) = mask {
                        args.push(m[p]);
                    }
                    self.b.push(Op::MemStore(space), &args);
                }
            }
        }
    }

    /// The offset of a part of a contiguous access.
    pub(super) fn run(&mut self, offset: Value, stride: i64, part: usize) -> Value {
        let first = self.one(offset);
        if part == 0 {
            return first;
        }
        let distance = stride * i64::from(self.lanes) * part as i64;
        let distance = self.constant(Imm::int(Scalar::I64, i128::from(distance)));
        self.b.binary(BinOp::Add, first, distance)
    }

    /// The offset of each lane, in 32 bits if possible.
    ///
    /// Active lanes are in range, so an offset modulo 2^32 is exact if the memory is smaller than that; inactive
    /// lanes do not matter.
    pub(super) fn offsets(&mut self, space: Space, offset: Value) -> Parts {
        if self.is_small(space) && self.can_narrow(offset, DEPTH) {
            return self.narrow(offset);
        }
        self.many(offset)
    }

    fn is_small(&self, space: Space) -> bool {
        match space {
            Space::Tree(tree, _) | Space::Private(tree, _) => self.small_trees.contains(&tree),
            Space::Nodes(_)
            | Space::Bytes(_)
            | Space::Streamed(_)
            | Space::Array(_)
            | Space::Temps => false,
        }
    }

    /// Whether narrowing helps: a 64-bit number computed from 32-bit ones.
    fn can_narrow(&self, v: Value, depth: u32) -> bool {
        if self.shapes.shape(v) != Shape::Varying {
            return true;
        }
        let Some(def) = self.old.def(v).filter(|_| depth > 0) else {
            return false;
        };
        let data = &self.old.insts[def];
        if let Op::Binary(BinOp::Add | BinOp::Sub | BinOp::Mul) = data.op {
            return data.args.iter().all(|a| self.can_narrow(*a, depth - 1));
        }
        if data.op == Op::Binary(BinOp::Shl) {
            return self.short_shift(data) && self.can_narrow(data.args[0], depth - 1);
        }
        if let Op::Convert(_) = data.op {
            let from = self.scalar_of(data.args[0]);
            return from.is_int() && from.bits() <= 32;
        }
        matches!(data.op, Op::Bitcast(_))
            && self.scalar_of(data.args[0]).is_int()
            && self.can_narrow(data.args[0], depth - 1)
    }

    fn short_shift(&self, data: &InstData) -> bool {
        let amount = self.old.constant(data.args[1]).and_then(Imm::as_int);
        amount.is_some_and(|c| (0..31).contains(&c))
    }

    /// The low 32 bits of a number.
    fn narrow(&mut self, v: Value) -> Parts {
        let to = Scalar::I32;
        if self.shapes.shape(v) != Shape::Varying {
            let lanes = match self.get(v) {
                Lanes::One(v) => Lanes::One(self.cut(v)),
                Lanes::Strided(v, stride) => Lanes::Strided(self.cut(v), stride),
                many @ Lanes::Many(_) => many,
            };
            return self.spread_out(&lanes);
        }
        let Some(def) = self.old.def(v) else {
            return self.many(v);
        };
        let data = &self.old.insts[def];
        if let Op::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Shl)) = data.op {
            let a = self.narrow(data.args[0]);
            let b = self.narrow(data.args[1]);
            return (0..self.parts)
                .map(|p| self.b.binary(op, a[p], b[p]))
                .collect();
        }
        if let Op::Bitcast(_) = data.op {
            return self.narrow(data.args[0]);
        }
        let source = self.many(data.args[0]);
        source.iter().map(|v| self.b.convert(*v, to)).collect()
    }

    fn cut(&mut self, v: Value) -> Value {
        match self.b.func.constant(v).and_then(Imm::as_int) {
            Some(number) => self.constant(Imm::int(Scalar::I32, number)),
            None => self.b.convert(v, Scalar::I32),
        }
    }
}
