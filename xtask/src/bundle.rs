//! `cargo xtask bundle`: programs for another machine, with LLVM inside.

use std::fs;

use crate::Outcome;
use crate::args::Args;
use crate::demo::absolute;
use crate::setup;
use crate::workspace::{cargo, root, run, target};

const PROGRAMS: [&str; 2] = ["gallery", "wuji-bench"];

const README: &str = "\
These programs need neither LLVM nor Rust; they compile kernels for the CPU that they run on.

  ./gallery      the examples: `./gallery mpm88` writes mpm88.gif
  ./wuji-bench   the benchmarks (`./wuji-bench --help`)
";

pub(crate) fn bundle(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let out = args
        .value("--out")?
        .map_or_else(|| root().join("bundle"), absolute);
    args.finish("bundle")?;
    let llvm = setup::setup()?;

    // A target folder of its own: the features differ from the daily build, which would be rebuilt each time.
    let folder = target().join("bundle");
    let mut command = cargo(&llvm);
    command
        .args([
            "build",
            "--release",
            "--no-default-features",
            "--features",
            "static",
            "--target-dir",
        ])
        .arg(&folder);
    command.args(["--package", "wuji-examples", "--package", "wuji-bench"]);
    run(&mut command)?;

    let told = |what: &str, e: std::io::Error| format!("{what}: {e}");
    fs::create_dir_all(&out).map_err(|e| told("cannot make the bundle's folder", e))?;
    for program in PROGRAMS {
        let from = folder.join("release").join(program);
        let size =
            fs::copy(&from, out.join(program)).map_err(|e| told("cannot copy a program", e))?;
        println!("  {program}  {:.1} MB", size as f64 / 1e6);
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(licence), out.join(licence))
            .map_err(|e| told("cannot copy a licence", e))?;
    }
    fs::write(out.join("README.txt"), README).map_err(|e| told("cannot write README.txt", e))?;
    println!("the bundle is in {}", out.display());
    Ok(())
}
