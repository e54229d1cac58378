//! Sparse trees in machine code.

use wuji_compile::Options;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};
use wuji_runtime::{BackendKind, Device, DeviceOptions, Instance, Tier};

fn device(threads: usize) -> Device {
    Device::new(&DeviceOptions {
        backend: BackendKind::Cpu,
        threads: Some(threads),
        tier: Tier::Best,
        ..DeviceOptions::default()
    })
    .unwrap()
}

/// Runs a kernel that returns an `i64` once for each parameter, on one tree.
fn run(threads: usize, text: &str, params: &[i64]) -> Vec<i64> {
    let device = device(threads);
    let module = parse(text, "test.wir").unwrap_or_else(|e| panic!("{e}"));
    let mut instance =
        Instance::new(&device, module, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut out = Vec::new();
    for p in params {
        let outcome = instance
            .run(&[Imm::int(Scalar::I64, (*p).into())], 1, 1)
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outcome.reports, vec![]);
        out.push(outcome.result.unwrap()[0].as_int().unwrap() as i64);
    }
    out
}

/// Activates every third element by writing to it, sums over the field with a struct-for, and optionally deactivates
/// the elements.
fn program(layout: &str, node: &str, deactivate: bool) -> String {
    let deactivate = if deactivate {
        "foreach L9 (v90: i32) in f0 {
            deactivate f1[v90]
            continue L9
        }"
    } else {
        ""
    };
    format!(
        r#"
module "touch"
struct s0 "none" {{ }}
tree T0 {{ {layout} place f2, f3 }}
field f0 "x": i64 in T0.{node} (i)
field f1 "cells": s0 in T0.{node} (i)
field f2 "total": i64 in T0.S0 ()
field f3 "count": i64 in T0.S0 ()
param p0 "n": i64
kernel fn0 "touch"(v0: i64) -> i64 {{
  v1: i64 = const 0
  v2: i64 = const 3
  store f2[], v1
  foreach L0 (v3: i64) in v1..v0 {{
    v4: i64 = mul v3, v2
    store f0[v4], v3
    continue L0
  }}
  foreach L1 (v10: i32) in f0 {{
    v11: i64 = load f0[v10]
    v12: i64 = convert v10
    v13: i64 = mul v11, v12
    v14: i64 = atomic add f2[], v13
    v15: i64 = const 1000000
    v16: i64 = atomic add f2[], v15
    continue L1
  }}
  {deactivate}
  v20: i64 = load f2[]
  return v20
}}
"#
    )
}

#[test]
fn every_kind_of_node() {
    let sum = |n: i64, visited: i64| (0..n).map(|k| k * 3 * k).sum::<i64>() + visited * 1_000_000;
    for threads in [1, 2, 8] {
        for deactivate in [false, true] {
            for (layout, node, block) in [
                ("pointer S1 [i: 3000] { place f0, f1 }", "S1", 1),
                ("bitmasked S1 [i: 3000] { place f0, f1 }", "S1", 1),
                (
                    "pointer S1 [i: 30] { bitmasked S2 [i: 100] { place f0, f1 } }",
                    "S2",
                    1,
                ),
                (
                    "bitmasked S1 [i: 32] { pointer S2 [i: 128] { place f0, f1 } }",
                    "S2",
                    1,
                ),
                (
                    "dense S1 [i: 4] { pointer S2 [i: 16] { dense S3 [i: 2] { pointer S4 [i: 32] { place f0, f1 } } } }",
                    "S4",
                    1,
                ),
                ("hash S1 [i: 4096] { place f0, f1 }", "S1", 1),
                (
                    "hash S1 [i: 64] { pointer S2 [i: 64] { place f0, f1 } }",
                    "S2",
                    1,
                ),
            ] {
                let text = program(layout, node, deactivate);
                let expected: Vec<i64> = [10, 1000, 1000, 7]
                    .iter()
                    .scan(0, |most: &mut i64, n| {
                        *most = if deactivate { *n } else { (*most).max(*n) };
                        Some(sum(*most, *most / block))
                    })
                    .collect();
                let found = run(threads, &text, &[10, 1000, 1000, 7]);
                assert_eq!(found, expected, "{threads} {layout} {deactivate}");
            }
        }
    }
}

