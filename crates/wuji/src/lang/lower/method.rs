//! Methods of numbers, vectors and matrices.

use super::binding::{ArrayVal, Shape, Val};
use super::body::{Body, get};
use crate::lang::ast::{At, Expr};
use crate::lang::builtin::is_swizzle;
use wuji_ir::Result;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AlgebraOp, BinOp, CmpOp, Op, ReduceOp, UnOp};
use wuji_ir::types::{Imm, Scalar, Type};

/// Methods that are one operation on floats.
fn float_op(name: &str) -> Option<UnOp> {
    Some(match name {
        "sqrt" => UnOp::Sqrt,
        "rsqrt" => UnOp::Rsqrt,
        "sin" => UnOp::Sin,
        "cos" => UnOp::Cos,
        "tan" => UnOp::Tan,
        "asin" => UnOp::Asin,
        "acos" => UnOp::Acos,
        "atan" => UnOp::Atan,
        "sinh" => UnOp::Sinh,
        "cosh" => UnOp::Cosh,
        "tanh" => UnOp::Tanh,
        "exp" => UnOp::Exp,
        "exp2" => UnOp::Exp2,
        "ln" => UnOp::Log,
        "log2" => UnOp::Log2,
        "log10" => UnOp::Log10,
        "floor" => UnOp::Floor,
        "ceil" => UnOp::Ceil,
        "round" => UnOp::Round,
        "round_ties_even" => UnOp::RoundEven,
        "trunc" => UnOp::Trunc,
        _ => return None,
    })
}

impl Body<'_, '_> {
    pub(super) fn method(
        &mut self,
        at: At,
        name: &str,
        shape: &Shape,
        args: &'static [Expr],
    ) -> Result<Val> {
        let Some((receiver, rest)) = args.split_first() else {
            return Err(self.no_method(at, name));
        };
        let a = match self.expr(receiver)? {
            Val::Never => return Ok(Val::Never),
            Val::Array(array) => return self.array_method(at, name, array, rest),
            Val::Unit => return Err(self.no_method(at, name)),
            Val::Value(a) => a,
        };
        let rest = get!(self.values(rest));
        self.at(at);
        let ty = self.ty(a);
        let result = Body::shape_is_value(shape);
        if let (Type::Vector(..), true) = (ty, is_swizzle(name)) {
            let mask = name
                .bytes()
                .map(|c| b"xyzw".iter().position(|x| *x == c).unwrap_or(0) as u8)
                .collect();
            return Ok(Val::Value(self.op(Op::Shuffle(mask), &[a])));
        }
        if let Some(val) = self.any_method(at, name, a, &rest, shape)? {
            return Ok(val);
        }
        let found = match ty {
            Type::Struct(_) => self.option_method(name, a, &rest),
            Type::Scalar(Scalar::Bool) if name == "then_some" => match (result, &rest[..]) {
                (Some(ty), [v]) => Some(self.then_some(ty, a, *v)),
                _ => None,
            },
            Type::Matrix(..) => self.matrix_method(at, name, a, &rest)?,
            Type::Vector(..) => self.vector_method(name, a, &rest)?,
            Type::Scalar(_) => None,
        };
        let found = match found {
            Some(v) => Some(v),
            None => match ty.elem() {
                Some(s) if s.is_float() => self.float_method(name, a, &rest, result),
                Some(Scalar::Bool) => None,
                Some(s) => self.int_method(name, s, a, &rest, result),
                None => None,
            },
        };
        match found {
            Some(v) => Ok(Val::Value(v)),
            None => Err(self.no_method(at, name)),
        }
    }

    pub(super) fn no_method(&self, at: At, name: &str) -> wuji_ir::Error {
        self.fail(
            at,
            "W0245",
            format!("the method `{name}` is not part of the kernel language here"),
        )
        .help("write it with operations that are, or as a `#[func]` of your own")
    }

