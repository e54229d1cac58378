//! `cargo xtask bundle`: programs, tests and the Python package for another machine, with one shared LLVM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::args::Args;
use crate::demo::absolute;
use crate::setup;
use crate::shared_llvm;
use crate::workspace::{cargo, on_path, root, run, spelled, target};

/// `wuji` includes the examples.
const PROGRAMS: [&str; 3] = ["wuji", "wuji-bench", "fuzz"];

/// Test programs that validate a machine and its GPU.
const TESTS: [&str; 3] = ["filetests", "suite", "api"];

/// Modules of test programs that need the workspace or a compiler.
const NOT_IN_BUNDLES: [(&str, &[&str]); 2] = [("api", &["cuda::"]), ("suite", &["ptx::"])];

/// Data of the tests, in the directory `tests`.
const TEST_DATA: [&str; 2] = ["filetests", "semantics"];

/// The Python package.
const WHEEL: &str = "wheel";

/// Its extension module, before it is packaged.
const MODULE: &str = "_native.so";

/// Maximum size of the archive. A larger one indicates a linking problem.
const MOST_BYTES: u64 = 40_000_000;

const README: &str = "\
These programs need neither LLVM nor Rust. They compile kernels for the CPU that they run on, or for its
GPU, and depend only on the C library. They load LLVM from the directory `lib`.

  ./wuji doctor          show what Wuji found on this machine
  ./wuji example         list the examples: `./wuji example mpm88` writes mpm88.gif
  ./wuji --help          list the other commands
  ./wuji-bench           run the benchmarks (`./wuji-bench --help`)
  sh test.sh             run the tests (`sh test.sh PART_OF_A_NAME` for some of them)
                         WUJI_TEST_BACKEND=cuda runs kernels on the first GPU, where supported
  ./fuzz --seconds 60    random kernels against the interpreter; with WUJI_TEST_BACKEND=cuda and
                         `--native 100` every kernel runs on the first GPU
  pip install *.whl      install the Python package
";

const UNPACK: &str = include_str!("bundle/unpack.sh");
/// `RUNS` is replaced by one line per test program.
const RUN_TESTS: &str = include_str!("bundle/test.sh");

pub(crate) fn bundle(words: &[String]) -> Outcome {
    let mut args = Args::new(words);
    let out = args
        .value("--out")?
        .map_or_else(|| root().join("bundle"), absolute);
    let profile = if args.flag("--dev") {
        Profile {
            name: "dev",
            folder: "debug",
        }
    } else {
        Profile {
            name: "release",
            folder: "release",
        }
    };
    let loose = args.flag("--no-pack");
    let only = args.value("--only")?;
    args.finish("bundle")?;
    let wanted = wanted(only.as_deref())?;
    let llvm = setup::setup()?;

    let stage = target().join("bundle").join(profile.name);
    fs::create_dir_all(&stage).map_err(|e| failed_to("create directory", &stage, e))?;
    let made = Made {
        llvm,
        profile,
        stage,
    };
    let files = made.make(&wanted)?;
    if loose {
        return made.leave_loose(&files, &out);
    }
    made.collect(&files, &out)?;
    try_out(&out, &wanted)?;
    println!("the bundle is in {}", out.display());
    pack(&out)
}

fn failed_to(what: &str, at: &Path, e: std::io::Error) -> String {
    format!("cannot {what} {}: {e}", at.display())
}

/// The parts of the bundle, by name.
fn wanted(only: Option<&str>) -> Result<Vec<&'static str>, String> {
    let all = || PROGRAMS.into_iter().chain(TESTS).chain([WHEEL]);
    let Some(only) = only else {
        return Ok(all().collect());
    };
    let names = only.split(',').filter(|name| !name.is_empty());
    let find = |name: &str| {
        let known: Vec<&str> = all().collect();
        let found = all().find(|n| *n == name);
        found.ok_or_else(|| {
            let known = known.join(", ");
            format!("`--only {name}`: no such part; the parts are: {known}")
        })
    };
    names.map(find).collect()
}

#[derive(Debug)]
struct Profile {
    name: &'static str,
    /// The output directory of the profile in cargo's target directory.
    folder: &'static str,
}

/// A staging directory of built files with their dependencies. Unchanged files are not rebuilt.
#[derive(Debug)]
struct Made {
    llvm: PathBuf,
    profile: Profile,
    stage: PathBuf,
}

