//! Gradients against finite differences.
//!
//! A kernel maps the contents of its fields to new contents. With a weight for each new number, the weighted sum is a function of
//! the old contents. Its derivative along a random direction is compared with the gradient that reverse mode gives.

use wuji_compile::autodiff::{FieldUse, UseKind, add_derivatives, parts, reverse};
use wuji_ir::Result;
use wuji_ir::entities::Field;
use wuji_ir::interp::{Config, Machine};
use wuji_ir::module::Module;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};

/// The numbers of all fields.
type Contents = Vec<Vec<Imm>>;

fn run(m: &Module, params: &[Imm], contents: &Contents) -> Result<Contents> {
    let mut machine = Machine::new(m, Config::default())?;
    for (field, values) in m.fields.keys().zip(contents) {
        machine.fill(field, values)?;
    }
    machine.run(params)?;
    m.fields.keys().map(|f| machine.field(f)).collect()
}

fn dot(a: &Contents, b: &Contents) -> f64 {
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    pairs
        .filter_map(|(x, y)| Some(x.as_float()? * y.as_float()?))
        .sum()
}

fn moved(a: &Contents, by: &Contents, step: f64) -> Contents {
    let shift = |x: &Imm, d: &Imm| match (x.as_float(), d.as_float()) {
        (Some(at), Some(d)) => Imm::float(x.ty, at + step * d),
        _ => *x,
    };
    a.iter()
        .zip(by)
        .map(|(a, b)| a.iter().zip(b).map(|(x, d)| shift(x, d)).collect())
        .collect()
}

/// Checks the gradient of a kernel in textual IR, whose floats are `f64`, at random contents between `low` and `high`.
fn check_text(
    text: &str,
    params: &[Imm],
    (low, high): (f64, f64),
    seed: u64,
) -> std::result::Result<(), String> {
    let say = |e: wuji_ir::Error| e.to_string();
    let primal = parse(text, "grad.wir").map_err(say)?;
    let mut state = seed;
    let mut bits = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    let mut random = |low: f64, high: f64, m: &Module| -> Contents {
        let mut number = |s: &Scalar| {
            if s.is_float() {
                let unit = (bits() >> 11) as f64 / (1u64 << 53) as f64;
                Imm::float(*s, low + (high - low) * unit)
            } else {
                Imm::int(*s, (bits() % 4).into())
            }
        };
        (m.fields.values())
            .map(|f| {
                let count: u64 = f.domain(&m.trees).iter().map(|d| d.1).product();
                let scalars = m.structs.flatten(f.elem);
                let mut out = Vec::new();
                for _ in 0..count {
                    out.extend(scalars.iter().map(&mut number));
                }
                out
            })
            .collect()
    };
    let start = random(low, high, &primal);
    let weights = random(-1.0, 1.0, &primal);
    let direction = random(-1.0, 1.0, &primal);
    let end = run(&primal, params, &start).map_err(say)?;

    let mut m = primal.clone();
    let mut adjoints = add_derivatives(&mut m);
    adjoints.overwritten = primal.fields.keys().collect();
    let mut derivatives: Contents = Vec::new();
    for field in m.fields.keys().skip(primal.fields.len()) {
        let of = adjoints.fields.iter().find(|(_, a)| **a == field);
        derivatives.push(match of {
            Some((of, _)) => weights[of.as_u32() as usize].clone(),
            None => vec![Imm::zero(Scalar::I32); count(&m, field)],
        });
    }
    // The values before each part, and after the last one.
    let mut states = vec![start.clone()];
    let parts = match parts(&m, &adjoints).map_err(say)? {
        all if all.len() > 1 => all,
        _ => vec![m.clone()],
    };
    for part in &parts {
        let mut contents = states[states.len() - 1].clone();
        contents.extend(derivatives.clone());
        let mut after = run(part, params, &contents).map_err(say)?;
        after.truncate(primal.fields.len());
        states.push(after);
    }
    assert_eq!(
        states[states.len() - 1],
        end,
        "parts do what the kernel does"
    );
    let mut text = String::new();
    for (k, part) in parts.iter().enumerate().rev() {
        let gradient = reverse(part, &adjoints).map_err(say)?;
        let mut contents = states[k + 1].clone();
        for found in &gradient.uses {
            if found.kind == UseKind::NeedsOld {
                let n = found.field.as_u32() as usize;
                contents[n] = states[k][n].clone();
            }
        }
        contents.extend(derivatives);
        let mut after = run(&gradient.module, params, &contents).map_err(say)?;
        derivatives = after.split_off(primal.fields.len());
        text += &gradient.module.to_string();
    }
    let result: Contents = end.into_iter().chain(derivatives).collect();
    let adjoint: Contents = (primal.fields.keys())
        .map(|f| match adjoints.fields.get(&f) {
            Some(a) => result[a.as_u32() as usize].clone(),
            None => vec![Imm::zero(Scalar::I32); count(&primal, f)],
        })
        .collect();
    let reversed = dot(&adjoint, &direction);

    let difference = |step: f64| -> std::result::Result<f64, String> {
        let plus = run(&primal, params, &moved(&start, &direction, step)).map_err(say)?;
        let minus = run(&primal, params, &moved(&start, &direction, -step)).map_err(say)?;
        Ok((dot(&plus, &weights) - dot(&minus, &weights)) / (2.0 * step))
    };
    let (coarse, fine) = (difference(2e-5)?, difference(1e-5)?);
    let expected = fine + (fine - coarse) / 3.0;
    let scale = expected.abs().max(reversed.abs()).max(1e-3);
    if (reversed - expected).abs() <= 1e-6 * scale {
        return Ok(());
    }
    Err(format!(
        "reverse mode gives {reversed}, differences {expected}\n{text}"
    ))
}

