//! Sparse trees: active cells, and their effect on accesses and loops.

use super::*;
use wuji_ir::interp::{TreeState, error};

/// A module from its layout and the body of its kernel, with parameters `v0`, `v1`, ... of type `i64`.
fn module(layout: &str, params: usize, results: &str, body: &str) -> Module {
    let mut text = layout.to_owned();
    for k in 0..params {
        text += &format!("\nparam p{k}: i64");
    }
    let list: Vec<String> = (0..params).map(|k| format!("v{k}: i64")).collect();
    text += &format!(
        "\nkernel fn0 \"k\"({}) {results} {{\n{body}\n}}\n",
        list.join(", ")
    );
    let m = wuji_ir::text::parse(&text, "test.wir").unwrap_or_else(|e| panic!("{e}\n{text}"));
    wuji_ir::verify::verify(&m).unwrap_or_else(|e| panic!("{e}\n{text}"));
    m
}

fn machine(m: &Module) -> Machine<'_> {
    Machine::new(m, Config::default()).unwrap()
}

fn longs(values: &[i64]) -> Vec<Imm> {
    let long = |v: &i64| Imm::int(Scalar::I64, i128::from(*v));
    values.iter().map(long).collect()
}

fn f0() -> Field {
    Field::from_u32(0)
}

fn f1() -> Field {
    Field::from_u32(1)
}

/// One of each kind with 4 cells along `i`, and the text after its extents.
const KINDS: [(&str, &str); 4] = [
    ("bitmasked", ""),
    ("pointer", "morton"),
    ("hash", ""),
    ("dynamic", "chunk 3"),
];

fn one_level(kind: &str, with: &str) -> String {
    format!(
        "tree T0 {{ {kind} S1 [i: 4] {with} {{ place f0, f1 }} }}
         field f0 \"x\": i32 in T0.S1 (i from -1)
         field f1 \"y\": f32x2 in T0.S1 (i)"
    )
}

#[test]
fn reads_change_nothing_and_writes_activate() {
    for (kind, with) in KINDS {
        let m = module(
            &one_level(kind, with),
            2,
            "-> i32",
            "v2: i32 = load f0[v0]
             v3: i32 = const 7
             store f0[v1], v3
             v4: bool = is_active f0[v0]
             v5: bool = is_active f0[v1]
             v6: i32 = convert v4
             v7: i32 = convert v5
             v8: i32 = const 10
             v9: i32 = mul v6, v8
             v10: i32 = add v9, v7
             return v10",
        );
        let mut machine = machine(&m);
        let outcome = machine.run(&longs(&[2, -1])).unwrap();
        assert_eq!(outcome.result, Some(i32s(&[1])), "{kind}");
        assert_eq!(machine.active(f0()), Ok(vec![vec![-1]]));
        // The other field is in the same cell, and zero.
        assert_eq!(machine.active(f1()), Ok(vec![vec![0]]));
        assert_eq!(machine.get(f1(), &[0]), Ok(f32s(&[0.0, 0.0])));
        assert_eq!(machine.get(f0(), &[-1]), Ok(i32s(&[7])));
        assert_eq!(machine.get(f0(), &[2]), Ok(i32s(&[0])));
        // Out of range nothing becomes active.
        let outcome = machine.run(&longs(&[3, 1])).unwrap();
        assert_eq!(outcome.result, Some(i32s(&[1])));
        let all: Vec<Vec<i64>> = match kind {
            // A list has no holes.
            "dynamic" => vec![vec![-1], vec![0], vec![1]],
            _ => vec![vec![-1], vec![1]],
        };
        assert_eq!(machine.active(f0()), Ok(all), "{kind}");
        let outcome = machine.run(&longs(&[3, 3])).unwrap();
        assert_eq!(outcome.result, Some(i32s(&[0])));
        assert_eq!(outcome.reports.len(), 1);
        assert_eq!(
            outcome.reports[0].kind,
            SiteKind::OutOfRange(Place::Field(f0()))
        );
    }
}

