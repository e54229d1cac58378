//! The rules on arrays.

use super::tests::flow;
use expect_test::expect;
use wuji_ir::module::Module;
use wuji_ir::text::parse;

/// A kernel with a loop over 64 elements, `v1` is its index.
fn kernel(arrays: &[&str], name: &str, body: &[&str]) -> Module {
    let arrays = arrays.iter().enumerate();
    let arrays: String = arrays.map(|(k, a)| format!("array a{k} {a}\n")).collect();
    let body: String = body.iter().map(|line| format!("    {line}\n")).collect();
    let text = format!(
        "module \"{name}\"\n{arrays}\nkernel fn0 \"{name}\"() {{\n  v98: i64 = const 0\n  v99: i64 = const 64\n  foreach L0 (v1: i64) in v98..v99 {{\n{body}    continue L0\n  }}\n  return\n}}\n"
    );
    parse(&text, name).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

const X: &str = "\"x\": f32 rank 1 writable contiguous unaliased shape [64] align 16";
const Y: &str = "\"y\": f32 rank 1 writable contiguous unaliased shape [64] align 16";
const ALIASED: &str = "\"x\": f32 rank 1 writable contiguous shape [64] align 16";

fn copy_plus() -> Module {
    let body = [
        "v2: f32 = load a0[v1]",
        "v3: f32 = const 1.0",
        "v4: f32 = add v2, v3",
        "store a1[v1], v4",
    ];
    kernel(&[X, Y], "copy_plus", &body)
}

fn fill() -> Module {
    let body = ["v2: f32 = const 0.5", "store a0[v1], v2"];
    kernel(&[Y], "fill", &body)
}

fn shift() -> Module {
    let body = [
        "v2: i64 = const 1",
        "v3: i64 = add v1, v2",
        "v4: f32 = load a0[v3]",
        "store a1[v1], v4",
    ];
    kernel(&[Y, X], "shift", &body)
}

fn back() -> Module {
    let body = ["v2: f32 = load a0[v1]", "store a1[v1], v2"];
    kernel(&[Y, X], "back", &body)
}

#[test]
fn element_wise_loops_over_arrays_are_fused() {
    flow(
        &[copy_plus(), back()],
        expect![[r#"
        before:
        0: copy_plus
            reads x
            writes y
        1: back
            reads y
            writes x
            <- 0 (after read: x)
            <- 0 (value: y)
        after:
        0: copy_plus+back
            reads x
            writes x, y
    "#]],
    );
}

#[test]
fn an_array_that_is_overwritten_is_not_stored() {
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

#[test]
fn neighbours_in_an_array_are_a_conflict() {
    flow(
        &[fill(), shift()],
        expect![[r#"
        before:
        0: fill
            writes y
        1: shift
            reads y
            writes x
            <- 0 (value: y)
        after:
        0: fill
            writes y
        1: shift
            reads y
            writes x
            <- 0 (value: y)
            not fused with 0: an iteration accesses elements of y that other iterations write
    "#]],
    );
}

#[test]
fn arrays_that_overlap_are_one_state_and_not_fused() {
    let body = ["v2: f32 = load a0[v1]", "store a1[v1], v2"];
    let copy = kernel(&[ALIASED, ALIASED], "copy", &body);
    flow(
        &[copy.clone(), copy],
        expect![[r#"
        before:
        0: copy
            reads x
            writes x
        1: copy
            reads x
            writes x
            <- 0 (value: x)
        after:
        0: copy
            reads x
            writes x
        1: copy
            reads x
            writes x
            <- 0 (value: x)
            not fused with 0: `copy` stays alone: it accesses arrays of the host, or that overlap
    "#]],
    );
}
