//! Accuracy of mathematical functions that are expanded in the IR (`Functions::WrittenOut`).
//!
//! `f32` is compared with the host's functions in `f64`. `f64` is compared with the host's functions, which are
//! accurate to an ulp or two, and at hard arguments with values that were computed with hundreds of bits.
//!
//! On a GPU (`WUJI_TEST_BACKEND=cuda`), `WUJI_TEST_FUNCTIONS=libdevice` tests the functions that kernels use there if
//! NVIDIA's library is found.

use wuji_compile::{Functions, Math, Options};
use wuji_ir::entities::Array;
use wuji_ir::eval::round_to_f16;
use wuji_ir::text::parse;
use wuji_ir::types::{Imm, Scalar};
use wuji_runtime::{BackendKind, Device, DeviceOptions, Instance, Tier};

/// A function by its name in the IR, the host's function in both formats, and the error of the host's in ulps of
/// `f64`.
struct Unary {
    name: &'static str,
    wide: fn(f64) -> f64,
    host_is_off: u64,
}

const UNARY: &[Unary] = &[
    unary("sin", f64::sin, 1),
    unary("cos", f64::cos, 1),
    unary("tan", f64::tan, 1),
    unary("asin", f64::asin, 1),
    unary("acos", f64::acos, 1),
    unary("atan", f64::atan, 1),
    unary("sinh", f64::sinh, 2),
    unary("cosh", f64::cosh, 2),
    unary("tanh", f64::tanh, 2),
    unary("exp", f64::exp, 1),
    unary("exp2", f64::exp2, 1),
    unary("log", f64::ln, 1),
    unary("log2", f64::log2, 1),
    unary("log10", f64::log10, 2),
    unary("round", f64::round, 0),
];

const fn unary(name: &'static str, wide: fn(f64) -> f64, host_is_off: u64) -> Unary {
    Unary {
        name,
        wide,
        host_is_off,
    }
}

/// The same with two arguments.
struct Binary {
    name: &'static str,
    wide: fn(f64, f64) -> f64,
    host_is_off: u64,
}

const BINARY: &[Binary] = &[
    Binary {
        name: "pow",
        wide: f64::powf,
        host_is_off: 1,
    },
    Binary {
        name: "atan2",
        wide: f64::atan2,
        host_is_off: 1,
    },
    Binary {
        name: "rem",
        wide: |a, b| a % b,
        host_is_off: 0,
    },
];

/// A kernel that applies functions to the elements of its first arrays and stores the results in the others.
fn kernel(ty: Scalar, names: &[&str], arity: usize) -> String {
    let ty = ty.name();
    let mut text = String::new();
    for k in 0..arity {
        text += &format!("array a{k} \"x\": {ty} rank 1 contiguous unaliased\n");
    }
    for (k, name) in names.iter().enumerate() {
        let k = k + arity;
        text += &format!("array a{k} \"{name}\": {ty} rank 1 writable contiguous unaliased\n");
    }
    text += "kernel fn0 \"math\"() {\n  v0: i64 = extent a0.0\n  v1: i64 = const 0\n  foreach L0 (v2: i64) in v1..v0 {\n";
    for k in 0..arity {
        text += &format!("    v{}: {ty} = load a{k}[v2]\n", 3 + k);
    }
    for (k, name) in names.iter().enumerate() {
        let (value, array) = (10 + k, k + arity);
        let args = ["v3", "v3, v4"][arity - 1];
        text += &format!("    v{value}: {ty} = {name} {args}\n    store a{array}[v2], v{value}\n");
    }
    text + "    continue L0\n  }\n  return\n}\n"
}

/// Whether functions run on the first GPU: `WUJI_TEST_BACKEND` is `cuda`.
fn on_gpu() -> bool {
    std::env::var_os("WUJI_TEST_BACKEND").is_some_and(|v| v == "cuda")
}

/// Whether functions may be those of NVIDIA's library.
fn of_libdevice() -> bool {
    std::env::var_os("WUJI_TEST_FUNCTIONS").is_some_and(|v| v == "libdevice")
}

