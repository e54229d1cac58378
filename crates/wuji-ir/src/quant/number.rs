//! What is stored for a number, and the number that is read: the definition of each type in code.

use super::format::FloatFormat;
use super::{Quantized, Rounding, Scale};
use crate::eval;
use crate::ops::{BinOp, CmpOp, UnOp};
use crate::types::{Imm, Scalar};

impl Quantized {
    /// The bits that a store of `value` leaves, zero above [`Quantized::bits`]. `draw` is a random number for stochastic
    /// rounding. A [`Quantized::Fraction`] depends on the others of its group: see
    /// [`encode_shared`](super::encode_shared).
    pub fn encode(self, value: Imm, draw: u64) -> u64 {
        match self {
            Quantized::Int { bits, .. } => truncate(integer(value), bits),
            Quantized::Fixed {
                bits,
                signed,
                scale,
                rounding,
            } => {
                let n = round(quotient(value, scale), rounding, draw);
                let (lo, hi) = range(bits, signed);
                truncate(n.clamp(lo, hi), bits)
            }
            Quantized::Float {
                signed, rounding, ..
            } => encode_float(self.format(), signed, rounding, value, draw),
            Quantized::Fraction { .. } => 0,
        }
    }

    /// What a load gives for these bits. Bits above [`Quantized::bits`] are ignored. For a [`Quantized::Fraction`] see
    /// [`decode_shared`](super::decode_shared).
    pub fn decode(self, bits: u64, compute: Scalar) -> Imm {
        match self {
            Quantized::Int { bits: n, signed } => eval::convert(extend(bits, n, signed), compute),
            Quantized::Fixed {
                bits: n,
                signed,
                scale,
                ..
            } => {
                let n = eval::convert(extend(bits, n, signed), compute);
                multiply(n, scale.get())
            }
            Quantized::Float { signed, .. } => decode_float(self.format(), signed, bits, compute),
            Quantized::Fraction { .. } => Imm::zero(compute),
        }
    }

    /// What an atomic add adds to the bits, modulo 2 to the power of [`Quantized::bits`]: it wraps. Only integers and
    /// fixed-point numbers can be added so.
    pub fn increment(self, value: Imm, draw: u64) -> u64 {
        match self {
            Quantized::Int { bits, .. } => truncate(integer(value), bits),
            Quantized::Fixed {
                bits,
                scale,
                rounding,
                ..
            } => {
                let n = round(quotient(value, scale), rounding, draw);
                truncate(n.clamp(i64::MIN.into(), i64::MAX.into()), bits)
            }
            Quantized::Float { .. } | Quantized::Fraction { .. } => 0,
        }
    }

    /// The format of a [`Quantized::Float`]; that of `f32` for other types.
    pub fn format(self) -> FloatFormat {
        match self {
            Quantized::Float {
                exponent,
                fraction,
                signed,
                ..
            } => FloatFormat {
                exponent: u32::from(exponent),
                digits: u32::from(fraction) - u32::from(signed),
            },
            Quantized::Int { .. } | Quantized::Fixed { .. } | Quantized::Fraction { .. } => {
                FloatFormat::F32
            }
        }
    }
}

