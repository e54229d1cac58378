//! Names and prose use the established vocabulary: words that once stood for known things do not come back.
//!
//! `docs/glossary.md` has the terms.

use super::Violation;
use super::sources::{Sources, line_of, words};

/// Words, each with what to use instead.
const BANNED: &[(&str, &str)] = &[
    ("Audience", "ProgressListeners"),
    ("Backlog", "PendingLaunches"),
    ("Fate", "Decision"),
    ("Immortal", "StaticStop"),
    ("LoadRows", "LoadInterleaved"),
    ("Outlet", "PrintSink"),
    ("StoreRows", "StoreInterleaved"),
    ("Witness", "LaunchInfo"),
    ("bring about", "allocate, activate"),
    ("brought about", "allocated, activated"),
    ("facade", "public API"),
    ("façade", "public API"),
    ("front end", "frontend"),
    ("front ends", "frontends"),
    ("goes on by itself", "is asynchronous"),
    ("joint_if", "uniform"),
    ("lower_walks", "lower_tree_access"),
    ("mended", "fixed"),
    ("nobody has waited for", "pending"),
    ("parted_if", "divergent"),
    ("private_copies", "privatize"),
];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &sources.0 {
        if source.path == file!() {
            continue;
        }
        for (word, instead) in BANNED {
            for at in words(&source.text, word) {
                found.push(Violation::new(
                    &source.path,
                    line_of(&source.text, at),
                    format!("`{word}`: use `{instead}`"),
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
    fn old_words_are_found() {
        let files = [("a.rs", "fn a() {}\n// A front end, not a frontend.")];
        let found = check(&Sources::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }
}
