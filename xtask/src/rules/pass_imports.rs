//! Passes use nothing of each other: what they share is in `analysis` and `rewrite`.

use super::Violation;
use super::pass_table::{PASSES, passes_of};
use super::sources::{Sources, line_of};

const FOLDER: &str = "crates/wuji-compile/src/passes/";

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let Some(table) = sources.get(PASSES) else {
        return vec![Violation::new(PASSES, 0, "is missing")];
    };
    let passes = passes_of(&table.text);
    let mut found = Vec::new();
    for source in sources.0.iter().filter(|s| s.is_crate_code()) {
        let Some(rest) = source.path.strip_prefix(FOLDER) else {
            continue;
        };
        let own = rest.split(['/', '.']).next().unwrap_or_default();
        if own == "mod" {
            continue;
        }
        let code = source.code();
        for (at, _) in code.match_indices("passes::") {
            let rest = &code[at + "passes::".len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &rest[..end.unwrap_or(rest.len())];
            if name != own && passes.iter().any(|pass| pass.module == name) {
                found.push(Violation::new(
                    &source.path,
                    line_of(&code, at),
                    format!(
                        "uses the pass `{name}`: move what both need to `analysis` or `rewrite`"
                    ),
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
    fn imports_of_other_passes_are_found() {
        let table = "    Lowering loops = loops::loops: \"..\",\n    Lowering bounds = bounds::bounds: \"..\",\n";
        let files = [
            (PASSES, table),
            (
                "crates/wuji-compile/src/passes/loops/mod.rs",
                "use crate::passes::Cx;\nuse crate::passes::bounds::Range;",
            ),
            (
                "crates/wuji-compile/src/passes/bounds.rs",
                "use crate::passes::bounds::indices;",
            ),
        ];
        let found = check(&Sources::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }
}