#[test]
fn reactivated_cells_are_zero() {
    for (kind, with) in KINDS {
        let m = module(
            &one_level(kind, with),
            1,
            "",
            "deactivate f0[v0]
             return",
        );
        let mut machine = machine(&m);
        machine.set(f0(), &[1], &i32s(&[5])).unwrap();
        machine.set(f1(), &[2], &f32s(&[1.0, 2.0])).unwrap();
        // Out of range, nothing happens.
        assert!(machine.run(&longs(&[99])).unwrap().reports.is_empty());
        assert_eq!(machine.get(f0(), &[1]), Ok(i32s(&[5])));
        machine.run(&longs(&[1])).unwrap();
        assert_eq!(machine.is_active(f0(), &[1]), Ok(false), "{kind}");
        assert_eq!(machine.active(f1()), Ok(Vec::<Vec<i64>>::new()));
        assert_eq!(machine.get(f0(), &[1]), Ok(i32s(&[0])));
        assert_eq!(machine.get(f1(), &[2]), Ok(f32s(&[0.0, 0.0])));
        machine.set(f0(), &[1], &i32s(&[3])).unwrap();
        assert_eq!(machine.get(f1(), &[2]), Ok(f32s(&[0.0, 0.0])), "{kind}");
    }
}

#[test]
fn accesses_that_do_not_activate() {
    let m = module(
        &one_level("pointer", ""),
        1,
        "-> i32",
        "v1: i32 = const 7
         store.never f0[v0], v1
         v2: i32 = atomic.never add f0[v0], v1
         v3: i32 = cmpxchg.never f0[v0], v1, v1
         v4: i32 = add v2, v3
         return v4",
    );
    let mut machine = machine(&m);
    let outcome = machine.run(&longs(&[1])).unwrap();
    assert_eq!(
        (outcome.result, outcome.reports),
        (Some(i32s(&[0])), vec![])
    );
    assert_eq!(machine.active(f0()).unwrap().len(), 0);
    machine.set(f0(), &[1], &i32s(&[1])).unwrap();
    // 7, then 14.
    let outcome = machine.run(&longs(&[1])).unwrap();
    assert_eq!(outcome.result, Some(i32s(&[21])));
    assert_eq!(machine.get(f0(), &[1]), Ok(i32s(&[14])));
    // Out-of-range accesses are reported.
    assert_eq!(machine.run(&longs(&[-2])).unwrap().reports.len(), 3);
}

#[test]
fn known_active_is_checked() {
    for access in [
        "store.known_active f0[v0], v1",
        "v2: i32 = load.known_active f0[v0]",
    ] {
        let body = format!("v1: i32 = const 7\n{access}\nreturn");
        let m = module(&one_level("bitmasked", ""), 1, "", &body);
        let mut machine = machine(&m);
        let stop = machine.run(&longs(&[1])).unwrap_err();
        assert_eq!(stop.code, error::NOT_INSIDE);
        machine.set(f0(), &[1], &i32s(&[1])).unwrap();
        machine.run(&longs(&[1])).unwrap();
    }
}

/// Three levels with a fork: blocks of 4, cells of 2, and a coarse field next to them.
const NESTED: &str = r#"
tree T0 {
  hash S1 [i: 1048576, j: 1048576] {
    bitmasked S2 [i: 4, j: 4] morton {
      dense S3 [i: 2] { place f0 }
    }
    place f1
    pointer S4 [j: 2] {
      dynamic S5 [k: 3] chunk 2 { place f2 }
    }
  }
}
field f0 "fine": i32 in T0.S3 (i from -4194304, j from -2097152)
field f1 "coarse": i32 in T0.S1 (i from -524288, j from -524288)
field f2 "bucket": i32 in T0.S5 (k, j from -1048576, i from -524288)
"#;

#[test]
fn nested_nodes_with_negative_coordinates() {
    let m = module(
        NESTED,
        2,
        "",
        "v2: i32 = const 5
         store f0[v0, v1], v2
         return",
    );
    let mut machine = machine(&m);
    // Cell (-1, -1) of S1, then (-1, -3) in cells of S2, which is two elements.
    machine.run(&longs(&[-1, -3])).unwrap();
    assert_eq!(machine.active(f1()), Ok(vec![vec![-1, -1]]));
    assert_eq!(machine.active(f0()), Ok(vec![vec![-2, -3], vec![-1, -3]]));
    assert_eq!(machine.get(f0(), &[-1, -3]), Ok(i32s(&[5])));
    assert_eq!(machine.get(f0(), &[-2, -3]), Ok(i32s(&[0])));
    machine.run(&longs(&[4194303, 2097151])).unwrap();
    assert_eq!(machine.active(f1()).unwrap().len(), 2);
    assert_eq!(machine.is_active(f1(), &[524287, 524287]), Ok(true));
    assert_eq!(machine.run(&longs(&[4194304, 0])).unwrap().reports.len(), 1);
}

