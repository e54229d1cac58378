//! Stores to all active elements of sparse fields.

use super::tests::{SPARSE, flow, flow_of, kernel};
use expect_test::expect;
use wuji_ir::module::Module;

fn store(name: &str, value: &str) -> Module {
    let value = format!("v2: f32 = const {value}");
    kernel(SPARSE, name, "f1", &[&value, "store f1[v1], v2"])
}

fn clear() -> Module {
    kernel(SPARSE, "clear", "f2", &["deactivate f2[v1]"])
}

fn shift() -> Module {
    let body = [
        "v2: i32 = const 1",
        "v3: i32 = add v1, v2",
        "v4: f32 = load f1[v3]",
        "store f0[v1], v4",
    ];
    kernel(SPARSE, "shift", "f0", &body)
}

#[test]
fn stores_to_active_elements_that_are_overwritten_are_dead() {
    flow(
        &[store("first", "1.0"), store("second", "2.0")],
        expect![[r#"
        before:
        0: first
            reads mask of y, blocks, list of y, blocks
            writes y
        1: second
            reads mask of y, blocks, list of y, blocks
            writes y
            <- 0 (overwrites: y)
        after:
        0: second
            reads mask of y, blocks, list of y, blocks
            writes y
    "#]],
    );
}

#[test]
fn cells_that_are_deactivated_between_keep_the_order() {
    let kernels = [store("first", "1.0"), clear(), store("second", "2.0")];
    flow(
        &kernels,
        expect![[r#"
        before:
        0: first
            reads mask of y, blocks, list of y, blocks
            writes y
        1: clear
            reads y, blocks, mask of y, blocks, list of y, blocks
            writes y, blocks, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 0 (value: y)
            <- 0 (after read: mask of y, blocks)
            <- 0 (after read: list of y, blocks)
        2: second
            reads mask of y, blocks, list of y, blocks
            writes y
            <- 1 (overwrites: y)
            <- 1 (value: mask of y, blocks)
            <- 1 (value: list of y, blocks)
        after:
        0: first
            reads mask of y, blocks, list of y, blocks
            writes y
        1: clear
            reads y, blocks, mask of y, blocks, list of y, blocks
            writes y, blocks, mask of y, blocks, list of y, blocks, allocator of y, blocks
            <- 0 (value: y)
            <- 0 (after read: mask of y, blocks)
            <- 0 (after read: list of y, blocks)
            not fused with 0: `clear` stays alone: it asks which cells are active, or changes it
        2: second
            reads mask of y, blocks, list of y, blocks
            writes y
            <- 1 (overwrites: y)
            <- 1 (value: mask of y, blocks)
            <- 1 (value: list of y, blocks)
            not fused with 1: `clear` stays alone: it asks which cells are active, or changes it
    "#]],
    );
}

/// Elements of inactive cells are zero, which a computation of them would not know.
#[test]
fn halos_of_sparse_fields_are_not_computed_again() {
    flow_of(
        &[],
        &[1],
        &[store("first", "1.0"), shift()],
        expect![[r#"
        before:
        0: first
            reads mask of y, blocks, list of y, blocks
            writes y
        1: shift
            reads y, mask of x, list of x
            writes x
            <- 0 (value: y)
        after:
        0: first
            reads mask of y, blocks, list of y, blocks
            writes y
        1: shift
            reads y, mask of x, list of x
            writes x
            <- 0 (value: y)
            not fused with 0: they run over different iterations
    "#]],
    );
}
