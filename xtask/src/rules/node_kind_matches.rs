//! Only the files listed here name a `NodeKind`; everything else asks its `LevelFormat` or its `LevelFunctions`.

use super::Violation;
use super::sources::{Sources, line_of};

/// Files and folders that may name kinds, with the reason.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/wuji-ir/src/layout/kinds/", "the formats"),
    (
        "crates/wuji-ir/src/layout/mod.rs",
        "the first node of a tree is the root",
    ),
    (
        "crates/wuji-compile/src/nodes/kinds/",
        "the level functions",
    ),
    ("crates/wuji/src/layout/node.rs", "one method per kind"),
    ("crates/wuji/src/dynamic/layout.rs", "`Layout::dense`"),
];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.0.iter().filter(|s| s.is_crate_code()) {
        if ALLOWED
            .iter()
            .any(|(path, _)| source.path.starts_with(path))
        {
            continue;
        }
        let code = source.code();
        let tests = code.find("#[cfg(test)]\nmod tests {").unwrap_or(code.len());
        for (at, kind) in named_kinds(&code[..tests]) {
            found.push(Violation::new(
                &source.path,
                line_of(&code, at),
                format!(
                    "names `NodeKind::{kind}`: ask `NodeKind::format` or `level_functions` instead"
                ),
            ));
        }
    }
    found
}

/// Variants of `NodeKind` with their byte offsets; functions and constants are none.
fn named_kinds(code: &str) -> impl Iterator<Item = (usize, &str)> {
    const PREFIX: &str = "NodeKind::";
    code.match_indices(PREFIX).filter_map(|(at, _)| {
        let rest = &code[at + PREFIX.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        let variant = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
        variant.then_some((at, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_outside_the_allowed_files_is_found() {
        let text = "fn f(k: NodeKind) -> bool {\n    matches!(k, NodeKind::Hash)\n}\n";
        let rest = "let k = NodeKind::from_name(\"hash\"); let all = NodeKind::BELOW_ROOT;";
        let sources = Sources::of(&[
            ("crates/a/src/a.rs", text),
            ("crates/a/src/b.rs", rest),
            ("crates/wuji-ir/src/layout/kinds/hash.rs", text),
        ]);
        let found = check(&sources);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].path.as_str(), found[0].line),
            ("crates/a/src/a.rs", 2)
        );
    }
}
