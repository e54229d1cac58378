//! Vectors of three scalars.

use crate::real::Real;

pub(super) fn point<T: Real>(points: &[T], n: usize) -> [T; 3] {
    [points[3 * n], points[3 * n + 1], points[3 * n + 2]]
}

pub(super) fn plus<T: Real>(a: [T; 3], b: [T; 3]) -> [T; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(super) fn minus<T: Real>(a: [T; 3], b: [T; 3]) -> [T; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(super) fn times<T: Real>(a: [T; 3], factor: T) -> [T; 3] {
    a.map(|x| x * factor)
}

pub(super) fn dot<T: Real>(a: [T; 3], b: [T; 3]) -> T {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn cross<T: Real>(a: [T; 3], b: [T; 3]) -> [T; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

pub(super) fn length<T: Real>(a: [T; 3]) -> T {
    dot(a, a).sqrt()
}
