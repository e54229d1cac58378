//! What math modes allow: reductions in every mode, and in fast mode nothing that one tier alone would do.

use crate::harness::{Aligned, Launch, compile, jit, lowered};
use crate::shapes;
use wuji_compile::Math;
use wuji_llvm::Text;

fn reduce<T: Copy>(op: &str, ty: &str, start: &str, values: &[T], total: T) -> T {
    let text = shapes::reduction(op, ty, size_of::<T>() as u32, start);
    let kernel = compile(&text, Math::Strict);
    let mut x = Aligned::from(values);
    let mut cell = Aligned::from(&[total]);
    let mut launch = Launch {
        trees: vec![x.ptr(), cell.ptr()],
        ..Launch::default()
    };
    let middle = values.len() as i64 / 3;
    launch.run(&kernel, 0, 0, middle);
    launch.run(&kernel, 0, middle, values.len() as i64);
    cell.values::<T>()[0]
}

#[test]
fn reductions_give_the_result_of_some_order() {
    // Small integers: every order gives the same sum.
    let values: Vec<f32> = (0..1000).map(|i| (i * 37 % 101) as f32).collect();
    assert_eq!(
        reduce("add", "f32", "0.0", &values, 5.0),
        values.iter().sum::<f32>() + 5.0
    );
    let mut with_nan = values.clone();
    with_nan.extend([f32::NAN, -7.0, f32::NAN, 300.0]);
    assert_eq!(reduce("min", "f32", "inf", &with_nan, f32::INFINITY), -7.0);
    assert_eq!(reduce("max", "f32", "-inf", &with_nan, 2.0), 300.0);
    let powers: Vec<f64> = (0..60)
        .map(|i| if i % 2 == 0 { 2.0 } else { 0.5 })
        .collect();
    assert_eq!(reduce("mul", "f64", "1.0", &powers, 3.0), 3.0);
    let numbers: Vec<i64> = (0..777).map(|i| i * i - 1000).collect();
    assert_eq!(
        reduce("add", "i64", "0", &numbers, 1),
        numbers.iter().sum::<i64>() + 1
    );
    assert_eq!(reduce("min", "i64", "0", &numbers, 0), -1000);
}

/// The loop is vectorized, in strict mode too. Our own vectorizer does `min` and `max`.
#[test]
fn reductions_are_vectorized() {
    for (op, start, instruction) in [("add", "0.0", "vaddps"), ("mul", "1.0", "vmulps")] {
        if !jit().host().has("avx") {
            return;
        }
        let text = shapes::reduction(op, "f32", 4, start);
        let asm = jit()
            .text(&lowered(&text, Math::Strict), Text::Assembly)
            .unwrap();
        assert!(asm.contains(instruction), "{op}\n{asm}");
    }
}

/// Other float sums keep their order in strict and contract mode.
#[test]
fn ordinary_sums_keep_their_order() {
    let text = shapes::reduction("add", "f32", 4, "0.0").replace(" accumulator", "");
    let asm = jit()
        .text(&lowered(&text, Math::Contract), Text::Assembly)
        .unwrap();
    assert!(!asm.contains("vaddps"), "{asm}");
}

fn unary_loop(op: &str, ty: &str, size: u32) -> String {
    shapes::SAXPY
        .replace("f32 in", &format!("{ty} in"))
        .replace(": f32 = memload", &format!(": {ty} = memload"))
        .replace(
            "    v9: f32 = mul v0, v7\n    v10: f32 = add v9, v8\n",
            &format!("    v10: {ty} = {op} v7\n"),
        )
        .replace("v4: i64 = const 4", &format!("v4: i64 = const {size}"))
}

/// Distance in units in the last place (ulp) of the exact value.
fn ulps32(got: f32, exact: f64) -> f64 {
    if got.is_nan() && exact.is_nan() {
        return 0.0;
    }
    let near = (exact as f32).abs().max(f32::MIN_POSITIVE);
    let ulp = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
    (f64::from(got) - exact).abs() / ulp
}

