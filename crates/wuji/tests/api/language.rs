//! Every construct of the language: a `#[func]` gives the same on the host and in a kernel.

use crate::agree::worlds;
use wuji::prelude::*;

const WEIGHTS: [f32; 4] = [0.5, 1.5, -2.0, 8.0];
const GRID: [[i32; 3]; 2] = [[1, 2, 3], [4, 5, 6]];
const ORIGIN: Vec2 = vec2(3.0, -1.0);

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Particle {
    position: Vec3,
    mass: f32,
    kind: (u8, bool),
}

impl Particle {
    #[func]
    fn momentum(self, v: Vec3) -> Vec3 {
        v * self.mass
    }

    #[func]
    fn moved(&self, by: f32) -> Particle {
        let p = *self;
        Particle {
            position: p.position + by,
            ..p
        }
    }

    const UNIT: f32 = 0.25;

    #[func]
    fn new(mass: f32) -> Self {
        Particle {
            position: Vec3::splat(Self::UNIT),
            mass,
            kind: (7, true),
        }
    }
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Complex(f32, f32);

impl Complex {
    #[func]
    fn mul(self, o: Complex) -> Complex {
        Complex(self.0 * o.0 - self.1 * o.1, self.0 * o.1 + self.1 * o.0)
    }
    /// The name of a built-in method, on a type of the user's.
    #[func]
    fn abs(self) -> f32 {
        (self.0 * self.0 + self.1 * self.1).sqrt()
    }
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Pair<T> {
    a: T,
    b: T,
}

#[func]
fn swap<T: Num>(p: Pair<T>) -> Pair<T> {
    Pair { a: p.b, b: p.a }
}

#[func]
fn factorial(n: i32) -> i32 {
    if n <= 1 { 1 } else { n * factorial(n - 1) }
}

#[func]
fn is_even(n: u32) -> bool {
    if n == 0 { true } else { is_odd(n - 1) }
}

#[func]
fn is_odd(n: u32) -> bool {
    if n == 0 { false } else { is_even(n - 1) }
}

#[func]
fn power<T: Num, const N: usize>(x: T) -> T {
    let mut p = T::ONE;
    for _ in unroll(0..N) {
        p *= x;
    }
    p
}

#[func]
fn sum_of(values: [f32; 4]) -> f32 {
    let mut s = 0.0;
    for k in 0..4 {
        s += values[k];
    }
    s
}

#[func]
fn squares(n: i32) -> [i32; 5] {
    let mut out = [0; 5];
    for k in 0..5 {
        out[k] = k as i32 * k as i32 + n;
    }
    out
}

agree! {
    fn locals(x: f32) -> f32 {
        let a = x + 1.0;
        let a = a * 2.0;
        let mut b = a;
        b -= 0.5;
        {
            let a = 100.0;
            b += a;
        }
        b /= a;
        b %= 7.0;
        let c;
        if b > 3.0 {
            c = 1.0;
        } else {
            c = -1.0;
        }
        b * c
    } with (1.0), (-3.25), (1e6);

    fn if_values(n: i32) -> i32 {
        let a = if n > 0 { 1 } else if n < -10 { 2 } else { 3 };
        let b = { let t = a * 2; t + 1 };
        if b == 3 { return -1; }
        a * 10 + b
    } with (5), (-5), (-50);

    fn while_loops(n: i32) -> i32 {
        let mut i = 0;
        let mut s = 0;
        while i < n {
            i += 1;
            if i % 3 == 0 { continue; }
            if s > 50 { break; }
            s += i;
        }
        s
    } with (0), (5), (100);

    fn loop_values(n: i32) -> i32 {
        let mut k = n;
        let found = loop {
            if k % 7 == 0 { break k * 2; }
            if k > 1000 { break -1; }
            k += 1;
        };
        found + 1
    } with (1), (14), (999);

    fn labels(n: i32) -> i32 {
        let mut count = 0;
        'outer: for i in 0..n {
            for j in 0..n {
                if j > i { continue 'outer; }
                if i * j > 20 { break 'outer; }
                count += i + j;
            }
        }
        let v = 'block: {
            if count > 10 { break 'block 1; }
            if count > 5 { break 'block 2; }
            3
        };
        count * 10 + v
    } with (0), (3), (10);

    fn ranges(lo: i32, hi: i32) -> i64 {
        let mut s = 0i64;
        for i in lo..hi { s = (s * 3 + i as i64) % 1_000_003; }
        for i in (lo..hi).rev() { s = (s * 5 + i as i64) % 1_000_003; }
        for i in (lo..hi).step_by(3) { s = (s * 7 + i as i64) % 1_000_003; }
        for i in (lo..hi).rev().step_by(2) { s = (s * 11 + i as i64) % 1_000_003; }
        for i in (lo..hi).step_by(2).rev() { s = (s * 13 + i as i64) % 1_000_003; }
        for i in lo..=hi { s = (s * 3 + i as i64) % 1_000_003; }
        for i in (lo..=hi).rev() { s = (s * 3 + i as i64) % 1_000_003; }
        s
    } with (0, 4), (-3, 2), (5, 5), (6, 2);

    fn unsigned_ranges(n: usize) -> usize {
        let mut s = 0;
        for i in (0..n).rev() { s = (s * 3 + i) % 10007; }
        for i in 250u8..=255 { s += i as usize; }
        for i in (i64::MAX - 2)..=i64::MAX { s += (i % 10) as usize; }
        s
    } with (0), (1), (9);

    fn grids(n: i32) -> i32 {
        let mut s = 0;
        for [i, j] in grid([0..n, 1..3]) { s = s * 2 + i - j; }
        for p in grid([0..2, 0..n]) { s += p.x * 10 + p.y; }
        s
    } with (0), (3);

    fn short_circuit(a: i32, b: i32) -> i32 {
        let mut n = 0;
        if a > 0 && { n += 1; b > 0 } { n += 10; }
        if a > 0 || { n += 100; b > 0 } { n += 1000; }
        let c = a > 1 && b > 1 || a == b;
        n + if !c { 7 } else { 0 }
    } with (0, 0), (1, 0), (0, 1), (2, 2);

    fn integer_operators(a: i32, b: i32) -> i64 {
        let mut s = (a & b) as i64 + (a | b) as i64 * 3 + (a ^ b) as i64 * 5 + (!a) as i64;
        s += ((a << 3) as i64) + ((a >> 2) as i64) + (((a as u32) >> 2) as i64);
        s += (a / 7) as i64 + (a % 7) as i64 + (-a) as i64;
        let mut m = a;
        m &= 255; m |= 1024; m ^= b; m <<= 1; m >>= 2; m *= 3; m -= b; m /= 2; m %= 1000;
        s + m as i64 + (a == b) as i64 + ((a < b) as i64) * 2 + ((a >= b) as i64) * 4 + ((a != b) as i64) * 8
    } with (12345, 678), (-5, 3), (77, 77);

    fn casts(x: f32, n: i32) -> (i32, u8, i64, f64, u32, i8, f32) {
        (x as i32, x as u8, n as i64, x as f64, n as u32, n as i8, (n > 3) as u8 as f32)
    } with (3.7, 300), (-1.5, -2), (1e20, 7), (f32::NAN, 0);

    fn literals(x: i8) -> (i8, u64, f64, f32, u16) {
        (-128i8 + x, 0xffff_ffff_ffff_ffff, 1e-300, 0.1f32 + 1f32, 0b1010_1010)
    } with (0), (3);

    fn tuples(a: f32, b: i32) -> (f32, i32) {
        let t = (b, (a, a * 2.0));
        let (n, (x, y)) = t;
        let (mut u, v) = (x + y, n + t.0);
        u += (t.1).1;
        let mut w = (1, 2);
        w.0 += v;
        (w.0, w.1) = (w.1, w.0);
        (u + w.0 as f32, w.1)
    } with (1.5, 4);

    fn structs(m: f32) -> Particle {
        let mut p = Particle { position: vec3(1.0, 2.0, 3.0), mass: m, kind: (1, false) };
        p.position.y = 5.0;
        p.position += p.momentum(vec3(1.0, 0.0, -1.0));
        p.kind.0 += 3;
        p.kind = (p.kind.0, !p.kind.1);
        let q = p.moved(0.5);
        let Particle { position, mass, kind } = q;
        let r = Particle::new(mass + position.x + kind.0 as f32);
        if r.kind == (7, true) { q.moved(r.mass) } else { q }
    } with (2.0), (-1.0);

    fn tuple_structs(a: f32, b: f32) -> (Complex, f32) {
        let z = Complex(a, b);
        let w = z.mul(z).mul(Complex(0.5, -0.5));
        let Complex(re, _) = w;
        (w, w.abs() + re)
    } with (1.0, 2.0);

    fn generic_structs(a: i64, b: i64) -> Pair<i64> {
        swap(swap(swap(Pair { a, b })))
    } with (1, 2);

    fn recursion(n: i32) -> (i32, bool) {
        (factorial(n), is_even(n as u32))
    } with (1), (5), (10);

    fn const_generics(x: i32, y: f32) -> (i32, f32, f32) {
        (power::<i32, 3>(x), power::<f32, 2>(y), power::<f32, 0>(y))
    } with (3, 0.5);

    fn closures(a: f32, n: i32) -> f32 {
        let w = a * 2.0;
        let f = |x: f32| x * w;
        let g = |x: f32, k: i32| -> f32 { if k > 2 { f(x) } else { x } };
        let pair = |x| (x, x + 1);
        let (p, q) = pair(n);
        g(a, n) + g(1.0, 0) + (p * q) as f32
    } with (1.5, 3), (2.0, 0);

    fn constants(k: usize) -> f32 {
        let c = WEIGHTS[k] + WEIGHTS[1] + ORIGIN.x * f32::EPSILON + std::f32::consts::PI;
        let mut s = 0;
        for r in 0..2 { for c in 0..3 { s = s * 10 + GRID[r][c]; } }
        c + s as f32
    } with (0), (2), (3);

    fn local_arrays(n: i32) -> f32 {
        let mut a = [0.0; 8];
        for k in 0..8 { a[k] = k as f32 * 0.5; }
        a[3] += 10.0;
        let b = a;
        a[(n & 7) as usize] = -1.0;
        let mut c = [[0; 3]; 4];
        for i in 0..4 { for j in 0..3 { c[i][j] = (i * 3 + j) as i32; } }
        c[1] = [7, 8, 9];
        let row = c[1];
        b[3] + a[3] + a[n & 7] + (c[3][2] + row[2] + c[1][0]) as f32 + b.len() as f32
    } with (3), (5);

    fn arrays_of_vectors(n: i32) -> Vec2 {
        let mut a = [vec2(1.0, 2.0), vec2(3.0, 4.0), Vec2::ZERO];
        a[2].y = n as f32;
        a[(n % 3) as usize] += 1.0;
        a[0] + a[1] * 2.0 + a[2]
    } with (0), (1), (2);

    fn array_arguments(x: f32) -> (f32, i32) {
        let s = squares(3);
        let t = squares(1);
        (sum_of([x, 1.0, x * x, 4.0]) + sum_of([x; 4]), s[4] + t[2])
    } with (2.0);

    fn big_array(n: i32) -> i32 {
        let mut a = [1; 100];
        a[(n % 100) as usize] = 50;
        let mut s = 0;
        for k in 0..100 { s += a[k]; }
        s
    } with (0), (99);

    fn matches(n: i32) -> i32 {
        let a = match n {
            0 => 10,
            1 | 2 => 20,
            3..=5 => 30,
            -5..0 => 35,
            k if k % 2 == 0 => k,
            _ => 40,
        };
        let b = match n > 3 { true => 1, false => 2 };
        a * 10 + b
    } with (0), (2), (4), (-3), (8), (9), (-100);
}

agree! {
    fn vector_algebra(a: Vec3, b: Vec3) -> (f32, Vec3, f32, Vec3, f32) {
        (a.dot(b), a.cross(b), a.norm(), b.normalized(), a.xy().cross(b.yz()))
    } with (vec3(1.0, 2.0, 3.0), vec3(-1.0, 0.5, 2.0));

    fn vector_operators(a: Vec2, s: f32) -> Vec2 {
        let mut v = a * s + s * a - a / 2.0 + (1.0 - a) * a;
        v += a; v -= 1.0; v *= 2.0; v /= a;
        v.x += v.y; v[1] -= 1.0;
        -v % 10.0
    } with (vec2(1.5, -2.5), 3.0);

    fn vector_indices(v: Vec4, k: i32) -> (f32, Vec4) {
        let mut w = v;
        w[k as usize] = 100.0;
        w[0] += w[3];
        (v[k] + w[k] + v[2], w)
    } with (vec4(1.0, 2.0, 3.0, 4.0), 0), (vec4(1.0, 2.0, 3.0, 4.0), 3);

    fn swizzles(v: Vec4) -> (Vec2, Vec3, Vec4, Vec2) {
        (v.wz(), v.xxy(), v.wzyx(), v.xyz().zy())
    } with (vec4(1.0, 2.0, 3.0, 4.0));

    fn vector_methods(v: Vec3, w: Vec3) -> (Vec3, Vec3, f32, f32, bool, Vec3, Vec4, f32, Vec3) {
        (v.min(w), v.abs().max(w).floor(), v.sum() + w.product(), v.max_component() - w.min_component(),
         v.cmp_lt(w).any() && !v.cmp_gt(w).all() && v != w && v == v,
         v.cmp_lt(w).select(v, w), v.extend(9.0), v.distance(w), v.clamp(Vec3::ZERO, Vec3::ONE))
    } with (vec3(1.25, -2.5, 3.0), vec3(-1.0, 0.5, 4.0));

    fn integer_vectors(v: IVec2, n: i32) -> (IVec2, Vec2, bool) {
        let u = (v + 1) * n - ivec2(1, 2);
        ((u & 7) | (v << 1), u.cast::<f32>() * 0.5, u == v)
    } with (ivec2(3, -4), 2);

    fn matrix_algebra(a: Mat2, b: Mat2, v: Vec2) -> (Mat2, Vec2, f32, Mat2, Mat2) {
        let mut m = a * b + a.transpose() - b * 2.0;
        m[[0, 1]] += 1.0;
        m += a;
        m *= 0.5;
        (m, a * v, a.determinant() + b.trace() + m.sum(), a.inverse(), a.component_mul(b))
    } with (mat2(1.0, 2.0, 3.0, 4.0), mat2(0.5, -1.0, 2.0, 1.0), vec2(1.0, -1.0));

    fn matrix_parts(m: Mat3, k: i32) -> (Vec3, Vec3, f32, Mat3, Vec3) {
        let mut n = Mat3::identity();
        n[[k, 1]] = 5.0;
        (m.row(1), m.col(k as usize), m[[k, 2]] + n[[k, 1]], Mat3::from_diagonal(m.diagonal()) * n,
         Mat3::from_cols([m.row(0), m.row(1), m.row(2)]) * vec3(1.0, 2.0, 3.0))
    } with (Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]), 0),
        (Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]), 2);

