//! Text of `print` and `assert` messages.

use crate::enums::{self, Variant};
use crate::format::{Align, Format, Radix};
use crate::module::{MessageData, Piece};
use crate::types::{Imm, Scalar, StructType, Structs, Type};
use half::f16;
use std::fmt;

/// Fills the holes of a message with `values`, the scalars of all holes in order.
///
/// Numbers are formatted like Rust's `{}` and `{:.3}`, vectors like `[1, 2]`, matrices row by row like `[[1,
/// 2], [3, 4]]`, structs like `Ray { at: [0, 0], steps: 3 }`, tuples like `(1, true)`. A hole without a value
/// is `?`.
pub fn format_message(structs: &Structs, message: &MessageData, values: &[Imm]) -> String {
    let mut out = String::new();
    let mut values = values.iter().copied();
    for piece in &message.pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Hole { ty, format } => {
                write_value(&mut out, structs, *ty, *format, &mut values);
            }
        }
    }
    out
}

/// Formats one value like [`format_message`], from its scalars.
pub fn format_value(structs: &Structs, ty: Type, values: &[Imm]) -> String {
    let mut out = String::new();
    let values = &mut values.iter().copied();
    write_value(&mut out, structs, ty, Format::default(), values);
    out
}

fn write_value(
    out: &mut String,
    structs: &Structs,
    ty: Type,
    format: Format,
    values: &mut dyn Iterator<Item = Imm>,
) {
    let mut list = |out: &mut String, n: u16| {
        out.push('[');
        for k in 0..n {
            if k > 0 {
                out.push_str(", ");
            }
            write_scalar(out, format, values.next());
        }
        out.push(']');
    };
    match ty {
        Type::Scalar(_) => write_scalar(out, format, values.next()),
        Type::Vector(_, n) => list(out, n),
        Type::Matrix(_, rows, columns) => {
            out.push('[');
            for r in 0..rows {
                if r > 0 {
                    out.push_str(", ");
                }
                list(out, columns);
            }
            out.push(']');
        }
        Type::Struct(id) => {
            let st = &structs.0[id];
            if let Some(variants) = enums::variants(st) {
                return write_enum(out, structs, st, &variants, format, values);
            }
            let tuple = is_tuple(st);
            let (open, close) = match (tuple, st.fields.len()) {
                (true, 1) => ("(", ",)"),
                (true, _) => ("(", ")"),
                (false, 0) => ("", ""),
                (false, _) => (" { ", " }"),
            };
            if !tuple {
                out.push_str(&st.name);
            }
            out.push_str(open);
            for (k, (name, ty)) in st.fields.iter().enumerate() {
                if k > 0 {
                    out.push_str(", ");
                }
                if !tuple {
                    out.push_str(name);
                    out.push_str(": ");
                }
                write_value(out, structs, *ty, format, values);
            }
            out.push_str(close);
        }
    }
}

