//! Markdown has one sentence per line, so that a change of a sentence is a change of a line.

use super::Violation;
use super::sources::Sources;

/// Pages that programs write.
const GENERATED: [&str; 3] = [
    "docs/errors/README.md",
    "docs/errors/kernels.md",
    "docs/python/status.md",
];
const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", "vs.", "etc.", "cf.", "Fig."];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.0.iter().filter(|s| s.is("md")) {
        if GENERATED.contains(&source.path.as_str()) {
            continue;
        }
        let mut fenced = false;
        for (n, line) in source.text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            }
            if !fenced && second_sentence(line) {
                let message = "has a second sentence: start a new line";
                found.push(Violation::new(&source.path, n + 1, message));
            }
        }
    }
    found
}

/// Whether a second sentence starts in the line. Cells of tables, code and titles in bold do not count.
fn second_sentence(line: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with(['|', '#', '<']) {
        return false;
    }
    // The item of a list, and its number.
    let line = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let line = line.trim_start_matches(['-', '*', '>', '.', ' ']);
    let prose: Vec<&str> = line.split('`').step_by(2).collect();
    let prose = prose.join("x");
    let mut open = 0;
    let bytes = prose.as_bytes();
    for (at, c) in prose.char_indices() {
        match c {
            '(' | '[' => open += 1,
            ')' | ']' => open -= 1,
            '.' | '!' | '?' if open == 0 => {
                let next = bytes.get(at + 1..at + 3);
                let starts = matches!(next, Some([b' ', b'A'..=b'Z' | b'*' | b'x' | b'[']));
                let named = ABBREVIATIONS.iter().any(|a| prose[..=at].ends_with(a));
                // A name in code may follow an abbreviation only.
                let code = matches!(next, Some([b' ', b'x'])) && line_has_word(&prose, at + 2);
                if starts && !named && !code {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Whether what starts here is a word that begins with `x`, not code.
fn line_has_word(prose: &str, at: usize) -> bool {
    prose[at + 1..].starts_with(|c: char| c.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_sentences_are_found() {
        assert!(second_sentence("One. Two."));
        assert!(second_sentence("- One is `a.b`. `f` is two."));
        assert!(second_sentence("Is it? Yes."));
        for fine in [
            "One is 2.5 and `a. B`.",
            "**Title.** One.",
            "| One. Two. | three |",
            "1. One (see there. There).",
            "See e.g. Cranelift.",
            "[One. Two](a.md) is a link.",
        ] {
            assert!(!second_sentence(fine), "{fine}");
        }
    }
}