/// The allowed error in ulps of `f32`, and relative to the host's in ulps of `f64`.
fn allowed(math: Math) -> (f64, u64) {
    match math {
        Math::Strict => (2.0, 0),
        _ if of_libdevice() => (4.0, 3),
        // `exp2` is a machine instruction.
        _ if on_gpu() => (3.0, 0),
        _ => (2.0, 0),
    }
}

/// Whether a number of `f32` counts. Numbers that are too small to be normal are zero in fast mode.
fn counts(math: Math, x: f64) -> bool {
    let tiny = x != 0.0 && x.abs() < 2.0 * f64::from(f32::MIN_POSITIVE);
    !(tiny && math == Math::Fast)
}

/// The same for `f64`, which GPUs do not flush.
fn counts64(math: Math, x: f64) -> bool {
    let tiny = x != 0.0 && x.abs() < 2.0 * f64::MIN_POSITIVE;
    !(tiny && math == Math::Fast && !on_gpu())
}

fn device() -> Device {
    Device::new(&DeviceOptions {
        backend: if on_gpu() {
            BackendKind::Cuda(0)
        } else {
            BackendKind::Cpu
        },
        cache: wuji_runtime::cache::Choice::Off,
        threads: Some(2),
        tier: Tier::Best,
        ..DeviceOptions::default()
    })
    .unwrap()
}

/// The results of each function for all arguments, as little-endian bits.
fn compute(ty: Scalar, names: &[&str], math: Math, args: &[&[u8]]) -> Vec<Vec<u8>> {
    let module = parse(&kernel(ty, names, args.len()), "math.wir").unwrap();
    let options = Options {
        math,
        functions: if of_libdevice() {
            Functions::System
        } else {
            Functions::WrittenOut
        },
        ..Options::default()
    };
    let device = device();
    let mut instance = Instance::new(&device, module, &options).unwrap();
    let width = i64::from(ty.bytes());
    let count = args[0].len() as i64 / width;
    let mut buffers = Vec::new();
    for k in 0..args.len() + names.len() {
        let zeros = vec![0; args[0].len()];
        let buffer = instance.add_buffer(args.get(k).copied().unwrap_or(&zeros));
        let array = Array::from_u32(k as u32);
        instance.bind(array, buffer, 0, &[count], &[width]).unwrap();
        buffers.push(buffer);
    }
    instance.launch(&[], 0, 0).unwrap();
    buffers[args.len()..]
        .iter()
        .map(|b| instance.buffer(*b))
        .collect()
}

/// Deterministic random bits.
struct Dice(u64);

