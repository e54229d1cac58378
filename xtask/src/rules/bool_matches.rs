//! Conditions are `if`s: no `match` has the arms `true` and `false`.

use super::Violation;
use super::sources::Sources;

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in sources.0.iter().filter(|s| s.is("rs")) {
        for (line, text) in source.code().lines().enumerate() {
            let mut words = text.split_whitespace();
            let literal = words.next().is_some_and(|w| w == "true" || w == "false");
            // Alone in its pattern, with or without a guard.
            if literal && words.next().is_some_and(|w| w == "=>" || w == "if") {
                let what = "a `match` over a `bool`: use `if`";
                found.push(Violation::new(&source.path, line + 1, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_over_a_bool_are_found() {
        let text = "match a {\n    true => 1,\n    false if b => 2,\n    false => 3,\n}\n";
        let found = check(&Sources::of(&[("a.rs", text)]));
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].line, 2);
    }

    #[test]
    fn other_patterns_are_fine() {
        let text = "match a {\n    (true, _) => 1,\n    Some(false) => 2,\n}\nlet c = true;\n";
        assert!(check(&Sources::of(&[("a.rs", text)])).is_empty());
    }
}
