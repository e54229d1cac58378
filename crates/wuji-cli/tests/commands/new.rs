//! `wuji new`: the project resolves, and its program runs and leaves a picture.

use crate::{Folder, check, wuji};
use expect_test::expect;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The program of a new project.
mod template {
    include!("../../template/src/main.rs");

    pub(super) fn run() {
        main().unwrap();
    }
}

/// A new project, with the versions that this workspace has.
fn project(folder: &Folder) -> PathBuf {
    let project = folder.0.join("waves");
    let output = wuji(&["new", &project.display().to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    project
}

#[test]
fn a_project_resolves() {
    let folder = Folder::new();
    let project = project(&folder);
    let manifest = std::fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"waves\""), "{manifest}");
    assert!(
        manifest.contains("crates/wuji\", features = [\"viewer\"]"),
        "{manifest}"
    );
    let program = std::fs::read_to_string(project.join("src/main.rs")).unwrap();
    assert!(program.contains("#[derive(Fields)]"));
    let resolved = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(&project)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&resolved.stderr);
    assert!(resolved.status.success(), "{errors}");
    let found = String::from_utf8_lossy(&resolved.stdout);
    assert!(found.contains("wuji-viewer"), "the feature is on");
}

/// Builds and runs the project; gives the seconds that took.
fn run(project: &Path) -> f64 {
    let picture = project.join("waves.gif");
    let _ = std::fs::remove_file(&picture);
    let start = Instant::now();
    let output = Command::new(env!("CARGO"))
        .args(["run", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", project.join("target"))
        .env("WUJI_HEADLESS", "1")
        .env("WUJI_CACHE", "off")
        .current_dir(project)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(std::fs::metadata(&picture).unwrap().len() > 10_000);
    start.elapsed().as_secs_f64()
}

#[test]
#[ignore = "builds all crates from scratch, which takes minutes: `cargo test -p wuji-cli -- --ignored`"]
fn a_project_builds_and_runs() {
    let folder = Folder::new();
    let project = project(&folder);
    let first = run(&project);
    let source = project.join("src/main.rs");
    let program = std::fs::read_to_string(&source).unwrap();
    let edited = program.replace("0.999 *", "0.998 *");
    assert_ne!(edited, program);
    std::fs::write(&source, edited).unwrap();
    let again = run(&project);
    println!("{first:.0} s from scratch, {again:.1} s after an edit of a kernel");
    // Cargo, rustc, the linker, the kernels and 100 frames; 3 s on an idle machine.
    assert!(again < 20.0, "{again} s after an edit of a kernel");
}

/// Runs as another process: see below.
#[test]
fn child_of_the_test_of_the_program() {
    if std::env::var_os("WUJI_TEST_TEMPLATE").is_some() {
        template::run();
    }
}

#[test]
fn the_program_leaves_a_picture() {
    let folder = Folder::new();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "new::child_of_the_test_of_the_program"])
        .env("WUJI_TEST_TEMPLATE", "1")
        .env("WUJI_HEADLESS", "1")
        .env("WUJI_CACHE", "off")
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let picture = std::fs::metadata(folder.0.join("waves.gif")).unwrap();
    assert!(picture.len() > 10_000, "{} bytes", picture.len());
}

#[test]
fn mistakes() {
    check(
        &["new", "crates"],
        expect![[r#"
            error[W0515]: `crates` exists already
              = help: choose another folder
            [1]
        "#]],
    );
    check(
        &["new", "3d"],
        expect![[r#"
            error: `3d` cannot be the name of a package: use letters, digits, `-` and `_`; give another one with `--name`

            Usage: wuji new [OPTIONS] <FOLDER>

            For more information, try '--help'.
            [2]
        "#]],
    );
    check(
        &["new", "no_such_folder", "--path", "docs"],
        expect![[r#"
            error[W0515]: `docs` is not a checkout of Wuji
              = note: there is no `crates/wuji`
            [1]
        "#]],
    );
}
