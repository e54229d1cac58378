//! Small tasks side by side.

use super::tests::{flow, flow_without};
use crate::bank::Bank;
use crate::window::{Switches, Window};
use expect_test::expect;
use wuji_compile::Options;
use wuji_ir::module::Module;
use wuji_ir::text::parse;

const FIELDS: &str = "
tree T0 {
  dense S1 [i: 6] {
    place f0
  }
}
tree T1 {
  dense S1 [i: 2, j: 3] {
    place f1
  }
}
tree T2 {
  place f2
}
field f0 \"x\": i32 in T0.S1 (i)
field f1 \"y\": i32 in T1.S1 (i, j)
field f2 \"r\": i32 in T2.S0 ()
";

fn kernel(name: &str, body: &str) -> Module {
    let text =
        format!("module \"{name}\"{FIELDS}\nkernel fn0 \"{name}\"() {{\n{body}  return\n}}\n");
    parse(&text, name).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn line() -> Module {
    let body = "  foreach L0 (v1: i32) in f0 {
    v2: i32 = load f0[v1]
    v3: i32 = add v2, v1
    store f0[v1], v3
    continue L0
  }
";
    kernel("line", body)
}

fn table() -> Module {
    let body = "  foreach L0 (v1: i32, v2: i32) in f1 {
    v3: i32 = add v1, v2
    store f1[v1, v2], v3
    continue L0
  }
";
    kernel("table", body)
}

fn point() -> Module {
    kernel("point", "  v1: i32 = const 7\n  store f2[], v1\n")
}

fn spread() -> Module {
    let body = "  foreach L0 (v1: i32) in f0 {
    v2: i32 = load f2[]
    store f0[v1], v2
    continue L0
  }
";
    kernel("spread", body)
}

#[test]
fn small_tasks_are_iterations_of_one_loop() {
    flow(
        &[line(), table(), point()],
        expect![[r#"
        before:
        0: line
            reads x
            writes x
        1: table
            writes y
        2: point
            writes r
        after:
        0: line+table+point
            reads x, y, r
            writes x, y, r
    "#]],
    );
}

#[test]
fn the_switch_keeps_them_apart() {
    let kernels = [line(), table()];
    flow_without(
        &["horizontal_fusion"],
        &kernels,
        expect![[r#"
        before:
        0: line
            reads x
            writes x
        1: table
            writes y
        after:
        0: line
            reads x
            writes x
        1: table
            writes y
    "#]],
    );
}

#[test]
fn tasks_that_depend_on_each_other_are_not_side_by_side() {
    flow(
        &[point(), spread()],
        expect![[r#"
        before:
        0: point
            writes r
        1: spread
            reads r
            writes x
            <- 0 (value: r)
        after:
        0: point
            writes r
        1: spread
            reads r
            writes x
            <- 0 (value: r)
            not fused with 0: they run over different iterations
    "#]],
    );
}

#[test]
fn the_loop_has_a_branch_on_its_index() {
    let mut bank = Bank::new(&Options::default());
    let (window, _) = Window::of_modules(&[table(), point()], &mut bank).unwrap();
    let graph = window.optimized(&mut bank, &Switches::default());
    let module = &graph.nodes[0].task.module;
    wuji_ir::verify::verify(module).unwrap();
    let text = module.to_string();
    let kernel = text.split_once("kernel").map_or("", |(_, kernel)| kernel);
    expect![[r#"
         fn0 "table+point"() {
          v0: i64 = const 0
          v1: i64 = const 7
          foreach L0 (v2: i64) in v0..v1 {
            v3: i64 = const 6
            v4: bool = lt v2, v3
            if v4 {
              v5: i64 = const 3
              v6: i64 = rem v2, v5
              v7: i64 = div v2, v5
              v8: i64 = const 0
              v9: i64 = add v6, v8
              v10: i64 = const 0
              v11: i64 = add v7, v10
              v12: i32 = convert v11
              v13: i32 = convert v9
              v14: i32 = add v12, v13
              store f0[v12, v13], v14
              yield
            } else {
              v15: i64 = sub v2, v3
              v16: i32 = const 7
              store f1[], v16
              yield
            }
            continue L0
          }
          return
        }
    "#]]
    .assert_eq(kernel);
}
