//! Libraries and programs whose manifest says `test = false` have no tests: they would never run.

use super::Violation;
use super::sources::{Source, Sources, line_of};

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for manifest in &sources.0 {
        let Some(folder) = manifest.path.strip_suffix("Cargo.toml") else {
            continue;
        };
        for target in untested(&manifest.text) {
            let files = sources.0.iter().filter(|s| target.has(folder, s));
            for file in files {
                for (at, _) in file.text.match_indices("#[test]\n") {
                    found.push(Violation::new(
                        &file.path,
                        line_of(&file.text, at),
                        format!("never runs: {} says `test = false`", manifest.path),
                    ));
                }
            }
        }
    }
    found
}

/// A target with `test = false`.
#[derive(PartialEq, Eq, Debug)]
enum Untested<'a> {
    Library,
    /// With the path of its file.
    Program(&'a str),
}

impl Untested<'_> {
    /// Whether a file belongs to the target of a package in a folder.
    fn has(&self, folder: &str, source: &Source) -> bool {
        let path = source.path.strip_prefix(folder);
        let Some(path) = path.filter(|_| source.is("rs")) else {
            return false;
        };
        match self {
            Untested::Library => path.starts_with("src/") && !path.starts_with("src/bin/"),
            Untested::Program(file) => path == *file,
        }
    }
}

/// The targets of a manifest with `test = false`.
fn untested(manifest: &str) -> Vec<Untested<'_>> {
    let sections = manifest.split("\n[");
    sections
        .filter_map(|section| {
            let mut lines = section.lines();
            let header = lines.next()?;
            let (mut off, mut path) = (false, "src/main.rs");
            for line in lines {
                off |= line == "test = false";
                path = line
                    .strip_prefix("path = ")
                    .map_or(path, |p| p.trim_matches('"'));
            }
            match header {
                "lib]" if off => Some(Untested::Library),
                "[bin]]" if off => Some(Untested::Program(path)),
                _ => None,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"a\"\n\n[lib]\ntest = false\n\n[[bin]]\nname = \"b\"\npath = \"src/bin/b.rs\"\n\n\
                            [[bin]]\nname = \"c\"\npath = \"src/bin/c.rs\"\ntest = false\n";

    #[test]
    fn tests_that_never_run_are_found() {
        let test = "fn f() {}\n#[test]\nfn g() {}\n";
        let files = [
            ("crates/a/Cargo.toml", MANIFEST),
            ("crates/a/src/lib.rs", test),
            ("crates/a/src/bin/b.rs", test),
            ("crates/a/src/bin/c.rs", test),
            ("crates/a/tests/a.rs", test),
            ("crates/b/Cargo.toml", "[package]\n\n[lib]\nname = \"b\"\n"),
            ("crates/b/src/lib.rs", test),
        ];
        let found = check(&Sources::of(&files));
        let places: Vec<_> = found.iter().map(|v| (v.path.as_str(), v.line)).collect();
        assert_eq!(
            places,
            [("crates/a/src/lib.rs", 2), ("crates/a/src/bin/c.rs", 2)]
        );
    }
}
