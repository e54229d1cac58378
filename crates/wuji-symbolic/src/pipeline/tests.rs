//! A golden for every stage.

use super::decompose::{Home, Units};
use super::group::{Group, Structure};
use super::place::Index;
use super::*;
use crate::arena::{Arena, Id, Node};
use crate::sym::Sym;
use crate::{Real, Trace};
use expect_test::{Expect, expect};
use std::fmt::Write;

/// The example of section 4.2.3 of the paper.
fn toy() -> Trace {
    Trace::record(&[4], |x| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| x[0][k]);
        let squares = a * a + b * b;
        vec![vec![
            squares.sqrt() + a,
            c * (a + d) * squares.sqrt() + c * (a + d) + (a + d).sin(),
            squares + a * b,
        ]]
    })
    .unwrap()
}

/// A matrix with two diagonals, squared.
fn bidiagonal(n: usize) -> Trace {
    Trace::record(&[2 * n], |x| {
        let (diagonal, above) = x[0].split_at(n);
        let mut values = Vec::new();
        for i in 0..n {
            values.push(diagonal[i] * diagonal[i]);
            if i + 1 < n {
                values.push(diagonal[i] * above[i] + above[i] * diagonal[i + 1]);
            }
            if i + 2 < n {
                values.push(above[i] * above[i + 1]);
            }
        }
        vec![values]
    })
    .unwrap()
}

fn show(arena: &Arena, id: Id, leaf: &dyn Fn(Id) -> Option<String>) -> String {
    if let Some(text) = leaf(id) {
        return text;
    }
    match arena.node(id) {
        Node::Const(value) => format!("{value}"),
        Node::Input { array, index } => format!("x{array}[{index}]"),
        Node::Unary(..)
        | Node::Not(_)
        | Node::Binary(..)
        | Node::Compare(..)
        | Node::Logic(..)
        | Node::Pair(..) => {
            let operands = arena.children(id).map(|o| show(arena, o, leaf));
            let operands: Vec<String> = operands.collect();
            format!("{}({})", arena.op(id).name(), operands.join(", "))
        }
        Node::Select(c, a, b) => {
            let [c, a, b] = [c, a, b].map(|id| show(arena, id, leaf));
            format!("select({c}, {a}, {b})")
        }
    }
}

fn show_units(trace: &Trace, units: &Units) -> String {
    let mut text = String::new();
    for unit in 0..units.len() {
        let _ = write!(text, "level {}:", units.levels[unit]);
        for root in units.roots(unit) {
            let own = root.node;
            let leaf = |id: Id| (id != own && units.is_loaded(id)).then(|| id.to_string());
            let home = match root.home {
                Home::Intermediate => own.to_string(),
                Home::Output { array, index } => format!("y{array}[{index}]"),
            };
            let _ = write!(text, " {home} = {};", show(&trace.arena, own, &leaf));
        }
        text += "\n";
    }
    text
}

fn units(trace: &Trace, options: &Options) -> Units {
    let without = Options {
        merge_chains: false,
        ..Options::default()
    };
    decompose::decompose(trace, balance::balance(trace, &without), options)
}

fn check_units(trace: &Trace, options: &Options, expected: Expect) {
    expected.assert_eq(&show_units(trace, &units(trace, options)));
}

