//! Every scalar operation on every type, against the host's arithmetic.

use super::*;
use half::f16;
use wuji_ir::eval;

/// Runs an operation in the interpreter, and checks that constant folding gives the same.
fn op(op: Op, args: &[Imm]) -> Imm {
    let types: Vec<Type> = args.iter().map(|a| Type::Scalar(a.ty)).collect();
    let out = wuji_ir::infer::results(
        &Module::default(),
        &Function::new("f", &[], &[]),
        &op,
        &types,
    )
    .expect("fits")
    .expect("has results");
    let m = kernel(Module::default(), &types, &out, |b, p| {
        smallvec![b.value(op.clone(), p)]
    });
    let value = run(&m, args).result.expect("a result")[0];
    let folded = match op.elementwise() {
        Some(op) => eval::elementwise(op, |k| args[k]),
        None => Some(value),
    };
    assert_eq!(folded, Some(value));
    value
}

fn unary(u: UnOp, a: Imm) -> Imm {
    op(Op::Unary(u), &[a])
}

fn binary(b: BinOp, x: Imm, y: Imm) -> Imm {
    op(Op::Binary(b), &[x, y])
}

macro_rules! integers {
    ($($name:ident: $ty:ty = $scalar:ident;)*) => {$(
        #[test]
        fn $name() {
            let s = Scalar::$scalar;
            let imm = |x: $ty| Imm::int(s, x as i128);
            let samples: Vec<$ty> = vec![
                0, 1, 2, 3, 7, <$ty>::MAX, <$ty>::MAX - 1, <$ty>::MIN, <$ty>::MIN + 1,
                <$ty>::MAX / 2, (0 as $ty).wrapping_sub(1), (0 as $ty).wrapping_sub(7), 100,
            ];
            for &a in &samples {
                assert_eq!(unary(UnOp::Not, imm(a)), imm(!a));
                assert_eq!(unary(UnOp::PopCount, imm(a)), imm(a.count_ones() as $ty));
                assert_eq!(unary(UnOp::LeadingZeros, imm(a)), imm(a.leading_zeros() as $ty));
                assert_eq!(unary(UnOp::TrailingZeros, imm(a)), imm(a.trailing_zeros() as $ty));
                assert_eq!(unary(UnOp::Freeze, imm(a)), imm(a));
                assert_eq!(unary(UnOp::StopGrad, imm(a)), imm(a));
                for &b in &samples {
                    let check = |op, expected: $ty| assert_eq!(binary(op, imm(a), imm(b)), imm(expected), "{op:?} {a} {b}");
                    check(BinOp::Add, a.wrapping_add(b));
                    check(BinOp::Sub, a.wrapping_sub(b));
                    check(BinOp::Mul, a.wrapping_mul(b));
                    check(BinOp::Div, if b == 0 { 0 } else { a.wrapping_div(b) });
                    check(BinOp::Rem, if b == 0 { 0 } else { a.wrapping_rem(b) });
                    check(BinOp::And, a & b);
                    check(BinOp::Or, a | b);
                    check(BinOp::Xor, a ^ b);
                    // The host masks the amount, which is the amount modulo a power of two.
                    check(BinOp::Shl, a.wrapping_shl(b as u32));
                    check(BinOp::Shr, a.wrapping_shr(b as u32));
                    check(BinOp::Min, a.min(b));
                    check(BinOp::Max, a.max(b));
                    let cmp = |c, expected: bool| {
                        assert_eq!(op(Op::Compare(c), &[imm(a), imm(b)]), Imm::bool(expected));
                    };
                    cmp(CmpOp::Eq, a == b);
                    cmp(CmpOp::Ne, a != b);
                    cmp(CmpOp::Lt, a < b);
                    cmp(CmpOp::Le, a <= b);
                    cmp(CmpOp::Gt, a > b);
                    cmp(CmpOp::Ge, a >= b);
                }
                let to = |to| op(Op::Convert(to), &[imm(a)]);
                assert_eq!(to(Scalar::Bool), Imm::bool(a != 0));
                assert_eq!(to(Scalar::I8), Imm::int(Scalar::I8, i128::from(a as i8)));
                assert_eq!(to(Scalar::U16), Imm::int(Scalar::U16, i128::from(a as u16)));
                assert_eq!(to(Scalar::I32), Imm::int(Scalar::I32, i128::from(a as i32)));
                assert_eq!(to(Scalar::U64), Imm::int(Scalar::U64, i128::from(a as u64)));
                assert_eq!(to(Scalar::F32).bits(), u64::from((a as f32).to_bits()));
                assert_eq!(to(Scalar::F64).bits(), (a as f64).to_bits());
            }
        }
    )*};
}

