//! Groups of numbers with a shared exponent.

use super::bits::{load, to_float};
use super::fixed::round_to_bits;
use super::{Bit, bitcast, bits_of, float_like, int_like, multiply, shift, with};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, CmpOp, UnOp};
use wuji_ir::quant::{FloatFormat, SharedExponent};
use wuji_ir::types::{Imm, Scalar};

/// What is the same for all numbers of a group.
#[derive(Copy, Clone)]
struct Group {
    compute: Scalar,
    wide: FloatFormat,
    /// Whether the exponent is as large as that of the compute type; then numbers can be subnormal there.
    is_full: bool,
    /// The largest code.
    ones: u64,
    /// The bias of the compute type minus that of the exponent.
    rebias: u64,
}

impl Group {
    fn new(exponent_bits: u8, compute: Scalar) -> Group {
        let wide = FloatFormat::of(compute);
        let ones = (1u64 << exponent_bits) - 1;
        Group {
            compute,
            wide,
            is_full: u32::from(exponent_bits) == wide.exponent,
            ones,
            rebias: wide.bias() - (ones >> 1),
        }
    }
}

/// One number of a group.
struct Part {
    bits: u8,
    signed: bool,
    /// The number, or zero if it is negative in an unsigned fraction.
    value: Value,
    /// Its bits without the sign.
    magnitude: Value,
}

impl Part {
    fn new(b: &mut Builder<'_>, group: Group, (bits, signed): (u8, bool), x: Value) -> Part {
        let zero = float_like(b, x, 0.0);
        let raw = bitcast(b, x, bits_of(group.compute));
        let mut magnitude = with(b, BinOp::And, raw, group.wide.sign() - 1);
        let none = int_like(b, raw, 0);
        let mut value = x;
        if !signed {
            let is_negative = b.compare(CmpOp::Lt, x, zero);
            magnitude = b.select(is_negative, none, magnitude);
            value = b.binary(BinOp::Max, x, zero);
        }
        if group.is_full {
            let limit = int_like(b, magnitude, group.wide.smallest());
            let is_subnormal = b.compare(CmpOp::Lt, magnitude, limit);
            magnitude = b.select(is_subnormal, none, magnitude);
            value = b.select(is_subnormal, zero, value);
        }
        Part {
            bits,
            signed,
            value,
            magnitude,
        }
    }

    fn digits(&self) -> u32 {
        u32::from(self.bits) - u32::from(self.signed)
    }

    /// Half of a unit of the last digit, below the exponent.
    fn half(&self, group: Group) -> u64 {
        (1u64 << (group.wide.digits + 1 - self.digits())) >> 1
    }
}

/// The code of the exponent and the fractions of a group, as the lowest bits of words, with zeros above. `members` are
/// the bits of the fractions and whether they are signed.
pub fn encode_shared(
    b: &mut Builder<'_>,
    exponent_bits: u8,
    members: &[(u8, bool)],
    values: &[Value],
    word: Scalar,
) -> (Value, Vec<Value>) {
    let compute = values.first().and_then(|v| b.func.ty(*v).elem());
    let group = Group::new(exponent_bits, compute.unwrap_or(Scalar::F32));
    let parts = members.iter().zip(values);
    let parts: Vec<Part> = parts.map(|(m, v)| Part::new(b, group, *m, *v)).collect();
    let Some(top) = largest_rounded(b, group, &parts) else {
        return (b.imm(Imm::zero(word)), Vec::new());
    };
    let top = shift(b, BinOp::Shr, top, group.wide.digits);
    let top = b.convert(top, signed_of(group.compute));
    let (code, is_finite) = code(b, group, top);
    let scales = Scales::new(b, group, top);
    let fractions = parts
        .iter()
        .map(|part| {
            let n = scales.fraction(b, group, part);
            let zero = int_like(b, n, 0);
            let n = b.select(is_finite, n, zero);
            // From these bits on, a number is too large.
            let limit = ((group.rebias + group.ones) << group.wide.digits) - part.half(group);
            let n = with_infinity(b, group, part, limit, n);
            b.convert(n, word)
        })
        .collect();
    (b.convert(code, word), fractions)
}

/// The largest of the numbers, each rounded to the digits of its fraction; the digits below are arbitrary.
fn largest_rounded(b: &mut Builder<'_>, group: Group, parts: &[Part]) -> Option<Value> {
    // One addition for all that have as many digits.
    let mut halves: Vec<u64> = parts.iter().map(|p| p.half(group)).collect();
    halves.sort_unstable();
    halves.dedup();
    let mut largest = None;
    for half in halves {
        let alike = parts.iter().filter(|p| p.half(group) == half);
        let mut rounded = alike
            .map(|p| p.magnitude)
            .reduce(|m, n| b.binary(BinOp::Max, m, n))?;
        if half != 0 {
            rounded = with(b, BinOp::Add, rounded, half);
        }
        largest = Some(match largest {
            None => rounded,
            Some(other) => b.binary(BinOp::Max, other, rounded),
        });
    }
    largest
}

/// The code of an exponent, and whether it is neither that of zero nor that of infinity.
fn code(b: &mut Builder<'_>, group: Group, top: Value) -> (Value, Value) {
    let code = if group.rebias == 0 {
        top
    } else {
        with(b, BinOp::Sub, top, group.rebias)
    };
    let clamped = with(b, BinOp::Max, code, 0);
    let clamped = with(b, BinOp::Min, clamped, group.ones);
    let below = with(b, BinOp::Sub, code, 1);
    let below = b.convert(below, bits_of(group.compute));
    let limit = int_like(b, below, group.ones - 1);
    (clamped, b.compare(CmpOp::Lt, below, limit))
}

