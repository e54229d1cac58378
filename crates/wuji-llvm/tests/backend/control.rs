//! Loops, jumps, calls, locals and reports.

use crate::harness::{Aligned, Launch, compile, jit, lowered, plain_jit};
use std::sync::atomic::Ordering;
use std::time::Duration;
use wuji_compile::Math;
use wuji_ir::types::{Imm, Scalar};

/// Counts the iterations of a `for` and records the first and the last index.
fn for_module(s: Scalar, step: Option<i128>) -> String {
    let step = match step {
        Some(k) => format!("v2: {s} = const {k}"),
        None => String::new(),
    };
    format!(
        "module \"loops\"
temp t0: i64
temp t1: {s}
temp t2: {s}
param p0 \"lo\": {s}
param p1 \"hi\": {s}
{p2}
fn fn0 \"f\"({params}) {{
  {step}
  v3: i64 = const 0
  v4: i64 = const 8
  v5: i64 = const 16
  v6: {s} = const 0
  v7: i64 = const 1
  v30: i64 = const 100
  v8: i64, v9: {s}, v10: {s} = for L0 v11: {s} in v0..v1 step v2 (v12: i64 = v3, v13: {s} = v6, v14: {s} = v6) {{
    v15: i64 = add v12, v7
    v16: bool = eq v12, v3
    v17: {s} = select v16, v11, v13
    v31: bool = eq v15, v30
    if v31 {{
      break L0 (v15, v17, v11)
    }} else {{
      yield
    }}
    continue L0 (v15, v17, v11)
  }}
  memstore temps [v3], v8
  memstore temps [v4], v9
  memstore temps [v5], v10
  return
}}
task \"loops.0\" serial fn0 ordinal 0
",
        p2 = if step.is_empty() {
            format!("param p2 \"step\": {s}")
        } else {
            String::new()
        },
        params = if step.is_empty() {
            format!("v0: {s}, v1: {s}, v2: {s}")
        } else {
            format!("v0: {s}, v1: {s}")
        },
    )
}

/// The definition of a `for` on mathematical integers, for at most 100 iterations.
fn for_meaning(lo: i128, hi: i128, step: i128) -> (i64, i128, i128) {
    let (mut count, mut first, mut last) = (0, 0, 0);
    let mut i = lo;
    while step != 0 && (if step > 0 { i < hi } else { i > hi }) && count < 100 {
        if count == 0 {
            first = i;
        }
        last = i;
        count += 1;
        i += step;
    }
    (count, first, last)
}

#[test]
fn for_loops_end_without_wrapping() {
    for s in Scalar::ALL.into_iter().filter(|s| s.is_int()) {
        let (min, max) = s.int_range().unwrap();
        let points = [
            min,
            min + 1,
            min + 5,
            0,
            1,
            3,
            10,
            50,
            max - 6,
            max - 1,
            max,
        ];
        let steps = [
            0,
            1,
            -1,
            2,
            3,
            -2,
            -7,
            100,
            max,
            max - 1,
            min,
            min + 1,
            max / 2,
        ];
        let steps: Vec<i128> = steps
            .into_iter()
            .filter(|k| (min..=max).contains(k))
            .collect();
        let dynamic = compile(&for_module(s, None), Math::Strict);
        for step in steps {
            let fixed = compile(&for_module(s, Some(step)), Math::Strict);
            for lo in points {
                for hi in points {
                    let want = for_meaning(lo, hi, step);
                    for (kernel, known) in [(&dynamic, false), (&fixed, true)] {
                        let mut params = vec![Imm::int(s, lo).bits(), Imm::int(s, hi).bits()];
                        if !known {
                            params.push(Imm::int(s, step).bits());
                        }
                        let mut launch = Launch {
                            params,
                            temps: vec![0; 3],
                            ..Launch::default()
                        };
                        launch.run(kernel, 0, 0, 0);
                        let number =
                            |k: usize| Imm::from_bits(s, launch.temps[k]).as_int().unwrap();
                        let got = (launch.temps[0] as i64, number(1), number(2));
                        assert_eq!(got, want, "{s}: {lo}..{hi} step {step}, constant: {known}");
                    }
                }
            }
        }
    }
}

const FLOW: &str = r#"
module "flow"
temp t0: i32
temp t1: i32
param p0 "n": i32

