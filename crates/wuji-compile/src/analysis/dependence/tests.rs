//! Dependences of small loops.

use super::{Dependence, Dependences};
use crate::rewrite::Structure;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::Function;
use wuji_ir::ops::{AccessOp, OpClass};
use wuji_ir::text::parse;

/// The dependence between the first two accesses of a kernel, and whether they can overlap at all.
fn between(body: &str) -> (Dependence, bool) {
    let text = format!(
        "module \"m\"\ntree T0 {{ dense S1 [i: 8, j: 8] {{ place f0 }} }}\nfield f0 \"x\": f32 in T0.S1 (i, j)\nfield f1 \"k\": i32 in T0.S1 (i, j)\nparam p0 \"n\": i32\nkernel fn0 \"m\"(v0: i32) {{ v90: i32 = const 0 v91: i32 = const 1 v92: i32 = const 8 v93: f32 = const 1.0 {body} return }}"
    );
    let text = text.replace("place f0 }", "place f0, f1 }");
    let m = parse(&text, "dependence.wir").unwrap();
    let f = &m.funcs[m.kernel.unwrap()];
    let field = m.fields.keys().next().unwrap();
    let accesses: Vec<(Inst, Vec<Value>)> = (f.insts_in(f.entry))
        .filter_map(|i| indices(f, i, field))
        .collect();
    let structure = Structure::of(f);
    let mut all = Dependences::new(f, &structure);
    let (a, b) = (
        (accesses[0].0, &accesses[0].1[..]),
        (accesses[1].0, &accesses[1].1[..]),
    );
    (all.between(a, b), all.may_overlap(a, b))
}

fn indices(
    f: &Function,
    inst: Inst,
    field: wuji_ir::entities::Field,
) -> Option<(Inst, Vec<Value>)> {
    let data = &f.insts[inst];
    if let OpClass::Access(AccessOp::Load | AccessOp::Store, access) = data.op.class()
        && access.place == wuji_ir::ops::Place::Field(field)
    {
        return Some((inst, data.args[..2].to_vec()));
    }
    None
}

fn directions(body: &str) -> (bool, bool) {
    let found = between(body).0;
    assert!(found.is_affine);
    (found.forward, found.backward)
}

#[test]
fn a_recurrence_reads_what_the_round_before_has_written() {
    let body = "for L0 v1: i32 in v90..v92 step v91 { v2: i32 = add v1, v91 v3: f32 = load f0[v1, v90] store f0[v2, v90], v3 continue L0 }";
    assert_eq!(directions(body), (false, true));
}

#[test]
fn a_loop_that_counts_down_has_the_other_order() {
    let body = "v94: i32 = const -1 for L0 v1: i32 in v92..v90 step v94 { v2: i32 = add v1, v91 v3: f32 = load f0[v1, v90] store f0[v2, v90], v3 continue L0 }";
    assert_eq!(directions(body), (true, false));
}

#[test]
fn steps_of_two_never_meet() {
    let body = "v94: i32 = const 2 for L0 v1: i32 in v90..v92 step v94 { v2: i32 = add v1, v91 v3: f32 = load f0[v1, v90] store f0[v2, v90], v3 continue L0 }";
    assert_eq!(directions(body), (false, false));
    assert!(!between(body).1);
}

#[test]
fn copies_back_in_each_round() {
    let body = "for L9 v9: i32 in v90..v0 step v91 { for L0 v1: i32 in v90..v92 step v91 { v3: f32 = load f0[v1, v90] continue L0 } for L1 v5: i32 in v90..v92 step v91 { store f0[v5, v90], v93 continue L1 } continue L9 }";
    assert_eq!(directions(body), (true, true));
}

#[test]
fn one_pass_over_the_elements_and_then_another_one() {
    let body = "for L0 v1: i32 in v90..v92 step v91 { v3: f32 = load f0[v1, v90] continue L0 } for L1 v5: i32 in v90..v92 step v91 { store f0[v5, v90], v93 continue L1 }";
    assert_eq!(directions(body), (true, false));
}

#[test]
fn the_outer_loop_decides() {
    // Rows of a history: the whole next row depends on the whole row before.
    let body = "for L9 v9: i32 in v90..v92 step v91 { v10: i32 = add v9, v91 for L0 v1: i32 in v90..v92 step v91 { for L1 v5: i32 in v90..v92 step v91 { v3: f32 = load f0[v9, v5] continue L1 } store f0[v10, v1], v93 continue L0 } continue L9 }";
    assert_eq!(directions(body), (false, true));
}

#[test]
fn bounds_that_depend_on_outer_indices() {
    // Cholesky: column `k` is complete when the columns behind it are updated.
    let body = "for L9 v9: i32 in v90..v92 step v91 { v10: i32 = add v9, v91 for L0 v1: i32 in v10..v92 step v91 { for L1 v5: i32 in v10..v92 step v91 { v3: f32 = load f0[v1, v9] store f0[v1, v5], v3 continue L1 } continue L0 } continue L9 }";
    assert_eq!(directions(body), (false, true));
}

#[test]
fn rounds_of_a_loop_without_index() {
    let body = "loop L9 { v3: f32 = load f0[v90, v90] store f0[v90, v90], v3 v4: bool = lt v3, v93 if v4 { break L9 } else { yield } continue L9 }";
    assert_eq!(directions(body), (true, true));
}

#[test]
fn iterations_of_a_parallel_loop_have_no_order() {
    let body = "foreach L0 (v1: i32) in v90..v92 { v2: i32 = add v1, v91 v3: f32 = load f0[v2, v90] store f0[v1, v90], v3 continue L0 }";
    assert_eq!(directions(body), (false, false));
    assert!(between(body).1);
}

#[test]
fn indices_from_memory_are_not_known() {
    let body = "for L0 v1: i32 in v90..v92 step v91 { v2: i32 = load f1[v1, v90] v3: f32 = load f0[v2, v90] store f0[v1, v90], v3 continue L0 }";
    let found = between(body).0;
    assert!(!found.is_affine && found.forward && found.backward);
    // In one round, the same one is the same.
    let body = "foreach L0 (v1: i32) in v90..v92 { v2: i32 = load f1[v1, v90] v3: f32 = load f0[v2, v90] store f0[v2, v90], v3 continue L0 }";
    let found = between(body).0;
    assert_eq!(
        (found.is_affine, found.forward, found.backward),
        (true, true, false)
    );
}
