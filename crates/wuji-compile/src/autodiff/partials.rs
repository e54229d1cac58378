//! The derivatives of elementwise operations, for both modes. `docs/derivatives.md` has them in a table.
//!
//! A factor that does not apply at a point never computes an infinity or NaN there first and selects it away
//! afterwards: the derivative of that factor would bring it back.

use std::f64::consts::{LN_2, LN_10, LOG2_E};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp, ElementwiseOp, Op, UnOp};
use wuji_ir::types::{Scalar, Type};

/// The derivative of an operation by one of its arguments.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Partial {
    Zero,
    One,
    MinusOne,
    /// One where the condition holds, else zero. The condition may be one `bool` for all components.
    Where(Value),
    /// It has the type of the result.
    Factor(Value),
}

impl Partial {
    /// The derivative times a value of the type of the result; `None` if it is zero everywhere.
    pub(super) fn times(self, b: &mut Builder, value: Value) -> Option<Value> {
        match self {
            Partial::Zero => None,
            Partial::One => Some(value),
            Partial::MinusOne => Some(b.unary(UnOp::Neg, value)),
            Partial::Where(condition) => {
                let zero = b.zero(b.func.ty(value));
                Some(b.select(condition, value, zero))
            }
            Partial::Factor(factor) => Some(b.binary(BinOp::Mul, factor, value)),
        }
    }
}

/// What [`partial`] reads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    /// Bit `j` for argument `j`.
    pub args: u8,
    pub result: bool,
}

impl Needs {
    pub(super) const NOTHING: Needs = Needs::args(0);
    pub(super) const RESULT: Needs = Needs {
        args: 0,
        result: true,
    };

    pub(super) const fn args(args: u8) -> Needs {
        Needs {
            args,
            result: false,
        }
    }

    const fn and_result(self) -> Needs {
        Needs {
            result: true,
            ..self
        }
    }
}

/// What the derivative of an operation by its `k`-th argument reads.
pub(super) fn needs(op: ElementwiseOp, k: usize) -> Needs {
    match op {
        ElementwiseOp::Unary(op) => unary_needs(op),
        ElementwiseOp::Binary(op) => binary_needs(op, k),
        ElementwiseOp::Compare(_) => Needs::NOTHING,
        ElementwiseOp::Select if k == 0 => Needs::NOTHING,
        ElementwiseOp::Select => Needs::args(0b001),
        ElementwiseOp::Fma if k == 2 => Needs::NOTHING,
        ElementwiseOp::Fma => Needs::args(1 << (1 - k)),
        ElementwiseOp::Convert(_) | ElementwiseOp::Bitcast(_) => Needs::NOTHING,
    }
}

fn unary_needs(op: UnOp) -> Needs {
    match op {
        UnOp::Neg
        | UnOp::Not
        | UnOp::Sign
        | UnOp::Floor
        | UnOp::Ceil
        | UnOp::Round
        | UnOp::RoundEven
        | UnOp::Trunc
        | UnOp::PopCount
        | UnOp::LeadingZeros
        | UnOp::TrailingZeros
        | UnOp::Freeze
        | UnOp::StopGrad => Needs::NOTHING,
        UnOp::Abs
        | UnOp::Sin
        | UnOp::Cos
        | UnOp::Asin
        | UnOp::Acos
        | UnOp::Atan
        | UnOp::Sinh
        | UnOp::Cosh
        | UnOp::Log
        | UnOp::Log2
        | UnOp::Log10 => Needs::args(1),
        UnOp::Sqrt
        | UnOp::PreciseSqrt
        | UnOp::Rsqrt
        | UnOp::Tan
        | UnOp::Tanh
        | UnOp::Exp
        | UnOp::Exp2 => Needs::RESULT,
    }
}

fn binary_needs(op: BinOp, k: usize) -> Needs {
    const FIRST: Needs = Needs::args(0b01);
    const SECOND: Needs = Needs::args(0b10);
    const BOTH: Needs = Needs::args(0b11);
    match op {
        BinOp::Add
        | BinOp::PreciseAdd
        | BinOp::Sub
        | BinOp::PreciseSub
        | BinOp::And
        | BinOp::Or
        | BinOp::Xor
        | BinOp::Shl
        | BinOp::Shr => Needs::NOTHING,
        BinOp::Mul | BinOp::PreciseMul if k == 0 => SECOND,
        BinOp::Mul | BinOp::PreciseMul => FIRST,
        BinOp::Div | BinOp::PreciseDiv if k == 0 => SECOND,
        BinOp::Div | BinOp::PreciseDiv => SECOND.and_result(),
        BinOp::Rem if k == 0 => Needs::NOTHING,
        BinOp::Rem => BOTH.and_result(),
        BinOp::Min | BinOp::Max => SECOND.and_result(),
        BinOp::Pow if k == 0 => BOTH,
        BinOp::Pow => FIRST.and_result(),
        BinOp::Atan2 => BOTH,
    }
}