#[test]
fn deactivation_takes_everything_below() {
    let m = module(
        NESTED,
        2,
        "",
        "deactivate f1[v0, v1]
         return",
    );
    let mut machine = machine(&m);
    let f2 = Field::from_u32(2);
    for i in [-1, 0] {
        machine.set(f0(), &[8 * i, 0], &i32s(&[1])).unwrap();
        machine.set(f0(), &[8 * i + 7, 3], &i32s(&[2])).unwrap();
        machine.set(f2, &[2, 0, i], &i32s(&[3])).unwrap();
        machine.set(f2, &[0, 1, i], &i32s(&[4])).unwrap();
    }
    assert_eq!(machine.active(f2).unwrap().len(), 8);
    machine.run(&longs(&[-1, 0])).unwrap();
    assert_eq!(machine.active(f1()), Ok(vec![vec![0, 0]]));
    let left = vec![vec![0, 0], vec![1, 0], vec![6, 3], vec![7, 3]];
    assert_eq!(machine.active(f0()), Ok(left));
    let left = vec![vec![0, 0, 0], vec![0, 1, 0], vec![1, 0, 0], vec![2, 0, 0]];
    assert_eq!(machine.active(f2), Ok(left));
    assert_eq!(machine.get(f2, &[2, 0, -1]), Ok(i32s(&[0])));
    assert_eq!(machine.get(f2, &[2, 0, 0]), Ok(i32s(&[3])));
    // It is reactivated without its former children.
    machine.set(f1(), &[-1, 0], &i32s(&[1])).unwrap();
    assert_eq!(machine.active(f0()).unwrap().len(), 4);
}

#[test]
fn lists_grow_up_to_their_capacity() {
    let m = module(
        NESTED,
        2,
        "-> i32x2",
        "v2: i32 = append f2[v1, v0]
         v3: i32 = length f2[v1, v0]
         v4: i32x2 = compose v2, v3
         return v4",
    );
    let mut machine = machine(&m);
    let f2 = Field::from_u32(2);
    for (new, length) in [(0, 1), (1, 2), (2, 3), (-1, 3)] {
        let outcome = machine.run(&longs(&[-1, -2])).unwrap();
        assert_eq!(outcome.result, Some(i32s(&[new, length])));
        let reports: Vec<_> = outcome.reports.iter().map(|r| &r.kind).collect();
        match new {
            -1 => {
                assert_eq!(reports, [&SiteKind::ListFull(f2)]);
                assert_eq!(outcome.reports[0].values, longs(&[3]));
            }
            _ => assert!(reports.is_empty()),
        }
    }
    assert_eq!(machine.is_active(f1(), &[-1, -1]), Ok(true));
    assert_eq!(machine.active(f0()).unwrap().len(), 0);
    let outcome = machine.run(&longs(&[524288, -2])).unwrap();
    assert_eq!(outcome.result, Some(i32s(&[-1, 0])));
    assert_eq!(outcome.reports[0].values, longs(&[0, -2, 524288]));
}

#[test]
fn writes_beyond_the_end_of_a_list_make_it_longer() {
    let m = module(
        "tree T0 { dynamic S1 [i: 8] chunk 2 { place f0 } }
         field f0 \"x\": i32 in T0.S1 (i)",
        1,
        "-> i32",
        "activate f0[v0]
         v1: i32 = append f0[]
         return v1",
    );
    let mut machine = machine(&m);
    machine.set(f0(), &[0], &i32s(&[9])).unwrap();
    let outcome = machine.run(&longs(&[4])).unwrap();
    assert_eq!(outcome.result, Some(i32s(&[5])));
    let outcome = machine.run(&longs(&[1])).unwrap();
    assert_eq!(outcome.result, Some(i32s(&[6])));
    assert_eq!(machine.field(f0()), Ok(i32s(&[9, 0, 0, 0, 0, 0, 0, 0])));
    assert_eq!(machine.active(f0()).unwrap().len(), 7);
    let outcome = machine.run(&longs(&[8])).unwrap();
    assert_eq!(outcome.result, Some(i32s(&[7])));
    assert_eq!(outcome.reports.len(), 1);
}

#[test]
fn loops_visit_what_was_active_when_they_began() {
    // Each cell activates its right neighbour and deactivates itself.
    let m = module(
        "tree T0 { pointer S1 [i: 16] { place f0 } }
         field f0 \"x\": i32 in T0.S1 (i from -8)",
        0,
        "",
        "foreach L0 (v0: i32) in f0 {
           v1: i32 = const 1
           v2: i32 = add v0, v1
           v3: i32 = atomic add f0[v2], v1
           continue L0
         }
         return",
    );
    for config in orders() {
        let mut machine = Machine::new(&m, config).unwrap();
        for i in [-8, 3, 4] {
            machine.set(f0(), &[i], &i32s(&[10])).unwrap();
        }
        machine.run(&[]).unwrap();
        let active: Vec<i64> = machine
            .active(f0())
            .unwrap()
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(active, [-8, -7, 3, 4, 5]);
        let values: Vec<Vec<Imm>> = active
            .iter()
            .map(|i| machine.get(f0(), &[*i]).unwrap())
            .collect();
        assert_eq!(values.concat(), i32s(&[10, 1, 10, 11, 1]));
    }
}