integers! {
    i8_arithmetic: i8 = I8;
    i16_arithmetic: i16 = I16;
    i32_arithmetic: i32 = I32;
    i64_arithmetic: i64 = I64;
    u8_arithmetic: u8 = U8;
    u16_arithmetic: u16 = U16;
    u32_arithmetic: u32 = U32;
    u64_arithmetic: u64 = U64;
}

#[test]
fn signed_only() {
    for s in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64] {
        let (min, max) = s.int_range().expect("an integer");
        let imm = |x| Imm::int(s, x);
        assert_eq!(unary(UnOp::Neg, imm(min)), imm(min));
        assert_eq!(unary(UnOp::Neg, imm(max)), imm(-max));
        assert_eq!(unary(UnOp::Abs, imm(min)), imm(min));
        assert_eq!(unary(UnOp::Abs, imm(-5)), imm(5));
        assert_eq!(unary(UnOp::Sign, imm(min)), imm(-1));
        assert_eq!(unary(UnOp::Sign, imm(0)), imm(0));
        assert_eq!(unary(UnOp::Sign, imm(max)), imm(1));
        assert_eq!(binary(BinOp::Div, imm(min), imm(-1)), imm(min));
        assert_eq!(binary(BinOp::Rem, imm(min), imm(-1)), imm(0));
        assert_eq!(binary(BinOp::Rem, imm(-7), imm(3)), imm(-1));
        assert_eq!(binary(BinOp::Shr, imm(-8), imm(1)), imm(-4));
        // Amounts are unsigned: -1 is the width minus one.
        assert_eq!(binary(BinOp::Shr, imm(-8), imm(-1)), imm(-1));
    }
    let u = Imm::int(Scalar::U8, 200);
    assert_eq!(unary(UnOp::Abs, u), u);
}

#[test]
fn bools() {
    let (t, f) = (Imm::bool(true), Imm::bool(false));
    assert_eq!(unary(UnOp::Not, t), f);
    assert_eq!(binary(BinOp::And, t, f), f);
    assert_eq!(binary(BinOp::Or, t, f), t);
    assert_eq!(binary(BinOp::Xor, t, t), f);
    assert_eq!(op(Op::Compare(CmpOp::Ne), &[t, f]), t);
    assert_eq!(
        op(Op::Convert(Scalar::F16), &[t]),
        Imm::float(Scalar::F16, 1.0)
    );
    assert_eq!(op(Op::Convert(Scalar::I8), &[t]), Imm::int(Scalar::I8, 1));
    assert_eq!(op(Op::Select, &[f, int(1), int(2)]), int(2));
    assert_eq!(eval::compare(CmpOp::Lt, f, t), None);
    assert_eq!(eval::binary(BinOp::Add, f, t), None);
    assert_eq!(eval::binary(BinOp::Add, t, int(1)), None);
}

fn close(got: Imm, expected: f64, rel: f64) {
    // Overflow as in the type.
    let expected = match Imm::float(got.ty, expected).as_float() {
        Some(rounded) if rounded.is_infinite() => rounded,
        _ => expected,
    };
    let got = got.as_float().expect("a float");
    let same = got == expected || (got.is_nan() && expected.is_nan());
    let error = (got - expected).abs();
    let floor = f64::from(f16::MIN_POSITIVE) * rel;
    assert!(
        same || error <= expected.abs() * rel + floor,
        "{got} {expected}"
    );
}

