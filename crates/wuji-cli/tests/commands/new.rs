//! `wuji new`: the project resolves, and its program runs and leaves a picture.

use crate::{Folder, check, wuji};
use expect_test::expect;
use std::path::Path;
use std::process::Command;

/// The program of a new project.
mod template {
    include!("../../template/src/main.rs");

    pub(super) fn run() {
        main().unwrap();
    }
}

#[test]
fn a_project_resolves() {
    let folder = Folder::new();
    let project = folder.0.join("waves");
    let output = wuji(&["new", &project.display().to_string()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let manifest = std::fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"waves\""), "{manifest}");
    assert!(
        manifest.contains("crates/wuji\", features = [\"viewer\"]"),
        "{manifest}"
    );
    let program = std::fs::read_to_string(project.join("src/main.rs")).unwrap();
    assert!(program.contains("#[derive(Fields)]"));
    // The versions that this workspace has.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(root.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
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
