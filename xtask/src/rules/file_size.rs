//! No source file has more than 800 lines: a larger one is two modules.

use super::Violation;
use super::sources::Sources;

const LIMIT: usize = 800;

/// Files that are larger today, with the lines they may have. The list only gets shorter.
const LARGER: &[(&str, usize)] = &[("crates/wuji/tests/api/language.rs", 930)];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.0.iter().filter(|s| s.is("rs") || s.is("py")) {
        let lines = source.text.lines().count();
        let larger = LARGER.iter().find(|(path, _)| *path == source.path);
        let limit = larger.map_or(LIMIT, |(_, limit)| *limit);
        if lines > limit {
            found.push(Violation::new(
                &source.path,
                0,
                format!("{lines} lines, {limit} are allowed: split it"),
            ));
        }
        if larger.is_some() && lines <= LIMIT {
            found.push(Violation::new(
                &source.path,
                0,
                "is small enough now: remove it from the list in `rules/file_size.rs`",
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_found() {
        let text = "\n".repeat(801);
        let found = check(&Sources::of(&[
            ("a.rs", &text),
            ("b.rs", "\n"),
            ("c.md", &text),
        ]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "a.rs");
    }

    #[test]
    fn exceptions_that_are_not_needed_are_found() {
        assert_eq!(check(&Sources::of(&[(LARGER[0].0, "\n")])).len(), 1);
    }
}
