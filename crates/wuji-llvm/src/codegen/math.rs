//! Transcendental functions: calls to the C library, for vectors to its vector variants, and on a GPU to
//! `libdevice`.

use super::function::FunctionGen;
use crate::emit::{Fun, On, Val};
use crate::imports;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_compile::Math;
use wuji_ir::ops::UnOp;
use wuji_ir::types::Scalar;

/// Functions that LLVM may know: all it does is to flip signs, and to compute both for one argument at once. It replaces others by
/// ones that round differently, `pow(x, 0.5)` by `sqrt(x)`, and only in the best tier.
const SYMMETRIC: &[&str] = &["sin", "cos", "sinf", "cosf"];

impl FunctionGen<'_, '_, '_> {
    /// Calls the C library function of an operation. `f16` goes through `f32`.
    pub(super) fn math_call(&mut self, op: &'static str, s: Scalar, args: &[Val]) -> Val {
        if s == Scalar::F16 {
            let e = &self.unit.emit;
            let wide = e.scalar_like(Scalar::F32, args[0]);
            let args: Vec<Val> = args
                .iter()
                .map(|a| e.cast(LLVMOpcode::LLVMFPExt, *a, wide))
                .collect();
            let v = self.math_call(op, Scalar::F32, &args);
            let e = &self.unit.emit;
            return e.cast(LLVMOpcode::LLVMFPTrunc, v, e.scalar_like(Scalar::F16, v));
        }
        if let Some((_, lanes)) = self.unit.emit.lanes(self.unit.emit.ty_of(args[0])) {
            return self.vector_math_call(op, s, lanes, args);
        }
        if self.unit.gpu.is_some() && op == UnOp::Exp2.name() && s == Scalar::F32 {
            // Accurate to 2 ulp; strict worlds use a function of their own.
            let name = match self.unit.math {
                Math::Fast => "llvm.nvvm.ex2.approx.ftz",
                Math::Contract | Math::Strict => "llvm.nvvm.ex2.approx",
            };
            let e = &self.unit.emit;
            return e.intrinsic(name, &[e.ty_of(args[0])], args);
        }
        let name = self.math_symbol(op, s);
        let fun = self.math_function(name, s, args.len());
        let e = &self.unit.emit;
        let call = e.call(fun, args);
        e.set_fast_math(call, self.fast_math());
        call
    }

    /// Evaluates all lanes of a vector: by glibc's vector math (4 ulp) if allowed, otherwise one by one.
    fn vector_math_call(&mut self, op: &'static str, s: Scalar, lanes: u32, args: &[Val]) -> Val {
        let name = self.math_symbol(op, s);
        if self.math() != Math::Strict && self.unit.tuning.vector_math {
            for (bits, isa) in self.vector_isas() {
                let width = bits / s.bits();
                if !lanes.is_multiple_of(width) {
                    continue;
                }
                if let Some(fun) = self.vector_function(name, s, *isa, width, args.len()) {
                    return self.in_pieces(fun, width, lanes, args);
                }
            }
        }
        let fun = self.math_function(name, s, args.len());
        let flags = self.fast_math();
        let e = &self.unit.emit;
        let results: Vec<Val> = (0..lanes)
            .map(|k| {
                let at = e.const_i64(i64::from(k));
                let one: Vec<Val> = args.iter().map(|a| e.lane(*a, at)).collect();
                let call = e.call(fun, &one);
                e.set_fast_math(call, flags);
                call
            })
            .collect();
        e.compose(&results)
    }

    fn math_symbol(&self, op: &'static str, s: Scalar) -> &'static str {
        match self.unit.gpu {
            None => imports::math_symbol(op, s),
            Some(_) => imports::libdevice_symbol(op, s),
        }
    }

    /// Splits a vector for a function of shorter vectors.
    fn in_pieces(&self, fun: Fun, width: u32, lanes: u32, args: &[Val]) -> Val {
        let e = &self.unit.emit;
        if width == lanes {
            return e.call(fun, args);
        }
        let pieces: Vec<Val> = (0..lanes / width)
            .map(|p| {
                let part: Vec<u32> = (p * width..(p + 1) * width).collect();
                let args: Vec<Val> = args.iter().map(|a| e.shuffle(*a, *a, &part)).collect();
                e.call(fun, &args)
            })
            .collect();
        let mut whole = pieces;
        while whole.len() > 1 {
            whole = whole
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] => {
                        let n = e.lanes(e.ty_of(*a)).map_or(1, |l| l.1);
                        let all: Vec<u32> = (0..2 * n).collect();
                        e.shuffle(*a, *b, &all)
                    }
                    _ => pair[0],
                })
                .collect();
        }
        whole[0]
    }

    /// Vector widths in bits with the ISA letters of their functions, the widest first.
    fn vector_isas(&self) -> &'static [(u32, char)] {
        match self.unit.host.vector_bits() {
            512 => &[(512, 'e'), (256, 'd'), (128, 'b')],
            256 if self.unit.host.has("avx2") => &[(256, 'd'), (128, 'b')],
            _ => &[(128, 'b')],
        }
    }

    /// A function of glibc's vector math, if the library has it.
    fn vector_function(
        &mut self,
        name: &str,
        s: Scalar,
        isa: char,
        lanes: u32,
        arity: usize,
    ) -> Option<Fun> {
        let symbol = format!("_ZGV{isa}N{lanes}{}_{name}", "v".repeat(arity));
        imports::vector_math(&symbol)?;
        let e = &self.unit.emit;
        let ty = e.vector_ty(e.scalar_ty(s), lanes);
        let ty = e.fn_ty(ty, &vec![ty; arity]);
        if let Some(value) = e.named_function(&symbol) {
            return Some(Fun { value, ty });
        }
        let fun = e.add_function(&symbol, ty);
        pure(e, fun);
        Some(fun)
    }

    fn math_function(&mut self, name: &'static str, s: Scalar, arity: usize) -> Fun {
        if let Some(fun) = self.unit.libm.get(name) {
            return *fun;
        }
        let e = &self.unit.emit;
        let ty = e.scalar_ty(s);
        let fun = e.add_function(name, e.fn_ty(ty, &vec![ty; arity]));
        pure(&self.unit.emit, fun);
        if !SYMMETRIC.contains(&name) {
            self.unit.emit.add_attr(fun, On::Function, "nobuiltin", 0);
        }
        self.unit.libm.insert(name, fun);
        fun
    }
}

/// Marks a function as pure.
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
