//! Floating-point numbers, by integer arithmetic on their bits.

use super::{bitcast, bits_of, int_like, shift, with};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp};
use wuji_ir::quant::{FloatFormat, Rounding};
use wuji_ir::types::Scalar;

/// Random bits below those that are kept; `None` for rounding to the nearest.
pub(super) fn random_rest(
    b: &mut Builder<'_>,
    format: FloatFormat,
    rounding: Rounding,
    compute: Scalar,
    draw: Option<Value>,
) -> Option<Value> {
    let dropped = FloatFormat::of(compute).digits - format.digits;
    match rounding {
        Rounding::Stochastic if dropped > 0 => {
            let rest = with(b, BinOp::Shr, draw?, u64::from(64 - dropped));
            Some(b.convert(rest, bits_of(compute)))
        }
        Rounding::Stochastic | Rounding::Nearest => None,
    }
}

/// The bits of a number in the format; `rest` is added below them before the others are dropped.
pub(super) fn encode(
    b: &mut Builder<'_>,
    format: FloatFormat,
    signed: bool,
    compute: Scalar,
    value: Value,
    rest: Option<Value>,
) -> Value {
    let wide = FloatFormat::of(compute);
    let raw = bitcast(b, value, bits_of(compute));
    let magnitude = if signed {
        with(b, BinOp::And, raw, wide.sign() - 1)
    } else {
        positive_part(b, raw)
    };
    let mut code = round(b, format, wide, magnitude, rest);
    let is_zero = if format.exponent == wide.exponent {
        less(b, magnitude, wide.smallest())
    } else {
        let rebias = (wide.bias() - format.bias()) << format.digits;
        let is_zero = less(b, code, rebias + format.smallest());
        code = with(b, BinOp::Sub, code, rebias);
        code = with(b, BinOp::Min, code, format.infinity());
        is_zero
    };
    let zero = int_like(b, raw, 0);
    code = b.select(is_zero, zero, code);
    if signed {
        let down = (wide.exponent + wide.digits) - (format.exponent + format.digits);
        let sign = shift(b, BinOp::Shr, raw, down);
        let sign = with(b, BinOp::And, sign, format.sign());
        code = b.binary(BinOp::Or, code, sign);
    }
    let is_number = b.compare(CmpOp::Eq, value, value);
    let nan = int_like(b, raw, format.nan());
    b.select(is_number, code, nan)
}

/// The bits of a number, or zero if it is negative.
fn positive_part(b: &mut Builder<'_>, raw: Value) -> Value {
    let (signed, unsigned) = if b.func.ty(raw).elem() == Some(Scalar::U64) {
        (Scalar::I64, Scalar::U64)
    } else {
        (Scalar::I32, Scalar::U32)
    };
    let n = b.convert(raw, signed);
    let n = with(b, BinOp::Max, n, 0);
    b.convert(n, unsigned)
}

/// Drops the digits that the format has not.
fn round(
    b: &mut Builder<'_>,
    format: FloatFormat,
    wide: FloatFormat,
    magnitude: Value,
    rest: Option<Value>,
) -> Value {
    let dropped = wide.digits - format.digits;
    if dropped == 0 {
        return magnitude;
    }
    let sum = match rest {
        Some(rest) => b.binary(BinOp::Add, magnitude, rest),
        None => {
            let last = shift(b, BinOp::Shr, magnitude, dropped);
            let last = with(b, BinOp::And, last, 1);
            let sum = b.binary(BinOp::Add, magnitude, last);
            if dropped == 1 {
                sum
            } else {
                with(b, BinOp::Add, sum, (1 << (dropped - 1)) - 1)
            }
        }
    };
    shift(b, BinOp::Shr, sum, dropped)
}

fn less(b: &mut Builder<'_>, a: Value, limit: u64) -> Value {
    let limit = int_like(b, a, limit);
    b.compare(CmpOp::Lt, a, limit)
}

/// The number with these bits, an unsigned integer with zeros above.
pub(super) fn decode(
    b: &mut Builder<'_>,
    format: FloatFormat,
    signed: bool,
    compute: Scalar,
    raw: Value,
) -> Value {
    let wide = FloatFormat::of(compute);
    let raw = b.convert(raw, bits_of(compute));
    let magnitude = if signed {
        with(b, BinOp::And, raw, format.sign() - 1)
    } else {
        raw
    };
    let same = shift(b, BinOp::Shl, magnitude, wide.digits - format.digits);
    let mut number = same;
    if format.exponent < wide.exponent {
        let rebias = (wide.bias() - format.bias()) << wide.digits;
        let finite = with(b, BinOp::Add, same, rebias);
        let infinite = with(b, BinOp::Or, same, wide.infinity());
        let is_finite = less(b, magnitude, format.infinity());
        number = b.select(is_finite, finite, infinite);
    }
    let is_zero = less(b, magnitude, format.smallest());
    let zero = int_like(b, raw, 0);
    number = b.select(is_zero, zero, number);
    if signed {
        let up = (wide.exponent + wide.digits) - (format.exponent + format.digits);
        let sign = shift(b, BinOp::Shl, raw, up);
        let sign = with(b, BinOp::And, sign, wide.sign());
        number = b.binary(BinOp::Or, number, sign);
    }
    bitcast(b, number, compute)
}