#[test]
fn loops_may_remove_what_they_visit() {
    for (kind, with) in KINDS {
        let m = module(
            &one_level(kind, with),
            0,
            "",
            "foreach L0 (v0: i32) in f0 {
               deactivate f0[v0]
               continue L0
             }
             return",
        );
        for config in orders() {
            let mut machine = Machine::new(&m, config).unwrap();
            machine.watch_races = true;
            for i in [-1, 0, 2] {
                machine.set(f0(), &[i], &i32s(&[1])).unwrap();
            }
            machine.run(&[]).unwrap();
            assert_eq!(machine.active(f0()).unwrap().len(), 0, "{kind}");
            assert_eq!(machine.field(f0()), Ok(i32s(&[0, 0, 0, 0])));
        }
    }
}

#[test]
fn iterations_have_row_major_numbers() {
    let m = module(
        "tree T0 {
           pointer S1 [i: 2, j: 4] { bitmasked S2 [i: 3] { place f0 } }
         }
         field f0 \"x\": i32 in T0.S2 (j from -2, i)
         message m0 \"{i32} {i32}\"",
        0,
        "",
        "foreach L0 (v0: i32, v1: i32) in f0 {
           print m0 (v0, v1)
           continue L0
         }
         return",
    );
    for config in orders() {
        let mut machine = Machine::new(&m, config).unwrap();
        for at in [[1, 5], [-2, 0], [0, 2]] {
            machine.set(f0(), &at, &i32s(&[1])).unwrap();
        }
        let printed = machine.run(&[]).unwrap().printed;
        let lines: Vec<(u64, &str)> = printed
            .iter()
            .map(|p| (p.iteration, p.text.as_str()))
            .collect();
        assert_eq!(lines, [(0, "-2 0"), (14, "0 2"), (23, "1 5")]);
    }
    // More cells than numbers: modulo 2^64.
    let m = module(
        "tree T0 { hash S1 [i: 4294967296, j: 4294967296, k: 4294967296] { place f0 } }
         field f0 \"x\": i32 in T0.S1 (i from -2147483648, j, k)
         message m0 \"{i64}\"",
        0,
        "",
        "foreach L0 (v0: i64, v1: i64, v2: i64) in f0 {
           print m0 (v0)
           continue L0
         }
         return",
    );
    let mut machine = machine(&m);
    machine.set(f0(), &[-1, 1, 5], &i32s(&[1])).unwrap();
    machine.set(f0(), &[2, 0, 5], &i32s(&[1])).unwrap();
    let printed = machine.run(&[]).unwrap().printed;
    let numbers: Vec<u64> = printed.iter().map(|p| p.iteration).collect();
    assert_eq!(numbers, [5, (1 << 32) + 5]);
}

#[test]
fn loops_over_dense_cells_below_and_over_inner_nodes() {
    let layout = r#"
        struct s0 "nothing" { }
        tree T0 {
          pointer S1 [i: 4, j: 2] {
            place f1
            dense S2 [j: 2] { dense S3 [i: 2, k: 2] { place f0 } }
          }
        }
        field f0 "x": i32 in T0.S3 (i, j, k)
        field f1 "block": s0 in T0.S1 (i, j)
        tree T1 { place f2, f3 }
        field f2 "cells": i32 in T1.S0 ()
        field f3 "blocks": i32 in T1.S0 ()"#;
    let m = module(
        layout,
        0,
        "",
        "v0: i32 = const 1
         activate f1[v0, v0]
         foreach L0 (v1: i32, v2: i32, v3: i32) in f0 {
           v4: i32 = atomic add f2[], v0
           v5: i32 = atomic add f0[v1, v2, v3], v0
           continue L0
         }
         foreach L1 (v6: i32, v7: i32) in f1 {
           v8: i32 = atomic add f3[], v0
           continue L1
         }
         return",
    );
    for config in orders() {
        let mut machine = Machine::new(&m, config).unwrap();
        machine.set(f0(), &[7, 0, 1], &i32s(&[4])).unwrap();
        machine.run(&[]).unwrap();
        assert_eq!(machine.get(Field::from_u32(2), &[]), Ok(i32s(&[16])));
        assert_eq!(machine.get(Field::from_u32(3), &[]), Ok(i32s(&[2])));
        assert_eq!(machine.get(f0(), &[7, 0, 1]), Ok(i32s(&[5])));
        assert_eq!(machine.get(f0(), &[2, 2, 0]), Ok(i32s(&[1])));
        assert_eq!(machine.active(f1()), Ok(vec![vec![1, 1], vec![3, 0]]));
        assert_eq!(machine.is_active(f0(), &[2, 3, 1]), Ok(true));
        assert_eq!(machine.is_active(f0(), &[2, 1, 1]), Ok(false));
    }
}

