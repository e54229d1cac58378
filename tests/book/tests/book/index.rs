//! Checks the book: all pages are listed, links resolve, and every error has a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use wuji_book::{Page, pages, root};
use wuji_ir::codes;

fn book() -> Vec<Page> {
    pages().unwrap()
}

/// The targets of `[text](target)` outside of code.
fn links(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (n, line) in page.text.lines().enumerate() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Ignores brackets in inline code.
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        for part in prose.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((n + 1, target.to_owned()));
            }
        }
    }
    found
}

#[test]
fn every_page_is_in_the_summary_once() {
    let pages = book();
    let summary = pages.iter().find(|p| p.path == "docs/SUMMARY.md").unwrap();
    let mut listed = BTreeSet::new();
    for (line, target) in links(summary) {
        assert!(
            listed.insert(target.clone()),
            "SUMMARY.md:{line}: {target} twice"
        );
    }
    for page in &pages {
        let Some(name) = page.path.strip_prefix("docs/") else {
            continue;
        };
        assert!(
            name == "SUMMARY.md" || listed.contains(name),
            "{} is not in docs/SUMMARY.md",
            page.path
        );
    }
}

/// Pages of the first level of the summary.
fn chapters(summary: &Page) -> Vec<String> {
    let lines = summary.text.lines().filter(|line| line.starts_with("- ["));
    let targets = lines.filter_map(|line| line.split_once("](")?.1.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn the_introduction_leads_to_every_chapter() {
    let pages = book();
    let page = |path: &str| pages.iter().find(|p| p.path == path).unwrap();
    let chapters = chapters(page("docs/SUMMARY.md"));
    assert_eq!(
        chapters[0], "getting-started.md",
        "the quick start comes first"
    );
    let introduction: BTreeSet<String> = links(page("docs/introduction.md"))
        .into_iter()
        .map(|(_, target)| target)
        .collect();
    let missing: Vec<&String> = chapters
        .iter()
        .filter(|c| !introduction.contains(*c))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/introduction.md does not lead to {missing:?}"
    );
}

#[test]
fn links_and_pictures_exist() {
    let mut broken = Vec::new();
    for page in book() {
        let folder = root().join(&page.path);
        let folder = folder.parent().map(Path::to_owned).unwrap_or_default();
        for (line, target) in links(&page) {
            let outside = ["http:", "https:", "mailto:"];
            if outside.iter().any(|o| target.starts_with(o)) {
                continue;
            }
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path: PathBuf = match file {
                "" => root().join(&page.path),
                _ => folder.join(file),
            };
            let there = match fs::read_to_string(&path) {
                Ok(text) => anchor.is_empty() || anchors(&text).contains(anchor),
                // A picture is not text.
                Err(_) => path.exists() && anchor.is_empty(),
            };
            if !there {
                broken.push(format!("{}:{line}: {target}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// The names of the headings of a page, as mdBook makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|l| l.starts_with('#'));
    headings
        .map(|line| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            });
            kept.collect()
        })
        .collect()
}

/// Only portable Markdown, and only code blocks that a test checks.
#[test]
fn markdown_is_plain() {
    let languages = [
        "rust", "wir", "python", "text", "sh", "console", "toml", "json",
    ];
    let mut wrong = Vec::new();
    for page in book() {
        for block in page.blocks().unwrap() {
            if !languages.contains(&block.language()) {
                wrong.push(format!(
                    "{}:{}: a block is one of {languages:?}, not {:?}",
                    page.path, block.line, block.info
                ));
            }
        }
        for (n, line) in page.text.lines().enumerate() {
            // A page may be another file of the repository, whole.
            let whole = line == "{{#include ../CONTRIBUTING.md}}";
            if (line.contains("{{#") && !whole) || line.contains("<script") {
                wrong.push(format!("{}:{}: {line}", page.path, n + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Codes in the sources of all crates, each with a file that has it. Tests do not count.
fn used() -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        folders.push(entry.unwrap().path().join("src"));
    }
    folders.push(root().join("python/wuji"));
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs" || e == "py") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default();
                for word in code.split('"') {
                    let digits = word.strip_prefix('W').unwrap_or_default();
                    if digits.len() == 4 && digits.bytes().all(|b| b.is_ascii_digit()) {
                        found.insert(word.to_owned(), path.clone());
                    }
                }
            }
        }
    }
    found
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let used = used();
    let registered: BTreeSet<&str> = codes::all().iter().map(|c| c.code).collect();
    let without: Vec<String> = used
        .iter()
        .filter(|(code, _)| !registered.contains(code.as_str()))
        .map(|(code, path)| format!("{code} in {}", path.display()))
        .collect();
    assert!(
        without.is_empty(),
        "write `docs/errors/CODE.md` for these, and name them in `wuji_ir::codes` and in `docs/SUMMARY.md`:\n{}",
        without.join("\n")
    );
    let unused: Vec<&&str> = registered
        .iter()
        .filter(|c| !used.contains_key(**c))
        .collect();
    assert!(unused.is_empty(), "unused codes: {unused:?}");
    for page in book() {
        let name = page.path.strip_prefix("docs/errors/");
        let Some(code) = name.and_then(|n| n.strip_suffix(".md")) else {
            continue;
        };
        assert!(
            ["README", "kernels"].contains(&code) || registered.contains(code),
            "{} is not in `wuji_ir::codes`",
            page.path
        );
    }
}

/// Marks a page whose error cannot be caused by a user program.
const NO_PROGRAM: &str = "**No program causes this.**";

#[test]
fn pages_show_their_error() {
    for page in book() {
        let name = page.path.strip_prefix("docs/errors/W");
        let Some(number) = name.and_then(|n| n.strip_suffix(".md")) else {
            continue;
        };
        let blocks = page.blocks().unwrap();
        let first = format!("error[W{number}]: ");
        let warning = format!("warning[W{number}]: ");
        let shown = blocks.iter().any(|b| {
            let caused = ["rust", "wir", "console", "python"].contains(&b.language());
            let next = b.next.and_then(|n| blocks.get(n));
            caused
                && match b.language() {
                    // The output of a command follows the command.
                    "console" => b.code.contains(&first),
                    _ => next.is_some_and(|t| {
                        let begins = |with: &str| t.code.starts_with(with);
                        t.info == "text" && (begins(&first) || begins(&warning))
                    }),
                }
        });
        assert!(
            shown || page.text.contains(NO_PROGRAM),
            "{}: show a program that causes it, followed by its message, or say: {NO_PROGRAM}",
            page.path
        );
        assert!(
            !(shown && page.text.contains(NO_PROGRAM)),
            "{}: there is a program that causes it",
            page.path
        );
    }
}

const GROUPS: [(&str, &str); 11] = [
    ("W00", "Textual IR and the verifier"),
    ("W01", "Worlds, layouts, fields and arrays"),
    ("W02", "Kernels in Rust"),
    ("W03", "Compilation"),
    ("W040", "Run-time errors of kernels"),
    ("W041", "Runs of textual IR"),
    ("W049", "Interpreter"),
    ("W05", "System and devices"),
    ("W06", "Kernels in Python"),
    ("W07", "Differentiation"),
    ("W08", "Traced programs"),
];

/// Generates the index from the titles of the pages. `WUJI_BLESS=1` writes it, and the list in `SUMMARY.md`.
#[test]
fn the_index_lists_all_pages() {
    let mut index = String::from(
        "# Errors\n\nEvery error has a code.\n`wuji explain W0401` prints its page in the terminal.\n\n\
         Tests run the programs of these pages and compare their messages.\n",
    );
    let mut summary = format!("  - [{REFUSED}](errors/kernels.md)\n");
    index += &format!(
        "[{REFUSED}](kernels.md) lists the errors that rustc reports in kernels; they have no codes.\n"
    );
    for (prefix, title) in GROUPS {
        index += &format!("\n## {title}\n\n| code | |\n|---|---|\n");
        for code in codes::all().iter().filter(|c| c.code.starts_with(prefix)) {
            let (code, title) = (code.code, code.title());
            index += &format!("| [{code}]({code}.md) | {title} |\n");
            summary += &format!("  - [{code}](errors/{code}.md)\n");
        }
    }
    let listed = index.matches("| [W").count();
    assert_eq!(listed, codes::all().len(), "a code is in no group");
    let errors = root().join("docs/errors/README.md");
    let book = root().join("docs/SUMMARY.md");
    let written = fs::read_to_string(&book).unwrap();
    let own = |line: &str| line.starts_with("  - [") && line.contains("(errors/");
    let mut expected = String::new();
    for line in written.lines().filter(|line| !own(line)) {
        expected += line;
        expected.push('\n');
        if line.contains("(errors/README.md)") {
            expected += &summary;
        }
    }
    up_to_date(&errors, &index);
    up_to_date(&book, &expected);
}

/// Compares a generated file; `WUJI_BLESS=1` writes it.
fn up_to_date(path: &Path, text: &str) {
    if fs::read_to_string(path).unwrap_or_default() == text {
        return;
    }
    let bless = std::env::var_os("WUJI_BLESS").is_some_and(|v| v == "1");
    let path_shown = path.display();
    assert!(
        bless,
        "{path_shown} is not up to date (WUJI_BLESS=1 writes it)"
    );
    fs::write(path, text).unwrap();
}

const REFUSED: &str = "Unsupported Rust in kernels";

/// Generates the page from the snapshots of macro errors.
#[test]
fn refusals_of_the_macros_are_listed() {
    let folder = root().join("tests/ui/tests/mistakes");
    let mut programs: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("unsupported_") && name.ends_with(".rs")
        })
        .collect();
    programs.sort();
    let mut page = format!(
        "# {REFUSED}\n\nKernels support a subset of Rust.\nrustc reports unsupported constructs at their position; these errors have no codes.\nType errors are ordinary rustc errors.\n"
    );
    for program in programs {
        let code = fs::read_to_string(&program).unwrap();
        let message = fs::read_to_string(program.with_extension("stderr")).unwrap();
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let message = message
            .replace(&format!("tests/mistakes/{name}"), "src/main.rs")
            .replace("--> crates/", "--> ");
        let title = message.lines().next().unwrap_or_default();
        let title = title.trim_start_matches("error: ");
        let title: String = title
            .chars()
            .take(1)
            .flat_map(char::to_uppercase)
            .collect::<String>()
            + &title.chars().skip(1).collect::<String>();
        let (code, message) = (code.trim_end(), message.trim_end());
        page +=
            &format!("\n## {title}\n\n```rust,refused\n{code}\n```\n\n```text\n{message}\n```\n");
    }
    up_to_date(&root().join("docs/errors/kernels.md"), &page);
}