fn count(m: &Module, field: Field) -> usize {
    let domain = m.fields[field].domain(&m.trees);
    let elements: u64 = domain.iter().map(|d| d.1).product();
    elements as usize * m.structs.flatten(m.fields[field].elem).len()
}

pub(crate) const FIELDS: &str = "tree T0 { dense S1 [i: 6] { place f0, f1, f2 } dense S2 [i: 5] { place f4, f5 } dense S3 [i: 6] { place f6 } place f3 }
field f0 \"x\": f64 in T0.S1 (i)
field f1 \"y\": f64 in T0.S1 (i)
field f2 \"z\": f64 in T0.S1 (i)
field f3 \"loss\": f64 in T0.S0 ()
field f4 \"a\": f64x3 in T0.S2 (i)
field f5 \"m\": f64x3x3 in T0.S2 (i)
field f6 \"n\": i32 in T0.S3 (i)
param p0 \"k\": i32
";

#[track_caller]
fn check_in(range: (f64, f64), body: &str) {
    let text = format!("{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{\n{body}\nreturn\n}}\n");
    for seed in 1..5 {
        if let Err(why) = check_text(&text, &[Imm::int(Scalar::I32, 3)], range, seed) {
            panic!("{body}\n{why}");
        }
    }
}

#[track_caller]
pub(crate) fn check(body: &str) {
    check_in((0.2, 1.5), body);
}

#[test]
fn products() {
    check(
        "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = load f1[v1] v4: f64 = mul v2, v3 v5: f64 = div v4, v3 v6: f64 = mul v5, v4 store f2[v1], v6 continue L0 }",
    );
}

#[test]
fn sums_into_a_loss() {
    check(
        "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 v4: f64 = atomic add f3[], v3 continue L0 }",
    );
}

#[test]
fn in_place() {
    check(
        "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 store f0[v1], v3 continue L0 }",
    );
}

#[test]
fn neighbours_and_outside() {
    check(
        "v9: i32 = const 1 foreach L0 (v1: i32) in f0 { v5: i32 = add v1, v9 v2: f64 = load f0[v5] v3: f64 = load f0[v1] v4: f64 = mul v2, v3 store f1[v1], v4 continue L0 }",
    );
}

#[test]
fn branches() {
    check(
        "v9: f64 = const 0.8 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = load f1[v1] v4: bool = lt v2, v9 v5: f64 = if v4 { v6: f64 = mul v2, v3 v7: f64 = sin v6 yield v7 } else { v8: f64 = mul v3, v3 yield v8 } v10: f64 = mul v5, v5 store f2[v1], v10 continue L0 }",
    );
}

