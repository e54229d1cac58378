//! A `match` over operations lists them all, so that a new one does not compile until each such
//! place knows it.
//!
//! One or two of many are asked for with `if let`, `let else` or `matches!`; a classification is a column of the
//! table in `wuji_ir::ops`.

use super::Violation;
use super::sources::{Source, Sources, line_of, words};

/// The enums that no `match` cuts short.
const ENUMS: [&str; 19] = [
    "Op",
    "UnOp",
    "BinOp",
    "CmpOp",
    "ReduceOp",
    "AtomicOp",
    "CellOp",
    "TreeAccessOp",
    "ThreadOp",
    "OpClass",
    "AlgebraOp",
    "ElementwiseOp",
    "ComponentOp",
    "QueryOp",
    "HintOp",
    "AccessOp",
    "MemoryOp",
    "ControlOp",
    "CheckOp",
];

/// The macros match on the syntax of Rust, whose enums have some of these names.
const OTHER_ENUMS: &str = "crates/wuji-macros/";

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let ours = |s: &&Source| s.is("rs") && !s.path.starts_with(OTHER_ENUMS);
    let mut found = Vec::new();
    for source in sources.0.iter().filter(ours) {
        let code = source.code();
        for (line, name) in cut_short(&code) {
            found.push(Violation::new(
                &source.path,
                line,
                format!("a `match` over `{name}` has an arm for all others: list them, match on their class, or use `if let`"),
            ));
        }
    }
    found
}

/// Line and enum of each `match` that has an arm for whatever it does not list. The code has no comments and strings.
fn cut_short(code: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for at in words(code, "match") {
        let Some(arms) = arms(&code[at + "match".len()..]) else {
            continue;
        };
        let named = arms.iter().find_map(|pattern| named_enum(pattern));
        if let Some(name) = named
            && arms.iter().any(|pattern| takes_all(pattern))
        {
            found.push((line_of(code, at), name));
        }
    }
    found
}

/// The patterns of a `match`, with their guards. The text starts behind the keyword.
fn arms(text: &str) -> Option<Vec<&str>> {
    let open = at_depth_zero(text, |rest| rest.starts_with('{'))?;
    let mut rest = &text[open + 1..];
    let mut out = Vec::new();
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        if rest.is_empty() || rest.starts_with('}') {
            return Some(out);
        }
        let arrow = at_depth_zero(rest, |rest| rest.starts_with("=>"))?;
        out.push(rest[..arrow].trim());
        rest = rest[arrow + "=>".len()..].trim_start();
        let end = if rest.starts_with('{') {
            closing(rest)? + 1
        } else {
            at_depth_zero(rest, |rest| rest.starts_with([',', '}']))?
        };
        rest = &rest[end..];
        // `{ a }.method()` continues after the braces.
        if rest.starts_with(['.', '?']) {
            let end = at_depth_zero(rest, |rest| rest.starts_with([',', '}']))?;
            rest = &rest[end..];
        }
    }
}

/// The first offset outside of all brackets where something holds.
fn at_depth_zero(text: &str, holds: impl Fn(&str) -> bool) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        if depth == 0 && holds(&text[at..]) {
            return Some(at);
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// The offset of the bracket that closes the one at the start.
fn closing(text: &str) -> Option<usize> {
    let inner = at_depth_zero(&text[1..], |rest| rest.starts_with([')', ']', '}']))?;
    Some(1 + inner)
}

/// The enum that a pattern names a variant of.
fn named_enum(pattern: &str) -> Option<&'static str> {
    let pattern = without_guard(pattern);
    ENUMS
        .into_iter()
        .find(|name| words(pattern, name).any(|at| pattern[at + name.len()..].starts_with("::")))
}

fn without_guard(pattern: &str) -> &str {
    match words(pattern, "if").next() {
        Some(at) => &pattern[..at],
        None => pattern,
    }
}

/// Whether a pattern takes every operation: `_`, a name, a tuple of these, `Some` of these.
fn takes_all(pattern: &str) -> bool {
    if words(pattern, "if").next().is_some() {
        return false;
    }
    if at_depth_zero(pattern, |rest| rest.starts_with('|')).is_some() {
        return alternatives(pattern, '|').any(takes_all);
    }
    let pattern = pattern.trim().trim_start_matches('&').trim();
    let inner = ["Some", "Ok", ""]
        .into_iter()
        .find_map(|lead| pattern.strip_prefix(lead)?.trim().strip_prefix('('));
    if let Some(inner) = inner {
        let parts = inner.strip_suffix(')').unwrap_or(inner);
        return alternatives(parts, ',').all(|part| part.trim() == ".." || takes_all(part));
    }
    let name = pattern
        .trim_start_matches("ref ")
        .trim_start_matches("mut ");
    let letters = |c: char| c.is_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.chars().all(letters)
}

/// The parts of a pattern between separators outside of brackets.
fn alternatives(pattern: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut rest = Some(pattern);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = at_depth_zero(text, |rest| rest.starts_with(separator));
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
    .filter(|part| !part.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<(usize, &'static str)> {
        cut_short(code)
    }

    #[test]
    fn an_arm_for_all_others_is_found() {
        assert_eq!(found("match op { Op::If => 1, _ => 0 }"), [(1, "Op")]);
        assert_eq!(
            found("\nmatch op { Op::If => { 1 } other => 0 }"),
            [(2, "Op")]
        );
        assert_eq!(
            found("match f(|x| { x }) { UnOp::Neg => {} _ => {} }"),
            [(1, "UnOp")]
        );
        assert_eq!(
            found("match x { ops::BinOp::Add | ops::BinOp::Mul if a => b, ref rest => c }"),
            [(1, "BinOp")]
        );
        assert_eq!(
            found("match x { Op::If => (a, b), Op::Select | _ => c }"),
            [(1, "Op")]
        );
    }

    #[test]
    fn tuples_and_options_hide_nothing() {
        assert_eq!(
            found("match (a, b) { (Op::If, 1) => 1, _ => 0 }"),
            [(1, "Op")]
        );
        assert_eq!(
            found("match (a, b) { (Op::If, 1) => 1, (_, k) => 0 }"),
            [(1, "Op")]
        );
        assert_eq!(
            found("match x { Some(Op::Const(i)) => 1, Some(_) => 0, None => 2 }"),
            [(1, "Op")]
        );
        assert!(found("match x { Some(Op::If | Op::Select) => 1, None => 2 }").is_empty());
    }

    #[test]
    fn inner_matches_count_for_themselves() {
        let code = "match op { Op::If => match k { 0 => 1, _ => 2 }.max(1), Op::Select => 2 }";
        assert!(found(code).is_empty());
        let code = "match k { 0 => match op { Op::If => 1, _ => 2 }, _ => 3 }";
        assert_eq!(found(code), [(1, "Op")]);
    }

    #[test]
    fn complete_matches_and_other_enums_pass() {
        assert!(found("match op { Op::If => 1, Op::Select => 0 }").is_empty());
        assert!(
            found("match op { Op::Unary(_) => 1, op if pure(op) => 2, Op::If => 0 }").is_empty()
        );
        assert!(found("match x { Stop::Now => 1, _ => 0 }").is_empty());
        assert!(found("let y = matches!(op, Op::If);").is_empty());
    }
}
