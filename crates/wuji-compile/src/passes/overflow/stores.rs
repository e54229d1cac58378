//! Numbers that a quantized type cannot store, or stores with a large error.

use super::known_message;
use crate::quant::{self, Bit};
use crate::rewrite::{bits_equal, combine};
use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Field, Inst, Region, Value};
use wuji_ir::format::Format;
use wuji_ir::module::{Env, Function, Piece, Values};
use wuji_ir::ops::*;
use wuji_ir::quant::{FloatFormat, PackedScalar, Quantized, SharedExponent, range};
use wuji_ir::types::{Scalar, Type};

/// What is checked.
#[derive(Copy, Clone, PartialEq, Default)]
pub(super) struct Checks {
    /// Numbers are in the range of their type.
    pub(super) range: bool,
    /// They keep this many significant bits.
    pub(super) precision: Option<u32>,
}

impl Checks {
    /// Checks what the instructions of a region store.
    pub(super) fn region(self, m: &mut Env, f: &mut Function, region: Region) {
        let insts = std::mem::take(&mut f.regions[region].insts);
        for inst in insts {
            let OpClass::Access(op, access) = f.insts[inst].op.class() else {
                f.regions[region].insts.push(inst);
                continue;
            };
            let packed = match access.place {
                Place::Field(field) if m.fields[field].packing.is_some() => field,
                Place::Field(_) | Place::Array(_) | Place::Local(_) | Place::Temp(_) => {
                    f.regions[region].insts.push(inst);
                    continue;
                }
            };
            let (op, path) = (op, access.path.clone());
            let mut b = Builder::new(m, f);
            b.region = region;
            b.span = b.func.spans[inst];
            let (ty, first) = quant::part(b.env, packed, &path);
            let count = b.env.structs.flatten(ty).len();
            let scalars = &b.env.packed_scalars(packed)[first..first + count];
            let mut stores = Stores {
                checks: self,
                field: packed,
                scalars: scalars.into(),
                b,
            };
            stores.access(inst, op, region);
        }
    }
}

/// One access of a packed field.
struct Stores<'a> {
    checks: Checks,
    field: Field,
    scalars: SmallVec<[PackedScalar; 4]>,
    b: Builder<'a>,
}

