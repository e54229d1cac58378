//! The code for quantized types against their definition, by the interpreter.

use wuji_compile::quant::{self, Bit};
use wuji_compile::{Cx, Options, run_pass};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::interp::{Config, Machine};
use wuji_ir::module::{Function, Module, Param, Term};
use wuji_ir::ops::Op;
use wuji_ir::quant::{
    FloatFormat, Quantized, Rounding, Scale, SharedExponent, decode_shared, encode_shared,
};
use wuji_ir::types::{Imm, Scalar, Type};

const WORDS: [Scalar; 4] = [Scalar::U8, Scalar::U16, Scalar::U32, Scalar::U64];
const FLOATS: [Scalar; 2] = [Scalar::F32, Scalar::F64];

/// A kernel with scalar parameters that returns what `body` computes: one number, or several as a vector.
fn module(
    params: &[Scalar],
    results: &[Scalar],
    body: impl FnOnce(&mut Builder<'_>, &[Value]) -> Vec<Value>,
) -> Module {
    let mut m = Module::default();
    let types: Vec<Type> = params.iter().map(|s| Type::Scalar(*s)).collect();
    for (k, ty) in types.iter().enumerate() {
        m.params.push(Param {
            name: format!("p{k}"),
            ty: *ty,
        });
    }
    let result = if results.len() == 1 {
        Type::Scalar(results[0])
    } else {
        Type::Vector(results[0], results.len() as u16)
    };
    let mut f = Function::new("kernel", &types, &[result]);
    let values = f.params().to_vec();
    let mut b = Builder::new(&mut m, &mut f);
    let mut values = body(&mut b, &values);
    if values.len() > 1 {
        values = vec![b.value(Op::Compose(result), &values)];
    }
    b.end(Term::Return(values.into_iter().collect()));
    let id = m.add_func(f);
    m.kernel = Some(id);
    wuji_ir::verify::verify(&m).unwrap_or_else(|e| panic!("{e}\n{m}"));
    m
}

/// Runs a kernel on each of the inputs, as it is and simplified, and compares the results.
fn check(m: &Module, inputs: &[Vec<Imm>], expected: impl Fn(&[Imm]) -> Vec<Imm>) {
    let mut simple = m.clone();
    run_pass("simplify", &mut simple, &mut Cx::new(&Options::default())).unwrap();
    for m in [m, &simple] {
        let mut machine = Machine::new(m, Config::default()).unwrap();
        for args in inputs {
            let result = machine.run(args).unwrap().result.unwrap();
            let expected = expected(args);
            let same = result.len() == expected.len()
                && result.iter().zip(&expected).all(|(a, b)| is_same(*a, *b));
            assert!(same, "{args:?}: {result:?} instead of {expected:?}\n{m}");
        }
    }
}

/// Any NaN is the same as any other.
fn is_same(a: Imm, b: Imm) -> bool {
    let is_nan = |x: Imm| x.as_float().is_some_and(f64::is_nan);
    a == b || a.ty == b.ty && is_nan(a) && is_nan(b)
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

/// All bit patterns, or many.
fn patterns(bits: u32, count: u64, random: &mut Random) -> Vec<u64> {
    if bits < 64 && 1 << bits <= count {
        return (0..1 << bits).collect();
    }
    let mut all = vec![
        0,
        1,
        low(bits),
        low(bits) - 1,
        1 << (bits - 1),
        low(bits - 1),
    ];
    all.extend((0..count).map(|_| random.next() & low(bits)));
    all
}

fn neighbours(x: Imm) -> [Imm; 3] {
    [-1i64, 0, 1].map(|d| Imm::from_bits(x.ty, x.bits().wrapping_add_signed(d)))
}

/// Numbers that are interesting for every type.
fn special(compute: Scalar) -> Vec<Imm> {
    let f = FloatFormat::of(compute);
    let bits = [
        0,
        1,
        f.smallest() / 2,
        f.smallest(),
        f.bias() << f.digits,
        f.infinity(),
        f.nan(),
        f.infinity() + 1,
        f.sign() - 1,
    ];
    let with_signs = bits.iter().flat_map(|b| [*b, b | f.sign()]);
    let numbers = with_signs.map(|b| Imm::from_bits(compute, b));
    numbers.flat_map(neighbours).collect()
}

/// Numbers at, near and halfway between those that a type can store, and others.
fn numbers(ty: Quantized, compute: Scalar, count: u64, random: &mut Random) -> Vec<Imm> {
    let mut all = special(compute);
    for bits in patterns(ty.bits(), count, random) {
        let a = ty.decode(bits, compute);
        let b = ty.decode(bits.wrapping_add(1) & low(ty.bits()), compute);
        let (x, y) = (a.as_float().unwrap(), b.as_float().unwrap());
        all.extend(neighbours(a));
        all.extend(neighbours(Imm::float(compute, x / 2.0 + y / 2.0)));
        let near = (random.next() as i64 >> 40) as f64 / f64::from(1 << 22);
        all.push(Imm::float(compute, x * near));
    }
    all.extend((0..count / 4 + 16).map(|_| Imm::from_bits(compute, random.next())));
    all
}

/// Decodes at positions of words of every size, constant and computed.
fn check_decode(ty: Quantized, compute: Scalar, count: u64) {
    let random = &mut Random(u64::from(ty.bits()));
    let bits = ty.bits();
    for word in WORDS.into_iter().filter(|w| w.bits() >= bits) {
        let last = word.bits() - bits;
        let middle = random.below(u64::from(last) + 1) as u32;
        for at in [0, middle, last] {
            let mut words = |n: u64| -> Vec<Imm> {
                let all = patterns(bits, n, random);
                let around = |b: &u64| random.next() & !(low(bits) << at) | b << at;
                all.iter()
                    .map(around)
                    .map(|w| Imm::from_bits(word, w))
                    .collect()
            };
            let expected = |args: &[Imm]| vec![ty.decode(args[0].bits() >> at, compute)];
            let constant = module(&[word], &[compute], |b, p| {
                vec![quant::decode(b, ty, compute, p[0], Bit::Const(at as u8))]
            });
            let inputs: Vec<_> = words(count).iter().map(|w| vec![*w]).collect();
            check(&constant, &inputs, expected);
            for index in [Scalar::I64, word] {
                let variable = module(&[word, index], &[compute], |b, p| {
                    vec![quant::decode(b, ty, compute, p[0], Bit::At(p[1]))]
                });
                let at = Imm::int(index, at.into());
                let inputs: Vec<_> = words(16).iter().map(|w| vec![*w, at]).collect();
                check(&variable, &inputs, expected);
            }
        }
    }
}

fn check_encode(ty: Quantized, compute: Scalar, values: &[Imm]) {
    let random = &mut Random(7);
    for word in WORDS.into_iter().filter(|w| w.bits() >= ty.bits()) {
        // Smaller words differ only in a conversion.
        let step = if word.bits() < 64 && word.bits() / 2 >= ty.bits() {
            5
        } else {
            1
        };
        let values = values.iter().step_by(step);
        let draw = |k: usize, random: &mut Random| match k % 8 {
            0 => 0,
            1 => u64::MAX,
            _ => random.next(),
        };
        let inputs: Vec<_> = values
            .enumerate()
            .map(|(k, v)| vec![*v, Imm::from_bits(Scalar::U64, draw(k, random))])
            .collect();
        let m = module(&[compute, Scalar::U64], &[word], |b, p| {
            vec![quant::encode(b, ty, compute, p[0], Some(p[1]), word)]
        });
        check(&m, &inputs, |args| {
            vec![Imm::from_bits(word, ty.encode(args[0], args[1].bits()))]
        });
        if matches!(ty, Quantized::Float { .. }) {
            continue;
        }
        let m = module(&[compute, Scalar::U64], &[word], |b, p| {
            vec![quant::increment(b, ty, compute, p[0], Some(p[1]), word)]
        });
        check(&m, &inputs, |args| {
            vec![Imm::from_bits(word, ty.increment(args[0], args[1].bits()))]
        });
    }
}

#[test]
fn integers_are_stored_as_defined() {
    for bits in (1..=64).filter(|b| b % 3 != 1 || [1, 31, 64].contains(b)) {
        for signed in [false, true] {
            let ty = Quantized::Int { bits, signed };
            for compute in Scalar::ALL {
                if ty.check(compute).is_err() {
                    continue;
                }
                check_decode(ty, compute, 64);
                let random = &mut Random(3);
                let values: Vec<_> = (0..64)
                    .map(|_| Imm::from_bits(compute, random.next()))
                    .collect();
                check_encode(ty, compute, &values);
            }
        }
    }
}

fn check_number(ty: Quantized, compute: Scalar, count: u64) {
    if ty.check(compute).is_ok() {
        check_decode(ty, compute, count);
        let values = numbers(ty, compute, count, &mut Random(5));
        check_encode(ty, compute, &values);
    }
}

#[test]
fn fixed_point_numbers_are_stored_as_defined() {
    let widths = [
        1, 2, 3, 8, 10, 16, 21, 22, 23, 24, 25, 31, 32, 33, 51, 52, 53, 63, 64,
    ];
    for bits in widths {
        for signed in [false, true] {
            for scale in [1.0, 0.013, 2.5e7] {
                for rounding in [Rounding::Nearest, Rounding::Stochastic] {
                    let ty = Quantized::Fixed {
                        bits,
                        signed,
                        scale: Scale::new(scale).unwrap(),
                        rounding,
                    };
                    FLOATS
                        .into_iter()
                        .for_each(|compute| check_number(ty, compute, 64));
                }
            }
        }
    }
}

#[test]
fn floating_point_numbers_are_stored_as_defined() {
    for exponent in [2, 3, 5, 7, 8, 9, 11] {
        for digits in [1, 2, 5, 10, 15, 22, 23, 30, 51, 52] {
            for signed in [false, true] {
                for rounding in [Rounding::Nearest, Rounding::Stochastic] {
                    let ty = Quantized::Float {
                        exponent,
                        fraction: digits + u8::from(signed),
                        signed,
                        rounding,
                    };
                    FLOATS
                        .into_iter()
                        .for_each(|compute| check_number(ty, compute, 64));
                }
            }
        }
    }
}

#[test]
fn all_numbers_of_small_types_are_stored_as_defined() {
    let fixed = |bits, signed| Quantized::Fixed {
        bits,
        signed,
        scale: Scale::new(0.1).unwrap(),
        rounding: Rounding::Nearest,
    };
    let float = |exponent, fraction, signed| Quantized::Float {
        exponent,
        fraction,
        signed,
        rounding: Rounding::Nearest,
    };
    for ty in [
        fixed(10, true),
        fixed(10, false),
        float(5, 7, true),
        float(4, 7, false),
        float(8, 4, true),
    ] {
        FLOATS
            .into_iter()
            .for_each(|compute| check_number(ty, compute, 1 << 12));
    }
}

/// Groups with the given members: encodes numbers of related magnitudes, and decodes random words.
fn check_group(exponent_bits: u8, members: &[(u8, bool)], compute: Scalar, count: u64) {
    let random = &mut Random(u64::from(exponent_bits) + 100 * u64::from(members[0].0));
    let used: u32 = members.iter().map(|m| u32::from(m.0)).sum();
    let word = if used + u32::from(exponent_bits) <= 32 {
        Scalar::U32
    } else {
        Scalar::U64
    };
    let params = vec![compute; members.len()];
    let results = vec![word; members.len() + 1];
    let m = module(&params, &results, |b, p| {
        let (exponent, mut fractions) = quant::encode_shared(b, exponent_bits, members, p, word);
        fractions.insert(0, exponent);
        fractions
    });
    let specials = special(compute);
    let format = FloatFormat::of(compute);
    let bias = (1u64 << (exponent_bits - 1)) - 1;
    let inputs: Vec<Vec<Imm>> = (0..count)
        .map(|k| {
            // Exponents near each other, in the range of the group or a little beyond.
            let top = format.bias() - bias + random.below(2 * bias + 4);
            let number = |_: &(u8, bool)| {
                if random.below(if k % 2 == 0 { 6 } else { 60 }) == 0 {
                    return specials[random.below(specials.len() as u64) as usize];
                }
                let exponent = top.saturating_sub(random.below(6)).min(format.ones());
                // Digits that begin with many ones or zeros are near a rounding boundary.
                let digits = match random.below(3) {
                    0 => random.next(),
                    1 => (random.next() as i64 >> random.below(63)) as u64,
                    _ => {
                        low(format.digits) & !low(1 + random.below(u64::from(format.digits)) as u32)
                    }
                };
                let sign = random.next() & format.sign();
                let bits = sign | exponent << format.digits | digits & low(format.digits);
                Imm::from_bits(compute, bits)
            };
            members.iter().map(number).collect()
        })
        .collect();
    check(&m, &inputs, |args| {
        let (exponent, fractions) = encode_shared(exponent_bits, members, args);
        let all = std::iter::once(exponent).chain(fractions);
        all.map(|bits| Imm::from_bits(word, bits)).collect()
    });
    check_decode_group(exponent_bits, members, compute, word, count);
}

fn check_decode_group(
    exponent_bits: u8,
    members: &[(u8, bool)],
    compute: Scalar,
    word: Scalar,
    count: u64,
) {
    let random = &mut Random(9);
    let exponent = SharedExponent {
        at: 0,
        bits: exponent_bits,
    };
    let mut at = exponent_bits;
    for &(bits, signed) in members {
        let m = module(&[word, Scalar::U32], &[compute, compute], |b, p| {
            let mut one = |at| quant::decode_shared(b, exponent, bits, signed, compute, p[0], at);
            vec![one(Bit::Const(at)), one(Bit::At(p[1]))]
        });
        let words = (0..count).map(|k| {
            let word = random.next();
            // All bits of the exponent are one, or of the fraction zero, more often than at random.
            match k % 8 {
                0 => word | low(exponent_bits.into()),
                1 => word & !low(exponent_bits.into()),
                2 => (word | low(exponent_bits.into())) & !(low(bits.into()) << at),
                3 => word & !(low(bits.into()) << at) | 1 << at,
                _ => word,
            }
        });
        let inputs: Vec<_> = words
            .map(|w| vec![Imm::from_bits(word, w), Imm::int(Scalar::U32, at.into())])
            .collect();
        check(&m, &inputs, |args| {
            let w = args[0].bits();
            let e = w & low(exponent_bits.into());
            vec![decode_shared(exponent_bits, e, bits, signed, w >> at, compute); 2]
        });
        at += bits;
    }
}

#[test]
fn groups_with_a_shared_exponent_are_stored_as_defined() {
    let groups: [&[(u8, bool)]; 10] = [
        &[(9, false), (9, false), (9, false)],
        &[(13, true), (13, true)],
        &[(2, true), (1, false)],
        &[(1, false)],
        &[(5, true), (9, false), (7, true)],
        &[(22, true), (23, false)],
        &[(23, true), (24, false)],
        &[(25, true), (24, true)],
        &[(19, true), (19, true), (18, false)],
        &[(53, false)],
    ];
    for exponent_bits in [2, 5, 6, 7, 8, 9, 11] {
        for members in groups {
            let used: u8 = exponent_bits + members.iter().map(|m| m.0).sum::<u8>();
            for compute in FLOATS {
                let fits = members.iter().all(|&(bits, signed)| {
                    let exponent = SharedExponent {
                        at: 0,
                        bits: exponent_bits,
                    };
                    let ty = Quantized::Fraction {
                        bits,
                        signed,
                        exponent,
                    };
                    ty.check(compute).is_ok()
                });
                if fits && used <= 64 {
                    check_group(exponent_bits, members, compute, 600);
                }
            }
        }
    }
}
