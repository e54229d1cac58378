//! Generates a module and a test for every Rust block of the book.

// Shares the parser with the tests.
#[allow(dead_code, unreachable_pub)]
#[path = "src/pages.rs"]
mod pages;

use pages::{Block, Page};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = pages::root();
    for watched in ["docs", "README.md", "CONTRIBUTING.md"] {
        println!("cargo::rerun-if-changed={}", root.join(watched).display());
    }
    println!("cargo::rerun-if-changed=src/pages.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let made = pages::pages().and_then(|pages| {
        let folder = out.join("snippets");
        let mut modules = String::new();
        fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        for page in &pages {
            for (number, block) in page.blocks()?.iter().enumerate() {
                // What rustc refuses is tested where `crates/wuji/tests/api/compile_fail.rs` is.
                if block.language() == "rust" && !block.has("refused") {
                    modules += &module(&folder, page, number, block)?;
                }
            }
        }
        fs::write(out.join("snippets.rs"), modules).map_err(|e| e.to_string())
    });
    if let Err(error) = made {
        println!("cargo::error={error}");
    }
}

/// Writes the source of a block. Its lines keep their numbers, so that errors have correct positions; additions are on the
/// first line and after the last.
fn module(folder: &Path, page: &Page, number: usize, block: &Block) -> Result<String, String> {
    let at = format!("{}:{}", page.path, block.line);
    let mut kind = "Run";
    for attribute in block.attributes() {
        kind = match attribute {
            "no_run" => "Compile",
            "error" => "Fail",
            _ => {
                return Err(format!(
                    "{at}: a Rust block is `rust`, `rust,no_run`, `rust,error` or `rust,refused`, not `{attribute}`"
                ));
            }
        };
    }
    if kind == "Fail" && block.next.is_none() {
        return Err(format!(
            "{at}: a `text` block with the message follows `rust,error`"
        ));
    }
    // The file name identifies the page in messages.
    let name = format!("{}.line{}.rs", page.path.replace('/', "_"), block.line);
    let mut source = String::new();
    let code = shown_and_hidden(&block.code);
    let whole = code.contains("fn main()");
    if whole {
        source += &code;
    } else {
        source += "fn main() -> wuji::Result<()> { use wuji::prelude::*; ";
        source += &code;
        source += "Ok(()) }\n";
    }
    source += "pub(crate) fn run() -> Result<(), String> { crate::rust::ending(main()) }\n";
    let path = folder.join(&name);
    // Unchanged files keep their modification time, for cargo.
    if fs::read_to_string(&path).ok().as_deref() != Some(&source) {
        fs::write(&path, &source).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let id: String = page
        .path
        .trim_end_matches(".md")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect();
    let id = format!("{id}_line_{}", block.line);
    let mut module = String::new();
    let result = writeln!(
        module,
        "#[path = {path:?}]\n#[allow(dead_code, unused, clippy::all)]\nmod {id};\n\
         #[test]\nfn {id}() {{ check_rust({:?}, {number}, {path:?}, Kind::{kind}, {id}::run) }}",
        page.path
    );
    result.map_err(|e| e.to_string())?;
    Ok(module)
}

/// Removes the `# ` prefix of hidden lines.
fn shown_and_hidden(code: &str) -> String {
    let line = |line: &str| {
        let start = line.trim_start();
        let hidden = start.strip_prefix("# ").or((start == "#").then_some(""));
        hidden.unwrap_or(line).to_owned() + "\n"
    };
    code.lines().map(line).collect()
}
