//! Groups of numbers with a shared exponent.
//!
//! With `d` digits, a fraction `F` and the exponent's code `E`, a number is `F * 2^(1 - d) * 2^(E - bias)`. The exponent
//! is the smallest one with which every number fits into its fraction after rounding. So a group that is stored again keeps
//! its numbers.

use super::format::FloatFormat;
use super::number::{extend, power, truncate};
use crate::types::{Imm, Scalar};
use smallvec::{SmallVec, smallvec};

/// One number of a group, as bits of its compute type.
struct Part {
    /// Digits of the fraction.
    digits: u32,
    negative: bool,
    magnitude: u64,
}

impl Part {
    /// Negative numbers in an unsigned fraction count as zero, and so do subnormal ones.
    fn new((bits, signed): (u8, bool), value: Imm, compute: FloatFormat) -> Part {
        let negative = value.bits() & compute.sign() != 0;
        let magnitude = value.bits() & (compute.sign() - 1);
        let is_nan = magnitude > compute.infinity();
        let is_zero = magnitude < compute.smallest() || negative && !signed && !is_nan;
        Part {
            digits: u32::from(bits) - u32::from(signed),
            negative,
            magnitude: if is_zero { 0 } else { magnitude },
        }
    }

    /// The exponent of the number, rounded to the digits of its fraction; biased as in the compute type.
    fn exponent(&self, compute: FloatFormat) -> u64 {
        let half = (1u64 << (compute.digits + 1 - self.digits)) >> 1;
        (self.magnitude + half) >> compute.digits
    }

    /// The number as an integer: in units of the last digit for the exponent `top`, biased as in the compute type.
    fn fraction(&self, compute: FloatFormat, top: u64) -> i128 {
        if self.magnitude == 0 {
            return 0;
        }
        let significand = self.magnitude & (compute.smallest() - 1) | compute.smallest();
        let exponent = self.magnitude >> compute.digits;
        let dropped = u64::from(compute.digits + 1 - self.digits) + (top - exponent);
        self.with_sign(round_bits(significand, dropped))
    }

    fn with_sign(&self, n: u64) -> i128 {
        if self.negative {
            -i128::from(n)
        } else {
            i128::from(n)
        }
    }
}

/// `n` without its low bits, rounded to the nearest, or to the even one.
fn round_bits(n: u64, dropped: u64) -> u64 {
    if dropped == 0 {
        return n;
    }
    if dropped >= 64 {
        return 0;
    }
    let kept = n >> dropped;
    let rest = n & ((1 << dropped) - 1);
    let half = 1 << (dropped - 1);
    kept + u64::from(rest > half || rest == half && kept & 1 == 1)
}

/// The code of the exponent and the fractions of a group, whose members have the given bits and are signed or not.
///
/// If a number is infinite, NaN or too large, then all bits of the exponent are one. Infinite and too large numbers then
/// have the fraction 1 or -1, all others 0.
pub fn encode_shared(
    exponent_bits: u8,
    members: &[(u8, bool)],
    values: &[Imm],
) -> (u64, SmallVec<[u64; 4]>) {
    let compute = FloatFormat::of(values.first().map_or(Scalar::F32, |v| v.ty));
    let parts = members.iter().zip(values);
    let parts: SmallVec<[Part; 4]> = parts.map(|(m, v)| Part::new(*m, *v, compute)).collect();
    let largest = parts.iter().map(|p| p.exponent(compute)).max().unwrap_or(0);
    let ones = (1u64 << exponent_bits) - 1;
    let rebias = compute.bias() - (ones >> 1);
    if largest <= rebias {
        return (0, smallvec![0; members.len()]);
    }
    let special = largest >= rebias + ones;
    let fraction = |part: &Part| {
        if !special {
            return part.fraction(compute, largest);
        }
        let too_large = part.exponent(compute) >= rebias + ones;
        let is_nan = part.magnitude > compute.infinity();
        part.with_sign(u64::from(too_large && !is_nan))
    };
    let encoded = parts.iter().zip(members);
    let fractions = encoded.map(|(p, (bits, _))| truncate(fraction(p), *bits));
    let code = if special { ones } else { largest - rebias };
    (code, fractions.collect())
}

/// One number of a group. One that is subnormal in the compute type is zero.
pub fn decode_shared(
    exponent_bits: u8,
    exponent: u64,
    bits: u8,
    signed: bool,
    fraction: u64,
    compute: Scalar,
) -> Imm {
    let ones = (1u64 << exponent_bits) - 1;
    let n = extend(fraction, bits, signed).as_int().unwrap_or(0) as f64;
    if exponent & ones == ones {
        let special = if n == 0.0 {
            f64::NAN
        } else {
            n * f64::INFINITY
        };
        return Imm::float(compute, special);
    }
    let digits = i64::from(bits) - i64::from(signed);
    let bias = (ones >> 1) as i64;
    let format = FloatFormat::of(compute);
    // No store leaves fractions beside the code 0. With the exponent of the compute type it stands for zero there too.
    let factor = if exponent & ones == 0 && u32::from(exponent_bits) == format.exponent {
        0.0
    } else {
        power((exponent & ones) as i64 - bias)
    };
    let value = Imm::float(compute, n * power(1 - digits) * factor);
    if value.bits() & (format.sign() - 1) < format.smallest() {
        Imm::zero(compute)
    } else {
        value
    }
}