impl Made {
    /// Builds everything and returns paths relative to the staging directory.
    fn make(&self, wanted: &[&'static str]) -> Result<Vec<PathBuf>, String> {
        let has = |name: &&&str| wanted.contains(*name);
        let mut files = vec![PathBuf::from("lib").join(shared_llvm::FILE)];
        shared_llvm::make(&self.llvm, &self.stage.join("lib"))?;

        let built = target().join(self.profile.folder);
        let programs: Vec<&str> = PROGRAMS.iter().filter(has).copied().collect();
        if !programs.is_empty() {
            let mut command = self.cargo("build");
            command.args(programs.iter().flat_map(|name| ["--bin", name]));
            run(&mut command)?;
            for name in programs {
                files.push(self.place(&built.join(name), name)?);
            }
        }
        let tests: Vec<&str> = TESTS.iter().filter(has).copied().collect();
        for (name, path) in self.tests(&tests)? {
            files.push(self.place(&path, &name)?);
        }
        if wanted.contains(&WHEEL) {
            run(self.cargo("build").args(["--package", "wuji-py"]))?;
            files.push(self.place(&built.join("lib_native.so"), MODULE)?);
        }
        Ok(files)
    }

    fn cargo(&self, command: &str) -> Command {
        let mut cargo = cargo(&self.llvm);
        cargo.args([command, "--profile", self.profile.name]);
        cargo
    }

    /// Builds test programs and finds their executables.
    fn tests(&self, names: &[&str]) -> Result<Vec<(String, PathBuf)>, String> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = self.cargo("test");
        command.args(["--no-run", "--message-format=json-render-diagnostics"]);
        command.args(names.iter().flat_map(|name| ["--test", name]));
        command.stderr(Stdio::inherit());
        let called = spelled(&command);
        let failed = |why: String| format!("`{called}` failed ({why})");
        let done = command.output().map_err(|e| failed(e.to_string()))?;
        if !done.status.success() {
            return Err(failed(done.status.to_string()));
        }
        let found = executables(&String::from_utf8_lossy(&done.stdout));
        let missing = names
            .iter()
            .find(|name| !found.iter().any(|f| f.0 == **name));
        match missing {
            Some(name) => Err(format!("cargo has not built the test program `{name}`")),
            None => Ok(found),
        }
    }

    /// Copies and strips a file, if it has changed.
    fn place(&self, from: &Path, name: &str) -> Result<PathBuf, String> {
        let to = self.stage.join(name);
        if !up_to_date(&to, from) {
            // `strip` cannot modify a running executable.
            let fresh = self.stage.join(format!("{name}.fresh"));
            fs::copy(from, &fresh).map_err(|e| failed_to("copy", from, e))?;
            run(Command::new("strip").arg(&fresh))?;
            fs::rename(&fresh, &to).map_err(|e| failed_to("write", &to, e))?;
        }
        Ok(name.into())
    }

