//! docs/design/passes.md lists the passes of `wuji_compile::passes::PASSES`, in order.

use super::Violation;
use super::sources::Sources;

pub(super) const PASSES: &str = "crates/wuji-compile/src/passes/mod.rs";
const PAGE: &str = "docs/design/passes.md";

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let (Some(passes), Some(page)) = (sources.get(PASSES), sources.get(PAGE)) else {
        return vec![Violation::new(PASSES, 0, format!("or {PAGE} is missing"))];
    };
    let expected = passes_of(&passes.text);
    let listed = rows_of(&page.text);
    let differs = (0..expected.len().max(listed.len()))
        .find(|n| expected.get(*n).map(|p| &p.name) != listed.get(*n).map(|(_, name)| name));
    let Some(n) = differs else { return Vec::new() };
    let line = listed.get(n).map_or(0, |(line, _)| *line);
    let message = match expected.get(n) {
        Some(pass) => format!("the next pass of the pipeline is `{}`", pass.name),
        None => "the pipeline has no more passes".to_string(),
    };
    vec![Violation::new(PAGE, line, message)]
}

/// A row of the table of passes.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Pass {
    pub(super) name: String,
    /// The module with its function; several rows may share one.
    pub(super) module: String,
}

/// `Lowering name = module::function: "sentence",`
pub(super) fn passes_of(text: &str) -> Vec<Pass> {
    let row = |line: &str| {
        let line = line.trim();
        let rest = line
            .strip_prefix("Lowering ")
            .or(line.strip_prefix("Optimization "))?;
        let (name, rest) = rest.split_once(" = ")?;
        let (module, _) = rest.split_once("::")?;
        Some(Pass {
            name: name.to_string(),
            module: module.to_string(),
        })
    };
    text.lines().filter_map(row).collect()
}

/// The first column of the table whose heading is `pass`.
fn rows_of(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    let table = lines
        .skip_while(|(_, line)| !line.trim().starts_with("| pass |"))
        .skip(2);
    let rows = table.map_while(|(n, line)| Some((n, line.trim().strip_prefix("| ")?)));
    rows.filter_map(|(n, row)| {
        let (name, _) = row.split_once(" |")?;
        Some((n + 1, name.trim_matches('`').to_string()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_that_is_not_listed_is_found() {
        let code = "passes! {\n    Lowering promote = promote::promote: \"..\",\n    Optimization cleanup = simplify::simplify: \"..\",\n}";
        let page = "| pass | what |\n|---|---|\n| `promote` | .. |\n| `simplify` | .. |\n";
        let found = check(&Sources::of(&[(PASSES, code), (PAGE, page)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 4);
        assert!(found[0].message.contains("cleanup"));
    }
}