    fn outer_products(a: Vec2, b: Vec3) -> Matrix<f32, 2, 3> {
        a.outer(b) + Matrix::new([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    } with (vec2(2.0, 3.0), vec3(1.0, -1.0, 0.5));

    fn inverses(m: DMat4) -> (DMat4, f64) {
        (m.inverse(), m.determinant())
    } with (Matrix([[4.0, 1.0, 0.5, 2.0], [1.0, 3.0, -1.0, 0.0], [0.0, 2.0, 5.0, 1.0], [1.0, -1.0, 0.0, 2.0]]));

    fn decompositions(m: DMat3) -> (DVec3, DMat3, DVec3, DMat3) {
        let (u, sigma, v) = m.svd();
        let (values, vectors) = (m + m.transpose()).symmetric_eigen();
        let (r, s) = m.polar();
        (sigma, u * v.transpose() - r, values, vectors * s)
    } with (Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 10.0]]));

    fn small_decompositions(m: Mat2) -> (Mat2, Vec2, Mat2) {
        m.svd()
    } with (mat2(1.0, 2.0, 3.0, 4.0)), (mat2(0.0, 0.0, 0.0, 0.0)), (mat2(1.0, 0.0, 0.0, -2.0));

    fn generic_dimension(v: Vec3, w: Vec2) -> (f32, f32) {
        (last(v), last(w))
    } with (vec3(1.0, 2.0, 3.0), vec2(4.0, 5.0));
}

