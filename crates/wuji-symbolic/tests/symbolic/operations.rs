//! The operations that tests of backends and of derivatives go through.

use wuji_symbolic::Real;

/// Every operation that has a derivative, on positive numbers.
pub(crate) fn smooth<T: Real>(x: &[T]) -> Vec<T> {
    let (a, b) = (x[0], x[1]);
    let small = a * T::from_f64(0.25);
    vec![
        -a,
        a.abs(),
        (-a).abs(),
        a.sqrt(),
        a.sin(),
        a.cos(),
        a.tan(),
        small.asin(),
        small.acos(),
        a.atan(),
        a.sinh(),
        a.cosh(),
        a.tanh(),
        a.exp(),
        a.exp2(),
        a.ln(),
        a.log2(),
        a.log10(),
        a + b,
        a - b,
        a * b,
        a / b,
        a.min(b),
        a.max(b),
        a.powf(b),
        a.powi(-3),
        a.atan2(b),
        T::select(a.less(b), a * a, b * b * a),
        a.floor() * b,
    ]
}

/// Every operation, on positive numbers.
pub(crate) fn every<T: Real>(x: &[T]) -> Vec<T> {
    let (a, b) = (x[0], x[1]);
    let far = a * T::from_f64(3.75) - T::from_f64(2.5);
    let less = a.less(b);
    let choose = |condition: T::Mask| T::select(condition, a, b * b);
    let mut all = smooth(x);
    all.extend([
        far.abs(),
        far.floor(),
        far.ceil(),
        far.round(),
        far.trunc(),
        choose(less),
        choose(a.less_equal(b)),
        choose(a.equals(a)),
        choose(!less & a.less(T::from_f64(1.5))),
        choose(less | b.less_equal(T::from_f64(0.75))),
    ]);
    all
}
