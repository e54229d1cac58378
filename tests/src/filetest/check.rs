//! `; check:` lines: patterns for the relevant lines of an output.

use std::collections::BTreeMap;

/// The kind of a `check` line.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// Some line after the last match matches.
    Somewhere,
    /// The line after the last match matches.
    Next,
    /// No line between the surrounding matches matches.
    Not,
}

const DIRECTIVES: [(&str, Kind); 3] = [
    ("; check:", Kind::Somewhere),
    ("; check-next:", Kind::Next),
    ("; check-not:", Kind::Not),
];

/// A `check` line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Check {
    kind: Kind,
    /// The source text.
    text: String,
    pattern: Vec<Token>,
}

impl Check {
    /// The check of a line; `None` for other lines.
    pub(super) fn parse(line: &str) -> Option<Result<Check, String>> {
        let line = line.trim();
        let (directive, kind) = DIRECTIVES.iter().find(|d| line.starts_with(d.0))?;
        let pattern: Vec<Token> = words(&line[directive.len()..])
            .map(Token::of_pattern)
            .collect();
        let check = Check {
            kind: *kind,
            text: line.to_owned(),
            pattern,
        };
        Some(if check.pattern.is_empty() {
            Err(format!("`{line}` matches everything"))
        } else {
            Ok(check)
        })
    }

    /// Whether a part of a line matches. If so, new placeholders are bound.
    fn matches(&self, line: &str, bound: &mut Bindings) -> bool {
        let line: Vec<&str> = words(line).collect();
        (0..line.len()).any(|start| {
            let found = matches(&self.pattern, &line[start..], bound.clone());
            found.map(|now| *bound = now).is_some()
        })
    }
}

/// Placeholders and their values.
type Bindings = BTreeMap<String, String>;

/// A token of a pattern. White space does not matter.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Token {
    /// This word.
    Word(String),
    /// `vName`, `lName`, `tName` or `LName`: the same value, local, temp or label each time.
    Placeholder(String),
    /// `...`: anything up to the next token that matches.
    Anything,
}

impl Token {
    fn of_pattern(word: &str) -> Token {
        let mut letters = word.chars();
        let prefix = letters.next().is_some_and(|c| "vltL".contains(c));
        let named = letters.next().is_some_and(|c| c.is_ascii_uppercase());
        let rest = letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if word == ANYTHING {
            Token::Anything
        } else if prefix && named && rest {
            Token::Placeholder(word.to_owned())
        } else {
            Token::Word(word.to_owned())
        }
    }
}

const ANYTHING: &str = "...";

/// Names and numbers, and each other character separately.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if rest.starts_with(ANYTHING) {
            ANYTHING.len()
        } else {
            match rest.find(|c| !in_name(c)) {
                Some(0) => rest.chars().next()?.len_utf8(),
                Some(end) => end,
                None => rest.len(),
            }
        };
        let (word, behind) = rest.split_at(length);
        rest = behind;
        (!word.is_empty()).then_some(word)
    })
}

/// Matches a pattern with the start of a line.
fn matches(pattern: &[Token], line: &[&str], mut bound: Bindings) -> Option<Bindings> {
    let Some((token, pattern)) = pattern.split_first() else {
        return Some(bound);
    };
    match token {
        Token::Anything => {
            (0..=line.len()).find_map(|skip| matches(pattern, &line[skip..], bound.clone()))
        }
        Token::Word(word) => match line.split_first() {
            Some((first, line)) if first == word => matches(pattern, line, bound),
            _ => None,
        },
        Token::Placeholder(name) => {
            let (first, line) = line.split_first()?;
            let digits = first.strip_prefix(&name[..1])?;
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let known = bound
                .entry(name.clone())
                .or_insert_with(|| (*first).to_owned());
            (known == first).then(|| matches(pattern, line, bound))?
        }
    }
}