/// A branch that is decided at compile time may index what only exists in that case.
#[func]
fn last<const N: usize>(v: Vector<f32, N>) -> f32 {
    if N == 3 { v[2] } else { v[1] }
}

agree! {
    fn float_math(x: f32, y: f32) -> ((f32, f32, f32, f32, f32), (f32, f32, f32, f32), (f32, f32, f32, f32)) {
        ((x.sqrt(), x.floor(), x.ceil(), x.round(), x.trunc()),
         (x.fract(), x.abs(), x.signum(), x.min(y)),
         (x.max(y), x.clamp(-1.0, 1.0), x.mul_add(y, 0.5), x.rem_euclid(y)))
    } with (2.5, 3.0), (-2.5, 3.0), (0.0, -1.5), (-0.0, 2.0), (f32::NAN, 1.0);

    fn float_questions(x: f64) -> (bool, bool, bool, u64, f64, f64) {
        (x.is_nan(), x.is_finite(), x.is_infinite(), x.to_bits(), f64::from_bits(4607182418800017408), x.copysign(-1.0))
    } with (1.5), (f64::INFINITY), (-0.0);

    fn powers(x: f32, n: i32) -> (f32, f32, f32) {
        (x.powi(3), x.powi(-2), x.recip() + n as f32)
    } with (2.0, 3), (-1.5, -2);

    fn integer_math(a: i32, b: i32) -> ((i32, i32, i32, i32), (i32, i32, i32, i32), (u32, u32, u32, u32)) {
        ((a.min(b), a.max(b), a.clamp(-3, 3), a.abs()),
         (a.signum(), a.pow(3), a.rem_euclid(b), a.div_euclid(b)),
         (a.count_ones(), a.leading_zeros(), a.trailing_zeros(), a.abs_diff(b)))
    } with (17, 5), (-17, 5), (-17, -5), (0, 3);

    fn bit_math(a: u32, n: u32) -> ((u32, u32, u32, u32), (u32, u32, u32), (u32, bool)) {
        ((a.rotate_left(n), a.rotate_right(n), a.swap_bytes(), a.reverse_bits()),
         (a.wrapping_add(u32::MAX), a.wrapping_mul(0x9e37_79b9), a.wrapping_sub(n)),
         (a.count_zeros(), a.is_power_of_two()))
    } with (0x1234_5678, 5), (1, 0), (u32::MAX, 31);

    fn small_integers(a: u8, b: i8) -> (u8, i8, u8, i8, u8, i32) {
        (a.wrapping_add(200), b.wrapping_neg(), a >> 3, b >> 1, a.rotate_left(3), a as i32 - b as i32)
    } with (100, -100), (255, 127), (0, -128);

    fn free_functions(a: f32, b: f32, c: bool) -> (f32, f32, f32, f32, f32, Vec2, i32) {
        (min(a, b), max(a, b), clamp(a, -1.0, 1.0), mix(a, b, 0.25), select(c, a, b),
         mix(vec2(a, b), vec2(b, a), 0.5) + max(vec2(a, b), Vec2::ZERO), max(min(3, 7), 2))
    } with (1.0, 2.0, true), (-5.0, 3.0, false);

    fn halves(x: f32) -> (f16, f32, f16) {
        let h = f16::from_f32(x);
        let g = h * h + h;
        (g, g.to_f32(), -h / f16::from_f32(3.0))
    } with (1.5), (0.1), (-7.0);

    fn conversions(a: u8, x: f32) -> (f64, i32, f32, f64, Vec2) {
        (f64::from(x), a.into(), a as f32, x.cast::<f64>(), ivec2(a as i32, 2).cast())
    } with (200, 1.5);

    fn function_syntax(a: f32, b: f32) -> (f32, f32, f32, Vec2) {
        (f32::max(a, b), f32::sqrt(b), Vec2::dot(vec2(a, b), vec2(b, a)), Vec2::default() + Vec2::new(a, b) + Vector([1.0, 2.0]))
    } with (1.0, 4.0);
}