impl Dice {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From -1 to 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Special arguments of functions.
const SPECIAL: &[f64] = &[
    0.0,
    f64::INFINITY,
    f64::NAN,
    f64::MIN_POSITIVE,
    f64::MAX,
    5e-324,
    f32::MIN_POSITIVE as f64,
    f32::MAX as f64,
    1e-45,
    1e-40,
    1e-320,
    0.25,
    0.41421356,
    0.5,
    0.54999,
    0.55,
    std::f64::consts::FRAC_1_SQRT_2,
    1.0,
    std::f64::consts::SQRT_2,
    1.5,
    2.0,
    2.4142137,
    2.5,
    3.0,
    10.0,
    100.0,
    1000.0,
    88.72283,
    88.7229,
    89.41598,
    103.97,
    103.98,
    126.0,
    127.99999,
    128.0,
    149.0,
    150.0,
    151.0,
    708.3,
    709.782712893384,
    709.7827128933841,
    710.4758600739439,
    710.475860073944,
    745.13,
    745.14,
    1022.0,
    1023.9999999999999,
    1024.0,
    1074.0,
    1075.0,
    65535.996,
    65536.0,
    1073741823.9999999,
    1073741824.0,
    6381956970095103.0 * 8.452712498170644e270,
    8388607.5,
    8388608.0,
    16777215.0,
    16777216.0,
    4503599627370495.5,
    9007199254740991.0,
    9007199254740992.0,
    0.49999997,
    0.49999999999999994,
];

/// Arguments of all kinds, at least `count`.
fn arguments(count: usize, from_bits: impl Fn(u64) -> f64, round: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut dice = Dice(1);
    let mut all: Vec<f64> = SPECIAL
        .iter()
        .flat_map(|x| [round(*x), round(-*x)])
        .collect();
    // Neighbours of the special ones.
    for x in SPECIAL {
        for step in [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0] {
            let near = x * (1.0 + step * 1.5e-16);
            let near32 = x * (1.0 + step * 8e-8);
            all.extend([round(near), round(near32), round(-near32)]);
        }
    }
    for k in 0..count {
        let u = dice.unit();
        all.push(match k % 10 {
            0 | 1 => from_bits(dice.bits()),
            2 => round(u),
            3 => round(u * 10.0),
            4 => round(u * 800.0),
            // Near multiples of right angles, small and large ones.
            5 => round(
                ((dice.bits() % 100_000) as f64 * std::f64::consts::FRAC_PI_2) * (1.0 + u * 1e-13),
            ),
            6 => round((u * 1e9).trunc() * std::f64::consts::FRAC_PI_2),
            // Near 1 and -1.
            7 => round(
                (1.0 + u * 2f64.powi(-((dice.bits() % 50) as i32)))
                    * if k % 20 == 7 { 1.0 } else { -1.0 },
            ),
            8 => round(u * 110.0),
            _ => round(u * 2f64.powi((dice.bits() % 40) as i32 - 30)),
        });
    }
    all
}

fn arguments32(count: usize) -> Vec<f32> {
    let all = arguments(
        count,
        |b| f64::from(f32::from_bits(b as u32)),
        |x| f64::from(x as f32),
    );
    all.into_iter().map(|x| x as f32).collect()
}

fn arguments64(count: usize) -> Vec<f64> {
    arguments(count, f64::from_bits, |x| x)
}

fn bytes32(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

fn bytes64(x: &[f64]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_ne_bytes()).collect()
}

fn floats32(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.chunks_exact(4).map(|c| [c[0], c[1], c[2], c[3]]);
    words.map(f32::from_ne_bytes).collect()
}

fn floats64(bytes: &[u8]) -> Vec<f64> {
    let words = bytes
        .chunks_exact(8)
        .map(|c| c.try_into().unwrap_or([0; 8]));
    words.map(f64::from_ne_bytes).collect()
}

/// The error of a number in ulps. Infinity if one of them is NaN, or if the sign of a zero is wrong.
fn error32(found: f32, truth: f64) -> f64 {
    let rounded = truth as f32;
    if found.to_bits() == rounded.to_bits() || found.is_nan() && truth.is_nan() {
        return if found.is_finite() {
            (f64::from(found) - truth).abs() / ulp32(truth)
        } else {
            0.0
        };
    }
    if found.is_nan() || truth.is_nan() || found.is_sign_negative() != truth.is_sign_negative() {
        return f64::INFINITY;
    }
    let beyond = |x: f64| x.clamp(-(2f64.powi(128)), 2f64.powi(128));
    (beyond(f64::from(found)) - beyond(truth)).abs() / ulp32(beyond(truth))
}

fn ulp32(x: f64) -> f64 {
    let exponent = (x.abs().to_bits() >> 52) as i32 - 1023;
    2f64.powi(exponent.clamp(-126, 127) - 23)
}

/// The distance of two numbers in ulps.
fn distance64(a: f64, b: f64) -> u64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() {
            0
        } else {
            u64::MAX
        };
    }
    if a.is_sign_negative() != b.is_sign_negative() {
        return u64::MAX;
    }
    a.abs().to_bits().abs_diff(b.abs().to_bits())
}

const MODES: [Math; 3] = [Math::Strict, Math::Contract, Math::Fast];