/// Whether the derivative by the `k`-th argument, if that is a float, is not zero everywhere.
pub(super) fn is_differentiable(op: ElementwiseOp, k: usize) -> bool {
    match op {
        ElementwiseOp::Unary(op) => match op {
            UnOp::Not
            | UnOp::Sign
            | UnOp::Floor
            | UnOp::Ceil
            | UnOp::Round
            | UnOp::RoundEven
            | UnOp::Trunc
            | UnOp::PopCount
            | UnOp::LeadingZeros
            | UnOp::TrailingZeros
            | UnOp::StopGrad => false,
            UnOp::Neg
            | UnOp::Abs
            | UnOp::Sqrt
            | UnOp::Rsqrt
            | UnOp::PreciseSqrt
            | UnOp::Sin
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
            | UnOp::Log10
            | UnOp::Freeze => true,
        },
        ElementwiseOp::Binary(op) => match op {
            BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr => false,
            BinOp::Add
            | BinOp::Sub
            | BinOp::Mul
            | BinOp::Div
            | BinOp::Rem
            | BinOp::Min
            | BinOp::Max
            | BinOp::Pow
            | BinOp::Atan2
            | BinOp::PreciseAdd
            | BinOp::PreciseSub
            | BinOp::PreciseMul
            | BinOp::PreciseDiv => true,
        },
        ElementwiseOp::Compare(_) => false,
        ElementwiseOp::Select => k != 0,
        ElementwiseOp::Fma => true,
        // By bits from a float to a float is to the same type.
        ElementwiseOp::Convert(to) | ElementwiseOp::Bitcast(to) => to.is_float(),
    }
}

/// The derivative of an operation on floats by its `k`-th argument.
///
/// Arguments and result are values of the function being built. What [`needs`] does not list is not read.
/// The derivative of a conversion between floats is one: the caller converts.
pub(super) fn partial(
    b: &mut Builder,
    op: ElementwiseOp,
    args: &[Value],
    result: Value,
    k: usize,
) -> Partial {
    match op {
        ElementwiseOp::Unary(op) => unary(b, op, args[0], result),
        ElementwiseOp::Binary(op) => binary(b, op, args[0], args[1], result, k),
        ElementwiseOp::Compare(_) => Partial::Zero,
        ElementwiseOp::Select => match k {
            0 => Partial::Zero,
            1 => Partial::Where(args[0]),
            _ => Partial::Where(b.unary(UnOp::Not, args[0])),
        },
        ElementwiseOp::Fma => match k {
            0 => Partial::Factor(args[1]),
            1 => Partial::Factor(args[0]),
            _ => Partial::One,
        },
        ElementwiseOp::Convert(to) | ElementwiseOp::Bitcast(to) => {
            if to.is_float() {
                Partial::One
            } else {
                Partial::Zero
            }
        }
    }
}

fn unary(b: &mut Builder, op: UnOp, x: Value, r: Value) -> Partial {
    match op {
        UnOp::Neg => Partial::MinusOne,
        UnOp::Freeze => Partial::One,
        UnOp::Not
        | UnOp::Sign
        | UnOp::Floor
        | UnOp::Ceil
        | UnOp::Round
        | UnOp::RoundEven
        | UnOp::Trunc
        | UnOp::PopCount
        | UnOp::LeadingZeros
        | UnOp::TrailingZeros
        | UnOp::StopGrad => Partial::Zero,
        UnOp::Abs => Partial::Factor(b.unary(UnOp::Sign, x)),
        UnOp::Exp => Partial::Factor(r),
        UnOp::Sqrt | UnOp::PreciseSqrt => widened(b, r, sqrt_factor),
        UnOp::Rsqrt => widened(b, r, |b, r| {
            let square = b.binary(BinOp::Mul, r, r);
            let cube = b.binary(BinOp::Mul, square, r);
            scaled(b, -0.5, cube)
        }),
        UnOp::Sin => widened(b, x, |b, x| b.unary(UnOp::Cos, x)),
        UnOp::Cos => widened(b, x, |b, x| {
            let sin = b.unary(UnOp::Sin, x);
            b.unary(UnOp::Neg, sin)
        }),
        UnOp::Tan => widened(b, r, one_plus_square),
        UnOp::Asin => widened(b, x, asin_factor),
        UnOp::Acos => widened(b, x, |b, x| {
            let factor = asin_factor(b, x);
            b.unary(UnOp::Neg, factor)
        }),
        UnOp::Atan => widened(b, x, |b, x| {
            let sum = one_plus_square(b, x);
            quotient(b, 1.0, sum)
        }),
        UnOp::Sinh => widened(b, x, |b, x| b.unary(UnOp::Cosh, x)),
        UnOp::Cosh => widened(b, x, |b, x| b.unary(UnOp::Sinh, x)),
        UnOp::Tanh => widened(b, r, |b, r| {
            let (below, above) = around_one(b, r);
            b.binary(BinOp::Mul, below, above)
        }),
        UnOp::Exp2 => widened(b, r, |b, r| scaled(b, LN_2, r)),
        UnOp::Log => widened(b, x, |b, x| quotient(b, 1.0, x)),
        UnOp::Log2 => widened(b, x, |b, x| quotient(b, LOG2_E, x)),
        UnOp::Log10 => widened(b, x, |b, x| quotient(b, 1.0 / LN_10, x)),
    }
}

