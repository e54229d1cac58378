//! `cargo xtask rules`: rules of this repository that neither rustc nor clippy checks.
//!
//! A rule is one file here, one function from all sources to its violations, and one row in [`RULES`].
//! docs/contributing.md explains the rules to people.

mod bool_matches;
mod code_map;
mod doc_paths;
mod file_size;
mod global_state;
mod layers;
pub(crate) mod manifests;
mod node_kind_matches;
mod op_matches;
mod pass_imports;
mod pass_table;
mod pass_tests;
mod sentences;
mod sources;
mod type_names;
mod unit_tests;
mod unsafe_code;
mod vocabulary;

use crate::Outcome;
use crate::args::Args;
use crate::workspace::root;
use sources::Sources;

/// One row of the table.
struct Rule {
    name: &'static str,
    /// What holds when there is no violation.
    sentence: &'static str,
    check: fn(&Sources) -> Vec<Violation>,
}

/// Every rule, in alphabetical order.
const RULES: &[Rule] = &[
    Rule {
        name: "bool_matches",
        sentence: "conditions are `if`s, not matches over a `bool`",
        check: bool_matches::check,
    },
    Rule {
        name: "code_map",
        sentence: "modules that the architecture pages name exist",
        check: code_map::check,
    },
    Rule {
        name: "doc_paths",
        sentence: "pages that sources name exist",
        check: doc_paths::check,
    },
    Rule {
        name: "file_size",
        sentence: "no source file has more than 800 lines",
        check: file_size::check,
    },
    Rule {
        name: "global_state",
        sentence: "mutable statics are listed, with the reason",
        check: global_state::check,
    },
    Rule {
        name: "layers",
        sentence: "crates depend on lower layers only",
        check: layers::check,
    },
    Rule {
        name: "manifests",
        sentence: "published crates have metadata, versions and a section of CHANGELOG.md",
        check: manifests::check,
    },
    Rule {
        name: "node_kind_matches",
        sentence: "only the files of node kinds name a `NodeKind`",
        check: node_kind_matches::check,
    },
    Rule {
        name: "op_matches",
        sentence: "a `match` over operations lists them all",
        check: op_matches::check,
    },
    Rule {
        name: "pass_imports",
        sentence: "passes use nothing of each other",
        check: pass_imports::check,
    },
    Rule {
        name: "pass_table",
        sentence: "docs/design/passes.md lists the passes, in order",
        check: pass_table::check,
    },
    Rule {
        name: "pass_tests",
        sentence: "every pass has at least four filetests",
        check: pass_tests::check,
    },
    Rule {
        name: "sentences",
        sentence: "Markdown has one sentence per line",
        check: sentences::check,
    },
    Rule {
        name: "type_names",
        sentence: "types with names that fit many things are defined once",
        check: type_names::check,
    },
    Rule {
        name: "unit_tests",
        sentence: "targets with `test = false` have no tests",
        check: unit_tests::check,
    },
    Rule {
        name: "unsafe_code",
        sentence: "`unsafe` is in the listed crates and files only",
        check: unsafe_code::check,
    },
    Rule {
        name: "vocabulary",
        sentence: "names and prose use the established vocabulary",
        check: vocabulary::check,
    },
];

/// A place that breaks a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Violation {
    /// Relative to the root of the repository.
    path: String,
    /// Counted from 1; 0 means the file as a whole.
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: impl Into<String>, line: usize, message: impl Into<String>) -> Violation {
        Violation {
            path: path.into(),
            line,
            message: message.into(),
        }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// `cargo xtask rules [NAME...]`: prints every violation; an error names the rules that are broken.
pub(crate) fn rules(words: &[String]) -> Outcome {
    let chosen = Args::new(words).rest();
    if let Some(unknown) = chosen.iter().find(|c| RULES.iter().all(|r| r.name != **c)) {
        let names: Vec<&str> = RULES.iter().map(|r| r.name).collect();
        return Err(format!(
            "there is no rule `{unknown}`; the rules are {}",
            names.join(", ")
        ));
    }
    let sources = Sources::read(&root())?;
    let mut broken = Vec::new();
    for rule in RULES {
        if !chosen.is_empty() && !chosen.iter().any(|c| c == rule.name) {
            continue;
        }
        let mut violations = (rule.check)(&sources);
        violations.sort();
        println!(
            "  {:17} {} ({})",
            rule.name,
            rule.sentence,
            match violations.len() {
                0 => "ok".to_string(),
                n => format!("{n} violations"),
            }
        );
        for violation in &violations {
            println!("    {violation}");
        }
        if !violations.is_empty() {
            broken.push(rule.name);
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(format!("broken rules: {}", broken.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_and_named_once() {
        let names: Vec<&str> = RULES.iter().map(|r| r.name).collect();
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(names, sorted);
    }

    #[test]
    fn unknown_rules_are_refused() {
        assert!(rules(&["tabs".to_string()]).is_err());
    }
}