#[test]
fn sums_in_loops() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v9: f64 = const 0.0 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = for L1 v4: i32 in v7..v0 step v8 (v5: f64 = v9) { v10: f64 = load f1[v4] v11: f64 = mul v10, v2 v12: f64 = add v5, v11 continue L1(v12) } v13: f64 = mul v3, v3 store f2[v1], v13 continue L0 }",
    );
}

#[test]
fn carried_products() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v9: f64 = const 1.0 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = for L1 v4: i32 in v7..v0 step v8 (v5: f64 = v9) { v10: f64 = load f1[v4] v11: f64 = mul v10, v5 v12: f64 = sin v11 v14: f64 = add v12, v2 continue L1(v14) } v13: f64 = mul v3, v3 store f2[v1], v13 continue L0 }",
    );
}

#[test]
fn long_loops() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v6: i32 = const 1000 v9: f64 = const 0.999 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = for L1 v4: i32 in v7..v6 step v8 (v5: f64 = v2) { v10: f64 = sin v5 v11: f64 = mul v10, v9 v15: f64 = load f1[v1] v12: f64 = add v11, v15 continue L1(v12) } store f2[v1], v3 continue L0 }",
    );
}

#[test]
fn open_loops() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v9: f64 = const 4.0 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = loop L1 (v5: f64 = v2) { v10: f64 = load f1[v1] v11: f64 = mul v5, v5 v12: f64 = add v11, v10 v13: bool = gt v12, v9 if v13 { break L1(v12) } else { continue L1(v12) } unreachable } v14: f64 = mul v3, v3 store f2[v1], v14 continue L0 }",
    );
}

#[test]
fn vectors_and_matrices() {
    check(
        "foreach L0 (v1: i32) in f4 { v2: f64x3 = load f4[v1] v3: f64x3x3 = load f5[v1] v4: f64x3 = matmul v3, v2 v5: f64 = dot v4, v2 v6: f64 = determinant v3 v7: f64 = mul v5, v6 v8: f64x3x3 = inverse v3 v9: f64x3 = matmul v8, v4 v10: f64 = extract v9.1 v11: f64 = mul v10, v7 v12: f64 = atomic add f3[], v11 v13: f64x3 = cross v4, v9 v14: f64 = reduce mul v13 v15: f64 = atomic add f3[], v14 v16: f64x3x3 = outer v2, v4 v17: f64x3x3 = matmul v16, v3 v18: f64 = reduce max v17 v19: f64 = atomic add f3[], v18 continue L0 }",
    );
}

#[test]
fn serial_values_in_parallel_loops() {
    check(
        "v9: i32 = const 2 v8: f64 = load f0[v9] v7: f64 = mul v8, v8 foreach L0 (v1: i32) in f0 { v2: f64 = load f1[v1] v3: f64 = mul v2, v7 store f2[v1], v3 continue L0 }",
    );
}

#[test]
fn extrema() {
    check(
        "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 v4: f64 = atomic max f3[], v3 continue L0 }",
    );
}

#[test]
fn extrema_with_constants() {
    check(
        "v4: f64 = const 0.8 foreach L0 (v1: i32) in f0 { v2: f64 = atomic max f0[v1], v4 v3: f64 = atomic min f1[v1], v4 continue L0 }",
    );
}

#[test]
fn products_with_constants_in_memory() {
    check(
        "v4: f64 = const 0.8 foreach L0 (v1: i32) in f0 { v2: f64 = atomic mul f0[v1], v4 v5: f64 = convert v1 v3: f64 = atomic mul f3[], v5 continue L0 }",
    );
}

#[test]
fn exchanges_of_constants_are_refused() {
    let text = format!(
        "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{ v4: f64 = const 0.8 v2: f64 = atomic exchange f0[v0], v4 return }}"
    );
    let mut m = parse(&text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let error = reverse(&m, &adjoints).map(|_| ()).unwrap_err();
    assert_eq!(error.code, "W0705");
}

#[test]
fn several_parallel_loops() {
    check(
        "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 store f1[v1], v3 continue L0 } foreach L1 (v4: i32) in f0 { v5: f64 = load f1[v4] v6: f64 = mul v5, v5 store f2[v4], v6 continue L1 }",
    );
}

#[test]
fn serial_recurrences_in_memory() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v6: i32 = const 5 for L1 v4: i32 in v7..v6 step v8 { v2: f64 = load f0[v4] v3: f64 = sin v2 v5: i32 = add v4, v8 store f0[v5], v3 continue L1 }",
    );
}