#[test]
fn functions_with_rounding_of_their_own_are_close() {
    #[func]
    fn compute(x: f64, y: f64) -> Vector<f64, 18> {
        Vector([
            x.sin(),
            x.cos(),
            x.tan(),
            (x * 0.3).asin(),
            (x * 0.3).acos(),
            x.atan(),
            x.sinh(),
            x.cosh(),
            x.tanh(),
            x.exp(),
            x.exp2(),
            y.ln(),
            y.log2(),
            y.log10(),
            y.powf(x),
            x.atan2(y),
            y.rsqrt(),
            x.hypot(y),
        ])
    }
    #[kernel]
    fn run(world: &World, x: f64, y: f64) -> Vector<f64, 18> {
        compute(x, y)
    }
    for world in worlds() {
        for (x, y) in [(0.5, 2.0), (-1.25, 0.75), (2.0, 10.0)] {
            let (a, b) = (compute(x, y), run(&world, x, y).unwrap());
            for k in 0..18 {
                assert!(
                    (a[k] - b[k]).abs() <= 1e-14 * a[k].abs(),
                    "{k}: {a:?} {b:?}"
                );
            }
        }
    }
}

/// The same functions for many types.
macro_rules! for_types {
    ($check:ident: $($module:ident $t:ident),*) => {$(
        mod $module {
            use super::*;
            $check!($t);
        }
    )*};
}

