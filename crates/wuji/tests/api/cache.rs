//! The kernel cache: cached kernels behave like compiled ones, and a damaged or missing cache does no harm.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use wuji::prelude::*;
use wuji::{CacheChoice, Level};

#[kernel]
fn scaled(x: &Field<f32, 2>, y: &Field<f32, 2>, by: f32) -> f32 {
    let mut sum = 0.0;
    for [i, j] in x {
        y[[i, j]] = x[[i, j]] * by + i as f32;
        sum += y[[i, j]];
    }
    sum
}

#[kernel]
fn outside(x: &Field<f32, 2>) {
    for [i, j] in x {
        assert!(i < 7, "row {} is too far", i);
        x[[i + 1, j]] = 1.0;
    }
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("wuji-world-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn world(&self, tier: Tier) -> World {
        let choice = CacheChoice::Folder(self.0.clone());
        World::builder().cache(choice).tier(tier).build().unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.0).unwrap().map(|f| f.unwrap().path());
        let mut files: Vec<PathBuf> = files.collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700));
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The result of `scaled`, what it wrote, and whether its code was cached.
fn run(world: &World) -> (f32, Vec<f32>, bool) {
    let x = world.field::<f32, 2>("x", [8, 16]).unwrap();
    let y = world.field::<f32, 2>("y", [8, 16]).unwrap();
    x.copy_from(&(0..128).map(|n| n as f32).collect::<Vec<_>>())
        .unwrap();
    let sum = scaled(&x, &y, 2.0).unwrap();
    let history = world.kernel_history();
    let kernel = history.iter().find(|k| k.name == "scaled").unwrap();
    (sum, y.to_vec().unwrap(), kernel.compilations[0].cached)
}

#[test]
fn a_second_world_hits_the_cache() {
    for tier in [Tier::Fast, Tier::Best, Tier::Auto] {
        let folder = Folder::new(&format!("{tier:?}"));
        let first = run(&folder.world(tier));
        let second = run(&folder.world(tier));
        assert!(!first.2 && second.2, "{tier:?}");
        assert_eq!((first.0, first.1), (second.0, second.1));
    }
}

#[test]
fn optimized_code_is_cached_and_preferred() {
    let folder = Folder::new("better");
    let world = folder.world(Tier::Auto);
    run(&world);
    world.finish_compiling().unwrap();
    let world = folder.world(Tier::Auto);
    let (_, _, cached) = run(&world);
    assert!(cached);
    let history = world.kernel_history();
    let kernel = history.iter().find(|k| k.name == "scaled").unwrap();
    assert_eq!(kernel.compilations.len(), 1);
    assert_eq!(kernel.compilations[0].tier, Tier::Best);
    assert!(world.explain().iter().any(|r| r.task.starts_with("scaled")));
}

/// Quick code from the cache is exchanged for better code as if it had been compiled.
#[test]
fn quick_code_from_the_cache_gets_better() {
    let folder = Folder::new("quick");
    let first = run(&folder.world(Tier::Fast));
    let world = folder.world(Tier::Auto);
    let second = run(&world);
    assert!(second.2);
    world.finish_compiling().unwrap();
    let third = run(&world);
    assert_eq!((first.0, &first.1), (third.0, &third.1));
    let history = world.kernel_history();
    let kernel = history.iter().find(|k| k.name == "scaled").unwrap();
    let tiers: Vec<Tier> = kernel.compilations.iter().map(|c| c.tier).collect();
    assert_eq!(tiers, [Tier::Fast, Tier::Best]);
}

#[test]
fn errors_are_the_same_from_the_cache() {
    let folder = Folder::new("errors");
    let mut errors = Vec::new();
    for _ in 0..2 {
        let world = folder.world(Tier::Auto);
        let x = world.field::<f32, 2>("x", [8, 16]).unwrap();
        errors.push(outside(&x).unwrap_err().to_string());
    }
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].contains("row 7 is too far"), "{}", errors[0]);
}

#[test]
fn layouts_and_options_are_part_of_the_cache_key() {
    let folder = Folder::new("others");
    let world = folder.world(Tier::Best);
    run(&world);
    let x = world
        .layout(|root| root.dense(JI, [16, 8]).place::<f32, 2>("x"))
        .unwrap();
    let y = world.field::<f32, 2>("y", [8, 16]).unwrap();
    scaled(&x, &y, 2.0).unwrap();
    let history = world.kernel_history();
    let kernels = history.iter().filter(|k| k.name == "scaled");
    assert_eq!(kernels.filter(|k| k.compilations[0].cached).count(), 0);
    let choice = CacheChoice::Folder(folder.0.clone());
    let builder = World::builder().cache(choice).tier(Tier::Best);
    let world = builder.math(Math::Strict).build().unwrap();
    assert!(!run(&world).2);
}

