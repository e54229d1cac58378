//! What operations cost, in units of an addition.

use wuji_ir::ops::{BinOp, UnOp};

pub fn unary(op: UnOp) -> u64 {
    match op {
        UnOp::Neg
        | UnOp::Not
        | UnOp::Abs
        | UnOp::Sign
        | UnOp::Floor
        | UnOp::Ceil
        | UnOp::Round
        | UnOp::RoundEven
        | UnOp::Trunc
        | UnOp::PopCount
        | UnOp::LeadingZeros
        | UnOp::TrailingZeros
        | UnOp::Freeze => 1,
        UnOp::Sqrt | UnOp::Rsqrt => 6,
        UnOp::Sin
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
        | UnOp::Log10 => 20,
    }
}

pub fn binary(op: BinOp) -> u64 {
    match op {
        BinOp::Add
        | BinOp::Sub
        | BinOp::Mul
        | BinOp::And
        | BinOp::Or
        | BinOp::Xor
        | BinOp::Shl
        | BinOp::Shr
        | BinOp::Min
        | BinOp::Max => 1,
        BinOp::Div | BinOp::Rem => 8,
        BinOp::Pow | BinOp::Atan2 => 40,
    }
}