#[test]
fn lists_in_lists() {
    let m = module(
        "tree T0 { dynamic S1 [i: 4] chunk 2 { place f1
           dynamic S2 [j: 3] chunk 1 { bitmasked S3 [k: 2] { place f0 } } } }
         field f0 \"x\": i32 in T0.S3 (i, j, k)
         field f1 \"outer\": i32 in T0.S1 (i)",
        1,
        "",
        "deactivate f1[v0]
         return",
    );
    let mut machine = machine(&m);
    machine.set(f0(), &[2, 1, 1], &i32s(&[4])).unwrap();
    assert_eq!(machine.active(f1()).unwrap().len(), 3);
    assert_eq!(machine.active(f0()), Ok(vec![vec![2, 1, 1]]));
    assert_eq!(machine.is_active(f0(), &[2, 0, 1]), Ok(false));
    // The whole list is deactivated, for any index.
    machine.run(&longs(&[3])).unwrap();
    assert_eq!(machine.active(f1()).unwrap().len(), 0);
    assert_eq!(machine.active(f0()).unwrap().len(), 0);
}

#[test]
fn trees_move_from_machine_to_machine() {
    let layout = one_level("pointer", "");
    let writer = module(
        &layout,
        1,
        "",
        "v1: i32 = const 8\nstore f0[v0], v1\nreturn",
    );
    // The same tree with another id, and other ids of its fields.
    let reader = module(
        "tree T0 { place f0 }
         tree T1 { pointer S1 [i: 4] { place f2, f1 } }
         field f0: i32 in T0.S0 ()
         field f1 \"y\": f32x2 in T1.S1 (i)
         field f2 \"x\": i32 in T1.S1 (i from -1)",
        1,
        "-> i32",
        "v1: i32 = load.known_active f2[v0]\nreturn v1",
    );
    let mut one = machine(&writer);
    one.run(&longs(&[2])).unwrap();
    let state: TreeState = one.take_tree(Tree::from_u32(0));
    assert_eq!(one.active(f0()).unwrap().len(), 0);
    let mut two = machine(&reader);
    two.put_tree(Tree::from_u32(1), state).unwrap();
    let outcome = two.run(&longs(&[2])).unwrap();
    assert_eq!(outcome.result, Some(i32s(&[8])));
    let state = two.take_tree(Tree::from_u32(1));
    assert!(two.put_tree(Tree::from_u32(0), state).is_err());
}

#[test]
fn appends_of_all_iterations_return_different_indices() {
    let m = module(
        "tree T0 { pointer S1 [j: 2] { dynamic S2 [i: 100] chunk 7 { place f0 } } }
         field f0 \"x\": i32 in T0.S2 (j, i)
         tree T1 { dense S1 [i: 100] { place f1 } }
         field f1 \"seen\": i32 in T1.S1 (i)",
        0,
        "",
        "v0: i32 = const 0
         v1: i32 = const 50
         v2: i32 = const 1
         foreach L0 (v3: i32) in v0..v1 {
           v4: i32 = append f0[v2]
           store f0[v2, v4], v3
           v5: i32 = atomic add f1[v4], v2
           continue L0
         }
         return",
    );
    for config in orders() {
        let mut machine = Machine::new(&m, config).unwrap();
        machine.watch_races = true;
        machine.run(&[]).unwrap();
        let mut seen = i32s(&[1; 50]);
        seen.extend(i32s(&[0; 50]));
        assert_eq!(machine.field(f1()), Ok(seen));
        let mut values: Vec<i128> = (0..50)
            .map(|i| machine.get(f0(), &[1, i]).unwrap()[0].as_int().unwrap())
            .collect();
        values.sort_unstable();
        assert!(values.iter().copied().eq(0..50));
        assert_eq!(machine.active(f0()).unwrap().len(), 50);
    }
}