#[test]
fn damaged_entries_are_recompiled_and_repaired() {
    let folder = Folder::new("damaged");
    let first = run(&folder.world(Tier::Best));
    for damage in [0, 9, 40, 200, 4000] {
        for file in folder.files() {
            let mut bytes = fs::read(&file).unwrap();
            let at = damage % bytes.len();
            bytes[at] ^= 0x10;
            fs::write(&file, bytes).unwrap();
        }
        let again = run(&folder.world(Tier::Best));
        assert_eq!((again.0, &again.1, again.2), (first.0, &first.1, false));
        assert!(run(&folder.world(Tier::Best)).2, "repaired");
    }
    for file in folder.files() {
        fs::write(&file, b"").unwrap();
    }
    assert!(!run(&folder.world(Tier::Best)).2);
}

#[test]
fn a_read_only_cache_folder_only_costs_time() {
    let folder = Folder::new("readonly");
    let world = folder.world(Tier::Best);
    // Root may write everywhere, so what is there is made unusable in another way.
    fs::remove_dir(&folder.0).unwrap();
    fs::write(&folder.0, "in the way").unwrap();
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    world.on_log(move |level, line| kept.lock().unwrap().push(format!("{level}: {line}")));
    assert!(!run(&world).2);
    let lines = lines.lock().unwrap();
    assert!(lines[0].starts_with("warn: cannot"), "{lines:?}");
    fs::remove_file(&folder.0).unwrap();
}

/// On a disk of 64 kB that is full: only who may mount one can try.
#[test]
fn a_full_disk_only_costs_time() {
    let folder = Folder::new("full-disk");
    fs::create_dir(&folder.0).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
    let mount = |arguments: &[&str]| {
        let done = std::process::Command::new("mount").args(arguments).output();
        done.is_ok_and(|d| d.status.success())
    };
    let path = folder.0.to_str().unwrap();
    if !mount(&["-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", path]) {
        eprintln!("skipped: no disk can be mounted here");
        return;
    }
    fs::write(folder.0.join("fills"), [1; 8 << 10]).unwrap();
    let mut n = 0;
    while fs::write(folder.0.join(format!("fills-{n}")), [1; 4 << 10]).is_ok() {
        n += 1;
    }
    let world = folder.world(Tier::Best);
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = lines.clone();
    world.on_log(move |_, line| kept.lock().unwrap().push(line.to_owned()));
    let first = run(&world);
    let second = run(&folder.world(Tier::Best));
    let left: Vec<PathBuf> = folder.files();
    let unmounted = std::process::Command::new("umount").arg(path).status();
    assert!(unmounted.is_ok_and(|s| s.success()));
    assert!(!first.2 && !second.2);
    assert_eq!((first.0, first.1), (second.0, second.1));
    let lines = lines.lock().unwrap();
    assert!(
        lines.iter().any(|l| l.contains("No space left on device")),
        "{lines:?}"
    );
    // Nothing half-written stays.
    let fills = |p: &&PathBuf| !p.to_string_lossy().contains("fills");
    assert_eq!(left.iter().filter(fills).count(), 0, "{left:?}");
}

#[test]
fn a_named_folder_that_cannot_be_made_is_an_error() {
    let choice = CacheChoice::Folder(Path::new("/proc/wuji/cache").to_owned());
    let error = World::builder().cache(choice).build().unwrap_err();
    assert_eq!(error.code, "W0512");
    assert!(error.message.contains("/proc/wuji/cache"), "{error}");
}

#[test]
fn logs_state_whether_code_was_cached() {
    let folder = Folder::new("log");
    let mut all = Vec::new();
    for _ in 0..2 {
        let world = folder.world(Tier::Best);
        world.set_log_level(Level::Info);
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = lines.clone();
        world.on_log(move |level, line| kept.lock().unwrap().push(format!("{level}: {line}")));
        run(&world);
        let lines = lines.lock().unwrap();
        all.push(
            lines
                .iter()
                .find(|l| l.contains("`scaled`"))
                .unwrap()
                .clone(),
        );
    }
    assert!(
        all[0].starts_with("info: kernel `scaled`: compiled in"),
        "{all:?}"
    );
    assert_eq!(all[1], "info: kernel `scaled`: code found in the cache");
}

