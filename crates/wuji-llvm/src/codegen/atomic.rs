//! Atomic updates: relaxed, one scalar at a time, returning the old value.

use super::function::FunctionGen;
use crate::emit::Val;
use inkwell::llvm_sys::LLVMAtomicRMWBinOp::{self, *};
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AtomicOp, BinOp, Space};
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    pub(super) fn mem_atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        offset: Value,
        operand: Value,
    ) -> Result<Val> {
        let at = self.address(space, offset)?;
        self.atomic_at(op, Some(space), at, operand)
    }

    /// An update at an address; without a space, the address is in shared memory.
    pub(super) fn atomic_at(
        &mut self,
        op: AtomicOp,
        space: Option<Space>,
        at: Val,
        operand: Value,
    ) -> Result<Val> {
        let s = self.scalar(operand)?;
        let operand = self.get(operand)?;
        let Some(machine) = machine_op(op, s) else {
            // `machine_op` covers exchanges.
            let op = op.binary().unwrap_or(BinOp::Add);
            return Ok(self.update_loop(op, space, s, at, operand));
        };
        // Floats are exchanged as integers.
        let as_bits = s.is_float() && op == AtomicOp::Exchange;
        let e = &self.unit.emit;
        let value = if as_bits {
            e.bitcast(operand, e.int_ty(s.bits()))
        } else {
            self.storable(operand, s)
        };
        let old = e.atomic_rmw(machine, at, value);
        self.mark_update(old, space);
        if as_bits {
            let e = &self.unit.emit;
            return Ok(e.bitcast(old, e.scalar_ty(s)));
        }
        Ok(self.loaded(old, s))
    }

    fn mark_update(&self, inst: Val, space: Option<Space>) {
        if let Some(space) = space {
            self.mark(inst, space);
        }
    }

    /// An update of memory that no other thread accesses. Iterations of a parallel loop may update the same
    /// element, so these accesses are in no access group.
    pub(super) fn owned_atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        offset: Value,
        operand: Value,
    ) -> Result<Val> {
        let s = self.scalar(operand)?;
        let at = self.address(space, offset)?;
        let lanes = self.lane_count(operand);
        let operand = self.get(operand)?;
        let e = &self.unit.emit;
        let ty = e.memory_ty(s);
        let ty = lanes.map_or(ty, |lanes| e.vector_ty(ty, lanes));
        let word = e.load(ty, at, s.bytes());
        self.unit.scopes.mark(e, word, space);
        let old = self.loaded(word, s);
        let new = match op.binary() {
            None => operand,
            Some(op) => self.binary_op(op, s, (old, operand), self.fast_math(), None),
        };
        let new = self.storable(new, s);
        let e = &self.unit.emit;
        let store = e.store(new, at, s.bytes());
        self.unit.scopes.mark(e, store, space);
        Ok(old)
    }

    /// A compare-exchange loop.
    fn update_loop(
        &mut self,
        op: BinOp,
        space: Option<Space>,
        s: Scalar,
        at: Val,
        operand: Val,
    ) -> Val {
        let e = &self.unit.emit;
        let bits = e.int_ty(s.bits());
        let first = e.load_relaxed(bits, at, s.bytes());
        self.mark_update(first, space);
        let e = &self.unit.emit;
        let before = e.current();
        let head = e.append_block(self.fun, c"update");
        let done = e.append_block(self.fun, c"updated");
        e.br(head);
        e.position(head);
        let seen = e.phi(bits);
        e.add_incoming(seen, first, before);
        let old = if s.is_float() {
            e.bitcast(seen, e.scalar_ty(s))
        } else {
            seen
        };
        let new = self.binary_op(op, s, (old, operand), 0, None);
        let e = &self.unit.emit;
        let new_bits = if s.is_float() {
            e.bitcast(new, bits)
        } else {
            new
        };
        let pair = e.cmpxchg(at, seen, new_bits);
        self.mark_update(pair, space);
        let e = &self.unit.emit;
        let found = e.extract(pair, 0);
        let success = e.extract(pair, 1);
        e.add_incoming(seen, found, e.current());
        e.cond_br(success, done, head);
        e.position(done);
        old
    }

    /// Compares bit patterns.
    pub(super) fn mem_compare_exchange(
        &mut self,
        space: Space,
        offset: Value,
        expected: Value,
        new: Value,
    ) -> Result<Val> {
        let at = self.address(space, offset)?;
        self.compare_exchange_at(Some(space), at, expected, new)
    }

    pub(super) fn compare_exchange_at(
        &mut self,
        space: Option<Space>,
        at: Val,
        expected: Value,
        new: Value,
    ) -> Result<Val> {
        let s = self.scalar(expected)?;
        let to_bits = |g: &Self, v: Val| {
            if s.is_float() {
                g.unit.emit.bitcast(v, g.unit.emit.int_ty(s.bits()))
            } else {
                g.storable(v, s)
            }
        };
        let expected = to_bits(self, self.get(expected)?);
        let new = to_bits(self, self.get(new)?);
        let pair = self.unit.emit.cmpxchg(at, expected, new);
        self.mark_update(pair, space);
        let e = &self.unit.emit;
        let old = e.extract(pair, 0);
        Ok(if s.is_float() {
            e.bitcast(old, e.scalar_ty(s))
        } else {
            self.loaded(old, s)
        })
    }
}

/// The LLVM instruction with exactly this meaning. `None` for integer `mul`, and for float `min`, `max` and
/// `mul`, whose treatment of NaN differs.
fn machine_op(op: AtomicOp, s: Scalar) -> Option<LLVMAtomicRMWBinOp> {
    let float = s.is_float();
    match op {
        AtomicOp::Add if float => Some(LLVMAtomicRMWBinOpFAdd),
        AtomicOp::Add => Some(LLVMAtomicRMWBinOpAdd),
        AtomicOp::Mul => None,
        AtomicOp::Min | AtomicOp::Max if float => None,
        AtomicOp::Min if s.is_signed_int() => Some(LLVMAtomicRMWBinOpMin),
        AtomicOp::Min => Some(LLVMAtomicRMWBinOpUMin),
        AtomicOp::Max if s.is_signed_int() => Some(LLVMAtomicRMWBinOpMax),
        AtomicOp::Max => Some(LLVMAtomicRMWBinOpUMax),
        AtomicOp::And => Some(LLVMAtomicRMWBinOpAnd),
        AtomicOp::Or => Some(LLVMAtomicRMWBinOpOr),
        AtomicOp::Xor => Some(LLVMAtomicRMWBinOpXor),
        AtomicOp::Exchange => Some(LLVMAtomicRMWBinOpXchg),
    }
}