#[track_caller]
fn check_module(text: &str) {
    for seed in 1..5 {
        if let Err(why) = check_text(text, &[Imm::int(Scalar::I32, 3)], (0.2, 1.5), seed) {
            panic!("{text}\n{why}");
        }
    }
}

#[test]
fn temps() {
    check_module(&format!(
        "{FIELDS}temp t0: f64
kernel fn0 \"kernel\"(v0: i32) {{
  v1: f64 = const 0.5
  store t0[], v1
  foreach L0 (v2: i32) in f0 {{
    v3: f64 = load f0[v2]
    v4: f64 = mul v3, v3
    v5: f64 = atomic add t0[], v4
    continue L0
  }}
  v6: f64 = load t0[]
  v7: f64 = mul v6, v6
  store f3[], v7
  foreach L1 (v8: i32) in f0 {{
    v9: f64 = load f1[v8]
    v10: f64 = mul v9, v7
    v11: f64 = sin v10
    store f2[v8], v11
    continue L1
  }}
  return
}}"
    ));
}

#[test]
fn recursive_functions() {
    check_module(&format!(
        "{FIELDS}
fn fn0 \"power\"(v0: f64, v1: i32) -> f64 {{
  v2: i32 = const 0
  v3: i32 = const 1
  v4: bool = le v1, v2
  v5: f64 = if v4 {{
    v6: f64 = cos v0
    yield v6
  }} else {{
    v7: i32 = sub v1, v3
    v8: f64 = load f1[v7]
    v9: f64 = mul v8, v0
    v10: f64 = call fn0(v9, v7)
    v11: f64 = mul v10, v0
    yield v11
  }}
  return v5
}}
kernel fn1 \"kernel\"(v0: i32) {{
  foreach L0 (v2: i32) in f0 {{
    v3: f64 = load f0[v2]
    v4: f64 = call fn0(v3, v0)
    v5: f64 = mul v4, v4
    store f2[v2], v5
    continue L0
  }}
  return
}}"
    ));
}

#[test]
fn structs() {
    check_module(
        "struct s0 \"pair\" { value: f64, count: i32, more: f64x2 }
tree T0 { dense S1 [i: 4] { place f0, f1 } place f2 }
field f0 \"p\": s0 in T0.S1 (i)
field f1 \"q\": s0 in T0.S1 (i)
field f2 \"loss\": f64 in T0.S0 ()
param p0 \"k\": i32
kernel fn0 \"kernel\"(v0: i32) {
  foreach L0 (v1: i32) in f0 {
    v2: s0 = load f0[v1]
    v3: f64 = extract v2.0
    v4: f64x2 = extract v2.2
    v5: f64 = extract v4.1
    v6: f64 = mul v3, v5
    v7: f64x2 = splat v6
    v8: f64x2 = mul v7, v4
    v9: s0 = insert v2.2, v8
    store f1[v1], v9
    v10: f64 = load f0[v1].2.0
    v11: f64 = mul v10, v6
    v12: f64 = atomic add f2[], v11
    continue L0
  }
  return
}",
    );
}

#[test]
fn nested_loops() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = for L1 v4: i32 in v7..v0 step v8 (v5: f64 = v2) { v20: f64 = for L2 v21: i32 in v7..v4 step v8 (v22: f64 = v5) { v23: f64 = load f1[v21] v24: f64 = mul v22, v23 v25: f64 = sin v24 v26: f64 = add v25, v2 continue L2(v26) } v27: f64 = mul v20, v5 continue L1(v27) } store f2[v1], v3 continue L0 }",
    );
}

#[test]
fn loops_that_count_down_by_two() {
    check(
        "v7: i32 = const 5 v8: i32 = const -2 v6: i32 = const 0 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = for L1 v4: i32 in v7..v6 step v8 (v5: f64 = v2) { v10: f64 = load f1[v4] v11: f64 = mul v5, v10 v12: f64 = cos v11 continue L1(v12) } store f2[v1], v3 continue L0 }",
    );
}

#[test]
fn several_carried_values() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v6: i32 = const 7 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v9: f64 = load f1[v1] v3: f64, v13: f64 = for L1 v4: i32 in v7..v6 step v8 (v5: f64 = v2, v14: f64 = v9) { v11: f64 = mul v5, v14 v12: f64 = sin v11 continue L1(v14, v12) } v15: f64 = mul v3, v13 store f2[v1], v15 continue L0 }",
    );
}

