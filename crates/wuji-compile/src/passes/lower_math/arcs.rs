//! Inverse circular functions.

use super::write::{Num, Writer};

/// The range of the polynomial. Smaller tangents are not reduced further: rounding in the reduction would lose too
/// much of the angle.
const NEAR: f64 = 0.66;
/// The tangent of three eighths of pi.
const FAR: f64 = std::f64::consts::SQRT_2 + 1.0;

/// `quarters * pi/4 + atan(t)` for `|t| <= 0.66`.
fn angle<'w>(w: &'w Writer, quarters: Num<'w>, t: Num<'w>) -> Num<'w> {
    let numbers = w.format.numbers;
    let z = t * t;
    let below = (t * z).fma(z.polynomial(numbers.atan), quarters * numbers.quarter_pi[1]);
    quarters.fma(numbers.quarter_pi[0], t + below)
}

pub(super) fn atan<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let (zero, one) = (w.float(0.0), w.float(1.0));
    let a = x.abs();
    let (middle, large) = (a.gt(NEAR), a.gt(FAR));
    // atan a = pi/4 + atan((a - 1) / (a + 1)) = pi/2 - atan(1 / a)
    let above = large.select(w.float(-1.0), middle.select(a - 1.0, a));
    let below = large.select(a, middle.select(a + 1.0, one));
    let quarters = large.select(w.float(2.0), middle.select(one, zero));
    angle(w, quarters, above / below).signed_as(x)
}

pub(super) fn atan2<'w>(w: &'w Writer, y: Num<'w>, x: Num<'w>) -> Num<'w> {
    let (zero, one) = (w.float(0.0), w.float(1.0));
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay.gt(ax);
    let (small, large) = (steep.select(ax, ay), steep.select(ay, ax));
    let both_endless = small.eq(f64::INFINITY);
    let (small, large) = (
        both_endless.select(one, small),
        both_endless.select(one, large),
    );
    // The sum must not overflow, and a product must not become subnormal.
    let scale = w.float(w.format.pick(2f64.powi(30), 2f64.powi(60)));
    let scale = large.gt(1.0).select(w.float(0.25), scale);
    let (a, b) = (small * scale, large * scale);
    let middle = a.gt(b * NEAR);
    let above = middle.select(a - b, small);
    let below = middle.select(a + b, large);
    let below = large.eq(0.0).select(one, below);
    let t = above / below;
    let quarters = middle.select(one, zero);
    // From the first octant to that of the point.
    let quarters = steep.select(w.float(2.0) - quarters, quarters);
    let left = x.sign().ne(0);
    let quarters = left.select(w.float(4.0) - quarters, quarters);
    let t = (steep ^ left).select(-t, t);
    let found = angle(w, quarters, t);
    let nan = x.is_nan() | y.is_nan();
    nan.select(w.nan(), found.signed_as(y))
}

/// The reduced argument of an arc sine: `x` up to 1/2, and the sine of half the angle to 1 above, where `1 - x = 2
/// sin^2(angle / 2)`.
struct Arc<'w> {
    /// Whether `x` is above 1/2.
    far: Num<'w>,
    sine: Num<'w>,
    /// The angle minus its sine.
    more: Num<'w>,
}

/// Up to 1/2 the argument keeps the sign of `x`.
fn arc<'w>(w: &'w Writer, x: Num<'w>) -> Arc<'w> {
    let a = x.abs();
    let far = a.gt(0.5);
    let half = (w.float(1.0) - a) * 0.5;
    let z = far.select(half, a * a);
    let sine = far.select(half.sqrt(), x);
    let more = (sine * z) * z.polynomial(w.format.numbers.asin);
    Arc { far, sine, more }
}

pub(super) fn asin<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let [high, low, _] = w.format.numbers.half_pi;
    let a = arc(w, x.abs());
    let twice = a.sine + a.sine;
    let rest = w.float(high) - twice;
    let lost = (w.float(high) - rest) - twice;
    let far = rest + a.more.fma(-2.0, lost + low);
    a.far.select(far, a.sine + a.more).signed_as(x)
}

pub(super) fn acos<'w>(w: &'w Writer, x: Num<'w>) -> Num<'w> {
    let [high, low, _] = w.format.numbers.half_pi;
    let a = arc(w, x);
    let from_right = w.float(high) - (a.sine + (a.more - low));
    let to_zero = a.sine + a.more;
    let far = x.lt(0.0).select(from_right, to_zero);
    a.far.select(far + far, from_right)
}
