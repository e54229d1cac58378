//! `wuji flow`.

use crate::{check, shown, wuji};
use expect_test::expect;

const SAXPY: &str = "crates/wuji-cli/kernels/saxpy.wir";
const JULIA: &str = "crates/wuji-cli/kernels/julia.wir";

#[test]
fn a_graph_before_and_after() {
    check(
        &["flow", SAXPY, SAXPY, JULIA],
        expect![[r#"
        before: 3 tasks
        0: saxpy_kernel
            reads x, y
            writes y
        1: saxpy_kernel
            reads x, y
            writes y
            <- 0 (value: y)
        2: julia
            writes pixels

        after: 2 tasks
        0: saxpy_kernel+saxpy_kernel
            reads x, y
            writes y
        1: julia
            writes pixels
    "#]],
    );
}

#[test]
fn one_rewrite_at_a_time() {
    check(
        &[
            "flow", SAXPY, "--times", "4", "--fuel", "1", "--emit", "dot",
        ],
        expect![[r#"
            digraph flow {
              node [shape=box, fontname="sans-serif"];
              n0 [label="saxpy_kernel+saxpy_kernel"];
              n1 [label="saxpy_kernel"];
              n2 [label="saxpy_kernel"];
              n0 -> n1 [style=solid, label="y"];
              n1 -> n2 [style=solid, label="y"];
            }
        "#]],
    );
}

#[test]
fn tasks_as_kernels() {
    check(
        &["flow", SAXPY, "--times", "2", "--emit", "ir"],
        expect![[r#"
            module "saxpy_kernel+saxpy_kernel"
            file F0 "crates/wuji-cli/kernels/saxpy.wir"
            tree T0 {
              dense S1 [i: 16777216] {
                place f0
              }
            }
            tree T1 {
              dense S1 [i: 16777216] {
                place f1
              }
            }
            field f0 "y": f32 in T0.S1 (i)
            field f1 "x": f32 in T1.S1 (i)
            param p0 "a": f32
            param p1 "a": f32

            kernel fn0 "saxpy_kernel+saxpy_kernel"(v0: f32, v1: f32) {
              foreach L0 (v2: i32) in f0 {
                v3: f32 = load f1[v2] @F0:18:5
                v4: f32 = mul v0, v3 @F0:19:5
                v5: f32 = load f0[v2] @F0:20:5
                v6: f32 = add v4, v5 @F0:21:5
                v7: f32 = add v4, v6 @F0:21:5
                store f0[v2], v7 @F0:22:5
                continue L0
              } @F0:17:3
              return
            }

        "#]],
    );
    check(
        &[
            "flow",
            SAXPY,
            "--times",
            "2",
            "--without",
            "task_fusion",
            "--before",
        ],
        expect![[r#"
            before: 2 tasks
            0: saxpy_kernel
                reads x, y
                writes y
            1: saxpy_kernel
                reads x, y
                writes y
                <- 0 (value: y)

        "#]],
    );
}

#[test]
fn a_drawing() {
    let output = wuji(&["flow", SAXPY, "--emit", "svg"]).output().unwrap();
    let text = shown(&output);
    assert!(text.starts_with("<svg"), "{text}");
    assert!(text.contains("saxpy_kernel"), "{text}");
}

#[test]
fn wrong_arguments() {
    check(
        &["flow", "missing.wir"],
        expect![[r#"
        error[W0515]: cannot read missing.wir
          = note: No such file or directory (os error 2)
        [1]
    "#]],
    );
    check(
        &["flow", SAXPY, SAXPY, SAXPY, SAXPY, SAXPY, "--times", "1000"],
        expect![[r#"
            error: 5000 launches are more than a window has; the most are 4096

            Usage: wuji flow [OPTIONS] <FILE>...

            For more information, try '--help'.
            [2]
        "#]],
    );
}
