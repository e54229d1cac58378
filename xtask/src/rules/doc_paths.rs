//! Pages that code and prose name by their path exist: `docs/ir.md`.

use super::Violation;
use super::sources::{Sources, line_of};

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &sources.0 {
        // Tests of rules name pages that do not exist.
        if source.path.starts_with("xtask/src/rules/") {
            continue;
        }
        for (at, _) in source.text.match_indices("docs/") {
            let before = source.text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || "_-./".contains(c)) {
                continue;
            }
            let rest = &source.text[at..];
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || "_-./".contains(c)))
                .unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches('.');
            // `docs/errors/CODE.md` stands for many pages.
            let pattern = path.contains("CODE");
            if path.ends_with(".md") && !pattern && sources.get(path).is_none() {
                found.push(Violation::new(
                    &source.path,
                    line_of(&source.text, at),
                    format!("`{path}` does not exist"),
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_pages_are_found() {
        let files = [
            ("docs/ir.md", ""),
            (
                "a.rs",
                "// `docs/ir.md`, docs/is.md.\n// docs/errors/CODE.md",
            ),
        ];
        let found = check(&Sources::of(&files));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("docs/is.md"));
    }
}
