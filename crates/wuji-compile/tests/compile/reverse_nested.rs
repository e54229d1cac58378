//! Gradients of parallel loops inside of branches and serial loops, against central differences.

use crate::reverse::{FIELDS, check};
use wuji_compile::autodiff::{add_derivatives, parts, reverse};
use wuji_ir::text::parse;

#[test]
fn branches() {
    // Nonlinear and in place: the gradient needs the old values.
    check(
        "v20: i32 = const 2 v21: bool = lt v0, v20 v22: bool = gt v0, v20 if v21 { foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 store f1[v1], v3 continue L0 } yield } else { foreach L1 (v4: i32) in f0 { v5: f64 = load f0[v4] v6: f64 = sin v5 store f0[v4], v6 continue L1 } foreach L2 (v7: i32) in f1 { v8: f64 = load f1[v7] v9: f64 = mul v8, v8 store f2[v7], v9 continue L2 } yield } if v22 { foreach L3 (v10: i32) in f2 { v11: f64 = load f2[v10] v12: f64 = mul v11, v11 store f1[v10], v12 continue L3 } yield } else { yield }",
    );
}

#[test]
fn values_of_loops_before_in_a_branch() {
    check(
        "v20: i32 = const 2 v22: bool = gt v0, v20 v23: f64 = load f2[v20] v24: f64 = sin v23 v25: f64 = if v22 { foreach L3 (v10: i32) in f0 { v11: f64 = load f0[v10] v12: f64 = mul v11, v24 store f1[v10], v12 continue L3 } foreach L4 (v13: i32) in f1 { v14: f64 = load f1[v13] v15: f64 = mul v14, v14 v16: f64 = atomic add f3[], v15 continue L4 } yield v24 } else { yield v23 } store f2[v20], v25",
    );
}

#[test]
fn serial_loops_without_needed_values() {
    // Smoothing, round after round, with weights that are not overwritten.
    check(
        "v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 3 v30: f64 = const 0.7 for L9 v23: i32 in v20..v22 step v21 { foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v4: f64 = mul v2, v30 store f1[v1], v4 continue L0 } foreach L1 (v5: i32) in f0 { v6: f64 = load f1[v5] v7: i32 = add v5, v21 v8: f64 = load f1[v7] v9: f64 = add v6, v8 store f0[v5], v9 continue L1 } continue L9 }",
    );
}

#[test]
fn serial_loops_with_values_that_stay() {
    check(
        "v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 3 for L9 v23: i32 in v20..v22 step v21 { v40: f64 = load f2[v23] v41: f64 = sin v40 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 v4: f64 = mul v3, v41 v5: f64 = atomic add f1[v1], v4 continue L0 } continue L9 }",
    );
}

#[test]
fn rounds_that_overwrite_needed_values_are_refused() {
    let refused = |body: &str| {
        let text = format!("{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{ {body} return }}");
        let mut m = parse(&text, "grad.wir").unwrap();
        let adjoints = add_derivatives(&mut m);
        reverse(&m, &adjoints).map(|_| ()).unwrap_err()
    };
    let error = refused(
        "v20: i32 = const 0 v21: i32 = const 1 for L9 v23: i32 in v20..v0 step v21 { foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 store f0[v1], v3 continue L0 } continue L9 }",
    );
    assert_eq!(error.code, "W0711", "{error}");
    assert!(error.notes[0].contains("other rounds"), "{error}");
    let error = refused(
        "v20: i32 = const 0 v21: i32 = const 1 v24: f64 = const 1.5 v25: f64 = for L9 v23: i32 in v20..v0 step v21 (v26: f64 = v24) { v27: f64 = mul v26, v24 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v26 v4: f64 = atomic add f1[v1], v3 continue L0 } continue L9(v27) }",
    );
    assert_eq!(error.code, "W0711", "{error}");
    assert!(
        error.notes[0].contains("a variable of each round"),
        "{error}"
    );
}

