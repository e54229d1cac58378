//! `cargo xtask publish`: packages every crate as crates.io would get it, and builds the packages.

use std::process::Command;

use crate::Outcome;
use crate::args::Args;
use crate::rules::manifests::published;
use crate::setup;
use crate::workspace::{cargo, root, run, target};

pub(crate) fn publish(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let dry = args.flag("--dry-run");
    let verify = !args.flag("--no-verify");
    let network = args.flag("--network");
    args.finish("publish")?;
    crate::rules::rules(&["manifests".to_string()])?;
    let llvm = setup::setup()?;
    let names = published(&root())?;
    let mut package = cargo(&llvm);
    // Packages depend on each other's packages, not on folders of this checkout, so that a missing file or version is found.
    package
        .arg("package")
        .args(named(&names))
        .arg("--allow-dirty");
    package.arg("--target-dir").arg(target().join("publish"));
    if !verify {
        package.arg("--no-verify");
    }
    if !network {
        package.arg("--offline");
    }
    run(&mut package)?;
    if dry {
        println!("{} crates are ready to be published", names.len());
        return Ok(());
    }
    run(publication(&mut cargo(&llvm), &names))
}

fn named(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().flat_map(|name| ["--package", name])
}

/// Uploads all crates, in the order of their dependencies.
fn publication<'c>(command: &'c mut Command, names: &[String]) -> &'c mut Command {
    // They have been built.
    command.arg("publish").args(named(names)).arg("--no-verify")
}
