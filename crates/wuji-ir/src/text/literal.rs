//! Parses constants and format strings.

use super::lex::shortened;
use crate::format::Format;
use crate::module::{MessageData, Piece};
use crate::types::{Imm, Scalar, Type};
use half::f16;

/// Parses a constant of a given type, as after `const`. `Err` is the reason why it is invalid.
pub fn constant(text: &str, ty: Scalar) -> Result<Imm, String> {
    let bad = || format!("`{}` is not a constant of type `{ty}`", shortened(text));
    match ty {
        Scalar::Bool => match text {
            "true" => Ok(Imm::bool(true)),
            "false" => Ok(Imm::bool(false)),
            _ => Err(bad()),
        },
        Scalar::F16 | Scalar::F32 | Scalar::F64 => float(text, ty).ok_or_else(bad)?,
        Scalar::I8
        | Scalar::I16
        | Scalar::I32
        | Scalar::I64
        | Scalar::U8
        | Scalar::U16
        | Scalar::U32
        | Scalar::U64 => {
            let value = integer(text).ok_or_else(bad)?;
            let (lo, hi) = ty.int_range().unwrap_or((0, 0));
            match value {
                Some(v) if (lo..=hi).contains(&v) => Ok(Imm::int(ty, v)),
                _ => Err(format!("{} does not fit `{ty}`", shortened(text))),
            }
        }
    }
}

/// A NaN given by its bits, `nan(0x7fc00001)`.
pub(super) fn nan(bits: &str, ty: Scalar) -> Result<Imm, String> {
    let number = bits
        .strip_prefix("0x")
        .filter(|b| b.bytes().all(|b| b.is_ascii_hexdigit()))
        .and_then(|b| u64::from_str_radix(b, 16).ok());
    match number.map(|n| (n, Imm::from_bits(ty, n))) {
        Some((n, imm)) if imm.bits() == n && imm.as_float().is_some_and(f64::is_nan) => Ok(imm),
        _ => Err(format!(
            "`{}` are not the bits of a NaN of type `{ty}`",
            shortened(bits)
        )),
    }
}

/// `None`: not an integer; `Some(None)`: beyond 128 bits.
fn integer(text: &str) -> Option<Option<i128>> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (radix, digits) = match digits.strip_prefix("0x") {
        Some(rest) => (16, rest),
        None => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok();
    Some(magnitude.map(|m| if negative { -m } else { m }))
}

/// `None`: not a float; `Err`: beyond the range of the type.
fn float(text: &str, ty: Scalar) -> Option<Result<Imm, String>> {
    let imm = match text {
        "inf" => return Some(Ok(Imm::float(ty, f64::INFINITY))),
        "-inf" => return Some(Ok(Imm::float(ty, f64::NEG_INFINITY))),
        "nan" => return Some(Ok(Imm::float(ty, f64::NAN))),
        _ if !text
            .strip_prefix('-')
            .unwrap_or(text)
            .starts_with(|c: char| c.is_ascii_digit()) =>
        {
            return None;
        }
        _ => match ty {
            // Straight to f32: going through f64 would round twice.
            Scalar::F32 => Imm::from_bits(ty, u64::from(text.parse::<f32>().ok()?.to_bits())),
            Scalar::F16 => Imm::from_bits(
                ty,
                u64::from(f16::from_f64(text.parse::<f64>().ok()?).to_bits()),
            ),
            _ => Imm::float(ty, text.parse::<f64>().ok()?),
        },
    };
    Some(match imm.as_float() {
        Some(v) if v.is_finite() => Ok(imm),
        _ => Err(format!(
            "{} does not fit `{ty}`; infinity is `inf`",
            shortened(text)
        )),
    })
}

/// A format string: `x = {f32:.3}, {{}}`. `read_type` knows the types of the module.
pub(super) fn message(
    text: &str,
    read_type: impl Fn(&str) -> Option<Type>,
) -> Result<MessageData, String> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let doubled = chars.peek().is_some_and(|(_, next)| *next == c);
        match c {
            '{' | '}' if doubled => {
                chars.next();
                plain.push(c);
            }
            '}' => return Err("a `}` without `{`; write `}}` for the character".into()),
            '{' => {
                let Some(end) = text[at..].find('}') else {
                    return Err("a hole `{` has no `}`; write `{{` for the character".into());
                };
                if !plain.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                }
                pieces.push(hole(&text[at + 1..at + end], &read_type)?);
                while chars.next().is_some_and(|(_, c)| c != '}') {}
            }
            c => plain.push(c),
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(MessageData { pieces })
}

fn hole(text: &str, read_type: impl Fn(&str) -> Option<Type>) -> Result<Piece, String> {
    let (name, format) = match text.split_once(':') {
        Some((name, text)) => {
            let format = Format::parse(text)
                .ok_or_else(|| format!("`{}` is not a format", shortened(text)))?;
            (name, format)
        }
        None => (text, Format::default()),
    };
    match read_type(name) {
        Some(ty) => Ok(Piece::Hole { ty, format }),
        None => Err(format!(
            "a hole names the type of its value; `{}` is none",
            shortened(name)
        )),
    }
}