impl Stores<'_> {
    /// Checks a store before it happens, and an atomic by its result.
    fn access(&mut self, inst: Inst, op: AccessOp, region: Region) {
        let data = self.b.func.insts[inst].clone();
        let rank = self.b.env.fields[self.field].rank();
        let operands = &data.args[rank..];
        let before = match op {
            AccessOp::Store => self.scalars_of(operands[0]),
            AccessOp::Load | AccessOp::Atomic(_) | AccessOp::CompareExchange => Values::new(),
        };
        self.check_stored(&before);
        if op == AccessOp::Atomic(AtomicOp::Add) {
            let added = self.scalars_of(operands[0]);
            self.check_added(&added);
        }
        self.b.func.regions[region].insts.push(inst);
        match op {
            AccessOp::Load | AccessOp::Store => {}
            AccessOp::Atomic(op) => {
                let old = self.scalars_of(data.results[0]);
                let operands = self.scalars_of(operands[0]);
                for k in 0..old.len() {
                    let new = combine(&mut self.b, op, old[k], operands[k]);
                    self.check_range(self.scalars[k], new, None);
                }
            }
            AccessOp::CompareExchange => {
                let same = bits_equal(&mut self.b, data.results[0], operands[0]);
                let other = self.b.unary(UnOp::Not, same);
                self.check_range(self.scalars[0], operands[1], Some(other));
            }
        }
    }

    fn scalars_of(&mut self, value: Value) -> Values {
        let mut scalars = Values::new();
        if self.checks != Checks::default() {
            quant::decompose(&mut self.b, value, &mut scalars);
        }
        scalars
    }

    fn check_stored(&mut self, values: &[Value]) {
        for (k, value) in values.iter().enumerate() {
            self.check_range(self.scalars[k], *value, None);
        }
        let Some(bits) = self.checks.precision else {
            return;
        };
        for (k, value) in values.iter().enumerate() {
            let scalar = self.scalars[k];
            let (stored, size) = match scalar.member.ty {
                Quantized::Int { .. } => continue,
                ty @ (Quantized::Fixed { .. } | Quantized::Float { .. }) => {
                    if ty.is_stochastic() {
                        continue;
                    }
                    let stored = quant::rounded(&mut self.b, ty, scalar.compute, *value);
                    (stored, self.b.unary(UnOp::Abs, *value))
                }
                Quantized::Fraction { exponent, .. } => self.rounded_together(exponent, values, k),
            };
            self.check_precision(scalar, "cannot store", (*value, stored, size), bits);
        }
    }

    /// What an atomic add rounds is its operand.
    fn check_added(&mut self, values: &[Value]) {
        let Some(bits) = self.checks.precision else {
            return;
        };
        for (k, value) in values.iter().enumerate() {
            let scalar = self.scalars[k];
            let ty = scalar.member.ty;
            if matches!(ty, Quantized::Fixed { .. }) && !ty.is_stochastic() {
                let stored = quant::rounded(&mut self.b, ty, scalar.compute, *value);
                let size = self.b.unary(UnOp::Abs, *value);
                self.check_precision(scalar, "cannot add", (*value, stored, size), bits);
            }
        }
    }

    /// One of the numbers of a group that are stored together, rounded, and the size of the largest of them.
    fn rounded_together(
        &mut self,
        exponent: SharedExponent,
        values: &[Value],
        k: usize,
    ) -> (Value, Value) {
        let word = Scalar::U64;
        let mut members: SmallVec<[(u8, bool); 4]> = SmallVec::new();
        let mut together = Values::new();
        let mut own = 0;
        for (j, scalar) in self.scalars.iter().enumerate() {
            if let Quantized::Fraction {
                bits,
                signed,
                exponent: e,
            } = scalar.member.ty
                && (scalar.member.word, e) == (self.scalars[k].member.word, exponent)
            {
                if j == k {
                    own = members.len();
                }
                members.push((bits, signed));
                together.push(values[j]);
            }
        }
        let b = &mut self.b;
        let (code, fractions) = quant::encode_shared(b, exponent.bits, &members, &together, word);
        let (bits, signed) = members[own];
        let compute = self.scalars[k].compute;
        // The exponent below the fraction.
        let low = b.int(word, exponent.bits.into());
        let fraction = b.binary(BinOp::Shl, fractions[own], low);
        let both = b.binary(BinOp::Or, fraction, code);
        let exponent = SharedExponent { at: 0, ..exponent };
        let at = Bit::Const(exponent.bits);
        let stored = quant::decode_shared(b, exponent, bits, signed, compute, both, at);
        let mut size = b.unary(UnOp::Abs, together[0]);
        for value in &together[1..] {
            let other = b.unary(UnOp::Abs, *value);
            size = b.binary(BinOp::Max, size, other);
        }
        (stored, size)
    }

    /// Fails the launch if a number keeps too few bits, compared with a size. Numbers that are subnormal count as zero.
    fn check_precision(
        &mut self,
        scalar: PackedScalar,
        verb: &str,
        (value, stored, size): (Value, Value, Value),
        bits: u32,
    ) {
        let compute = scalar.compute;
        let format = FloatFormat::of(compute);
        let b = &mut self.b;
        let error = b.binary(BinOp::PreciseSub, stored, value);
        let error = b.unary(UnOp::Abs, error);
        let share = b.float(compute, f64::from(-(bits.min(format.digits) as i32)).exp2());
        let bound = b.binary(BinOp::PreciseMul, size, share);
        let large = b.compare(CmpOp::Ge, error, bound);
        let smallest = f64::from(1 - format.bias() as i32).exp2();
        let smallest = b.float(compute, smallest);
        let normal = b.compare(CmpOp::Ge, size, smallest);
        let zero = b.float(compute, 0.0);
        let wrong = b.compare(CmpOp::Ne, error, zero);
        let lost = b.binary(BinOp::And, large, normal);
        let lost = b.binary(BinOp::And, lost, wrong);
        let kept = b.unary(UnOp::Not, lost);
        let name = self.b.env.fields[self.field].name.clone();
        let hole = hole(compute);
        let pieces = vec![
            Piece::Text(format!("field `{name}` {verb} ")),
            hole.clone(),
            Piece::Text(": it becomes ".to_owned()),
            hole,
            Piece::Text(format!(", {}", smallest_of(scalar.member.ty))),
        ];
        let message = known_message(self.b.env, pieces);
        self.b.push(Op::Assert(message), &[kept, value, stored]);
    }

    /// Fails the launch if a number does not fit its type, unless `or` holds.
    fn check_range(&mut self, scalar: PackedScalar, value: Value, or: Option<Value>) {
        if !self.checks.range {
            return;
        }
        let Some(mut fits) = self.fits(&scalar, value) else {
            return;
        };
        if let Some(or) = or {
            fits = self.b.binary(BinOp::Or, fits, or);
        }
        let name = self.b.env.fields[self.field].name.clone();
        let pieces = vec![
            Piece::Text(format!("field `{name}` cannot store ")),
            hole(scalar.compute),
            Piece::Text(format!(": it has {}", described(scalar.member.ty))),
        ];
        let message = known_message(self.b.env, pieces);
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

fn hole(scalar: Scalar) -> Piece {
    Piece::Hole {
        ty: Type::Scalar(scalar),
        format: Format::default(),
    }
}

/// The smallest numbers of a type, for users.
fn smallest_of(ty: Quantized) -> String {
    let least = |bits: u8| 2 - (1i32 << (bits - 1));
    match ty {
        Quantized::Int { .. } => String::new(),
        Quantized::Fixed { scale, .. } => format!("a multiple of {:?}", scale.get()),
        Quantized::Float { exponent, .. } => {
            let (digits, least) = (ty.format().digits + 1, least(exponent));
            format!("a number of {digits} digits, not below 2^{least}")
        }
        Quantized::Fraction { exponent, .. } => {
            let least = least(exponent.bits);
            format!("a fraction with a shared exponent of at least {least}")
        }
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
