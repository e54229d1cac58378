//! Analyses and code in the kernel cache.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use wuji::{CacheChoice, Level, World};
use wuji_symbolic::applications::{laplacian, mesh};
use wuji_symbolic::{Csr, Options, Program, Sym};

/// A folder that is removed when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("wuji-traced-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    /// A world that caches in the folder, and what it logs.
    fn world(&self) -> (World, Arc<Mutex<Vec<String>>>) {
        let choice = CacheChoice::Folder(self.0.clone());
        let world = World::builder().threads(2).cache(choice).log(Level::Info);
        let world = world.build().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        world.on_log(move |_, line| lines.lock().unwrap().push(line.to_owned()));
        (world, log)
    }

    /// The entries of analyses.
    fn analyses(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(&self.0).unwrap().flatten();
        let is_data = |path: &PathBuf| path.to_string_lossy().ends_with("-data.wuji");
        files.map(|file| file.path()).filter(is_data).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a program, and returns its results and whether its analysis was cached.
fn run(world: &World, options: &Options) -> (Csr<f64>, bool) {
    let mesh::Mesh { elements, points } = mesh::grid(6);
    let compute = |x: Vec<Sym>| laplacian::cotan(&elements, &x).map(|(matrix, _)| matrix);
    let program = Program::trace_with(world, options, &points, compute).unwrap();
    let cached = program.explain().cached;
    let text = program.explain().to_string();
    assert_eq!(text.contains("from the kernel cache"), cached, "{text}");
    (program.run(&points).unwrap(), cached)
}

fn compilations(world: &World) -> usize {
    let kernels = world.kernel_history();
    let all = kernels.iter().filter(|k| k.name == "traced");
    all.flat_map(|k| &k.compilations)
        .filter(|c| !c.cached)
        .count()
}

#[test]
fn a_trace_that_was_seen_before_is_neither_analyzed_nor_compiled() {
    let folder = Folder::new("again");
    let (first, _) = folder.world();
    let (expected, cached) = run(&first, &Options::default());
    assert!(!cached && compilations(&first) > 0);
    first.finish_compiling().unwrap();
    drop(first);
    let (second, log) = folder.world();
    assert_eq!(run(&second, &Options::default()), (expected, true));
    assert_eq!(compilations(&second), 0, "{:?}", log.lock().unwrap());
    assert_eq!(folder.analyses().len(), 1);
}

#[test]
fn other_options_are_another_entry() {
    let folder = Folder::new("options");
    let (world, _) = folder.world();
    assert!(!run(&world, &Options::default()).1);
    assert!(!run(&world, &Options::none()).1);
    assert!(run(&world, &Options::none()).1);
    assert_eq!(folder.analyses().len(), 2);
}

/// Writes a wrong entry, and expects that it is ignored with a message and replaced.
fn expect_ignored(folder: &Folder, write: impl Fn(&Path), why: &str) {
    let (world, _) = folder.world();
    let (expected, _) = run(&world, &Options::default());
    let [entry] = &folder.analyses()[..] else {
        panic!("one entry");
    };
    write(entry);
    let (world, log) = folder.world();
    assert_eq!(run(&world, &Options::default()), (expected, false));
    let log = log.lock().unwrap().join("\n");
    let message = format!("-data.wuji is not used: {why}");
    assert!(log.contains(&message), "{message} in {log}");
    assert!(run(&world, &Options::default()).1);
}

#[test]
fn damaged_entries_are_ignored() {
    let folder = Folder::new("damaged");
    let damage = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(path, bytes).unwrap();
    };
    expect_ignored(&folder, damage, "it is damaged");
    let cut = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() / 3]).unwrap();
    };
    expect_ignored(&folder, cut, "it is damaged");
    let empty = |path: &Path| std::fs::write(path, b"").unwrap();
    expect_ignored(&folder, empty, "it is too short");
}

#[test]
fn entries_of_other_programs_are_ignored() {
    let other = Folder::new("other");
    let (world, _) = other.world();
    Program::trace(&world, &[0.5; 40][..], |x| x[0] * x[1] + x[2]).unwrap();
    let foreign = other.analyses().remove(0);
    let folder = Folder::new("foreign");
    let copy = |path: &Path| std::fs::copy(&foreign, path).map(|_| ()).unwrap();
    expect_ignored(&folder, copy, "it belongs to another kernel");
}

#[test]
fn worlds_without_a_cache_store_nothing() {
    let world = crate::world();
    assert!(!run(&world, &Options::default()).1);
    assert!(!run(&world, &Options::default()).1);
}
