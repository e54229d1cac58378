//! Lowered kernels with the loop structure of the benchmarks.

use std::fmt::Write;

pub(crate) const SAXPY: &str = r#"
module "saxpy"
tree T0 { dense S1 [i: 16777216] { place f0 } }
tree T1 { dense S1 [i: 16777216] { place f1 } }
field f0 "x": f32 in T0.S1 (i)
field f1 "y": f32 in T1.S1 (i)
param p0 "a": f32
fn fn0 "saxpy"(v0: f32, v1: i64, v2: i64) {
  v3: i64 = const 1
  v4: i64 = const 4
  for.parallel L0 v5: i64 in v1..v2 step v3 {
    v6: i64 = mul v5, v4
    v7: f32 = memload T0.f0 [v6]
    v8: f32 = memload T1.f1 [v6]
    v9: f32 = mul v0, v7
    v10: f32 = add v9, v8
    memstore T1.f1 [v6], v10
    continue L0
  }
  return
}
task "saxpy.0" chunks (0..16777216) unit 1 fn0 ordinal 1
"#;

/// Units are rows; the inner loop runs over the interior of a row with 32-bit indices.
pub(crate) const JACOBI: &str = r#"
module "jacobi"
tree T0 { dense S1 [i: 4096, j: 4096] { place f0 } }
tree T1 { dense S1 [i: 4096, j: 4096] { place f1 } }
field f0 "x": f32 in T0.S1 (i, j)
field f1 "y": f32 in T1.S1 (i, j)
fn fn0 "jacobi"(v1: i64, v2: i64) {
  v3: i64 = const 1
  v4: i64 = const 4
  v20: i64 = const 4096
  v21: i32 = const 1
  v22: i32 = const 4095
  v23: f32 = const 0.25
  for.parallel L0 v5: i64 in v1..v2 step v3 {
    v24: i64 = mul v5, v20
    for.parallel L1 v30: i32 in v21..v22 step v21 {
      v31: i64 = convert v30
      v32: i64 = add v24, v31
      v33: i64 = sub v32, v20
      v34: i64 = add v32, v20
      v35: i64 = sub v32, v3
      v36: i64 = add v32, v3
      v37: i64 = mul v33, v4
      v38: i64 = mul v34, v4
      v39: i64 = mul v35, v4
      v40: i64 = mul v36, v4
      v41: i64 = mul v32, v4
      v42: f32 = memload T0.f0 [v37]
      v43: f32 = memload T0.f0 [v38]
      v44: f32 = memload T0.f0 [v39]
      v45: f32 = memload T0.f0 [v40]
      v46: f32 = add v42, v43
      v47: f32 = add v46, v44
      v48: f32 = add v47, v45
      v49: f32 = mul v48, v23
      memstore T1.f1 [v41], v49
      continue L1
    }
    continue L0
  }
  return
}
task "jacobi.0" chunks (0..4096) unit 4096 fn0 ordinal 1
"#;

/// A partial sum in a local, added atomically at the end. `OP` and `START` are placeholders.
const REDUCTION: &str = r#"
module "sum"
tree T0 { dense S1 [i: 16777216] { place f0 } }
tree T1 { place f1 }
field f0 "x": TY in T0.S1 (i)
field f1 "total": TY in T1.S0 ()
fn fn0 "sum"(v1: i64, v2: i64) {
  local l0 "total": TY accumulator
  v3: i64 = const 1
  v4: i64 = const SIZE
  v15: TY = const START
  store l0[], v15
  for.parallel L0 v5: i64 in v1..v2 step v3 {
    v6: i64 = mul v5, v4
    v7: TY = memload T0.f0 [v6]
    v8: TY = load l0[]
    v9: TY = OP v8, v7
    store l0[], v9
    continue L0
  }
  v10: i64 = const 0
  v11: TY = load l0[]
  v12: TY = mematomic OP T1.f1 [v10], v11
  return
}
task "sum.0" chunks (0..16777216) unit 1 fn0 ordinal 1
"#;

pub(crate) fn reduction(op: &str, ty: &str, size: u32, start: &str) -> String {
    REDUCTION
        .replace("TY", ty)
        .replace("OP", op)
        .replace("SIZE", &size.to_string())
        .replace("START", start)
}

/// Straight-line 3x3 matrix products, about as long as the particle loop of MLS-MPM.
#[allow(clippy::needless_range_loop)] // rows and columns are clearer as numbers
pub(crate) fn medium() -> String {
    let mut body = String::new();
    let mut next = 100;
    let mut fresh = || {
        next += 1;
        next
    };
    let mut matrix = [[7, 8, 0], [8, 0, 7], [0, 7, 8]];
    for _ in 0..8 {
        let mut product = matrix;
        for r in 0..3 {
            for c in 0..3 {
                let mut sum = fresh();
                let _ = writeln!(
                    body,
                    "    v{sum}: f32 = mul v{}, v{}",
                    matrix[r][0], matrix[0][c]
                );
                for k in 1..3 {
                    let (p, s) = (fresh(), fresh());
                    let _ = writeln!(
                        body,
                        "    v{p}: f32 = mul v{}, v{}",
                        matrix[r][k], matrix[k][c]
                    );
                    let _ = writeln!(body, "    v{s}: f32 = add v{sum}, v{p}");
                    sum = s;
                }
                product[r][c] = sum;
            }
        }
        matrix = product;
    }
    let mut least = matrix[0][0];
    for row in matrix {
        for v in row {
            let m = fresh();
            let _ = writeln!(body, "    v{m}: f32 = min v{least}, v{v}");
            least = m;
        }
    }
    let _ = writeln!(body, "    memstore T1.f1 [v6], v{least}");
    SAXPY
        .replace("\"saxpy\"", "\"medium\"")
        .replace("\"saxpy.0\"", "\"medium.0\"")
        .replace(
            "    v9: f32 = mul v0, v7\n    v10: f32 = add v9, v8\n    memstore T1.f1 [v6], v10\n",
            &body,
        )
}
