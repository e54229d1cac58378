//! Fixed-point numbers.

use super::bits::keep_low;
use super::{bitcast, bits_of, float_like, int_like, multiply, with};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp, UnOp};
use wuji_ir::quant::{FloatFormat, Rounding, range};
use wuji_ir::types::Scalar;

/// The nearest integer in the range of the type, as its bits; NaN gives zero.
pub(super) fn encode(
    b: &mut Builder<'_>,
    bits: u8,
    signed: bool,
    compute: Scalar,
    n: Value,
) -> Value {
    if u32::from(bits) > FloatFormat::of(compute).digits {
        return convert(b, bits, signed, n);
    }
    let (lo, hi) = range(bits, signed);
    let (lo, hi) = (float_like(b, n, lo as f64), float_like(b, n, hi as f64));
    let clamped = b.binary(BinOp::Max, n, lo);
    let clamped = b.binary(BinOp::Min, clamped, hi);
    let raw = round_to_bits(b, bits, signed, compute, clamped);
    if !signed {
        // `max` has made NaN zero.
        return raw;
    }
    let is_number = b.compare(CmpOp::Eq, n, n);
    let zero = int_like(b, raw, 0);
    b.select(is_number, raw, zero)
}

/// The nearest integer of a number in the range of the type, which has no more bits than the compute type has digits.
///
/// The sum with a large number rounds to an integer, which is then the low bits of the result: a conversion to integers
/// would take several instructions, and most machines have none for vectors of 64 bits.
pub(super) fn round_to_bits(
    b: &mut Builder<'_>,
    bits: u8,
    signed: bool,
    compute: Scalar,
    n: Value,
) -> Value {
    let digits = FloatFormat::of(compute).digits;
    let large = (1u64 << digits) as f64;
    // In the middle of the numbers with integers as neighbours, or at their beginning.
    let large = if signed { 1.5 * large } else { large };
    let large = float_like(b, n, large);
    let sum = b.binary(BinOp::PreciseAdd, n, large);
    let mut raw = bitcast(b, sum, bits_of(compute));
    if signed && u32::from(bits) == digits {
        raw = with(b, BinOp::Xor, raw, 1 << (digits - 1));
    }
    keep_low(b, raw, bits)
}

/// The same for more bits, by a conversion that saturates.
fn convert(b: &mut Builder<'_>, bits: u8, signed: bool, n: Value) -> Value {
    let n = b.unary(UnOp::RoundEven, n);
    let to = match (bits, signed) {
        (..=31, _) | (32, true) => Scalar::I32,
        (32, false) => Scalar::U32,
        (33..=63, _) | (_, true) => Scalar::I64,
        (_, false) => Scalar::U64,
    };
    let mut n = b.convert(n, to);
    let (lo, hi) = range(bits, signed);
    if to.int_range() != Some((lo, hi)) {
        let (lo, hi) = (b.int(to, lo), b.int(to, hi));
        n = b.binary(BinOp::Max, n, lo);
        n = b.binary(BinOp::Min, n, hi);
    }
    let n = b.convert(n, to.unsigned());
    if signed { keep_low(b, n, bits) } else { n }
}

/// The nearest integer modulo 2 to the power of `bits`.
pub(super) fn wrap(b: &mut Builder<'_>, bits: u8, n: Value) -> Value {
    let n = b.unary(UnOp::RoundEven, n);
    let n = b.convert(n, Scalar::I64);
    let to = if bits <= 32 { Scalar::U32 } else { Scalar::U64 };
    let n = b.convert(n, to);
    keep_low(b, n, bits)
}

/// An integer, up or down, for stochastic rounding; otherwise the number as it is.
pub(super) fn round_at_random(
    b: &mut Builder<'_>,
    rounding: Rounding,
    compute: Scalar,
    n: Value,
    draw: Option<Value>,
) -> Value {
    let (Rounding::Stochastic, Some(draw)) = (rounding, draw) else {
        return n;
    };
    let digits = FloatFormat::of(compute).digits + 1;
    let floor = b.unary(UnOp::Floor, n);
    let part = b.binary(BinOp::PreciseSub, n, floor);
    let unit = with(b, BinOp::Shr, draw, u64::from(64 - digits));
    let signed = if compute == Scalar::F64 {
        Scalar::I64
    } else {
        Scalar::I32
    };
    let unit = b.convert(unit, signed);
    let unit = with(b, BinOp::Add, unit, 1);
    let unit = b.convert(unit, compute);
    let unit = multiply(b, unit, 1.0 / (1u64 << digits) as f64);
    let up = b.compare(CmpOp::Le, unit, part);
    let (one, zero) = (float_like(b, n, 1.0), float_like(b, n, 0.0));
    let step = b.select(up, one, zero);
    b.binary(BinOp::PreciseAdd, floor, step)
}