    /// Methods of values of any type.
    fn any_method(
        &mut self,
        at: At,
        name: &str,
        a: Value,
        rest: &[Value],
        shape: &Shape,
    ) -> Result<Option<Val>> {
        let op = match name {
            "add" => Some(BinOp::Add),
            "sub" => Some(BinOp::Sub),
            "mul" => Some(BinOp::Mul),
            "div" => Some(BinOp::Div),
            "rem" => Some(BinOp::Rem),
            _ => None,
        };
        if let (Some(op), [b]) = (op, rest) {
            return self.arithmetic(at, op, a, *b).map(|v| Some(Val::Value(v)));
        }
        Ok(Some(match (name, rest) {
            ("clone", []) => Val::Value(a),
            ("neg", []) => Val::Value(self.negate(a)),
            ("not", []) => Val::Value(self.unary(UnOp::Not, a)),
            ("cast" | "into" | "to_f32" | "to_f64", []) => match Body::shape_is_value(shape) {
                Some(ty) => return self.convert_to(at, a, ty).map(Some),
                None => return Ok(None),
            },
            ("to_array", []) => {
                let n = self.cx.module.structs.arity(self.ty(a));
                let items = (0..n).map(|k| Val::Value(self.extract(a, k))).collect();
                Val::Array(ArrayVal::Items(items))
            }
            _ => return Ok(None),
        }))
    }

    pub(super) fn smaller(&mut self, a: Value, b: Value) -> Value {
        let (a, b) = self.widen(a, b);
        self.binary(BinOp::Min, a, b)
    }

    pub(super) fn larger(&mut self, a: Value, b: Value) -> Value {
        let (a, b) = self.widen(a, b);
        self.binary(BinOp::Max, a, b)
    }

    fn clamp(&mut self, x: Value, lo: Value, hi: Value) -> Value {
        let x = self.larger(x, lo);
        self.smaller(x, hi)
    }

