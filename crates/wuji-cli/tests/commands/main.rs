//! Runs every command of the real binary.

mod cuda;
mod flow;
mod library;
mod new;
mod opt;
mod run;
mod tune;

use expect_test::{Expect, expect};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory for one test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wuji-commands-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The binary, run from the root of the repository without a kernel cache.
fn wuji(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wuji"));
    command
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env("WUJI_CACHE", "off")
        .env_remove("WUJI_CACHE_DIR")
        .env_remove("WUJI_CACHE_LIMIT")
        .env_remove("WUJI_LOG")
        .env_remove("WUJI_TIER")
        .env_remove("WUJI_PRINT_AFTER")
        .env_remove("WUJI_EXPLAIN")
        .stdin(Stdio::null());
    command
}

/// Standard output, standard error, and the exit code unless it is 0.
fn shown(output: &Output) -> String {
    let mut text = String::from_utf8(output.stdout.clone()).unwrap();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => {}
        Some(code) => text.push_str(&format!("[{code}]\n")),
        None => text.push_str("[killed]\n"),
    }
    text
}

#[track_caller]
fn check(arguments: &[&str], expected: Expect) {
    expected.assert_eq(&shown(&wuji(arguments).output().unwrap()));
}

/// Checks that machine code and the interpreter have the same output.
#[track_caller]
fn check_both(arguments: &[&str], expected: Expect) {
    let on = |backend| {
        let arguments = [arguments, &["--backend", backend]].concat();
        shown(&wuji(&arguments).output().unwrap())
    };
    let native = on("cpu");
    expected.assert_eq(&native);
    assert_eq!(on("interpreter"), native);
}

