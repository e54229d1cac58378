//! What scalar operations compute: `docs/ir.md`, section 2, in code.
//!
//! The interpreter and the constant folder share these functions, so that a folded constant is what
//! the program would have computed. Every function is total: `None` means that the operation is not
//! defined on the type, which the verifier refuses.

use crate::ops::{AtomicOp, BinOp, CmpOp, ElementwiseOp, UnOp};
use crate::types::{Imm, Scalar};
use half::f16;

/// A float function, computed in the type of its argument; `f16` goes through `f32`.
macro_rules! on_float {
    ($a:expr, |$x:ident| $y:expr) => {
        match $a.ty {
            Scalar::F32 => {
                let $x = f32_of($a);
                Some(from_f32($y))
            }
            Scalar::F64 => {
                let $x = f64_of($a);
                Some(from_f64($y))
            }
            Scalar::F16 => {
                let $x = f16_of($a).to_f32();
                Some(from_f16(f16::from_f32($y)))
            }
            _ => None,
        }
    };
}

/// The same of two arguments. One operation in `f32` rounded to `f16` is the operation rounded to `f16`: 24 bits are
/// more than twice 11.
macro_rules! on_floats {
    ($a:expr, $b:expr, |$x:ident, $y:ident| $z:expr) => {
        match $a.ty {
            Scalar::F32 => {
                let ($x, $y) = (f32_of($a), f32_of($b));
                Some(from_f32($z))
            }
            Scalar::F64 => {
                let ($x, $y) = (f64_of($a), f64_of($b));
                Some(from_f64($z))
            }
            Scalar::F16 => {
                let ($x, $y) = (f16_of($a).to_f32(), f16_of($b).to_f32());
                Some(from_f16(f16::from_f32($z)))
            }
            _ => None,
        }
    };
}

/// An operation on scalars, which is one on each element of vectors and matrices. `None` when it is not defined on
/// the types of its arguments.
pub fn elementwise(op: ElementwiseOp, arg: impl Fn(usize) -> Imm) -> Option<Imm> {
    match op {
        ElementwiseOp::Unary(op) => unary(op, arg(0)),
        ElementwiseOp::Binary(op) => binary(op, arg(0), arg(1)),
        ElementwiseOp::Compare(op) => compare(op, arg(0), arg(1)).map(Imm::bool),
        ElementwiseOp::Select => Some(arg(if arg(0).bits() != 0 { 1 } else { 2 })),
        ElementwiseOp::Fma => fma(arg(0), arg(1), arg(2)),
        ElementwiseOp::Convert(to) => Some(convert(arg(0), to)),
        ElementwiseOp::Bitcast(to) => bitcast(arg(0), to),
    }
}

/// One argument. `None` when the operation is not defined on the type.
pub fn unary(op: UnOp, a: Imm) -> Option<Imm> {
    if !op.defined_on().contains(a.ty) {
        return None;
    }
    match op {
        // Flips the bit: arithmetic might change the bits of NaN.
        UnOp::Neg if a.ty.is_float() => Some(Imm::from_bits(a.ty, a.bits() ^ sign_bit(a.ty))),
        UnOp::Neg => on_int(a, i128::wrapping_neg),
        UnOp::Not if a.ty == Scalar::Bool => Some(Imm::bool(a.bits() == 0)),
        UnOp::Not => on_int(a, |x| !x),
        UnOp::Abs if a.ty.is_float() => Some(Imm::from_bits(a.ty, a.bits() & !sign_bit(a.ty))),
        UnOp::Abs => on_int(a, i128::abs),
        // Zeros and NaN are kept as they are.
        UnOp::Sign if a.ty.is_float() => {
            on_float!(a, |x| if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x
            })
        }
        UnOp::Sign => on_int(a, i128::signum),
        UnOp::Floor => on_float!(a, |x| x.floor()),
        UnOp::Ceil => on_float!(a, |x| x.ceil()),
        UnOp::Round => on_float!(a, |x| x.round()),
        UnOp::RoundEven => on_float!(a, |x| x.round_ties_even()),
        UnOp::Trunc => on_float!(a, |x| x.trunc()),
        UnOp::Sqrt | UnOp::PreciseSqrt => on_float!(a, |x| x.sqrt()),
        // Both steps round to the type.
        UnOp::Rsqrt => {
            let root = unary(UnOp::Sqrt, a)?;
            on_float!(root, |x| 1.0 / x)
        }
        UnOp::Sin => on_float!(a, |x| x.sin()),
        UnOp::Cos => on_float!(a, |x| x.cos()),
        UnOp::Tan => on_float!(a, |x| x.tan()),
        UnOp::Asin => on_float!(a, |x| x.asin()),
        UnOp::Acos => on_float!(a, |x| x.acos()),
        UnOp::Atan => on_float!(a, |x| x.atan()),
        UnOp::Sinh => on_float!(a, |x| x.sinh()),
        UnOp::Cosh => on_float!(a, |x| x.cosh()),
        UnOp::Tanh => on_float!(a, |x| x.tanh()),
        UnOp::Exp => on_float!(a, |x| x.exp()),
        UnOp::Exp2 => on_float!(a, |x| x.exp2()),
        UnOp::Log => on_float!(a, |x| x.ln()),
        UnOp::Log2 => on_float!(a, |x| x.log2()),
        UnOp::Log10 => on_float!(a, |x| x.log10()),
        UnOp::PopCount => on_int(a, |_| i128::from(a.bits().count_ones())),
        UnOp::LeadingZeros => on_int(a, |_| {
            i128::from(a.bits().leading_zeros() - (64 - a.ty.bits()))
        }),
        UnOp::TrailingZeros => on_int(a, |_| {
            i128::from(a.bits().trailing_zeros().min(a.ty.bits()))
        }),
        UnOp::Freeze | UnOp::StopGrad => Some(a),
    }
}

