//! Textual kernels on two devices: the CPU and the interpreter.

use expect_test::{Expect, expect};
use wuji_compile::Options;
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::Outcome;
use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};
use wuji_runtime::{BackendKind, Collected, Device, DeviceOptions, Instance, ReportContext, Tier};

fn device(backend: BackendKind, threads: usize) -> Device {
    Device::new(&DeviceOptions {
        backend,
        threads: Some(threads),
        seed: 7,
        tier: Tier::Best,
        ..DeviceOptions::default()
    })
    .unwrap()
}

fn module(text: &str) -> Module {
    parse(text, "test.wir").unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a kernel on both devices with the given preparation, and compares the results of `look`.
fn both<R: PartialEq + std::fmt::Debug>(
    text: &str,
    params: &[Imm],
    prepare: impl Fn(&mut Instance<'_>),
    look: impl Fn(&mut Instance<'_>, &Outcome) -> R,
) -> R {
    let run = |backend, threads| {
        let device = device(backend, threads);
        let mut instance = Instance::new(&device, module(text), &Options::default())
            .unwrap_or_else(|e| panic!("{e}"));
        prepare(&mut instance);
        let outcome = instance.run(params, 7, 3).unwrap_or_else(|e| panic!("{e}"));
        look(&mut instance, &outcome)
    };
    let expected = run(BackendKind::Interpreter, 1);
    assert_eq!(run(BackendKind::Cpu, 1), expected);
    assert_eq!(run(BackendKind::Cpu, 4), expected);
    expected
}

fn f32s(values: impl IntoIterator<Item = f64>) -> Vec<Imm> {
    let one = |v| Imm::float(Scalar::F32, v);
    values.into_iter().map(one).collect()
}

const SAXPY: &str = r#"
module "saxpy"
tree T0 { dense S1 [i: 1000] { place f0 } }
tree T1 { dense S1 [i: 10] { dense S2 [i: 100] { place f1 } } }
field f0 "x": f32 in T0.S1 (i)
field f1 "y": f32 in T1.S2 (i)
param p0 "a": f32
kernel fn0 "saxpy"(v0: f32) {
  foreach L0 (v1: i32) in f0 {
    v2: f32 = load f0[v1]
    v3: f32 = mul v0, v2
    v4: f32 = load f1[v1]
    v5: f32 = add v3, v4
    store f1[v1], v5
    continue L0
  }
  return
}
"#;

#[test]
fn saxpy() {
    let (x, y) = (Field::from_u32(0), Field::from_u32(1));
    let sum = both(
        SAXPY,
        &f32s([2.0]),
        |instance| {
            instance.fill(x, &f32s((0..1000).map(f64::from))).unwrap();
            instance
                .fill(y, &f32s((0..1000).map(|k| f64::from(1000 - k))))
                .unwrap();
        },
        |instance, _| instance.field(y).unwrap(),
    );
    assert_eq!(sum, f32s((0..1000).map(|k| f64::from(1000 + k))));
}

const SUM: &str = r#"
module "sum"
tree T0 { place f0 }
field f0 "total": i64 in T0.S0 ()
array a0 "data": i32 rank 1
param p0 "n": i64
kernel fn0 "sum"(v0: i64) -> i64 {
  v1: i64 = const 0
  foreach L0 (v2: i64) in v1..v0 {
    v3: i32 = load a0[v2]
    v4: i64 = convert v3
    v5: i64 = atomic add f0[], v4
    continue L0
  }
  v6: i64 = load f0[]
  return v6
}
"#;

#[test]
fn results_arrays_and_run_time_bounds() {
    let data: Vec<Imm> = (0..5000).map(|k| Imm::int(Scalar::I32, k)).collect();
    let result = both(
        SUM,
        &[Imm::int(Scalar::I64, 6000)],
        |instance| {
            let a = Array::from_u32(0);
            instance.bind_values(a, &[5000], &data).unwrap();
        },
        |_, outcome| outcome.result.clone(),
    );
    let sum = 4999 * 5000 / 2;
    assert_eq!(result, Some(vec![Imm::int(Scalar::I64, sum)]));
}

const STRIDED: &str = r#"
module "transpose"
array a0 "from": f32 rank 2
array a1 "to": f32 rank 2 writable
kernel fn0 "transpose"() {
  v0: i64 = const 0
  v1: i64 = extent a0.0
  v2: i64 = extent a0.1
  foreach L0 (v3: i64, v4: i64) in v0..v1, v0..v2 {
    v5: f32 = load a0[v3, v4]
    store a1[v4, v3], v5
    continue L0
  }
  return
}
"#;

#[test]
fn arrays_with_strides_and_arrays_in_one_buffer() {
    let bytes: Vec<u8> = (0..48)
        .flat_map(|k: u32| (k as f32).to_ne_bytes())
        .collect();
    let moved = both(
        STRIDED,
        &[],
        |instance| {
            let buffer = instance.add_buffer(&bytes);
            // Reversed rows and every second column; the output follows in the same buffer.
            instance
                .bind(Array::from_u32(0), buffer, 64, &[3, 4], &[-32, 8])
                .unwrap();
            instance
                .bind(Array::from_u32(1), buffer, 96, &[4, 3], &[4, 16])
                .unwrap();
        },
        |instance, _| {
            let from = instance.array(Array::from_u32(0)).unwrap();
            (from, instance.array(Array::from_u32(1)).unwrap())
        },
    );
    let (from, to) = moved;
    assert_eq!(from[..5], f32s([16.0, 18.0, 20.0, 22.0, 8.0]));
    assert_eq!(to[..4], f32s([16.0, 8.0, 0.0, 18.0]));
    // Empty arrays.
    both(STRIDED, &[], |_| {}, |_, outcome| outcome.reports.len());
}

const OUTSIDE: &str = r#"
module "shift"
file F0 "shift.rs"
tree T0 { dense S1 [i: 100] { place f0 } }
field f0 "x": f32 in T0.S1 (i from -50)
param p0 "by": i32
message m0 "at {i32}: {f32:.1}"
kernel fn0 "shift"(v0: i32) {
  foreach L0 (v1: i32) in f0 {
    v2: i32 = add v1, v0
    v3: f32 = load f0[v2]
    v4: i32 = const 40
    v5: bool = gt v1, v4
    if v5 {
      print m0 (v1, v3)
      yield
    } else {
      yield
    }
    store f0[v2], v3 @F0:3:9
    continue L0
  }
  return
}
"#;

fn check_report(device: &Device, text: &str, params: &[u64], expected: Expect) -> Collected {
    let program = device.load(module(text), &Options::default()).unwrap();
    let trees: Vec<_> = program
        .module()
        .trees
        .values()
        .map(|_| device.reserve(1 << 16).unwrap())
        .collect();
    let outcome = device
        .run(
            &program,
            &wuji_runtime::Bindings {
                params,
                trees: &trees.iter().collect::<Vec<_>>(),
                arrays: &[],
            },
        )
        .unwrap();
    let collected = *outcome.collected.unwrap();
    let error = collected.error(&ReportContext {
        module: program.module(),
        field_name: &|_| None,
        array_extents: &[],
    });
    expected.assert_eq(&error.map_or("no error".into(), |e| e.to_string()));
    collected
}

#[test]
fn out_of_range_writes_are_reported_and_prints_are_ordered() {
    for device in [
        device(BackendKind::Interpreter, 1),
        device(BackendKind::Cpu, 1),
        device(BackendKind::Cpu, 4),
    ] {
        let collected = check_report(
            &device,
            OUTSIDE,
            &[3],
            expect![[r#"
                error[W0401]: kernel `shift` wrote to field `x` outside of its bounds
                  --> shift.rs:3:9
                  = note: the index is [50], its elements are [-50..50]
                  = note: 3 problems in this launch
                  = help: such a write is dropped; guard it with an `if`"#]],
        );
        let lines: Vec<&str> = collected.printed.iter().map(|p| p.text.as_str()).collect();
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[0], "at 41: 0.0");
        assert_eq!(lines[8], "at 49: 0.0");
    }
}

const ASSERT: &str = r#"
module "check"
file F0 "check.rs"
tree T0 { place f0 }
field f0 "x": i32 in T0.S0 ()
param p0 "n": i32
message m0 "n is {i32}"
kernel fn0 "check"(v0: i32) -> i32 {
  v1: i32 = const 3
  v2: bool = lt v0, v1
  assert v2, m0 (v0) @F0:8:5
  store f0[], v0
  v3: i32 = const 0
  foreach L0 (v4: i32) in v3..v1 {
    v5: i32 = atomic add f0[], v1
    continue L0
  }
  return v1
}
"#;

#[test]
fn a_failed_assertion_in_serial_code_ends_the_kernel() {
    let x = Field::from_u32(0);
    let look = |instance: &mut Instance<'_>, outcome: &Outcome| {
        let texts: Vec<_> = outcome.reports.iter().map(|r| r.values.clone()).collect();
        (instance.field(x).unwrap(), outcome.result.clone(), texts)
    };
    let n = |n| Imm::int(Scalar::I32, n);
    let (field, result, reports) = both(ASSERT, &[n(2)], |_| {}, look);
    assert_eq!(
        (field, result, reports.len()),
        (vec![n(11)], Some(vec![n(3)]), 0)
    );
    let (field, result, reports) = both(ASSERT, &[n(5)], |_| {}, look);
    assert_eq!(
        (field, result, reports),
        (vec![n(0)], None, vec![vec![n(5)]])
    );
    for device in [
        device(BackendKind::Interpreter, 1),
        device(BackendKind::Cpu, 1),
    ] {
        check_report(
            &device,
            ASSERT,
            &[5],
            expect![[r#"
                error[W0403]: assertion failed in kernel `check`: n is 5
                  --> check.rs:8:5"#]],
        );
    }
}

const FOREVER: &str = r#"
module "forever"
kernel fn0 "forever"() {
  v0: i32 = const 0
  v1: i32 = const 4
  foreach L0 (v2: i32) in v0..v1 {
    loop L1 {
      continue L1
    }
    continue L0
  }
  return
}
"#;

#[test]
fn endless_kernels_can_be_interrupted() {
    let device = device(BackendKind::Cpu, 2);
    let mut instance = Instance::new(&device, module(FOREVER), &Options::default()).unwrap();
    let interrupter = device.interrupter();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(5));
                interrupter.interrupt();
            }
        });
        let error = instance.run(&[], 0, 0).unwrap_err();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(error.code, "W0405");
        assert_eq!(error.message, "kernel `forever` was interrupted");
    });
}

