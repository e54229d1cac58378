//! The parts of a filetest.

use super::check::Check;
use std::path::{Path, PathBuf};

const OUTPUT: &str = "; output:";

/// A parsed `.wir` file.
#[derive(Debug)]
pub struct TestFile {
    pub path: PathBuf,
    text: String,
    /// Names and arguments of the `; test:` lines.
    pub commands: Vec<(String, String)>,
    /// The text after `; output:`, without the comment signs.
    pub output: String,
    /// The `; check:` lines, which replace the whole output.
    pub(super) checks: Vec<Check>,
}

impl TestFile {
    pub fn read(path: &Path) -> Result<TestFile, String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut file = TestFile {
            path: path.to_owned(),
            text,
            commands: Vec::new(),
            output: String::new(),
            checks: Vec::new(),
        };
        let mut in_output = false;
        for (number, line) in file.text.lines().enumerate() {
            if in_output {
                let Some(rest) = line.strip_prefix(';') else {
                    return Err(format!(
                        "line {}: only output follows `{OUTPUT}`",
                        number + 1
                    ));
                };
                file.output.push_str(rest.strip_prefix(' ').unwrap_or(rest));
                file.output.push('\n');
            } else if line.trim_end() == OUTPUT {
                in_output = true;
            } else if let Some(command) = line.strip_prefix("; test:") {
                let (name, arguments) = match command.trim().split_once(' ') {
                    Some((name, arguments)) => (name, arguments.trim()),
                    None => (command.trim(), ""),
                };
                file.commands.push((name.to_owned(), arguments.to_owned()));
            } else if let Some(check) = Check::parse(line) {
                let check = check.map_err(|e| format!("line {}: {e}", number + 1))?;
                file.checks.push(check);
            }
        }
        let golden = |c: &&(String, String)| {
            let name = c.0.as_str();
            matches!(name, "error" | "pass" | "gradient" | "tangent" | "ptx")
        };
        let goldens = file.commands.iter().filter(golden).count();
        if goldens > 1 {
            return Err("at most one command may have an output".to_owned());
        }
        if !file.checks.is_empty() && (goldens == 0 || in_output) {
            return Err(format!(
                "`; check:` lines need a command with an output, and no `{OUTPUT}`"
            ));
        }
        if file.commands.is_empty() {
            return Err("the file has no `; test:` line".to_owned());
        }
        let runs = file.commands.iter().any(|c| c.0 == "run");
        if runs == wuji_tools::script::runs(&file.text, &file.name()).is_empty() {
            return Err("`; test: run` and `; run:` lines need each other".to_owned());
        }
        Ok(file)
    }

    /// The module's text: everything before the output, so that positions of errors are correct.
    pub fn source(&self) -> &str {
        let end = self.text.find(&format!("\n{OUTPUT}"));
        self.text[..end.unwrap_or(self.text.len())].trim_end()
    }

    /// The displayed path, which messages use.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Rewrites the file with other output.
    pub(super) fn bless(&self, output: &str) -> Result<(), String> {
        let mut text: String = self
            .text
            .lines()
            .take_while(|line| line.trim_end() != OUTPUT)
            .flat_map(|line| [line, "\n"])
            .collect();
        if !text.ends_with("\n\n") {
            text.push('\n');
        }
        text.push_str(OUTPUT);
        text.push('\n');
        for line in output.lines() {
            text.push_str(format!("; {line}").trim_end());
            text.push('\n');
        }
        std::fs::write(&self.path, text).map_err(|e| e.to_string())
    }
}
