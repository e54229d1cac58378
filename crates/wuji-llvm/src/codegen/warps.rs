//! Warp aggregation: one thread acts for the converged threads of its warp. Divergent threads are not waited
//! for.

use super::function::FunctionGen;
use crate::emit::{Fun, Val};
use inkwell::llvm_sys::LLVMAtomicRMWBinOp::LLVMAtomicRMWBinOpAdd;
use inkwell::llvm_sys::LLVMIntPredicate::LLVMIntEQ;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AtomicOp, Op, Space, WARP};
use wuji_ir::types::Imm;

/// A set of threads of a warp, and its leader, the first of them.
struct Peers {
    mask: Val,
    leader: Val,
}

impl FunctionGen<'_, '_, '_> {
    /// The mask of the threads that are converged here.
    fn active(&self) -> Val {
        self.unit.emit.intrinsic("llvm.nvvm.activemask", &[], &[])
    }

    fn peers(&self, mask: Val) -> Peers {
        let e = &self.unit.emit;
        let leader = e.intrinsic("llvm.cttz", &[e.int_ty(32)], &[mask, e.const_bool(true)]);
        Peers { mask, leader }
    }

    /// The leader evaluates `work`; the others get zero.
    fn by_leader(&self, peers: &Peers, work: impl FnOnce() -> Val) -> Val {
        let e = &self.unit.emit;
        let lane = e.intrinsic("llvm.nvvm.read.ptx.sreg.laneid", &[], &[]);
        let before = e.current();
        let lead = e.append_block(self.fun, c"lead");
        let all = e.append_block(self.fun, c"peers");
        e.cond_br(e.icmp(LLVMIntEQ, lane, peers.leader), lead, all);
        e.position(lead);
        let made = work();
        e.br(all);
        e.position(all);
        let ty = e.ty_of(made);
        let own = e.phi(ty);
        e.add_incoming(own, e.zero(ty), before);
        e.add_incoming(own, made, lead);
        own
    }

    /// Broadcasts the leader's value, of 32 or 64 bits.
    fn broadcast_from_leader(&self, peers: &Peers, own: Val, bits: u32) -> Val {
        let e = &self.unit.emit;
        let i32_ty = e.int_ty(32);
        let broadcast = |v: Val| {
            let last = e.const_int(i32_ty, u64::from(WARP - 1));
            let args = [peers.mask, v, peers.leader, last];
            e.intrinsic("llvm.nvvm.shfl.sync.idx.i32", &[], &args)
        };
        if bits == 32 {
            return broadcast(own);
        }
        let half = e.const_i64(32);
        let low = broadcast(e.cast(LLVMOpcode::LLVMTrunc, own, i32_ty));
        let high = e.binary(LLVMOpcode::LLVMLShr, own, half);
        let high = broadcast(e.cast(LLVMOpcode::LLVMTrunc, high, i32_ty));
        let wide = |v: Val| e.cast(LLVMOpcode::LLVMZExt, v, e.i64_ty());
        e.or(wide(low), e.binary(LLVMOpcode::LLVMShl, wide(high), half))
    }

    /// For each set of converged threads with equal arguments, one thread calls the function, and all get the
    /// result.
    pub(super) fn call_once(&self, fun: Fun, args: &[Val]) -> Val {
        let e = &self.unit.emit;
        let active = self.active();
        let mut mask = active;
        for arg in &args[1..] {
            let same = e.intrinsic("llvm.nvvm.match.any.sync.i64", &[], &[active, *arg]);
            mask = e.and(mask, same);
        }
        let peers = self.peers(mask);
        let made = self.by_leader(&peers, || e.call(fun, args));
        self.broadcast_from_leader(&peers, made, 64)
    }

    /// Looks through widened offsets.
    fn is_constant(&self, value: Value) -> bool {
        let def = self.f.def(value).map(|inst| &self.f.insts[inst]);
        def.is_some_and(|data| {
            matches!(data.op, Op::Const(_))
                || matches!(data.op, Op::Convert(_)) && self.is_constant(data.args[0])
        })
    }

    /// The addend, if all threads add the same value to the same address.
    pub(super) fn added_by_all(
        &self,
        op: AtomicOp,
        space: Space,
        offset: Value,
        operand: Value,
    ) -> Option<Imm> {
        let common = self.unit.gpu.is_some()
            && op == AtomicOp::Add
            && matches!(space, Space::Nodes(_) | Space::Tree(..))
            && self.is_constant(offset);
        let number = self.f.constant(operand).filter(|_| common)?;
        (number.ty.is_int() && number.ty.bits() >= 32).then_some(number)
    }

    /// One converged thread adds for all of them. Each gets the old value of some sequential order; an unused
    /// old value is not broadcast.
    pub(super) fn add_for_all(
        &mut self,
        space: Space,
        offset: Value,
        number: Imm,
        used: bool,
    ) -> Result<Val> {
        let at = self.address(space, offset)?;
        let e = &self.unit.emit;
        let (i32_ty, bits) = (e.int_ty(32), number.ty.bits());
        let ty = e.int_ty(bits);
        let number = e.const_bits(number.ty, number.bits());
        let times = |count: Val| {
            let count = match bits {
                32 => count,
                _ => e.cast(LLVMOpcode::LLVMZExt, count, ty),
            };
            e.binary(LLVMOpcode::LLVMMul, number, count)
        };
        let ones = |mask: Val| e.intrinsic("llvm.ctpop", &[i32_ty], &[mask]);
        let peers = self.peers(self.active());
        let old = self.by_leader(&peers, || {
            let old = e.atomic_rmw(LLVMAtomicRMWBinOpAdd, at, times(ones(peers.mask)));
            self.mark(old, space);
            old
        });
        if !used {
            return Ok(old);
        }
        let first = self.broadcast_from_leader(&peers, old, bits);
        let below = e.intrinsic("llvm.nvvm.read.ptx.sreg.lanemask.lt", &[], &[]);
        Ok(e.add(first, times(ones(e.and(peers.mask, below)))))
    }
}