#[test]
fn mismatched_bindings_are_rejected() {
    let (one, two) = (device(BackendKind::Cpu, 1), device(BackendKind::Cpu, 1));
    let program = one.load(module(SAXPY), &Options::default()).unwrap();
    let good = [one.reserve(4000).unwrap(), one.reserve(4000).unwrap()];
    let small = one.reserve(3999).unwrap();
    let foreign = two.reserve(4000).unwrap();
    let run = |device: &Device, params: &[u64], trees: &[&wuji_runtime::Memory]| {
        let bindings = wuji_runtime::Bindings {
            params,
            trees,
            arrays: &[],
        };
        match device.run(&program, &bindings) {
            Ok(_) => String::new(),
            Err(e) => e.to_string(),
        }
    };
    assert_eq!(run(&one, &[0], &[&good[0], &good[1]]), "");
    let says = |text: String, part: &str| assert!(text.contains(part), "{text}");
    says(
        run(&one, &[0], &[&good[0], &good[0]]),
        "tree 1 is bound twice",
    );
    says(run(&one, &[0], &[&good[0], &small]), "tree 1 is smaller");
    says(
        run(&one, &[0], &[&foreign, &good[0]]),
        "tree 0 belongs to another world",
    );
    says(
        run(&one, &[], &[&good[0], &good[1]]),
        "needs 1 parameter slots, 2 trees and 0 arrays",
    );
    says(
        run(&two, &[0], &[&foreign, &foreign]),
        "loaded on another device",
    );
}

