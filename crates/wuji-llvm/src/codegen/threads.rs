//! SIMT operations: thread indices, barriers, votes and shuffles.
//!
//! Passes guarantee convergence: all threads of a warp, or of a block, that have not exited reach the same
//! instruction. So participant masks have all bits set; exited threads are ignored.

use super::function::FunctionGen;
use super::gpu::SHARED;
use crate::emit::{Ty, Val};
use inkwell::llvm_sys::LLVMIntPredicate::{LLVMIntEQ, LLVMIntNE};
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{Shuffle, ThreadOp, WARP};
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    /// An array in shared memory.
    pub(super) fn shared_array(&mut self, elem: Ty, len: u32, bytes: u32) -> Val {
        let e = &self.unit.emit;
        let align = if len >= 4 { 16 } else { bytes };
        let shared = e.add_global(e.array_ty(elem, u64::from(len)), SHARED, align);
        e.cast(LLVMOpcode::LLVMAddrSpaceCast, shared, e.ptr_ty())
    }

    /// Returns `None` for operations without a result.
    pub(super) fn thread_op(&mut self, op: ThreadOp, args: &[Value]) -> Result<Option<Val>> {
        let given = self.all(args)?;
        let e = &self.unit.emit;
        let i32_ty = e.int_ty(32);
        let number = |n: u32| e.const_int(i32_ty, u64::from(n));
        let full_mask = number(u32::MAX);
        let call = |name: &str, args: &[Val]| e.intrinsic(&format!("llvm.nvvm.{name}"), &[], args);
        let register = |name: &str| Some(call(&format!("read.ptx.sreg.{name}"), &[]));
        let reduce = |name: &str| {
            let name = format!("barrier.cta.red.{name}.aligned.all");
            Some(call(&name, &[number(0), given[0]]))
        };
        Ok(match op {
            ThreadOp::Index => {
                let own = register("tid.x");
                if let (Some(v), Some(threads)) = (own, self.threads) {
                    let bound = |n: u32| e.md_value(number(n));
                    e.set_md(v, e.kinds.range, e.md_node(&[bound(0), bound(threads)]));
                }
                own
            }
            ThreadOp::BlockSize => register("ntid.x"),
            ThreadOp::Block => register("ctaid.x"),
            ThreadOp::Blocks => register("nctaid.x"),
            ThreadOp::Lane => register("laneid"),
            ThreadOp::ActiveMask => Some(call("activemask", &[])),
            ThreadOp::Barrier => {
                self.barrier();
                None
            }
            ThreadOp::BarrierAll => reduce("and"),
            ThreadOp::BarrierAny => reduce("or"),
            ThreadOp::BarrierCount => reduce("popc"),
            ThreadOp::Ballot => Some(call("vote.ballot.sync", &[full_mask, given[0]])),
            ThreadOp::MatchAny => {
                let s = self.scalar(args[0])?;
                let bits = self.word(given[0], s);
                let name = match s.bits() {
                    64 => "match.any.sync.i64",
                    _ => "match.any.sync.i32",
                };
                Some(call(name, &[full_mask, bits]))
            }
            ThreadOp::Shuffle(kind) => {
                let s = self.scalar(args[0])?;
                Some(self.shuffled(kind, given[0], s, given[1]))
            }
            ThreadOp::Segment => {
                let s = self.scalar(args[0])?;
                Some(self.segment(given[0], s))
            }
            ThreadOp::SegmentSum => {
                let s = self.scalar(args[1])?;
                Some(self.segment_sum(given[0], given[1], s))
            }
            ThreadOp::WarpBarrier => {
                call("bar.warp.sync", &[full_mask]);
                None
            }
            ThreadOp::BlockFence => {
                call("membar.cta", &[]);
                None
            }
            ThreadOp::GridFence => {
                call("membar.gl", &[]);
                None
            }
        })
    }

    fn segment(&self, key: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        let number = |n: u32| e.const_int(e.int_ty(32), u64::from(n));
        let call = |name: &str, args: &[Val]| e.intrinsic(&format!("llvm.nvvm.{name}"), &[], args);
        let lane = call("read.ptx.sreg.laneid", &[]);
        let before = self.shuffled(Shuffle::Up, key, s, number(1));
        let differs = e.icmp(LLVMIntNE, self.word(before, s), self.word(key, s));
        let first = e.or(differs, e.icmp(LLVMIntEQ, lane, number(0)));
        let firsts = call("vote.ballot.sync", &[number(u32::MAX), first]);
        // The own segment begins at the highest of these bits, and ends before the lowest of those.
        let up_to_here = call("read.ptx.sreg.lanemask.le", &[]);
        let leading =
            |mask: Val| e.intrinsic("llvm.ctlz", &[e.int_ty(32)], &[mask, e.const_bool(false)]);
        let begin = e.sub(number(WARP - 1), leading(e.and(firsts, up_to_here)));
        let later = e.and(firsts, call("read.ptx.sreg.lanemask.gt", &[]));
        let below_later = e.and(e.sub(later, number(1)), e.xor(later, number(u32::MAX)));
        let from_begin = e.binary(LLVMOpcode::LLVMShl, number(u32::MAX), begin);
        e.and(below_later, from_begin)
    }

    fn segment_sum(&self, segment: Val, value: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        let number = |n: u32| e.const_int(e.int_ty(32), u64::from(n));
        let lane = e.intrinsic("llvm.nvvm.read.ptx.sreg.laneid", &[], &[]);
        let from_here = e.binary(LLVMOpcode::LLVMLShr, segment, lane);
        let mut sum = value;
        let mut distance = 1;
        while distance < WARP {
            let other = self.shuffled(Shuffle::Down, sum, s, number(distance));
            let bit = e.and(from_here, number(1 << distance));
            let both = if s.is_float() {
                e.binary(LLVMOpcode::LLVMFAdd, sum, other)
            } else {
                e.add(sum, other)
            };
            sum = e.select(e.icmp(LLVMIntNE, bit, number(0)), both, sum);
            distance *= 2;
        }
        sum
    }

    pub(super) fn barrier(&self) {
        let e = &self.unit.emit;
        let first = e.const_int(e.int_ty(32), 0);
        e.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[first]);
    }

    /// Exits the thread; barriers do not wait for it.
    pub(super) fn end_thread(&self) {
        self.unit.emit.intrinsic("llvm.nvvm.exit", &[], &[]);
    }

    /// The bits of a scalar as a 32-bit or 64-bit integer.
    fn word(&self, v: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        let bits = if s.is_float() {
            e.bitcast(v, e.int_ty(s.bits()))
        } else {
            v
        };
        match s {
            Scalar::Bool => e.cast(LLVMOpcode::LLVMZExt, bits, e.int_ty(32)),
            s if s.bits() < 32 => e.cast(LLVMOpcode::LLVMZExt, bits, e.int_ty(32)),
            _ => bits,
        }
    }

    /// The value of another lane.
    pub(super) fn shuffled(&self, kind: Shuffle, v: Val, s: Scalar, by: Val) -> Val {
        let e = &self.unit.emit;
        let i32_ty = e.int_ty(32);
        let number = |n: u32| e.const_int(i32_ty, u64::from(n));
        let (name, end) = match kind {
            Shuffle::From => ("llvm.nvvm.shfl.sync.idx.i32", WARP - 1),
            Shuffle::Up => ("llvm.nvvm.shfl.sync.up.i32", 0),
            Shuffle::Down => ("llvm.nvvm.shfl.sync.down.i32", WARP - 1),
            Shuffle::Xor => ("llvm.nvvm.shfl.sync.bfly.i32", WARP - 1),
        };
        let moved = |v: Val| e.intrinsic(name, &[], &[number(u32::MAX), v, by, number(end)]);
        let bits = self.word(v, s);
        let bits = if s.bits() == 64 {
            let half = e.const_i64(32);
            let low = moved(e.cast(LLVMOpcode::LLVMTrunc, bits, i32_ty));
            let high = e.binary(LLVMOpcode::LLVMLShr, bits, half);
            let high = moved(e.cast(LLVMOpcode::LLVMTrunc, high, i32_ty));
            let wide = |v: Val| e.cast(LLVMOpcode::LLVMZExt, v, e.i64_ty());
            e.or(wide(low), e.binary(LLVMOpcode::LLVMShl, wide(high), half))
        } else {
            moved(bits)
        };
        let own = match s {
            Scalar::Bool => e.cast(LLVMOpcode::LLVMTrunc, bits, e.int_ty(1)),
            s if s.bits() < 32 => e.cast(LLVMOpcode::LLVMTrunc, bits, e.int_ty(s.bits())),
            _ => bits,
        };
        if s.is_float() {
            e.bitcast(own, e.scalar_ty(s))
        } else {
            own
        }
    }
}