fn fn0 "collatz"(v0: i32) -> i32, bool {
  v1: i32 = const 0
  v2: i32 = const 1
  v3: i32 = const 2
  v4: i32 = const 3
  v20: i32 = const 100
  v21: bool = const true
  v22: bool = const false
  loop L0 (v5: i32 = v0, v6: i32 = v1) {
    v7: bool = eq v5, v2
    if v7 {
      return v6, v21
    } else {
      yield
    }
    v23: bool = gt v6, v20
    if v23 {
      return v6, v22
    } else {
      yield
    }
    v8: i32 = add v6, v2
    v9: i32 = rem v5, v3
    v10: bool = eq v9, v1
    if v10 {
      v11: i32 = div v5, v3
      continue L0 (v11, v8)
    } else {
      v12: i32 = mul v5, v4
      v13: i32 = add v12, v2
      continue L0 (v13, v8)
    }
    unreachable
  }
  unreachable
}

fn fn1 "fib"(v0: i32) -> i32 {
  v1: i32 = const 1
  v2: i32 = const 2
  v3: bool = le v0, v1
  v4: i32 = if v3 {
    yield v0
  } else {
    v5: i32 = sub v0, v1
    v6: i32 = call fn1(v5)
    v7: i32 = sub v0, v2
    v8: i32 = call fn1(v7)
    v9: i32 = add v6, v8
    yield v9
  }
  return v4
}

fn fn2 "main"(v0: i32) {
  v1: i64 = const 0
  v2: i64 = const 8
  v3: i32, v4: bool = call fn0(v0)
  v5: i32 = block L0 {
    if v4 {
      break L0 (v3)
    } else {
      yield
    }
    v6: i32 = const -1
    yield v6
  }
  memstore temps [v1], v5
  v7: i32 = const 15
  v8: i32 = call fn1(v7)
  memstore temps [v2], v8
  return
}
task "flow.0" serial fn2 ordinal 0
"#;

#[test]
fn jumps_and_calls() {
    let kernel = compile(FLOW, Math::Strict);
    for (n, steps) in [(1, 0), (6, 8), (27, -1), (97, -1), (7, 16)] {
        let mut launch = Launch {
            params: vec![n],
            temps: vec![0; 2],
            ..Launch::default()
        };
        launch.run(&kernel, 0, 0, 0);
        assert_eq!(launch.temps[0] as i32, steps, "collatz of {n}");
        assert_eq!(launch.temps[1] as i32, 610);
    }
}

const ENDLESS: &str = r#"
module "endless"
temp t0: i64
fn fn0 "spin"() -> i64 {
  v0: i64 = const 0
  v1: i64 = const 1
  loop L0 (v2: i64 = v1) {
    v3: i64 = add v2, v1
    v4: bool = eq v3, v0
    if v4 {
      return v3
    } else {
      yield
    }
    continue L0 (v3)
  }
  unreachable
}
fn fn1 "main"() {
  v0: i64 = const 0
  loop L0 {
    v1: i64 = call fn0()
    memstore temps [v0], v1
    continue L0
  }
  unreachable
}
task "endless.0" serial fn1 ordinal 0
"#;

#[test]
fn endless_loops_can_be_interrupted() {
    for jit in [jit(), plain_jit()] {
        let kernel = jit.compile(&lowered(ENDLESS, Math::Strict)).unwrap();
        let mut launch = Launch {
            temps: vec![77],
            ..Launch::default()
        };
        let flag = &raw const launch.interrupt as usize;
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            // SAFETY: the launch outlives this thread, which is joined below.
            unsafe { &*(flag as *const std::sync::atomic::AtomicU32) }.store(1, Ordering::Relaxed);
        });
        launch.run(&kernel, 0, 0, 0);
        stopper.join().unwrap();
        // The interrupted function returned zero.
        assert_eq!(launch.temps[0], 0);
    }
}

const REPORTS: &str = r#"
module "reports"
message m0 "{i8} {u8} {f32} {bool} {f64}"
site w0 bad_index 3
site w1 assert m0
param p0 "a": i8
param p1 "b": u8
param p2 "c": f32
param p3 "d": bool
param p4 "e": f64
fn fn0 "main"(v0: i8, v1: u8, v2: f32, v3: bool, v4: f64, v5: i64, v6: i64) {
  v7: i64 = const 1
  v8: i64 = const 3
  for.parallel L0 v9: i64 in v5..v6 step v7 {
    v10: bool = ge v9, v8
    if v10 {
      report w0 (v9)
      yield
    } else {
      yield
    }
    continue L0
  }
  report w1 (v0, v1, v2, v3, v4)
  return
}
task "reports.0" chunks (0..5) unit 1 fn0 ordinal 1
"#;

