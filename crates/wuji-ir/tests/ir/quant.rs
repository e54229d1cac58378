//! Quantized types against exact arithmetic: every number is an integer times a power of two.

use wuji_ir::quant::{
    FloatFormat, Quantized, Rounding, Scale, SharedExponent, decode_shared, encode_shared, range,
};
use wuji_ir::types::{Imm, Scalar};

const FLOATS: [Scalar; 2] = [Scalar::F32, Scalar::F64];

/// `m * 2^e`.
#[derive(Copy, Clone, Debug)]
struct Exact {
    m: i128,
    e: i32,
}

impl Exact {
    fn of(x: f64) -> Exact {
        assert!(x.is_finite());
        let bits = x.to_bits();
        let (code, digits) = (
            (bits >> 52 & 0x7ff) as i32,
            i128::from(bits & ((1 << 52) - 1)),
        );
        let m = if code == 0 { digits } else { digits | 1 << 52 };
        Exact {
            m: if x < 0.0 { -m } else { m },
            e: code.max(1) - 1075,
        }
    }

    fn times_power(self, e: i32) -> Exact {
        Exact {
            e: self.e + e,
            ..self
        }
    }

    /// The nearest integer, the even one of two; large numbers saturate.
    fn round(self) -> i128 {
        let size = 128 - self.m.unsigned_abs().leading_zeros() as i32;
        if self.m == 0 || size + self.e < -1 {
            return 0;
        }
        if self.e >= 0 {
            let fits = size + self.e < 120;
            return if fits {
                self.m << self.e
            } else {
                (1 << 120) * self.m.signum()
            };
        }
        let floor = self.m >> -self.e;
        let rest = self.m - (floor << -self.e);
        let half = 1 << (-self.e - 1);
        floor + i128::from(rest > half || rest == half && floor & 1 == 1)
    }

    /// Of positive numbers.
    fn cmp(self, other: Exact) -> std::cmp::Ordering {
        assert!(self.m > 0 && other.m > 0);
        let size = |x: Exact| x.m.ilog2() as i32 + x.e;
        if size(self) != size(other) {
            return size(self).cmp(&size(other));
        }
        let e = self.e.min(other.e);
        (self.m << (self.e - e)).cmp(&(other.m << (other.e - e)))
    }