#[test]
fn an_element_that_every_round_of_a_loop_overwrites() {
    let consts = "v20: i32 = const 0 v21: i32 = const 1 v18: f64 = const 0.7";
    check(&format!(
        "{consts} foreach L0 (v1: i32) in f0 {{ for L9 v23: i32 in v20..v0 step v21 {{ v2: f64 = load f0[v1] v3: f64 = mul v2, v2 store f0[v1], v3 continue L9 }} continue L0 }}"
    ));
    // Two fields that depend on each other, one of them under a condition, and an atomic.
    check(&format!(
        "{consts} v22: i32 = const 4 foreach L0 (v1: i32) in f0 {{ for L9 v23: i32 in v20..v22 step v21 {{ v2: f64 = load f0[v1] v3: f64 = load f1[v1] v4: f64 = sin v2 v5: bool = lt v3, v18 if v5 {{ v6: f64 = mul v4, v3 store f1[v1], v6 yield }} else {{ yield }} v7: f64 = load f1[v1] v8: f64 = mul v7, v18 v9: f64 = atomic add f0[v1], v8 v10: f64 = mul v9, v8 v11: f64 = atomic add f2[v1], v10 continue L9 }} continue L0 }}"
    ));
    // Read before and after the loop, and in another loop of the iteration.
    check(&format!(
        "{consts} v22: i32 = const 3 foreach L0 (v1: i32) in f0 {{ v2: f64 = load f0[v1] v3: f64 = mul v2, v2 v12: f64 = atomic add f1[v1], v3 for L9 v23: i32 in v20..v22 step v21 {{ v4: f64 = load f0[v1] v5: f64 = cos v4 store f0[v1], v5 continue L9 }} for L8 v24: i32 in v20..v22 step v21 {{ v6: f64 = load f0[v1] v7: f64 = mul v6, v6 store f0[v1], v7 continue L8 }} v8: f64 = load f0[v1] v9: f64 = mul v8, v3 store f2[v1], v9 continue L0 }}"
    ));
    // As long as a condition holds.
    check(&format!(
        "{consts} foreach L0 (v1: i32) in f0 {{ loop L9 {{ v2: f64 = load f0[v1] v3: f64 = mul v2, v18 store f0[v1], v3 v4: f64 = mul v3, v3 v5: f64 = atomic add f1[v1], v4 v6: f64 = const 0.2 v7: bool = lt v3, v6 if v7 {{ break L9 }} else {{ yield }} continue L9 }} continue L0 }}"
    ));
    // A component of a vector.
    check(&format!(
        "{consts} v22: i32 = const 3 foreach L0 (v1: i32) in f4 {{ for L9 v23: i32 in v20..v22 step v21 {{ v2: f64x3 = load f4[v1] v3: f64 = extract v2.1 v4: f64 = sin v3 v5: f64 = extract v2.0 v6: f64 = mul v4, v5 store f4[v1].0, v6 continue L9 }} continue L0 }}"
    ));
}

