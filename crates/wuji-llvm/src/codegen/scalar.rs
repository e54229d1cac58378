//! Arithmetic, comparisons and bit operations, as defined in `docs/ir.md`, section 2.

use super::function::FunctionGen;
use crate::emit::Val;
use inkwell::llvm_sys::LLVMIntPredicate::{self, *};
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::llvm_sys::LLVMRealPredicate::{self, *};
use inkwell::llvm_sys::{
    LLVMFastMathAllowContract, LLVMFastMathAllowReassoc, LLVMFastMathAllowReciprocal,
};
use wuji_compile::Math;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::ops::{BinOp, CmpOp, Op, UnOp};
use wuji_ir::types::{Imm, Scalar};

impl FunctionGen<'_, '_, '_> {
    /// The flags of a float operation: those of the math mode, and freedom for reductions, whose order is open.
    fn flags(&self, inst: Inst) -> u32 {
        let mut flags = self.fast_math();
        let product = self.f.insts[inst].op == Op::Binary(BinOp::Mul);
        if self.reductions.contains(&inst) {
            flags |= LLVMFastMathAllowReassoc;
        }
        // Only sums of reductions allow it too, so only with those is a product fused.
        if self.math() != Math::Strict && (product || self.reductions.contains(&inst)) {
            flags |= LLVMFastMathAllowContract;
        }
        flags
    }

    pub(super) fn unary(&mut self, inst: Inst, op: UnOp, arg: Value) -> Result<Val> {
        let (a, s) = (self.get(arg)?, self.scalar(arg)?);
        let flags = self.flags(inst);
        let e = &self.unit.emit;
        let ty = e.ty_of(a);
        let float_intrinsic = |name: &str| {
            let v = e.intrinsic(name, &[ty], &[a]);
            e.set_fast_math(v, flags);
            v
        };
        Ok(match op {
            UnOp::Neg if s.is_float() => e.fneg(a),
            UnOp::Neg => e.sub(e.zero(ty), a),
            UnOp::Not => e.xor(a, e.const_int(ty, u64::MAX)),
            UnOp::Abs if s.is_float() => e.intrinsic("llvm.fabs", &[ty], &[a]),
            UnOp::Abs if s.is_signed_int() => {
                e.intrinsic("llvm.abs", &[ty], &[a, e.const_bool(false)])
            }
            UnOp::Abs => a,
            UnOp::Sign if s.is_float() => {
                let (zero, one) = (e.zero(ty), e.const_float(ty, 1.0));
                let negative = e.fcmp(LLVMRealOLT, a, zero);
                let positive = e.fcmp(LLVMRealOGT, a, zero);
                e.select(
                    positive,
                    one,
                    e.select(negative, e.const_float(ty, -1.0), a),
                )
            }
            UnOp::Sign => {
                let zero = e.zero(ty);
                let up = e.cast(LLVMOpcode::LLVMZExt, e.icmp(LLVMIntSGT, a, zero), ty);
                let down = e.cast(LLVMOpcode::LLVMZExt, e.icmp(LLVMIntSLT, a, zero), ty);
                e.sub(up, down)
            }
            UnOp::Floor => float_intrinsic("llvm.floor"),
            UnOp::Ceil => float_intrinsic("llvm.ceil"),
            UnOp::Round => float_intrinsic("llvm.round"),
            UnOp::RoundEven => float_intrinsic("llvm.roundeven"),
            UnOp::Trunc => float_intrinsic("llvm.trunc"),
            UnOp::Sqrt => float_intrinsic("llvm.sqrt"),
            UnOp::PreciseSqrt => e.intrinsic("llvm.sqrt", &[ty], &[a]),
            // Accurate to 2 ulp, including zeros and infinities.
            UnOp::Rsqrt
                if self.unit.gpu.is_some()
                    && s == Scalar::F32
                    && self.unit.math != Math::Strict =>
            {
                // Fast mode flushes subnormal numbers anyway.
                let name = match self.unit.math {
                    Math::Fast => "llvm.nvvm.rsqrt.approx.ftz.f",
                    Math::Contract | Math::Strict => "llvm.nvvm.rsqrt.approx.f",
                };
                e.intrinsic(name, &[], &[a])
            }
            UnOp::Rsqrt if self.has_quick_root(s) => self.quick_root(a),
            UnOp::Rsqrt => {
                let root = float_intrinsic("llvm.sqrt");
                let v = e.binary(LLVMOpcode::LLVMFDiv, e.const_float(ty, 1.0), root);
                e.set_fast_math(v, flags);
                if self.unit.gpu.is_some() && self.math() == Math::Fast {
                    self.with_exact_ends(a, v)
                } else {
                    v
                }
            }
            UnOp::Sin
            | UnOp::Cos
            | UnOp::Tan
            | UnOp::Asin
            | UnOp::Acos
            | UnOp::Atan
            | UnOp::Sinh
            | UnOp::Cosh
            | UnOp::Tanh
            | UnOp::Exp
            | UnOp::Exp2
            | UnOp::Log
            | UnOp::Log2
            | UnOp::Log10 => self.math_call(op.name(), s, &[a]),
            UnOp::PopCount => e.intrinsic("llvm.ctpop", &[ty], &[a]),
            UnOp::LeadingZeros => e.intrinsic("llvm.ctlz", &[ty], &[a, e.const_bool(false)]),
            UnOp::TrailingZeros => e.intrinsic("llvm.cttz", &[ty], &[a, e.const_bool(false)]),
            UnOp::Freeze => e.freeze(a),
            UnOp::StopGrad => a,
        })
    }

    pub(super) fn binary(&mut self, inst: Inst, op: BinOp, x: Value, y: Value) -> Result<Val> {
        let s = self.scalar(x)?;
        let (a, b) = (self.get(x)?, self.get(y)?);
        if let Some(fused) = self.fused(inst, op, x, y)? {
            return Ok(fused);
        }
        if let Some(cube) = self.root_cubed(op, s, x, y)? {
            return Ok(cube);
        }
        if s.is_float() {
            let mut flags = self.flags(inst);
            if op == BinOp::Div && self.is_root(y) {
                // With `arcp`, LLVM would refine a reciprocal estimate, which gives NaN for infinities.
                flags &= !LLVMFastMathAllowReciprocal;
            }
            return Ok(self.binary_op(op, s, (a, b), flags, None));
        }
        let constant = self.constant(y).and_then(Imm::as_int);
        Ok(self.binary_op(op, s, (a, b), 0, constant))
    }

    /// A sum whose product is fused into all its uses.
    fn fused(&self, inst: Inst, op: BinOp, x: Value, y: Value) -> Result<Option<Val>> {
        if !matches!(op, BinOp::Add | BinOp::Sub) || self.products.is_empty() {
            return Ok(None);
        }
        let product = |v: Value| self.f.def(v).filter(|d| self.products.contains(d));
        let (product, other, right) = match (product(x), product(y)) {
            (_, Some(p)) => (p, x, true),
            (Some(p), None) => (p, y, false),
            (None, None) => return Ok(None),
        };
        let factors = &self.f.insts[product].args;
        let (mut a, b) = (self.get(factors[0])?, self.get(factors[1])?);
        let mut c = self.get(other)?;
        let e = &self.unit.emit;
        if op == BinOp::Sub {
            if right {
                a = e.fneg(a);
            } else {
                c = e.fneg(c);
            }
        }
        let v = e.intrinsic("llvm.fma", &[e.ty_of(a)], &[a, b, c]);
        e.set_fast_math(v, self.flags(inst));
        Ok(Some(v))
    }

    /// The cube of a reciprocal square root in fast mode, as in gravity: one Newton step for the cube,
    /// instead of one for the root and two multiplications. The root itself is removed if it has no other
    /// use.
    fn root_cubed(&self, op: BinOp, s: Scalar, x: Value, y: Value) -> Result<Option<Val>> {
        let made_by = |v: Value| self.f.def(v).map(|d| &self.f.insts[d]);
        let is_square = |v: Value, of: Value| {
            made_by(v).is_some_and(|d| d.op == Op::Binary(BinOp::Mul) && d.args[..] == [of, of])
        };
        if op != BinOp::Mul || self.math() != Math::Fast || !self.has_quick_root(s) {
            return Ok(None);
        }
        let root = match (is_square(x, y), is_square(y, x)) {
            (true, _) => y,
            (_, true) => x,
            _ => return Ok(None),
        };
        let Some(argument) = made_by(root).filter(|d| d.op == Op::Unary(UnOp::Rsqrt)) else {
            return Ok(None);
        };
        let a = self.get(argument.args[0])?;
        let e = &self.unit.emit;
        let ty = e.ty_of(a);
        let mul = |a: Val, b: Val| e.binary(LLVMOpcode::LLVMFMul, a, b);
        let fma = |a: Val, b: Val, c: Val| e.intrinsic("llvm.fma", &[ty], &[a, b, c]);
        let number = |x: f64| e.const_float(ty, x);
        let y = self.root_estimate(a);
        let square = mul(y, y);
        let cube = mul(square, y);
        // The relative error 1 - a * y * y: (1 - error)^(-3/2) is 1 + 3/2 error, within half an ulp.
        let error = fma(e.fneg(a), square, number(1.0));
        let better = mul(cube, fma(number(1.5), error, number(1.0)));
        // For zero, infinity and overflow the cube of the estimate is exact and the step is not.
        let known = e.fcmp(LLVMRealOGT, error, number(-0.5));
        Ok(Some(e.select(known, better, cube)))
    }

    /// The constant value of a scalar, or of all lanes.
    fn constant(&self, value: Value) -> Option<Imm> {
        let def = self.f.def(value)?;
        if let Op::Splat(_) = self.f.insts[def].op {
            return self.f.constant(self.f.insts[def].args[0]);
        }
        self.f.constant(value)
    }

    /// Whether a value is the result of a square root.
    fn is_root(&self, value: Value) -> bool {
        self.f
            .def(value)
            .is_some_and(|i| self.f.insts[i].op == Op::Unary(UnOp::Sqrt))
    }

    /// Whether reciprocal roots may be off by a few ulp, and there is an instruction for it.
    fn has_quick_root(&self, s: Scalar) -> bool {
        let estimates = match self.math() {
            Math::Strict => false,
            Math::Contract => self.has_good_estimate(),
            Math::Fast => self.has_good_estimate() || self.unit.host.has("sse"),
        };
        s == Scalar::F32 && estimates && self.unit.gpu.is_none()
    }

    /// Whether there is an estimate of 14 bits; otherwise it has 12.
    fn has_good_estimate(&self) -> bool {
        self.unit.host.has("avx512vl")
    }

    /// An estimate and one step towards the root: within 2 ulp, or 3 where the estimate has 12 bits.
    fn quick_root(&self, x: Val) -> Val {
        let e = &self.unit.emit;
        let ty = e.ty_of(x);
        let y = self.root_estimate(x);
        let (half, one) = (e.const_float(ty, 0.5), e.const_float(ty, 1.0));
        let mul = |a: Val, b: Val| e.binary(LLVMOpcode::LLVMFMul, a, b);
        // The relative error 1 - x * y * y.
        let product = e.fneg(mul(x, y));
        let error = e.intrinsic("llvm.fma", &[ty], &[product, y, one]);
        let better = e.intrinsic("llvm.fma", &[ty], &[mul(half, y), error, y]);
        // For zero, infinity and NaN the estimate is right, and the step is not. An estimate of 12 bits also takes subnormal
        // numbers for zeros.
        let known = if self.has_good_estimate() {
            e.fcmp(LLVMRealORD, error, error)
        } else {
            e.fcmp(LLVMRealOGT, error, e.const_float(ty, -0.5))
        };
        e.select(known, better, y)
    }

    /// The estimate instruction, applied to the vector in pieces if needed.
    fn root_estimate(&self, x: Val) -> Val {
        let e = &self.unit.emit;
        let Some((_, lanes)) = e.lanes(e.ty_of(x)) else {
            let wide = e.compose(&[x, x, x, x]);
            return e.lane(self.root_estimate(wide), e.const_i64(0));
        };
        let (name, width, mask) = match lanes {
            ..=4 if self.has_good_estimate() => ("llvm.x86.avx512.rsqrt14.ps.128", 4, Some(8)),
            5..=8 if self.has_good_estimate() => ("llvm.x86.avx512.rsqrt14.ps.256", 8, Some(8)),
            _ if self.has_good_estimate() => ("llvm.x86.avx512.rsqrt14.ps.512", 16, Some(16)),
            5.. if self.unit.host.has("avx") => ("llvm.x86.avx.rsqrt.ps.256", 8, None),
            _ => ("llvm.x86.sse.rsqrt.ps", 4, None),
        };
        let estimate = |v: Val| {
            let Some(bits) = mask else {
                return e.intrinsic(name, &[], &[v]);
            };
            let all = e.const_int(e.int_ty(bits), u64::MAX);
            e.intrinsic(name, &[], &[v, e.zero(e.ty_of(v)), all])
        };
        if lanes == width {
            return estimate(x);
        }
        if lanes < width {
            let filled: Vec<u32> = (0..width).map(|k| k % lanes).collect();
            let kept: Vec<u32> = (0..lanes).collect();
            let wide = estimate(e.shuffle(x, x, &filled));
            return e.shuffle(wide, wide, &kept);
        }
        let half = lanes / 2;
        let (low, high): (Vec<u32>, Vec<u32>) = ((0..half).collect(), (half..lanes).collect());
        let a = self.root_estimate(e.shuffle(x, x, &low));
        let b = self.root_estimate(e.shuffle(x, x, &high));
        let all: Vec<u32> = (0..lanes).collect();
        e.shuffle(a, b, &all)
    }

    /// A reciprocal root that LLVM refines from an estimate, corrected where the refinement multiplies zero
    /// by infinity.
    fn with_exact_ends(&self, a: Val, root: Val) -> Val {
        let e = &self.unit.emit;
        let ty = e.ty_of(a);
        let (zero, infinity) = (e.const_float(ty, 0.0), e.const_float(ty, f64::INFINITY));
        let v = e.select(e.fcmp(LLVMRealOEQ, a, infinity), zero, root);
        e.select(e.fcmp(LLVMRealOEQ, a, zero), infinity, v)
    }

    /// For integers, `constant` is the value of `b` if it is known; for floats, `flags` are the fast-math
    /// flags.
    pub(super) fn binary_op(
        &mut self,
        op: BinOp,
        s: Scalar,
        (a, b): (Val, Val),
        flags: u32,
        constant: Option<i128>,
    ) -> Val {
        let e = &self.unit.emit;
        let ty = e.ty_of(a);
        let float = s.is_float();
        let signed = s.is_signed_int();
        let plain = |opcode: LLVMOpcode| {
            let v = e.binary(opcode, a, b);
            e.set_fast_math(v, flags);
            v
        };
        let by_sign =
            |yes: &str, no: &str| e.intrinsic(if signed { yes } else { no }, &[ty], &[a, b]);
        let shift = |opcode: LLVMOpcode| {
            let amount = e.and(b, e.const_int(ty, u64::from(s.bits() - 1)));
            e.binary(opcode, a, amount)
        };
        match op {
            BinOp::Add if float => plain(LLVMOpcode::LLVMFAdd),
            BinOp::Add => e.add(a, b),
            BinOp::Sub if float => plain(LLVMOpcode::LLVMFSub),
            BinOp::Sub => e.sub(a, b),
            BinOp::Mul if float => plain(LLVMOpcode::LLVMFMul),
            BinOp::Mul => e.binary(LLVMOpcode::LLVMMul, a, b),
            BinOp::Div if float => plain(LLVMOpcode::LLVMFDiv),
            BinOp::Div => self.int_div(s, a, b, constant),
            BinOp::Rem if float => plain(LLVMOpcode::LLVMFRem),
            BinOp::Rem => self.int_rem(s, a, b, constant),
            BinOp::And => e.and(a, b),
            BinOp::Or => e.or(a, b),
            BinOp::Xor => e.xor(a, b),
            BinOp::Shl => shift(LLVMOpcode::LLVMShl),
            BinOp::Shr if signed => shift(LLVMOpcode::LLVMAShr),
            BinOp::Shr => shift(LLVMOpcode::LLVMLShr),
            BinOp::Min | BinOp::Max if float => self.float_min_max(op, a, b),
            BinOp::Min => by_sign("llvm.smin", "llvm.umin"),
            BinOp::Max => by_sign("llvm.smax", "llvm.umax"),
            BinOp::PreciseAdd => e.binary(LLVMOpcode::LLVMFAdd, a, b),
            BinOp::PreciseSub => e.binary(LLVMOpcode::LLVMFSub, a, b),
            BinOp::PreciseMul => e.binary(LLVMOpcode::LLVMFMul, a, b),
            BinOp::PreciseDiv => e.binary(LLVMOpcode::LLVMFDiv, a, b),
            BinOp::Pow => {
                let power = self.math_call(op.name(), s, &[a, b]);
                self.with_exact_powers(a, b, power)
            }
            BinOp::Atan2 => self.math_call(op.name(), s, &[a, b]),
        }
    }

    /// In strict mode squares and square roots are rounded once, as they are where the exponent is a constant.
    fn with_exact_powers(&self, x: Val, y: Val, power: Val) -> Val {
        if self.math() != Math::Strict {
            return power;
        }
        let e = &self.unit.emit;
        let ty = e.ty_of(x);
        let (zero, infinity) = (e.const_float(ty, 0.0), e.const_float(ty, f64::INFINITY));
        let square = e.binary(LLVMOpcode::LLVMFMul, x, x);
        let unsigned = e.binary(LLVMOpcode::LLVMFAdd, x, zero);
        let root = e.intrinsic("llvm.sqrt", &[ty], &[unsigned]);
        let endless = e.fcmp(LLVMRealOEQ, x, e.const_float(ty, f64::NEG_INFINITY));
        let root = e.select(endless, infinity, root);
        let is = |exponent: f64| e.fcmp(LLVMRealOEQ, y, e.const_float(ty, exponent));
        let power = e.select(is(2.0), square, power);
        e.select(is(0.5), root, power)
    }

    /// `min(a, b)` is `a` if `b` is NaN or `a < b`, else `b`. Not the intrinsic `minimumnum`: with AVX-512,
    /// LLVM 22 returns NaN if one operand is NaN and the other is known to be a number.
    fn float_min_max(&self, op: BinOp, a: Val, b: Val) -> Val {
        let e = &self.unit.emit;
        if self.unit.gpu.is_some() {
            return self.float_min_max_on_gpu(op, a, b);
        }
        let better = if op == BinOp::Min {
            LLVMRealOLT
        } else {
            LLVMRealOGT
        };
        let chosen = e.select(e.fcmp(better, a, b), a, b);
        e.select(e.fcmp(LLVMRealUNO, b, b), a, chosen)
    }

    /// A GPU has instructions that do not return NaN for a number. They compare the signs of zeros; LLVM would use them for a
    /// comparison and a `select`, too, where one operand is a constant.
    fn float_min_max_on_gpu(&self, op: BinOp, a: Val, b: Val) -> Val {
        let e = &self.unit.emit;
        let name = if op == BinOp::Min {
            "llvm.minnum"
        } else {
            "llvm.maxnum"
        };
        let chosen = e.intrinsic(name, &[e.ty_of(a)], &[a, b]);
        e.select(e.fcmp(LLVMRealOEQ, a, b), b, chosen)
    }

    pub(super) fn compare(&self, op: CmpOp, x: Value, y: Value) -> Result<Val> {
        let (a, b) = (self.get(x)?, self.get(y)?);
        let s = self.scalar(x)?;
        let e = &self.unit.emit;
        Ok(if s.is_float() {
            e.fcmp(float_predicate(op), a, b)
        } else {
            e.icmp(int_predicate(op, s.is_signed_int()), a, b)
        })
    }

    /// `a * b + c`, rounded once.
    pub(super) fn fma(&self, args: &[Value]) -> Result<Val> {
        let s = self.scalar(args[0])?;
        let v = self.all(args)?;
        let e = &self.unit.emit;
        let ty = e.ty_of(v[0]);
        if s == Scalar::F16 && !self.unit.host.has("avx512fp16") {
            // Without the instruction, LLVM computes in f32 and rounds twice. In f64 the product is exact,
            // and so is the sum if it is near a tie of f16.
            let wide = e.shaped(e.scalar_ty(Scalar::F64), ty);
            let w: Vec<Val> = v
                .iter()
                .map(|x| e.cast(LLVMOpcode::LLVMFPExt, *x, wide))
                .collect();
            let product = e.binary(LLVMOpcode::LLVMFMul, w[0], w[1]);
            let sum = e.binary(LLVMOpcode::LLVMFAdd, product, w[2]);
            return Ok(e.cast(LLVMOpcode::LLVMFPTrunc, sum, ty));
        }
        let fused = e.intrinsic("llvm.fma", &[ty], &v);
        e.set_fast_math(fused, self.fast_math());
        Ok(fused)
    }
}

fn float_predicate(op: CmpOp) -> LLVMRealPredicate {
    match op {
        CmpOp::Eq => LLVMRealOEQ,
        CmpOp::Ne => LLVMRealUNE,
        CmpOp::Lt => LLVMRealOLT,
        CmpOp::Le => LLVMRealOLE,
        CmpOp::Gt => LLVMRealOGT,
        CmpOp::Ge => LLVMRealOGE,
    }
}

fn int_predicate(op: CmpOp, signed: bool) -> LLVMIntPredicate {
    match (op, signed) {
        (CmpOp::Eq, _) => LLVMIntEQ,
        (CmpOp::Ne, _) => LLVMIntNE,
        (CmpOp::Lt, true) => LLVMIntSLT,
        (CmpOp::Le, true) => LLVMIntSLE,
        (CmpOp::Gt, true) => LLVMIntSGT,
        (CmpOp::Ge, true) => LLVMIntSGE,
        (CmpOp::Lt, false) => LLVMIntULT,
        (CmpOp::Le, false) => LLVMIntULE,
        (CmpOp::Gt, false) => LLVMIntUGT,
        (CmpOp::Ge, false) => LLVMIntUGE,
    }
}