#[test]
fn components_by_number() {
    check(
        "foreach L0 (v1: i32) in f4 { v2: f64x3 = load f4[v1] v3: f64 = extract v2[v1] v4: f64 = mul v3, v3 v5: f64x3 = insert v2[v1], v4 v6: f64x3 = mul v5, v2 store f4[v1], v6 v7: f64 = load f5[v1].[v1] v8: f64 = mul v7, v3 v9: f64 = atomic add f3[], v8 continue L0 }",
    );
}

#[test]
fn branches_in_loops_with_writes() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v9: i32 = const 2 v6: i32 = const 6 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = for L1 v4: i32 in v7..v6 step v8 (v5: f64 = v2) { v10: i32 = rem v4, v9 v11: bool = eq v10, v7 v12: f64 = if v11 { v13: f64 = load f1[v4] v14: f64 = mul v13, v5 v15: f64 = atomic add f3[], v14 v16: f64 = sin v14 yield v16 } else { yield v5 } continue L1(v12) } store f2[v1], v3 continue L0 }",
    );
}

#[test]
fn components_that_are_updated_in_place() {
    check(
        "foreach L0 (v1: i32) in f4 { v2: f64 = load f4[v1].0 v3: f64 = mul v2, v2 store f4[v1].0, v3 v4: f64 = load f4[v1].1 v5: f64 = sin v4 store f4[v1].1, v5 v6: f64 = load f4[v1].2 v7: f64 = mul v6, v2 v8: f64 = atomic add f3[], v7 continue L0 }",
    );
}

/// The versions of `x` that the gradient of a kernel needs, and whether its adjoint is cleared.
fn versions(body: &str) -> (Vec<UseKind>, usize) {
    let text = format!("{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{\n{body}\nreturn\n}}\n");
    let mut m = parse(&text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let gradient = reverse(&m, &adjoints).unwrap();
    let x = |u: &&FieldUse| u.field.as_u32() == 0;
    let kinds = gradient.uses.iter().filter(x).map(|u| u.kind);
    let stores = gradient.module.to_string().matches("store.silent").count();
    (kinds.collect(), stores)
}

#[test]
fn a_recurrence_reads_what_it_has_left() {
    let body = "v7: i32 = const 0 v8: i32 = const 1 v6: i32 = const 5 for L1 v4: i32 in v7..v6 step v8 { v2: f64 = load f0[v4] v3: f64 = sin v2 v5: i32 = add v4, v8 store f0[v5], v3 continue L1 }";
    use UseKind::{NeedsNew, Reads, Writes};
    assert_eq!(versions(body), (vec![Reads, NeedsNew, Writes], 0));
}

#[test]
fn a_recurrence_to_the_left_needs_old_values() {
    let body = "v7: i32 = const 1 v8: i32 = const 1 v6: i32 = const 6 for L1 v4: i32 in v7..v6 step v8 { v2: f64 = load f0[v4] v3: f64 = sin v2 v5: i32 = sub v4, v8 store f0[v5], v3 continue L1 }";
    use UseKind::{NeedsOld, Reads, Writes};
    assert_eq!(versions(body), (vec![Reads, NeedsOld, Writes], 1));
}

#[test]
fn elements_named_by_parameters_are_disjoint() {
    let body = "v7: i32 = const 1 v1: i32 = add v0, v7 v2: f64 = load f0[v0] v3: f64 = sin v2 store f0[v1], v3";
    use UseKind::{NeedsNew, Reads, Writes};
    assert_eq!(versions(body), (vec![Reads, NeedsNew, Writes], 0));
}

#[test]
fn an_update_in_place_needs_old_values() {
    let body = "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = sin v2 store f0[v1], v3 continue L0 }";
    use UseKind::{NeedsOld, Reads, Writes};
    assert_eq!(versions(body), (vec![Reads, NeedsOld, Writes], 1));
}

#[test]
fn a_value_that_was_just_stored_is_not_loaded() {
    let body = "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = sin v2 store f0[v1], v3 v4: f64 = load f0[v1] v5: f64 = mul v4, v4 store f1[v1], v5 v6: f64 = mul v5, v4 store f0[v1], v6 continue L0 }";
    use UseKind::{NeedsOld, Reads, Writes};
    assert_eq!(versions(body), (vec![Reads, NeedsOld, Writes], 2));
    check(body);
}

#[test]
fn an_element_that_was_just_updated_is_not_loaded() {
    check(
        "foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v2 v9: f64 = atomic add f0[v1], v3 v4: f64 = load f0[v1] v5: f64 = mul v4, v4 v6: f64 = atomic add f1[v1], v5 v7: f64 = load f1[v1] v8: f64 = sin v7 store f2[v1], v8 v10: f64 = mul v7, v4 store f0[v1], v10 continue L0 }",
    );
}

#[test]
fn branches_and_loops_that_store_between_two_loads() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v6: i32 = const 3 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = sin v2 store f0[v1], v3 v20: f64 = load f0[v1] v9: bool = lt v20, v2 if v9 { v10: f64 = load f0[v1] v11: f64 = mul v10, v2 store f1[v1], v11 yield } else { v12: f64 = load f0[v1] v13: f64 = mul v12, v12 store f2[v1], v13 yield } v14: f64 = load f0[v1] v15: f64 = mul v14, v14 store f0[v1], v15 continue L0 }",
    );
}

