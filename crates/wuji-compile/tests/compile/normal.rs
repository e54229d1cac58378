//! The normal form of kernels: the same results, without early exits and local arrays. In debug builds, `normalize` checks
//! the form itself.

use std::path::Path;
use wuji_compile::autodiff::normalize;
use wuji_ir::interp::error::TOO_LONG;
use wuji_ir::interp::{Config, Machine, Order};
use wuji_ir::module::{Module, SiteKind};
use wuji_ir::ops::Place;
use wuji_ir::random::mix;
use wuji_ir::types::{Imm, Scalar};

/// A small number that depends on the seed.
fn number(ty: Scalar, seed: u64, k: u64) -> Imm {
    let bits = mix(mix(seed).wrapping_add(k));
    match ty {
        Scalar::Bool => Imm::bool(bits & 1 != 0),
        _ if ty.is_float() => Imm::float(ty, (bits % 33) as f64 / 4.0 - 4.0),
        _ => Imm::int(ty, i128::from(bits % 12) - 3),
    }
}

/// Everything that a launch leaves, as text; `None` if it takes too long. Accesses of local arrays out of range do not
/// count: the normal form does not report them.
fn interpret(m: &Module, seed: u64) -> Option<String> {
    let config = Config {
        order: Order::Serial,
        seed,
        launch: 0,
        max_steps: 1 << 18,
        check_reads: false,
    };
    let mut machine = Machine::new(m, config).unwrap();
    for (field, data) in &m.fields {
        let elem = m.structs.flatten(data.elem);
        let cells: u64 = data.domain(&m.trees).iter().map(|d| d.1).product();
        let count = cells * elem.len() as u64;
        let values: Vec<Imm> = (0..count)
            .map(|k| number(elem[k as usize % elem.len()], seed, k))
            .collect();
        machine.fill(field, &values).unwrap();
    }
    for (array, data) in &m.arrays {
        let extents = vec![3 + (seed % 3) as i64; usize::from(data.rank)];
        let elem = m.structs.flatten(data.elem);
        let count = extents.iter().product::<i64>() as usize * elem.len();
        let values: Vec<Imm> = (0..count)
            .map(|k| number(elem[k % elem.len()], seed + 1, k as u64))
            .collect();
        machine.bind_values(array, &extents, &values).unwrap();
    }
    let types = m.params.iter().flat_map(|p| m.structs.flatten(p.ty));
    let params: Vec<Imm> = types
        .enumerate()
        .map(|(k, ty)| number(ty, seed + 2, k as u64))
        .collect();
    let outcome = match machine.run(&params) {
        Err(e) if e.code == TOO_LONG => return None,
        outcome => outcome.unwrap(),
    };
    let fields: Vec<Vec<Imm>> = m.fields.keys().map(|f| machine.field(f).unwrap()).collect();
    let arrays: Vec<Vec<Imm>> = m.arrays.keys().map(|a| machine.array(a)).collect();
    let mut reports: Vec<String> = outcome
        .reports
        .iter()
        .filter(|r| !matches!(r.kind, SiteKind::OutOfRange(Place::Local(_))))
        .map(|r| format!("{:?} {:?}", std::mem::discriminant(&r.kind), r.values))
        .collect();
    reports.sort();
    reports.dedup();
    let printed: Vec<String> = outcome.printed.into_iter().map(|p| p.text).collect();
    Some(format!(
        "{fields:?}\n{arrays:?}\n{:?}\n{printed:?}\n{reports:?}",
        outcome.result
    ))
}

fn normalized(m: &Module) -> Module {
    let mut n = m.clone();
    normalize(&mut n).unwrap_or_else(|e| panic!("{e}\n{m}"));
    n
}

fn check(name: &str, text: &str) {
    let m = wuji_ir::text::parse(text, name).unwrap_or_else(|e| panic!("{e}"));
    let n = normalized(&m);
    let mut compared = 0;
    for seed in 0..24 {
        let Some(expected) = interpret(&m, seed) else {
            continue;
        };
        compared += 1;
        let found = interpret(&n, seed).unwrap();
        assert_eq!(expected, found, "{name}, seed {seed}\n{m}\n{n}");
    }
    assert!(compared > 8, "{name} mostly takes too long");
}

#[test]
fn programs_give_the_same_results_in_normal_form() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/semantics");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        check(&path.display().to_string(), &text);
    }
}