macro_rules! integers {
    ($t:ident) => {
        agree! {
            fn arithmetic(a: $t, b: $t) -> (($t, $t, $t, $t, $t), ($t, $t, $t, $t, $t), ($t, $t, $t, $t)) {
                ((a.wrapping_add(b), a.wrapping_sub(b), a.wrapping_mul(b), a.wrapping_div(b), a.wrapping_rem(b)),
                 (a & b, a | b, a ^ b, !a, a.wrapping_neg()),
                 (a.wrapping_shl(3), a.wrapping_shr(3), a.min(b), a.max(b)))
            } with (100, 7), (1, 100), (0, 3), (<$t>::MAX, 2), (<$t>::MIN, 5);

            fn bits(a: $t, n: u32) -> ((u32, u32, u32, u32), ($t, $t, $t, $t), ($t, $t)) {
                ((a.count_ones(), a.count_zeros(), a.leading_zeros(), a.trailing_zeros()),
                 (a.rotate_left(n), a.rotate_right(n), a.swap_bytes(), a.reverse_bits()),
                 (a.wrapping_pow(5), a.clamp(3, 50)))
            } with (100, 3), (0, 0), (<$t>::MAX, 5), (<$t>::MIN, 7), (1, 1);

            fn compared(a: $t, b: $t) -> (bool, bool, bool, bool, bool, bool, bool) {
                (a == b, a != b, a < b, a <= b, a > b, a >= b, (a, b) == (b, a))
            } with (1, 2), (2, 2), (<$t>::MAX, <$t>::MIN);

            fn converted(a: $t) -> ((i8, i16, i32, i64, u8), (u16, u32, u64, f32, f64), (usize, isize, f16)) {
                ((a as i8, a as i16, a as i32, a as i64, a as u8),
                 (a as u16, a as u32, a as u64, a as f32, a as f64),
                 (a as usize, a as isize, f16::from_f32(a as f32)))
            } with (100), (<$t>::MAX), (<$t>::MIN), (0);

            fn euclid(a: $t, b: $t) -> ($t, $t, bool) {
                (a.rem_euclid(b), a.div_euclid(b), a.abs_diff(b) > 3)
            } with (100, 7), (<$t>::MIN, 3), (<$t>::MAX, 10);

            fn vectors(a: $t, b: $t) -> (Vector<$t, 3>, $t, $t) {
                let v = Vector([a, b, 1]);
                let w = v.min(Vector::splat(50)) + 2;
                (w, w.max_component(), w.xy().min_component())
            } with (100, 7), (3, 4);

            fn looped(n: $t) -> $t {
                let mut s = 0;
                for k in 0..n { s = s ^ k; }
                for k in (1..n).rev() { s = s.wrapping_mul(3).wrapping_add(k); }
                for k in (1..=n).step_by(3) { s = s.wrapping_mul(5).wrapping_sub(k); }
                s
            } with (0), (1), (20), (127);
        }
    };
}
for_types!(integers: int8 i8, int16 i16, int32 i32, int64 i64, int_size isize, uint8 u8, uint16 u16, uint32 u32, uint64 u64, uint_size usize);