/// Transcendental functions against `f64`, to within a few ulp.
#[test]
fn float_functions() {
    type Host = fn(f64) -> f64;
    let table: &[(UnOp, Host)] = &[
        (UnOp::Sin, f64::sin),
        (UnOp::Cos, f64::cos),
        (UnOp::Tan, f64::tan),
        (UnOp::Asin, f64::asin),
        (UnOp::Acos, f64::acos),
        (UnOp::Atan, f64::atan),
        (UnOp::Sinh, f64::sinh),
        (UnOp::Cosh, f64::cosh),
        (UnOp::Tanh, f64::tanh),
        (UnOp::Exp, f64::exp),
        (UnOp::Exp2, f64::exp2),
        (UnOp::Log, f64::ln),
        (UnOp::Log2, f64::log2),
        (UnOp::Log10, f64::log10),
        (UnOp::Sqrt, f64::sqrt),
        (UnOp::Rsqrt, |x| 1.0 / x.sqrt()),
        (UnOp::Floor, f64::floor),
        (UnOp::Ceil, f64::ceil),
        (UnOp::Round, f64::round),
        (UnOp::RoundEven, f64::round_ties_even),
        (UnOp::Trunc, f64::trunc),
        (UnOp::Neg, |x| -x),
        (UnOp::Abs, f64::abs),
        (UnOp::Freeze, |x| x),
        (UnOp::StopGrad, |x| x),
    ];
    let samples = [0.0, 0.5, -0.5, 1.0, -1.5, 2.5, 3.75, 0.0625, -7.0, f64::NAN];
    for (s, rel) in [(Scalar::F16, 2e-3), (Scalar::F32, 3e-7), (Scalar::F64, 0.0)] {
        for x in samples {
            for (u, f) in table {
                close(unary(*u, Imm::float(s, x)), f(x), rel);
            }
            for y in samples {
                let (a, b) = (Imm::float(s, x), Imm::float(s, y));
                close(binary(BinOp::Add, a, b), x + y, rel);
                close(binary(BinOp::Sub, a, b), x - y, rel);
                close(binary(BinOp::Mul, a, b), x * y, rel);
                close(binary(BinOp::Div, a, b), x / y, rel);
                close(binary(BinOp::Rem, a, b), x % y, rel);
                close(binary(BinOp::Pow, a, b), x.powf(y), rel);
                close(binary(BinOp::Atan2, a, b), x.atan2(y), rel);
                close(op(Op::Fma, &[a, b, a]), x.mul_add(y, x), rel);
                assert_eq!(op(Op::Compare(CmpOp::Lt), &[a, b]), Imm::bool(x < y));
                assert_eq!(op(Op::Compare(CmpOp::Ne), &[a, b]), Imm::bool(x != y));
                assert_eq!(op(Op::Compare(CmpOp::Ge), &[a, b]), Imm::bool(x >= y));
            }
        }
    }
}

#[test]
fn float_corners() {
    for s in [Scalar::F16, Scalar::F32, Scalar::F64] {
        let imm = |x| Imm::float(s, x);
        let nan = imm(f64::NAN);
        for (a, b, min, max) in [
            (1.0, 2.0, 1.0, 2.0),
            (2.0, 1.0, 1.0, 2.0),
            // Equal: the second operand.
            (0.0, -0.0, -0.0, -0.0),
            (-0.0, 0.0, 0.0, 0.0),
        ] {
            assert_eq!(binary(BinOp::Min, imm(a), imm(b)), imm(min));
            assert_eq!(binary(BinOp::Max, imm(a), imm(b)), imm(max));
        }
        for m in [BinOp::Min, BinOp::Max] {
            assert_eq!(binary(m, nan, imm(3.0)), imm(3.0));
            assert_eq!(binary(m, imm(3.0), nan), imm(3.0));
            assert!(binary(m, nan, nan).as_float().expect("a float").is_nan());
        }
        assert_eq!(unary(UnOp::Sign, imm(-0.0)), imm(-0.0));
        assert_eq!(unary(UnOp::Sign, imm(0.0)), imm(0.0));
        assert_eq!(unary(UnOp::Sign, imm(-3.0)), imm(-1.0));
        assert_eq!(unary(UnOp::Sign, imm(f64::INFINITY)), imm(1.0));
        assert!(unary(UnOp::Sign, nan).as_float().expect("a float").is_nan());
        assert_eq!(unary(UnOp::Neg, imm(0.0)), imm(-0.0));
        assert_eq!(unary(UnOp::Round, imm(-2.5)), imm(-3.0));
        assert_eq!(unary(UnOp::RoundEven, imm(-2.5)), imm(-2.0));
        assert_eq!(unary(UnOp::Rsqrt, imm(0.0)), imm(f64::INFINITY));
        assert_eq!(unary(UnOp::Sqrt, imm(-0.0)), imm(-0.0));
        assert_eq!(binary(BinOp::Rem, imm(-5.5), imm(2.0)), imm(-1.5));
        assert_eq!(
            binary(BinOp::Div, imm(1.0), imm(-0.0)),
            imm(f64::NEG_INFINITY)
        );
        for c in [CmpOp::Eq, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge] {
            assert_eq!(op(Op::Compare(c), &[nan, nan]), Imm::bool(false));
        }
        assert_eq!(op(Op::Compare(CmpOp::Ne), &[nan, nan]), Imm::bool(true));
        assert_eq!(
            op(Op::Compare(CmpOp::Eq), &[imm(0.0), imm(-0.0)]),
            Imm::bool(true)
        );
    }
}

