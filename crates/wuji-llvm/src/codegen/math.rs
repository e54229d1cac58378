//! Transcendental functions: calls of the C library, and in fast mode of its vector variants.

use super::function::FunctionGen;
use crate::emit::{Fun, On, Val};
use crate::imports;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_compile::Math;
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    /// Calls the function of the C library that belongs to an operation. `f16` goes through `f32`.
    pub(super) fn math_call(&mut self, op: &'static str, s: Scalar, args: &[Val]) -> Val {
        if s == Scalar::F16 {
            let e = &self.unit.emit;
            let wide = e.scalar_ty(Scalar::F32);
            let args: Vec<Val> = args
                .iter()
                .map(|a| e.cast(LLVMOpcode::LLVMFPExt, *a, wide))
                .collect();
            let v = self.math_call(op, Scalar::F32, &args);
            let e = &self.unit.emit;
            return e.cast(LLVMOpcode::LLVMFPTrunc, v, e.scalar_ty(Scalar::F16));
        }
        let name = imports::math_symbol(op, s);
        let fun = self.math_function(name, s, args.len());
        let e = &self.unit.emit;
        let call = e.call(fun, args);
        e.set_fast_math(call, self.unit.fast_math());
        if let Some(variants) = self.vector_variants(name, s, args.len()) {
            self.unit
                .emit
                .add_call_string_attr(call, "vector-function-abi-variant", &variants);
        }
        call
    }

    fn math_function(&mut self, name: &'static str, s: Scalar, arity: usize) -> Fun {
        if let Some(fun) = self.unit.libm.get(name) {
            return *fun;
        }
        let e = &self.unit.emit;
        let ty = e.scalar_ty(s);
        let fun = e.add_function(name, e.fn_ty(ty, &vec![ty; arity]));
        pure(&self.unit.emit, fun);
        self.unit.libm.insert(name, fun);
        fun
    }

    /// How the loop vectorizer is told of glibc's vector math, within 4 ulp: fast mode only.
    fn vector_variants(&mut self, name: &'static str, s: Scalar, arity: usize) -> Option<String> {
        if self.unit.math != Math::Fast || !self.unit.tuning.vector_math {
            return None;
        }
        let widths: &[(u32, char)] = match self.unit.host.vector_bits() {
            512 => &[(512, 'e'), (256, 'd'), (128, 'b')],
            256 if self.unit.host.has("avx2") => &[(256, 'd'), (128, 'b')],
            _ => &[(128, 'b')],
        };
        let mut variants = Vec::new();
        for (bits, isa) in widths {
            let lanes = bits / s.bits();
            let vectors = "v".repeat(arity);
            let symbol = format!("_ZGV{isa}N{lanes}{vectors}_{name}");
            if imports::vector_math(&symbol).is_none() {
                continue;
            }
            let e = &self.unit.emit;
            if e.named_function(&symbol).is_none() {
                let ty = e.vector_ty(e.scalar_ty(s), lanes);
                let fun = e.add_function(&symbol, e.fn_ty(ty, &vec![ty; arity]));
                pure(e, fun);
                self.unit.vector.push(fun.value);
            }
            variants.push(format!("_ZGV_LLVM_N{lanes}{vectors}_{name}({symbol})"));
        }
        (!variants.is_empty()).then(|| variants.join(","))
    }
}

/// A function of its arguments alone.
fn pure(e: &crate::emit::Emit<'_>, fun: Fun) {
    for (name, value) in [
        ("nounwind", 0),
        ("willreturn", 0),
        ("nofree", 0),
        ("nosync", 0),
        ("memory", 0),
    ] {
        e.add_attr(fun, On::Function, name, value);
    }
}
