//! In debug mode, numbers that a quantized type cannot represent are errors.

use super::Lower;
use wuji_ir::entities::{Field, Value};
use wuji_ir::format::Format;
use wuji_ir::module::{MessageData, Piece};
use wuji_ir::ops::{BinOp, CmpOp, Op, UnOp};
use wuji_ir::quant::{FloatFormat, PackedScalar, Quantized, range};
use wuji_ir::types::{Scalar, Type};

impl Lower<'_> {
    /// Fails the launch if a number does not fit its type.
    pub(super) fn check_fits(&mut self, field: Field, scalar: &PackedScalar, value: Value) {
        let Some(fits) = self.fits(scalar, value) else {
            return;
        };
        // A failed assertion ends the iteration, after what was stored before it.
        self.flush_all();
        let name = self.b.env.fields[field].name.clone();
        let hole = Piece::Hole {
            ty: Type::Scalar(scalar.compute),
            format: Format::default(),
        };
        let data = MessageData {
            pieces: vec![
                Piece::Text(format!("field `{name}` cannot store ")),
                hole,
                Piece::Text(format!(": it has {}", described(scalar.member.ty))),
            ],
        };
        let known = self.b.env.messages.iter().find(|(_, m)| **m == data);
        let message = match known.map(|(id, _)| id) {
            Some(id) => id,
            None => self.b.env.messages.push(data),
        };
        self.b.push(Op::Assert(message), &[fits, value]);
    }

    /// Whether a number is in the range of its type; `None` if all are.
    fn fits(&mut self, scalar: &PackedScalar, value: Value) -> Option<Value> {
        let compute = scalar.compute;
        match scalar.member.ty {
            Quantized::Int { bits, signed } => {
                let (least, most) = range(bits, signed);
                let (lo, hi) = compute.int_range()?;
                if compute == Scalar::Bool || least <= lo && most >= hi {
                    return None;
                }
                let least = self.b.int(compute, least.max(lo));
                let most = self.b.int(compute, most.min(hi));
                Some(self.between(value, least, most))
            }
            Quantized::Fixed {
                bits,
                signed,
                scale,
                ..
            } => {
                let (least, most) = range(bits, signed);
                let least = self.b.float(compute, (least as f64 - 0.5) * scale.get());
                let most = self.b.float(compute, (most as f64 + 0.5) * scale.get());
                Some(self.between(value, least, most))
            }
            Quantized::Float {
                exponent, signed, ..
            } => Some(self.below_exponent(compute, exponent, signed, value)),
            Quantized::Fraction {
                exponent, signed, ..
            } => Some(self.below_exponent(compute, exponent.bits, signed, value)),
        }
    }

    fn between(&mut self, value: Value, least: Value, most: Value) -> Value {
        let above = self.b.compare(CmpOp::Ge, value, least);
        let below = self.b.compare(CmpOp::Le, value, most);
        self.b.binary(BinOp::And, above, below)
    }

    /// Infinities and NaN are stored as they are; other numbers must not become infinite.
    fn below_exponent(&mut self, compute: Scalar, bits: u8, signed: bool, value: Value) -> Value {
        let bias = (1i32 << (bits - 1)) - 1;
        let limit = f64::from(bias + 1).exp2();
        let full = u32::from(bits) == FloatFormat::of(compute).exponent;
        let size = self.b.unary(UnOp::Abs, value);
        let mut fits = if full {
            self.b.bool(true)
        } else {
            let limit = self.b.float(compute, limit);
            let small = self.b.compare(CmpOp::Lt, size, limit);
            let infinite = self.b.float(compute, f64::INFINITY);
            let finite = self.b.compare(CmpOp::Lt, size, infinite);
            let special = self.b.unary(UnOp::Not, finite);
            self.b.binary(BinOp::Or, small, special)
        };
        if !signed {
            let zero = self.b.float(compute, 0.0);
            let negative = self.b.compare(CmpOp::Lt, value, zero);
            let positive = self.b.unary(UnOp::Not, negative);
            fits = self.b.binary(BinOp::And, fits, positive);
        }
        fits
    }
}

/// A type and its range, for users.
fn described(ty: Quantized) -> String {
    let sign = |signed: bool| if signed { "" } else { "unsigned " };
    match ty {
        Quantized::Int { bits, signed } => {
            let (least, most) = range(bits, signed);
            format!("{bits} bits, for {least} to {most}")
        }
        Quantized::Fixed {
            bits,
            signed,
            scale,
            ..
        } => {
            let (least, most) = range(bits, signed);
            let (least, most) = (least as f64 * scale.get(), most as f64 * scale.get());
            format!("{bits} bits, for {least:?} to {most:?}")
        }
        Quantized::Float {
            exponent, signed, ..
        } => {
            let bias = (1i32 << (exponent - 1)) - 1;
            format!(
                "an {}exponent of {exponent} bits, for numbers below 2^{}",
                sign(signed),
                bias + 1
            )
        }
        Quantized::Fraction {
            exponent, signed, ..
        } => {
            let bias = (1i32 << (exponent.bits - 1)) - 1;
            format!(
                "a shared {}exponent of {} bits, for numbers below 2^{}",
                sign(signed),
                exponent.bits,
                bias + 1
            )
        }
    }
}
