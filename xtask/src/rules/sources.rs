//! The files of the repository that rules look at.

use std::fs;
use std::path::Path;

/// Folders without sources of ours.
const SKIPPED: [&str; 4] = ["target", "bundle", "node_modules", "__pycache__"];
/// File name endings that are read.
const READ: [&str; 6] = ["rs", "md", "toml", "py", "pyi", "wir"];

/// A file with its text.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Relative to the root of the repository, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    /// Whether the path ends in `.extension`.
    pub(super) fn is(&self, extension: &str) -> bool {
        self.path
            .strip_suffix(extension)
            .is_some_and(|p| p.ends_with('.'))
    }

    /// Whether the file is Rust code of a crate, not of its tests.
    pub(super) fn is_crate_code(&self) -> bool {
        let tests = ["/tests.rs", "_tests.rs"];
        self.is("rs")
            && self.path.starts_with("crates/")
            && self.path.contains("/src/")
            && !self.path.contains("/tests/")
            && !tests.iter().any(|end| self.path.ends_with(end))
    }

    /// Rust code without comments, strings and characters, which become blanks; lines stay where they are.
    pub(super) fn code(&self) -> String {
        blanked(&self.text)
    }
}

/// All files, in the order of their paths.
#[derive(Debug)]
pub(super) struct Sources(pub(super) Vec<Source>);

impl Sources {
    pub(super) fn read(root: &Path) -> Result<Sources, String> {
        let mut found = Vec::new();
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
            for entry in fs::read_dir(&folder).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let (path, name) = (entry.path(), entry.file_name());
                let name = name.to_string_lossy();
                if name.starts_with('.') || SKIPPED.contains(&name.as_ref()) {
                    continue;
                }
                let extension = path.extension().unwrap_or_default().to_string_lossy();
                if entry.file_type().map_err(fail)?.is_dir() {
                    folders.push(path);
                } else if READ.contains(&extension.as_ref()) {
                    let text = fs::read_to_string(&path)
                        .map_err(|e| format!("{}: {e}", path.display()))?;
                    let short = path.strip_prefix(root).unwrap_or(&path);
                    let path = short.to_string_lossy().replace('\\', "/");
                    found.push(Source { path, text });
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Sources(found))
    }

    /// The text of one file.
    pub(super) fn get(&self, path: &str) -> Option<&Source> {
        self.0.iter().find(|s| s.path == path)
    }

    /// Files with these texts, for tests of rules.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Sources {
        let source = |(path, text): &(&str, &str)| Source {
            path: path.to_string(),
            text: text.to_string(),
        };
        Sources(files.iter().map(source).collect())
    }
}

/// The line of a byte offset, counted from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    1 + text[..offset].bytes().filter(|b| *b == b'\n').count()
}

/// Byte offsets of a word in a text: neither before it nor after it is a letter, a digit or `_`.
pub(super) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| {
            let before = text[..*at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            !before.is_some_and(part) && !after.is_some_and(part)
        })
}

/// What the scanner is inside of.
enum Inside {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    RawText(usize),
}

fn blanked(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut inside = Inside::Code;
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let c = rest.chars().next().unwrap_or_default();
        // How many bytes this step takes, and whether they are code.
        let (taken, shown) = match inside {
            Inside::Code => {
                if rest.starts_with("//") {
                    inside = Inside::LineComment;
                    (2, false)
                } else if rest.starts_with("/*") {
                    inside = Inside::BlockComment(1);
                    (2, false)
                } else if let Some(hashes) = raw_text(text, at) {
                    inside = Inside::RawText(hashes);
                    (2 + hashes, false)
                } else if c == '"' {
                    inside = Inside::Text;
                    (1, false)
                } else if let Some(length) = character(rest) {
                    (length, false)
                } else {
                    (c.len_utf8(), true)
                }
            }
            Inside::LineComment => {
                if c == '\n' {
                    inside = Inside::Code;
                }
                (c.len_utf8(), false)
            }
            Inside::BlockComment(depth) => {
                if rest.starts_with("/*") {
                    inside = Inside::BlockComment(depth + 1);
                    (2, false)
                } else if rest.starts_with("*/") {
                    inside = match depth {
                        1 => Inside::Code,
                        _ => Inside::BlockComment(depth - 1),
                    };
                    (2, false)
                } else {
                    (c.len_utf8(), false)
                }
            }
            Inside::Text => match c {
                '\\' => (
                    1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                    false,
                ),
                '"' => {
                    inside = Inside::Code;
                    (1, false)
                }
                _ => (c.len_utf8(), false),
            },
            Inside::RawText(hashes) => {
                let end = format!("\"{}", "#".repeat(hashes));
                if rest.starts_with(&end) {
                    inside = Inside::Code;
                    (end.len(), false)
                } else {
                    (c.len_utf8(), false)
                }
            }
        };
        for c in rest[..taken].chars() {
            out.push(match c {
                '\n' => '\n',
                c if shown => c,
                _ => ' ',
            });
        }
        at += taken;
    }
    out
}

/// The number of `#` of a raw string that starts here.
fn raw_text(text: &str, at: usize) -> Option<usize> {
    let before = text[..at].chars().next_back();
    if before.is_some_and(|c| (c.is_alphanumeric() && c != 'b') || c == '_') {
        return None;
    }
    let rest = text[at..].strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

/// The length of a character literal that starts here; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    if inner.starts_with('\\') {
        let end = inner.get(2..)?.find('\'')?;
        return Some(1 + 2 + end + 1);
    }
    let c = inner.chars().next()?;
    inner[c.len_utf8()..]
        .starts_with('\'')
        .then_some(2 + c.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_blanked() {
        let code =
            "let a = \"unsafe // \\\" x\"; // unsafe\n/* unsafe /* */ unsafe */ b('\"', '\\'', 'x)";
        let expected =
            "let a =                 ;          \n                          b(   ,     , 'x)";
        assert_eq!(blanked(code), expected);
        assert_eq!(blanked("r#\"un\"safe\"# x"), "             x");
        assert_eq!(blanked("br\"a\" for"), "b     for");
    }

    #[test]
    fn words_have_ends() {
        assert_eq!(words("unsafe unsafe_code (unsafe)", "unsafe").count(), 2);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