    /// Methods of floats, which vectors have component by component.
    fn float_method(
        &mut self,
        name: &str,
        a: Value,
        rest: &[Value],
        result: Option<Type>,
    ) -> Option<Value> {
        let ty = self.ty(a);
        let s = ty.elem()?;
        if let (Some(op), []) = (float_op(name), rest) {
            return Some(self.unary(op, a));
        }
        Some(match (name, rest) {
            ("abs", []) => self.unary(UnOp::Abs, a),
            ("signum", []) => {
                let one = self.filled(ty, 1.0);
                let signed = self.copysign(one, a)?;
                // NaN stays.
                let number = self.compare(CmpOp::Eq, a, a);
                self.select(number, signed, a)
            }
            ("copysign", [b]) => self.copysign(a, *b)?,
            ("fract", []) => {
                let whole = self.unary(UnOp::Trunc, a);
                self.binary(BinOp::Sub, a, whole)
            }
            ("recip", []) => {
                let one = self.filled(ty, 1.0);
                self.binary(BinOp::Div, one, a)
            }
            ("to_radians", []) => self.scaled(a, std::f64::consts::PI / 180.0),
            ("to_degrees", []) => self.scaled(a, 180.0 / std::f64::consts::PI),
            ("powf", [b]) => self.binary(BinOp::Pow, a, *b),
            ("powi", [n]) => self.powi(a, *n),
            ("atan2", [b]) => self.binary(BinOp::Atan2, a, *b),
            ("hypot", [b]) => {
                let (x, y) = (
                    self.binary(BinOp::Mul, a, a),
                    self.binary(BinOp::Mul, *b, *b),
                );
                let sum = self.binary(BinOp::Add, x, y);
                self.unary(UnOp::Sqrt, sum)
            }
            ("sin_cos", []) => {
                let (sin, cos) = (self.unary(UnOp::Sin, a), self.unary(UnOp::Cos, a));
                self.tuple(&[sin, cos])
            }
            ("log", [base]) => {
                let (x, y) = (self.unary(UnOp::Log, a), self.unary(UnOp::Log, *base));
                self.binary(BinOp::Div, x, y)
            }
            ("min", [b]) => self.smaller(a, *b),
            ("max", [b]) => self.larger(a, *b),
            ("clamp", [lo, hi]) if matches!(ty, Type::Scalar(_)) => {
                // Unlike `min` and `max`, it keeps NaN.
                let below = self.compare(CmpOp::Lt, a, *lo);
                let x = self.select(below, *lo, a);
                let above = self.compare(CmpOp::Gt, x, *hi);
                self.select(above, *hi, x)
            }
            ("clamp", [lo, hi]) => self.clamp(a, *lo, *hi),
            ("mul_add", [b, c]) => self.op(Op::Fma, &[a, *b, *c]),
            ("rem_euclid", [b]) => {
                let r = self.binary(BinOp::Rem, a, *b);
                let zero = self.filled(ty, 0.0);
                let negative = self.compare(CmpOp::Lt, r, zero);
                let size = self.unary(UnOp::Abs, *b);
                let lifted = self.binary(BinOp::Add, r, size);
                self.select(negative, lifted, r)
            }
            ("div_euclid", [b]) => {
                // Rounded towards the side where the remainder is not negative.
                let q = self.binary(BinOp::Div, a, *b);
                let q = self.unary(UnOp::Trunc, q);
                let r = self.binary(BinOp::Rem, a, *b);
                let (zero, one) = (self.filled(ty, 0.0), self.filled(ty, 1.0));
                let negative = self.compare(CmpOp::Lt, r, zero);
                let positive = self.compare(CmpOp::Gt, *b, zero);
                let (down, up) = (
                    self.binary(BinOp::Sub, q, one),
                    self.binary(BinOp::Add, q, one),
                );
                let moved = self.select(positive, down, up);
                self.select(negative, moved, q)
            }
            ("is_nan", []) => self.compare(CmpOp::Ne, a, a),
            ("is_finite", []) => {
                let size = self.unary(UnOp::Abs, a);
                let infinity = self.filled(ty, f64::INFINITY);
                self.compare(CmpOp::Lt, size, infinity)
            }
            ("is_infinite", []) => {
                let size = self.unary(UnOp::Abs, a);
                let infinity = self.filled(ty, f64::INFINITY);
                self.compare(CmpOp::Eq, size, infinity)
            }
            ("is_sign_negative" | "is_sign_positive", []) => {
                let bits = self.bitcast(a, int_of(s)?);
                let zero = self.int(int_of(s)?, 0);
                let op = if name == "is_sign_negative" {
                    CmpOp::Lt
                } else {
                    CmpOp::Ge
                };
                self.compare(op, bits, zero)
            }
            ("unit_scale", []) => self.unit_scale(a)?,
            ("to_bits", []) => self.bitcast(a, result?.elem()?),
            _ => return None,
        })
    }

    fn scaled(&mut self, a: Value, by: f64) -> Value {
        let by = self.filled(self.ty(a), by);
        self.binary(BinOp::Mul, a, by)
    }

    /// As `Float::unit_scale` has it.
    fn unit_scale(&mut self, a: Value) -> Option<Value> {
        let ty = self.ty(a);
        let s = ty.elem()?;
        let bits = int_of(s)?;
        let (digits, exponents) = match s {
            Scalar::F16 => (10, 30),
            Scalar::F32 => (23, 254),
            _ => (52, 2046),
        };
        let mut number = |exponent: i128| {
            let n = self.int(bits, exponent << digits);
            self.splat(n, ty.with_elem(bits))
        };
        let (mask, twice) = (number(exponents + 1), number(exponents));
        let (least, most) = (number(1), number(exponents - 1));
        let x = self.bitcast(a, bits);
        let exponent = self.binary(BinOp::And, x, mask);
        let exponent = self.clamp(exponent, least, most);
        let scale = self.binary(BinOp::Sub, twice, exponent);
        Some(self.bitcast(scale, s))
    }