#[test]
fn float_to_integer_saturates() {
    for from in [Scalar::F16, Scalar::F32, Scalar::F64] {
        for to in Scalar::ALL.into_iter().filter(|s| s.is_int()) {
            let (min, max) = to.int_range().expect("an integer");
            let convert = |x| {
                op(Op::Convert(to), &[Imm::float(from, x)])
                    .as_int()
                    .expect("int")
            };
            assert_eq!(convert(f64::NAN), 0);
            assert_eq!(convert(f64::INFINITY), max);
            assert_eq!(convert(f64::NEG_INFINITY), min);
            assert_eq!(convert(-1.75), (-1).max(min));
            assert_eq!(convert(42.75), 42);
            assert_eq!(convert(-0.0), 0);
        }
        let bool = |x| op(Op::Convert(Scalar::Bool), &[Imm::float(from, x)]);
        assert_eq!(bool(f64::NAN), Imm::bool(true));
        assert_eq!(bool(-0.0), Imm::bool(false));
        assert_eq!(bool(0.25), Imm::bool(true));
    }
    let big = Imm::float(Scalar::F64, 9.3e18);
    assert_eq!(
        op(Op::Convert(Scalar::I64), &[big]).as_int(),
        Some(i128::from(i64::MAX))
    );
    assert_eq!(
        op(Op::Convert(Scalar::U64), &[big]).as_int(),
        Some(9.3e18 as u64 as i128)
    );
}

/// The nearest `f16` by search among all of them: an independent rounding.
fn nearest_f16(x: f64) -> f16 {
    let distance = |h: f16| (h.to_f64() - x).abs();
    let mut best = f16::ZERO;
    for bits in 0..0x7c00u16 {
        let h = f16::from_bits(bits | if x < 0.0 { 0x8000 } else { 0 });
        let tie = distance(h) == distance(best) && h.to_bits() & 1 == 0;
        if distance(h) < distance(best) || tie {
            best = h;
        }
    }
    best
}

#[test]
fn f16_rounds_once() {
    let one = f16::ONE.to_f64();
    let ulp = 2f64.powi(-10);
    let tie = one + ulp / 2.0;
    for x in [
        tie,
        tie + 2f64.powi(-40),
        tie - 2f64.powi(-40),
        tie + ulp,
        -(tie + 2f64.powi(-45)),
        2f64.powi(-25) * 1.5,
        2f64.powi(-25) + 2f64.powi(-70),
        1e-300,
        65503.9999999,
        std::f64::consts::PI,
    ] {
        let expected = nearest_f16(x);
        let got = eval::convert(Imm::float(Scalar::F64, x), Scalar::F16);
        assert_eq!(got.bits(), u64::from(expected.to_bits()), "{x}");
    }
    let h = |x| Imm::float(Scalar::F16, x);
    assert_eq!(h(65519.99), h(65504.0));
    assert_eq!(h(65520.0), h(f64::INFINITY));
    // Sums round to f16 at each step: 2048 + 1 is a tie, and goes to the even one.
    assert_eq!(binary(BinOp::Add, h(2048.0), h(1.0)), h(2048.0));
    assert_eq!(binary(BinOp::Mul, h(300.0), h(300.0)), h(f64::INFINITY));
    // Fused: the product is not rounded.
    let a = h(one + ulp);
    let product = (one + ulp) * (one + ulp);
    assert_eq!(op(Op::Fma, &[a, a, h(-1.0)]), h(product - 1.0));
    assert_eq!(
        op(Op::Convert(Scalar::F16), &[Imm::int(Scalar::I32, 2049)]),
        h(2048.0)
    );
    assert_eq!(
        op(Op::Convert(Scalar::F16), &[Imm::int(Scalar::U64, 1 << 40)]),
        h(f64::INFINITY)
    );
}

#[test]
fn integers_round_once_to_f32() {
    // Rounding through f64 would round up twice.
    let x = (1i128 << 62) + (1 << 38) + 1;
    let got = op(Op::Convert(Scalar::F32), &[Imm::int(Scalar::I64, x)]);
    assert_eq!(got.bits() as u32, (x as i64 as f32).to_bits());
}

#[test]
fn bits_stay_in_bitcasts() {
    let x = f32(-1.5);
    let bits = op(Op::Bitcast(Scalar::U32), &[x]);
    assert_eq!(bits.bits(), x.bits());
    assert_eq!(op(Op::Bitcast(Scalar::F32), &[bits]), x);
    let nan = Imm::from_bits(Scalar::F16, 0x7d01);
    assert_eq!(op(Op::Bitcast(Scalar::I16), &[nan]).bits(), 0x7d01);
    assert_eq!(eval::bitcast(x, Scalar::F64), None);
    assert_eq!(eval::bitcast(Imm::bool(true), Scalar::U8), None);
}

#[test]
fn atomics_combine() {
    let c = eval::combine;
    assert_eq!(c(AtomicOp::Exchange, int(1), int(2)), Some(int(2)));
    assert_eq!(c(AtomicOp::Min, int(1), int(-2)), Some(int(-2)));
    assert_eq!(c(AtomicOp::Max, f32(f32::NAN), f32(1.0)), Some(f32(1.0)));
    assert_eq!(c(AtomicOp::Xor, f32(0.0), f32(1.0)), None);
}