macro_rules! float_types {
    ($t:ident) => {
        agree! {
            fn arithmetic(a: $t, b: $t) -> (($t, $t, $t, $t, $t), ($t, $t, $t, $t)) {
                ((a + b, a - b, a * b, a / b, a % b), (-a, a.min(b), a.max(b), a.abs()))
            } with (num(1.5), num(-2.25)), (num(0.0), num(3.0)), (num(f64::INFINITY), num(1.0)), (num(1e4), num(3e-3));

            fn rounded(a: $t) -> (($t, $t, $t, $t), ($t, $t, $t, $t)) {
                ((a.floor(), a.ceil(), a.round(), a.trunc()), (a.fract(), a.signum(), a.sqrt(), a.recip()))
            } with (num(2.5)), (num(-2.5)), (num(0.3)), (num(-0.0)), (num(-7.75));

            fn compared(a: $t, b: $t) -> ((bool, bool, bool, bool), (bool, bool, bool, bool, bool)) {
                ((a == b, a != b, a < b, a >= b), (a.is_nan(), a.is_finite(), a.is_infinite(), a.is_sign_negative(), b > a))
            } with (num(1.0), num(2.0)), (num(f64::NAN), num(2.0)), (num(-0.0), num(0.0)), (num(f64::INFINITY), num(1.0));

            fn mixed(a: $t, b: $t) -> ($t, $t, $t, Vector<$t, 2>, $t) {
                let v = Vector([a, b]);
                (a.mul_add(b, a), mix(a, b, num(0.25)), clamp(a, b, b + a), v * b - a, v.dot(v) + v.norm_sqr())
            } with (num(1.5), num(0.5)), (num(-3.0), num(2.0));

            fn converted(a: $t) -> (f32, f64, f16, i32, u8) {
                let x = a.cast::<f32>();
                (x, a.cast::<f64>(), a.cast::<f16>(), a.cast::<i32>(), x as u8)
            } with (num(1.5)), (num(-3.75)), (num(1000.0));
        }
    };
}
for_types!(float_types: float16 f16, float32 f32, float64 f64);

