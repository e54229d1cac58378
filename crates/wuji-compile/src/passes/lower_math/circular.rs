//! Sine, cosine and tangent.
//!
//! Argument reduction by multiples of pi/2. Up to 2^16 in `f32` and 2^30 in `f64`, three parts of pi/2 are
//! subtracted (Cody-Waite), the first of them exactly. Larger arguments are rare and go to a separate function,
//! which multiplies by the significant bits of 2/pi (Payne-Hanek).

use super::numbers::TWO_OVER_PI;
use super::write::{Format, Num, Writer};
use wuji_ir::entities::Func;
use wuji_ir::types::Scalar;

/// A reduced angle: the number of right angles in the low bits of an integer, and a remainder, optionally with a
/// low part.
struct Angle<'w> {
    turns: Num<'w>,
    rest: Num<'w>,
    below: Option<Num<'w>>,
}

/// The types of the parts of an angle.
pub(super) fn parts(format: Format) -> [Scalar; 3] {
    [format.int, format.float, format.float]
}

/// Reduces an angle that is not negative; without `below`, half a bit may be lost.
fn reduced<'w>(w: &'w Writer, x: Num<'w>, of_large: Func, below: bool) -> Angle<'w> {
    let format = w.format;
    let types = parts(format);
    let wanted = if below { 3 } else { 2 };
    let limit = format.pick(65536.0, 1073741824.0);
    let found = w.branch(
        x.ge(limit),
        &types[..wanted],
        || w.call(of_large, &[x], &types)[..wanted].to_vec(),
        || {
            let [first, second, third] = format.numbers.half_pi;
            let (n, turns) = x.nearest(std::f64::consts::FRAC_2_PI);
            // Both are multiples of the last bit of `first`, and their difference is below 1, so it is exact.
            let a = n.fma(-first, x);
            if !below {
                // No number in this range is so close to a multiple of pi/2 that the third part cancels much.
                return vec![turns, n.fma(-third, n.fma(-second, a))];
            }
            let p = n * second;
            let b = a - p;
            // Either may be larger.
            let back = b - a;
            let lost = (a - (b - back)) - (p + back);
            let low = n.fma(-third, lost - n.fma(second, -p));
            let rest = b + low;
            vec![turns, rest, (b - rest) + low]
        },
    );
    Angle {
        turns: found[0],
        rest: found[1],
        below: found.get(2).copied(),
    }
}

/// Reduces a large finite number; returns NaN for infinity. With `x = m 2^e`, the bits of 2/pi that are worth 4 or
/// more after multiplication by `2^e` contribute whole turns; the next 96 or 192 bits suffice.
pub(super) fn reduce_large<'w>(w: &'w Writer, x: Num<'w>) -> Vec<Num<'w>> {
    let format = w.format;
    let precision = format.precision() as i32;
    let bits = x.bits().to(Scalar::I64);
    let exponent = (bits >> format.fraction as i32) - (format.bias + i64::from(format.fraction));
    let one = 1i64 << format.fraction;
    let m = ((bits & (one - 1)) | one).to(Scalar::U64);
    // The table begins with a word of zeros, for numbers with a fractional part.
    let first = (exponent + (64 - 2)).to(Scalar::U64);
    let (words, last) = format.pick((3, 2), (4, 16));
    let table: Vec<u64> = [0].into_iter().chain(TWO_OVER_PI).collect();
    let rows: Vec<Vec<Num<'w>>> = (0..=last)
        .map(|k| {
            let row = table[k..k + words].iter();
            row.map(|t| w.int(Scalar::U64, i128::from(*t))).collect()
        })
        .collect();
    let taken = choose(&rows, 0, first >> 6);
    let shift = first & 63;
    let window: Vec<Num<'w>> = taken
        .windows(2)
        .map(|p| shifted(p[0], p[1], shift))
        .collect();
    let mut limbs: Vec<Num<'w>> = window
        .iter()
        .flat_map(|word| [*word >> 32, *word & LIMB])
        .collect();
    limbs.truncate(format.pick(3, 6));
    limbs.reverse();
    let factors = match format.float {
        Scalar::F64 => vec![m & LIMB, m >> 32],
        _ => vec![m],
    };
    let mut product = times(w, &limbs, &factors);
    product.reverse();
    product.resize(format.pick(4, 6), w.int(Scalar::U64, 0));
    let whole: Vec<Num<'w>> = product
        .chunks(2)
        .map(|p| (p[0] << 32) | p[1])
        .chain([w.int(Scalar::U64, 0)])
        .collect();
    let turns = (((whole[0] >> 61) + 1) >> 1) & 3;
    // The fraction, from -1/2 to 1/2. A bit of 2^-94 is negligible, so a bitwise complement negates it.
    let two = w.int(Scalar::U64, 2);
    let part: Vec<Num<'w>> = whole.windows(2).map(|p| shifted(p[0], p[1], two)).collect();
    let negative = (part[0].to(Scalar::I64) >> 63).to(Scalar::U64);
    let part: Vec<Num<'w>> = part.iter().map(|p| *p ^ negative).collect();
    // No number of the format is so close to a multiple of pi/2 that the first word is zero.
    let zeros = part[0].leading_zeros();
    let third = part.get(2).copied().unwrap_or(negative);
    let high = shifted(part[0], part[1], zeros);
    let low = shifted(part[1], third, zeros);
    let unused = 64 - precision;
    let scale = -zeros.to(format.int);
    let next = (high << precision) | (low >> unused);
    let high = (high >> unused).to_float() * w.power_of_two(scale - precision);
    let low = next.to_float() * w.power_of_two(scale - (64 + precision));
    // Still in units of right angles.
    let [first, second, _] = format.numbers.half_pi;
    let rest = high * first;
    let below = low.fma(first, high.fma(second, high.fma(first, -rest)));
    let sum = rest + below;
    let below = (rest - sum) + below;
    let sign = (negative << 63).to(Scalar::I64);
    let sign = match format.float {
        Scalar::F64 => sign,
        _ => (sign >> 32).to(format.int),
    };
    let rest = x.lt(f64::INFINITY).select(sum.flipped(sign), w.nan());
    vec![turns.to(format.int), rest, below.flipped(sign)]
}