    /// The size of one number with the sign of another.
    fn copysign(&mut self, size: Value, sign: Value) -> Option<Value> {
        let ty = self.ty(size);
        let s = ty.elem()?;
        let bits = int_of(s)?;
        let top = -1i128 << (s.bits() - 1);
        let (low, high) = (self.int(bits, !top), self.int(bits, top));
        let (low, high) = (
            self.splat(low, ty.with_elem(bits)),
            self.splat(high, ty.with_elem(bits)),
        );
        let (a, b) = (self.bitcast(size, bits), self.bitcast(sign, bits));
        let (a, b) = (
            self.binary(BinOp::And, a, low),
            self.binary(BinOp::And, b, high),
        );
        let joined = self.binary(BinOp::Or, a, b);
        Some(self.bitcast(joined, s))
    }

    /// An integer power of a float: products when the power is small and known.
    fn powi(&mut self, a: Value, n: Value) -> Value {
        let ty = self.ty(a);
        match self.known(n) {
            Some(n) if n.unsigned_abs() <= 64 => {
                let mut rest = n.unsigned_abs();
                let mut square = a;
                let mut product: Option<Value> = None;
                while rest > 0 {
                    if rest & 1 == 1 {
                        product = Some(match product {
                            Some(p) => self.binary(BinOp::Mul, p, square),
                            None => square,
                        });
                    }
                    rest >>= 1;
                    if rest > 0 {
                        square = self.binary(BinOp::Mul, square, square);
                    }
                }
                let one = self.filled(ty, 1.0);
                let product = product.unwrap_or(one);
                if n < 0 {
                    self.binary(BinOp::Div, one, product)
                } else {
                    product
                }
            }
            _ => {
                let s = ty.elem().unwrap_or(Scalar::F32);
                let n = self.convert(n, s);
                let n = self.splat(n, ty);
                self.binary(BinOp::Pow, a, n)
            }
        }
    }