#[test]
fn shared_expressions_become_intermediates() {
    check_units(
        &toy(),
        &Options::default(),
        expect![[r#"
        level 1: n6 = add(mul(x0[0], x0[0]), mul(x0[1], x0[1]));
        level 2: n7 = sqrt(n6);
        level 3: y0[0] = add(x0[0], n7);
        level 3: y0[1] = add(add(mul(x0[2], add(x0[0], x0[3])), mul(n7, mul(x0[2], add(x0[0], x0[3])))), sin(add(x0[0], x0[3])));
        level 2: y0[2] = add(n6, mul(x0[0], x0[1]));
    "#]],
    );
    let small = Options {
        min_complexity: 4,
        ..Options::default()
    };
    check_units(
        &toy(),
        &small,
        expect![[r#"
        level 1: n7 = sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])));
        level 2: y0[0] = add(x0[0], n7);
        level 2: y0[1] = add(add(mul(x0[2], add(x0[0], x0[3])), mul(n7, mul(x0[2], add(x0[0], x0[3])))), sin(add(x0[0], x0[3])));
        level 1: y0[2] = add(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])), mul(x0[0], x0[1]));
    "#]],
    );
    check_units(
        &toy(),
        &Options::none(),
        expect![[r#"
        level 1: y0[0] = add(x0[0], sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))));
        level 1: y0[1] = add(add(mul(x0[2], add(x0[0], x0[3])), mul(sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))), mul(x0[2], add(x0[0], x0[3])))), sin(add(x0[0], x0[3])));
        level 1: y0[2] = add(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])), mul(x0[0], x0[1]));
    "#]],
    );
}

#[test]
fn tagged_values_are_one_unit() {
    let trace = Trace::record(&[2], |x| {
        let (a, b) = (x[0][0], x[0][1]);
        let y = (a * a + b * b).sqrt();
        let both = [b * y + a, a * y + b];
        crate::block(&both);
        vec![both.to_vec()]
    })
    .unwrap();
    check_units(
        &trace,
        &Options::default(),
        expect![[r#"
        level 1: y0[0] = add(x0[0], mul(x0[1], sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))))); y0[1] = add(x0[1], mul(x0[0], sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])))));
    "#]],
    );
    let without = Options {
        tagging: false,
        ..Options::default()
    };
    check_units(
        &trace,
        &without,
        expect![[r#"
        level 1: n5 = sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])));
        level 2: y0[0] = add(x0[0], mul(x0[1], n5));
        level 2: y0[1] = add(x0[1], mul(x0[0], n5));
    "#]],
    );
}

/// Two values share work, and one of them is computed from the other. A sum over elements uses them.
fn element(x: Sym, y: Sym) -> [Sym; 2] {
    let size = (x * x + y * y).sqrt();
    let first = x / size + size * y;
    [first, (first * size).sin() + size]
}

#[test]
fn values_of_a_block_may_be_computed_from_each_other() {
    let trace = Trace::record(&[2], |x| {
        let both = element(x[0][0], x[0][1]);
        crate::block(&both);
        vec![both.to_vec()]
    })
    .unwrap();
    check_units(
        &trace,
        &Options::default(),
        expect![[r#"
            level 1: y0[0] = add(div(x0[0], sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])))), mul(x0[1], sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))))); y0[1] = add(sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))), sin(mul(sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))), n8)));
        "#]],
    );
    let analysis = analyze(&trace, &Options::default()).unwrap();
    assert_eq!((analysis.groups.len(), analysis.dissolved_blocks), (1, 0));
    assert_eq!(analysis.groups[0].reads.len(), 2);
}