#[test]
fn functions_are_accurate_and_those_of_scalars_stay_scalar() {
    type Function = (&'static str, fn(f64) -> f64, f32, f32);
    let functions: [Function; 9] = [
        ("sin", f64::sin, -1000.0, 1000.0),
        ("cos", f64::cos, -1000.0, 1000.0),
        ("exp", f64::exp, -80.0, 80.0),
        ("log", f64::ln, 1e-6, 1e6),
        ("tanh", f64::tanh, -5.0, 5.0),
        ("atan", f64::atan, -50.0, 50.0),
        ("exp2", f64::exp2, -100.0, 100.0),
        ("log2", f64::log2, 1e-6, 1e6),
        ("sqrt", f64::sqrt, 0.0, 1e6),
    ];
    let count = 4096;
    for (op, exact, lo, hi) in functions {
        let text = unary_loop(op, "f32", 4);
        for math in [Math::Strict, Math::Contract, Math::Fast] {
            let kernel = compile(&text, math);
            let values: Vec<f32> = (0..count)
                .map(|i| lo + (hi - lo) * i as f32 / count as f32)
                .collect();
            let mut x = Aligned::from(&values);
            let mut y = Aligned::new(4 * count);
            let mut launch = Launch {
                params: vec![0],
                trees: vec![x.ptr(), y.ptr()],
                ..Launch::default()
            };
            launch.run(&kernel, 0, 0, count as i64);
            let allowed = if math == Math::Fast { 4.0 } else { 2.0 };
            for (x, y) in values.iter().zip(y.values::<f32>()) {
                let error = ulps32(y, exact(f64::from(*x)));
                assert!(
                    error <= allowed,
                    "{op} {x} in {math:?}: {y}, {error} ulp off"
                );
            }
        }
    }
    // LLVM's vectorizer would call vector variants in the best tier alone.
    let text = unary_loop("sin", "f32", 4);
    let asm = jit()
        .text(&lowered(&text, Math::Fast), Text::Assembly)
        .unwrap();
    assert!(!asm.contains("_ZGV"), "{asm}");
}

/// Fast mode keeps the meaning of NaN and infinities.
#[test]
fn fast_mode_handles_nan_and_infinity() {
    let text = shapes::SAXPY.replace("v10: f32 = add v9, v8", "v10: f32 = min v9, v8");
    let kernel = compile(&text, Math::Fast);
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let xs = [1.0, nan, nan, inf, -inf, 2.0, nan];
    let ys = [nan, 1.0, nan, 5.0, 5.0, inf, inf];
    let mut x = Aligned::from(&xs.repeat(20));
    let mut y = Aligned::from(&ys.repeat(20));
    let mut launch = Launch {
        params: vec![u64::from(1f32.to_bits())],
        trees: vec![x.ptr(), y.ptr()],
        ..Launch::default()
    };
    launch.run(&kernel, 0, 0, 140);
    let got = y.values::<f32>();
    let want = [1.0, 1.0, nan, 5.0, -inf, 2.0, inf];
    for (i, got) in got.into_iter().enumerate() {
        let want = want[i % 7];
        assert!(got == want || (got.is_nan() && want.is_nan()), "{i}: {got}");
    }
}

/// `op` on pairs of numbers, in a loop that is vectorized.
fn binary_loop(op: &str) -> String {
    shapes::SAXPY.replace(
        "    v9: f32 = mul v0, v7\n    v10: f32 = add v9, v8\n",
        &format!("{op}\n"),
    )
}

#[test]
fn quick_reciprocals_keep_infinities() {
    let specials = [
        0.0,
        1.0,
        4.0,
        f32::INFINITY,
        f32::NAN,
        1e-40,
        f32::MIN_POSITIVE,
        f32::MAX,
        3.7,
        -1.0,
        1e20,
        1e-20,
    ];
    let numerators = [1.0, 0.0, f32::INFINITY, f32::NAN, -2.5, 1e-30, 3e38];
    type Meaning = fn(f64, f64) -> f64;
    let cases: [(&str, Meaning); 3] = [
        ("    v10: f32 = rsqrt v7", |x, _| 1.0 / x.sqrt()),
        ("    v10: f32 = div v8, v7", |x, y| y / x),
        (
            "    v9: f32 = sqrt v7\n    v10: f32 = div v8, v9",
            |x, y| y / x.sqrt(),
        ),
    ];
    for (op, meaning) in cases {
        let kernel = compile(&binary_loop(op), Math::Fast);
        let mut xs = Vec::new();
        let mut ys = Vec::new();
        for x in specials {
            for y in numerators {
                xs.push(x);
                ys.push(y);
            }
        }
        let mut x = Aligned::from(&xs);
        let mut y = Aligned::from(&ys);
        let mut launch = Launch {
            params: vec![u64::from(1f32.to_bits())],
            trees: vec![x.ptr(), y.ptr()],
            ..Launch::default()
        };
        launch.run(&kernel, 0, 0, xs.len() as i64);
        for ((x, y), got) in xs.iter().zip(&ys).zip(y.values::<f32>()) {
            let want = meaning(f64::from(*x), f64::from(*y));
            let near = want as f32;
            let fine = if near.is_finite() && near != 0.0 && near.abs() > f32::MIN_POSITIVE * 4.0 {
                ulps32(got, want) <= 4.0
            } else {
                // Zeros of either sign, and tiny results that may be flushed.
                got == near || (got.is_nan() && near.is_nan()) || got.abs() <= near.abs()
            };
            assert!(fine, "{op} on {x}, {y}: {got}, should be {near}");
        }
    }
}