    /// Methods of integers, which vectors have component by component.
    fn int_method(
        &mut self,
        name: &str,
        s: Scalar,
        a: Value,
        rest: &[Value],
        result: Option<Type>,
    ) -> Option<Value> {
        let ty = self.ty(a);
        let plain = match name {
            "wrapping_add" => Some(BinOp::Add),
            "wrapping_sub" => Some(BinOp::Sub),
            "wrapping_mul" => Some(BinOp::Mul),
            "wrapping_div" => Some(BinOp::Div),
            "wrapping_rem" => Some(BinOp::Rem),
            "min" => Some(BinOp::Min),
            "max" => Some(BinOp::Max),
            _ => None,
        };
        if let (Some(op), [b]) = (plain, rest) {
            return Some(self.binary(op, a, *b));
        }
        Some(match (name, rest) {
            ("clamp", [lo, hi]) => self.clamp(a, *lo, *hi),
            ("abs" | "wrapping_abs", []) => self.unary(UnOp::Abs, a),
            ("unsigned_abs", []) => {
                let size = self.unary(UnOp::Abs, a);
                self.bitcast(size, result?.elem()?)
            }
            ("signum", []) => self.unary(UnOp::Sign, a),
            ("wrapping_neg", []) => self.negate(a),
            ("is_positive" | "is_negative", []) => {
                let zero = self.int(s, 0);
                let op = if name == "is_positive" {
                    CmpOp::Gt
                } else {
                    CmpOp::Lt
                };
                self.compare(op, a, zero)
            }
            ("wrapping_shl", [n]) => {
                let n = self.convert(*n, s);
                self.binary(BinOp::Shl, a, n)
            }
            ("wrapping_shr", [n]) => {
                let n = self.convert(*n, s);
                self.binary(BinOp::Shr, a, n)
            }
            ("count_ones", []) => self.counted_bits(UnOp::PopCount, a),
            ("leading_zeros", []) => self.counted_bits(UnOp::LeadingZeros, a),
            ("trailing_zeros", []) => self.counted_bits(UnOp::TrailingZeros, a),
            ("count_zeros", []) => {
                let flipped = self.unary(UnOp::Not, a);
                self.counted_bits(UnOp::PopCount, flipped)
            }
            ("is_power_of_two", []) => {
                let ones = self.unary(UnOp::PopCount, a);
                let one = self.int(s, 1);
                self.compare(CmpOp::Eq, ones, one)
            }
            ("rotate_left" | "rotate_right", [n]) => {
                let u = unsigned_of(s);
                let bits = self.bitcast(a, u);
                let n = self.convert(*n, u);
                let width = self.int(u, i128::from(s.bits()));
                let back = self.binary(BinOp::Sub, width, n);
                let (l, r) = if name == "rotate_left" {
                    (n, back)
                } else {
                    (back, n)
                };
                // Amounts count modulo the width, so a rotation by 0 is `x | x`.
                let (high, low) = (
                    self.binary(BinOp::Shl, bits, l),
                    self.binary(BinOp::Shr, bits, r),
                );
                let joined = self.binary(BinOp::Or, high, low);
                self.bitcast(joined, s)
            }
            ("swap_bytes", []) => self.permuted_bits(a, s, 8),
            ("reverse_bits", []) => self.permuted_bits(a, s, 1),
            ("pow" | "wrapping_pow", [n]) => self.int_power(a, *n),
            ("abs_diff", [b]) => {
                let (hi, lo) = (self.larger(a, *b), self.smaller(a, *b));
                let d = self.binary(BinOp::Sub, hi, lo);
                self.bitcast(d, result?.elem()?)
            }
            ("rem_euclid", [b]) => {
                let r = self.binary(BinOp::Rem, a, *b);
                self.lifted(r, *b, ty)?
            }
            ("div_euclid", [b]) => {
                let q = self.binary(BinOp::Div, a, *b);
                let r = self.binary(BinOp::Rem, a, *b);
                if s.is_unsigned_int() {
                    return Some(q);
                }
                let (zero, one) = (self.int(s, 0), self.int(s, 1));
                let negative = self.compare(CmpOp::Lt, r, zero);
                let positive = self.compare(CmpOp::Gt, *b, zero);
                let (down, up) = (
                    self.binary(BinOp::Sub, q, one),
                    self.binary(BinOp::Add, q, one),
                );
                let moved = self.select(positive, down, up);
                self.select(negative, moved, q)
            }
            _ => return None,
        })
    }

    /// A remainder made non-negative.
    fn lifted(&mut self, r: Value, b: Value, ty: Type) -> Option<Value> {
        if ty.elem()?.is_unsigned_int() {
            return Some(r);
        }
        let zero = self.filled(ty, 0.0);
        let negative = self.compare(CmpOp::Lt, r, zero);
        let size = self.unary(UnOp::Abs, b);
        let lifted = self.binary(BinOp::Add, r, size);
        Some(self.select(negative, lifted, r))
    }

    /// Rust counts bits as `u32`.
    fn counted_bits(&mut self, op: UnOp, a: Value) -> Value {
        let n = self.unary(op, a);
        self.convert(n, Scalar::U32)
    }

    /// Reverses the order of groups of bits, by swapping halves of halves.
    fn permuted_bits(&mut self, a: Value, s: Scalar, group: u32) -> Value {
        let u = unsigned_of(s);
        let mut v = self.bitcast(a, u);
        let mut width = s.bits() / 2;
        while width >= group {
            // Ones in the lower half of each pair of groups.
            let mut mask = 0u64;
            for bit in 0..s.bits() {
                if (bit / width).is_multiple_of(2) {
                    mask |= 1 << bit;
                }
            }
            let mask = self.imm(Imm::from_bits(u, mask));
            let n = self.int(u, i128::from(width));
            let high = self.binary(BinOp::Shr, v, n);
            let high = self.binary(BinOp::And, high, mask);
            let low = self.binary(BinOp::And, v, mask);
            let low = self.binary(BinOp::Shl, low, n);
            v = self.binary(BinOp::Or, high, low);
            width /= 2;
        }
        self.bitcast(v, s)
    }