/// Two arguments of one type. `None` when the types differ or the operation is not defined on them.
pub fn binary(op: BinOp, a: Imm, b: Imm) -> Option<Imm> {
    if a.ty != b.ty || !op.defined_on().contains(a.ty) {
        return None;
    }
    let is_float = a.ty.is_float();
    match op {
        BinOp::Add if is_float => on_floats!(a, b, |x, y| x + y),
        BinOp::Add => on_ints(a, b, |x, y| x + y),
        BinOp::Sub if is_float => on_floats!(a, b, |x, y| x - y),
        BinOp::Sub => on_ints(a, b, |x, y| x - y),
        BinOp::Mul if is_float => on_floats!(a, b, |x, y| x * y),
        // The low 64 bits are right even where 128 overflow.
        BinOp::Mul => on_ints(a, b, i128::wrapping_mul),
        BinOp::Div if is_float => on_floats!(a, b, |x, y| x / y),
        BinOp::Div => on_ints(a, b, |x, y| if y == 0 { 0 } else { x / y }),
        BinOp::Rem if is_float => on_floats!(a, b, |x, y| x % y),
        BinOp::Rem => on_ints(a, b, |x, y| if y == 0 { 0 } else { x % y }),
        BinOp::And => Some(Imm::from_bits(a.ty, a.bits() & b.bits())),
        BinOp::Or => Some(Imm::from_bits(a.ty, a.bits() | b.bits())),
        BinOp::Xor => Some(Imm::from_bits(a.ty, a.bits() ^ b.bits())),
        BinOp::Shl => Some(Imm::from_bits(a.ty, a.bits() << shift_amount(b))),
        BinOp::Shr => on_int(a, |x| x >> shift_amount(b)),
        BinOp::Min if is_float => on_floats!(a, b, |x, y| if y.is_nan() || x < y { x } else { y }),
        BinOp::Min => on_ints(a, b, i128::min),
        BinOp::Max if is_float => on_floats!(a, b, |x, y| if y.is_nan() || x > y { x } else { y }),
        BinOp::Max => on_ints(a, b, i128::max),
        BinOp::Pow => pow(a, b),
        BinOp::PreciseAdd => on_floats!(a, b, |x, y| x + y),
        BinOp::PreciseSub => on_floats!(a, b, |x, y| x - y),
        BinOp::PreciseMul => on_floats!(a, b, |x, y| x * y),
        BinOp::PreciseDiv => on_floats!(a, b, |x, y| x / y),
        BinOp::Atan2 => on_floats!(a, b, |x, y| x.atan2(y)),
    }
}

/// Squares and square roots are products and roots, rounded once, like those that passes make of constant exponents.
fn pow(a: Imm, b: Imm) -> Option<Imm> {
    let exponent = b.as_float()?;
    if exponent == 2.0 {
        return binary(BinOp::Mul, a, a);
    }
    if exponent == 0.5 {
        // Of -0 it is 0, and of minus infinity infinity.
        let minus_infinity = a.as_float()? == f64::NEG_INFINITY;
        let positive = minus_infinity || a.as_float()? == 0.0;
        let base = if positive { unary(UnOp::Abs, a)? } else { a };
        return unary(UnOp::Sqrt, base);
    }
    on_floats!(a, b, |x, y| x.powf(y))
}

fn on_int(a: Imm, f: impl FnOnce(i128) -> i128) -> Option<Imm> {
    Some(Imm::int(a.ty, f(a.as_int()?)))
}

fn on_ints(a: Imm, b: Imm, f: impl FnOnce(i128, i128) -> i128) -> Option<Imm> {
    Some(Imm::int(a.ty, f(a.as_int()?, b.as_int()?)))
}

/// The bits of a float that hold its sign.
fn sign_bit(s: Scalar) -> u64 {
    1 << (s.bits() - 1)
}

/// By how many bits `b` shifts.
fn shift_amount(b: Imm) -> u64 {
    b.bits() % u64::from(b.ty.bits())
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
    match op.binary() {
        Some(op) => binary(op, old, operand),
        None => (old.ty == operand.ty).then_some(operand),
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
