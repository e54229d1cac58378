//! Code that encodes and decodes quantized types.
//!
//! It computes what [`Quantized::encode`] and [`Quantized::decode`] define, with the same bits in every math mode: no
//! operation has a subnormal operand or result that matters, and products and sums are precise ones. It has no branches.
//! Fields of at most 32 bits are handled in 32-bit integers, whatever the word.

mod bits;
mod elements;
mod fixed;
mod float;
mod shared;

pub use elements::{decompose, part};
pub use shared::{decode_shared, encode_shared};

use bits::{keep_low, load, to_float};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::{BinOp, Op, UnOp};
use wuji_ir::quant::Quantized;
use wuji_ir::types::{Imm, Scalar};

/// The position of the lowest bit in a word.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Bit {
    /// A constant.
    Const(u8),
    /// An integer of any type.
    At(Value),
}

/// The number in a word, an unsigned integer, whose lowest bit is `at`.
pub fn decode(b: &mut Builder<'_>, ty: Quantized, compute: Scalar, word: Value, at: Bit) -> Value {
    match ty {
        Quantized::Int { bits, signed } => {
            let n = load(b, word, at, bits, signed);
            b.convert(n, compute)
        }
        Quantized::Fixed {
            bits,
            signed,
            scale,
            ..
        } => {
            let n = load(b, word, at, bits, signed);
            let n = to_float(b, n, bits, compute);
            multiply(b, n, scale.get())
        }
        Quantized::Float { signed, .. } => {
            let raw = load(b, word, at, ty.bits() as u8, false);
            float::decode(b, ty.format(), signed, compute, raw)
        }
        Quantized::Fraction { .. } => b.imm(Imm::zero(compute)),
    }
}

/// The bits of a number as the lowest bits of a word of type `word`, with zeros above. `draw` is a random `u64`; without
/// one, rounding is to the nearest.
pub fn encode(
    b: &mut Builder<'_>,
    ty: Quantized,
    compute: Scalar,
    value: Value,
    draw: Option<Value>,
    word: Scalar,
) -> Value {
    let raw = match ty {
        Quantized::Int { bits, .. } => encode_int(b, bits, value, word),
        Quantized::Fixed {
            bits,
            signed,
            scale,
            rounding,
        } => {
            let n = multiply(b, value, 1.0 / scale.get());
            let n = fixed::round_at_random(b, rounding, compute, n, draw);
            fixed::encode(b, bits, signed, compute, n)
        }
        Quantized::Float {
            signed, rounding, ..
        } => {
            let rest = float::random_rest(b, ty.format(), rounding, compute, draw);
            float::encode(b, ty.format(), signed, compute, value, rest)
        }
        Quantized::Fraction { .. } => b.imm(Imm::zero(word)),
    };
    b.convert(raw, word)
}

/// What an atomic add of `value` adds to the bits, as the lowest bits of a word, with zeros above. Only integers and
/// fixed-point numbers have it.
pub fn increment(
    b: &mut Builder<'_>,
    ty: Quantized,
    compute: Scalar,
    value: Value,
    draw: Option<Value>,
    word: Scalar,
) -> Value {
    let raw = match ty {
        Quantized::Int { bits, .. } => encode_int(b, bits, value, word),
        Quantized::Fixed {
            bits,
            scale,
            rounding,
            ..
        } => {
            let n = multiply(b, value, 1.0 / scale.get());
            let n = fixed::round_at_random(b, rounding, compute, n, draw);
            fixed::wrap(b, bits, n)
        }
        Quantized::Float { .. } | Quantized::Fraction { .. } => b.imm(Imm::zero(word)),
    };
    b.convert(raw, word)
}

fn encode_int(b: &mut Builder<'_>, bits: u8, value: Value, word: Scalar) -> Value {
    let is_wide = bits > 32 || b.func.ty(value).elem().is_some_and(|s| s.bits() == 64);
    let via = if is_wide { Scalar::U64 } else { Scalar::U32 };
    // The narrower of the two: there is nothing to keep above it.
    let via = if word.bits() < via.bits() { word } else { via };
    let n = b.convert(value, via);
    keep_low(b, n, bits)
}

/// The integer with the bits of a compute type.
fn bits_of(compute: Scalar) -> Scalar {
    if compute == Scalar::F64 {
        Scalar::U64
    } else {
        Scalar::U32
    }
}

fn bitcast(b: &mut Builder<'_>, value: Value, to: Scalar) -> Value {
    b.value(Op::Bitcast(to), &[value])
}

/// A product with a constant, in the type of `a`.
fn multiply(b: &mut Builder<'_>, a: Value, factor: f64) -> Value {
    if factor == 1.0 {
        return a;
    }
    let factor = float_like(b, a, factor);
    b.binary(BinOp::PreciseMul, a, factor)
}

/// A constant of the type of `a`.
fn float_like(b: &mut Builder<'_>, a: Value, value: f64) -> Value {
    let ty = b.func.ty(a).elem().unwrap_or(Scalar::F32);
    b.float(ty, value)
}

/// A constant of the type of `a`.
fn int_like(b: &mut Builder<'_>, a: Value, value: u64) -> Value {
    let ty = b.func.ty(a).elem().unwrap_or(Scalar::U32);
    b.int(ty, i128::from(value))
}

/// An operation with a constant on the right.
fn with(b: &mut Builder<'_>, op: BinOp, a: Value, constant: u64) -> Value {
    let constant = int_like(b, a, constant);
    b.binary(op, a, constant)
}

/// A shift by a constant.
fn shift(b: &mut Builder<'_>, op: BinOp, a: Value, by: u32) -> Value {
    if by == 0 {
        a
    } else {
        with(b, op, a, u64::from(by))
    }
}

/// What a load gives after a store of a number in the range of a type. Not for a [`Quantized::Fraction`], which depends on
/// the others of its group.
pub fn rounded(b: &mut Builder<'_>, ty: Quantized, compute: Scalar, value: Value) -> Value {
    match ty {
        Quantized::Fixed { scale, .. } => {
            let n = multiply(b, value, 1.0 / scale.get());
            let n = b.unary(UnOp::RoundEven, n);
            multiply(b, n, scale.get())
        }
        Quantized::Float { .. } => {
            let bits = encode(b, ty, compute, value, None, Scalar::U64);
            decode(b, ty, compute, bits, Bit::Const(0))
        }
        Quantized::Int { .. } | Quantized::Fraction { .. } => value,
    }
}