    /// An integer power: products when it is known, else one step per bit.
    fn int_power(&mut self, a: Value, n: Value) -> Value {
        let s = self.ty(a).elem().unwrap_or(Scalar::I32);
        let one = self.int(s, 1);
        let bits = match self.known(n) {
            Some(n) => 128 - n.max(0).leading_zeros(),
            None => 32,
        };
        let mut product = one;
        let mut square = a;
        for bit in 0..bits {
            let mask = self.int(Scalar::U32, 1i128 << bit);
            let n = self.convert(n, Scalar::U32);
            let part = self.binary(BinOp::And, n, mask);
            let zero = self.int(Scalar::U32, 0);
            let set = self.compare(CmpOp::Ne, part, zero);
            product = match self.constant(set).and_then(Imm::as_bool) {
                Some(true) => self.binary(BinOp::Mul, product, square),
                Some(false) => product,
                None => {
                    let next = self.binary(BinOp::Mul, product, square);
                    self.select(set, next, product)
                }
            };
            if bit + 1 < bits {
                square = self.binary(BinOp::Mul, square, square);
            }
        }
        product
    }

    fn vector_method(&mut self, name: &str, a: Value, rest: &[Value]) -> Result<Option<Value>> {
        let ty = self.ty(a);
        let (Some(s), Some(n)) = (ty.elem(), ty.lanes()) else {
            return Ok(None);
        };
        Ok(Some(match (name, rest) {
            ("dot", [b]) => self.op(Op::Algebra(AlgebraOp::Dot), &[a, *b]),
            ("cross", [b]) => self.op(Op::Algebra(AlgebraOp::Cross), &[a, *b]),
            ("outer", [b]) => self.op(Op::Algebra(AlgebraOp::Outer), &[a, *b]),
            ("norm_sqr", []) => self.op(Op::Algebra(AlgebraOp::Dot), &[a, a]),
            ("norm", []) => self.norm(a),
            ("normalized", []) => {
                let size = self.norm(a);
                let size = self.splat(size, ty);
                self.binary(BinOp::Div, a, size)
            }
            ("distance", [b]) => {
                let d = self.binary(BinOp::Sub, a, *b);
                self.norm(d)
            }
            ("reflect", [normal]) => {
                let along = self.op(Op::Algebra(AlgebraOp::Dot), &[a, *normal]);
                let two = self.float(s, 2.0);
                let twice = self.binary(BinOp::Mul, two, along);
                let twice = self.splat(twice, ty);
                let back = self.binary(BinOp::Mul, *normal, twice);
                self.binary(BinOp::Sub, a, back)
            }
            ("sum", []) => self.op(Op::Reduce(ReduceOp::Add), &[a]),
            ("product", []) => self.op(Op::Reduce(ReduceOp::Mul), &[a]),
            ("min_component", []) => self.op(Op::Reduce(ReduceOp::Min), &[a]),
            ("max_component", []) => self.op(Op::Reduce(ReduceOp::Max), &[a]),
            ("any", []) => self.op(Op::Reduce(ReduceOp::Or), &[a]),
            ("all", []) => self.op(Op::Reduce(ReduceOp::And), &[a]),
            ("select", [b, c]) => self.select(a, *b, *c),
            ("extend", [last]) => {
                let mut parts: Vec<Value> = (0..n).map(|k| self.extract(a, k)).collect();
                parts.push(*last);
                self.op(Op::Compose(Type::Vector(s, n as u16 + 1)), &parts)
            }
            ("cmp_eq", [b]) => self.compare(CmpOp::Eq, a, *b),
            ("cmp_ne", [b]) => self.compare(CmpOp::Ne, a, *b),
            ("cmp_lt", [b]) => self.compare(CmpOp::Lt, a, *b),
            ("cmp_le", [b]) => self.compare(CmpOp::Le, a, *b),
            ("cmp_gt", [b]) => self.compare(CmpOp::Gt, a, *b),
            ("cmp_ge", [b]) => self.compare(CmpOp::Ge, a, *b),
            _ => return Ok(None),
        }))
    }

