//! Shifts of bits within a word.

use crate::quant::Bit;
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::BinOp;
use wuji_ir::types::Scalar;

/// Bits moved up to a position.
pub(super) fn shifted(b: &mut Builder, bits: Value, at: Bit) -> Value {
    shift(b, BinOp::Shl, bits, at)
}

/// Bits moved down from a position.
pub(super) fn lowered(b: &mut Builder, bits: Value, at: Bit) -> Value {
    shift(b, BinOp::Shr, bits, at)
}

fn shift(b: &mut Builder, op: BinOp, bits: Value, at: Bit) -> Value {
    let ty = b.func.ty(bits).as_scalar().unwrap_or(Scalar::U64);
    let by = match at {
        Bit::Const(0) => return bits,
        Bit::Const(at) => b.int(ty, at.into()),
        Bit::At(at) => b.convert(at, ty),
    };
    b.binary(op, bits, by)
}
