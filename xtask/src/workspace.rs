//! The workspace, and commands that run in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The root directory of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target directory.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// A `cargo` command in the workspace that builds against the LLVM found by `setup`.
pub(crate) fn cargo(llvm: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("LLVM_SYS_221_PREFIX", llvm);
    command
}

/// A command that runs a program of the workspace; its arguments follow. Without `--package`, which would unify features
/// for that package alone and rebuild many dependencies.
pub(crate) fn program(llvm: &Path, name: &str, profile: &str) -> Command {
    let mut command = cargo(llvm);
    command.args(["run", "--profile", profile, "--bin", name, "--"]);
    command
}

/// Whether a program is on the path.
pub(crate) fn on_path(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// A command as typed in a shell.
pub(crate) fn spelled(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    if let Some(name) = Path::new(&words[0]).file_name() {
        words[0] = name.to_string_lossy().into_owned();
    }
    words.extend(command.get_args().map(|word| {
        let word = word.to_string_lossy();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:+,@%".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word.into_owned()
        } else {
            format!("'{word}'")
        }
    }));
    words.join(" ")
}

/// Runs a command and shows its output.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|e| format!("cannot start `{}`: {e}", spelled(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed ({status})", spelled(command)))
    }
}

/// The standard output of a command, if it succeeds.
pub(crate) fn output(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