#[test]
fn elements_that_other_iterations_read_are_refused() {
    let text = format!(
        "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{ v20: i32 = const 0 v21: i32 = const 1 foreach L0 (v1: i32) in f0 {{ for L9 v23: i32 in v20..v0 step v21 {{ v2: f64 = load f0[v1] v4: i32 = add v1, v21 v5: f64 = load f0[v4] v3: f64 = mul v2, v5 store f0[v1], v3 continue L9 }} continue L0 }} return }}"
    );
    let mut m = parse(&text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let error = reverse(&m, &adjoints).map(|_| ()).unwrap_err();
    assert_eq!(error.code, "W0706", "{error}");
}

#[test]
fn an_element_that_every_round_of_a_loop_overwrites_and_that_is_read_around_it() {
    // Before the loop its old value is needed, and behind it the last one.
    check(
        "v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 3 foreach L0 (v1: i32) in f0 { v10: f64 = load f0[v1] v11: f64 = mul v10, v10 for L9 v23: i32 in v20..v22 step v21 { v2: f64 = load f1[v23] v3: f64 = mul v2, v11 store f0[v1], v3 continue L9 } store f2[v1], v11 continue L0 }",
    );
    check(
        "v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 3 foreach L0 (v1: i32) in f0 { for L9 v23: i32 in v20..v22 step v21 { v2: f64 = load f1[v23] v3: f64 = mul v2, v2 store f0[v1], v3 continue L9 } v10: f64 = load f0[v1] v11: f64 = mul v10, v10 store f2[v1], v11 continue L0 }",
    );
}

#[test]
fn a_whole_step_of_mpm_has_parts_with_gradients() {
    let text = include_str!("../../../wuji-cli/kernels/mpm2d.wir");
    let mut m = parse(text, "mpm2d.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let error = reverse(&m, &adjoints).map(|_| ()).unwrap_err();
    assert_eq!(error.code, "W0706", "{error}");
    let parts = parts(&m, &adjoints).unwrap();
    assert!(parts.len() > 1);
    for part in &parts {
        reverse(part, &adjoints).unwrap();
    }
}

#[test]
fn an_atomic_product_with_the_element_that_a_loop_is_at() {
    check(
        "foreach L0 (v1: i32) in f0 { v2: f64 = load f1[v1] v3: f64 = sin v2 v4: f64 = atomic mul f0[v1], v3 v5: f64 = load f0[v1] v6: f64 = mul v5, v5 store f2[v1], v6 continue L0 }",
    );
}

#[test]
fn a_later_loop_overwrites_what_an_earlier_one_of_the_iteration_needs() {
    let text = format!(
        "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{ v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 6 v24: i32 = const 5 v19: i32 = const 2 foreach L0 (v1: i32) in v20..v19 {{ for L1 v2: i32 in v20..v22 step v21 {{ v3: f64 = load f0[v2] v4: f64 = mul v3, v3 v5: f64 = atomic add f3[], v4 continue L1 }} for L2 v6: i32 in v20..v22 step v21 {{ v7: i32 = sub v24, v6 v8: f64 = load f1[v7] store f0[v7], v8 v9: f64 = load f0[v7] v10: f64 = mul v9, v9 v11: f64 = atomic add f3[], v10 continue L2 }} continue L0 }} return }}"
    );
    let mut m = parse(&text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let gradient = reverse(&m, &adjoints).map(|g| g.uses);
    let both = |g: &[wuji_compile::autodiff::FieldUse]| {
        use wuji_compile::autodiff::UseKind::NeedsOld;
        g.iter()
            .any(|u| u.field.as_u32() == 0 && u.kind == NeedsOld)
    };
    assert!(gradient.is_err() || gradient.is_ok_and(|g| both(&g)));
}

#[test]
fn rounds_that_copy_new_elements_back_are_refused() {
    // Jacobi, twice: `f1[j] = f0[j + 1] ^ 2`, then `f0[j] = f1[j]`.
    let text = format!(
        "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{ v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 3 v19: i32 = const 2 foreach L0 (v1: i32) in v20..v21 {{ for L9 v23: i32 in v20..v19 step v21 {{ for L1 v2: i32 in v20..v22 step v21 {{ v7: i32 = add v2, v21 v3: f64 = load f0[v7] v4: f64 = mul v3, v3 store f1[v2], v4 continue L1 }} for L2 v6: i32 in v20..v22 step v21 {{ v8: f64 = load f1[v6] store f0[v6], v8 continue L2 }} continue L9 }} continue L0 }} return }}"
    );
    let mut m = parse(&text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let error = reverse(&m, &adjoints).map(|_| ()).unwrap_err();
    assert_eq!(error.code, "W0706", "{error}");
}

#[test]
fn rows_of_a_history_need_nothing_that_is_overwritten() {
    // `f0[t + 1] = sin(f0[t]) * f1[j]`, summed over `j`, in a serial loop.
    check(
        "v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 3 v18: f64 = const 0.0 foreach L0 (v1: i32) in v20..v21 { for L9 v23: i32 in v20..v22 step v21 { v24: i32 = add v23, v21 v2: f64 = load f0[v23] v3: f64 = sin v2 v4: f64 = for L1 v5: i32 in v20..v22 step v21 (v6: f64 = v18) { v7: f64 = load f1[v5] v8: f64 = mul v7, v3 v9: f64 = add v6, v8 continue L1(v9) } store f0[v24], v4 continue L9 } continue L0 }",
    );
}

#[test]
fn factors_in_place_that_later_columns_read() {
    // `f0[j] -= f0[k] * f1[j]` for `j` behind `k`: element `k` is complete then.
    check(
        "v20: i32 = const 0 v21: i32 = const 1 v22: i32 = const 4 foreach L0 (v1: i32) in v20..v21 { for L9 v23: i32 in v20..v22 step v21 { v24: i32 = add v23, v21 for L1 v5: i32 in v24..v22 step v21 { v2: f64 = load f0[v23] v3: f64 = load f1[v5] v4: f64 = mul v2, v3 v6: f64 = neg v4 v7: f64 = atomic add f0[v5], v6 continue L1 } continue L9 } continue L0 }",
    );
}
