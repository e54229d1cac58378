//! What one thread does for those of its warp that run in step with it. Nobody waits for a thread that is elsewhere.

use super::function::FunctionGen;
use crate::emit::{Fun, Val};
use inkwell::llvm_sys::LLVMAtomicRMWBinOp::LLVMAtomicRMWBinOpAdd;
use inkwell::llvm_sys::LLVMIntPredicate::LLVMIntEQ;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AtomicOp, Op, Space, WARP};
use wuji_ir::types::Imm;

/// Threads of a warp, and the first of them, which does what they all want.
struct Peers {
    mask: Val,
    leader: Val,
}

impl FunctionGen<'_, '_, '_> {
    /// Threads that run in step, as it happens.
    fn active(&self) -> Val {
        self.unit.emit.intrinsic("llvm.nvvm.activemask", &[], &[])
    }

    fn peers(&self, mask: Val) -> Peers {
        let e = &self.unit.emit;
        let leader = e.intrinsic("llvm.cttz", &[e.int_ty(32)], &[mask, e.const_bool(true)]);
        Peers { mask, leader }
    }

    /// The leader does something that gives a number; the others have zero.
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

    /// What the leader has, of 32 or 64 bits.
    fn told_by_leader(&self, peers: &Peers, own: Val, bits: u32) -> Val {
        let e = &self.unit.emit;
        let i32_ty = e.int_ty(32);
        let told = |v: Val| {
            let last = e.const_int(i32_ty, u64::from(WARP - 1));
            let args = [peers.mask, v, peers.leader, last];
            e.intrinsic("llvm.nvvm.shfl.sync.idx.i32", &[], &args)
        };
        if bits == 32 {
            return told(own);
        }
        let half = e.const_i64(32);
        let low = told(e.cast(LLVMOpcode::LLVMTrunc, own, i32_ty));
        let high = e.binary(LLVMOpcode::LLVMLShr, own, half);
        let high = told(e.cast(LLVMOpcode::LLVMTrunc, high, i32_ty));
        let wide = |v: Val| e.cast(LLVMOpcode::LLVMZExt, v, e.i64_ty());
        e.or(wide(low), e.binary(LLVMOpcode::LLVMShl, wide(high), half))
    }

    /// Of the threads that run in step and want the same, one calls a function of words that gives a word.
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
        self.told_by_leader(&peers, made, 64)
    }

    /// Offsets may have been narrower before.
    fn is_constant(&self, value: Value) -> bool {
        let def = self.f.def(value).map(|inst| &self.f.insts[inst]);
        def.is_some_and(|data| {
            matches!(data.op, Op::Const(_))
                || matches!(data.op, Op::Convert(_)) && self.is_constant(data.args[0])
        })
    }

    /// The number that all threads add at one place, if it is so.
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

    /// Of the threads that run in step, one adds a number for all of them. Each gets what it would have found had they come one after
    /// the other; what nobody uses is not told.
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
        let first = self.told_by_leader(&peers, old, bits);
        let below = e.intrinsic("llvm.nvvm.read.ptx.sreg.lanemask.lt", &[], &[]);
        Ok(e.add(first, times(ones(e.and(peers.mask, below)))))
    }
}