/// A kernel with a parallel loop over eight numbers `v0: i32`, with these statements. `v1` to `v4` are 0 to 3, `v5`
/// is the element, `v6` is true for about half of them; `f1` takes results.
fn in_loop(body: &str) -> String {
    format!(
        "tree T0 {{ dense S1 [i: 8] {{ place f0, f1 }} }}
         field f0 \"x\": i32 in T0.S1 (i)
         field f1 \"y\": i32 in T0.S1 (i)
         message m0 \"at {{i32}}\"
         param p0 \"n\": i32
         kernel fn0(v9: i32) {{
           foreach L0 (v0: i32) in f0 {{
             v1: i32 = const 0
             v2: i32 = const 1
             v3: i32 = const 2
             v4: i32 = const 3
             v5: i32 = load f0[v0]
             v6: bool = lt v5, v3
             {body}
           }}
           return
         }}"
    )
}

#[test]
fn iterations_end_early() {
    check(
        "continue",
        &in_loop(
            "if v6 { print m0 (v5) continue L0 } else { yield }
             store f1[v0], v5
             v10: bool = gt v5, v4
             v11: i32 = if v10 { v12: i32 = mul v5, v5 yield v12 } else { store f0[v0], v1 continue L0 }
             store f1[v0], v11
             continue L0",
        ),
    );
    check(
        "always",
        &in_loop(
            "if v6 { store f1[v0], v2 continue L0 } else { store f1[v0], v3 continue L0 }
             unreachable",
        ),
    );
}

#[test]
fn exits_deep_inside_skip_what_follows() {
    check(
        "deep",
        &in_loop(
            "v10: bool = gt v5, v1
             v11: i32 = if v10 {
               v12: bool = gt v5, v4
               v13: i32 = if v12 {
                 print m0 (v5)
                 if v6 { yield } else { v14: bool = gt v0, v4 if v14 { continue L0 } else { yield } yield }
                 yield v5
               } else { yield v3 }
               print m0 (v13)
               yield v13
             } else { yield v2 }
             store f1[v0], v11
             continue L0",
        ),
    );
}

#[test]
fn blocks_are_left_with_values() {
    check(
        "block",
        &in_loop(
            "v10: i32 = block L1 {
               if v6 { break L1 (v2) } else { yield }
               v11: i32 = block L2 {
                 v12: bool = eq v5, v4
                 if v12 { break L1 (v5) } else { yield }
                 v13: bool = gt v5, v4
                 if v13 { v14: i32 = add v5, v5 break L2 (v14) } else { yield }
                 v15: bool = eq v5, v3
                 if v15 { continue L0 } else { yield }
                 yield v3
               }
               print m0 (v11)
               v16: i32 = mul v11, v11
               yield v16
             }
             store f1[v0], v10
             continue L0",
        ),
    );
}

#[test]
fn loops_are_left_in_every_way() {
    check(
        "while",
        &in_loop(
            "v10: i32 = loop L1 (v11: i32 = v5, v12: i32 = v1) {
               v13: bool = lt v11, v4
               if v13 { yield } else { break L1 (v12) }
               v14: i32 = add v11, v2
               v15: bool = eq v14, v1
               if v15 { print m0 (v14) continue L1 (v3, v14) } else { yield }
               v16: i32 = add v12, v14
               continue L1 (v14, v16)
             }
             store f1[v0], v10
             continue L0",
        ),
    );
    check(
        "nested",
        &in_loop(
            "v10: i32, v11: i32 = loop L1 (v12: i32 = v5, v13: i32 = v1) {
               v14: i32 = add v12, v2
               v15: i32 = loop L2 (v16: i32 = v1) {
                 v17: i32 = add v16, v14
                 print m0 (v17)
                 v18: bool = gt v17, v4
                 if v18 {
                   v19: i32 = rem v17, v4
                   v20: bool = eq v19, v1
                   if v20 { break L1 (v17, v13) } else { yield }
                   v21: bool = eq v19, v2
                   if v21 { v22: i32 = add v13, v17 continue L1 (v14, v22) } else { break L2 (v17) }
                   unreachable
                 } else { yield }
                 v30: bool = lt v17, v1
                 if v30 { if v6 { continue L0 } else { continue L1 (v2, v17) } unreachable } else { yield }
                 v31: i32 = max v17, v2
                 continue L2 (v31)
               }
               v32: i32 = add v13, v15
               v33: bool = gt v32, v9
               if v33 { break L1 (v32, v15) } else { continue L1 (v14, v32) }
               unreachable
             }
             store f1[v0], v10
             store f0[v0], v11
             continue L0",
        ),
    );
    check(
        "once",
        &in_loop(
            "v10: i32 = loop L1 (v11: i32 = v5) {
               if v6 { break L1 (v11) } else { yield }
               v12: i32 = add v11, v9
               break L1 (v12)
             }
             store f1[v0], v10
             continue L0",
        ),
    );
}

