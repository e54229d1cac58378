//! Conversions between scalar types, by value.

use super::function::FunctionGen;
use crate::emit::Val;
use inkwell::llvm_sys::LLVMIntPredicate::LLVMIntNE;
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::LLVMRealPredicate::LLVMRealUNE;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    pub(super) fn convert(&self, arg: Value, to: Scalar) -> Result<Val> {
        let (v, from) = (self.get(arg)?, self.scalar(arg)?);
        Ok(self.convert_value(v, from, to))
    }

    pub(super) fn convert_value(&self, v: Val, from: Scalar, to: Scalar) -> Val {
        let e = &self.unit.emit;
        let ty = e.scalar_like(to, v);
        if from == to {
            return v;
        }
        match (from.is_float(), to.is_float()) {
            // NaN is not zero.
            (true, false) if to == Scalar::Bool => e.fcmp(LLVMRealUNE, v, e.zero(e.ty_of(v))),
            (false, false) if to == Scalar::Bool => e.icmp(LLVMIntNE, v, e.zero(e.ty_of(v))),
            (true, false) => {
                // LLVM miscompiles `f16` to `i16` for NaN; going through `f32` is exact.
                let v = match from {
                    Scalar::F16 => self.convert_value(v, Scalar::F16, Scalar::F32),
                    _ => v,
                };
                let name = if to.is_signed_int() {
                    "llvm.fptosi.sat"
                } else {
                    "llvm.fptoui.sat"
                };
                e.intrinsic(name, &[ty, e.ty_of(v)], &[v])
            }
            (false, true) if from.is_signed_int() => e.cast(LLVMOpcode::LLVMSIToFP, v, ty),
            (false, true) => e.cast(LLVMOpcode::LLVMUIToFP, v, ty),
            (true, true) if to.bits() > from.bits() => e.cast(LLVMOpcode::LLVMFPExt, v, ty),
            (true, true) => e.cast(LLVMOpcode::LLVMFPTrunc, v, ty),
            (false, false) if to.bits() < from.bits() => e.cast(LLVMOpcode::LLVMTrunc, v, ty),
            (false, false) if to.bits() == from.bits() => v,
            (false, false) if from.is_signed_int() => e.cast(LLVMOpcode::LLVMSExt, v, ty),
            (false, false) => e.cast(LLVMOpcode::LLVMZExt, v, ty),
        }
    }
}