    /// The Python package with LLVM as a wheel; not compressed, since the archive is.
    fn wheel(&self) -> Result<PathBuf, String> {
        let folder = self.stage.join(WHEEL);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| failed_to("empty", &folder, e))?;
        }
        let mut command = Command::new("python3");
        command.arg(root().join("python/build_backend/wuji_wheel.py"));
        command.arg("--library").arg(self.stage.join(MODULE));
        command.arg("--llvm");
        command.arg(self.stage.join("lib").join(shared_llvm::FILE));
        command.arg("--out").arg(&folder).arg("--stored");
        run(command.args(["--version", env!("CARGO_PKG_VERSION")]))?;
        let file = listed(&folder)?.into_iter().next();
        file.ok_or_else(|| "there is no wheel".to_string())
    }

    /// Writes the bundle as a directory that can be used directly.
    fn collect(&self, files: &[PathBuf], out: &Path) -> Outcome {
        for file in files {
            let (from, name) = if file == Path::new(MODULE) {
                let wheel = self.wheel()?;
                let name = wheel.file_name().unwrap_or_default().into();
                (wheel, name)
            } else {
                (self.stage.join(file), file.clone())
            };
            let to = out.join(&name);
            let folder = to.parent().unwrap_or(out);
            fs::create_dir_all(folder).map_err(|e| failed_to("create directory", folder, e))?;
            let size = fs::copy(from, &to).map_err(|e| failed_to("write", &to, e))?;
            println!("  {}  {:.1} MB", name.display(), size as f64 / 1e6);
        }
        accompany(out)
    }

    /// Writes the bundle as a directory of compressed files, and only those that have changed: for a machine to which it is
    /// copied repeatedly.
    fn leave_loose(&self, files: &[PathBuf], out: &Path) -> Outcome {
        let mut total = 0;
        for file in files {
            // As a directory instead of a wheel, so that it shares the LLVM of the programs.
            let place = if file == Path::new(MODULE) {
                copy_folder(&root().join("python/wuji"), &out.join("python/wuji"))?;
                PathBuf::from("python/wuji/_native.abi3.so")
            } else {
                file.clone()
            };
            let from = self.stage.join(file);
            let to = out.join(format!("{}.xz", place.display()));
            let folder = to.parent().unwrap_or(out);
            fs::create_dir_all(folder).map_err(|e| failed_to("create directory", folder, e))?;
            if !up_to_date(&to, &from) {
                // LLVM rarely changes, so it gets a higher compression level.
                let level = if file.starts_with("lib") { "-6" } else { "-1" };
                let packed = fs::File::create(&to).map_err(|e| failed_to("write", &to, e))?;
                let mut xz = Command::new("xz");
                xz.args(["-T0", level, "-c"]).arg(&from).stdout(packed);
                run(&mut xz)?;
            }
            let size = fs::metadata(&to)
                .map_err(|e| failed_to("find", &to, e))?
                .len();
            println!("  {}  {:.1} MB", place.display(), size as f64 / 1e6);
            total += size;
        }
        let script = out.join("unpack.sh");
        fs::write(&script, UNPACK).map_err(|e| failed_to("write", &script, e))?;
        accompany(out)?;
        let shown = total as f64 / 1e6;
        println!("{shown:.1} MB; `sh {}` unpacks them", script.display());
        Ok(())
    }
}

/// The line of `test.sh` that runs a test program.
fn run_line(program: &str) -> String {
    let skipped = NOT_IN_BUNDLES.iter().filter(|(name, _)| *name == program);
    let skipped = skipped.flat_map(|(_, modules)| modules.iter());
    let skipped: String = skipped.map(|module| format!(" --skip {module}")).collect();
    format!("run {program} \"$@\"{skipped}")
}

/// Copies licences, scripts and test data.
fn accompany(out: &Path) -> Outcome {
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(root().join(licence), out.join(licence))
            .map_err(|e| failed_to("copy", Path::new(licence), e))?;
    }
    let tests = RUN_TESTS.replace("RUNS", &TESTS.map(run_line).join("\n"));
    for (name, text) in [("README.txt", README), ("test.sh", &tests)] {
        fs::write(out.join(name), text).map_err(|e| failed_to("write", Path::new(name), e))?;
    }
    for folder in TEST_DATA {
        let (from, to) = (
            root().join("tests").join(folder),
            out.join("tests").join(folder),
        );
        if to.exists() {
            fs::remove_dir_all(&to).map_err(|e| failed_to("empty", &to, e))?;
        }
        copy_folder(&from, &to)?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> Outcome {
    fs::create_dir_all(to).map_err(|e| failed_to("create directory", to, e))?;
    for path in listed(from)? {
        let Some(name) = path.file_name() else {
            continue;
        };
        // Python bytecode, or a module of a development build.
        if name == "__pycache__" || path.extension().is_some_and(|e| e == "so") {
            continue;
        }
        if path.is_dir() {
            copy_folder(&path, &to.join(name))?
        } else {
            fs::copy(&path, to.join(name)).map_err(|e| failed_to("copy", &path, e))?;
        }
    }
    Ok(())
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| failed_to("read", folder, e))?;
    let paths = entries.map(|entry| entry.map(|e| e.path()));
    let paths: std::io::Result<Vec<PathBuf>> = paths.collect();
    paths.map_err(|e| failed_to("read", folder, e))
}

/// Whether `made` exists and is newer than its source.
fn up_to_date(made: &Path, from: &Path) -> bool {
    let written = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    matches!((written(made), written(from)), (Some(made), Some(from)) if made >= from)
}