/// A constant of any float type.
#[func]
fn num<T: Float>(value: f64) -> T {
    T::from_f64(value)
}

/// Tokens of a kernel may come from a macro and from its caller, in one expression.
#[test]
fn kernels_of_macros() {
    macro_rules! filled {
        ($name:ident $ty:ident $from:literal $x:ident { $($value:tt)* }) => {
            #[kernel]
            fn $name(out: &Field<$ty, 1>) {
                for [i] in out {
                    let mut $x = $from + (i as $ty) * 2.0;
                    let mut sum = 0.0;
                    for _ in 0..3 {
                        sum += $($value)*;
                        $x += 1.0;
                    }
                    out[[i]] = sum;
                }
            }
        };
    }
    filled!(squares f32 0.5 x { x * x });
    filled!(halves f64 1.0 y { half(y) });
    #[func]
    fn half(x: f64) -> f64 {
        x / 2.0
    }
    let world = World::cpu().unwrap();
    let narrow = world.field::<f32, 1>("narrow", [2]).unwrap();
    let wide = world.field::<f64, 1>("wide", [2]).unwrap();
    squares(&narrow).unwrap();
    halves(&wide).unwrap();
    assert_eq!(narrow.to_vec().unwrap(), [8.75, 38.75]);
    assert_eq!(wide.to_vec().unwrap(), [3.0, 6.0]);
}

#[test]
fn long_expressions() {
    #[kernel]
    fn sum(world: &World, x: i32) -> i32 {
        x + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
            + x
    }
    for world in worlds() {
        assert_eq!(sum(&world, 2).unwrap(), 2 * (24 + 22 * 10));
    }
}
