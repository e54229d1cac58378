//! Kernel errors that types do not catch are reported at the first launch, with their position.

use expect_test::{Expect, expect};
use wuji::prelude::*;

fn check(result: wuji::Result<()>, expected: Expect) {
    let error = result.unwrap_err().to_string();
    // The path of this file does not matter.
    let error = error.replace("crates/wuji/tests/api/", "");
    expected.assert_eq(&error);
}

fn field<T: Element>(world: &World) -> Field<T, 1> {
    world.field("x", [4]).unwrap()
}

fn world() -> World {
    World::interpreter().unwrap()
}

/// Named like a function of the language, so only the launch can tell.
fn mix(x: f32) -> f32 {
    x + 1.0
}

#[kernel]
fn calls_plain(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = mix(x[[i]]);
    }
}

#[test]
fn not_a_func() {
    check(
        calls_plain(&field(&world())),
        expect![[r#"
        error[W0240]: `mix` is not a `#[func]`, so a kernel cannot call it
          --> errors.rs:29:18
          = help: put `#[func]` in front of it, or compute its result before the launch; of the standard library, kernels know the functions of numbers"#]],
    );
}

#[func]
fn descend(x: &Field<f32, 1>, n: i32) -> f32 {
    if n == 0 { x[0] } else { descend(x, n - 1) }
}

#[kernel]
fn recursive(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = descend(x, i);
    }
}

#[test]
fn recursion_with_fields() {
    check(
        recursive(&field(&world())),
        expect![[r#"
            error[W0241]: `descend` calls itself
              --> errors.rs:46:31
              = note: functions that take fields, arrays or `&mut` are inlined into their callers
              = help: pass values, or write a loop"#]],
    );
}

#[kernel]
fn orders_tuples(x: &Field<(f32, i32), 1>) {
    for [i] in x {
        if x[[i]] < x[[i + 1]] {
            x[[i]].0 = 0.0;
        }
    }
}

#[test]
fn orders_of_aggregates() {
    check(
        orders_tuples(&field(&world())),
        expect![[r#"
            error[W0230]: this comparison is not supported in kernels
              --> errors.rs:71:19
              = help: compare the parts, or write a `#[func]` method"#]],
    );
}

#[kernel]
fn unrolls_unknown(x: &Field<f32, 1>, n: i32) {
    for [i] in x {
        for k in unroll(0..n) {
            x[[i]] += k as f32;
        }
    }
}

#[kernel]
fn unrolls_much(x: &Field<f32, 1>) {
    for [i] in x {
        for k in unroll(0..5000) {
            x[[i]] += k as f32;
        }
    }
}

#[test]
fn unrolled_loops() {
    check(
        unrolls_unknown(&field(&world()), 3),
        expect![[r#"
            error[W0235]: only a loop over constants can be unrolled
              --> errors.rs:91:25
              = help: use numbers, `const` items or const parameters, or leave out `unroll`"#]],
    );
    check(
        unrolls_much(&field(&world())),
        expect![[r#"
            error[W0236]: 5000 copies of a loop body are too many
              --> errors.rs:100:9
              = help: leave out `unroll`; what is worth it are loops of a few turns"#]],
    );
}

#[kernel]
fn constant_index(x: &Field<Vec2, 1>) {
    for [i] in x {
        x[[i]].x = x[[i]][2];
    }
}

#[kernel]
fn constant_array_index(x: &Field<f32, 1>) {
    for [i] in x {
        let a = [1.0, 2.0];
        x[[i]] = a[3 - 1];
    }
}

#[test]
fn constant_indices() {
    check(
        constant_index(&field(&world())),
        expect![[r#"
            error[W0213]: index 2 is outside of the 2 components
              --> errors.rs:127:27
              = help: components are numbered from 0 to 1"#]],
    );
    check(
        constant_array_index(&field(&world())),
        expect![[r#"
            error[W0213]: index 2 is outside of the 2 components
              --> errors.rs:135:20
              = help: components are numbered from 0 to 1"#]],
    );
}

#[kernel]
fn huge_array(x: &Field<f32, 1>) {
    for [i] in x {
        let a = [0.0; 2_000_000];
        x[[i]] = a[i];
    }
}

#[kernel]
fn large_capture(x: &Field<f32, 1>) {
    let a = [0.5; 1000];
    for [i] in x {
        x[[i]] = a[i];
    }
}

#[test]
fn large_arrays() {
    check(
        huge_array(&field(&world())),
        expect![[r#"
            error[W0211]: an array of 2000000 elements is too large for a variable
              --> errors.rs:160:9
              = note: every iteration has its own, of at most 1048576 elements
              = help: keep it in a field, with one more axis"#]],
    );
    check(
        large_capture(&field(&world())),
        expect![[r#"
            error[W0238]: the array `a` is too large to be handed to every iteration of a parallel loop
              --> errors.rs:168:5
              = help: declare it inside of the loop, make it a `const`, or use a field"#]],
    );
}

#[func]
fn early_array(n: i32) -> [i32; 2] {
    if n > 0 {
        return [n, n];
    }
    [0, 1]
}

#[kernel]
fn array_result(x: &Field<i32, 1>) {
    for [i] in x {
        x[[i]] = early_array(i)[0];
    }
}

#[test]
fn arrays_as_results() {
    check(
        array_result(&field(&world())),
        expect![[r#"
            error[W0239]: `early_array` returns an array, so it cannot `return` in the middle
              --> errors.rs:203:18
              = help: fill an array that was declared first, and let it be the last expression"#]],
    );
}

#[kernel]
fn branches_of_arrays(x: &Field<i32, 1>) {
    for [i] in x {
        let a = if i > 0 { [1, 2] } else { [3, 4] };
        x[[i]] = a[0];
    }
}

#[test]
fn arrays_as_values_of_branches() {
    check(
        branches_of_arrays(&field(&world())),
        expect![[r#"
            error[W0204]: an array cannot be the value of a block or branch
              --> errors.rs:221:32
              = help: declare the array first, and fill it in each branch"#]],
    );
}

#[kernel]
fn large_domain(x: &Field<u8, 1>) {
    for [i] in x {
        x[[i]] = 1;
    }
}

#[test]
fn coordinates_beyond_i32() {
    let world = world();
    let x = world
        .layout(|root| {
            root.dense(wuji::axes::I, 4)
                .offset([i64::from(i32::MAX) - 2])
                .place::<u8, 1>("x")
        })
        .unwrap();
    check(
        large_domain(&x),
        expect![[r#"
            error[W0227]: the coordinates of `x` do not fit into `i32`
              --> errors.rs:239:5
              = help: loop over a range of `i64` instead: `for i in 0..n`"#]],
    );
}

#[func(reverse = wrong_reverse)]
fn with_wrong_reverse(x: f32, n: i32) -> f32 {
    x * n as f32
}

#[func]
fn wrong_reverse(x: f32, _n: i32, _result: f32, adjoint: f32) -> (f32, f32) {
    (x, adjoint)
}

#[func(reverse = plain_reverse)]
fn with_plain_reverse(x: f32) -> f32 {
    x
}

fn plain_reverse(_x: f32, _result: f32, adjoint: f32) -> f32 {
    adjoint
}

#[kernel]
fn calls_wrong_reverse(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = with_wrong_reverse(x[[i]], i);
    }
}

#[kernel]
fn calls_plain_reverse(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = with_plain_reverse(x[[i]]);
    }
}

#[test]
fn a_reverse_sweep_that_does_not_fit() {
    check(
        calls_wrong_reverse(&field(&world())),
        expect![[r#"
            error[W0254]: the reverse sweep of `with_wrong_reverse` does not fit: `wrong_reverse` returns `(f32, f32)`, and not `f32`
              --> errors.rs:264:4
              = note: it takes the parameters, the result and the adjoint of the result, and returns the adjoints of the parameters that have floats
              = help: return the adjoint itself if there is one, and a tuple if there are several"#]],
    );
    check(
        calls_plain_reverse(&field(&world())),
        expect![[r#"
            error[W0254]: the reverse sweep of `with_plain_reverse` does not fit: `plain_reverse` is not a `#[func]`
              --> errors.rs:274:4
              = note: it takes the parameters, the result and the adjoint of the result, and returns the adjoints of the parameters that have floats
              = help: return the adjoint itself if there is one, and a tuple if there are several"#]],
    );
}
