//! Every scalar operation on every type, against `wuji_ir::eval`, bit for bit in strict mode.
//!
//! One module per type has one task per operation, a loop over elements. Without LLVM's passes this checks
//! code generation; with them, also the vectorized code.

use crate::harness::{Aligned, Launch, compile_with, jit, jit_for, plain_jit};
use std::fmt::Write;
use wuji_compile::Math;
use wuji_ir::eval;
use wuji_ir::infer;
use wuji_ir::ops::{BinOp, CmpOp, UnOp};
use wuji_ir::types::{Imm, Scalar, Type};
use wuji_llvm::Jit;

/// An operation and its reference implementation.
struct Case {
    text: String,
    result: Scalar,
    meaning: Box<dyn Fn([Imm; 3]) -> Imm>,
}

/// Edge cases of a type.
pub(crate) fn interesting(s: Scalar) -> Vec<Imm> {
    let mut found: Vec<Imm> = match s {
        Scalar::Bool => vec![Imm::bool(false), Imm::bool(true)],
        _ if s.is_float() => [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            3.0,
            0.1,
            -0.7,
            100.0,
            127.5,
            128.0,
            255.5,
            -129.0,
            1e-8,
            32768.0,
            65504.0,
            65519.0,
            -65520.0,
            16777217.0,
            2147483647.0,
            2147483648.0,
            -2147483649.0,
            4294967296.0,
            9223372036854775807.0,
            -9223372036854775808.0,
            18446744073709551616.0,
            1e30,
            -1e300,
            5e-324,
            1e-40,
            6e-8,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1.0 + 1.0 / 2048.0,
            1.0 + 1.0 / 2048.0 + 1e-12,
        ]
        .into_iter()
        .map(|v| Imm::float(s, v))
        .collect(),
        _ => {
            let (lo, hi) = s.int_range().unwrap();
            [
                0, 1, 2, 3, 7, 8, 31, 33, 63, 64, 100, 200, -1, -2, -3, -8, -100,
            ]
            .into_iter()
            .chain([lo, lo + 1, hi, hi - 1, hi / 2, lo / 2, hi / 3])
            .map(|v| Imm::int(s, v))
            .collect()
        }
    };
    let mut seed = 12345u64;
    for _ in 0..if s == Scalar::Bool { 0 } else { 8 } {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        found.push(Imm::from_bits(s, seed >> 7));
    }
    found
}

fn cases(s: Scalar) -> Vec<Case> {
    let ty = Type::Scalar(s);
    let mut cases = Vec::new();
    let mut add = |text: String, result, meaning: Box<dyn Fn([Imm; 3]) -> Imm>| {
        cases.push(Case {
            text,
            result,
            meaning,
        });
    };
    for op in UnOp::ALL.iter().copied() {
        if infer::unary(op, ty).is_ok() {
            let meaning = move |v: [Imm; 3]| eval::unary(op, v[0]).unwrap();
            add(format!("{} v10", op.name()), s, Box::new(meaning));
        }
    }
    for op in BinOp::ALL.iter().copied() {
        if infer::binary(op, ty).is_err() {
            continue;
        }
        let meaning = move |v: [Imm; 3]| eval::binary(op, v[0], v[1]).unwrap();
        add(format!("{} v10, v11", op.name()), s, Box::new(meaning));
        if s.is_int() && matches!(op, BinOp::Div | BinOp::Rem | BinOp::Shl | BinOp::Shr) {
            for constant in [0, 1, -1, 7, -8, 33, s.int_range().unwrap().0].map(|v| Imm::int(s, v))
            {
                let meaning = move |v: [Imm; 3]| eval::binary(op, v[0], constant).unwrap();
                let text = format!("{} v10, v13 ;; {constant}", op.name());
                add(text, s, Box::new(meaning));
            }
        }
    }
    for op in CmpOp::ALL.iter().copied() {
        if s == Scalar::Bool && !matches!(op, CmpOp::Eq | CmpOp::Ne) {
            continue;
        }
        let meaning = move |v: [Imm; 3]| Imm::bool(eval::compare(op, v[0], v[1]).unwrap());
        add(
            format!("{} v10, v11", op.name()),
            Scalar::Bool,
            Box::new(meaning),
        );
    }
    if s.is_float() {
        let meaning = |v: [Imm; 3]| eval::fma(v[0], v[1], v[2]).unwrap();
        add("fma v10, v11, v12".into(), s, Box::new(meaning));
    }
    for to in Scalar::ALL {
        if to != s {
            let meaning = move |v: [Imm; 3]| eval::convert(v[0], to);
            add("convert v10".into(), to, Box::new(meaning));
            if to.bits() == s.bits() {
                let meaning = move |v: [Imm; 3]| eval::bitcast(v[0], to).unwrap();
                add("bitcast v10".into(), to, Box::new(meaning));
            }
        }
    }
    let meaning = |v: [Imm; 3]| if v[0].bits() & 1 == 1 { v[1] } else { v[2] };
    if s == Scalar::Bool {
        add("select v10, v11, v12".into(), s, Box::new(meaning));
    }
    cases
}