#[test]
fn loops_that_overwrite_what_earlier_ones_need_are_parts() {
    // The grid is cleared, summed, updated in place and read: as in a step of MPM.
    check(
        "v20: f64 = const 0.0 foreach L0 (v1: i32) in f1 { store f1[v1], v20 continue L0 } foreach L1 (v2: i32) in f0 { v3: f64 = load f0[v2] v4: f64 = mul v3, v3 v5: f64 = atomic add f1[v2], v4 continue L1 } foreach L2 (v6: i32) in f1 { v7: f64 = load f1[v6] v8: f64 = sin v7 v9: f64 = mul v8, v7 store f1[v6], v9 continue L2 } foreach L3 (v10: i32) in f0 { v11: f64 = load f1[v10] v12: f64 = load f0[v10] v13: f64 = mul v11, v12 store f0[v10], v13 continue L3 } foreach L4 (v14: i32) in f0 { v15: f64 = load f0[v14] v16: f64 = mul v15, v15 store f1[v14], v16 continue L4 }",
    );
}

#[test]
fn parts_compute_indices_and_loads_again() {
    check(
        "v20: i32 = const 1 v21: i32 = add v0, v20 v22: f64 = load f2[v20] v23: f64 = sin v22 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = mul v2, v23 store f0[v1], v3 continue L0 } foreach L1 (v4: i32) in f0 { v5: f64 = load f0[v4] v6: f64 = mul v5, v5 store f1[v4], v6 continue L1 } foreach L2 (v7: i32) in f0 { v8: f64 = load f0[v7] v9: f64 = load f0[v21] v10: f64 = mul v23, v8 store f1[v7], v10 continue L2 } store f0[v21], v23 foreach L3 (v11: i32) in f0 { v12: f64 = load f0[v11] v13: f64 = load f1[v11] v14: f64 = mul v12, v13 store f0[v11], v14 continue L3 }",
    );
}

fn refused(text: &str) -> String {
    let mut m = parse(text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let error = reverse(&m, &adjoints).map(|_| ()).unwrap_err();
    assert_eq!(error.code, "W0706");
    let error = parts(&m, &adjoints).map(|_| ()).unwrap_err();
    assert_eq!(error.code, "W0706");
    error.to_string()
}

#[test]
fn a_part_that_needs_a_variable_of_another_one_is_refused() {
    let text = format!(
        "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{
  v1: f64 = load f0[v0]
  v2: f64 = sin v1
  store f0[v0], v2
  foreach L0 (v3: i32) in f0 {{
    v4: f64 = load f0[v3]
    v5: f64 = mul v4, v1
    store f1[v3], v5
    continue L0
  }}
  store f0[v0], v1
  return
}}"
    );
    let error = refused(&text);
    let why = "its second part needs a variable";
    assert!(error.contains(why), "{error}");
}

