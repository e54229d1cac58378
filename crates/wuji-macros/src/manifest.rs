//! The name of a dependency in `Cargo.toml`.
//!
//! The manifest is scanned line by line: a TOML parser would take longer to build than the rest of this crate.

/// The package whose name is looked for.
pub(crate) const PACKAGE: &str = "wuji";

/// Another name that a manifest has for the package. `workspace` gives the manifest of the workspace, for `w = { workspace = true }`.
pub(crate) fn renamed(
    manifest: &str,
    workspace: impl FnOnce() -> Option<String>,
) -> Option<String> {
    let names = names(manifest, "");
    if names.renamed.is_some() || names.plain {
        return names.renamed;
    }
    let shared = self::names(&workspace()?, "workspace.").renamed?;
    inherits(manifest, &shared).then_some(shared)
}

/// What a manifest calls the package.
struct Names {
    /// Under its own name.
    plain: bool,
    renamed: Option<String>,
}

/// The names of the package in the tables of dependencies whose headers begin with `prefix`.
fn names(manifest: &str, prefix: &str) -> Names {
    let mut names = Names {
        plain: false,
        renamed: None,
    };
    for (name, entry) in dependencies(manifest, prefix) {
        let renames = value(&entry, "package").is_some_and(|p| p == PACKAGE);
        if renames && name != PACKAGE {
            names.renamed.get_or_insert(name.replace('-', "_"));
        } else if name == PACKAGE {
            names.plain = true;
        }
    }
    names
}

fn inherits(manifest: &str, name: &str) -> bool {
    dependencies(manifest, "").any(|(n, entry)| {
        n.replace('-', "_") == name && value(&entry, "workspace").is_some_and(|v| v == "true")
    })
}

/// The dependencies of a manifest: each with the text of its keys and values.
fn dependencies(manifest: &str, prefix: &str) -> impl Iterator<Item = (String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    // The table that the current line is in: its header.
    let mut table = String::new();
    for line in manifest.lines() {
        let line = line.split(" #").next().unwrap_or(line).trim();
        if line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            table = header.trim().to_string();
            continue;
        }
        match of_dependency(&table, prefix) {
            // `[dependencies]`, then `name = ..` or `name.key = ..`
            Some(None) => {
                if let Some((key, entry)) = line.split_once('=') {
                    let (name, rest) = key.split_once('.').unwrap_or((key, ""));
                    let text = if rest.is_empty() {
                        entry.to_string()
                    } else {
                        format!("{{ {rest} = {entry} }}")
                    };
                    found.push((bare(name), text));
                }
            }
            // `[dependencies.name]`, then `key = ..`
            Some(Some(name)) => found.push((bare(name), format!("{{ {line} }}"))),
            None => {}
        }
    }
    found.into_iter()
}

/// Whether a header is that of a table of dependencies, or of one dependency with this name.
fn of_dependency<'h>(header: &'h str, prefix: &str) -> Option<Option<&'h str>> {
    let header = header.strip_prefix(prefix)?;
    // `target.'cfg(unix)'.dependencies`
    let start = ["dev-dependencies", "build-dependencies", "dependencies"]
        .iter()
        .find_map(|t| {
            let at = header.find(t)?;
            let whole = at == 0 || (header.starts_with("target.") && header[..at].ends_with('.'));
            whole.then_some(at + t.len())
        })?;
    match &header[start..] {
        "" => Some(None),
        rest => rest.strip_prefix('.').map(Some),
    }
}

/// A name without quotes and spaces.
fn bare(name: &str) -> String {
    name.trim().trim_matches(['"', '\'']).to_string()
}

/// The value of a key in an inline table.
fn value(entry: &str, key: &str) -> Option<String> {
    let inside = entry.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut pairs = inside.split(',').filter_map(|p| p.split_once('='));
    let (_, value) = pairs.find(|(k, _)| bare(k) == key)?;
    Some(bare(value))
}

#[cfg(test)]
mod tests {
    use super::renamed;

    fn check(manifest: &str, workspace: &str, expected: Option<&str>) {
        let found = renamed(manifest, || Some(workspace.to_string()));
        assert_eq!(found.as_deref(), expected, "{manifest}");
    }

    #[test]
    fn names_of_dependencies() {
        check("[dependencies]\nwuji = \"0.1\"", "", None);
        check(
            "[dependencies]\nw = { package = \"wuji\", path = \"x\" } # short",
            "",
            Some("w"),
        );
        check(
            "[dependencies]\nmy-w = { version = \"0.1\", package = 'wuji' }",
            "",
            Some("my_w"),
        );
        check(
            "[dependencies]\nw.package = \"wuji\"\nw.path = \"x\"",
            "",
            Some("w"),
        );
        check(
            "[dependencies.w]\nversion = \"0.1\"\npackage = \"wuji\"",
            "",
            Some("w"),
        );
        check(
            "[dev-dependencies]\nw = { package = \"wuji\" }",
            "",
            Some("w"),
        );
        check(
            "[target.'cfg(unix)'.dependencies]\nw = { package = \"wuji\" }",
            "",
            Some("w"),
        );
        check("[package]\nw = { package = \"wuji\" }", "", None);
        check("[dependencies]\n# w = { package = \"wuji\" }", "", None);
    }

    #[test]
    fn names_of_the_workspace() {
        let workspace = "[workspace.dependencies]\nw = { package = \"wuji\", version = \"0.1\" }";
        check(
            "[dependencies]\nw = { workspace = true }",
            workspace,
            Some("w"),
        );
        check("[dependencies]\nw.workspace = true", workspace, Some("w"));
        check("[dependencies]\nwuji = \"0.1\"", workspace, None);
        check(
            "[dependencies]\nother = { workspace = true }",
            workspace,
            None,
        );
    }
}