const COUNT: &str = r#"
module "count"
tree T0 { place f0 }
tree T1 { dense S1 [i: 4096] { place f1 } }
field f0 "n": i64 in T0.S0 ()
field f1 "x": i64 in T1.S1 (i)
kernel fn0 "count"() -> i64 {
  v0: i64 = load f0[]
  v1: i64 = const 1
  v2: i64 = add v0, v1
  foreach L0 (v3: i32) in f1 {
    v4: i64 = load f1[v3]
    v5: i64 = add v4, v1
    store f1[v3], v5
    continue L0
  }
  store f0[], v2
  return v0
}
"#;

#[test]
fn launches_from_many_threads_run_one_after_the_other() {
    for device in [
        device(BackendKind::Cpu, 3),
        device(BackendKind::Interpreter, 1),
    ] {
        let program = device.load(module(COUNT), &Options::default()).unwrap();
        let memory = [
            device.reserve(8).unwrap(),
            device.reserve(8 * 4096).unwrap(),
        ];
        let compiled = program.compiled().is_some();
        let (threads, launches) = if compiled { (8, 200) } else { (4, 3) };
        let mut results = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        let bindings = wuji_runtime::Bindings {
                            params: &[],
                            trees: &[&memory[0], &memory[1]],
                            arrays: &[],
                        };
                        (0..launches)
                            .map(|_| device.run(&program, &bindings).unwrap().result[0])
                            .collect::<Vec<u64>>()
                    })
                })
                .collect();
            workers
                .into_iter()
                .flat_map(|w| w.join().unwrap())
                .collect::<Vec<u64>>()
        });
        // Plain loads and stores lose no update, because launches are serialized.
        results.sort_unstable();
        let total = threads * launches;
        assert_eq!(results, (0..total).collect::<Vec<u64>>());
        let x = memory[1]
            .read_field(program.module(), Field::from_u32(1))
            .unwrap();
        assert!(x.iter().all(|v| v.bits() == total));
    }
}