/// The lower half of a word.
const LIMB: i64 = 0xffff_ffff;

/// The row with a number, counted from `from`.
fn choose<'w>(rows: &[Vec<Num<'w>>], from: i32, number: Num<'w>) -> Vec<Num<'w>> {
    if let [row] = rows {
        return row.clone();
    }
    let middle = rows.len() / 2;
    let below = choose(&rows[..middle], from, number);
    let above = choose(&rows[middle..], from + middle as i32, number);
    let is_below = number.lt(from + middle as i32);
    let pairs = below.into_iter().zip(above);
    pairs.map(|(a, b)| is_below.select(a, b)).collect()
}

/// The upper word of a two-word left shift by less than a word.
fn shifted<'w>(high: Num<'w>, low: Num<'w>, amount: Num<'w>) -> Num<'w> {
    (high << amount) | ((low >> 1) >> (amount ^ 63))
}

/// Multiplies half-words, lowest first; the result has as many as the first factor.
fn times<'w>(w: &'w Writer, a: &[Num<'w>], b: &[Num<'w>]) -> Vec<Num<'w>> {
    let mut carry = w.int(Scalar::U64, 0);
    let mut result = Vec::new();
    for column in 0..a.len() {
        let (mut low, mut high) = (carry, w.int(Scalar::U64, 0));
        for (k, factor) in b.iter().enumerate().take(column + 1) {
            let p = a[column - k] * *factor;
            low = low + (p & LIMB);
            high = high + (p >> 32);
        }
        result.push(low & LIMB);
        carry = high + (low >> 32);
    }
    result
}

/// The sine of the remainder.
fn near_sine<'w>(w: &'w Writer, angle: &Angle<'w>) -> Num<'w> {
    let r = angle.rest;
    let z = r * r;
    let polynomial = z.polynomial(w.format.numbers.sin);
    match angle.below {
        Some(below) => r + (r * z).fma(polynomial, below),
        None => (r * z).fma(polynomial, r),
    }
}

/// The cosine of the remainder.
fn near_cosine<'w>(w: &'w Writer, angle: &Angle<'w>) -> Num<'w> {
    let r = angle.rest;
    let z = r * r;
    let polynomial = z.polynomial(w.format.numbers.cos);
    let Some(below) = angle.below else {
        return (z * z).fma(polynomial, z.fma(-0.5, 1.0));
    };
    let half = z * 0.5;
    let first = w.float(1.0) - half;
    let lost = (w.float(1.0) - first) - half;
    let fourth = (z * z).fma(polynomial, lost);
    first + r.fma(-below, fourth)
}

/// The sine, or with `more` right angles added, the cosine.
fn wave<'w>(w: &'w Writer, angle: &Angle<'w>, more: i32) -> Num<'w> {
    let turns = angle.turns + more;
    let odd = (turns & 1).ne(0);
    let y = odd.select(near_cosine(w, angle), near_sine(w, angle));
    let sign = (turns & 2) << (w.format.float.bits() as i32 - 2);
    y.flipped(sign)
}

/// In `f32`, sine and cosine are accurate enough without the low part, and faster.
fn angle_of_wave<'w>(w: &'w Writer, x: Num<'w>, of_large: Func) -> Angle<'w> {
    reduced(w, x.abs(), of_large, w.format.float == Scalar::F64)
}

pub(super) fn sin<'w>(w: &'w Writer, x: Num<'w>, of_large: Func) -> Num<'w> {
    wave(w, &angle_of_wave(w, x, of_large), 0).flipped(x.sign())
}

pub(super) fn cos<'w>(w: &'w Writer, x: Num<'w>, of_large: Func) -> Num<'w> {
    wave(w, &angle_of_wave(w, x, of_large), 1)
}

pub(super) fn tan<'w>(w: &'w Writer, x: Num<'w>, of_large: Func) -> Num<'w> {
    let angle = reduced(w, x.abs(), of_large, true);
    let r = angle.rest;
    let z = r * r;
    let below = angle.below.unwrap_or(w.float(0.0));
    let above = (r * z).fma(z.polynomial(w.format.numbers.tan), below);
    let y = r + above;
    let lost = (r - y) + above;
    // -1 / (y + lost), from -1 / y.
    let q = w.float(-1.0) / y;
    let missing = q.fma(lost, q.fma(y, 1.0));
    let cotangent = q.fma(missing, q);
    let odd = (angle.turns & 1).ne(0);
    odd.select(cotangent, y).flipped(x.sign())
}