/// The executables in cargo's JSON messages, with the names of their targets.
fn executables(messages: &str) -> Vec<(String, PathBuf)> {
    let path = |line: &str| {
        let rest = line.split_once("\"executable\":\"")?.1;
        Some(PathBuf::from(rest.split_once('"')?.0))
    };
    // `target/debug/deps/filetests-5ee34a62b3b84607`.
    let name = |path: &Path| {
        let file = path.file_name()?.to_string_lossy().into_owned();
        Some(file.rsplit_once('-')?.0.to_string())
    };
    let found = messages.lines().filter_map(path);
    found
        .filter_map(|path| Some((name(&path)?, path)))
        .collect()
}

/// Runs the programs in an empty directory without an environment.
fn try_out(out: &Path, wanted: &[&str]) -> Outcome {
    let empty = target().join("bundle-try");
    let failed = |e: std::io::Error| format!("cannot create an empty directory: {e}");
    fs::create_dir_all(&empty).map_err(failed)?;
    for (program, words) in [
        ("wuji", &["doctor"][..]),
        ("wuji", &["example", "julia", "--frames", "2"]),
        ("wuji-bench", &["--help"]),
    ] {
        if !wanted.contains(&program) {
            continue;
        }
        let mut command = Command::new(out.join(program));
        command.args(words).env_clear().current_dir(&empty);
        command.env("WUJI_CACHE", "off");
        try_one(&mut command)?;
    }
    if TESTS.iter().any(|name| wanted.contains(name)) {
        let mut command = Command::new("sh");
        command.arg(out.join("test.sh")).arg("bounds");
        try_one(command.current_dir(&empty))?;
    }
    fs::remove_dir_all(&empty).map_err(failed)
}

fn try_one(command: &mut Command) -> Outcome {
    let done = command.output();
    let done = done.map_err(|e| format!("`{}` does not start: {e}", spelled(command)))?;
    if done.status.success() {
        return Ok(());
    }
    let said = [&done.stdout[..], &done.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    Err(format!("`{}` has failed:\n{said}", spelled(command)))
}

/// Packs the bundle into one archive, if `tar` and `xz` are installed.
fn pack(out: &Path) -> Outcome {
    if !on_path("tar") || !on_path("xz") {
        println!("no archive: `tar` and `xz` are required");
        return Ok(());
    }
    let archive = out.with_extension("tar.xz");
    let (folder, name) = match (out.parent(), out.file_name()) {
        (Some(folder), Some(name)) => (folder, name),
        _ => return Err(format!("{} cannot be packed", out.display())),
    };
    let mut command = Command::new("tar");
    // The archive contains LLVM twice, next to the programs and in the wheel, and programs have much in common. A large
    // dictionary compresses them once.
    let window = "--lzma2=preset=6,dict=256MiB";
    command.env("XZ_OPT", window).arg("-cJf").arg(&archive);
    run(command.arg("-C").arg(folder).arg(name))?;
    let bytes = fs::metadata(&archive)
        .map_err(|e| format!("cannot find the archive: {e}"))?
        .len();
    let shown = bytes as f64 / 1e6;
    println!("the archive is {} ({shown:.1} MB)", archive.display());
    if bytes > MOST_BYTES {
        let most = MOST_BYTES as f64 / 1e6;
        return Err(format!(
            "the archive has {shown:.1} MB, more than {most:.0} MB"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let said = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"wuji\"},\"executable\":null}\n",
            "{\"reason\":\"compiler-artifact\",\"executable\":\"/t/deps/filetests-0a1b\",\"fresh\":true}\n",
            "{\"reason\":\"build-finished\",\"success\":true}\n",
        );
        let found = executables(said);
        let path = PathBuf::from("/t/deps/filetests-0a1b");
        assert_eq!(found, [("filetests".to_string(), path)]);
    }

    #[test]
    fn bundles_skip_tests_that_need_the_workspace() {
        assert_eq!(run_line("filetests"), "run filetests \"$@\"");
        assert_eq!(run_line("suite"), "run suite \"$@\" --skip ptx::");
        let api = "run api \"$@\" --skip cuda::";
        assert_eq!(run_line("api"), api);
    }

    #[test]
    fn parts_are_chosen_by_name() {
        let all = PROGRAMS.len() + TESTS.len() + 1;
        assert_eq!(wanted(None).map(|names| names.len()), Ok(all));
        assert_eq!(wanted(Some("wuji,api")), Ok(vec!["wuji", "api"]));
        assert!(wanted(Some("nothing")).is_err());
    }
}
