//! What scalar operations compute: `docs/ir.md`, section 2, in code.
//!
//! The interpreter and the constant folder share these functions, so that a folded constant is what
//! the program would have computed. Every function is total: `None` means that the operation is not
//! defined on the type, which the verifier refuses.

use crate::ops::{AtomicOp, BinOp, CmpOp, ReduceOp, UnOp};
use crate::types::{Imm, Scalar};
use half::f16;

/// The float functions that `f32` and `f64` both have.
macro_rules! float_unary {
    ($op:expr, $a:expr) => {{
        let a = $a;
        Some(match $op {
            UnOp::Neg => -a,
            UnOp::Abs => a.abs(),
            // Zeros and NaN are kept as they are.
            UnOp::Sign if a > 0.0 => 1.0,
            UnOp::Sign if a < 0.0 => -1.0,
            UnOp::Sign => a,
            UnOp::Floor => a.floor(),
            UnOp::Ceil => a.ceil(),
            UnOp::Round => a.round(),
            UnOp::RoundEven => a.round_ties_even(),
            UnOp::Trunc => a.trunc(),
            UnOp::Sqrt => a.sqrt(),
            UnOp::Rsqrt => 1.0 / a.sqrt(),
            UnOp::Sin => a.sin(),
            UnOp::Cos => a.cos(),
            UnOp::Tan => a.tan(),
            UnOp::Asin => a.asin(),
            UnOp::Acos => a.acos(),
            UnOp::Atan => a.atan(),
            UnOp::Sinh => a.sinh(),
            UnOp::Cosh => a.cosh(),
            UnOp::Tanh => a.tanh(),
            UnOp::Exp => a.exp(),
            UnOp::Exp2 => a.exp2(),
            UnOp::Log => a.ln(),
            UnOp::Log2 => a.log2(),
            UnOp::Log10 => a.log10(),
            UnOp::Freeze => a,
            UnOp::Not | UnOp::PopCount | UnOp::LeadingZeros | UnOp::TrailingZeros => return None,
        })
    }};
}

macro_rules! float_binary {
    ($op:expr, $a:expr, $b:expr) => {{
        let (a, b) = ($a, $b);
        Some(match $op {
            BinOp::Add => a + b,
            BinOp::Sub => a - b,
            BinOp::Mul => a * b,
            BinOp::Div => a / b,
            BinOp::Rem => a % b,
            BinOp::Min => {
                if b.is_nan() || a < b {
                    a
                } else {
                    b
                }
            }
            BinOp::Max => {
                if b.is_nan() || a > b {
                    a
                } else {
                    b
                }
            }
            BinOp::Pow => a.powf(b),
            BinOp::Atan2 => a.atan2(b),
            BinOp::And | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::Shr => return None,
        })
    }};
}

/// One argument. `None` when the operation is not defined on the type.
pub fn unary(op: UnOp, a: Imm) -> Option<Imm> {
    match a.ty {
        Scalar::F32 => float_unary!(op, f32_of(a)).map(from_f32),
        Scalar::F64 => float_unary!(op, f64_of(a)).map(from_f64),
        Scalar::F16 => match op {
            // Bits that arithmetic in `f32` might change.
            UnOp::Freeze => Some(a),
            UnOp::Neg => Some(Imm::from_bits(a.ty, a.bits() ^ 0x8000)),
            UnOp::Abs => Some(Imm::from_bits(a.ty, a.bits() & 0x7fff)),
            // Both steps round to `f16`.
            UnOp::Rsqrt => {
                let root = f16::from_f32(f16_of(a).to_f32().sqrt());
                Some(from_f16(f16::from_f32(1.0 / root.to_f32())))
            }
            _ => float_unary!(op, f16_of(a).to_f32()).map(|x: f32| from_f16(f16::from_f32(x))),
        },
        Scalar::Bool => match op {
            UnOp::Not => Some(Imm::bool(a.bits() == 0)),
            UnOp::Freeze => Some(a),
            _ => None,
        },
        ty => int_unary(op, ty, a),
    }
}

