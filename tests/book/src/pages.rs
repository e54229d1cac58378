//! Pages and their code blocks. Also included by the build script, so it depends only on `std`.

use std::fs;
use std::path::{Path, PathBuf};

/// A page of the book, the README or the contribution guide.
#[derive(Clone, Debug)]
pub struct Page {
    /// Path relative to the root of the repository, with `/`.
    pub path: String,
    pub text: String,
}

/// A fenced code block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// `rust,error`
    pub info: String,
    /// The line after the opening fence, counted from 1.
    pub line: usize,
    pub code: String,
    /// The index of the next block, if only blank lines are between.
    pub next: Option<usize>,
}

impl Block {
    pub fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }

    /// The attributes after the language.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.info.split(',').skip(1)
    }

    pub fn has(&self, attribute: &str) -> bool {
        self.attributes().any(|a| a == attribute)
    }
}

impl Page {
    /// The blocks in order; an unterminated fence is an error.
    pub fn blocks(&self) -> Result<Vec<Block>, String> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open: Option<Block> = None;
        // Whether only blank lines followed the last block.
        let mut close = false;
        for (n, line) in self.text.lines().enumerate() {
            match (&mut open, line.strip_prefix("```")) {
                (Some(block), Some("")) => {
                    blocks.push(block.clone());
                    open = None;
                    close = true;
                }
                (Some(block), _) => {
                    block.code.push_str(line);
                    block.code.push('\n');
                }
                (None, Some(info)) => {
                    let number = blocks.len();
                    if let (true, Some(last)) = (close, blocks.last_mut()) {
                        last.next = Some(number);
                    }
                    open = Some(Block {
                        info: info.trim().to_owned(),
                        line: n + 2,
                        code: String::new(),
                        next: None,
                    });
                }
                (None, None) => close &= line.trim().is_empty(),
            }
        }
        match open {
            Some(block) => Err(format!("{}:{}: unterminated block", self.path, block.line)),
            None => Ok(blocks),
        }
    }

    /// The page with the code of one block replaced.
    pub fn with_code(&self, number: usize, code: &str) -> Result<String, String> {
        let blocks = self.blocks()?;
        let block = blocks.get(number).ok_or("there is no such block")?;
        let lines: Vec<&str> = self.text.lines().collect();
        let start = block.line - 1;
        let end = start + block.code.lines().count();
        let before = lines[..start].iter();
        let changed = before.copied().chain(code.lines());
        let changed: Vec<&str> = changed.chain(lines[end..].iter().copied()).collect();
        Ok(changed.join("\n") + "\n")
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The README, the contribution guide and every page under `docs`, sorted.
pub fn pages() -> Result<Vec<Page>, String> {
    let root = root();
    let mut found = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
        for entry in fs::read_dir(&folder).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let short = path.strip_prefix(&root).unwrap_or(path);
        let path = short.to_string_lossy().replace('\\', "/");
        Ok(Page { path, text })
    };
    found.iter().map(read).collect()
}