#[test]
fn the_profiler_knows_tasks_and_steps() {
    let folder = Folder::new("profile");
    let world = folder.world(Tier::Best);
    run(&world);
    assert!(world.profiler().report().tasks().is_empty());
    world.profiler().start();
    for _ in 0..3 {
        run(&world);
    }
    world.profiler().stop();
    run(&world);
    let report = world.profiler().report();
    let tasks = report.tasks();
    let scaled = tasks.iter().filter(|t| t.name.starts_with("scaled"));
    let scaled = scaled.max_by_key(|t| t.iterations).unwrap();
    assert_eq!((scaled.count, scaled.iterations), (3, 3 * 128));
    assert!(scaled.at.as_ref().unwrap().file.ends_with("cache.rs"));
    assert!(scaled.least <= scaled.most && scaled.most <= scaled.total);
    assert!(report.steps().iter().any(|s| s.0 == "llvm: optimize"));
    assert!(report.steps().iter().any(|s| s.0 == "vectorize"));
    let text = report.to_string();
    assert!(
        text.contains("scaled.1") && text.contains("compiler"),
        "{text}"
    );
    let history = world.kernel_history();
    let kernel = history.iter().find(|k| k.name == "scaled").unwrap();
    assert_eq!(kernel.launches, 5);
    assert!(kernel.task_count >= 1 && kernel.instructions > 10);
    let trace = world.profiler().trace();
    assert!(trace.starts_with("{\"displayTimeUnit\"") && trace.contains("\"cat\":\"launch\""));
    world.profiler().clear();
    assert!(world.profiler().report().tasks().is_empty());
    let error = world
        .profiler()
        .write_trace("/proc/none/trace.json")
        .unwrap_err();
    assert_eq!(error.code, "W0513");
}

#[test]
fn compilations_report_progress() {
    let folder = Folder::new("progress");
    let world = folder.world(Tier::Best);
    let events: Arc<Mutex<Vec<(String, String, usize, usize)>>> = Arc::default();
    let kept = events.clone();
    world.on_compile(move |p| {
        let step = (p.kernel.to_owned(), p.step.to_owned(), p.done, p.of);
        kept.lock().unwrap().push(step);
    });
    run(&world);
    let events = events.lock().unwrap();
    let steps: Vec<_> = events.iter().filter(|t| t.0 == "scaled").collect();
    assert_eq!((steps[0].1.as_str(), steps[0].2), ("split_fields", 1));
    let last = steps.last().unwrap();
    assert_eq!((last.1.as_str(), last.2), ("machine code", last.3));
    assert!(steps.is_sorted_by(|a, b| a.2 < b.2), "{steps:?}");
}

#[test]
fn background_compilations_report_progress() {
    // With first code from the cache, all passes are left for the background.
    for (from_cache, first_pass) in [(false, "vectorize"), (true, "split_fields")] {
        let folder = Folder::new(&format!("behind-{first_pass}"));
        if from_cache {
            run(&folder.world(Tier::Fast));
        }
        let world = folder.world(Tier::Auto);
        let events: Arc<Mutex<Vec<(String, usize, usize, Tier)>>> = Arc::default();
        let waited_for = Arc::new(Mutex::new(0));
        let (kept, waited) = (events.clone(), waited_for.clone());
        world.on_compile(move |p| {
            if p.kernel != "scaled" {
            } else if p.background {
                let step = (p.step.to_owned(), p.done, p.of, p.tier);
                kept.lock().unwrap().push(step);
                // A listener that panics there does no harm.
                assert!(p.step != "legality", "on purpose");
            } else {
                assert_eq!(p.tier, Tier::Fast);
                *waited.lock().unwrap() += 1;
            }
        });
        run(&world);
        world.finish_compiling().unwrap();
        assert_eq!(*waited_for.lock().unwrap() == 0, from_cache);
        let events = events.lock().unwrap();
        assert!(events.iter().all(|t| t.3 == Tier::Best), "{events:?}");
        assert_eq!((events[0].0.as_str(), events[0].1), (first_pass, 1));
        let last = events.last().unwrap();
        assert_eq!((last.0.as_str(), last.1), ("machine code", last.2));
        assert!(events.is_sorted_by(|a, b| a.1 < b.1), "{events:?}");
    }
}

#[test]
fn worlds_know_their_trees() {
    let world = World::cpu().unwrap();
    let a = world.field::<f32, 1>("a", 1000).unwrap();
    let (b, _c) = world
        .layout(|root| {
            let block = root.pointer(I, 8).dense(I, 8);
            (block.place::<f32, 1>("b"), block.place::<i32, 1>("c"))
        })
        .unwrap();
    b.set(9, 1.0).unwrap();
    let report = world.memory_report().unwrap();
    assert_eq!(report.trees[0].0, ["a"]);
    assert_eq!(report.trees[1].0, ["b", "c"]);
    assert_eq!(report.trees[1].1.nodes[1].active, 1);
    assert!(report.bytes() >= 4000);
    assert!(report.to_string().ends_with("bytes"), "{report}");
    drop(a);
    assert_eq!(world.memory_report().unwrap().trees.len(), 1);
    for _ in 0..1000 {
        world.field::<f32, 1>("short", 1).unwrap();
    }
    assert_eq!(world.memory_report().unwrap().trees.len(), 1);
}