fn int_unary(op: UnOp, ty: Scalar, a: Imm) -> Option<Imm> {
    let value = a.as_int()?;
    let result = match op {
        UnOp::Neg if ty.is_signed_int() => value.wrapping_neg(),
        UnOp::Sign if ty.is_signed_int() => value.signum(),
        UnOp::Abs => value.abs(),
        UnOp::Not => !value,
        UnOp::PopCount => i128::from(a.bits().count_ones()),
        UnOp::LeadingZeros => i128::from(a.bits().leading_zeros() - (64 - ty.bits())),
        UnOp::TrailingZeros => i128::from(a.bits().trailing_zeros().min(ty.bits())),
        UnOp::Freeze => value,
        UnOp::Neg
        | UnOp::Sign
        | UnOp::Floor
        | UnOp::Ceil
        | UnOp::Round
        | UnOp::RoundEven
        | UnOp::Trunc
        | UnOp::Sqrt
        | UnOp::Rsqrt
        | UnOp::Sin
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
        | UnOp::Log10 => return None,
    };
    Some(Imm::int(ty, result))
}

/// Two arguments of one type. `None` when the types differ or the operation is not defined on them.
pub fn binary(op: BinOp, a: Imm, b: Imm) -> Option<Imm> {
    if a.ty != b.ty {
        return None;
    }
    match a.ty {
        Scalar::F32 => float_binary!(op, f32_of(a), f32_of(b)).map(from_f32),
        Scalar::F64 => float_binary!(op, f64_of(a), f64_of(b)).map(from_f64),
        // One operation in `f32` rounded to `f16` is the operation rounded to `f16`: 24 bits are
        // more than twice 11.
        Scalar::F16 => float_binary!(op, f16_of(a).to_f32(), f16_of(b).to_f32())
            .map(|x| from_f16(f16::from_f32(x))),
        Scalar::Bool => match op {
            BinOp::And => Some(Imm::from_bits(Scalar::Bool, a.bits() & b.bits())),
            BinOp::Or => Some(Imm::from_bits(Scalar::Bool, a.bits() | b.bits())),
            BinOp::Xor => Some(Imm::from_bits(Scalar::Bool, a.bits() ^ b.bits())),
            _ => None,
        },
        ty => int_binary(op, ty, a, b),
    }
}

fn int_binary(op: BinOp, ty: Scalar, a: Imm, b: Imm) -> Option<Imm> {
    let (x, y) = (a.as_int()?, b.as_int()?);
    let amount = b.bits() % u64::from(ty.bits());
    let result = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        // The low 64 bits are right even where 128 overflow.
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div | BinOp::Rem if y == 0 => 0,
        BinOp::Div => x / y,
        BinOp::Rem => x % y,
        BinOp::And => x & y,
        BinOp::Or => x | y,
        BinOp::Xor => x ^ y,
        BinOp::Shl => return Some(Imm::from_bits(ty, a.bits() << amount)),
        BinOp::Shr => x >> amount,
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::Pow | BinOp::Atan2 => return None,
    };
    Some(Imm::int(ty, result))
}

/// `None` when the types differ, or for an order of `bool`.
pub fn compare(op: CmpOp, a: Imm, b: Imm) -> Option<bool> {
    if a.ty != b.ty {
        return None;
    }
    fn holds<T: PartialOrd>(op: CmpOp, a: T, b: T) -> bool {
        match op {
            CmpOp::Eq => a == b,
            CmpOp::Ne => a != b,
            CmpOp::Lt => a < b,
            CmpOp::Le => a <= b,
            CmpOp::Gt => a > b,
            CmpOp::Ge => a >= b,
        }
    }
    match a.ty {
        Scalar::Bool if !matches!(op, CmpOp::Eq | CmpOp::Ne) => None,
        Scalar::F16 | Scalar::F32 | Scalar::F64 => Some(holds(op, a.as_float()?, b.as_float()?)),
        _ => Some(holds(op, a.as_int()?, b.as_int()?)),
    }
}