#[test]
fn an_element_that_an_iteration_stores_tests_and_stores_again() {
    // What a wall does with the velocities of a grid.
    check(
        "v7: f64 = const 0.5 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v3: f64 = sin v2 store f0[v1], v3 v8: bool = lt v3, v7 if v8 { v9: f64 = mul v3, v3 store f0[v1], v9 yield } else { yield } v4: f64 = load f0[v1] v5: f64 = mul v4, v4 store f1[v1], v5 v6: f64 = mul v5, v4 store f0[v1], v6 continue L0 }",
    );
    // The element is one of another step; one of them is outside.
    check(
        "v7: f64 = const 0.5 v10: i32 = const 1 foreach L0 (v1: i32) in f0 { v11: i32 = add v1, v10 v2: f64 = load f1[v1] v3: f64 = sin v2 store f0[v11], v3 v4: f64 = load f0[v11] v8: bool = lt v4, v7 if v8 { v5: f64 = load f0[v11] v9: f64 = mul v5, v4 store f0[v11], v9 yield } else { yield } v12: f64 = load f0[v11] v13: f64 = mul v12, v12 store f0[v11], v13 continue L0 }",
    );
    // Rounds of a serial loop, each with an element of its own.
    check(
        "v7: f64 = const 0.5 v10: i32 = const 1 v14: i32 = const 5 for L0 v1: i32 in v10..v14 step v10 { v2: f64 = load f1[v1] v3: f64 = load f0[v1] v4: f64 = mul v2, v3 store f0[v1], v4 v8: bool = lt v4, v7 if v8 { v9: f64 = mul v4, v4 store f0[v1], v9 yield } else { yield } v12: f64 = load f0[v1] v13: f64 = mul v12, v12 store f0[v1], v13 continue L0 }",
    );
}

#[test]
fn a_loop_that_overwrites_what_its_gradient_needs_is_refused() {
    // Sweeps of a Gauss-Seidel iteration.
    let text = format!(
        "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{
  v1: i32 = const 1
  v2: i32 = const 5
  v3: i32 = const 3
  v4: i32 = const 0
  for L0 v5: i32 in v4..v3 step v1 {{
    for L1 v6: i32 in v1..v2 step v1 {{
      v7: i32 = sub v6, v1
      v8: i32 = add v6, v1
      v9: f64 = load f0[v7]
      v10: f64 = load f0[v8]
      v11: f64 = mul v9, v10
      store f0[v6], v11
      continue L1
    }}
    continue L0
  }}
  return
}}"
    );
    refused(&text);
}

#[test]
fn early_exits() {
    check(
        "v7: i32 = const 0 v8: i32 = const 1 v6: i32 = const 6 v9: f64 = const 1.2 v10: f64 = const 0.5 foreach L0 (v1: i32) in f0 { v2: f64 = load f0[v1] v11: bool = lt v2, v10 if v11 { v12: f64 = mul v2, v2 store f2[v1], v12 continue L0 } else { yield } v3: f64 = for L1 v4: i32 in v7..v6 step v8 (v5: f64 = v2) { v13: f64 = load f1[v4] v14: bool = gt v13, v9 if v14 { continue L1(v5) } else { yield } v15: f64 = mul v5, v13 v16: bool = gt v15, v9 if v16 { break L1(v15) } else { yield } v17: f64 = add v15, v13 continue L1(v17) } v18: f64 = mul v3, v2 store f2[v1], v18 continue L0 }",
    );
}

#[test]
fn local_arrays() {
    check_module(&format!(
        "{FIELDS}
kernel fn0 \"kernel\"(v0: i32) {{
  local l0 \"a\": f64[4]
  v1: i32 = const 0
  v2: i32 = const 1
  v3: i32 = const 4
  v4: i32 = const 3
  foreach L0 (v5: i32) in f0 {{
    v6: f64 = load f0[v5]
    for L1 v7: i32 in v1..v3 step v2 {{
      v8: f64 = load f1[v7]
      v9: f64 = mul v8, v6
      store l0[v7], v9
      continue L1
    }}
    for L2 v10: i32 in v2..v3 step v2 {{
      v11: i32 = sub v10, v2
      v12: f64 = load l0[v11]
      v13: f64 = load l0[v10]
      v14: f64 = mul v12, v13
      store l0[v10], v14
      continue L2
    }}
    v15: f64 = load l0[v4]
    store f2[v5], v15
    continue L0
  }}
  return
}}"
    ));
}

