//! Crates depend on lower layers only, so that the compiler knows nothing of the runtime, and the runtime nothing of frontends.

use super::Violation;
use super::sources::Sources;

/// Crates of the workspace with those that they may depend on.
const LAYERS: &[(&str, &[&str])] = &[
    ("wuji-ir", &[]),
    ("wuji-macros", &[]),
    ("wuji-viewer", &[]),
    ("wuji-compile", &["wuji-ir"]),
    ("wuji-flow", &["wuji-ir", "wuji-compile"]),
    ("wuji-llvm", &["wuji-ir", "wuji-compile"]),
    ("wuji-runtime", &["wuji-ir", "wuji-compile", "wuji-llvm"]),
    ("wuji-tools", &["wuji-ir", "wuji-compile", "wuji-runtime"]),
    (
        "wuji",
        &[
            "wuji-ir",
            "wuji-compile",
            "wuji-flow",
            "wuji-runtime",
            "wuji-macros",
            "wuji-viewer",
        ],
    ),
    ("wuji-symbolic", &["wuji", "wuji-ir"]),
    (
        "wuji-py",
        &["wuji", "wuji-ir", "wuji-symbolic", "wuji-viewer"],
    ),
    (
        "wuji-cli",
        &[
            "wuji-ir",
            "wuji-compile",
            "wuji-flow",
            "wuji-llvm",
            "wuji-runtime",
            "wuji-tools",
            "wuji",
            "wuji-examples",
        ],
    ),
];

pub(super) fn check(sources: &Sources) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in &sources.0 {
        let name = source
            .path
            .strip_prefix("crates/")
            .and_then(|p| p.strip_suffix("/Cargo.toml"));
        let Some(name) = name else { continue };
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            found.push(Violation::new(
                &source.path,
                0,
                "is a new crate: add its layer to `rules/layers.rs`",
            ));
            continue;
        };
        for (line, dependency) in dependencies(&source.text) {
            if !allowed.contains(&dependency) {
                found.push(Violation::new(
                    &source.path,
                    line,
                    format!("`{name}` must not depend on `{dependency}`"),
                ));
            }
        }
    }
    found
}

/// Crates of the workspace in the section `[dependencies]`, with their lines.
fn dependencies(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut section = "";
    for (n, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            section = line.trim();
        } else if section == "[dependencies]" && line.starts_with("wuji") {
            let end = line.find([' ', '.', '=']).unwrap_or(line.len());
            found.push((n + 1, &line[..end]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_dependencies_are_found() {
        let toml = "[dependencies]\nwuji-ir.workspace = true\nwuji = { path = \"../wuji\" }\n[dev-dependencies]\nwuji.workspace = true";
        let found = check(&Sources::of(&[("crates/wuji-compile/Cargo.toml", toml)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
        assert_eq!(
            check(&Sources::of(&[("crates/wuji-new/Cargo.toml", "")])).len(),
            1
        );
    }
}
