//! Forward mode against central differences, by the interpreter.

use wuji_compile::autodiff::{Derivatives, forward};
use wuji_ir::entities::{Array, Field};
use wuji_ir::interp::{Config, Machine, Outcome};
use wuji_ir::module::Module;
use wuji_ir::ops::{BinOp, UnOp};
use wuji_ir::types::{Imm, Scalar};

/// A field: its element type, and its extent; 0 for one without axes.
type Declared<'a> = (&'a str, u32);

const STEP: f64 = 1e-6;

/// Text that declares fields, and `copies` more of each for tangents, numbered after all fields.
fn header(fields: &[Declared], copies: usize) -> String {
    let all = fields.repeat(copies + 1);
    let (mut tree, mut places, mut list) = (String::new(), String::new(), String::new());
    let mut nodes = 0;
    for (k, (ty, extent)) in all.iter().enumerate() {
        if *extent == 0 {
            places += &format!("  place f{k}\n");
            list += &format!("field f{k} \"f{k}\": {ty} in T0.S0 ()\n");
        } else {
            nodes += 1;
            tree += &format!("  dense S{nodes} [i: {extent}] {{ place f{k} }}\n");
            list += &format!("field f{k} \"f{k}\": {ty} in T0.S{nodes} (i)\n");
        }
    }
    format!(
        "struct s0 \"pair\" {{ a: f64x2, n: i32, b: f64 }}\ntree T0 {{\n{tree}{places}}}\n{list}"
    )
}

fn parse(text: &str) -> Module {
    wuji_ir::text::parse(text, "forward.wir").unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The tangent of field `k` is field `n * (seed + 1) + k`.
fn seeds(n: usize, count: usize) -> Vec<Derivatives> {
    let field = |k: usize| Field::from_u32(k as u32);
    let one = |s: usize| Derivatives {
        fields: (0..n).map(|k| (field(k), field(n * (s + 1) + k))).collect(),
        ..Derivatives::default()
    };
    (0..count).map(one).collect()
}

/// Numbers between 0.2 and 0.9.
fn number(seed: usize) -> f64 {
    let bits = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    0.2 + 0.7 * ((bits >> 40) as f64 / f64::from(1 << 24))
}

fn imm(like: Imm, x: f64) -> Imm {
    if like.ty.is_float() {
        Imm::float(like.ty, x)
    } else {
        Imm::int(like.ty, (x * 8.0) as i128)
    }
}

/// The contents of all fields.
fn inputs(m: &Module) -> Vec<Vec<Imm>> {
    let machine = Machine::new(m, Config::default()).unwrap();
    let contents = |(n, f): (usize, Field)| {
        let zeros = machine.field(f).unwrap();
        let count = zeros.iter().enumerate();
        count.map(|(k, z)| imm(*z, number(n * 31 + k))).collect()
    };
    m.fields.keys().enumerate().map(contents).collect()
}

fn run(m: &Module, inputs: &[Vec<Imm>]) -> (Vec<Vec<Imm>>, Outcome) {
    let mut machine = Machine::new(m, Config::default()).unwrap_or_else(|e| panic!("{e}\n{m}"));
    for (field, values) in m.fields.keys().zip(inputs) {
        machine.fill(field, values).unwrap();
    }
    let outcome = machine.run(&[]).unwrap_or_else(|e| panic!("{e}\n{m}"));
    let fields = m.fields.keys().map(|f| machine.field(f).unwrap());
    (fields.collect(), outcome)
}

/// Compares the tangents of `n` fields with central differences along the tangents before the run.
fn check_module(m: &Module, n: usize, count: usize) -> Module {
    let made = forward(m, &seeds(n, count)).unwrap_or_else(|e| panic!("{e}\n{m}"));
    let start = inputs(m);
    let (values, _) = run(m, &start);
    let (found, _) = run(&made, &start);
    assert_eq!(values[..n], found[..n], "the values differ\n{made}");
    for s in 0..count {
        let moved = |step: f64| {
            let mut at = start.clone();
            for k in 0..n {
                for (x, t) in at[k].iter_mut().zip(&start[n * (s + 1) + k]) {
                    if let (Some(a), Some(t)) = (x.as_float(), t.as_float()) {
                        *x = imm(*x, a + step * t);
                    }
                }
            }
            run(m, &at).0
        };
        let (low, high) = (moved(-STEP), moved(STEP));
        for k in 0..n {
            for (j, t) in found[n * (s + 1) + k].iter().enumerate() {
                let (Some(a), Some(b), Some(t)) =
                    (low[k][j].as_float(), high[k][j].as_float(), t.as_float())
                else {
                    continue;
                };
                let expected = (b - a) / (2.0 * STEP);
                let error = (t - expected).abs() / (1.0 + expected.abs());
                assert!(
                    error < 1e-7,
                    "f{k} {j} seed {s}: {t}, not {expected}\n{made}"
                );
            }
        }
    }
    made
}

/// Checks a kernel with one and with two seeds.
fn check(fields: &[Declared], body: &str) {
    for count in [1, 2] {
        let m = parse(&format!("{}{body}", header(fields, count)));
        check_module(&m, fields.len(), count);
    }
}

/// The same, and the derivative of the derivative.
fn check_twice(fields: &[Declared], body: &str) {
    check(fields, body);
    let n = fields.len();
    let m = parse(&format!("{}{body}", header(fields, 3)));
    let first = check_module(&m, n, 1);
    check_module(&first, 2 * n, 1);
}

#[test]
fn unary_operations() {
    for op in UnOp::ALL {
        if *op != UnOp::StopGrad && op.defined_on().contains(Scalar::F64) {
            let body = format!(
                "kernel fn0 \"k\"() {{\n foreach L0 (v0: i32) in f0 {{\n v1: f64 = load f0[v0]\n \
                 v2: f64 = {} v1\n store f1[v0], v2\n continue L0\n }}\n return\n}}\n",
                op.name()
            );
            check_twice(&[("f64", 3), ("f64", 3)], &body);
        }
    }
}

#[test]
fn binary_operations() {
    for op in BinOp::ALL {
        if op.defined_on().contains(Scalar::F64) {
            let body = format!(
                "kernel fn0 \"k\"() {{\n foreach L0 (v0: i32) in f0 {{\n v1: f64x2 = load f0[v0]\n \
                 v2: f64x2 = load f1[v0]\n v3: f64x2 = {} v1, v2\n store f2[v0], v3\n continue L0\n }}\n return\n}}\n",
                op.name()
            );
            check_twice(&[("f64x2", 3), ("f64x2", 3), ("f64x2", 3)], &body);
        }
    }
}

#[test]
fn other_elementwise_operations() {
    check_twice(
        &[("f64", 4), ("f64", 4), ("f64", 4), ("f64", 4)],
        "kernel fn0 \"k\"() {
  foreach L0 (v0: i32) in f0 {
    v1: f64 = load f0[v0]
    v2: f64 = load f1[v0]
    v3: f64 = load f2[v0]
    v4: f64 = fma v1, v2, v3
    v5: bool = lt v1, v2
    v6: f64 = select v5, v4, v3
    v7: i64 = bitcast v6
    v8: f64 = bitcast v6
    v9: i32 = convert v6
    v10: f64 = convert v9
    v11: f64 = add v8, v10
    v12: f64 = floor v1
    v13: f64 = add v11, v12
    store f3[v0], v13
    continue L0
  }
  return
}
",
    );
}

