//! A kernel whose vectorized code is slow falls back to scalar code, now and in later processes.

use super::program::NativeProgram;
use super::versions::{CodeVersion, NextStep};
use crate::cache::Choice;
use crate::device::Device;
use crate::launch::Bindings;
use crate::memory::Memory;
use crate::options::DeviceOptions;
use crate::program::Program;
use crate::tier::Tier;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wuji_compile::{Decision, KeptCode, Options};
use wuji_ir::module::Module;
use wuji_llvm::{Effort, Jit, JitOptions};

const N: usize = 1 << 15;

/// Adds one to each element. A product of two neighbours is even, so its last bit adds nothing; it comes from a loop with this
/// many iterations.
fn increment(steps: usize) -> Module {
    let text = format!(
        "module \"k\"\nfile F0 \"k.rs\"\ntree T0 {{ dense S1 [i: {N}] {{ place f0 }} }}\nfield f0 \"x\": i32 in T0.S1 (i)\n\
         kernel fn0 \"k\"() {{\nforeach L0 (v0: i32) in f0 {{\nv1: i32 = load f0[v0]\n\
         v2: i32 = const 0\nv3: i32 = const {steps}\nv4: i32 = const 1\n\
         v5: i32 = for L1 v6: i32 in v2..v3 step v4 (v7: i32 = v1) {{\nv8: i32 = mul v7, v7\nv9: i32 = xor v8, v6\n\
         continue L1 (v9)\n}}\n\
         v10: i32 = add v5, v4\nv11: i32 = mul v5, v10\nv12: i32 = and v11, v4\nv13: i32 = add v1, v12\n\
         v14: i32 = add v13, v4\nstore f0[v0], v14\ncontinue L0\n}}\nreturn\n}}\n"
    );
    wuji_ir::text::parse(&text, "k.wir").unwrap_or_else(|e| panic!("{e}"))
}

