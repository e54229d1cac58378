//! Modules that tables of the architecture and design pages name exist.

use super::Violation;
use super::sources::Sources;
use std::collections::BTreeSet;

/// First headings of the tables that list modules.
const HEADINGS: [&str; 3] = ["| file |", "| module |", "| folder of"];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut known = BTreeSet::new();
    for source in &sources.0 {
        if source.path.starts_with("crates/") || source.path.starts_with("python/wuji/") {
            let path = source.path.rsplit_once('.').map_or("", |(path, _)| path);
            known.extend(path.split('/'));
        }
    }
    let mut found = Vec::new();
    for source in &sources.0 {
        let page = source.path == "docs/architecture.md" || source.path.starts_with("docs/design/");
        if !page || !source.is("md") {
            continue;
        }
        let mut listed = false;
        for (n, line) in source.text.lines().enumerate() {
            if HEADINGS.iter().any(|h| line.starts_with(h)) {
                listed = true;
                continue;
            }
            listed &= line.starts_with('|');
            let cell = line.split('|').nth(1).unwrap_or_default();
            for name in cell.split('`').skip(1).step_by(2).filter(|_| listed) {
                let mut parts = name.trim_end_matches('/').split('/');
                if let Some(part) = parts.find(|part| !known.contains(part)) {
                    let message = format!("there is no module `{part}`");
                    found.push(Violation::new(&source.path, n + 1, message));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_modules_are_found() {
        let page =
            "| file | contents |\n|---|---|\n| `a`, `b/c` | d |\n\n| other |\n|---|\n| `e` |\n";
        let files = [
            ("crates/x/src/a.rs", ""),
            ("crates/x/src/b/mod.rs", ""),
            ("docs/design/x.md", page),
        ];
        let found = check(&Sources::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "there is no module `c`");
    }
}