#[test]
fn vectors() {
    check_twice(
        &[("f64x3", 2), ("f64x3", 2), ("f64x3", 2), ("f64", 2)],
        "kernel fn0 \"k\"() {
  v90: i32 = const 1
  foreach L0 (v0: i32) in f0 {
    v1: f64x3 = load f0[v0]
    v2: f64x3 = load f1[v0]
    v3: f64x3 = cross v1, v2
    v4: f64 = dot v1, v3
    v5: f64 = dot v1, v1
    v6: f64 = sqrt v5
    v7: f64x3 = splat v6
    v8: f64x3 = mul v3, v7
    v9: f64 = extract v8.2
    v10: f64x3 = insert v8.0, v4
    v11: f64 = extract v10[v90]
    v12: f64x3 = insert v10[v90], v9
    v13: f64x2 = shuffle v12 [2, 0]
    v14: f64 = reduce mul v13
    v15: f64 = reduce add v12
    v16: f64 = reduce min v1
    v17: f64 = reduce max v2
    v18: f64x3 = compose v14, v16, v17
    v19: f64x2 = shuffle v1 [0, 1]
    v20: f64 = cross v19, v13
    store f2[v0], v18
    v21: f64 = load f1[v0].1
    v22: f64 = mul v21, v20
    v23: f64 = add v22, v15
    v24: f64 = add v23, v11
    store f3[v0], v24
    store f2[v0].[v90], v22
    continue L0
  }
  return
}
",
    );
}