/// The variant that an enum is, like `Some(1)`, `Ball { radius: 2 }` or `None`.
fn write_enum(
    out: &mut String,
    structs: &Structs,
    st: &StructType,
    variants: &[Variant<'_>],
    format: Format,
    values: &mut dyn Iterator<Item = Imm>,
) {
    let tag = values.next().and_then(Imm::as_int);
    let variant = tag.and_then(|t| variants.get(usize::try_from(t).ok()?));
    let fields: &[(&str, usize)] = variant.map_or(&[], |v| &v.fields);
    out.push_str(variant.map_or("?", |v| v.name));
    let named = fields.first().is_some_and(|f| f.0 != "0");
    let (open, close) = match (fields.is_empty(), named) {
        (true, _) => ("", ""),
        (false, true) => (" { ", " }"),
        (false, false) => ("(", ")"),
    };
    out.push_str(open);
    let mut first = true;
    for (k, (_, ty)) in st.fields.iter().enumerate().skip(1) {
        let mut text = String::new();
        write_value(&mut text, structs, *ty, format, values);
        if let Some((name, _)) = fields.iter().find(|f| f.1 == k) {
            if !std::mem::take(&mut first) {
                out.push_str(", ");
            }
            if named {
                out.push_str(name);
                out.push_str(": ");
            }
            out.push_str(&text);
        }
    }
    out.push_str(close);
}

/// Whether the fields are named `0`, `1`, ...; a struct without fields and name is the empty tuple.
fn is_tuple(st: &StructType) -> bool {
    if st.fields.is_empty() {
        return st.name.is_empty() || st.name.starts_with('(');
    }
    st.fields
        .iter()
        .enumerate()
        .all(|(k, (name, _))| *name == k.to_string())
}

fn write_scalar(out: &mut String, format: Format, value: Option<Imm>) {
    let Some(value) = value else {
        out.push('?');
        return;
    };
    let bits = value.bits();
    match value.ty {
        Scalar::Bool => {
            let text = (bits != 0).to_string();
            let format = Format {
                plus: false,
                zeros: false,
                ..format
            };
            format.pad(out, false, "", &text, Align::Left);
        }
        Scalar::F16 => write_float(out, format, f16::from_bits(bits as u16)),
        Scalar::F32 => write_float(out, format, f32::from_bits(bits as u32)),
        Scalar::F64 => write_float(out, format, f64::from_bits(bits)),
        Scalar::I8
        | Scalar::I16
        | Scalar::I32
        | Scalar::I64
        | Scalar::U8
        | Scalar::U16
        | Scalar::U32
        | Scalar::U64 => write_int(out, format, value),
    }
}

fn write_int(out: &mut String, format: Format, value: Imm) {
    let bits = value.bits() & (u64::MAX >> (64 - value.ty.bits()));
    let (prefix, text) = match format.radix {
        Radix::Decimal | Radix::LowerExp | Radix::UpperExp => {
            let int = value.as_int().unwrap_or(0);
            let text = int.unsigned_abs().to_string();
            format.pad(out, int < 0, "", &text, Align::Right);
            return;
        }
        // Negative numbers are written as their bits.
        Radix::Binary => ("0b", format!("{bits:b}")),
        Radix::Octal => ("0o", format!("{bits:o}")),
        Radix::LowerHex => ("0x", format!("{bits:x}")),
        Radix::UpperHex => ("0x", format!("{bits:X}")),
    };
    format.pad(out, false, prefix, &text, Align::Right);
}

/// Floats of all widths, in their own shortest digits.
trait Float: fmt::Display + fmt::LowerExp + fmt::UpperExp {
    fn is_nan(&self) -> bool;
}

macro_rules! floats {
    ($($ty:ty)*) => {$(
        impl Float for $ty {
            fn is_nan(&self) -> bool {
                <$ty>::is_nan(*self)
            }
        }
    )*};
}
floats!(f16 f32 f64);

fn write_float(out: &mut String, format: Format, value: impl Float) {
    let text = match (format.radix, format.precision.map(usize::from)) {
        (Radix::LowerExp, None) => format!("{value:e}"),
        (Radix::LowerExp, Some(p)) => format!("{value:.p$e}"),
        (Radix::UpperExp, None) => format!("{value:E}"),
        (Radix::UpperExp, Some(p)) => format!("{value:.p$E}"),
        (_, None) => format!("{value}"),
        (_, Some(p)) => format!("{value:.p$}"),
    };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.as_str()),
    };
    // As in Rust, NaN has no sign.
    let format = Format {
        plus: format.plus && !value.is_nan(),
        ..format
    };
    format.pad(out, negative, "", digits, Align::Right);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(ty: Type, precision: Option<u8>) -> Piece {
        let format = Format::with_precision(precision);
        Piece::Hole { ty, format }
    }

    /// A value formatted as in a message.
    fn shown(spec: &str, value: Imm) -> String {
        let ty = Type::Scalar(value.ty);
        let format = Format::parse(spec).expect(spec);
        let message = MessageData {
            pieces: vec![Piece::Hole { ty, format }],
        };
        format_message(&Structs::default(), &message, &[value])
    }

    #[test]
    fn formats_are_those_of_rust() {
        struct Of;
        impl Of {
            fn f32(x: f32) -> Imm {
                Imm::float(Scalar::F32, f64::from(x))
            }
        }
        macro_rules! check {
            ($imm:expr, $value:expr, $($spec:literal)*) => {$(
                assert_eq!(shown($spec, $imm), format!(concat!("{:", $spec, "}"), $value), $spec);
            )*};
        }
        for x in [1.5f32, -0.125, 0.0, f32::NAN, f32::NEG_INFINITY, 123456.0] {
            check!(Of::f32(x), x, "8" "<8" "^9" "*>12" "+" "08" "+010.2" ".3" "8.3" "e" "12.2e" "E");
        }
        for n in [0i32, 7, -42, i32::MIN] {
            check!(Imm::int(Scalar::I32, i128::from(n)), n, "5" "<5" "^7" "+" "05" "x" "#x" "#010x" "b" "o" "#X");
        }
        for b in [true, false] {
            check!(Imm::bool(b), b, "7" ">7" "^7" "-<7");
        }
    }

    #[test]
    fn every_kind_of_value() {
        let mut structs = Structs::default();
        let pair = structs.intern(StructType {
            name: "pair".into(),
            fields: vec![
                ("0".into(), Type::Scalar(Scalar::I8)),
                ("1".into(), Type::Scalar(Scalar::Bool)),
            ],
        });
        let ray = structs.intern(StructType {
            name: "Ray".into(),
            fields: vec![
                ("at".into(), Type::Vector(Scalar::F32, 2)),
                ("p".into(), Type::Struct(pair)),
            ],
        });
        let message = MessageData {
            pieces: vec![
                hole(Type::Struct(ray), Some(2)),
                Piece::Text(" {} ".into()),
                hole(Type::Matrix(Scalar::U64, 2, 2), None),
                hole(Type::Scalar(Scalar::F16), None),
            ],
        };
        let mut values = vec![
            Imm::float(Scalar::F32, 1.0),
            Imm::float(Scalar::F32, -0.125),
            Imm::int(Scalar::I8, -128),
            Imm::bool(true),
        ];
        values.extend((0..3).map(|k| Imm::int(Scalar::U64, k)));
        values.push(Imm::int(Scalar::U64, i128::from(u64::MAX)));
        let text = format_message(&structs, &message, &values);
        assert_eq!(
            text,
            "Ray { at: [1.00, -0.12], p: (-128, true) } {} [[0, 1], [2, 18446744073709551615]]?"
        );
    }

    #[test]
    fn enums_show_their_variant() {
        let mut structs = Structs::default();
        let fields = vec![
            ("Ball.0".to_string(), Type::Scalar(Scalar::F32)),
            ("Box.size".to_string(), Type::Vector(Scalar::I32, 2)),
        ];
        let shapes = [("None", 0), ("Ball", 1), ("Box", 2)];
        let id = structs.intern(enums::enum_type("Shape", &shapes, fields));
        let show = |tag| {
            let int = |n| Imm::int(Scalar::I32, n);
            let values = [
                Imm::int(Scalar::U8, tag),
                Imm::float(Scalar::F32, 1.5),
                int(3),
                int(4),
            ];
            format_value(&structs, Type::Struct(id), &values)
        };
        assert_eq!(
            [show(0), show(1), show(2), show(9)],
            ["None", "Ball(1.5)", "Box { size: [3, 4] }", "?"]
        );
    }

    #[test]
    fn floats_look_as_in_rust() {
        let structs = Structs::default();
        let show = |ty, x| format_value(&structs, Type::Scalar(ty), &[Imm::float(ty, x)]);
        assert_eq!(show(Scalar::F32, 0.1), "0.1");
        assert_eq!(show(Scalar::F64, 1e21), "1000000000000000000000");
        assert_eq!(show(Scalar::F64, -0.0), "-0");
        assert_eq!(show(Scalar::F32, f64::NAN), "NaN");
        assert_eq!(show(Scalar::F16, f64::NEG_INFINITY), "-inf");
        assert_eq!(show(Scalar::F16, 0.5), "0.5");
    }
}
