//! Which quantized types there are for a compute type.

use super::format::FloatFormat;
use super::{Quantized, Scale};
use crate::quant::number::range;
use crate::types::{Imm, Scalar};

impl Quantized {
    /// Whether the type can store numbers of a compute type; if not, why.
    pub fn check(self, compute: Scalar) -> Result<(), String> {
        match self {
            Quantized::Int { bits, .. } => check_int(bits, compute),
            Quantized::Fixed {
                bits,
                signed,
                scale,
                ..
            } => check_fixed(bits, signed, scale, compute),
            Quantized::Float {
                exponent,
                fraction,
                signed,
                ..
            } => {
                check_float("qfloat", compute)?;
                check_exponent(exponent, compute)?;
                check_fraction(fraction, signed, compute, 0)
            }
            Quantized::Fraction {
                bits,
                signed,
                exponent,
            } => {
                check_float("qfloat", compute)?;
                check_exponent(exponent.bits, compute)?;
                // The leading one is stored.
                check_fraction(bits, signed, compute, 1)
            }
        }
    }
}

fn check_width(name: &str, bits: u8) -> Result<(), String> {
    if (1..=64).contains(&bits) {
        Ok(())
    } else {
        Err(format!("{name} has 1 to 64 bits, not {bits}"))
    }
}

fn check_float(name: &str, compute: Scalar) -> Result<(), String> {
    if matches!(compute, Scalar::F32 | Scalar::F64) {
        Ok(())
    } else {
        Err(format!(
            "{name} needs the compute type `f32` or `f64`, not `{compute}`"
        ))
    }
}

fn check_int(bits: u8, compute: Scalar) -> Result<(), String> {
    check_width("qint", bits)?;
    if compute.is_float() {
        return Err(format!(
            "qint needs an integer compute type, not `{compute}`"
        ));
    }
    // Every integer has a truth value.
    if compute != Scalar::Bool && u32::from(bits) > compute.bits() {
        return Err(format!(
            "qint with {bits} bits needs a compute type with as many; `{compute}` has {}",
            compute.bits()
        ));
    }
    Ok(())
}

fn check_fixed(bits: u8, signed: bool, scale: Scale, compute: Scalar) -> Result<(), String> {
    check_width("qfixed", bits)?;
    check_float("qfixed", compute)?;
    let scale = scale.get();
    let format = FloatFormat::of(compute);
    let magnitude = |x: f64| Imm::float(compute, x).bits();
    let is_normal = |x: f64| (format.smallest()..format.infinity()).contains(&magnitude(x));
    // A subnormal number must be stored as zero whether or not it is flushed, also if it is rounded at random.
    let reserve = (format.smallest() << 4) as f64;
    if scale < 1.0 && !(is_normal(scale) && is_normal(reserve / scale)) {
        return Err(format!(
            "qfixed with the scale {scale:?} is too small for the compute type `{compute}`"
        ));
    }
    let (lo, hi) = range(bits, signed);
    let largest = hi.max(-lo) as f64 * scale;
    if !is_normal(scale) || !is_normal(1.0 / scale) || !is_normal(largest) {
        return Err(format!(
            "qfixed with {bits} bits and the scale {scale:?} is too large for the compute type `{compute}`"
        ));
    }
    Ok(())
}

fn check_exponent(bits: u8, compute: Scalar) -> Result<(), String> {
    if !(2..=11).contains(&bits) {
        return Err(format!("qfloat has 2 to 11 exponent bits, not {bits}"));
    }
    if u32::from(bits) > FloatFormat::of(compute).exponent {
        return Err(format!(
            "qfloat with {bits} exponent bits needs the compute type `f64`"
        ));
    }
    Ok(())
}

/// `leading`: bits in front of the digits that the compute type does not store.
fn check_fraction(bits: u8, signed: bool, compute: Scalar, leading: u32) -> Result<(), String> {
    let with = if signed {
        ", one of them the sign,"
    } else {
        ""
    };
    let (bits, sign) = (u32::from(bits), u32::from(signed));
    let most = |format: FloatFormat| format.digits + leading + sign;
    if bits <= sign || bits > most(FloatFormat::F64) {
        return Err(format!(
            "qfloat has {} to {} fraction bits{}, not {bits}",
            sign + 1,
            most(FloatFormat::F64),
            with.trim_end_matches(',')
        ));
    }
    if bits > most(FloatFormat::of(compute)) {
        return Err(format!(
            "qfloat with {bits} fraction bits{with} needs the compute type `f64`"
        ));
    }
    Ok(())
}