#[test]
fn counting_loops_are_left_early() {
    check(
        "break",
        &in_loop(
            "v10: i32 = for L1 v11: i32 in v9..v5 step v2 (v12: i32 = v1) {
               v13: i32 = load f0[v11]
               v14: bool = eq v13, v3
               if v14 { break L1 (v11) } else { yield }
               v15: bool = gt v13, v4
               if v15 { continue L1 (v12) } else { yield }
               v16: i32 = add v12, v13
               v17: bool = gt v16, v4
               if v17 { print m0 (v16) continue L0 } else { yield }
               continue L1 (v16)
             }
             store f1[v0], v10
             continue L0",
        ),
    );
    check(
        "continue",
        &in_loop(
            "v10: i32 = for L1 v11: i32 in v5..v9 step v3 (v12: i32 = v1) {
               v13: bool = eq v11, v4
               if v13 { continue L1 (v12) } else { yield }
               v14: i32 = add v12, v11
               continue L1 (v14)
             }
             store f1[v0], v10
             continue L0",
        ),
    );
}

/// The index never wraps, steps of any sign and size are exact, and 0 runs nothing.
#[test]
fn counting_in_a_loop_is_exact() {
    let cases = [
        ("i8", "120", "127", "5"),
        ("i8", "-128", "127", "100"),
        ("i8", "127", "-128", "-128"),
        ("i8", "-128", "127", "127"),
        ("i8", "100", "-128", "-3"),
        ("i8", "5", "5", "1"),
        ("i8", "5", "9", "0"),
        ("i8", "9", "5", "1"),
        ("i8", "5", "9", "-1"),
        ("u8", "250", "255", "2"),
        ("u8", "0", "255", "200"),
        ("u8", "200", "100", "255"),
        ("i64", "9223372036854775800", "9223372036854775807", "3"),
        (
            "i64",
            "-9223372036854775808",
            "9223372036854775807",
            "9223372036854775807",
        ),
        ("u64", "18446744073709551600", "18446744073709551615", "6"),
        ("u64", "0", "18446744073709551615", "9223372036854775808"),
        ("i16", "-32768", "32767", "9000"),
    ];
    for (ty, lo, hi, step) in cases {
        let text = format!(
            "message m0 \"{{{ty}}}\"
             param p0 \"stop\": {ty}
             kernel fn0(v0: {ty}) -> {ty} {{
               v1: {ty} = const {lo}
               v2: {ty} = const {hi}
               v3: {ty} = const {step}
               v4: {ty} = for L0 v5: {ty} in v1..v2 step v3 (v6: {ty} = v0) {{
                 print m0 (v5)
                 v7: bool = eq v5, v0
                 if v7 {{ break L0 (v5) }} else {{ yield }}
                 v8: {ty} = add v5, v6
                 continue L0 (v8)
               }}
               print m0 (v4)
               return v4
             }}"
        );
        check(&format!("{lo}..{hi} step {step}"), &text);
    }
}

/// A function, its kernel calls it without inlining it, because it is recursive.
#[test]
fn recursive_functions_return_early() {
    check(
        "recursive",
        "param p0 \"n\": i32
         message m0 \"at {i32}\"
         fn fn0(v0: i32) -> i32 {
           v1: i32 = const 1
           v2: bool = lt v0, v1
           if v2 { return v1 } else { yield }
           v3: i32 = sub v0, v1
           v4: i32 = for L0 v5: i32 in v1..v0 step v1 (v6: i32 = v1) {
             print m0 (v5)
             v7: i32 = const 4
             v8: bool = gt v5, v7
             if v8 { return v6 } else { yield }
             v9: i32 = add v6, v5
             continue L0 (v9)
           }
           v10: i32 = call fn0(v3)
           v11: i32 = mul v10, v4
           return v11
         }
         kernel fn1(v0: i32) -> i32 {
           v1: i32 = call fn0(v0)
           return v1
         }",
    );
}

#[test]
fn kernels_return_between_parallel_loops() {
    check(
        "kernel",
        "tree T0 { dense S1 [i: 8] { place f0, f1 } }
         field f0 \"x\": i32 in T0.S1 (i)
         field f1 \"y\": i32 in T0.S1 (i)
         message m0 \"at {i32}\"
         param p0 \"n\": i32
         kernel fn0(v0: i32) -> i32 {
           v1: i32 = const 0
           v2: i32 = const 5
           v20: i32 = load f0[v1]
           foreach L0 (v3: i32) in v1..v2 { store f1[v3], v3 continue L0 }
           v4: bool = lt v0, v1
           if v4 { print m0 (v0) return v0 } else { yield }
           v5: i32 = const 3
           v6: i32 = load f1[v5]
           v7: i32 = add v6, v20
           foreach L1 (v8: i32) in v5..v2 { store f0[v8], v7 continue L1 }
           v9: bool = lt v0, v5
           v10: i32 = if v9 { v11: bool = lt v20, v1 if v11 { return v7 } else { yield } yield v6 } else { yield v7 }
           v12: i32 = add v10, v5
           foreach L2 (v13: i32) in f0 {
             v14: bool = eq v13, v12
             if v14 { continue L2 } else { yield }
             store f1[v13], v12
             continue L2
           }
           foreach L3 () in () { store f0[v1], v12 continue L3 }
           v15: i32 = load f1[v1]
           v16: bool = gt v15, v5
           if v16 { print m0 (v15) return v10 } else { yield }
           print m0 (v12)
           return v15
         }",
    );
}

