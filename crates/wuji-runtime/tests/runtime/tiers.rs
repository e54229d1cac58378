//! All tiers of code give the same results, and code is replaced during running launches.

use crate::process::only;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wuji_compile::{Math, Options};
use wuji_ir::module::Module;
use wuji_runtime::{Bindings, Device, DeviceOptions, Memory, Program, Tier};

fn device(tier: Tier, threads: usize) -> Device {
    Device::new(&DeviceOptions {
        threads: Some(threads),
        tier,
        ..DeviceOptions::default()
    })
    .unwrap()
}

const N: usize = 4096;

/// A kernel over `N` floats, whose loop has `body`: `v0` is the index, `v1` the element, `v9` the stored value.
fn kernel(body: &str) -> Module {
    let text = format!(
        "module \"k\"\ntree T0 {{ dense S1 [i: {N}] {{ place f0 }} }}\nfield f0 \"x\": f32 in T0.S1 (i)\n\
         kernel fn0 \"k\"() {{\nforeach L0 (v0: i32) in f0 {{\nv1: f32 = load f0[v0]\n{body}\n\
         store f0[v0], v9\ncontinue L0\n}}\nreturn\n}}\n"
    );
    wuji_ir::text::parse(&text, "tiers.wir").unwrap_or_else(|e| panic!("{e}"))
}

/// Adds one, slowly: each element runs an inner loop.
fn slow_increment() -> Module {
    kernel(
        "v2: i32 = const 0\nv3: i32 = const 200\nv4: i32 = const 1\nv5: f32 = const 0.005\n\
         v6: f32 = for L1 v7: i32 in v2..v3 step v4 (v8: f32 = v1) {\nv10: f32 = add v8, v5\n\
         v11: f32 = min v10, v10\ncontinue L1 (v11)\n}\nv12: f32 = const 1.0\nv9: f32 = add v1, v12",
    )
}

/// Adds one, by a long chain that LLVM takes long to compile.
fn long_increment(length: usize) -> Module {
    let mut body = String::from("v2: f32 = const 1.5\nv100: f32 = mul v1, v2\n");
    for k in 101..101 + length {
        let op = ["add", "mul", "max"][k % 3];
        let _ = writeln!(
            body,
            "v{k}: f32 = {op} v{}, v{}",
            k - 1,
            100 + (k * 7) % (k - 100)
        );
    }
    let last = 100 + length;
    let _ = writeln!(
        body,
        "v3: bool = eq v{last}, v2\nv4: f32 = const 1.0\nv5: f32 = add v1, v4\nv9: f32 = select v3, v5, v5"
    );
    kernel(&body)
}

fn run(device: &Device, program: &Program, memory: &Memory) -> wuji_ir::Result<()> {
    let bindings = Bindings {
        params: &[],
        trees: &[memory],
        arrays: &[],
    };
    device.run(program, &bindings).map(|_| ())
}

fn memory(device: &Device, start: impl Fn(usize) -> f32) -> Memory {
    let memory = device.reserve(4 * N as u64).unwrap();
    let mut guard = memory.lock().unwrap();
    for (k, bytes) in guard.bytes_mut().chunks_exact_mut(4).take(N).enumerate() {
        bytes.copy_from_slice(&start(k).to_le_bytes());
    }
    drop(guard);
    memory
}