/// Not a test of correctness: prints the overhead of a launch. Run it with `cargo test --release -p wuji-runtime
/// launch_cost -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn launch_cost() {
    let serial = r#"
module "serial"
tree T0 { place f0 }
field f0 "n": i64 in T0.S0 ()
kernel fn0 "serial"() {
  v0: i64 = load f0[]
  v1: i64 = const 1
  v2: i64 = add v0, v1
  store f0[], v2
  return
}
"#;
    let time = |text: &str, sizes: &[u64]| {
        let device = device(BackendKind::Cpu, 2);
        let program = device.load(module(text), &Options::default()).unwrap();
        let memory: Vec<_> = sizes.iter().map(|s| device.reserve(*s).unwrap()).collect();
        let trees: Vec<_> = memory.iter().collect();
        let bindings = wuji_runtime::Bindings {
            params: &[],
            trees: &trees,
            arrays: &[],
        };
        let n = 100_000;
        let start = std::time::Instant::now();
        for _ in 0..n {
            device.run(&program, &bindings).unwrap();
        }
        start.elapsed().as_nanos() as f64 / f64::from(n)
    };
    println!("serial: {:.0} ns", time(serial, &[8]));
    println!(
        "serial and 4096 in parallel: {:.0} ns",
        time(COUNT, &[8, 8 * 4096])
    );
}