    fn mean(self, other: Exact) -> Exact {
        let e = self.e.min(other.e);
        let m = (self.m << (self.e - e)) + (other.m << (other.e - e));
        Exact { m, e: e - 1 }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn low(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// All bit patterns of a small type; 20000 of a large one.
fn patterns(bits: u32) -> Vec<u64> {
    if bits <= 16 {
        return (0..1 << bits).collect();
    }
    let mut random = Random(u64::from(bits));
    (0..20_000).map(|_| random.next() & low(bits)).collect()
}

fn value(x: Imm) -> f64 {
    x.as_float().expect("a float")
}

/// The floats below, at and above a number.
fn around(compute: Scalar, x: f64) -> impl Iterator<Item = Imm> {
    let x = Imm::float(compute, x);
    let near = [-1i64, 0, 1].map(|d| Imm::from_bits(compute, x.bits().wrapping_add_signed(d)));
    near.into_iter().filter(|x| value(*x).is_finite())
}

fn fixed(bits: u8, signed: bool, scale: f64, rounding: Rounding) -> Quantized {
    Quantized::Fixed {
        bits,
        signed,
        scale: Scale::new(scale).expect("a scale"),
        rounding,
    }
}

fn float(exponent: u8, digits: u8, signed: bool, rounding: Rounding) -> Quantized {
    Quantized::Float {
        exponent,
        fraction: digits + u8::from(signed),
        signed,
        rounding,
    }
}

#[test]
fn integers_keep_their_low_bits() {
    for bits in 1..=64 {
        for signed in [false, true] {
            let ty = Quantized::Int { bits, signed };
            let (lo, hi) = range(bits, signed);
            for pattern in patterns(u32::from(bits)).into_iter().step_by(97) {
                let n = ty.decode(pattern, Scalar::I64).as_int().unwrap();
                let n = if signed { n } else { n & i128::from(u64::MAX) };
                assert!((lo..=hi).contains(&n), "{ty:?} {n}");
                assert_eq!(n as u64 & low(u32::from(bits)), pattern, "{ty:?}");
                for x in [n, n + (hi - lo + 1), n - (hi - lo + 1)] {
                    let x = Imm::int(Scalar::I64, x);
                    assert_eq!(ty.encode(x, 0), pattern, "{ty:?}");
                    assert_eq!(ty.increment(x, 0), pattern, "{ty:?}");
                }
            }
        }
    }
    let bit = Quantized::Int {
        bits: 1,
        signed: true,
    };
    assert_eq!(bit.decode(1, Scalar::Bool), Imm::bool(true));
    assert_eq!(bit.decode(1, Scalar::I32), Imm::int(Scalar::I32, -1));
    assert_eq!(bit.decode(0, Scalar::Bool), Imm::bool(false));
    assert_eq!(bit.encode(Imm::bool(true), 0), 1);
}

/// The quotient as the type defines it: a product, rounded to the compute type.
fn quotient(x: Imm, scale: f64) -> f64 {
    if x.ty == Scalar::F64 {
        value(x) * (1.0 / scale)
    } else {
        f64::from(value(x) as f32 * (1.0 / scale) as f32)
    }
}

fn check_fixed(ty: Quantized, compute: Scalar, x: Imm) {
    let Quantized::Fixed {
        bits,
        signed,
        scale,
        ..
    } = ty
    else {
        return;
    };
    let (lo, hi) = range(bits, signed);
    let y = quotient(x, scale.get());
    let n = if y.is_infinite() {
        if y > 0.0 { hi } else { lo }
    } else {
        Exact::of(y).round()
    };
    let expected = n.clamp(lo, hi) as u64 & low(u32::from(bits));
    assert_eq!(ty.encode(x, 0), expected, "{ty:?} {compute} {x:?}");
    let increment = n.clamp(i64::MIN.into(), i64::MAX.into()) as u64 & low(u32::from(bits));
    assert_eq!(ty.increment(x, 0), increment, "{ty:?} {compute} {x:?}");
}

#[test]
fn fixed_point_numbers_are_the_nearest_multiples_in_range() {
    for bits in [1, 2, 5, 8, 12, 16, 21, 24, 32, 40, 53, 64] {
        for (signed, scale) in [
            (false, 1.0),
            (true, 1.0),
            (true, 0.1),
            (false, 3e-5),
            (true, 7e4),
        ] {
            let ty = fixed(bits, signed, scale, Rounding::Nearest);
            for compute in FLOATS {
                assert_eq!(ty.check(compute), Ok(()));
                for pattern in patterns(u32::from(bits)).into_iter().step_by(3) {
                    let x = value(ty.decode(pattern, compute));
                    for x in around(compute, x).chain(around(compute, x + scale / 2.0)) {
                        check_fixed(ty, compute, x);
                    }
                }
                for x in [0.0, -0.0, 1e30, -1e30, 1e-30] {
                    check_fixed(ty, compute, Imm::float(compute, x));
                }
                let (lo, hi) = range(bits, signed);
                let limit = |n: i128| n as u64 & low(u32::from(bits));
                let stored = |x| ty.encode(Imm::float(compute, x), 0);
                assert_eq!(stored(f64::INFINITY), limit(hi));
                assert_eq!(stored(f64::NEG_INFINITY), limit(lo));
                assert_eq!(stored(f64::NAN), 0);
                assert_eq!(stored(-f64::NAN), 0);
            }
        }
    }
}

#[test]
fn fixed_point_numbers_that_are_read_are_stored_as_they_were() {
    for (bits, compute) in [
        (8, Scalar::F32),
        (16, Scalar::F32),
        (21, Scalar::F32),
        (50, Scalar::F64),
    ] {
        for signed in [false, true] {
            for scale in [1.0, 0.1, 1.0 / 3.0, 1e-9, 12345.6] {
                let ty = fixed(bits, signed, scale, Rounding::Nearest);
                for pattern in patterns(u32::from(bits)) {
                    let x = ty.decode(pattern, compute);
                    assert_eq!(ty.encode(x, 0), pattern, "{ty:?} {x:?}");
                    let n = if signed && pattern >> (bits - 1) == 1 {
                        pattern as f64 - (1u64 << bits) as f64
                    } else {
                        pattern as f64
                    };
                    // Two roundings: of the scale and of the product.
                    let error = (value(x) - n * scale).abs();
                    assert!(
                        error
                            <= value(x).abs()
                                * if compute == Scalar::F32 {
                                    1.3e-7
                                } else {
                                    3e-16
                                }
                    );
                }
            }
        }
    }
}

/// Draws that are spread evenly.
fn draws() -> impl Iterator<Item = u64> {
    (0..1024).map(|k| k << 54)
}

#[test]
fn stochastic_rounding_has_the_right_mean() {
    for compute in FLOATS {
        for signed in [false, true] {
            let ty = fixed(12, signed, 0.25, Rounding::Stochastic);
            for n in [0.0, 0.125, 7.5, 100.75, 1234.0, 0.0009765625] {
                for n in if signed { vec![n, -n] } else { vec![n] } {
                    let x = Imm::float(compute, n * 0.25);
                    let stored = |d| value(ty.decode(ty.encode(x, d), compute)) / 0.25;
                    let mean = draws().map(stored).sum::<f64>() / 1024.0;
                    assert_eq!(mean, n, "{x:?}");
                    assert!(draws().all(|d| (stored(d) - n).abs() < 1.0));
                }
            }
            let ty = float(5, 6, signed, Rounding::Stochastic);
            for n in [
                1.0,
                1.5 + 1.0 / 128.0,
                1.25 + 3.0 / 1024.0,
                2.0 - 1.0 / 256.0,
                48.0 + 5.0 / 32.0,
            ] {
                let x = Imm::float(compute, n);
                let stored = |d| value(ty.decode(ty.encode(x, d), compute));
                let mean = draws().map(stored).sum::<f64>() / 1024.0;
                assert_eq!(mean, n, "{x:?}");
            }
        }
    }
}

#[test]
fn stochastic_rounding_leaves_what_can_be_stored() {
    for compute in FLOATS {
        for ty in [
            fixed(20, true, 0.5, Rounding::Stochastic),
            float(6, 9, true, Rounding::Stochastic),
        ] {
            for pattern in patterns(ty.bits()) {
                let x = ty.decode(pattern, compute);
                let stored = ty.encode(x, 0);
                assert_eq!(stored, ty.encode(x, u64::MAX), "{x:?}");
                let back = ty.decode(stored, compute);
                assert!(value(back) == value(x) || value(x).is_nan() && value(back).is_nan());
            }
        }
        // A tiny negative number must not become -1.
        let ty = fixed(8, true, 1.0, Rounding::Stochastic);
        for tiny in [-1e-30, -1e-42, 1e-30, 1e-42] {
            for draw in [0, 1, u64::MAX] {
                assert_eq!(
                    ty.encode(Imm::float(compute, tiny), draw),
                    0,
                    "{tiny} {draw}"
                );
            }
        }
    }
}

/// Numbers of a format without its sign, from the one below the smallest, which is stored as zero, to that of infinity:
/// the next power of two.
fn ladder(format: FloatFormat) -> Vec<(Exact, u64)> {
    let (digits, bias) = (format.digits as i32, format.bias() as i32);
    let number = |code: u64| Exact {
        m: i128::from(code & low(format.digits) | format.smallest()),
        e: (code >> format.digits) as i32 - bias - digits,
    };
    let finite = format.smallest()..=format.infinity();
    let below = Exact {
        m: (2i128 << digits) - 1,
        e: -bias - digits,
    };
    std::iter::once((below, 0))
        .chain(finite.map(|c| (number(c), c)))
        .collect()
}

/// The code of the nearest number, or of the even one of two.
fn nearest(ladder: &[(Exact, u64)], x: Exact) -> u64 {
    let above = ladder.partition_point(|(v, _)| v.cmp(x).is_le());
    if above == 0 {
        return 0;
    }
    if above == ladder.len() {
        return ladder[above - 1].1;
    }
    let (low, high) = (ladder[above - 1], ladder[above]);
    match x.cmp(low.0.mean(high.0)) {
        std::cmp::Ordering::Less => low.1,
        std::cmp::Ordering::Greater => high.1,
        // The number below the smallest one has odd digits.
        std::cmp::Ordering::Equal if above > 1 && low.1 & 1 == 0 => low.1,
        std::cmp::Ordering::Equal => high.1,
    }
}

fn check_floats(exponent: u8, digits: u8, compute: Scalar) {
    let ty = float(exponent, digits, true, Rounding::Nearest);
    let unsigned = float(exponent, digits, false, Rounding::Nearest);
    let format = ty.format();
    let wide = FloatFormat::of(compute);
    let ladder = ladder(format);
    let scale = |x: Exact| x.m as f64 * 2f64.powi(x.e / 2) * 2f64.powi(x.e - x.e / 2);
    for pair in ladder.windows(2) {
        let (a, b) = (scale(pair[0].0), scale(pair[1].0));
        for x in around(compute, a).chain(around(compute, a / 2.0 + b / 2.0)) {
            // Subnormal numbers of the compute type count as zero.
            let is_zero = x.bits() < wide.smallest();
            let expected = if is_zero {
                0
            } else {
                nearest(&ladder, Exact::of(value(x)))
            };
            let minus = Imm::from_bits(compute, x.bits() | wide.sign());
            assert_eq!(ty.encode(x, 0), expected, "{ty:?} {compute} {x:?}");
            assert_eq!(
                ty.encode(minus, 0),
                expected | format.sign(),
                "{ty:?} {compute} {minus:?}"
            );
            assert_eq!(
                unsigned.encode(x, 0),
                expected,
                "{unsigned:?} {compute} {x:?}"
            );
            assert_eq!(
                unsigned.encode(minus, 0),
                0,
                "{unsigned:?} {compute} {minus:?}"
            );
        }
        if pair[0].1 != 0 {
            assert_eq!(value(ty.decode(pair[0].1, compute)), a);
            assert_eq!(value(ty.decode(pair[0].1 | format.sign(), compute)), -a);
        }
    }
    for ty in [ty, unsigned] {
        for pattern in patterns(ty.bits()) {
            let x = ty.decode(pattern, compute);
            let code = pattern >> format.digits & format.ones();
            let is_nan = code == format.ones() && pattern & low(format.digits) != 0;
            let expected = if is_nan {
                format.nan()
            } else if code == 0 {
                pattern & format.sign()
            } else {
                pattern
            };
            assert_eq!(ty.encode(x, 0), expected, "{ty:?} {compute} {x:?}");
        }
        let stored = |x: f64| ty.encode(Imm::float(compute, x), 0);
        let sign = if ty.is_signed() { format.sign() } else { 0 };
        assert_eq!(stored(f64::INFINITY), format.infinity());
        assert_eq!(
            stored(f64::NEG_INFINITY),
            if ty.is_signed() {
                format.infinity() | sign
            } else {
                0
            }
        );
        assert_eq!(
            (stored(f64::NAN), stored(-f64::NAN)),
            (format.nan(), format.nan())
        );
        assert_eq!((stored(0.0), stored(-0.0)), (0, sign));
        assert_eq!((stored(1e-320), stored(-1e-320)), (0, sign));
    }
}

#[test]
fn floating_point_numbers_are_the_nearest_ones() {
    for (exponent, digits) in [
        (2, 1),
        (2, 6),
        (3, 4),
        (5, 2),
        (5, 10),
        (4, 3),
        (7, 5),
        (8, 1),
        (8, 7),
    ] {
        FLOATS
            .into_iter()
            .for_each(|compute| check_floats(exponent, digits, compute));
    }
    check_floats(9, 6, Scalar::F64);
    check_floats(11, 1, Scalar::F64);
    check_floats(11, 4, Scalar::F64);
}

#[test]
fn common_formats_are_quantized_types() {
    let mut random = Random(1);
    let single = float(8, 23, true, Rounding::Nearest);
    let double = float(11, 52, true, Rounding::Nearest);
    let half = float(5, 10, true, Rounding::Nearest);
    for _ in 0..20_000 {
        let bits = random.next();
        let x = f32::from_bits(bits as u32);
        if x.is_normal() {
            let imm = Imm::from_bits(Scalar::F32, bits & 0xffff_ffff);
            assert_eq!(single.encode(imm, 0), bits & 0xffff_ffff);
            assert_eq!(single.decode(bits, Scalar::F32), imm);
        }
        if f64::from_bits(bits).is_normal() {
            let imm = Imm::from_bits(Scalar::F64, bits);
            assert_eq!(double.encode(imm, 0), bits);
            assert_eq!(double.decode(bits, Scalar::F64), imm);
        }
        let x = half::f16::from_bits(bits as u16);
        if x.is_normal() {
            let imm = Imm::float(Scalar::F32, x.to_f64());
            assert_eq!(half.encode(imm, 0), bits & 0xffff);
            assert_eq!(half.decode(bits & 0xffff, Scalar::F32), imm);
        }
    }
}

/// The numbers of a group in exact arithmetic; zero for those that count as zero.
fn exact_part(x: Imm, signed: bool) -> Exact {
    let format = FloatFormat::of(x.ty);
    let is_subnormal = x.bits() & (format.sign() - 1) < format.smallest();
    if is_subnormal || !signed && value(x) < 0.0 {
        Exact { m: 0, e: 0 }
    } else {
        Exact::of(value(x))
    }
}

/// What a group stores: the smallest exponent with which each number fits into its fraction, and the nearest fractions. `None` if a number is not finite or the exponent is too large.
fn exact_group(
    exponent_bits: u8,
    members: &[(u8, bool)],
    values: &[Imm],
) -> Option<(u64, Vec<u64>)> {
    let counts = |(x, m): (&Imm, &(u8, bool))| m.1 || value(*x) >= 0.0 || value(*x).is_nan();
    let mut counted = values.iter().zip(members).filter(|p| counts(*p));
    if counted.any(|(x, _)| !value(*x).is_finite()) {
        return None;
    }
    let exact = |(x, m): (&Imm, &(u8, bool))| exact_part(*x, m.1);
    let parts: Vec<Exact> = values.iter().zip(members).map(exact).collect();
    let digits = |m: &(u8, bool)| i32::from(m.0) - i32::from(m.1);
    let fits = |e: i32| {
        let mut all = parts.iter().zip(members.iter().map(digits));
        all.all(|(p, d)| p.times_power(d - 1 - e).round().abs() < 1 << d)
    };
    let bias = (1 << (exponent_bits - 1)) - 1;
    let is_zero = parts.iter().all(|p| p.m == 0) || fits(-bias);
    if is_zero {
        return Some((0, vec![0; members.len()]));
    }
    let e = (1 - bias..=bias).find(|e| fits(*e))?;
    let encoded = parts.iter().zip(members).map(|(p, m)| {
        let n = p.times_power(digits(m) - 1 - e).round();
        assert!(n.abs() < 1 << digits(m), "no fraction is too large");
        n as u64 & low(u32::from(m.0))
    });
    Some(((e + bias) as u64, encoded.collect()))
}

fn check_group(exponent_bits: u8, members: &[(u8, bool)], values: &[Imm]) {
    let (code, fractions) = encode_shared(exponent_bits, members, values);
    let compute = values[0].ty;
    let read = |k: usize| {
        let (bits, signed) = members[k];
        value(decode_shared(
            exponent_bits,
            code,
            bits,
            signed,
            fractions[k],
            compute,
        ))
    };
    if let Some((e, f)) = exact_group(exponent_bits, members, values) {
        assert_eq!(
            (code, fractions.to_vec()),
            (e, f),
            "{exponent_bits} {members:?} {values:?}"
        );
        let bias = (1i32 << (exponent_bits - 1)) - 1;
        for (k, (bits, signed)) in members.iter().enumerate() {
            let digits = i32::from(*bits) - i32::from(*signed);
            let n = (fractions[k] << (64 - bits)) as i64;
            let n = if *signed {
                n >> (64 - bits)
            } else {
                (n as u64 >> (64 - bits)) as i64
            };
            let exact = n as f64 * 2f64.powi(1 - digits) * 2f64.powi(code as i32 - bias);
            let is_subnormal = exact.abs()
                < if compute == Scalar::F32 {
                    2f64.powi(-126)
                } else {
                    f64::MIN_POSITIVE
                };
            assert_eq!(read(k), if is_subnormal { 0.0 } else { exact });
        }
        let numbers: Vec<f64> = (0..members.len()).map(read).collect();
        let stored: Vec<Imm> = numbers.iter().map(|x| Imm::float(compute, *x)).collect();
        let (code, fractions) = encode_shared(exponent_bits, members, &stored);
        for (k, (bits, signed)) in members.iter().enumerate() {
            let again = decode_shared(exponent_bits, code, *bits, *signed, fractions[k], compute);
            assert_eq!(
                value(again),
                numbers[k],
                "stored again: {members:?} {values:?}"
            );
        }
        return;
    }
    assert_eq!(
        code,
        low(exponent_bits.into()),
        "{exponent_bits} {members:?} {values:?}"
    );
    for (k, x) in values.iter().enumerate() {
        let alone = value(*x).is_infinite()
            || exact_group(
                exponent_bits,
                &members[k..=k],
                &[Imm::float(compute, value(*x).abs())],
            )
            .is_none();
        let counts = members[k].1 || value(*x) > 0.0;
        if alone && counts && !value(*x).is_nan() {
            assert_eq!(
                read(k),
                f64::INFINITY.copysign(value(*x)),
                "{members:?} {values:?}"
            );
        } else {
            assert!(read(k).is_nan(), "{members:?} {values:?}");
        }
    }
}

#[test]
fn groups_have_the_smallest_exponent_that_fits() {
    let groups: [&[(u8, bool)]; 9] = [
        &[(9, false), (9, false), (9, false)],
        &[(13, true), (13, true)],
        &[(2, true), (1, false)],
        &[(1, false)],
        &[(5, true), (9, false), (7, true)],
        &[(23, true), (24, false)],
        &[(25, true), (24, true)],
        &[(19, true), (3, false), (18, false)],
        &[(53, false), (54, true)],
    ];
    for compute in FLOATS {
        let format = FloatFormat::of(compute);
        let mut random = Random(u64::from(compute.bits()));
        for exponent_bits in [2, 4, 5, 7, 8, 10, 11] {
            let fits = |m: &(u8, bool)| {
                let exponent = SharedExponent {
                    at: 0,
                    bits: exponent_bits,
                };
                let ty = Quantized::Fraction {
                    bits: m.0,
                    signed: m.1,
                    exponent,
                };
                ty.check(compute).is_ok()
            };
            let bias = (1u64 << (exponent_bits - 1)) - 1;
            for members in groups.iter().filter(|g| g.iter().all(fits)) {
                for _ in 0..3000 {
                    let top = format.bias() - bias.min(format.bias()) + random.below(2 * bias + 4);
                    let number = |_: &(u8, bool)| {
                        let exponent = top.saturating_sub(random.below(6)).min(format.ones());
                        let digits = match random.below(3) {
                            0 => random.next(),
                            1 => (random.next() as i64 >> random.below(63)) as u64,
                            _ => !low(1 + random.below(u64::from(format.digits)) as u32),
                        };
                        let sign = random.next() & format.sign();
                        let bits = match random.below(40) {
                            0 => sign,
                            1 => sign | format.infinity(),
                            2 => sign | format.nan(),
                            3 => sign | digits & low(format.digits),
                            _ => sign | exponent << format.digits | digits & low(format.digits),
                        };
                        Imm::from_bits(compute, bits)
                    };
                    let values: Vec<Imm> = members.iter().map(number).collect();
                    check_group(exponent_bits, members, &values);
                }
            }
        }
    }
}

#[test]
fn three_components_of_a_colour_share_an_exponent() {
    // 9 digits each and 5 bits of exponent: 32 bits.
    let members = [(9, false); 3];
    let rgb = [0.5, 0.25, 1.0].map(|x| Imm::float(Scalar::F32, x));
    let (code, fractions) = encode_shared(5, &members, &rgb);
    assert_eq!((code, &fractions[..]), (15, &[128, 64, 256][..]));
    // Rounded, the largest number is 2.
    let rgb = [1.999, -3.0, 0.001].map(|x| Imm::float(Scalar::F32, x));
    let (code, fractions) = encode_shared(5, &members, &rgb);
    assert_eq!((code, &fractions[..]), (16, &[256, 0, 0][..]));
}

#[test]
fn types_that_do_not_exist_are_refused() {
    let int = |bits, signed| Quantized::Int { bits, signed };
    let nearest = Rounding::Nearest;
    let fraction = |bits, signed, exponent_bits| Quantized::Fraction {
        bits,
        signed,
        exponent: SharedExponent {
            at: 0,
            bits: exponent_bits,
        },
    };
    let refused = [
        (int(0, false), Scalar::I32, "qint has 1 to 64 bits, not 0"),
        (int(65, false), Scalar::I64, "qint has 1 to 64 bits, not 65"),
        (
            int(5, true),
            Scalar::F32,
            "qint needs an integer compute type, not `f32`",
        ),
        (
            int(12, true),
            Scalar::I8,
            "qint with 12 bits needs a compute type with as many; `i8` has 8",
        ),
        (
            fixed(8, true, 0.1, nearest),
            Scalar::I32,
            "qfixed needs the compute type `f32` or `f64`, not `i32`",
        ),
        (
            fixed(8, true, 0.1, nearest),
            Scalar::F16,
            "qfixed needs the compute type `f32` or `f64`, not `f16`",
        ),
        (
            fixed(8, true, 1e-40, nearest),
            Scalar::F32,
            "qfixed with the scale 1e-40 is too small for the compute type `f32`",
        ),
        (
            fixed(8, true, 1e37, nearest),
            Scalar::F32,
            "qfixed with 8 bits and the scale 1e37 is too large for the compute type `f32`",
        ),
        (
            float(1, 5, true, nearest),
            Scalar::F32,
            "qfloat has 2 to 11 exponent bits, not 1",
        ),
        (
            float(12, 5, true, nearest),
            Scalar::F64,
            "qfloat has 2 to 11 exponent bits, not 12",
        ),
        (
            float(9, 5, true, nearest),
            Scalar::F32,
            "qfloat with 9 exponent bits needs the compute type `f64`",
        ),
        (
            float(5, 5, true, nearest),
            Scalar::U32,
            "qfloat needs the compute type `f32` or `f64`, not `u32`",
        ),
        (
            float(5, 24, true, nearest),
            Scalar::F32,
            "qfloat with 25 fraction bits, one of them the sign, needs the compute type `f64`",
        ),
        (
            float(5, 0, false, nearest),
            Scalar::F32,
            "qfloat has 1 to 52 fraction bits, not 0",
        ),
        (
            float(5, 0, true, nearest),
            Scalar::F32,
            "qfloat has 2 to 53 fraction bits, one of them the sign, not 1",
        ),
        (
            fraction(25, false, 5),
            Scalar::F32,
            "qfloat with 25 fraction bits needs the compute type `f64`",
        ),
        (
            fraction(9, false, 9),
            Scalar::F32,
            "qfloat with 9 exponent bits needs the compute type `f64`",
        ),
    ];
    for (ty, compute, why) in refused {
        assert_eq!(ty.check(compute), Err(why.to_owned()), "{ty:?}");
    }
    let accepted = [
        (int(64, true), Scalar::I64),
        (int(64, true), Scalar::Bool),
        (fixed(64, true, 1e-19, nearest), Scalar::F32),
        (float(8, 23, true, nearest), Scalar::F32),
        (float(11, 52, true, nearest), Scalar::F64),
        (fraction(25, true, 8), Scalar::F32),
        (fraction(1, false, 2), Scalar::F32),
    ];
    for (ty, compute) in accepted {
        assert_eq!(ty.check(compute), Ok(()), "{ty:?}");
    }
}