#[test]
fn matrices() {
    for n in [2, 3, 4] {
        let body = format!(
            "kernel fn0 \"k\"() {{
  foreach L0 (v0: i32) in f0 {{
    v1: f64x{n}x{n} = load f0[v0]
    v30: f64 = const 2
    v31: f64x{n} = load f1[v0]
    v32: f64x{n}x{n} = outer v31, v31
    v2: f64x{n}x{n} = add v1, v32
    v3: f64x{n}x{n} = transpose v2
    v4: f64x{n}x{n} = matmul v2, v3
    v5: f64 = determinant v1
    v6: f64x{n} = matmul v4, v31
    v7: f64x{n} = splat v5
    v8: f64x{n} = mul v6, v7
    v9: f64x{n}x{n} = load f2[]
    v10: f64x{n}x{n} = inverse v9
    v11: f64x{n} = matmul v10, v8
    store f1[v0], v11
    continue L0
  }}
  return
}}
"
        );
        let (square, vector) = (format!("f64x{n}x{n}"), format!("f64x{n}"));
        let fields = [
            (square.as_str(), 2),
            (vector.as_str(), 2),
            (square.as_str(), 0),
        ];
        // The inverse of the numbers of the third field may be large: only first derivatives.
        check(&fields, &body);
    }
}

#[test]
fn the_determinant_of_a_singular_matrix() {
    let m = parse(&format!(
        "{}kernel fn0 \"k\"() {{
  v0: f64x2x2 = load f0[]
  v1: f64 = determinant v0
  store f1[], v1
  return
}}
",
        header(&[("f64x2x2", 0), ("f64", 0)], 1)
    ));
    let made = forward(&m, &seeds(2, 1)).unwrap();
    let mut start = inputs(&m);
    start[0] = [1.0, 2.0, 2.0, 4.0]
        .map(|x| Imm::float(Scalar::F64, x))
        .to_vec();
    start[2] = [1.0, 0.0, 0.0, 0.0]
        .map(|x| Imm::float(Scalar::F64, x))
        .to_vec();
    let (found, _) = run(&made, &start);
    assert_eq!(found[3][0].as_float(), Some(4.0));
}

#[test]
fn structs() {
    check_twice(
        &[("s0", 3), ("s0", 3), ("f64", 3)],
        "kernel fn0 \"k\"() {
  foreach L0 (v0: i32) in f0 {
    v1: s0 = load f0[v0]
    v2: f64x2 = extract v1.0
    v3: i32 = extract v1.1
    v4: f64 = extract v1.2
    v5: f64 = dot v2, v2
    v6: f64 = mul v5, v4
    v7: s0 = insert v1.2, v6
    v8: f64 = convert v3
    v9: f64 = mul v8, v6
    v10: s0 = compose v2, v3, v9
    v11: bool = lt v4, v5
    v12: s0 = select v11, v10, v7
    store f1[v0], v12
    v13: f64 = load f1[v0].0.1
    store f2[v0], v13
    v14: s0 = atomic add f1[v0], v10
    store f1[v0].1, v3
    continue L0
  }
  return
}
",
    );
}

const CONTROL: &str = "fn fn0 \"early\"(v0: f64, v1: i32) -> f64 {
  v2: i32 = const 3
  v3: bool = lt v1, v2
  if v3 {
    v4: f64 = mul v0, v0
    return v4
  } else {
    yield
  }
  v5: f64 = sin v0
  return v5
}

kernel fn1 \"k\"() {
  local l0 \"sum\": f64
  local l1 \"history\": f64[8]
  v50: i32 = const 0
  v51: i32 = const 1
  v52: i32 = const 2
  v53: i32 = const 8
  v54: f64 = const 0.5
  v55: f64 = const 1.3
  foreach L0 (v0: i32) in f0 {
    v1: f64 = load f0[v0]
    store l0[], v1
    v2: f64 = for L1 v3: i32 in v50..v53 step v51 (v4: f64 = v1) {
      v5: i32 = rem v3, v52
      v6: bool = eq v5, v50
      if v6 {
        v7: f64 = mul v4, v55
        continue L1 (v7)
      } else {
        yield
      }
      v8: f64 = for L2 v9: i32 in v50..v3 step v51 (v10: f64 = v54) {
        v11: f64 = mul v10, v4
        v12: f64 = load l0[]
        v13: f64 = add v12, v11
        store l0[], v13
        store l1[v9], v13
        v14: bool = gt v13, v55
        if v14 {
          break L2 (v13)
        } else {
          yield
        }
        continue L2 (v11)
      }
      v15: f64 = call fn0(v8, v3)
      v16: f64 = add v4, v15
      v17: f64 = const 4
      v18: bool = gt v16, v17
      if v18 {
        break L1 (v54)
      } else {
        yield
      }
      continue L1 (v16)
    }
    v20: f64, v21: i32 = loop L3 (v22: f64 = v2, v23: i32 = v50) {
      v24: f64 = mul v22, v54
      v25: i32 = add v23, v51
      v26: bool = lt v24, v1
      if v26 {
        break L3 (v24, v25)
      } else {
        yield
      }
      v27: bool = gt v25, v53
      if v27 {
        break L3 (v54, v25)
      } else {
        yield
      }
      continue L3 (v24, v25)
    }
    v30: f64 = block L4 {
      v31: bool = lt v20, v54
      if v31 {
        v32: f64 = exp v20
        break L4 (v32)
      } else {
        yield
      }
      yield v54
    }
    v40: bool = eq v0, v51
    v41: f64 = if v40 {
      v42: f64 = load l1[v52]
      yield v42
    } else {
      yield v55
    }
    v43: f64 = load l0[]
    v44: f64 = mul v43, v41
    v45: f64 = add v44, v30
    v46: f64 = add v45, v20
    store f1[v0], v46
    continue L0
  }
  return
}
";