fn bits(memory: &Memory) -> Vec<u32> {
    let guard = memory.lock().unwrap();
    let words = guard.bytes().chunks_exact(4).take(N);
    words
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

#[test]
fn forced_tiers() {
    for (tier, threads) in [(Tier::Fast, 1), (Tier::Best, 2), (Tier::Scalar, 2)] {
        let device = device(tier, threads);
        let program = device.load(slow_increment(), &Options::default()).unwrap();
        let x = memory(&device, |k| k as f32);
        for _ in 0..3 {
            run(&device, &program, &x).unwrap();
        }
        device.finish_compiling(&program).unwrap();
        assert_eq!(program.tier(), Some(tier));
        assert_eq!(f32::from_bits(bits(&x)[5]), 8.0);
    }
}

#[test]
fn hot_kernels_get_the_best_tier() {
    let device = device(Tier::Auto, 2);
    let program = device.load(slow_increment(), &Options::default()).unwrap();
    let x = memory(&device, |_| 0.0);
    let mut launches = 0;
    let started = Instant::now();
    while program.tier() == Some(Tier::Fast) {
        run(&device, &program, &x).unwrap();
        launches += 1;
        assert!(started.elapsed() < Duration::from_secs(60), "never hot");
    }
    run(&device, &program, &x).unwrap();
    assert!(
        bits(&x)
            .iter()
            .all(|b| f32::from_bits(*b) == (launches + 1) as f32)
    );
}

#[test]
fn cold_kernels_keep_the_fast_tier() {
    let device = device(Tier::Auto, 1);
    let program = device.load(kernel("v9: f32 = add v1, v1"), &Options::default());
    let program = program.unwrap();
    let x = memory(&device, |_| 1.0);
    run(&device, &program, &x).unwrap();
    assert_eq!(program.tier(), Some(Tier::Fast));
    device.finish_compiling(&program).unwrap();
    assert_eq!(program.tier(), Some(Tier::Best));
    run(&device, &program, &x).unwrap();
    assert!(bits(&x).iter().all(|b| f32::from_bits(*b) == 4.0));
}

#[test]
fn a_long_launch_switches_to_better_code() {
    let device = device(Tier::Auto, 2);
    let text = "module \"k\"\ntree T0 { dense S1 [i: 2048] { place f0 } }\nfield f0 \"x\": i32 in T0.S1 (i)\n\
        kernel fn0 \"k\"() {\nforeach L0 (v0: i32) in f0 {\nv1: i32 = const 0\nv2: i32 = const 100000\nv3: i32 = const 1\n\
        v4: i32 = for L1 v5: i32 in v1..v2 step v3 (v6: i32 = v0) {\nv7: i32 = mul v6, v6\nv8: i32 = xor v7, v5\n\
        continue L1 (v8)\n}\nstore f0[v0], v4\ncontinue L0\n}\nreturn\n}\n";
    let module = wuji_ir::text::parse(text, "long.wir").unwrap();
    let program = device.load(module, &Options::default()).unwrap();
    let x = device.reserve(4 * 2048).unwrap();
    run(&device, &program, &x).unwrap();
    // The launch takes hundreds of milliseconds: long enough to become hot, and to be recompiled.
    assert_eq!(program.tier(), Some(Tier::Best));
    let expected = |k: i32| (0..100_000).fold(k, |a: i32, i| a.wrapping_mul(a) ^ i);
    let guard = x.lock().unwrap();
    for k in [0, 1, 1000, 2047] {
        let b = &guard.bytes()[4 * k..][..4];
        assert_eq!(
            i32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            expected(k as i32)
        );
    }
}

/// In strict mode: the same bits from all tiers, on one thread and several.
#[test]
fn all_tiers_give_the_same_bits() {
    let bodies = [
        "v2: f32 = mul v1, v1\nv3: f32 = const 0.3\nv4: f32 = mul v2, v3\nv5: f32 = add v4, v1\nv6: f32 = div v5, v3\nv9: f32 = sub v6, v2",
        "v2: f32 = sin v1\nv3: f32 = exp v2\nv4: f32 = mul v3, v2\nv5: f32 = sub v1, v4\nv6: f32 = sqrt v3\nv9: f32 = add v5, v6",
        "v2: f32 = const 3.0\nv3: f32 = rem v1, v2\nv4: f32 = floor v1\nv5: f32 = max v3, v4\nv6: f64 = convert v5\nv7: f64 = mul v6, v6\nv8: f32 = convert v7\nv9: f32 = min v8, v1",
        "v2: i32 = const 0\nv3: i32 = const 30\nv4: i32 = const 1\nv5: f32 = const 0.9\nv9: f32 = for L1 v7: i32 in v2..v3 step v4 (v8: f32 = v1) {\nv10: f32 = mul v8, v5\nv11: f32 = add v10, v1\nv12: bool = lt v11, v1\nv13: f32 = if v12 {\nv14: f32 = mul v11, v11\nv15: f32 = add v14, v10\nyield v15\n} else {\nyield v11\n}\ncontinue L1 (v13)\n}",
        "v2: f16 = convert v1\nv3: f16 = mul v2, v2\nv4: f16 = add v3, v2\nv5: f32 = convert v4\nv6: i32 = convert v1\nv7: f32 = convert v6\nv9: f32 = add v5, v7",
    ];
    let options = Options {
        math: Math::Strict,
        ..Options::default()
    };
    for body in bodies {
        let result = |tier, threads| {
            let device = device(tier, threads);
            let program = device.load(kernel(body), &options).unwrap();
            let x = memory(&device, |k| (k as f32 - 2000.0) * 0.37 + 1e-3);
            for _ in 0..3 {
                run(&device, &program, &x).unwrap();
            }
            bits(&x)
        };
        let expected = result(Tier::Best, 1);
        assert_eq!(result(Tier::Fast, 1), expected, "{body}");
        assert_eq!(result(Tier::Fast, 3), expected, "{body}");
        assert_eq!(result(Tier::Best, 3), expected, "{body}");
        assert_eq!(result(Tier::Scalar, 3), expected, "{body}");
    }
}

#[test]
fn many_threads_launch_while_code_changes() {
    let device = device(Tier::Auto, 2);
    let program = device
        .load(long_increment(600), &Options::default())
        .unwrap();
    let x = memory(&device, |_| 0.0);
    let each = 40;
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for k in 0..each {
                    run(&device, &program, &x).unwrap();
                    if k == each / 2 {
                        device.finish_compiling(&program).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(program.tier(), Some(Tier::Best));
    assert!(
        bits(&x)
            .iter()
            .all(|b| f32::from_bits(*b) == 6.0 * each as f32)
    );
}

#[test]
fn programs_and_devices_can_be_dropped_during_a_compilation() {
    for wait in [0, 1, 5, 20] {
        let device = device(Tier::Auto, 1);
        let x = memory(&device, |_| 0.0);
        let programs: Vec<Program> = (0..4)
            .map(|k| {
                device
                    .load(long_increment(400 + k), &Options::default())
                    .unwrap()
            })
            .collect();
        // Request all of them, and drop the programs during the compilation.
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (done, first, device) = (&done, &programs[0], &device);
            scope.spawn(move || {
                device.finish_compiling(first).unwrap();
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                for p in &programs[1..] {
                    run(device, p, &x).unwrap();
                }
            }
        });
        std::thread::sleep(Duration::from_millis(wait));
        drop(programs);
        drop(x);
        drop(device);
    }
}

/// Set in processes that exit while they compile in the background.
const EXITS: &str = "WUJI_TEST_EXIT_WHILE_COMPILING";

/// Exits with code 7, this long after the compilation of the best tier was requested.
fn exit_while_compiling(wait: Duration) -> ! {
    // Neither device nor program is ever dropped.
    let device = Box::leak(Box::new(device(Tier::Auto, 2)));
    let program = device.load(long_increment(3000), &Options::default());
    let program = Box::leak(Box::new(program.unwrap()));
    let device: &Device = device;
    std::thread::spawn(move || device.finish_compiling(program));
    std::thread::sleep(wait);
    std::process::exit(7);
}

/// A process that exits during a background compilation exits promptly and cleanly. The test starts itself.
#[test]
fn exit_during_a_compilation() {
    if std::env::var_os(EXITS).is_some() {
        exit_while_compiling(Duration::from_millis(30));
    }
    let started = Instant::now();
    let child = only("tiers::exit_during_a_compilation")
        .env(EXITS, "1")
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(7), "{child:?}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// The first tier comes from the cache, so LLVM runs in the background only. The globals that it creates there are not
/// destroyed while it runs. The test starts itself.
#[test]
fn exit_during_the_only_compilation() {
    if let Some(wait) = std::env::var_os(EXITS) {
        let wait = wait.to_str().unwrap().parse().unwrap();
        exit_while_compiling(Duration::from_millis(wait));
    }
    let cache = std::env::temp_dir().join(format!("wuji-exit-{}", std::process::id()));
    for wait in (0..48).step_by(3) {
        let child = only("tiers::exit_during_the_only_compilation")
            .env(EXITS, wait.to_string())
            .env("WUJI_CACHE", "on")
            .env("WUJI_CACHE_DIR", &cache)
            .output()
            .unwrap();
        assert_eq!(child.status.code(), Some(7), "{wait} ms: {child:?}");
        forget_best_tier(&cache);
    }
    std::fs::remove_dir_all(&cache).unwrap();
}

fn forget_best_tier(cache: &std::path::Path) {
    for entry in std::fs::read_dir(cache).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with("-best.wuji") {
            std::fs::remove_file(path).unwrap();
        }
    }
}