/// The closed range of an integer.
pub fn range(bits: u8, signed: bool) -> (i128, i128) {
    if signed {
        let half = 1i128 << (bits - 1);
        (-half, half - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}

/// The low bits.
pub(super) fn truncate(n: i128, bits: u8) -> u64 {
    (n & ((1i128 << bits) - 1)) as u64
}

/// The integer that the low bits stand for, as `i64` or `u64`.
pub(super) fn extend(bits: u64, width: u8, signed: bool) -> Imm {
    let up = 64 - u32::from(width);
    let high = bits << up;
    if signed {
        Imm::int(Scalar::I64, i128::from(high as i64 >> up))
    } else {
        Imm::int(Scalar::U64, i128::from(high >> up))
    }
}

fn integer(value: Imm) -> i128 {
    value.as_int().unwrap_or(0)
}

fn multiply(a: Imm, factor: f64) -> Imm {
    eval::binary(BinOp::PreciseMul, a, Imm::float(a.ty, factor)).unwrap_or(a)
}

/// `value / scale`, by a product with the reciprocal.
fn quotient(value: Imm, scale: Scale) -> Imm {
    multiply(value, 1.0 / scale.get())
}

/// To an integer; NaN gives zero.
fn round(value: Imm, rounding: Rounding, draw: u64) -> i128 {
    let rounded = match rounding {
        Rounding::Nearest => eval::unary(UnOp::RoundEven, value),
        Rounding::Stochastic => round_at_random(value, draw),
    };
    // Saturates far beyond 64 bits.
    rounded.and_then(Imm::as_float).unwrap_or(0.0) as i128
}

/// Up with a probability that is the part behind the point. The random number is in (0, 1]: an integer stays as it is,
/// and a subnormal number counts as zero.
fn round_at_random(value: Imm, draw: u64) -> Option<Imm> {
    let digits = FloatFormat::of(value.ty).digits + 1;
    let unit = ((draw >> (64 - digits)) + 1) as f64 / (1u64 << digits) as f64;
    let floor = eval::unary(UnOp::Floor, value)?;
    let part = eval::binary(BinOp::PreciseSub, value, floor)?;
    let up = eval::compare(CmpOp::Le, Imm::float(value.ty, unit), part)?;
    let step = Imm::float(value.ty, if up { 1.0 } else { 0.0 });
    eval::binary(BinOp::PreciseAdd, floor, step)
}

fn encode_float(
    format: FloatFormat,
    signed: bool,
    rounding: Rounding,
    value: Imm,
    draw: u64,
) -> u64 {
    let compute = FloatFormat::of(value.ty);
    let negative = value.bits() & compute.sign() != 0;
    let magnitude = value.bits() & (compute.sign() - 1);
    if magnitude > compute.infinity() {
        // The sign of NaN has no meaning, and differs between machines.
        return format.nan();
    }
    if negative && !signed {
        return 0;
    }
    let sign = if negative { format.sign() } else { 0 };
    sign | narrow(compute, format, rounding, magnitude, draw)
}

/// A number, possibly infinite, without its sign, in a format with fewer bits.
fn narrow(
    compute: FloatFormat,
    format: FloatFormat,
    rounding: Rounding,
    magnitude: u64,
    draw: u64,
) -> u64 {
    if magnitude < compute.smallest() {
        return 0;
    }
    let dropped = compute.digits - format.digits;
    let below = if dropped == 0 {
        0
    } else {
        match rounding {
            Rounding::Nearest => (1 << (dropped - 1)) - 1 + (magnitude >> dropped & 1),
            Rounding::Stochastic => draw >> (64 - dropped),
        }
    };
    // A carry goes into the exponent, as it must.
    let rounded = (magnitude + below) >> dropped;
    let rebias = (compute.bias() - format.bias()) << format.digits;
    if rounded < rebias + format.smallest() {
        0
    } else {
        (rounded - rebias).min(format.infinity())
    }
}

fn decode_float(format: FloatFormat, signed: bool, bits: u64, compute: Scalar) -> Imm {
    let code = bits >> format.digits & format.ones();
    let digits = bits & (format.smallest() - 1);
    let magnitude = if code == 0 {
        0.0
    } else if code == format.ones() {
        if digits == 0 { f64::INFINITY } else { f64::NAN }
    } else {
        let significand = (digits + format.smallest()) as f64 / format.smallest() as f64;
        significand * power(code as i64 - format.bias() as i64)
    };
    let negative = signed && bits & format.sign() != 0;
    Imm::float(compute, if negative { -magnitude } else { magnitude })
}

/// A power of two that is a normal `f64`; 0 for the exponent below.
pub(super) fn power(exponent: i64) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