#[test]
fn a_gradient_can_be_differentiated_again() {
    let text = format!(
        "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{
  foreach L0 (v1: i32) in f0 {{
    v2: f64 = load f0[v1]
    v3: f64 = sin v2
    v4: f64 = load f1[v1]
    v5: f64 = mul v3, v4
    v6: f64 = atomic add f3[], v5
    continue L0
  }}
  return
}}"
    );
    let mut m = parse(&text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let gradient = reverse(&m, &adjoints).unwrap();
    check_module(&gradient.module.to_string());
}

#[test]
fn functions_with_a_reverse_sweep_of_their_own() {
    // The body would give twice the derivative of the square.
    let text = format!(
        "{FIELDS}
fn fn0 \"square\"(v0: f64) -> f64 reverse fn1 {{
  v1: f64 = mul v0, v0
  return v1
}}
fn fn1 \"square_reverse\"(v0: f64, v1: f64, v2: f64) -> f64 {{
  v3: f64 = mul v2, v0
  v4: f64 = div v1, v0
  v5: f64 = mul v2, v4
  v6: f64 = add v3, v5
  return v6
}}
kernel fn2 \"kernel\"(v0: i32) {{
  foreach L0 (v2: i32) in f0 {{
    v3: f64 = load f0[v2]
    v4: f64 = call fn0(v3)
    v5: f64 = sin v4
    store f2[v2], v5
    continue L0
  }}
  return
}}"
    );
    check_module(&text);
    let mut m = parse(&text, "grad.wir").unwrap();
    assert_eq!(
        parse(&m.to_string(), "again.wir").unwrap().to_string(),
        m.to_string()
    );
    let adjoints = add_derivatives(&mut m);
    let gradient = reverse(&m, &adjoints).unwrap().module.to_string();
    assert!(gradient.contains("call"), "{gradient}");
}

#[test]
fn remarks_say_how_a_loop_is_reversed() {
    let remarks = |body: &str| {
        let text = format!(
            "{FIELDS}kernel fn0 \"kernel\"(v0: i32) {{\nv7: i32 = const 0 v8: i32 = const 1 v6: i32 = const 1000 foreach L0 (v1: i32) in f0 {{ v2: f64 = load f0[v1] v3: f64 = for L1 v4: i32 in v7..v6 step v8 (v5: f64 = v2) {{ {body} continue L1(v12) }} v20: f64 = tanh v3 store f2[v1], v20 continue L0 }}\nreturn\n}}\n"
        );
        let mut m = parse(&text, "grad.wir").unwrap();
        let adjoints = add_derivatives(&mut m);
        let remarks = reverse(&m, &adjoints).unwrap().remarks;
        remarks.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        remarks("v10: f64 = load f1[v4] v12: f64 = add v5, v10"),
        ["kernel: gradient in any order"]
    );
    assert_eq!(
        remarks("v10: f64 = load f1[v4] v12: f64 = sub v10, v5"),
        ["kernel: gradient from the last iteration to the first, nothing saved"]
    );
    // The result is needed, the sums before are not.
    assert_eq!(
        remarks("v10: f64 = load f1[v4] v11: f64 = mul v10, v10 v12: f64 = add v5, v11"),
        ["kernel: gradient in any order"]
    );
    assert_eq!(
        remarks("v12: f64 = sin v5"),
        ["kernel: gradient from the last iteration to the first, 64 checkpoints of 8 bytes"]
    );
}

#[test]
fn variables_that_are_set_again_are_refused() {
    let text = format!(
        "{FIELDS}temp t0: f64
kernel fn0 \"kernel\"(v0: i32) {{
  v1: f64 = const 0.5
  store t0[], v1
  foreach L0 (v2: i32) in f0 {{
    v3: f64 = load f0[v2]
    v4: f64 = atomic add t0[], v3
    continue L0
  }}
  foreach L1 (v5: i32) in f0 {{
    v6: f64 = load t0[]
    v7: f64 = mul v6, v6
    store f1[v5], v7
    continue L1
  }}
  store t0[], v1
  return
}}"
    );
    let mut m = parse(&text, "grad.wir").unwrap();
    let adjoints = add_derivatives(&mut m);
    let error = reverse(&m, &adjoints).map(|_| ()).unwrap_err();
    assert_eq!(error.code, "W0706");
}