#[test]
fn reports_carry_their_arguments() {
    let kernel = compile(REPORTS, Math::Strict);
    let mut launch = Launch {
        params: vec![
            Imm::int(Scalar::I8, -3).bits(),
            250,
            u64::from(1.5f32.to_bits()),
            1,
            (-2.5f64).to_bits(),
        ],
        ..Launch::default()
    };
    launch.run(&kernel, 0, 0, 5);
    let values = vec![
        -3i64 as u64,
        250,
        u64::from(1.5f32.to_bits()),
        1,
        (-2.5f64).to_bits(),
    ];
    assert_eq!(launch.reported(), [(0, vec![3]), (0, vec![4]), (1, values)]);
}

const LOCALS: &str = r#"
module "locals"
array a0 "out": i32 rank 1 writable
param p0 "n": i64
fn fn0 "main"(v0: i64) {
  local l0 "stack": i32[24]
  local l1 "top": u8
  local l2 "flag": bool
  v1: i64 = const 0
  v2: i64 = const 1
  v3: u8 = const 1
  v4: i32 = const 3
  v13: bool = const true
  for L0 v5: i64 in v1..v0 step v2 {
    v6: u8 = load l1[]
    v7: i32 = convert v5
    v8: i32 = mul v7, v4
    store l0[v6], v8
    v9: u8 = add v6, v3
    store l1[], v9
    store l2[], v13
    continue L0
  }
  v20: i64 = stride a0.0
  v21: i64 = extent a0.0
  v30: bool = load l2[]
  v31: i32 = convert v30
  for L1 v22: i64 in v1..v21 step v2 {
    v23: i32 = load l0[v22]
    v24: i32 = add v23, v31
    v25: i64 = mul v22, v20
    memstore a0 [v25], v24
    continue L1
  }
  return
}
task "locals.0" serial fn0 ordinal 0
"#;

#[test]
fn locals_start_as_zero_and_keep_what_is_stored() {
    for jit in [jit(), plain_jit()] {
        let kernel = jit.compile(&lowered(LOCALS, Math::Strict)).unwrap();
        for n in [0u64, 5, 24] {
            let mut out = Aligned::from(&[-1i32; 48]);
            let mut launch = Launch {
                params: vec![n],
                ..Launch::default()
            };
            launch.array(out.ptr(), &[24], &[8]);
            launch.run(&kernel, 0, 0, 0);
            let out = out.values::<i32>();
            for i in 0..24usize {
                let value = if (i as u64) < n { 3 * i as i32 } else { 0 };
                assert_eq!(out[2 * i], value + i32::from(n > 0));
                assert_eq!(out[2 * i + 1], -1);
            }
        }
    }
}

#[test]
fn the_key_of_random_numbers_comes_from_the_launch() {
    let text = r#"
module "random"
temp t0: u64
fn fn0 "main"() {
  v0: u64 = random_key
  v1: i64 = const 0
  memstore temps [v1], v0
  return
}
task "random.0" serial fn0 ordinal 0
"#;
    let kernel = compile(text, Math::Strict);
    let mut launch = Launch {
        temps: vec![0],
        random_key: 0x1234_5678_9abc_def0,
        ..Launch::default()
    };
    launch.run(&kernel, 0, 0, 0);
    assert_eq!(launch.temps[0], 0x1234_5678_9abc_def0);
}

fn refusal(text: &str) -> String {
    let error = jit().compile(&lowered(text, Math::Strict)).unwrap_err();
    format!("{}: {}", error.code, error.message)
}

#[test]
fn unlowered_modules_are_rejected() {
    let text = LOCALS.replace("i32[24]", "i32[100000]");
    assert_eq!(
        refusal(&text),
        "W0331: the local arrays of `main` take 400002 bytes; at most 262144 fit on the stack"
    );
    let vector = r#"
module "vector"
temp t0: f32x2x2
fn fn0 "main"() {
  v0: f32 = const 1.0
  v1: f32x2x2 = splat v0
  return
}
task "vector.0" serial fn0 ordinal 0
"#;
    assert!(refusal(vector).starts_with("W0502: the CPU backend cannot compile `Splat"));
}