/// Particles in buckets add to the grid around their block; some are outside of the assumed range.
const SPLAT: &str = r#"
module "splat"
tree T0 {
  pointer S1 [i: 8, j: 8] {
    dense S2 [i: 4, j: 4] { place f0 }
    dynamic S3 [l: 64] chunk 8 { place f1 }
  }
  place f2
}
field f0 "grid": i64 in T0.S2 (i, j)
field f1 "particles": i32 in T0.S3 (i, j, l)
field f2 "total": i64 in T0.S0 ()
param p0 "n": i64
kernel fn0 "splat"(v0: i64) -> i64 {
  v1: i64 = const 0
  store f2[], v1
  foreach L0 (v3: i64) in v1..v0 {
    v4: i64 = const 8
    v5: i64 = mul v3, v3
    v6: i64 = rem v5, v4
    v7: i64 = const 5
    v8: i64 = mul v3, v7
    v9: i64 = rem v8, v4
    v10: i32 = append f1[v6, v9]
    v11: i32 = convert v3
    store f1[v6, v9, v10], v11
    continue L0
  }
  foreach L1 (v20: i32, v21: i32, v22: i32) in f1 {
    cache f0
    v23: i32 = load f1[v20, v21, v22]
    v24: i32 = const 4
    v25: i32 = mul v20, v24
    v26: i32 = mul v21, v24
    v27: i32 = const 7
    v28: i32 = rem v23, v27
    v29: i32 = const 1
    v30: i32 = sub v28, v29
    v31: i32 = add v25, v30
    v32: i32 = assume_range v31, v25 [-1, 5]
    v33: i32 = sub v26, v29
    v34: i32 = assume_range v33, v26 [-1, 5]
    v35: i32 = const 0
    v36: i32 = const 3
    v37: i64 = convert v23
    for L2 v40: i32 in v35..v36 step v29 {
      for L3 v41: i32 in v35..v36 step v29 {
        v42: i32 = add v32, v40
        v43: i32 = add v34, v41
        v44: bool = ge v42, v35
        v45: bool = ge v43, v35
        v46: bool = and v44, v45
        v47: i32 = const 32
        v48: bool = lt v42, v47
        v49: bool = and v46, v48
        if v49 {
          v50: i64 = atomic add f0[v42, v43], v37
          yield
        } else {
          yield
        }
        continue L3
      }
      continue L2
    }
    continue L1
  }
  foreach L4 (v60: i32, v61: i32) in f0 {
    cache f0
    v62: i32 = const 1
    v63: i32 = add v60, v62
    v64: i32 = sub v61, v62
    v65: i64 = load f0[v63, v61]
    v66: i64 = load f0[v60, v64]
    v67: i64 = load f0[v60, v61]
    v68: i64 = sub v65, v66
    v69: i64 = add v67, v68
    v70: i32 = const 33
    v71: i32 = mul v60, v70
    v72: i32 = add v71, v61
    v73: i64 = convert v72
    v74: i64 = mul v73, v69
    v75: i64 = atomic add f2[], v74
    continue L4
  }
  v80: i64 = load f2[]
  return v80
}
"#;

#[test]
fn scratchpads_do_not_change_results() {
    let results: Vec<i64> = [
        (1, vec![]),
        (1, vec!["scratchpads"]),
        (8, vec![]),
        (8, vec!["neighbours"]),
        (2, vec!["entries", "list_reuse"]),
    ]
    .into_iter()
    .map(|(threads, without)| {
        let device = device(threads);
        let module = parse(SPLAT, "test.wir").unwrap_or_else(|e| panic!("{e}"));
        let options = Options {
            without: without.iter().map(|w| (*w).to_owned()).collect(),
            ..Options::default()
        };
        let mut instance =
            Instance::new(&device, module, &options).unwrap_or_else(|e| panic!("{e}"));
        let outcome = instance
            .run(&[Imm::int(Scalar::I64, 400)], 1, 1)
            .unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(outcome.reports, vec![]);
        outcome.result.unwrap()[0].as_int().unwrap() as i64
    })
    .collect();
    assert!(results[0] != 0);
    assert!(results.iter().all(|r| *r == results[0]), "{results:?}");
}