#[test]
fn control_flow() {
    check_twice(&[("f64", 6), ("f64", 6)], CONTROL);
}

#[test]
fn recursion() {
    check_twice(
        &[("f64", 4), ("f64", 4)],
        "fn fn0 \"power\"(v0: f64, v1: i32) -> f64 {
  v2: i32 = const 0
  v3: i32 = const 1
  v4: bool = le v1, v2
  if v4 {
    v5: f64 = const 1
    return v5
  } else {
    yield
  }
  v6: i32 = sub v1, v3
  v7: f64 = call fn0(v0, v6)
  v8: f64 = mul v7, v0
  return v8
}

kernel fn1 \"k\"() {
  foreach L0 (v0: i32) in f0 {
    v1: f64 = load f0[v0]
    v2: f64 = call fn0(v1, v0)
    store f1[v0], v2
    continue L0
  }
  return
}
",
    );
}

#[test]
fn several_parallel_loops_with_serial_code_between() {
    check_twice(
        &[("f64", 5), ("f64", 0), ("f64", 5)],
        "temp t0: f64

kernel fn0 \"k\"() {
  v50: f64 = const 0
  store f1[], v50
  foreach L0 (v0: i32) in f0 {
    v1: f64 = load f0[v0]
    v2: f64 = mul v1, v1
    v3: f64 = atomic add f1[], v2
    v4: f64 = atomic add t0[], v1
    continue L0
  }
  v5: f64 = load f1[]
  v6: f64 = sqrt v5
  v7: f64 = load t0[]
  foreach L1 (v8: i32) in f0 {
    v9: f64 = load f0[v8]
    v10: f64 = div v9, v6
    v11: f64 = mul v10, v7
    store f2[v8], v11
    v12: f64 = atomic exchange f0[v8], v11
    v13: f64 = atomic add f2[v8], v12
    continue L1
  }
  return
}
",
    );
}

const ATOMICS: &str = "  foreach L0 (v0: i32) in f0 HINT {
    v1: f64 = load f0[v0]
    v2: f64 = atomic max f1[], v1
    v3: f64 = atomic min f2[], v1
    v4: f64 = atomic mul f3[], v1
    v5: f64 = mul v2, v3
    v6: f64 = cmpxchg f4[], v60, v5
    v7: f64 = add v4, v6
    v8: f64 = mul v7, v1
    store f5[v0], v8
    continue L0
  }
  return
}
";

#[test]
fn atomics_in_serial_loops() {
    let fields = [
        ("f64", 5),
        ("f64", 0),
        ("f64", 0),
        ("f64", 0),
        ("f64", 0),
        ("f64", 5),
    ];
    let head = "kernel fn0 \"k\"() {\n v60: f64 = load f4[]\n";
    let body = format!("{head}{}", ATOMICS.replace("HINT", "serial"));
    check_twice(&fields, &body);
}

#[test]
fn atomics_that_cannot_be_replaced_at_once_are_refused() {
    let fields = [
        ("f64", 5),
        ("f64", 0),
        ("f64", 0),
        ("f64", 0),
        ("f64", 0),
        ("f64", 5),
    ];
    for op in ["atomic max", "atomic min", "atomic mul"] {
        let body = format!(
            "kernel fn0 \"k\"() {{\n foreach L0 (v0: i32) in f0 {{\n v1: f64 = load f0[v0]\n \
             v2: f64 = {op} f1[], v1\n continue L0\n }}\n return\n}}\n"
        );
        let m = parse(&format!("{}{body}", header(&fields, 1)));
        let error = forward(&m, &seeds(fields.len(), 1)).unwrap_err();
        assert_eq!(error.code, "W0720");
        // Without tangents, the atomic is like any other.
        assert!(forward(&m, &[Derivatives::default()]).is_ok());
    }
}