    fn norm(&mut self, a: Value) -> Value {
        let square = self.op(Op::Algebra(AlgebraOp::Dot), &[a, a]);
        self.unary(UnOp::Sqrt, square)
    }

    fn matrix_method(
        &mut self,
        at: At,
        name: &str,
        a: Value,
        rest: &[Value],
    ) -> Result<Option<Value>> {
        let Type::Matrix(s, rows, cols) = self.ty(a) else {
            return Ok(None);
        };
        Ok(Some(match (name, rest) {
            ("transpose", []) => self.op(Op::Algebra(AlgebraOp::Transpose), &[a]),
            ("determinant", []) => self.op(Op::Algebra(AlgebraOp::Determinant), &[a]),
            ("inverse", []) => self.op(Op::Algebra(AlgebraOp::Inverse), &[a]),
            ("component_mul", [b]) => self.binary(BinOp::Mul, a, *b),
            ("sum", []) => self.op(Op::Reduce(ReduceOp::Add), &[a]),
            ("norm_sqr" | "norm", []) => {
                let squares = self.binary(BinOp::Mul, a, a);
                let sum = self.op(Op::Reduce(ReduceOp::Add), &[squares]);
                if name == "norm" {
                    self.unary(UnOp::Sqrt, sum)
                } else {
                    sum
                }
            }
            ("trace", []) => {
                let mut sum = self.extract(a, 0);
                for k in 1..u32::from(rows) {
                    let d = self.extract(a, k * (u32::from(cols) + 1));
                    sum = self.binary(BinOp::Add, sum, d);
                }
                sum
            }
            ("diagonal", []) => {
                let parts: Vec<Value> = (0..u32::from(rows))
                    .map(|k| self.extract(a, k * (u32::from(cols) + 1)))
                    .collect();
                self.op(Op::Compose(Type::Vector(s, rows)), &parts)
            }
            ("row" | "col", [k]) => {
                let (rows, cols) = (u32::from(rows), u32::from(cols));
                let (count, len, stride, step) = if name == "row" {
                    (rows, cols, cols, 1)
                } else {
                    (cols, rows, 1, cols)
                };
                let mut parts = Vec::new();
                match self.known(*k) {
                    Some(k) if k < 0 || k >= i128::from(count) => {
                        return Err(self.outside(at, k, count as usize));
                    }
                    Some(k) => {
                        for n in 0..len {
                            parts.push(self.extract(a, k as u32 * stride + n * step));
                        }
                    }
                    None => {
                        self.push(Op::CheckIndex(count), &[*k]);
                        let k = self.convert(*k, Scalar::I64);
                        let stride = self.int(Scalar::I64, i128::from(stride));
                        let start = self.binary(BinOp::Mul, k, stride);
                        for n in 0..len {
                            let more = self.int(Scalar::I64, i128::from(n * step));
                            let index = self.binary(BinOp::Add, start, more);
                            parts.push(self.op(Op::ExtractDyn, &[a, index]));
                        }
                    }
                }
                self.op(Op::Compose(Type::Vector(s, len as u16)), &parts)
            }
            _ => return Ok(None),
        }))
    }
}

/// The signed integer of the same width as a float.
fn int_of(s: Scalar) -> Option<Scalar> {
    match s {
        Scalar::F16 => Some(Scalar::I16),
        Scalar::F32 => Some(Scalar::I32),
        Scalar::F64 => Some(Scalar::I64),
        _ => None,
    }
}

fn unsigned_of(s: Scalar) -> Scalar {
    match s {
        Scalar::I8 => Scalar::U8,
        Scalar::I16 => Scalar::U16,
        Scalar::I32 => Scalar::U32,
        Scalar::I64 => Scalar::U64,
        other => other,
    }
}
