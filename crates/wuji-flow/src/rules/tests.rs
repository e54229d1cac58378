//! Each rule on small programs: the graph before and after.

use crate::bank::Bank;
use crate::print;
use crate::rules::fusion::unfused;
use crate::window::{Switches, Window};
use expect_test::{Expect, expect};
use wuji_compile::Options;
use wuji_ir::module::Module;
use wuji_ir::text::parse;

const LINES: &str = "
tree T0 {
  dense S1 [i: 64] {
    place f0
  }
}
tree T1 {
  dense S1 [i: 64] {
    place f1
  }
}
tree T2 {
  dense S1 [i: 64] {
    place f2
  }
}
field f0 \"x\": f32 in T0.S1 (i)
field f1 \"y\": f32 in T1.S1 (i)
field f2 \"z\": f32 in T2.S1 (i)
";

pub(super) const SPARSE: &str = "
tree T0 {
  pointer S1 [i: 8] {
    dense S2 [i: 8] {
      place f0
    }
  }
}
tree T1 {
  pointer S1 [i: 8] {
    place f2
    dense S2 [i: 8] {
      place f1
    }
  }
}
field f0 \"x\": f32 in T0.S2 (i)
field f1 \"y\": f32 in T1.S2 (i)
field f2 \"blocks\": i32 in T1.S1 (i)
";