fn binary(b: &mut Builder, op: BinOp, x: Value, y: Value, r: Value, k: usize) -> Partial {
    match op {
        BinOp::Add | BinOp::PreciseAdd => Partial::One,
        BinOp::Sub | BinOp::PreciseSub if k == 0 => Partial::One,
        BinOp::Sub | BinOp::PreciseSub => Partial::MinusOne,
        BinOp::Mul | BinOp::PreciseMul if k == 0 => Partial::Factor(y),
        BinOp::Mul | BinOp::PreciseMul => Partial::Factor(x),
        BinOp::Div | BinOp::PreciseDiv if k == 0 => widened(b, y, |b, y| quotient(b, 1.0, y)),
        BinOp::Div | BinOp::PreciseDiv => widened_all(b, [y, r], |b, [y, r]| {
            // The derivative by the dividend has the same reciprocal.
            let reciprocal = quotient(b, 1.0, y);
            let factor = b.binary(BinOp::Mul, r, reciprocal);
            b.unary(UnOp::Neg, factor)
        }),
        BinOp::Rem if k == 0 => Partial::One,
        BinOp::Rem => widened_all(b, [x, y, r], rem_factor),
        BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr => Partial::Zero,
        // The result is the second operand also where both are equal.
        BinOp::Min | BinOp::Max if k == 0 => Partial::Where(b.compare(CmpOp::Ne, r, y)),
        BinOp::Min | BinOp::Max => Partial::Where(b.compare(CmpOp::Eq, r, y)),
        BinOp::Pow if k == 0 => widened_all(b, [x, y], pow_by_base),
        BinOp::Pow => widened_all(b, [x, r], pow_by_exponent),
        BinOp::Atan2 => widened_all(b, [x, y], |b, [x, y]| atan2_factor(b, x, y, k)),
    }
}

/// `0.5 / r`, and 0 where `r` is.
fn sqrt_factor(b: &mut Builder, r: Value) -> Value {
    let zero = splat(b, r, 0.0);
    let infinity = splat(b, r, f64::INFINITY);
    let is_zero = b.compare(CmpOp::Eq, r, zero);
    let divisor = b.select(is_zero, infinity, r);
    quotient(b, 0.5, divisor)
}

fn one_plus_square(b: &mut Builder, x: Value) -> Value {
    let one = splat(b, x, 1.0);
    let square = b.binary(BinOp::Mul, x, x);
    b.binary(BinOp::Add, one, square)
}

/// `1 - x` and `1 + x`. Their product is more accurate near 1 than `1 - x * x`.
fn around_one(b: &mut Builder, x: Value) -> (Value, Value) {
    let one = splat(b, x, 1.0);
    (b.binary(BinOp::Sub, one, x), b.binary(BinOp::Add, one, x))
}

fn asin_factor(b: &mut Builder, x: Value) -> Value {
    let (below, above) = around_one(b, x);
    let product = b.binary(BinOp::Mul, below, above);
    b.unary(UnOp::Rsqrt, product)
}

/// The number of divisors that the remainder has taken off, negated. `x / y` may round up to a whole number.
fn rem_factor(b: &mut Builder, [x, y, r]: [Value; 3]) -> Value {
    let multiple = b.binary(BinOp::Sub, r, x);
    let count = b.binary(BinOp::Div, multiple, y);
    b.unary(UnOp::RoundEven, count)
}

