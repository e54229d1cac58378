//! Crates that are published have everything that crates.io and docs.rs show, and versions of the crates they depend on.

use super::Violation;
use super::sources::Sources;
use crate::workspace::root;
use std::fs;
use std::path::{Path, PathBuf};

/// Keys of `[package]`, in the manifest itself or inherited.
const KEYS: [&str; 10] = [
    "description",
    "version",
    "edition",
    "rust-version",
    "license",
    "readme",
    "keywords",
    "categories",
    "documentation",
    "authors",
];

/// The folders of all members.
fn members(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join("crates")).into_iter().flatten();
    let mut folders: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    folders.push(root.join("examples"));
    folders.sort();
    folders
}

/// A manifest of a crate that is published.
struct Manifest {
    name: String,
    path: PathBuf,
    text: String,
}

fn manifests(root: &Path) -> Vec<Manifest> {
    let read = |folder: PathBuf| {
        let path = folder.join("Cargo.toml");
        let text = fs::read_to_string(&path).ok()?;
        let name = value(&text, "name")?;
        (!has(&text, "publish")).then_some(Manifest { name, path, text })
    };
    members(root).into_iter().filter_map(read).collect()
}

/// The names of the crates that are published.
pub(crate) fn published(root: &Path) -> Result<Vec<String>, String> {
    let names: Vec<String> = manifests(root).into_iter().map(|m| m.name).collect();
    if names.is_empty() {
        return Err("no crate is published".to_string());
    }
    Ok(names)
}

pub(super) fn check(_: &Sources) -> Vec<Violation> {
    let root = root();
    let shared = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let all = manifests(&root);
    let mut violations = Vec::new();
    for manifest in &all {
        let at = manifest.path.strip_prefix(&root).unwrap_or(&manifest.path);
        for what in missing(&manifest.text) {
            violations.push(Violation::new(at.display().to_string(), 0, what));
        }
        let dependency = shared
            .lines()
            .find(|l| l.starts_with(&format!("{} = ", manifest.name)));
        if !dependency.is_some_and(|l| l.contains("version = \"")) {
            let what = format!(
                "`{}` has no version in `[workspace.dependencies]`",
                manifest.name
            );
            violations.push(Violation::new("Cargo.toml", 0, what));
        }
    }
    let version = value(&shared, "version").unwrap_or_default();
    let changes = fs::read_to_string(root.join("CHANGELOG.md")).unwrap_or_default();
    if !changes.contains(&format!("## {version}")) {
        let what = format!("there is no section `## {version}`");
        violations.push(Violation::new("CHANGELOG.md", 0, what));
    }
    violations
}

/// What a manifest lacks.
fn missing(text: &str) -> Vec<String> {
    let mut found: Vec<String> = KEYS
        .iter()
        .filter(|key| !has(text, key))
        .map(|key| format!("`{key}` is missing"))
        .collect();
    if !text.contains("[package.metadata.docs.rs]") {
        found.push("`[package.metadata.docs.rs]` is missing".to_string());
    }
    if !text.contains("[lints]\nworkspace = true") {
        found.push("`[lints]` are not those of the workspace".to_string());
    }
    for line in text
        .lines()
        .filter(|l| l.contains("path = \"../") && !l.trim().starts_with('#'))
    {
        if !line.contains("version = \"") {
            found.push(format!("a dependency without a version: `{}`", line.trim()));
        }
    }
    let keywords: Vec<String> = list(text, "keywords");
    if keywords.len() > 5 || keywords.iter().any(|k| k.len() > 20) {
        found.push("crates.io takes five keywords of up to 20 letters".to_string());
    }
    found
}

/// Whether a key is set, or inherited.
fn has(text: &str, key: &str) -> bool {
    text.lines().any(|line| {
        let name = line.split('=').next().unwrap_or(line).trim();
        name == key || name.strip_suffix(".workspace") == Some(key)
    })
}

/// The value of a key that is a string.
fn value(text: &str, key: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|l| l.split('=').next().unwrap_or(l).trim() == key)?;
    Some(line.split('"').nth(1)?.to_string())
}

/// The strings of a key that is a list on one line.
fn list(text: &str, key: &str) -> Vec<String> {
    let line = text
        .lines()
        .find(|l| l.split('=').next().unwrap_or(l).trim() == key);
    let parts = line
        .into_iter()
        .flat_map(|l| l.split('"').skip(1).step_by(2));
    parts.map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing() {
        let mut text = String::from("[package]\nname = \"x\"\n");
        for key in KEYS {
            text += &format!("{key}.workspace = true\n");
        }
        let docs = "`[package.metadata.docs.rs]` is missing";
        let lints = "`[lints]` are not those of the workspace";
        assert_eq!(missing(&text), [docs, lints]);
        text += "[package.metadata.docs.rs]\n[lints]\nworkspace = true\n[dependencies]\na = { path = \"../a\" }\n";
        assert_eq!(
            missing(&text),
            ["a dependency without a version: `a = { path = \"../a\" }`"]
        );
        let text = text.replace("path = \"../a\"", "version = \"1\", path = \"../a\"");
        assert!(missing(&text).is_empty());
        let text = text.replace(
            "keywords.workspace = true",
            "keywords = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"]",
        );
        assert_eq!(
            missing(&text),
            ["crates.io takes five keywords of up to 20 letters"]
        );
        assert_eq!(
            missing(&text.replace("license.workspace = true\n", "")).len(),
            2
        );
    }

    #[test]
    fn names_and_flags() {
        let text = "[package]\nname = \"x\"\npublish = false\n";
        assert_eq!(value(text, "name").as_deref(), Some("x"));
        assert!(has(text, "publish"));
        assert!(!has(text, "name-of"));
    }
}