/// A kernel with a loop over a field or a range, `v1` is its index.
pub(super) fn kernel(fields: &str, name: &str, over: &str, body: &[&str]) -> Module {
    let body: String = body.iter().map(|line| format!("    {line}\n")).collect();
    let (bounds, over) = match over.split_once("..") {
        Some((lo, hi)) => {
            let bounds = format!("  v98: i32 = const {lo}\n  v99: i32 = const {hi}\n");
            (bounds, "v98..v99")
        }
        None => (String::new(), over),
    };
    let text = format!(
        "module \"{name}\"{fields}\nkernel fn0 \"{name}\"() {{\n{bounds}  foreach L0 (v1: i32) in {over} {{\n{body}    continue L0\n  }}\n  return\n}}\n"
    );
    parse(&text, name).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

pub(super) fn flow_without(without: &[&str], kernels: &[Module], expected: Expect) {
    flow_of(without, &[], kernels, expected);
}

/// Nothing reads these trees after the launches.
pub(super) fn flow_of(without: &[&str], temporaries: &[u32], kernels: &[Module], expected: Expect) {
    let options = Options {
        without: without.iter().map(|w| (*w).to_owned()).collect(),
        ..Options::default()
    };
    let mut bank = Bank::new(&options);
    let (mut window, names) = Window::of_modules(kernels, &mut bank).unwrap();
    window.temporaries = temporaries.to_vec();
    let after = window.optimized(&mut bank, &Switches::without(&options.without));
    let before = print::text(&window.graph(), &[], &names);
    let after = print::text(&after, &unfused(&after, &options), &names);
    expected.assert_eq(&format!("before:\n{before}after:\n{after}"));
}

pub(super) fn flow(kernels: &[Module], expected: Expect) {
    flow_without(&[], kernels, expected);
}

fn copy_plus() -> Module {
    let body = [
        "v2: f32 = load f0[v1]",
        "v3: f32 = const 1.0",
        "v4: f32 = add v2, v3",
        "store f1[v1], v4",
    ];
    kernel(LINES, "copy_plus", "f0", &body)
}

fn copy_on() -> Module {
    let body = ["v2: f32 = load f1[v1]", "store f2[v1], v2"];
    kernel(LINES, "copy_on", "f1", &body)
}

fn fill() -> Module {
    let body = ["v2: f32 = const 0.5", "store f1[v1], v2"];
    kernel(LINES, "fill", "f1", &body)
}

fn shift() -> Module {
    let body = [
        "v2: i32 = const 1",
        "v3: i32 = add v1, v2",
        "v4: f32 = load f1[v3]",
        "store f2[v1], v4",
    ];
    kernel(LINES, "shift", "f2", &body)
}

#[test]
fn a_chain_is_fused() {
    flow(
        &[copy_plus(), copy_on()],
        expect![[r#"
        before:
        0: copy_plus
            reads x
            writes y
        1: copy_on
            reads y
            writes z
            <- 0 (value: y)
        after:
        0: copy_plus+copy_on
            reads x
            writes y, z
    "#]],
    );
}

#[test]
fn neighbours_are_not_fused() {
    flow(
        &[copy_plus(), shift()],
        expect![[r#"
        before:
        0: copy_plus
            reads x
            writes y
        1: shift
            reads y
            writes z
            <- 0 (value: y)
        after:
        0: copy_plus
            reads x
            writes y
        1: shift
            reads y
            writes z
            <- 0 (value: y)
            not fused with 0: an iteration accesses elements of y that other iterations write
    "#]],
    );
}

#[test]
fn the_switch_disables_fusion() {
    flow_without(
        &["task_fusion"],
        &[copy_plus(), copy_on()],
        expect![[r#"
        before:
        0: copy_plus
            reads x
            writes y
        1: copy_on
            reads y
            writes z
            <- 0 (value: y)
        after:
        0: copy_plus
            reads x
            writes y
        1: copy_on
            reads y
            writes z
            <- 0 (value: y)
    "#]],
    );
}

#[test]
fn overwritten_stores_are_dead() {
    flow(
        &[copy_plus(), shift(), fill(), fill()],
        expect![[r#"
            before:
            0: copy_plus
                reads x
                writes y
            1: shift
                reads y
                writes z
                <- 0 (value: y)
            2: fill
                writes y
                <- 0 (overwrites: y)
                <- 1 (after read: y)
            3: fill
                writes y
                <- 2 (overwrites: y)
            after:
            0: copy_plus+shift+fill
                reads x
                writes y, z
        "#]],
    );
    flow(
        &[copy_plus(), fill()],
        expect![[r#"
        before:
        0: copy_plus
            reads x
            writes y
        1: fill
            writes y
            <- 0 (overwrites: y)
        after:
        0: fill
            writes y
    "#]],
    );
}

/// `y[i] = x[i]` over the cells of `x`: activates cells of `y`.
fn spread() -> Module {
    let body = ["v2: f32 = load f0[v1]", "store f1[v1], v2"];
    kernel(SPARSE, "spread", "f0", &body)
}

/// `y[i] += x[i]`, the same.
fn accumulate() -> Module {
    let body = ["v2: f32 = load f0[v1]", "v3: f32 = atomic add f1[v1], v2"];
    kernel(SPARSE, "accumulate", "f0", &body)
}

/// Deactivates the blocks of `y`.
fn clear() -> Module {
    let body = ["deactivate f2[v1]"];
    kernel(SPARSE, "clear", "f2", &body)
}

#[test]
fn activations_that_were_made_before_are_demoted() {
    flow(
        &[spread(), accumulate(), accumulate()],
        expect![[r#"
        before:
        0: spread
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
        1: accumulate
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 0 (value: y)
            <- 0 (overwrites: mask of y, blocks)
            <- 0 (overwrites: list of y, blocks)
            <- 0 (overwrites: allocator of y, blocks)
        2: accumulate
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 1 (value: y)
            <- 1 (overwrites: mask of y, blocks)
            <- 1 (overwrites: list of y, blocks)
            <- 1 (overwrites: allocator of y, blocks)
        after:
        0: spread
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
        1: accumulate+accumulate
            reads x, y, mask of x, mask of y, blocks, list of x, list of y, blocks
            writes y
            <- 0 (value: y)
            <- 0 (value: mask of y, blocks)
            <- 0 (value: list of y, blocks)
            not fused with 0: one changes the mask of y, blocks that the other one uses
    "#]],
    );
}

#[test]
fn deactivation_ends_what_is_known() {
    flow(
        &[spread(), clear(), spread()],
        expect![[r#"
        before:
        0: spread
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
        1: clear
            reads y, blocks, mask of y, blocks, list of y, blocks
            writes y, blocks, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 0 (value: y)
            <- 0 (value: mask of y, blocks)
            <- 0 (value: list of y, blocks)
            <- 0 (overwrites: allocator of y, blocks)
        2: spread
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 1 (value: y)
            <- 1 (overwrites: mask of y, blocks)
            <- 1 (overwrites: list of y, blocks)
            <- 1 (overwrites: allocator of y, blocks)
        after:
        0: spread
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
        1: clear
            reads y, blocks, mask of y, blocks, list of y, blocks
            writes y, blocks, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 0 (value: y)
            <- 0 (value: mask of y, blocks)
            <- 0 (value: list of y, blocks)
            <- 0 (overwrites: allocator of y, blocks)
            not fused with 0: `clear` stays alone: it asks which cells are active, or changes it
        2: spread
            reads x, y, mask of x, list of x
            writes y, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 1 (value: y)
            <- 1 (overwrites: mask of y, blocks)
            <- 1 (overwrites: list of y, blocks)
            <- 1 (overwrites: allocator of y, blocks)
            not fused with 1: `clear` stays alone: it asks which cells are active, or changes it
    "#]],
    );
}

#[test]
fn stores_to_temporaries_are_dead() {
    flow_of(
        &[],
        &[1],
        &[copy_plus(), copy_on()],
        expect![[r#"
        before:
        0: copy_plus
            reads x
            writes y
        1: copy_on
            reads y
            writes z
            <- 0 (value: y)
        after:
        0: copy_plus+copy_on
            reads x
            writes z
    "#]],
    );
}

#[test]
fn halos_of_temporaries_are_computed_again() {
    flow_of(
        &[],
        &[1],
        &[copy_plus(), shift()],
        expect![[r#"
        before:
        0: copy_plus
            reads x
            writes y
        1: shift
            reads y
            writes z
            <- 0 (value: y)
        after:
        0: copy_plus+shift
            reads x
            writes z
    "#]],
    );
    flow_of(
        &["halo_recomputation"],
        &[1],
        &[copy_plus(), shift()],
        expect![[r#"
            before:
            0: copy_plus
                reads x
                writes y
            1: shift
                reads y
                writes z
                <- 0 (value: y)
            after:
            0: copy_plus
                reads x
                writes y
            1: shift
                reads y
                writes z
                <- 0 (value: y)
                not fused with 0: an iteration accesses elements of y that other iterations write
        "#]],
    );
}

/// `x[i] = z[i]`.
fn copy_back() -> Module {
    let body = ["v2: f32 = load f2[v1]", "store f0[v1], v2"];
    kernel(LINES, "copy_back", "f0", &body)
}

#[test]
fn halos_are_not_computed_from_what_was_changed() {
    flow_of(
        &["task_fusion"],
        &[1],
        &[copy_plus(), copy_back(), shift()],
        expect![[r#"
            before:
            0: copy_plus
                reads x
                writes y
            1: copy_back
                reads z
                writes x
                <- 0 (after read: x)
            2: shift
                reads y
                writes z
                <- 0 (value: y)
                <- 1 (after read: z)
            after:
            0: copy_plus
                reads x
                writes y
            1: copy_back
                reads z
                writes x
                <- 0 (after read: x)
            2: shift
                reads y
                writes z
                <- 0 (value: y)
                <- 1 (after read: z)
        "#]],
    );
}

/// `x[i] += 1` for a part of the elements.
fn part_of_x() -> Module {
    let body = [
        "v2: f32 = load f0[v1]",
        "v3: f32 = const 1.0",
        "v4: f32 = add v2, v3",
        "store f0[v1], v4",
    ];
    kernel(LINES, "part_of_x", "0..10", &body)
}

/// `z[i] += 1` for another part.
fn part_of_z() -> Module {
    let body = [
        "v2: f32 = load f2[v1]",
        "v3: f32 = const 1.0",
        "v4: f32 = add v2, v3",
        "store f2[v1], v4",
    ];
    kernel(LINES, "part_of_z", "10..30", &body)
}

#[test]
fn tasks_that_use_the_same_fields_follow_each_other() {
    flow_of(
        &["task_fusion"],
        &[],
        &[part_of_x(), part_of_z(), part_of_x(), part_of_z()],
        expect![[r#"
            before:
            0: part_of_x
                reads x
                writes x
            1: part_of_z
                reads z
                writes z
            2: part_of_x
                reads x
                writes x
                <- 0 (value: x)
            3: part_of_z
                reads z
                writes z
                <- 1 (value: z)
            after:
            0: part_of_x
                reads x
                writes x
            1: part_of_x
                reads x
                writes x
                <- 0 (value: x)
            2: part_of_z
                reads z
                writes z
            3: part_of_z
                reads z
                writes z
                <- 2 (value: z)
        "#]],
    );
}

/// Without the rule that would remove the first task.
#[test]
fn halos_are_those_of_the_last_task_that_stored_them() {
    flow_of(
        &["dead_store_elimination", "task_fusion"],
        &[1],
        &[copy_plus(), fill(), shift()],
        expect![[r#"
            before:
            0: copy_plus
                reads x
                writes y
            1: fill
                writes y
                <- 0 (overwrites: y)
            2: shift
                reads y
                writes z
                <- 1 (value: y)
            after:
            0: copy_plus
                reads x
                writes y
            1: fill+shift
                writes z
        "#]],
    );
}