#[test]
fn f32_of_one_argument() {
    let xs = arguments32(200_000);
    let names: Vec<&str> = UNARY.iter().map(|f| f.name).collect();
    for math in MODES {
        let found = compute(Scalar::F32, &names, math, &[&bytes32(&xs)]);
        let mut wrong = Vec::new();
        for (f, found) in UNARY.iter().zip(found) {
            let found = floats32(&found);
            let errors = xs.iter().zip(found).map(|(x, y)| {
                let truth = (f.wide)(f64::from(*x));
                let counts = counts(math, f64::from(*x)) && counts(math, truth);
                (if counts { error32(y, truth) } else { 0.0 }, *x, y)
            });
            let worst = errors.fold((0.0, 0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
            eprintln!("f32 {math:?} {}: {worst:?}", f.name);
            if worst.0 > allowed(math).0 {
                wrong.push((f.name, worst, (f.wide)(f64::from(worst.1))));
            }
        }
        assert!(wrong.is_empty(), "{math:?}: {wrong:?}");
    }
}

#[test]
fn f64_of_one_argument() {
    let xs = arguments64(200_000);
    let names: Vec<&str> = UNARY.iter().map(|f| f.name).collect();
    for math in MODES {
        let found = compute(Scalar::F64, &names, math, &[&bytes64(&xs)]);
        let mut wrong = Vec::new();
        for (f, found) in UNARY.iter().zip(found) {
            let found = floats64(&found);
            let errors = xs
                .iter()
                .zip(found)
                .filter(|(x, _)| counts64(math, **x) && counts64(math, (f.wide)(**x)))
                .map(|(x, y)| (distance64(y, (f.wide)(*x)), *x, y));
            let worst = errors.fold((0, 0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
            eprintln!("f64 {math:?} {}: {worst:?}", f.name);
            if worst.0 > f.host_is_off + allowed(math).1 {
                wrong.push((f.name, worst, (f.wide)(worst.1)));
            }
        }
        assert!(wrong.is_empty(), "{math:?}: {wrong:?}");
    }
}

/// Pairs of all kinds of arguments, and of those with finite powers.
fn pairs<T: Copy>(xs: &[T], near: impl Fn(f64) -> T) -> (Vec<T>, Vec<T>) {
    let mut dice = Dice(2);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    let specials: Vec<T> = SPECIAL.iter().flat_map(|x| [near(*x), near(-*x)]).collect();
    for x in &specials {
        for y in &specials {
            a.push(*x);
            b.push(*y);
        }
    }
    for (k, x) in xs.iter().enumerate() {
        let other = xs[dice.bits() as usize % xs.len()];
        let (x, y) = match k % 8 {
            0 | 1 => (*x, other),
            2 => (near(dice.unit() * 20.0), near(dice.unit() * 50.0)),
            3 => (near(dice.unit().abs() * 4.0), near(dice.unit() * 500.0)),
            4 => (near(1.0 + dice.unit() * 1e-3), near(dice.unit() * 1e5)),
            5 => (*x, near((dice.unit() * 10.0).trunc())),
            6 => (
                near((dice.unit() * 100.0).trunc()),
                near((dice.unit() * 30.0).trunc()),
            ),
            _ => (
                near(dice.unit() * 1e9),
                near(dice.unit() * 2f64.powi((dice.bits() % 60) as i32 - 30)),
            ),
        };
        a.push(x);
        b.push(y);
    }
    (a, b)
}

#[test]
fn f32_of_two_arguments() {
    let (xs, ys) = pairs(&arguments32(400_000), |x| x as f32);
    let names: Vec<&str> = BINARY.iter().map(|f| f.name).collect();
    for math in MODES {
        let found = compute(Scalar::F32, &names, math, &[&bytes32(&xs), &bytes32(&ys)]);
        let mut wrong = Vec::new();
        for (f, found) in BINARY.iter().zip(found) {
            let found = floats32(&found);
            let mut worst = (0.0, 0.0, 0.0, 0.0);
            for ((x, y), z) in xs.iter().zip(&ys).zip(found) {
                let (a, b) = (f64::from(*x), f64::from(*y));
                let truth = (f.wide)(a, b);
                let error = error32(z, truth);
                // The partial remainders are up to 24 bits smaller than the divisor.
                let parts = if f.name == "rem" { b / 16_777_216.0 } else { b };
                if error > worst.0 && [a, b, parts, truth].iter().all(|x| counts(math, *x)) {
                    worst = (error, *x, *y, z);
                }
            }
            eprintln!("f32 {math:?} {}: {worst:?}", f.name);
            if worst.0 > allowed(math).0 {
                wrong.push((f.name, worst, (f.wide)(worst.1.into(), worst.2.into())));
            }
        }
        assert!(wrong.is_empty(), "{math:?}: {wrong:?}");
    }
}

#[test]
fn f64_of_two_arguments() {
    let (xs, ys) = pairs(&arguments64(400_000), |x| x);
    let names: Vec<&str> = BINARY.iter().map(|f| f.name).collect();
    for math in MODES {
        let found = compute(Scalar::F64, &names, math, &[&bytes64(&xs), &bytes64(&ys)]);
        let mut wrong = Vec::new();
        for (f, found) in BINARY.iter().zip(found) {
            let found = floats64(&found);
            let mut worst = (0, 0.0, 0.0, 0.0);
            for ((x, y), z) in xs.iter().zip(&ys).zip(found) {
                let truth = (f.wide)(*x, *y);
                let error = distance64(z, truth);
                // The partial remainders are up to 53 bits smaller than the divisor.
                let parts = if f.name == "rem" {
                    *y * f64::EPSILON
                } else {
                    *y
                };
                let counted = [*x, *y, parts, truth].iter().all(|x| counts64(math, *x));
                if error > worst.0 && counted {
                    worst = (error, *x, *y, z);
                }
            }
            eprintln!("f64 {math:?} {}: {worst:?}", f.name);
            if worst.0 > f.host_is_off + allowed(math).1 {
                wrong.push((f.name, worst, (f.wide)(worst.1, worst.2)));
            }
        }
        assert!(wrong.is_empty(), "{math:?}: {wrong:?}");
    }
}

/// Whether `f16` is the function in `f32`, rounded.
#[test]
fn f16_of_one_argument() {
    let value = |bits: u64| Imm::from_bits(Scalar::F16, bits).as_float().unwrap_or(0.0);
    let args: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
    let names: Vec<&str> = UNARY.iter().map(|f| f.name).collect();
    let found = compute(Scalar::F16, &names, Math::Contract, &[&args]);
    for (f, found) in UNARY.iter().zip(found) {
        for (x, y) in found.chunks_exact(2).enumerate() {
            let (x, y) = (
                value(x as u64),
                value(u64::from(u16::from_ne_bytes([y[0], y[1]]))),
            );
            let truth = (f.wide)(x);
            let rounded = f64::from(round_to_f16(truth));
            if y.to_bits() == rounded.to_bits() || y.is_nan() && truth.is_nan() {
                continue;
            }
            // Next to the middle of two numbers either will do.
            let next = (y - truth).abs() / (rounded - truth).abs();
            let known = y.is_sign_negative() == truth.is_sign_negative() && next < 1.01;
            assert!(known, "{} {x}: {y}, not {truth}", f.name);
        }
    }
}

/// Values at hard arguments, computed with hundreds of bits: a function, its arguments, the value and its remainder,
/// as bits of `f64`.
const HARD: &str = include_str!("hard.txt");

#[test]
fn f64_at_hard_places() {
    let number = |word: &str| f64::from_bits(u64::from_str_radix(word, 16).unwrap());
    let lines: Vec<(&str, Vec<f64>)> = HARD
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, rest)| (name, rest.split(' ').map(number).collect()))
        .collect();
    let functions = UNARY.iter().map(|f| (f.name, 1));
    for (name, arity) in functions.chain(BINARY.iter().map(|f| (f.name, 2))) {
        let lines = lines.iter().filter(|l| l.0 == name);
        let numbers: Vec<&Vec<f64>> = lines.map(|l| &l.1).collect();
        let exact = ["round", "rem"].contains(&name);
        assert!(exact || numbers.len() > 30, "{name}: {}", numbers.len());
        if exact {
            continue;
        }
        let column = |k: usize| bytes64(&numbers.iter().map(|n| n[k]).collect::<Vec<_>>());
        let columns: Vec<Vec<u8>> = (0..arity).map(column).collect();
        let args: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
        let found = compute(Scalar::F64, &[name], Math::Fast, &args);
        for (y, line) in floats64(&found[0]).into_iter().zip(&numbers) {
            let (high, low) = (line[arity], line[arity + 1]);
            let exponent = (high.abs().to_bits() >> 52) as i32 - 1023;
            // In ulps, so that those of the smallest numbers are not too small to compute with.
            let unit = exponent.max(-1022) - 52;
            let places = |x: f64| x * 2f64.powi(-unit / 2) * 2f64.powi(-unit - -unit / 2);
            let error = (places(y) - places(high)) - places(low);
            assert!(
                error.abs() < 1.5 + allowed(Math::Fast).1 as f64,
                "{name} {line:?}: {y}, {error} ulp"
            );
        }
    }
}

/// Exact results: functions by name, with an argument and a value.
const EXACT: &[(&str, f64, f64)] = &[
    ("sin", 0.0, 0.0),
    ("sin", -0.0, -0.0),
    ("cos", 0.0, 1.0),
    ("tan", 0.0, 0.0),
    ("tan", -0.0, -0.0),
    ("asin", 0.0, 0.0),
    ("asin", -0.0, -0.0),
    ("acos", 1.0, 0.0),
    ("atan", 0.0, 0.0),
    ("atan", -0.0, -0.0),
    ("sinh", -0.0, -0.0),
    ("cosh", 0.0, 1.0),
    ("tanh", -0.0, -0.0),
    ("tanh", 100.0, 1.0),
    ("exp", 0.0, 1.0),
    ("exp", -0.0, 1.0),
    ("exp", f64::NEG_INFINITY, 0.0),
    ("exp2", 10.0, 1024.0),
    (
        "exp2",
        -140.0,
        1.0 / 4.0 * 1.0 / (1u128 << 127) as f64 / 2048.0,
    ),
    ("log", 1.0, 0.0),
    ("log", 0.0, f64::NEG_INFINITY),
    ("log2", 1.0, 0.0),
    ("log2", 8.0, 3.0),
    ("log2", 1.0 / 1024.0, -10.0),
    ("log10", 1.0, 0.0),
    ("log10", 10.0, 1.0),
    ("log10", 1000.0, 3.0),
    ("log10", 1e10, 10.0),
    ("round", 0.5, 1.0),
    ("round", -0.5, -1.0),
    ("round", -0.25, -0.0),
    ("round", 2.5, 3.0),
];

#[test]
fn exact_values() {
    for (name, x, truth) in EXACT {
        let wide = compute(Scalar::F64, &[name], Math::Contract, &[&bytes64(&[*x])]);
        let found = floats64(&wide[0])[0];
        assert_eq!(found.to_bits(), truth.to_bits(), "{name} {x}: {found}");
        let narrow = compute(
            Scalar::F32,
            &[name],
            Math::Contract,
            &[&bytes32(&[*x as f32])],
        );
        let found = floats32(&narrow[0])[0];
        let truth = *truth as f32;
        assert_eq!(found.to_bits(), truth.to_bits(), "{name} {x}: {found}");
    }
}

#[test]
fn whole_powers() {
    let xs = arguments64(20_000);
    let power = |xs: &[f64], y: f64| {
        let ys = vec![y; xs.len()];
        let args = [bytes64(xs), bytes64(&ys)];
        let found = compute(Scalar::F64, &["pow"], Math::Contract, &[&args[0], &args[1]]);
        floats64(&found[0])
    };
    for (x, y) in xs.iter().zip(power(&xs, 1.0)) {
        assert!(
            x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan(),
            "{x}: {y}"
        );
    }
    assert!(power(&xs, 0.0).iter().all(|y| *y == 1.0));
    // Powers that are representable are exact.
    let small: Vec<f64> = (-200..=200).map(f64::from).collect();
    for y in 2..7 {
        for (x, found) in small.iter().zip(power(&small, f64::from(y))) {
            assert_eq!(found, x.powi(y), "{x} to the {y}");
        }
    }
}
