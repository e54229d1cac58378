//! Exponentials and hyperbolic functions.

use super::write::{Num, Writer};

/// `e^x = 2^n (high + low)` with extra precision, for a finite `x`.
struct Parts<'w> {
    n: Num<'w>,
    high: Num<'w>,
    low: Num<'w>,
}

/// `x - n ln 2`, with the first part of `ln 2` subtracted: `n`, also as an integer, and the remainder.
fn reduced<'w>(w: &'w Writer, x: Num<'w>) -> (Num<'w>, Num<'w>, Num<'w>) {
    let (n, whole) = x.nearest_whole(w.format.numbers.log2_e[0]);
    (n, whole, n.fma(-w.format.numbers.ln2[0], x))
}

/// `e^x` without handling overflow and underflow: `2^n` times a number near 1.
fn near_one<'w>(w: &'w Writer, x: Num<'w>) -> (Num<'w>, Num<'w>) {
    let numbers = w.format.numbers;
    let (n, whole, rest) = reduced(w, x);
    let r = n.fma(-numbers.ln2[1], rest);
    if w.machine.has_exp2 {
        return (whole, (r * numbers.log2_e[0]).exp2());
    }
    let above = (r * r).fma(r.polynomial(numbers.exp), r);
    (whole, above + 1.0)
}

fn parts<'w>(w: &'w Writer, x: Num<'w>) -> Parts<'w> {
    let numbers = w.format.numbers;
    let (n, whole, rest) = reduced(w, x);
    let r = n.fma(-numbers.ln2[1], rest);
    let lost = n.fma(-numbers.ln2[1], rest - r);
    let second = (r * r).fma(r.polynomial(numbers.exp), lost);
    let above = r + second;
    let lost = (r - above) + second;
    let high = above + 1.0;
    let low = (above - (high - 1.0)) + lost;
    Parts {
        n: whole,
        high,
        low,
    }
}

/// Uses the machine's `exp2` instruction. The exponent of the other factor is clamped; the instruction handles
/// overflow and infinities.
fn exp_by_instruction<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let numbers = w.format.numbers;
    let bound = (w.format.bias - 1) as f64;
    let power = (x * numbers.log2_e[0]).min(bound).max(-bound);
    let (n, whole) = power.nearest_whole(1.0);
    let r = n.fma(-numbers.ln2[1], n.fma(-numbers.ln2[0], x));
    (r * numbers.log2_e[0]).exp2() * w.power_of_two(whole)
}

pub(super) fn exp<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    if w.machine.has_exp2 {
        return exp_by_instruction(w, x);
    }
    if w.machine.flushes {
        let (n, near) = near_one(w, x);
        // The arguments of the smallest and of the largest normal number.
        let (lowest, highest) = w.format.pick(
            (-87.336_540, 88.722_831),
            (-708.396_418_532_264_1, 709.782_712_893_384),
        );
        // Infinity above, and NaN for NaN.
        let y = (x.le(highest)).select(near.with_exponent(n), x + f64::INFINITY);
        return x.lt(lowest).select(w.float(0.0), y);
    }
    limited(w, x, w.format.pick((-104.0, 89.0), (-746.0, 710.0)), |x| {
        let (n, near) = near_one(w, x);
        near.scaled(n)
    })
}

pub(super) fn exp2<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let numbers = w.format.numbers;
    let limits = w.format.pick((-151.0, 129.0), (-1076.0, 1025.0));
    limited(w, x, limits, |x| {
        let (n, whole) = x.nearest_whole(1.0);
        let r = x - n;
        let second = (r * r).fma(r.polynomial(numbers.exp2), r * numbers.ln2_pair[1]);
        let near = r.fma(numbers.ln2_pair[0], second) + 1.0;
        near.scaled(whole)
    })
}

/// A power that is zero below and infinite above the range of arguments. It is computed of numbers in this range only: of others, the
/// exponent overflows, and processors take 150 cycles for a product that happens to be subnormal.
fn limited<'w>(
    w: &'w Writer,
    x: Num<'w>,
    (lowest, highest): (f64, f64),
    power: impl FnOnce(Num<'w>) -> Num<'w>,
) -> Num<'w> {
    let (is_zero, zero) = (x.lt(lowest), w.float(0.0));
    let bounded = x.gt(highest).select(w.float(highest), x);
    // The power of the highest number overflows.
    is_zero.select(zero, power(is_zero.select(zero, bounded)))
}

/// `(e^x + sign e^-x) / 2` for `x >= 0`; with a sign of -1 for `x >= 1`.
fn mean<'w>(w: &'w Writer, x: Num<'w>, sign: f64) -> Num<'w> {
    let e = parts(w, x);
    let inverse = w.float(1.0) / e.high;
    let inverse = (e.low * inverse).fma(-inverse, inverse);
    // For a large power the reciprocal is negligible.
    let counted = e.n.min(w.format.pick(60, 500));
    let small = inverse * w.power_of_two(-(counted + counted));
    let sum = e.high + small.fma(sign, e.low);
    let y = sum.scaled(e.n - 1);
    x.gt(w.format.pick(90.0, 711.0)).select(w.infinity(), y)
}

pub(super) fn cosh<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    mean(w, x.abs(), 1.0)
}

pub(super) fn sinh<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let a = x.abs();
    let z = a * a;
    let near_zero = (a * z).fma(z.polynomial(w.format.numbers.sinh), a);
    let y = a.lt(1.0).select(near_zero, mean(w, a, -1.0));
    y.signed_as(x)
}

pub(super) fn tanh<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let a = x.abs();
    let z = a * a;
    let near_zero = (a * z).fma(z.polynomial(w.format.numbers.tanh), a);
    // Beyond that the result is 1.
    let twice = a.gt(20.0).select(w.float(40.0), a + a);
    let (n, near) = near_one(w, twice);
    let power = near * w.power_of_two(n);
    let far = w.float(1.0) - w.float(2.0) / (power + 1.0);
    a.lt(0.55).select(near_zero, far).signed_as(x)
}