/// The module with a task for each case.
fn module(s: Scalar, cases: &[Case]) -> String {
    let mut text = String::from("module \"operators\"\n");
    for a in 0..3 {
        let _ = writeln!(text, "array a{a} \"in\": {s} rank 1 contiguous unaliased");
    }
    let _ = writeln!(
        text,
        "array a3 \"out\": u64 rank 1 writable contiguous unaliased"
    );
    for (k, case) in cases.iter().enumerate() {
        let (operation, constant) = match case.text.split_once(";;") {
            Some((operation, constant)) => (operation, constant.trim()),
            None => (case.text.as_str(), "0"),
        };
        let constant = if s.is_int() {
            format!("v13: {s} = const {constant}")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "fn fn{k} \"case{k}\"(v0: i64, v1: i64) {{
  v2: i64 = const 1
  v3: i64 = const {size}
  v4: i64 = const {result_size}
  {constant}
  for.parallel L0 v5: i64 in v0..v1 step v2 {{
    v6: i64 = mul v5, v3
    v7: i64 = mul v5, v4
    v10: {s} = memload a0 [v6]
    v11: {s} = memload a1 [v6]
    v12: {s} = memload a2 [v6]
    v20: {result} = {operation}
    memstore a3 [v7], v20
    continue L0
  }}
  return
}}",
            size = s.bytes(),
            result_size = case.result.bytes(),
            result = case.result,
        );
    }
    for k in 0..cases.len() {
        let _ = writeln!(
            text,
            "task \"operators.{k}\" chunks (0..1) unit 1 fn{k} ordinal 1"
        );
    }
    text
}

fn to_bytes(values: &[Imm]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|v| v.bits().to_le_bytes()[..v.ty.bytes() as usize].to_vec())
        .collect()
}

fn is_nan(v: Imm) -> bool {
    v.as_float().is_some_and(f64::is_nan)
}

fn check(s: Scalar, jits: &[&Jit]) {
    let cases = cases(s);
    let text = module(s, &cases);
    let values = interesting(s);
    let mut inputs: [Vec<Imm>; 3] = Default::default();
    for (i, x) in values.iter().enumerate() {
        for (j, y) in values.iter().enumerate() {
            inputs[0].push(*x);
            inputs[1].push(*y);
            inputs[2].push(values[(i * 7 + j * 5 + 1) % values.len()]);
        }
    }
    let count = inputs[0].len();
    let mut wrong = Vec::new();
    for jit in jits {
        let kernel = compile_with(jit, &text, Math::Strict);
        if std::env::var_os("SHOW").is_some() {
            println!("{s}: {} tasks, {:?}", cases.len(), kernel.timings());
        }
        let mut memory: Vec<Aligned> = inputs.iter().map(|v| Aligned::from(&to_bytes(v))).collect();
        let mut out = Aligned::new(count * 8);
        let mut launch = Launch::default();
        for m in &mut memory {
            launch.array(m.ptr(), &[count as i64], &[i64::from(s.bytes())]);
        }
        launch.array(out.ptr(), &[count as i64], &[8]);
        for (k, case) in cases.iter().enumerate() {
            launch.run(&kernel, k, 0, count as i64);
            let bytes = out.values::<u8>();
            let size = case.result.bytes() as usize;
            for i in 0..count {
                let args = [inputs[0][i], inputs[1][i], inputs[2][i]];
                let mut slot = [0; 8];
                slot[..size].copy_from_slice(&bytes[i * size..(i + 1) * size]);
                let got = Imm::from_bits(case.result, u64::from_le_bytes(slot));
                let want = (case.meaning)(args);
                let bad_bool = case.result == Scalar::Bool && slot[0] > 1;
                if bad_bool || (got != want && !(is_nan(got) && is_nan(want))) {
                    wrong.push(format!(
                        "{s} -> {}: {} on {args:?}: {got:?}, should be {want:?}",
                        case.result, case.text
                    ));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

macro_rules! types {
    ($($name:ident $scalar:ident)*) => {$(
        #[test]
        fn $name() {
            check(Scalar::$scalar, &[jit(), plain_jit()]);
        }
    )*};
}

types! {
    on_bool Bool
    on_i8 I8 on_i16 I16 on_i32 I32 on_i64 I64
    on_u8 U8 on_u16 U16 on_u32 U32 on_u64 U64
    on_f16 F16 on_f32 F32 on_f64 F64
}

/// Without 256-bit vectors, half-precision floats and fused multiply-add.
#[test]
fn operators_on_older_processors() {
    let jits = ["x86-64", "x86-64-v3"].map(jit_for);
    for s in [
        Scalar::F16,
        Scalar::F32,
        Scalar::F64,
        Scalar::I8,
        Scalar::U64,
    ] {
        for jit in &jits {
            check(s, &[jit]);
        }
    }
}
