//! Logarithms and powers.

use super::write::{Num, Writer};

/// `x = 2^k (1 + f)` with `1 + f` between the roots of 1/2 and 2, for a positive finite `x`.
fn split<'w>(w: &'w Writer, x: Num<'w>) -> (Num<'w>, Num<'w>) {
    let format = w.format;
    let (smallest, scale) =
        format.pick((f64::from(f32::MIN_POSITIVE), 24), (f64::MIN_POSITIVE, 54));
    let tiny = x.lt(smallest);
    let bits = tiny.select(x * 2f64.powi(scale), x).bits();
    let root = format.pick(
        i64::from(std::f32::consts::FRAC_1_SQRT_2.to_bits()),
        std::f64::consts::FRAC_1_SQRT_2.to_bits() as i64,
    );
    let k = (bits - root) >> format.fraction as i32;
    let m = (bits - (k << format.fraction as i32)).as_float();
    let k = tiny.select(k - scale, k);
    (k.to_float(), m - 1.0)
}

/// `(ln(1 + f) - f) / f^2`.
fn second<'w>(w: &'w Writer, f: Num<'w>) -> Num<'w> {
    f.fma(f.polynomial(w.format.numbers.log), -0.5)
}

/// Handles arguments that are not positive and finite.
fn with_ends<'w>(w: &'w Writer, x: Num<'w>, y: Num<'w>) -> Num<'w> {
    let bad = x.eq(0.0).select(w.float(f64::NEG_INFINITY), w.nan());
    let y = x.gt(0.0).select(y, bad);
    x.eq(f64::INFINITY).select(x, y)
}

pub(super) fn log<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let ln2 = w.format.numbers.ln2;
    let (k, f) = split(w, x);
    let low = (f * f).fma(second(w, f), k * ln2[1]);
    with_ends(w, x, k.fma(ln2[0], f + low))
}

/// The logarithm to another base: `f` and its low part, multiplied by a two-part factor.
fn other_base<'w>(w: &'w Writer, f: Num<'w>, factor: [f64; 2]) -> (Num<'w>, Num<'w>) {
    let high = f * factor[0];
    let low = f.fma(factor[1], f.fma(factor[0], -high));
    let below = (f * f) * second(w, f);
    (high, below.fma(factor[0], low))
}

pub(super) fn log2<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let (k, f) = split(w, x);
    let (high, low) = other_base(w, f, w.format.numbers.log2_e);
    with_ends(w, x, k + (high + low))
}

pub(super) fn log10<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let numbers = w.format.numbers;
    let (k, f) = split(w, x);
    let (high, low) = other_base(w, f, numbers.log10_e);
    let low = k.fma(numbers.log10_2[1], low);
    with_ends(w, x, k.fma(numbers.log10_2[0], high + low))
}

/// An unevaluated sum of two numbers (double-double arithmetic).
type Pair<'w> = (Num<'w>, Num<'w>);

/// The sum of two numbers, the larger one first.
fn sum<'w>(a: Num<'w>, b: Num<'w>) -> Pair<'w> {
    let high = a + b;
    (high, (a - high) + b)
}

/// Adds a number that is smaller than the first part of a pair.
fn plus<'w>((high, low): Pair<'w>, below: Num<'w>) -> Pair<'w> {
    (high, low + below)
}

/// A product of pairs.
fn product<'w>(a: Pair<'w>, b: Pair<'w>) -> Pair<'w> {
    let high = a.0 * b.0;
    let low = a.0.fma(b.0, -high);
    (high, a.1.fma(b.0, a.0.fma(b.1, low)))
}

/// The binary logarithm of a positive finite number, with about a dozen extra bits: the error is multiplied by the
/// exponent.
fn log2_pair<'w>(w: &'w Writer, x: Num<'w>) -> Pair<'w> {
    let numbers = w.format.numbers;
    let pair = |p: [f64; 2]| (w.float(p[0]), w.float(p[1]));
    let (k, f) = split(w, x);
    // s = f / (2 + f), and ln(1 + f) = 2 atanh s.
    let d = f + 2.0;
    let d_low = f - (d - 2.0);
    let inverse = w.float(1.0) / d;
    let s = f * inverse;
    let left = s.fma(-d_low, s.fma(-d, f));
    let s = (s, left * inverse);
    let z = product(s, s);
    // atanh s / s = 1 + z/3 + z^2 (...), where the last term needs no extra precision.
    let third = product(z, pair(numbers.third));
    let fourth = (z.0 * z.0) * z.0.polynomial(numbers.atanh);
    let u = plus(sum(third.0, fourth), third.1);
    let a = product(s, pair(numbers.twice_log2_e));
    let b = product(a, u);
    let (high, low) = plus(sum(a.0, b.0), a.1 + b.1);
    plus(sum(k, high), low)
}

/// `2^(high + low)`.
fn exp2_pair<'w>(w: &'w Writer, (high, low): Pair<'w>) -> Num<'w> {
    let numbers = w.format.numbers;
    let ln2 = numbers.ln2_pair;
    let (n, whole) = high.nearest_whole(1.0);
    // The low part has to be small, so that its power is `1 + low ln 2`.
    let (r, low) = sum(high - n, low);
    let below = r.fma(ln2[1], low * ln2[0]);
    let second = (r * r).fma(r.polynomial(numbers.exp2), below);
    let near = r.fma(ln2[0], second) + 1.0;
    let y = near.scaled(whole);
    // The low part of an overflowed number is NaN.
    let (lowest, highest) = w.format.pick((-151.0, 129.0), (-1076.0, 1025.0));
    let y = high.gt(highest).select(w.infinity(), y);
    high.lt(lowest).select(w.float(0.0), y)
}

pub(super) fn pow<'w>(w: &'w Writer, x: Num<'w>, y: Num<'w>) -> Num<'w> {
    let (zero, one) = (w.float(0.0), w.float(1.0));
    let infinity = f64::INFINITY;
    let a = x.abs();
    let (high, low) = log2_pair(w, a);
    let exponent = y * high;
    let below = y.fma(low, y.fma(high, -exponent));
    let power = exp2_pair(w, (exponent, below));
    let power = y.eq(1.0).select(a, power);
    // As `simplify` has them for constant exponents.
    let power = y.eq(2.0).select(a * a, power);
    let power = y.eq(0.5).select(a.sqrt(), power);
    // Powers of zero and infinity, and infinite exponents.
    let grows = (a.gt(1.0) ^ y.gt(0.0)).select(zero, infinity);
    let endless = y.abs().eq(infinity);
    let extreme = a.eq(0.0) | a.eq(infinity) | endless;
    let power = extreme.select(grows, power);
    let power = a.eq(1.0).select(one, power);
    // Negative bases have only integer powers, and odd ones change the sign.
    let whole = y.floor().eq(y);
    let half = y * 0.5;
    let odd = whole & half.floor().ne(half);
    let negative = x.sign().ne(0);
    let power = (negative & odd).select(-power, power);
    let senseless = x.lt(0.0) & a.lt(infinity) & whole.not();
    let power = senseless.select(w.nan(), power);
    let power = (x.is_nan() | y.is_nan()).select(w.nan(), power);
    (y.eq(0.0) | x.eq(1.0)).select(one, power)
}
