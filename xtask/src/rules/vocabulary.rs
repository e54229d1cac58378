//! Names and prose use the established vocabulary: words that once stood for known things do not come back.
//!
//! `docs/glossary.md` has the terms.

use super::Violation;
use super::sources::{Sources, line_of, words};

/// Words, each with what to use instead.
const BANNED: &[(&str, &str)] = &[
    ("Anybody", "any thread, any lane"),
    ("Audience", "ProgressListeners"),
    ("Backlog", "PendingLaunches"),
    ("Everybody", "all threads, all lanes"),
    ("Fate", "Decision"),
    ("Immortal", "StaticStop"),
    ("LoadRows", "LoadInterleaved"),
    ("Nobody", "unused, pending, no thread"),
    ("Outlet", "PrintSink"),
    ("Somebody", "another thread, the user"),
    ("StoreRows", "StoreInterleaved"),
    ("Telling", "ReportContext"),
    ("Whoever", "the thread that, the caller"),
    ("Witness", "LaunchInfo"),
    ("anybody", "any thread, any lane"),
    ("as_told", "from_hints"),
    ("bring about", "allocate, activate"),
    ("brought about", "allocated, activated"),
    ("brought in", "linked, loaded"),
    ("compile_telling", "compile_with_progress"),
    ("everybody", "all threads, all lanes"),
    ("facade", "public API"),
    ("façade", "public API"),
    ("front end", "frontend"),
    ("front ends", "frontends"),
    ("go_on", "resume, next"),
    ("goes on by itself", "is asynchronous"),
    ("goes on with", "continues with"),
    ("joint_if", "uniform"),
    ("kept near", "in a scratchpad"),
    ("let_go", "release, free"),
    ("lower_walks", "lower_tree_access"),
    ("mended", "fixed"),
    ("nobody", "unused, pending, no thread"),
    ("parted", "divergent"),
    ("parted_if", "divergent"),
    ("past the caches", "non-temporal"),
    ("private_copies", "privatize"),
    ("share out", "distribute, divide"),
    ("shared out", "distributed, divided"),
    ("somebody", "another thread, the user"),
    ("the caller's promise", "guaranteed by the caller"),
    ("whoever", "the thread that, the caller"),
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
        let files = [(
            "a.rs",
            "fn a() {}\n// A front end, not a frontend.\n// Nobody waits for it; imparted.",
        )];
        let found = check(&Sources::of(&files));
        let lines: Vec<usize> = found.iter().map(|v| v.line).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.contains(&2) && lines.contains(&3));
    }
}