#[test]
fn values_of_the_same_inputs_that_share_work_are_a_block() {
    let trace = Trace::record(&[6], |x| {
        let elements: Vec<[Sym; 2]> = x[0].chunks(2).map(|c| element(c[0], c[1])).collect();
        let sum = |k: usize| elements.iter().map(|e| e[k]).sum::<Sym>();
        vec![vec![sum(0), sum(1)]]
    })
    .unwrap();
    let detected = Options {
        detect_blocks: true,
        ..Options::default()
    };
    check_units(
        &trace,
        &detected,
        expect![[r#"
        level 1: n12 = add(div(x0[0], sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])))), mul(x0[1], sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))))); n15 = add(sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))), sin(mul(sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1]))), n12)));
        level 1: n22 = add(div(x0[2], sqrt(add(mul(x0[2], x0[2]), mul(x0[3], x0[3])))), mul(x0[3], sqrt(add(mul(x0[2], x0[2]), mul(x0[3], x0[3]))))); n25 = add(sqrt(add(mul(x0[2], x0[2]), mul(x0[3], x0[3]))), sin(mul(sqrt(add(mul(x0[2], x0[2]), mul(x0[3], x0[3]))), n22)));
        level 1: n32 = add(div(x0[4], sqrt(add(mul(x0[4], x0[4]), mul(x0[5], x0[5])))), mul(x0[5], sqrt(add(mul(x0[4], x0[4]), mul(x0[5], x0[5]))))); n35 = add(sqrt(add(mul(x0[4], x0[4]), mul(x0[5], x0[5]))), sin(mul(sqrt(add(mul(x0[4], x0[4]), mul(x0[5], x0[5]))), n32)));
        level 2: y0[0] = add(n32, add(n12, n22));
        level 2: y0[1] = add(n35, add(n15, n25));
    "#]],
    );
    check_units(
        &trace,
        &Options::default(),
        expect![[r#"
        level 1: n9 = sqrt(add(mul(x0[0], x0[0]), mul(x0[1], x0[1])));
        level 2: n12 = add(div(x0[0], n9), mul(x0[1], n9));
        level 1: n19 = sqrt(add(mul(x0[2], x0[2]), mul(x0[3], x0[3])));
        level 2: n22 = add(div(x0[2], n19), mul(x0[3], n19));
        level 1: n29 = sqrt(add(mul(x0[4], x0[4]), mul(x0[5], x0[5])));
        level 2: n32 = add(div(x0[4], n29), mul(x0[5], n29));
        level 3: y0[0] = add(n32, add(n12, n22));
        level 3: y0[1] = add(add(n29, sin(mul(n29, n32))), add(add(n9, sin(mul(n9, n12))), add(n19, sin(mul(n19, n22)))));
    "#]],
    );
}

#[test]
fn long_sums_become_trees() {
    let trace = Trace::record(&[100], |x| vec![vec![x[0].iter().sum::<Sym>()]]).unwrap();
    let mut balanced = balance::balance(&trace, &Options::default());
    let tree = balanced.trace.take().unwrap();
    let units = decompose::decompose(&tree, balanced, &Options::default());
    assert_eq!(units.len(), 8);
    assert_eq!(units.levels, [1, 1, 1, 1, 1, 1, 1, 2]);
    let short = Trace::record(&[60], |x| vec![vec![x[0].iter().sum::<Sym>()]]).unwrap();
    assert!(
        balance::balance(&short, &Options::default())
            .trace
            .is_none()
    );
}

fn show_groups(groups: &[Group]) -> String {
    let mut text = String::new();
    for group in groups {
        let _ = writeln!(text, "level {}, units {:?}", group.level, group.units);
        for step in group.steps() {
            let _ = writeln!(text, "  {step:?}");
        }
    }
    text
}

#[test]
fn expressions_of_one_structure_are_a_group() {
    let trace = bidiagonal(4);
    let units = units(&trace, &Options::default());
    let groups = group::group(&trace, &units, &Options::default());
    expect![[r#"
        level 1, units [0, 2, 3, 5, 6, 8]
          Compute(Binary(Mul), [Leaf(Input(0)), Leaf(Input(0))])
          Store(Output(0), Instruction(0))
        level 1, units [1, 4, 7]
          Compute(Binary(Mul), [Leaf(Input(0)), Leaf(Input(0))])
          Compute(Binary(Mul), [Leaf(Input(0)), Leaf(Input(0))])
          Compute(Binary(Add), [Instruction(0), Instruction(1)])
          Store(Output(0), Instruction(2))
    "#]]
    .assert_eq(&show_groups(&groups));
    // With one bit of hashes there are collisions, and the same groups.
    let colliding = Options {
        hash_mask: 1,
        ..Options::default()
    };
    let again = group::group(&trace, &units, &colliding);
    assert_eq!(show_groups(&groups), show_groups(&again));
}

#[test]
fn the_order_of_terms_does_not_matter() {
    let trace = Trace::record(&[4], |x| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| x[0][k]);
        vec![vec![
            a * b + c + d.sin(),
            c.sin() + a + d * b,
            (b + d * c) + a.sin(),
        ]]
    })
    .unwrap();
    let count = |options: &Options| {
        let units = units(&trace, options);
        group::group(&trace, &units, options).len()
    };
    assert_eq!(count(&Options::default()), 1);
    assert_eq!(count(&Options::none()), 2);
}

#[test]
fn groups_do_not_depend_on_the_number_of_threads() {
    let trace = bidiagonal(50);
    let options = Options::default();
    let units = units(&trace, &options);
    let structure = Structure::new(&trace, &units, &options);
    let with = |threads: usize| {
        let parts = crate::parallel::divided(units.len(), threads, |range| {
            group::group_range(&structure, range, &options)
        });
        format!("{:?}", group::merged(parts, &options))
    };
    let one = with(1);
    assert_eq!(one, format!("{:?}", group::group(&trace, &units, &options)));
    for threads in [2, 3, 7] {
        assert_eq!(with(threads), one, "{threads} threads");
    }
}

#[test]
fn leaves_become_columns() {
    let trace = Trace::record(&[4], |x| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| x[0][k]);
        let of = |b: Sym, a: Sym, k: f64| (b * b) * 2.0 + (a * k) / a;
        vec![vec![of(b, a, 3.1), of(c, d, 2.7)]]
    })
    .unwrap();
    let options = Options::default();
    let units = units(&trace, &options);
    let groups = group::group(&trace, &units, &options);
    let harvested = harvest::harvest(&trace, &groups[0]).unwrap();
    let mut text = String::new();
    let none = |_: Id| None;
    let template = &harvested.template;
    let _ = writeln!(text, "{}", show(&template.arena, template.roots[0], &none));
    for (slot, column) in harvested.columns.iter().enumerate() {
        let members: Vec<String> = column
            .nodes
            .iter()
            .map(|n| show(&trace.arena, *n, &none))
            .collect();
        let _ = writeln!(text, "slot {slot}: {}", members.join(", "));
    }
    let simple = simplify::simplify(template, &options.simplify, u64::MAX);
    let _ = writeln!(text, "{}", show(&simple.arena, simple.roots[0], &none));
    expect![[r#"
        add(div(mul(x0[0], x0[1]), x0[1]), mul(x0[2], mul(2, x0[2])))
        slot 0: 3.1, 2.7
        slot 1: x0[0], x0[3]
        slot 2: x0[1], x0[2]
        add(x0[0], mul(x0[2], mul(2, x0[2])))
    "#]]
    .assert_eq(&text);
}

#[test]
fn common_subexpressions_are_locals() {
    let trace = Trace::record(&[2], |x| {
        let sum = x[0][0] + x[0][1];
        vec![vec![sum.sin() * sum + sum.sin()]]
    })
    .unwrap();
    let analysis = analyze(
        &trace,
        &Options {
            simplify: Simplify::none(),
            ..Options::default()
        },
    )
    .unwrap();
    let group = &analysis.groups[0];
    let arena = &group.template.arena;
    let kept = arena
        .ids()
        .filter(|id| group.locals[id.at()] && !arena.op(*id).is_leaf());
    let names: Vec<&str> = kept.map(|id| arena.op(id).name()).collect();
    assert_eq!(names, ["add", "sin"]);
}

fn show_analysis(analysis: &Analysis) -> String {
    let index = |index: Index| match index {
        Index::Affine { first, stride } => format!("[{first} + {stride} * i]"),
        Index::Table { start, offset } => format!("[table[{start} + i] + {offset}]"),
    };
    let mut text = String::new();
    for group in &analysis.groups {
        let _ = writeln!(text, "{} members of level {}", group.members, group.level);
        for read in &group.reads {
            let _ = writeln!(
                text,
                "  slot {}: {:?} {}",
                read.slot,
                read.source,
                index(read.index)
            );
        }
        for write in &group.writes {
            let _ = writeln!(text, "  to {:?} {}", write.to, index(write.index));
        }
    }
    let _ = writeln!(
        text,
        "{:?} {:?}",
        analysis.tables.indices, analysis.tables.constants
    );
    text
}

#[test]
fn members_are_sorted_and_affine_columns_need_no_table() {
    let trace = Trace::record(&[9], |x| {
        let x = &x[0];
        let products: Vec<Sym> = [7, 2, 4, 0]
            .iter()
            .map(|k| x[*k] * x[k + 1] + x[8] * 2.0)
            .collect();
        let sums = products.iter().map(|p| p.sin() + *p).rev().collect();
        vec![products, sums]
    })
    .unwrap();
    let analysis = analyze(&trace, &Options::default()).unwrap();
    expect![[r#"
        4 members of level 1
          slot 0: Input(0) [table[0 + i] + 0]
          slot 1: Input(0) [table[0 + i] + 1]
          slot 2: Input(0) [8 + 0 * i]
          to Output(0) [0 + 1 * i]
        4 members of level 2
          slot 0: Output(0) [3 + -1 * i]
          to Output(1) [0 + 1 * i]
        [7, 2, 4, 0] []
    "#]]
    .assert_eq(&show_analysis(&analysis));
    let plain = analyze(
        &trace,
        &Options {
            coalesce: false,
            sort_members: false,
            ..Options::default()
        },
    );
    expect![[r#"
        4 members of level 1
          slot 0: Input(0) [table[0 + i] + 0]
          slot 1: Input(0) [table[4 + i] + 0]
          slot 2: Input(0) [table[8 + i] + 0]
          to Output(0) [table[12 + i] + 0]
        4 members of level 2
          slot 0: Output(0) [table[16 + i] + 0]
          to Output(1) [table[20 + i] + 0]
        [7, 2, 4, 0, 8, 3, 5, 1, 8, 8, 8, 8, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3] []
    "#]]
    .assert_eq(&show_analysis(&plain.unwrap()));
}

/// Enough members for several threads.
#[test]
fn large_groups_are_sorted_with_all_their_columns() {
    const N: usize = 100_000;
    let (p, q) = (|i: usize| i * 7919 % N, |i: usize| (i * 31_337 + 1) % N);
    let constant = |i: usize| 0.5 * i as f64 + 1.0;
    let trace = Trace::record(&[N], |x| {
        let value = |i: usize| x[0][p(i)] / x[0][q(i)] + constant(i);
        let mut values: Vec<Sym> = (0..N).map(value).collect();
        values.reverse();
        vec![values]
    })
    .unwrap();
    let analysis = analyze(&trace, &Options::default()).unwrap();
    let [group] = &analysis.groups[..] else {
        panic!("{} groups", analysis.groups.len());
    };
    assert_eq!(group.members, N as u32);
    // Members are in the order of their outputs, which is the reverse of that of the program.
    let members = || (0..N).rev();
    let tables: Vec<i32> = members()
        .map(p)
        .chain(members().map(q))
        .map(|k| k as i32)
        .collect();
    assert_eq!(analysis.tables.indices, tables);
    let constants: Vec<f64> = members().map(constant).collect();
    assert_eq!(analysis.tables.constants, constants);
    let affine = Index::Affine {
        first: 0,
        stride: 1,
    };
    assert_eq!(group.writes[0].index, affine);
}

#[test]
fn a_group_is_a_parallel_loop() {
    let world = wuji::World::interpreter().unwrap();
    let mut module = wuji_ir::module::Module::new("traced");
    let trace = bidiagonal(3);
    let analysis = analyze(&trace, &Options::default()).unwrap();
    let mut enter = |name: &str, elements: i64| {
        let field = world.field::<f32, 1>(name, elements).unwrap();
        let number = wuji::dynamic::enter(&mut module, &field.tree()).unwrap();
        wuji_ir::entities::Field::from_u32(number)
    };
    let fields = emit::Fields {
        inputs: vec![enter("x0", 6)],
        outputs: vec![enter("y0", 6)],
        intermediates: enter("t", 1),
        constants: enter("constants", 1),
        indices: {
            let field = world
                .field::<i32, 1>("indices", analysis.tables.indices.len() as i64)
                .unwrap();
            let number = wuji::dynamic::enter(&mut module, &field.tree()).unwrap();
            wuji_ir::entities::Field::from_u32(number)
        },
    };
    let scalar = wuji_ir::types::Scalar::F32;
    let module = emit::emit(module, &analysis, &fields, scalar).unwrap();
    wuji_ir::verify::verify(&module).unwrap();
    expect![[r#"
        module "traced"
        tree T0 {
          dense S1 [i: 6] {
            place f0
          }
        }
        tree T1 {
          dense S1 [i: 6] {
            place f1
          }
        }
        tree T2 {
          dense S1 [i: 1] {
            place f2
          }
        }
        tree T3 {
          dense S1 [i: 1] {
            place f3
          }
        }
        tree T4 {
          dense S1 [i: 12] {
            place f4
          }
        }
        field f0 "x0": f32 in T0.S1 (i)
        field f1 "y0": f32 in T1.S1 (i)
        field f2 "t": f32 in T2.S1 (i)
        field f3 "constants": f32 in T3.S1 (i)
        field f4 "indices": i32 in T4.S1 (i)

        kernel fn0 "traced"() {
          v0: i32 = const 0
          v1: i32 = const 4
          foreach L0 (v2: i32) in v0..v1 {
            v3: i32 = load f4[v2]
            v4: f32 = load f0[v3]
            v5: i32 = const 4
            v6: i32 = add v2, v5
            v7: i32 = load f4[v6]
            v8: f32 = load f0[v7]
            v9: f32 = mul v4, v8
            v10: i32 = const 8
            v11: i32 = add v2, v10
            v12: i32 = load f4[v11]
            store f1[v12], v9
            continue L0
          }
          v13: i32 = const 0
          v14: i32 = const 2
          foreach L1 (v15: i32) in v13..v14 {
            v16: f32 = load f0[v15]
            v17: i32 = const 3
            v18: i32 = add v15, v17
            v19: f32 = load f0[v18]
            v20: i32 = const 1
            v21: i32 = add v15, v20
            v22: f32 = load f0[v21]
            v23: f32 = add v16, v22
            v24: f32 = mul v19, v23
            v25: i32 = const 3
            v26: i32 = mul v15, v25
            v27: i32 = const 1
            v28: i32 = add v26, v27
            store f1[v28], v24
            continue L1
          }
          return
        }
    "#]]
    .assert_eq(&module.to_string());
}

/// Nodes, units and table entries for twice the size are twice as many, so no stage does more than linear work on them; the codes of
/// all members are what grouping and harvesting walk through.
#[test]
fn work_and_memory_are_linear_in_the_trace() {
    let work = |n: usize| {
        let trace = bidiagonal(n);
        let options = Options::default();
        let units = units(&trace, &options);
        let groups = group::group(&trace, &units, &options);
        let walked: usize = groups.iter().map(|g| g.code.len() * g.units.len()).sum();
        let analysis = analyze(&trace, &options).unwrap();
        (
            trace.arena.bytes() / trace.arena.len(),
            walked,
            analysis.groups.len(),
            analysis.tables.indices.len(),
        )
    };
    let (small, large) = (work(1000), work(4000));
    assert_eq!(small.2, large.2);
    assert!(
        large.1 <= 4 * small.1 + 100 && large.3 <= 4 * small.3 + 100,
        "{small:?} {large:?}"
    );
}

#[test]
fn tables_have_as_many_entries_as_32_bits_count() {
    assert!(check_entries(i32::MAX as usize).is_ok());
    let error = check_entries(i32::MAX as usize + 1).unwrap_err();
    assert_eq!(error.code, "W0805");
}

#[test]
fn deep_expressions_do_not_overflow_the_stack() {
    let trace = Trace::record(&[1], |x| {
        let mut y = x[0][0];
        for _ in 0..200_000 {
            y = (y * 0.5).sin();
        }
        vec![vec![y]]
    })
    .unwrap();
    let options = Options {
        max_groups: 10_000,
        ..Options::default()
    };
    let analysis = analyze(&trace, &options).unwrap();
    assert!(analysis.groups.len() > 100);
}
