//! Quotients and remainders of integers.
//!
//! Processors have no vector instruction for them, and LLVM divides the lanes one by one. Floats divide in vectors, and
//! the truncated quotient is exact in a format that represents both integers.

use super::function::FunctionGen;
use crate::emit::Val;
use inkwell::llvm_sys::LLVMIntPredicate::*;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    /// The divisor, or 1 where the machine would trap: for 0, and for -1, because of `MIN / -1`.
    fn safe_divisor(&self, s: Scalar, b: Val, constant: Option<i128>) -> Val {
        let e = &self.unit.emit;
        let ty = e.ty_of(b);
        let one = e.const_int(ty, 1);
        match constant {
            Some(0 | -1) => return one,
            Some(_) => return b,
            None => {}
        }
        let bad = if s.is_signed_int() {
            e.icmp(LLVMIntULT, e.add(b, one), e.const_int(ty, 2))
        } else {
            e.icmp(LLVMIntEQ, b, e.zero(ty))
        };
        e.select(bad, one, b)
    }

    pub(super) fn int_div(&self, s: Scalar, a: Val, b: Val, constant: Option<i128>) -> Val {
        let e = &self.unit.emit;
        let ty = e.ty_of(a);
        let zero = e.zero(ty);
        match constant {
            Some(0) => return zero,
            Some(-1) => return e.sub(zero, a),
            Some(_) | None => {}
        }
        let safe = self.safe_divisor(s, b, constant);
        let q = self.quotient(s, a, safe);
        if constant.is_some() {
            return q;
        }
        let q = if s.is_signed_int() {
            let minus = e.icmp(LLVMIntEQ, b, e.const_int(ty, u64::MAX));
            e.select(minus, e.sub(zero, a), q)
        } else {
            q
        };
        e.select(e.icmp(LLVMIntEQ, b, zero), zero, q)
    }

    pub(super) fn int_rem(&self, s: Scalar, a: Val, b: Val, constant: Option<i128>) -> Val {
        let e = &self.unit.emit;
        // A divisor of 1 gives 0, which is the remainder for the divisors 0 and -1.
        let safe = self.safe_divisor(s, b, constant);
        if self.divides_as_float(s, safe).is_some() {
            let q = self.quotient(s, a, safe);
            return e.sub(a, e.binary(LLVMOpcode::LLVMMul, q, safe));
        }
        let opcode = if s.is_signed_int() {
            LLVMOpcode::LLVMSRem
        } else {
            LLVMOpcode::LLVMURem
        };
        e.binary(opcode, a, safe)
    }

    /// The quotient for a divisor that does not trap.
    fn quotient(&self, s: Scalar, a: Val, b: Val) -> Val {
        let e = &self.unit.emit;
        let signed = s.is_signed_int();
        let Some(wide) = self.divides_as_float(s, b) else {
            let opcode = if signed {
                LLVMOpcode::LLVMSDiv
            } else {
                LLVMOpcode::LLVMUDiv
            };
            return e.binary(opcode, a, b);
        };
        let (to, from) = if signed {
            (LLVMOpcode::LLVMSIToFP, LLVMOpcode::LLVMFPToSI)
        } else {
            (LLVMOpcode::LLVMUIToFP, LLVMOpcode::LLVMFPToUI)
        };
        let ty = e.scalar_like(wide, a);
        let (x, y) = (e.cast(to, a, ty), e.cast(to, b, ty));
        // If `b` does not divide `a`, the quotient is at least `1 / b` away from the next integer. Rounding to `p` bits
        // moves it by less, because `a < 2^p`.
        let q = e.binary(LLVMOpcode::LLVMFDiv, x, y);
        e.cast(from, q, e.ty_of(a))
    }

    /// The format in which vectors of integers are divided: one that represents them exactly.
    fn divides_as_float(&self, s: Scalar, divisor: Val) -> Option<Scalar> {
        let e = &self.unit.emit;
        // LLVM multiplies by the inverse of a constant.
        if self.unit.gpu.is_some() || e.is_constant(divisor) {
            return None;
        }
        e.lanes(e.ty_of(divisor))?;
        match s.bits() {
            8 | 16 => Some(Scalar::F32),
            32 => Some(Scalar::F64),
            _ => None,
        }
    }
}