/// Runs the binary with text on standard input.
fn piped(arguments: &[&str], input: &str) -> Output {
    let mut child = wuji(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

const SQUARES: &str = "crates/wuji-cli/kernels/squares.wir";

#[test]
fn usage_is_printed_without_a_command() {
    let output = wuji(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("Usage: wuji <COMMAND>"));
    check(
        &["frobnicate"],
        expect![[r#"
            error: unrecognized subcommand 'frobnicate'

            Usage: wuji <COMMAND>

            For more information, try '--help'.
            [2]
        "#]],
    );
}

#[test]
fn doctor() {
    let output = wuji(&["doctor"]).output().unwrap();
    let text = shown(&output);
    assert!(output.status.success(), "{text}");
    for row in [
        "wuji",
        "llvm",
        "cpu",
        "vectors",
        "threads",
        "gpu",
        "cache     off",
    ] {
        assert!(text.lines().any(|l| l.starts_with(row)), "{text}");
    }
    let text = shown(&wuji(&["doctor", "--json"]).output().unwrap());
    let machine: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(machine["kind"], "machine");
    for key in [
        "llvm",
        "gpu_driver",
        "libdevice",
        "cache_folder",
        "cache_problem",
    ] {
        assert!(machine.get(key).is_some(), "{text}");
    }
}

#[test]
fn explain() {
    let page = shown(&wuji(&["explain", "W0401"]).output().unwrap());
    assert!(page.starts_with("W0401: out-of-bounds access"), "{page}");
    for spelling in ["w0401", "401", "0401"] {
        assert_eq!(shown(&wuji(&["explain", spelling]).output().unwrap()), page);
    }
    let list = shown(&wuji(&["explain"]).output().unwrap());
    assert!(list.lines().any(|l| l.starts_with("W0101  ")), "{list}");
    assert!(list.lines().any(|l| l.starts_with("W0401  ")), "{list}");
    check(
        &["explain", "W9401"],
        expect![[r#"
            error: there is no error code `W9401`

              tip: similar: W0401 (out-of-bounds access)

            Usage: wuji explain [CODE]

            For more information, try '--help'.
            [2]
        "#]],
    );
    check(
        &["explain", "assertion"],
        expect![[r#"
            error: there is no error code `assertion`

              tip: similar: W0403 (assertion failed)

            Usage: wuji explain [CODE]

            For more information, try '--help'.
            [2]
        "#]],
    );
}

#[test]
fn cache_info_and_clear() {
    let folder = Folder::new();
    let cache = folder.0.join("kernels");
    let with = |arguments: &[&str]| {
        let mut command = wuji(arguments);
        command
            .env_remove("WUJI_CACHE")
            .env("WUJI_CACHE_DIR", &cache);
        let text = shown(&command.output().unwrap());
        text.replace(cache.to_str().unwrap(), "CACHE")
    };
    let off = wuji(&["cache", "info"]).output().unwrap();
    assert_eq!(shown(&off), "off\n");
    assert_eq!(
        with(&["cache", "info"]),
        "CACHE: 0 kernels, 0 bytes of at most 1 GiB\n"
    );
    with(&["run", SQUARES, "--set", "p0 = 1"]);
    assert!(with(&["cache", "info"]).starts_with("CACHE: 1 kernel, "));
    let info: Value = serde_json::from_str(&with(&["cache", "info", "--json"])).unwrap();
    assert_eq!(info["kind"], "cache");
    assert_eq!(info["cache_folder"], "CACHE");
    assert_eq!(info["cache_entries"], 1);
    assert!(with(&["doctor"]).contains("\ncache     CACHE: 1 kernel, "));
    assert!(with(&["cache", "clear"]).starts_with("1 kernel removed, "));
    assert_eq!(
        with(&["cache", "clear", "--json"]),
        "{\"bytes\":0,\"entries\":0,\"kind\":\"cache_cleared\"}\n"
    );
    assert_eq!(
        with(&["cache", "info"]),
        "CACHE: 0 kernels, 0 bytes of at most 1 GiB\n"
    );
}

#[test]
fn unusable_caches_are_reported() {
    let folder = Folder::new();
    let with = |arguments: &[&str], place: &Path| {
        let mut command = wuji(arguments);
        command
            .env_remove("WUJI_CACHE")
            .env("WUJI_CACHE_DIR", place);
        let text = shown(&command.output().unwrap());
        text.replace(folder.0.to_str().unwrap(), "FOLDER")
    };
    // A file has the name of the directory.
    let file = folder.file("file", "");
    expect![[r#"
        error[W0512]: cannot make FOLDER/file
          = note: File exists (os error 17)
          = help: choose another folder with WUJI_CACHE_DIR, or set WUJI_CACHE=off
        [1]
    "#]]
    .assert_eq(&with(&["cache", "info"], &file));
    let doctor = with(&["doctor"], &file);
    assert!(doctor.contains("\ncache     not usable: "), "{doctor}");
    assert!(!doctor.ends_with("]\n"), "{doctor}");
    expect![[r#"
        error[W0512]: cannot read FOLDER/file
          = note: Not a directory (os error 20)
          = help: choose another folder with WUJI_CACHE_DIR, or set WUJI_CACHE=off
        [1]
    "#]]
    .assert_eq(&with(&["cache", "clear"], &file));
    // The directory is writable by others.
    use std::os::unix::fs::PermissionsExt;
    let shared = folder.0.join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
    expect![[r#"
        error[W0512]: the folder FOLDER/shared cannot be a cache of kernels
          = note: other users may write to it, and Wuji executes code from it
          = help: remove the write permission of others (`chmod 700`), or choose another folder with WUJI_CACHE_DIR
        [1]
    "#]]
    .assert_eq(&with(&["cache", "info"], &shared));
    // Kernels still run, without a cache.
    let run = with(&["run", SQUARES, "--set", "p0 = 1"], &shared);
    assert!(run.contains("f1 = 0.0") && !run.ends_with("]\n"), "{run}");
}

#[test]
fn completions() {
    for (shell, part) in [
        ("bash", "complete -F _wuji"),
        ("zsh", "#compdef wuji"),
        ("fish", "complete -c wuji"),
        ("elvish", "edit:completion"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let text = shown(&wuji(&["completions", shell]).output().unwrap());
        assert!(
            text.contains(part) && text.contains("print-after"),
            "{shell}"
        );
    }
}

#[test]
fn help_has_examples_that_work() {
    for command in ["opt", "run", "explain", "cache"] {
        let help = shown(&wuji(&[command, "--help"]).output().unwrap());
        let (_, examples) = help.split_once("Examples").unwrap();
        for line in examples.lines().filter(|l| l.starts_with("  wuji ")) {
            // A description follows after two spaces.
            let example = line.trim().split("  ").next().unwrap();
            let example = example.replacen("wuji ", &format!("{} ", env!("CARGO_BIN_EXE_wuji")), 1);
            let example = example.replace("| wuji ", &format!("| {} ", env!("CARGO_BIN_EXE_wuji")));
            let example = example.replace("> mpm2d.s", "> /dev/null");
            let mut command = Command::new("sh");
            command
                .args(["-c", &example])
                .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
                .env("WUJI_CACHE", "off");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{example}\n{}", shown(&output));
        }
    }
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    let mut child = wuji(&[
        "opt",
        "crates/wuji-cli/kernels/mpm3d.wir",
        "--print-after",
        "all",
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    // Reads a few bytes and closes the pipe.
    let mut stdout = child.stdout.take().unwrap();
    let mut bytes = [0; 16];
    stdout.read_exact(&mut bytes).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(shown(&output), "");
}

#[test]
fn a_closed_pipe_ends_a_kernel_that_prints_quietly() {
    let folder = Folder::new();
    let text = "module \"say\"\nmessage m0 \"a line of the kernel\"\nkernel fn0 \"say\"() {\n\
        v0: i32 = const 0\nv1: i32 = const 100000\nv3: i32 = const 1\n\
        for L0 v2: i32 in v0..v1 step v3 {\nprint m0 ()\ncontinue L0\n}\nreturn\n}\n";
    let file = folder.file("say.wir", text);
    for backend in ["cpu", "interpreter"] {
        let mut child = wuji(&["run", file.to_str().unwrap(), "--backend", backend])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let mut bytes = [0; 16];
        stdout.read_exact(&mut bytes).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(shown(&output), "", "{backend}");
    }
}

/// Pages of the book that show commands and their output.
const PAGES: [&str; 5] = [
    "docs/cli.md",
    "docs/errors/W0008.md",
    "docs/errors/W0130.md",
    "docs/errors/W0410.md",
    "docs/errors/W0515.md",
];

/// Runs the commands after `$` in `console` blocks and compares their output. `WUJI_BLESS=1` rewrites it.
#[test]
fn commands_of_the_book() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bless = std::env::var_os("WUJI_BLESS").is_some_and(|v| v == "1");
    for page in PAGES {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let mut found = String::new();
        let mut inside = false;
        for line in text.lines() {
            if line.starts_with("```") {
                inside = line == "```console";
            }
            let command = line.strip_prefix("$ ").filter(|_| inside);
            if !inside || command.is_some() || line.starts_with("```") {
                found.push_str(line);
                found.push('\n');
            }
            if let Some(command) = command {
                found.push_str(&in_a_shell(command, &root));
            }
        }
        if bless {
            std::fs::write(root.join(page), &found).unwrap();
        }
        assert!(
            bless || text == found,
            "{page}: WUJI_BLESS=1 writes:\n{found}"
        );
    }
}

fn in_a_shell(command: &str, root: &Path) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_wuji")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", command])
        .current_dir(root)
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("WUJI_CACHE", "off")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8(both).unwrap()
}
