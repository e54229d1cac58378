//! Sparse trees in machine code.

use wuji_compile::Options;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};
use wuji_runtime::{Backend, Device, DeviceOptions, Instance};

fn device(threads: usize) -> Device {
    Device::new(&DeviceOptions {
        backend: Backend::Cpu,
        threads: Some(threads),
        ..DeviceOptions::default()
    })
    .unwrap()
}

/// Runs a kernel that gives an `i64` once for each parameter, on one tree.
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

/// Activates every third element by writing to it, adds up what a loop over the field finds, then
/// deactivates or not.
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