/// Compares an output with all checks of a file, in order.
pub(super) fn check(checks: &[Check], output: &str) -> Result<(), String> {
    let lines: Vec<&str> = output.lines().collect();
    let mut bound = Bindings::new();
    // The first line after the last match.
    let mut from = 0;
    let mut absent: Vec<&Check> = Vec::new();
    let fail = |check: &Check, from: usize, why: &str| {
        let behind = lines.iter().enumerate().map(|(n, line)| {
            if n == from {
                format!("> {line}\n")
            } else {
                format!("  {line}\n")
            }
        });
        let output: String = behind.collect();
        let check = &check.text;
        format!("`{check}`: {why} (`>` marks the line after the last match)\n{output}")
    };
    for check in checks {
        let rest = &lines[from..];
        let at = match check.kind {
            Kind::Not => {
                absent.push(check);
                continue;
            }
            Kind::Next => rest
                .first()
                .and_then(|l| check.matches(l, &mut bound).then_some(0)),
            Kind::Somewhere => rest.iter().position(|l| check.matches(l, &mut bound)),
        };
        let at = at.ok_or_else(|| match check.kind {
            Kind::Next => fail(check, from, "the next line differs"),
            Kind::Somewhere | Kind::Not => fail(check, from, "no line matches"),
        })?;
        for absent in absent.drain(..) {
            if rest[..at]
                .iter()
                .any(|l| absent.matches(l, &mut bound.clone()))
            {
                return Err(fail(absent, from, "a line matches"));
            }
        }
        from += at + 1;
    }
    for absent in absent {
        if lines[from..]
            .iter()
            .any(|l| absent.matches(l, &mut bound.clone()))
        {
            return Err(fail(absent, from, "a line matches"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str =
        "fn fn0 {\n  v3: i32 = load f0[v0]\n  v4: i32 = add v3, v3\n  store f0[v0], v4\n}\n";

    /// Whether these checks hold for the output above.
    fn holds(lines: &[&str]) -> bool {
        let checks: Result<Vec<Check>, String> =
            lines.iter().filter_map(|line| Check::parse(line)).collect();
        check(&checks.unwrap(), OUTPUT).is_ok()
    }

    #[test]
    fn lines_match_in_order() {
        assert!(holds(&["; check: load f0[v0]", "; check: store f0 [ v0 ]"]));
        assert!(!holds(&["; check: store f0", "; check: load f0"]));
        assert!(!holds(&["; check: load f0", "; check: load f0"]));
    }

    #[test]
    fn words_match_as_a_whole() {
        assert!(holds(&["; check: add v3"]));
        assert!(!holds(&["; check: add v"]));
        assert!(!holds(&["; check: dd v3"]));
    }

    #[test]
    fn next_is_the_next_line() {
        assert!(holds(&["; check: load", "; check-next: add"]));
        assert!(!holds(&["; check: load", "; check-next: store"]));
    }

    #[test]
    fn not_covers_the_lines_between_the_surrounding_matches() {
        assert!(holds(&[
            "; check: load",
            "; check-not: mul",
            "; check: store"
        ]));
        assert!(holds(&["; check: add", "; check-not: load"]));
        assert!(!holds(&[
            "; check: load",
            "; check-not: add",
            "; check: store"
        ]));
        assert!(!holds(&["; check-not: add"]));
    }

    #[test]
    fn placeholders_stand_for_one_value() {
        let load = "; check: vElement: i32 = load";
        assert!(holds(&[load, "; check: add vElement, vElement"]));
        assert!(!holds(&[load, "; check: store f0[v0], vElement"]));
        assert!(!holds(&["; check: fn vName"]));
    }

    #[test]
    fn dots_stand_for_anything_in_a_line() {
        assert!(holds(&["; check: v4 ... v3, v3"]));
        assert!(!holds(&["; check: load ... store"]));
    }

    #[test]
    fn empty_checks_are_rejected() {
        assert!(Check::parse("; check:").is_some_and(|c| c.is_err()));
        assert!(Check::parse("; checked:").is_none());
    }
}
