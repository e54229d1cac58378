//! A name means one thing in the workspace: types with names that fit many things are defined once.

use super::Violation;
use super::sources::{Sources, line_of, words};
use std::collections::BTreeMap;

/// Names that several crates have used for different things.
const ONCE: [&str; 4] = ["Engine", "Place", "Plan", "Target"];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut defined: BTreeMap<&str, Vec<(String, usize)>> = BTreeMap::new();
    for source in sources.0.iter().filter(|s| s.is_crate_code()) {
        let code = source.code();
        for name in ONCE {
            for at in words(&code, name) {
                let before = code[..at].trim_end();
                let item = ["struct", "enum", "trait"]
                    .iter()
                    .any(|kind| before.ends_with(kind));
                if item {
                    let place = (source.path.clone(), line_of(&code, at));
                    defined.entry(name).or_default().push(place);
                }
            }
        }
    }
    let mut found = Vec::new();
    for (name, places) in defined {
        let Some((first, others)) = places.split_first() else {
            continue;
        };
        for (path, line) in others {
            let message = format!("`{name}` is also defined in {}:{}", first.0, first.1);
            found.push(Violation::new(path, *line, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_definitions_are_found() {
        let files = [
            (
                "crates/a/src/a.rs",
                "pub enum Target {}\nfn f(t: Target) {}",
            ),
            ("crates/b/src/b.rs", "// struct Target\n\nstruct Target;"),
        ];
        let found = check(&Sources::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
    }
}
