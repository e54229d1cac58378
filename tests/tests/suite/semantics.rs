//! Runs `tests/semantics`: programs whose results no pass may change.

use std::path::Path;
use wuji_ir::text::parse;
use wuji_tests::semantics::check;

/// The line of a program whose result depends on the order of its iterations, as float sums do.
const ORDERED: &str = "; order: serial\n";

#[test]
fn passes_preserve_semantics() {
    let mut files: Vec<_> = std::fs::read_dir(Path::new("semantics"))
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    let mut failures = Vec::new();
    for file in &files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).expect("readable");
        let outcome = parse(&text, &name)
            .map_err(|e| e.to_string())
            .and_then(|m| check(&m, 7, !text.contains(ORDERED)));
        if let Err(why) = outcome {
            failures.push(format!("{name}: {why}"));
        }
    }
    assert!(files.len() > 5);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