/// Prints the memory bandwidth of a kernel; run it like `launch_cost`.
#[test]
#[ignore = "measures"]
fn bandwidth() {
    const N: u64 = 1 << 24;
    let text = SAXPY
        .replace(
            "tree T0 { dense S1 [i: 1000] { place f0 } }",
            "tree T0 { dense S1 [i: 16777216] { place f0 } }",
        )
        .replace(
            "tree T1 { dense S1 [i: 10] { dense S2 [i: 100] { place f1 } } }",
            "tree T1 { dense S1 [i: 1] { dense S2 [i: 16777216] { place f1 } } }",
        );
    for threads in [1, 2] {
        let device = device(BackendKind::Cpu, threads);
        let program = device.load(module(&text), &Options::default()).unwrap();
        let memory: Vec<_> = (0..2).map(|_| device.reserve(4 * N).unwrap()).collect();
        for m in &memory {
            m.lock().unwrap().bytes_mut().fill(1);
        }
        let trees: Vec<_> = memory.iter().collect();
        let bindings = wuji_runtime::Bindings {
            params: &[u64::from(2f32.to_bits())],
            trees: &trees,
            arrays: &[],
        };
        let mut best = f64::MAX;
        for _ in 0..20 {
            let start = std::time::Instant::now();
            device.run(&program, &bindings).unwrap();
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "saxpy, {threads} threads: {:.1} GB/s",
            12.0 * N as f64 / best / 1e9
        );
        let (mut x, mut y) = (vec![1f32; N as usize], vec![1f32; N as usize]);
        let mut best = f64::MAX;
        for _ in 0..20 {
            let start = std::time::Instant::now();
            std::thread::scope(|scope| {
                let part = N as usize / threads;
                for (x, y) in x.chunks_mut(part).zip(y.chunks_mut(part)) {
                    scope.spawn(|| y.iter_mut().zip(x).for_each(|(y, x)| *y += 2.0 * *x));
                }
            });
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!(
            "by hand, {threads} threads: {:.1} GB/s",
            12.0 * N as f64 / best / 1e9
        );
    }
}

const IN_ORDER: &str = r#"
module "in_order"
tree T0 { place f0 }
field f0 "n": u64 in T0.S0 ()
kernel fn0 "in_order"() {
  v0: i32 = const 0
  v1: i32 = const 5000
  foreach L0 (v2: i32) in v0..v1 serial {
    v3: u64 = load f0[]
    v4: u64 = const 6364136223846793005
    v5: u64 = mul v3, v4
    v6: u64 = convert v2
    v7: u64 = add v5, v6
    store f0[], v7
    continue L0
  }
  return
}
"#;

#[test]
fn loops_with_the_hint_serial_are_serial() {
    let n = Field::from_u32(0);
    let found = both(
        IN_ORDER,
        &[],
        |_| {},
        |instance, _| instance.field(n).unwrap(),
    );
    let expected = (0..5000u64).fold(0u64, |n, k| {
        n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(k)
    });
    assert_eq!(found, vec![Imm::from_bits(Scalar::U64, expected)]);
}

#[test]
fn modules_are_verified() {
    let text = STRIDED.replace("rank 2 writable", "rank 2");
    for device in [
        device(BackendKind::Cpu, 1),
        device(BackendKind::Interpreter, 1),
    ] {
        let error = device.load(module(&text), &Options::default()).unwrap_err();
        assert!(error.message.contains("read-only"), "{error}");
    }
}

/// Without a limit, devices stay within the available memory.
#[test]
fn dense_trees_larger_than_memory() {
    let text = |elements: u64| {
        format!(
            "tree T0 {{ dense S1 [i: {elements}] {{ place f0 }} }}\nfield f0 \"x\": f64 in T0.S1 (i)\nkernel fn0 \"k\"() {{\nreturn\n}}\n"
        )
    };
    let device = |memory_limit| {
        let options = DeviceOptions {
            backend: BackendKind::Interpreter,
            memory_limit,
            ..DeviceOptions::default()
        };
        Device::new(&options).unwrap()
    };
    let make = |device: &Device, elements| {
        let module = parse(&text(elements), "k.wir").unwrap();
        Instance::new(device, module, &Options::default()).map(drop)
    };
    let error = make(&device(None), 1 << 40).unwrap_err();
    assert_eq!(error.code, "W0110");
    assert_eq!(
        error.message,
        "a tree of 8.0 TiB exceeds the memory limit of this world"
    );
    assert!(error.notes[0].contains("nine tenths of the memory"));
    assert!(make(&device(Some(1 << 44)), 1 << 40).is_ok());
    let error = make(&device(Some(1 << 20)), 1 << 20).unwrap_err();
    let note = "its limit is 1.0 MiB, of which 0 bytes are taken";
    assert_eq!(error.notes, [note]);
}
