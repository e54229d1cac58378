//! Remainders, and rounding to integers with halves away from zero.

use super::write::{Num, Writer};
use wuji_ir::entities::Func;

/// `a - b trunc(a / b)` for `0 < b <= a`, if the quotient fits the precision.
fn step<'w>(a: Num<'w>, b: Num<'w>) -> Num<'w> {
    let q = (a / b).trunc();
    // A multiple of the last bit of `b`, and no larger than `b`: exact.
    let r = q.fma(-b, a);
    // The quotient may have been rounded up to the next integer.
    r.lt(0.0).select(r + b, r)
}

/// The largest quotient for [`step`].
fn limit(w: &Writer) -> f64 {
    2f64.powi(w.format.fraction as i32)
}

pub(super) fn rem<'w>(w: &'w Writer, x: Num<'w>, y: Num<'w>, of_large: Func) -> Num<'w> {
    let (a, b) = (x.abs(), y.abs());
    let large = (a / b).ge(limit(w)) & a.lt(f64::INFINITY) & b.gt(0.0);
    let types = [w.format.float];
    let found = w.branch(
        large,
        &types,
        || w.call(of_large, &[a, b], &types),
        || vec![step(a, b)],
    );
    let r = a.lt(b).select(a, found[0]);
    let senseless = a.eq(f64::INFINITY) | b.eq(0.0) | x.is_nan() | y.is_nan();
    senseless.select(w.nan(), r.signed_as(x))
}

/// The remainder of positive finite numbers with a large quotient: first by multiples of the divisor with powers of
/// two.
pub(super) fn rem_large<'w>(w: &'w Writer, a: Num<'w>, b: Num<'w>) -> Num<'w> {
    let format = w.format;
    let fraction = format.fraction as i32;
    let smallest = format.pick(f64::from(f32::MIN_POSITIVE), f64::MIN_POSITIVE);
    let tiny = b.lt(smallest);
    let b_field = tiny.select(b * limit(w), b).bits() >> fraction;
    let b_exponent = tiny.select(b_field - fraction, b_field);
    let left = w.repeat(
        a,
        |a| (a / b).ge(limit(w)),
        |a| {
            // The divisor is between 2^-(p - 1) and 2^-(p - 3) of the number, which is normal: the quotient is
            // large.
            let n = (a.bits() >> fraction) - b_exponent - (fraction - 1);
            let half = n >> 1;
            let multiple = b * w.power_of_two(half) * w.power_of_two(n - half);
            step(a, multiple)
        },
    );
    left.lt(b).select(left, step(left, b))
}

pub(super) fn round<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let whole = x.trunc();
    let next = whole + w.float(1.0).signed_as(x);
    (x - whole).abs().ge(0.5).select(next, whole)
}
