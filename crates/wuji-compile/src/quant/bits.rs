//! Integers of any width inside of words.

use super::{Bit, shift, with};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::BinOp;
use wuji_ir::types::Scalar;

/// The integer at a position of a word, extended to 32 bits, or to 64 if it has more.
pub(super) fn load(b: &mut Builder<'_>, word: Value, at: Bit, bits: u8, signed: bool) -> Value {
    let stored = b.func.ty(word).elem().map_or(64, Scalar::bits);
    let bits = u32::from(bits);
    match at {
        Bit::Const(at) => load_constant(b, word, stored, u32::from(at), bits, signed),
        Bit::At(at) => load_variable(b, word, stored, at, bits, signed),
    }
}

fn load_constant(
    b: &mut Builder<'_>,
    word: Value,
    stored: u32,
    at: u32,
    bits: u32,
    signed: bool,
) -> Value {
    // Where the field ends; above `clean` there are only zeros.
    let (mut word, mut end, mut clean) = (word, at + bits, stored);
    if stored == 64 && bits <= 32 {
        // The end of the field becomes the end of the 32-bit integer, so that one more shift extends it.
        word = shift(b, BinOp::Shr, word, end.saturating_sub(32));
        word = b.convert(word, Scalar::U32);
        (end, clean) = (end.min(32), 32);
    } else {
        word = b.convert(word, register(stored.max(32), false));
    }
    let width = stored.max(32).min(if bits <= 32 { 32 } else { 64 });
    if signed {
        let high = shift(b, BinOp::Shl, word, width - end);
        let high = b.convert(high, register(width, true));
        shift(b, BinOp::Shr, high, width - bits)
    } else {
        let low = shift(b, BinOp::Shr, word, end - bits);
        if end == clean {
            low
        } else {
            keep_low(b, low, bits as u8)
        }
    }
}

fn load_variable(
    b: &mut Builder<'_>,
    word: Value,
    stored: u32,
    at: Value,
    bits: u32,
    signed: bool,
) -> Value {
    let whole = register(stored.max(32), false);
    let word = b.convert(word, whole);
    let at = b.convert(at, whole);
    let low = b.binary(BinOp::Shr, word, at);
    let width = if bits <= 32 { 32 } else { 64 };
    let low = b.convert(low, register(width, false));
    if signed {
        let high = shift(b, BinOp::Shl, low, width - bits);
        let high = b.convert(high, register(width, true));
        shift(b, BinOp::Shr, high, width - bits)
    } else {
        keep_low(b, low, bits as u8)
    }
}

fn register(width: u32, signed: bool) -> Scalar {
    if width == 64 {
        if signed { Scalar::I64 } else { Scalar::U64 }
    } else if signed {
        Scalar::I32
    } else {
        Scalar::U32
    }
}

/// Zeros above the low bits.
pub(super) fn keep_low(b: &mut Builder<'_>, n: Value, bits: u8) -> Value {
    let width = b.func.ty(n).elem().map_or(64, Scalar::bits);
    if u32::from(bits) >= width {
        n
    } else {
        with(b, BinOp::And, n, (1 << bits) - 1)
    }
}

/// An integer that [`load`] gave as a float. Machines convert signed integers faster.
pub(super) fn to_float(b: &mut Builder<'_>, n: Value, bits: u8, compute: Scalar) -> Value {
    let n = match b.func.ty(n).elem() {
        Some(Scalar::U32) if bits < 32 => b.convert(n, Scalar::I32),
        Some(Scalar::U64) if bits < 64 => b.convert(n, Scalar::I64),
        _ => n,
    };
    b.convert(n, compute)
}