/// Powers of two that move the point of a number behind its last digit.
struct Scales {
    /// Where one is not enough, because it might not be a normal number.
    first: Option<Value>,
    /// The biased exponent of the second, for a fraction with one digit.
    second: Value,
}

impl Scales {
    fn new(b: &mut Builder<'_>, group: Group, top: Value) -> Scales {
        let bias = int_like(b, top, group.wide.bias());
        if !group.is_full {
            let twice = int_like(b, top, 2 * group.wide.bias());
            let second = b.binary(BinOp::Sub, twice, top);
            return Scales {
                first: None,
                second,
            };
        }
        let exponent = b.binary(BinOp::Sub, top, bias);
        let half = shift(b, BinOp::Shr, exponent, 1);
        let first = b.binary(BinOp::Sub, bias, half);
        let first = power(b, group, first);
        let rest = b.binary(BinOp::Sub, exponent, half);
        Scales {
            first: Some(first),
            second: b.binary(BinOp::Sub, bias, rest),
        }
    }

    /// The fraction of a number, if the exponent is finite.
    fn fraction(&self, b: &mut Builder<'_>, group: Group, part: &Part) -> Value {
        let mut n = part.value;
        if let Some(first) = self.first {
            n = b.binary(BinOp::PreciseMul, n, first);
        }
        let second = if part.digits() == 1 {
            self.second
        } else {
            with(b, BinOp::Add, self.second, u64::from(part.digits() - 1))
        };
        let second = power(b, group, second);
        let n = b.binary(BinOp::PreciseMul, n, second);
        // It needs no clamp: rounded, the largest number has this exponent.
        if u32::from(part.bits) <= group.wide.digits {
            return round_to_bits(b, part.bits, part.signed, group.compute, n);
        }
        let n = b.unary(UnOp::RoundEven, n);
        let n = b.convert(n, signed_of(group.compute));
        let n = b.convert(n, bits_of(group.compute));
        super::bits::keep_low(b, n, part.bits)
    }
}

/// The power of two with a biased exponent.
fn power(b: &mut Builder<'_>, group: Group, biased: Value) -> Value {
    let raw = shift(b, BinOp::Shl, biased, group.wide.digits);
    bitcast(b, raw, group.compute)
}

/// The fraction, or 1 or -1 where the number is infinite or too large.
fn with_infinity(b: &mut Builder<'_>, group: Group, part: &Part, limit: u64, n: Value) -> Value {
    let beyond = with(b, BinOp::Sub, part.magnitude, limit);
    let infinities = int_like(b, beyond, group.wide.infinity() + 1 - limit);
    let is_infinite = b.compare(CmpOp::Lt, beyond, infinities);
    let mut one = int_like(b, n, 1);
    if part.signed {
        let zero = float_like(b, part.value, 0.0);
        let is_negative = b.compare(CmpOp::Lt, part.value, zero);
        let minus_one = int_like(b, n, (1 << part.bits) - 1);
        one = b.select(is_negative, minus_one, one);
    }
    b.select(is_infinite, one, n)
}

fn signed_of(compute: Scalar) -> Scalar {
    if compute == Scalar::F64 {
        Scalar::I64
    } else {
        Scalar::I32
    }
}

/// A number of a group: its fraction is in the word `at` a position, the exponent where `exponent` says.
pub fn decode_shared(
    b: &mut Builder<'_>,
    exponent: SharedExponent,
    bits: u8,
    signed: bool,
    compute: Scalar,
    word: Value,
    at: Bit,
) -> Value {
    let group = Group::new(exponent.bits, compute);
    let code = load(b, word, Bit::Const(exponent.at), exponent.bits, false);
    let code = b.convert(code, bits_of(compute));
    let n = load(b, word, at, bits, signed);
    let n = to_float(b, n, bits, compute);
    let digits = bits - u8::from(signed);
    if group.is_full {
        return decode_full(b, group, code, digits, n);
    }
    // One power of two for both factors. Infinity times zero is NaN.
    let ones = int_like(b, code, group.ones);
    let is_infinite = b.compare(CmpOp::Eq, code, ones);
    let biased = with(b, BinOp::Add, code, group.rebias + 1 - u64::from(digits));
    let factor = shift(b, BinOp::Shl, biased, group.wide.digits);
    let infinity = int_like(b, factor, group.wide.infinity());
    let factor = b.select(is_infinite, infinity, factor);
    let factor = bitcast(b, factor, compute);
    b.binary(BinOp::PreciseMul, n, factor)
}

/// An exponent of the compute type is its own power of two, also that of infinity.
fn decode_full(b: &mut Builder<'_>, group: Group, code: Value, digits: u8, n: Value) -> Value {
    let n = multiply(b, n, 1.0 / (1u64 << (digits - 1)) as f64);
    let factor = power(b, group, code);
    let number = b.binary(BinOp::PreciseMul, n, factor);
    let raw = bitcast(b, number, bits_of(group.compute));
    let magnitude = with(b, BinOp::And, raw, group.wide.sign() - 1);
    let limit = int_like(b, magnitude, group.wide.smallest());
    let is_subnormal = b.compare(CmpOp::Lt, magnitude, limit);
    let zero = float_like(b, number, 0.0);
    b.select(is_subnormal, zero, number)
}