/// `y * x^(y - 1)`; 0 where `y` is 0, and where `x` is 0 and the derivative would be infinite although the power
/// is not.
fn pow_by_base(b: &mut Builder, [x, y]: [Value; 2]) -> Value {
    let zero = splat(b, x, 0.0);
    let one = splat(b, x, 1.0);
    let constant = b.compare(CmpOp::Eq, y, zero);
    let at_zero = b.compare(CmpOp::Eq, x, zero);
    let positive = b.compare(CmpOp::Gt, y, zero);
    let below_one = b.compare(CmpOp::Lt, y, one);
    let is_root = b.binary(BinOp::And, positive, below_one);
    let vertical = b.binary(BinOp::And, at_zero, is_root);
    let is_zero = b.binary(BinOp::Or, constant, vertical);
    let base = b.select(is_zero, one, x);
    let exponent = b.binary(BinOp::Sub, y, one);
    let power = b.binary(BinOp::Pow, base, exponent);
    let factor = b.binary(BinOp::Mul, y, power);
    b.select(is_zero, zero, factor)
}

/// `x^y * log(x)`; 0 where `x` is not positive, and where the power is 0.
fn pow_by_exponent(b: &mut Builder, [x, r]: [Value; 2]) -> Value {
    let zero = splat(b, x, 0.0);
    let one = splat(b, x, 1.0);
    let no_log = b.compare(CmpOp::Le, x, zero);
    let vanishes = b.compare(CmpOp::Eq, r, zero);
    let is_zero = b.binary(BinOp::Or, no_log, vanishes);
    let base = b.select(is_zero, one, x);
    let log = b.unary(UnOp::Log, base);
    let factor = b.binary(BinOp::Mul, r, log);
    b.select(is_zero, zero, factor)
}

/// `x / (y^2 + x^2)` by `y` and `-y / (y^2 + x^2)` by `x`, and 0 where both are. The greater of both is taken out
/// first, so that no square overflows or underflows.
fn atan2_factor(b: &mut Builder, y: Value, x: Value, k: usize) -> Value {
    let zero = splat(b, x, 0.0);
    let one = splat(b, x, 1.0);
    let infinity = splat(b, x, f64::INFINITY);
    let abs_y = b.unary(UnOp::Abs, y);
    let abs_x = b.unary(UnOp::Abs, x);
    let greater = b.binary(BinOp::Max, abs_y, abs_x);
    let is_origin = b.compare(CmpOp::Eq, greater, zero);
    let size = b.select(is_origin, infinity, greater);
    let y = b.binary(BinOp::Div, y, size);
    let x = b.binary(BinOp::Div, x, size);
    let (yy, xx) = (b.binary(BinOp::Mul, y, y), b.binary(BinOp::Mul, x, x));
    let squares = b.binary(BinOp::Add, yy, xx);
    // At least 1, except at the origin.
    let squares = b.binary(BinOp::Max, one, squares);
    let divisor = b.binary(BinOp::Mul, squares, size);
    let dividend = if k == 0 { x } else { b.unary(UnOp::Neg, y) };
    b.binary(BinOp::Div, dividend, divisor)
}

/// A constant of the type of a value.
fn splat(b: &mut Builder, like: Value, number: f64) -> Value {
    let ty = b.func.ty(like);
    let constant = b.float(ty.elem().unwrap_or(Scalar::F64), number);
    match ty {
        Type::Vector(..) | Type::Matrix(..) => b.value(Op::Splat(ty), &[constant]),
        Type::Scalar(_) | Type::Struct(_) => constant,
    }
}

fn scaled(b: &mut Builder, number: f64, x: Value) -> Value {
    let number = splat(b, x, number);
    b.binary(BinOp::Mul, number, x)
}

fn quotient(b: &mut Builder, dividend: f64, divisor: Value) -> Value {
    let dividend = splat(b, divisor, dividend);
    b.binary(BinOp::Div, dividend, divisor)
}

/// A factor that is computed in `f32` for `f16`, whose squares soon overflow.
fn widened(
    b: &mut Builder,
    x: Value,
    factor: impl FnOnce(&mut Builder, Value) -> Value,
) -> Partial {
    widened_all(b, [x], |b, [x]| factor(b, x))
}

fn widened_all<const N: usize>(
    b: &mut Builder,
    args: [Value; N],
    factor: impl FnOnce(&mut Builder, [Value; N]) -> Value,
) -> Partial {
    let elem = b.func.ty(args[0]).elem();
    if elem != Some(Scalar::F16) {
        return Partial::Factor(factor(b, args));
    }
    let wide = args.map(|a| b.convert(a, Scalar::F32));
    let result = factor(b, wide);
    Partial::Factor(b.convert(result, Scalar::F16))
}

#[cfg(test)]
mod tests;