/// Thousands of exits in one region neither nest deeply nor take long.
#[test]
fn many_exits_do_not_nest() {
    let mut body = String::new();
    for k in 10..1500 {
        body += &format!(
            "v{a}: i32 = add v{p}, v2 v{b}: bool = eq v{a}, v9 if v{b} {{ store f1[v0], v{a} continue L0 }} else {{ yield }}\n",
            p = if k == 10 { 5 } else { 2 * k - 2 },
            a = 2 * k,
            b = 2 * k + 1
        );
    }
    body += "print m0 (v2998) continue L0";
    check("many", &in_loop(&body));
}

/// Arrays of scalars, vectors and structs, with indices known at run time, inside and outside.
#[test]
fn local_arrays_become_values() {
    check(
        "arrays",
        "struct s0 \"P\" { pos: f32x2, id: i32, m: f32x2x2 }
         tree T0 { dense S1 [i: 8] { place f0, f1, f2 } }
         field f0 \"x\": i32 in T0.S1 (i)
         field f1 \"y\": s0 in T0.S1 (i)
         field f2 \"z\": f32x2 in T0.S1 (i)
         param p0 \"n\": i32
         fn fn0(v0: i32) -> i32 {
           local l0 \"seen\": i32[4]
           v1: i32 = load l0[v0]
           store l0[v0], v0
           v2: i32 = load l0[v0]
           v3: i32 = add v1, v2
           return v3
         }
         kernel fn1(v0: i32) {
           local l0 \"stack\": i32[5]
           local l1 \"points\": f32x2[3]
           local l2 \"parts\": s0[3]
           local l3 \"wide\": u8[2]
           foreach L0 (v1: i32) in f0 {
             v2: i32 = const 0
             v3: i32 = const 1
             v4: i32 = const 6
             v5: s0 = load f1[v1]
             v6: f32x2 = load f2[v1]
             for L1 v7: i32 in v2..v4 step v3 {
               v8: i32 = load f0[v7]
               store l0[v8], v7
               store l1[v7], v6
               store l1[v8].[v7], v2000
               store l2[v8], v5
               store l2[v7].1, v8
               store l2[v7].2.[v8], v2000
               v9: u8 = convert v8
               store l3[v9], v9
               v10: bool = eq v8, v0
               if v10 { break L1 } else { yield }
               v11: i32 = atomic add l0[v7], v8
               v12: i32 = call fn0(v8)
               v13: i32 = atomic max l0[v8], v12
               continue L1
             }
             v20: i32 = load l0[v1]
             store f0[v1], v20
             v21: s0 = load l2[v0]
             store f1[v1], v21
             v22: f32x2 = load l1[v0]
             v23: f32 = load l1[v3].[v20]
             v24: f32 = load l2[v20].2.3
             v25: f32 = load l2[v3].0.[v20]
             v26: u64 = convert v20
             v27: i32 = load l0[v26]
             v28: f32 = convert v27
             v29: f32 = add v23, v24
             v30: f32 = add v25, v28
             v31: f32x2 = compose v29, v30
             v32: f32x2 = add v31, v22
             store f2[v1], v32
             continue L0
           }
           return
         }"
        .replace(
            "v2: i32 = const 0\n             v3",
            "v2000: f32 = const 7.5\n             v2: i32 = const 0\n             v3",
        )
        .as_str(),
    );
}

#[test]
fn arrays_that_are_too_large_are_refused() {
    let text = "file F0 \"k.rs\"
         param p0 \"n\": i32
         kernel fn0(v0: i32) -> f32 {
           local l0 \"big\": f32x2[32768]
           v1: f32x2 = load l0[v0] @F0:3:4
           v2: f32 = extract v1.0
           v3: f32x2 = compose v2, v2
           store l0[v0], v3
           v4: f32 = load l0[v0].1
           return v4
         }";
    let mut m = wuji_ir::text::parse(text, "big.wir").unwrap();
    let error = normalize(&mut m).unwrap_err();
    assert_eq!(error.code, "W0710");
    assert!(error.at.is_some() && error.help.is_some());
    assert_eq!(
        error.message,
        "the local array `big` is too large to be differentiated"
    );
}
