//! Text of `print` and `assert` messages.

use crate::module::{MessageData, Piece};
use crate::types::{Imm, Scalar, StructType, Structs, Type};
use half::f16;
use std::fmt::Write;

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
            Piece::Hole { ty, precision } => {
                write_value(&mut out, structs, *ty, *precision, &mut values);
            }
        }
    }
    out
}

/// Formats one value like [`format_message`], from its scalars.
pub fn format_value(structs: &Structs, ty: Type, values: &[Imm]) -> String {
    let mut out = String::new();
    write_value(&mut out, structs, ty, None, &mut values.iter().copied());
    out
}

fn write_value(
    out: &mut String,
    structs: &Structs,
    ty: Type,
    precision: Option<u8>,
    values: &mut impl Iterator<Item = Imm>,
) {
    let mut list = |out: &mut String, n: u16| {
        out.push('[');
        for k in 0..n {
            if k > 0 {
                out.push_str(", ");
            }
            write_scalar(out, precision, values.next());
        }
        out.push(']');
    };
    match ty {
        Type::Scalar(_) => write_scalar(out, precision, values.next()),
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
                write_value(out, structs, *ty, precision, values);
            }
            out.push_str(close);
        }
    }
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

fn write_scalar(out: &mut String, precision: Option<u8>, value: Option<Imm>) {
    let Some(value) = value else {
        out.push('?');
        return;
    };
    let bits = value.bits();
    // Writing to a string cannot fail.
    let _ = match (value.ty, precision.map(usize::from)) {
        (Scalar::Bool, _) => write!(out, "{}", bits != 0),
        (Scalar::F16, None) => write!(out, "{}", f16::from_bits(bits as u16)),
        (Scalar::F16, Some(p)) => write!(out, "{:.p$}", f16::from_bits(bits as u16).to_f32()),
        (Scalar::F32, None) => write!(out, "{}", f32::from_bits(bits as u32)),
        (Scalar::F32, Some(p)) => write!(out, "{:.p$}", f32::from_bits(bits as u32)),
        (Scalar::F64, None) => write!(out, "{}", f64::from_bits(bits)),
        (Scalar::F64, Some(p)) => write!(out, "{:.p$}", f64::from_bits(bits)),
        (_, _) => write!(out, "{}", value.as_int().unwrap_or(0)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hole(ty: Type, precision: Option<u8>) -> Piece {
        Piece::Hole { ty, precision }
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
