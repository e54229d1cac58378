//! The functions and methods of the language, identified by their names as rustc prints them.

use super::lower::is_simt;
use super::recording::CallTarget;

/// Functions that have no receiver.
const FUNCTIONS: &[&str] = wuji_macros::builtin_functions!();

/// Methods of scalars, vectors, matrices, arrays and `Option`.
const METHODS: &[&str] = wuji_macros::builtin_methods!();

pub(super) fn is_method(name: &str) -> bool {
    METHODS.contains(&name) || is_swizzle(name)
}

pub(super) fn is_swizzle(name: &str) -> bool {
    (2..=4).contains(&name.len()) && name.bytes().all(|c| b"xyzw".contains(&c))
}

/// What the function with this name means, if it is part of the language. `name` is that of
/// `std::any::type_name` for the function item.
pub(super) fn function(name: &str) -> Option<CallTarget> {
    if let Some(rest) = name.strip_prefix("wuji::lang::simt::") {
        let short = format!("simt::{}", without_generics(rest));
        return is_simt(&short).then_some(CallTarget::Builtin(short));
    }
    let short = shorten(name)?;
    if FUNCTIONS.contains(&short.as_str()) {
        return Some(CallTarget::Builtin(short));
    }
    // `f32::max(a, b)` and `Vec3::dot(a, b)` are methods with the receiver in front.
    let (owner, method) = short.split_once("::")?;
    let owned = matches!(
        owner,
        "Vector"
            | "Matrix"
            | "Num"
            | "Float"
            | "Int"
            | "Signed"
            | "Ord"
            | "Add"
            | "Sub"
            | "Mul"
            | "Div"
            | "Rem"
            | "Neg"
            | "Into"
            | "Clone"
    ) || wuji_ir::types::Scalar::from_name(owner).is_some()
        || matches!(owner, "usize" | "isize");
    (owned && is_method(method)).then(|| CallTarget::Method(method.to_string()))
}

/// `wuji::lang::vector::Vector<f32, 3>::splat` as `Vector::splat`, `core::f32::<impl f32>::min` as `f32::min`,
/// `<f32 as wuji::lang::num::Num>::from_f64` as `Num::from_f64`, `wuji::lang::math::mix<f32>` as `mix`.
/// `None` when it comes from elsewhere.
fn shorten(name: &str) -> Option<String> {
    let ours = ["wuji::lang::", "core::", "std::", "half::"];
    if let Some(rest) = name.strip_prefix('<') {
        let end = closing(rest)?;
        let method = rest.get(end + 1..)?.strip_prefix("::")?;
        let (_, path) = split_as(&rest[..end])?;
        let known = ours.iter().any(|o| path.starts_with(o));
        let plain = without_generics(path);
        let last = plain.rsplit("::").next()?;
        return known.then(|| format!("{last}::{}", without_generics(method)));
    }
    if !ours.iter().any(|o| name.starts_with(o)) {
        return None;
    }
    // Inherent methods of primitive types: `core::f32::<impl f32>::min`.
    let plain = match name.split_once("<impl ") {
        Some((before, rest)) => {
            let end = closing(rest)?;
            format!("{before}{}{}", &rest[..end], rest.get(end + 1..)?)
        }
        None => without_generics(name),
    };
    let mut segments = plain.rsplit("::");
    let last = segments.next()?;
    let owner = segments.next()?;
    let is_type = matches!(owner, "Vector" | "Matrix" | "f16")
        || name.starts_with("core::") && owner != "cmp"
        || name.starts_with("std::");
    Some(if is_type {
        format!("{owner}::{last}")
    } else {
        last.to_string()
    })
}

/// Where the angle bracket closes that was opened before `text`.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (k, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(k);
        }
    }
    None
}

/// The two sides of ` as ` outside of angle brackets.
fn split_as(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    for (k, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            ' ' if depth == 0 && text[k..].starts_with(" as ") => {
                return Some((&text[..k], &text[k + 4..]));
            }
            _ => {}
        }
    }
    None
}

/// Removes generic arguments in angle brackets.
fn without_generics(text: &str) -> String {
    let mut depth = 0usize;
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::*;
    use std::any::type_name;

    fn name<F>(_: F) -> String {
        match function(type_name::<F>()) {
            Some(CallTarget::Builtin(name)) => name,
            Some(CallTarget::Method(name)) => format!(".{name}"),
            other => format!("{other:?}: {}", type_name::<F>()),
        }
    }

    #[test]
    fn rustc_prints_names_as_expected() {
        assert_eq!(name(vec2), "vec2");
        assert_eq!(name(unit::<3>), "unit");
        assert_eq!(name(Vec3::splat), "Vector::splat");
        assert_eq!(name(Vec3::dot), ".dot");
        assert_eq!(name(DVec2::new), "Vector::new");
        assert_eq!(name(Mat3::identity), "Matrix::identity");
        assert_eq!(name(<f32 as Num>::from_f64), "Num::from_f64");
        assert_eq!(name(<Vec2 as Default>::default), "Default::default");
        assert_eq!(name(<f64 as From<f32>>::from), "From::from");
        assert_eq!(name(f32::sin), ".sin");
        assert_eq!(name(f32::max), ".max");
        assert_eq!(name(i32::max), ".max");
        assert_eq!(name(f32::from_bits), "f32::from_bits");
        assert_eq!(name(u32::count_ones), ".count_ones");
        assert_eq!(name(f16::from_f32), "f16::from_f32");
        assert_eq!(name(std::cmp::max::<i32>), "max");
    }

    #[test]
    fn other_functions_are_not_builtin() {
        assert!(function("app::vec2").is_none());
        assert!(function("<app::Mine as app::Extra>::dot").is_none());
        assert!(function("alloc::string::String::new").is_none());
    }
}
