//! The workspace, and calling cargo in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root().join(folder),
        None => root().join("target"),
    }
}

/// A call of the cargo that runs us, in the workspace, building against the LLVM that setup found.
pub(crate) fn cargo(llvm: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("LLVM_SYS_221_PREFIX", llvm);
    command
}

/// A call of one of the workspace's programs; its own arguments follow. Not by `--package`: cargo then chooses the features
/// of dependencies for that package alone, and builds many of them a second time.
pub(crate) fn program(llvm: &Path, name: &str, profile: &str) -> Command {
    let mut command = cargo(llvm);
    command.args(["run", "--profile", profile, "--bin", name, "--"]);
    command
}

/// Whether a command of this name is on the path.
pub(crate) fn on_path(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// A command as one would type it.
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

/// Runs a command to its end, with its output shown.
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

/// The standard output of a command that succeeds.
pub(crate) fn output(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}