#[test]
fn the_largest_of_neighbours() {
    check_twice(
        &[("f64", 5), ("f64", 5)],
        "kernel fn0 \"k\"() {
  v50: i32 = const 2
  v51: i32 = const 0
  v52: i32 = const 5
  v53: i32 = const 1
  foreach L0 (v0: i32) in f0 {
    v1: f64 = load f0[v0]
    v2: f64 = for L1 v3: i32 in v51..v52 step v53 (v4: f64 = v1) {
      v5: f64 = load f0[v3]
      v6: f64 = max v4, v5
      continue L1 (v6)
    }
    store f1[v0], v2
    continue L0
  }
  return
}
",
    );
}

#[test]
fn nothing_is_added_for_values_that_do_not_vary() {
    let m = parse(&format!(
        "{}{CONTROL}",
        header(&[("f64", 6), ("f64", 6)], 1)
    ));
    let plain = forward(&m, &[]).unwrap();
    let constant = forward(&m, &[Derivatives::default()]).unwrap();
    assert_eq!(plain, constant);
}

const PARAMETERS: &str = "array a0 \"x\": f64 rank 1 writable contiguous unaliased
array a1 \"dx\": f64 rank 1 writable contiguous unaliased
param p0 \"p\": f64
param p1 \"n\": i32

kernel fn0 \"k\"(v0: f64, v1: i32) -> f64 {
  v2: i32 = const 0
  foreach L0 (v3: i32) in v2..v1 {
    v4: f64 = load a0[v3]
    v5: f64 = mul v4, v0
    store a0[v3], v5
    continue L0
  }
  v6: f64 = load a0[v2]
  v7: f64 = mul v6, v0
  return v7
}
";

#[test]
fn parameters_arrays_and_the_result_have_tangents() {
    let m = parse(&format!(
        "{}{PARAMETERS}",
        header(&[("f64", 0), ("f64", 0)], 0)
    ));
    let mut seed = Derivatives::default();
    seed.params.insert(0, Field::from_u32(0));
    seed.result = Some(Field::from_u32(1));
    seed.arrays.insert(Array::from_u32(0), Array::from_u32(1));
    let made = forward(&m, &[seed]).unwrap();
    let mut machine = Machine::new(&made, Config::default()).unwrap();
    let f64s =
        |xs: &[f64]| -> Vec<Imm> { xs.iter().map(|x| Imm::float(Scalar::F64, *x)).collect() };
    machine.fill(Field::from_u32(0), &f64s(&[10.0])).unwrap();
    machine
        .bind_values(Array::from_u32(0), &[2], &f64s(&[2.0, 3.0]))
        .unwrap();
    machine
        .bind_values(Array::from_u32(1), &[2], &f64s(&[100.0, 200.0]))
        .unwrap();
    let args = [Imm::float(Scalar::F64, 5.0), Imm::int(Scalar::I32, 2)];
    let outcome = machine.run(&args).unwrap();
    // x p^2: 2 x p dp + p^2 dx.
    assert_eq!(outcome.result, Some(f64s(&[50.0])));
    assert_eq!(
        machine.field(Field::from_u32(1)).unwrap(),
        f64s(&[200.0 + 2500.0])
    );
    assert_eq!(machine.array(Array::from_u32(1)), f64s(&[520.0, 1030.0]));
}

#[test]
fn messages_assertions_and_random_numbers_stay() {
    let body = "message m0 \"x = {f64}\"
message m1 \"too large\"

kernel fn0 \"k\"() {
  v50: f64 = const 1000
  v51: f64 = const 0.0001
  foreach L0 (v0: i32) in f0 {
    v1: f64 = load f0[v0]
    v2: u64 = random
    v3: f64 = convert v2
    v4: f64 = mul v3, v1
    v5: f64 = mul v4, v51
    print m0 (v5)
    v6: bool = lt v5, v50
    assert v6, m1 ()
    store f1[v0], v1
    continue L0
  }
  return
}
";
    let m = parse(&format!("{}{body}", header(&[("f64", 3), ("f64", 3)], 1)));
    let made = forward(&m, &seeds(2, 1)).unwrap();
    let start = inputs(&m);
    let (values, expected) = run(&m, &start);
    let (found, outcome) = run(&made, &start);
    assert_eq!(expected.printed, outcome.printed);
    assert_eq!(expected.reports.len(), outcome.reports.len());
    assert_eq!(expected.reports.len(), 3);
    assert_eq!(values[..2], found[..2]);
}