/// `a * b + c`, rounded once. `None` when it is not three floats of one type.
pub fn fma(a: Imm, b: Imm, c: Imm) -> Option<Imm> {
    if a.ty != b.ty || a.ty != c.ty {
        return None;
    }
    match a.ty {
        Scalar::F32 => Some(from_f32(f32_of(a).mul_add(f32_of(b), f32_of(c)))),
        Scalar::F64 => Some(from_f64(f64_of(a).mul_add(f64_of(b), f64_of(c)))),
        // Exact in `f64` wherever the result is near a boundary of two `f16`.
        Scalar::F16 => Some(from_f16(round_to_f16(
            f16_of(a).to_f64() * f16_of(b).to_f64() + f16_of(c).to_f64(),
        ))),
        _ => None,
    }
}

/// By value to another type.
pub fn convert(a: Imm, to: Scalar) -> Imm {
    if a.ty == to {
        return a;
    }
    match a.as_float() {
        Some(value) => Imm::float(to, value),
        None => {
            let value = a.as_int().unwrap_or(0);
            match to {
                Scalar::Bool => Imm::bool(value != 0),
                Scalar::F64 => from_f64(value as f64),
                Scalar::F32 => from_f32(value as f32),
                // Integers that `f64` does not hold are far beyond the range of `f16`.
                Scalar::F16 => from_f16(round_to_f16(value as f64)),
                _ => Imm::int(to, value),
            }
        }
    }
}

/// By bits to another type of the same width; `None` when the widths differ.
pub fn bitcast(a: Imm, to: Scalar) -> Option<Imm> {
    (a.ty.bits() == to.bits()).then(|| Imm::from_bits(to, a.bits()))
}

/// What an atomic leaves behind when it finds `old`.
pub fn combine(op: AtomicOp, old: Imm, operand: Imm) -> Option<Imm> {
    let op = match op {
        AtomicOp::Add => BinOp::Add,
        AtomicOp::Mul => BinOp::Mul,
        AtomicOp::Min => BinOp::Min,
        AtomicOp::Max => BinOp::Max,
        AtomicOp::And => BinOp::And,
        AtomicOp::Or => BinOp::Or,
        AtomicOp::Xor => BinOp::Xor,
        AtomicOp::Exchange => return (old.ty == operand.ty).then_some(operand),
    };
    binary(op, old, operand)
}

/// The binary operation that a reduction repeats.
pub fn reduction(op: ReduceOp) -> BinOp {
    match op {
        ReduceOp::Add => BinOp::Add,
        ReduceOp::Mul => BinOp::Mul,
        ReduceOp::Min => BinOp::Min,
        ReduceOp::Max => BinOp::Max,
        ReduceOp::And => BinOp::And,
        ReduceOp::Or => BinOp::Or,
    }
}

/// Nearest `f16`, ties to even, in one rounding. (Converting by way of `f32` would round twice.)
pub fn round_to_f16(value: f64) -> f16 {
    let near = value as f32;
    if f64::from(near) == value || value.is_nan() {
        return f16::from_f32(near);
    }
    // Truncate to `f32` and remember in the last bit that something was cut off: 24 bits are enough
    // for the second rounding to see on which side of a tie the value lies.
    let past = f64::from(near).abs() > value.abs();
    f16::from_f32(f32::from_bits((near.to_bits() - u32::from(past)) | 1))
}

fn f16_of(a: Imm) -> f16 {
    f16::from_bits(a.bits() as u16)
}

fn f32_of(a: Imm) -> f32 {
    f32::from_bits(a.bits() as u32)
}

fn f64_of(a: Imm) -> f64 {
    f64::from_bits(a.bits())
}

fn from_f16(x: f16) -> Imm {
    Imm::from_bits(Scalar::F16, u64::from(x.to_bits()))
}

fn from_f32(x: f32) -> Imm {
    Imm::from_bits(Scalar::F32, u64::from(x.to_bits()))
}

fn from_f64(x: f64) -> Imm {
    Imm::from_bits(Scalar::F64, x.to_bits())
}