/// A folder that is removed when the test ends.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> TestFolder {
        let path = std::env::temp_dir().join(format!("wuji-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        TestFolder(path)
    }

    fn file(&self, kind: &str) -> Option<PathBuf> {
        let files = std::fs::read_dir(&self.0).ok()?.flatten();
        let mut paths = files.map(|f| f.path());
        paths.find(|p| p.to_string_lossy().ends_with(&format!("-{kind}.wuji")))
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn device(folder: &Path, tier: Tier, threads: usize) -> Device {
    Device::new(&DeviceOptions {
        threads: Some(threads),
        tier,
        cache: Choice::Folder(folder.to_owned()),
        ..DeviceOptions::default()
    })
    .unwrap()
}

fn run(device: &Device, program: &Program, memory: &Memory) {
    let bindings = Bindings {
        params: &[],
        trees: &[memory],
        arrays: &[],
    };
    device.run(program, &bindings).unwrap();
}

/// Replaces code of the best tier by code that does the same, but takes long.
fn install_slow_code(program: &Program) {
    let native: &NativeProgram = program.executable().unwrap();
    assert_eq!(native.code.ask(), Some(NextStep::CompileBetter));
    assert!(native.code.begin().is_some());
    let slow = wuji_compile::compile_quickly(increment(3000), &Options::default()).unwrap();
    let jit = Jit::new(&JitOptions::default()).unwrap();
    let code = jit.compile_with(&slow, Effort::Fast).unwrap();
    // The kernel is one task.
    assert_eq!(code.tasks().len(), 1);
    native.code.versions.try_better(0, code, true);
    native.code.end(Ok(()));
}

/// Launches until every task is decided; returns the number of launches.
fn run_until_decided(device: &Device, program: &Program, memory: &Memory) -> i32 {
    let native: &NativeProgram = program.executable().unwrap();
    let started = Instant::now();
    let mut launches = 0;
    while !native.code.versions.is_final() {
        run(device, program, memory);
        launches += 1;
        assert!(started.elapsed() < Duration::from_secs(120), "no decision");
    }
    launches
}

fn versions(program: &Program) -> Vec<CodeVersion> {
    let native: &NativeProgram = program.executable().unwrap();
    let tasks = native.plan.tasks.iter().map(|t| t.number);
    tasks.map(|t| native.code.versions.newest(t)).collect()
}

fn assert_all(memory: &Memory, expected: i32) {
    let guard = memory.lock().unwrap();
    let words = guard.bytes().chunks_exact(4).take(N);
    let mut values = words.map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    assert!(values.all(|v| v == expected));
}

/// The decision about the loop, as `explain` shows it.
fn slower(device: &Device) -> Option<(KeptCode, bool, u32)> {
    device.remarks().iter().find_map(|r| match r.decision {
        Decision::Slower {
            kept,
            vectorized,
            percent,
        } => Some((kept, vectorized, percent)),
        _ => None,
    })
}

#[test]
fn slow_vectors_are_replaced_by_scalar_code() {
    for threads in [1, 2] {
        let folder = TestFolder::new(&format!("slow-{threads}"));
        let first = device(&folder.0, Tier::Auto, threads);
        let program = first.load(increment(3), &Options::default()).unwrap();
        let x = first.reserve(4 * N as u64).unwrap();
        run(&first, &program, &x);
        install_slow_code(&program);
        let launches = run_until_decided(&first, &program, &x);
        // Every chunk did the same, whatever code it ran.
        assert_all(&x, 1 + launches);
        assert_eq!(versions(&program), [CodeVersion::Scalar]);
        let (kept, vectorized, percent) = slower(&first).unwrap();
        assert_eq!((kept, vectorized), (KeptCode::Scalar, true));
        assert!(percent > 200, "{percent}");
        wait_for(&folder, "kept");
        drop((x, program, first));

        // Another process has code of the best tier, too.
        let best = device(&folder.0, Tier::Best, threads);
        best.load(increment(3), &Options::default()).unwrap();
        assert!(slower(&best).is_none());
        remembered(&folder, threads, percent);
        forgotten(&folder, threads);
    }
}

fn wait_for(folder: &TestFolder, kind: &str) {
    let started = Instant::now();
    while folder.file(kind).is_none() {
        assert!(started.elapsed() < Duration::from_secs(60), "no {kind}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The next process starts with the right code, and measures nothing.
fn remembered(folder: &TestFolder, threads: usize, percent: u32) {
    let device = device(&folder.0, Tier::Auto, threads);
    let program = device.load(increment(3), &Options::default()).unwrap();
    assert_eq!(program.tier(), Some(Tier::Best));
    assert_eq!(versions(&program), [CodeVersion::Scalar]);
    assert_eq!(slower(&device), Some((KeptCode::Scalar, true, percent)));
    let native: &NativeProgram = program.executable().unwrap();
    assert!(native.code.versions.is_final() && !native.code.is_watched());
    let x = device.reserve(4 * N as u64).unwrap();
    run(&device, &program, &x);
    assert_all(&x, 1);
}

/// A damaged decision counts as absent.
fn forgotten(folder: &TestFolder, threads: usize) {
    let path = folder.file("kept").unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let device = device(&folder.0, Tier::Auto, threads);
    let program = device.load(increment(3), &Options::default()).unwrap();
    assert_eq!(versions(&program), [CodeVersion::Better]);
    assert!(slower(&device).is_none());
    let x = device.reserve(4 * N as u64).unwrap();
    run(&device, &program, &x);
    assert_all(&x, 1);
}

/// Code from the cache that was never compared with scalar code is compared when the kernel is hot.
#[test]
fn unmeasured_code_from_the_cache_is_compared() {
    let folder = TestFolder::new("unmeasured");
    let best = device(&folder.0, Tier::Best, 2);
    best.load(increment(300), &Options::default()).unwrap();
    drop(best);
    let device = device(&folder.0, Tier::Auto, 2);
    let program = device.load(increment(300), &Options::default()).unwrap();
    let native: &NativeProgram = program.executable().unwrap();
    assert!(native.code.is_watched());
    let x = device.reserve(4 * N as u64).unwrap();
    let launches = run_until_decided(&device, &program, &x);
    assert_all(&x, launches);
    wait_for(&folder, "kept");
    assert!(!native.code.is_watched());
}

/// A world that fixes the order of sums fixes the code, too.
#[test]
fn deterministic_kernels_are_not_measured() {
    let folder = TestFolder::new("fixed");
    let device = device(&folder.0, Tier::Auto, 2);
    let options = Options {
        deterministic: true,
        ..Options::default()
    };
    let program = device.load(increment(3), &options).unwrap();
    let native: &NativeProgram = program.executable().unwrap();
    assert_eq!(program.tier(), Some(Tier::Best));
    assert!(!native.code.is_watched());
    let measured = |task| native.code.versions.is_measured(task);
    assert!(!native.plan.tasks.iter().any(|t| measured(t.number)));
}
