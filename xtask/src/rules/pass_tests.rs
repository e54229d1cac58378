//! Every pass has at least four filetests in the folder of its module.

use super::Violation;
use super::pass_table::{PASSES, passes_of};
use super::sources::Sources;

const LEAST: usize = 4;

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let Some(passes) = sources.get(PASSES) else {
        return vec![Violation::new(PASSES, 0, "is missing")];
    };
    let mut modules: Vec<String> = passes_of(&passes.text)
        .into_iter()
        .map(|pass| pass.module)
        .collect();
    modules.sort();
    modules.dedup();
    let mut found = Vec::new();
    for module in modules {
        let folder = format!("tests/filetests/{module}/");
        let files = sources
            .0
            .iter()
            .filter(|s| s.is("wir") && s.path.starts_with(&folder));
        let count = files.count();
        if count < LEAST {
            found.push(Violation::new(
                folder,
                0,
                format!("has {count} files; a pass needs at least {LEAST}"),
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_without_tests_are_found() {
        let table = "    Lowering promote = promote::promote: \"..\",\n    Lowering inline = inline::inline: \"..\",\n";
        let files = [
            (PASSES, table),
            ("tests/filetests/promote/a.wir", ""),
            ("tests/filetests/promote/b.wir", ""),
            ("tests/filetests/promote/c.wir", ""),
            ("tests/filetests/promote/d.wir", ""),
            ("tests/filetests/inline/a.wir", ""),
        ];
        let found = check(&Sources::of(&files));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "tests/filetests/inline/");
    }
}
