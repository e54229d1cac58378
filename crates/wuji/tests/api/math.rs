//! The math library: known values, and the same on the host and in kernels.

use expect_test::expect;
use std::f32::consts::{FRAC_PI_2, FRAC_PI_3, PI};
use wuji::math::*;
use wuji::prelude::*;

agree! {
    fn shaping(x: f32) -> (f32, f32, f32, f32, f32) {
        (saturate(x), step(0.5, x), smoothstep(0.0, 2.0, x), smootherstep(0.0, 2.0, x), sign(x))
    } with (-1.0), (0.0), (0.5), (1.0), (1.5), (7.0), (f32::NAN);

    fn remainders(x: f64) -> (f64, f64, f64, f64) {
        (fract(x), modulo(x, 3.0), modulo(x, -3.0), inverse_mix(1.0, 5.0, x))
    } with (-4.25), (4.25), (0.0), (3.0);

    fn refraction(v: Vec3, eta: f32) -> Vec3 {
        refract(v, vec3(0.0, 1.0, 0.0), eta)
    } with (vec3(0.6, -0.8, 0.0), 0.75), (vec3(0.96, -0.28, 0.0), 1.5);

    fn quaternions(a: Quat, b: Quat, v: Vec3) -> (Quat, Quat, Vec3, Mat3) {
        (a * b - a.conjugate(), -a + b * 2.0, (a * b).rotate(v), a.to_matrix())
    } with (Quat::new(0.1, 0.2, 0.3, 0.9), Quat::new(0.5, -0.5, 0.5, 0.5), vec3(1.0, 2.0, 3.0));

    fn quaternion_lengths(a: DQuat) -> (f64, f64, DQuat, DQuat) {
        (a.norm(), a.norm_sqr(), a.normalized(), a.inverse())
    } with (DQuat::new(1.0, 2.0, 2.0, 4.0));

    fn matrices(m: Mat3) -> (Quat, Mat3) {
        (Quat::from_matrix(m), Quat::from_matrix(m).to_matrix())
    } with (Mat3::identity()),
           (Mat3::from_diagonal(vec3(1.0, -1.0, -1.0))),
           (Mat3::from_diagonal(vec3(-1.0, 1.0, -1.0))),
           (Mat3::from_diagonal(vec3(-1.0, -1.0, 1.0)));

    fn complex_numbers(a: DComplex, b: DComplex) -> (DComplex, DComplex, DComplex, f64) {
        (a * b + a - b, a / b, -a.conjugate() * 2.0, a.norm_sqr())
    } with (Complex::new(1.0, 2.0), Complex::new(-0.5, 3.0));

    fn value_noise(p: Vec3) -> (f32, f32, f32) {
        (value_noise1(p.x), value_noise2(p.xy()), value_noise3(p))
    } with (vec3(0.0, 0.0, 0.0)), (vec3(0.25, -7.5, 3.75)), (vec3(1e9, -1e9, 3e30));

    fn perlin_noise(p: Vec3) -> (f32, f32, f32) {
        (perlin1(p.x), perlin2(p.xy()), perlin3(p))
    } with (vec3(3.0, -2.0, 0.0)), (vec3(0.25, -7.5, 3.75)), (vec3(1e9, -1e9, 3e30));

    fn simplex_noise(p: Vec3) -> (f32, f32) {
        (simplex2(p.xy()), simplex3(p))
    } with (vec3(0.0, 0.0, 0.0)), (vec3(0.25, -7.5, 3.75)), (vec3(0.5, 0.5, 0.5)), (vec3(0.1, 0.7, 0.4));

    fn fractal_noise(p: Vec2, octaves: i32) -> (f32, f32) {
        (fbm(|p| perlin2(p), p, octaves, 2.0, 0.5), fbm(|x| value_noise1(x), p.x, octaves, 1.9, 0.6))
    } with (vec2(0.3, 0.6), 5), (vec2(0.3, 0.6), 1), (vec2(0.3, 0.6), 0);

    fn hashes(x: u32) -> u32 { hash(x) } with (0), (1), (u32::MAX);
}

fn near<T: Float, const N: usize>(a: Vector<T, N>, b: Vector<T, N>) {
    let distance: f64 = (a - b).norm().cast();
    assert!(distance < 1e-5, "{a:?} {b:?}");
}

fn same_rotation(a: Quat, b: Quat) {
    assert!(a.dot(b).abs() > 1.0 - 1e-5, "{a:?} {b:?}");
}

#[test]
fn known_shapes() {
    assert_eq!(smoothstep(0.0, 1.0, 0.25f32), 0.15625);
    assert_eq!(smootherstep(0.0, 1.0, 0.25f64), 0.103515625);
    assert_eq!((step(1.0, 1.0f32), step(1.0, 0.99f32)), (1.0, 0.0));
    assert_eq!((modulo(-1.0f32, 3.0), fract(-0.25f32)), (2.0, 0.75));
    assert_eq!((sign(-0.0f32), sign(f32::NAN)), (0.0, 0.0));
    // Snell's law: sin 30 degrees, from water to air.
    let bent = refract(vec2(0.5, -(0.75f32).sqrt()), vec2(0.0, 1.0), 1.333);
    near(bent, vec2(0.6665, -(1.0f32 - 0.6665 * 0.6665).sqrt()));
}

#[test]
fn known_rotations() {
    let (x, y, z) = (
        vec3(1.0, 0.0, 0.0),
        vec3(0.0, 1.0, 0.0),
        vec3(0.0, 0.0, 1.0),
    );
    let q = Quat::from_axis_angle(z, FRAC_PI_2);
    near(q.rotate(x), y);
    near(q.to_matrix() * x, y);
    near(q.inverse().rotate(y), x);
    assert!((q.angle() - FRAC_PI_2).abs() < 1e-6);
    // The second factor first.
    let p = Quat::from_axis_angle(x, FRAC_PI_2);
    near((p * q).rotate(x), z);
    near((q * p).rotate(x), y);
    near(Quat::between(x, y).rotate(x), y);
    for v in [x, y, z, -x, vec3(0.6, 0.0, 0.8)] {
        near(Quat::between(v, -v).rotate(v), -v);
        near(Quat::between(v, v).rotate(v), v);
    }
    same_rotation(Quat::from_rotation_vector(z * FRAC_PI_2), q);
    near(Quat::from_rotation_vector(z * 0.0).rotate(x), x);
    near(rotation2(FRAC_PI_2) * vec2(1.0, 0.0), vec2(0.0, 1.0));
    near(direction(FRAC_PI_2), vec2(0.0f32, 1.0));
    near(rotation3(vec3(0.0, 0.0, FRAC_PI_2)) * x, y);
    near(rotation3(vec3(FRAC_PI_2, 0.0, FRAC_PI_2)) * y, z);
    let m = translation(vec3(1.0, 2.0, 3.0)) * scaling(vec3(2.0, 2.0, 2.0));
    near(m * vec4(1.0, 1.0, 1.0, 1.0), vec4(3.0, 4.0, 5.0, 1.0));
}

#[test]
fn matrices_and_quaternions_agree() {
    for n in 0..200 {
        let q = Quat::new(
            hash(n) as f32,
            hash(n + 1000) as f32,
            hash(n + 2000) as f32,
            hash(n + 3000) as f32,
        );
        let q = (q * (1.0 / u32::MAX as f32) - Quat::new(0.5, 0.5, 0.5, 0.5)).normalized();
        same_rotation(Quat::from_matrix(q.to_matrix()), q);
        let v = vec3(0.3, -2.0, 1.0);
        near(q.to_matrix() * v, q.rotate(v));
    }
}

#[test]
fn slerp_has_constant_speed() {
    let axis = vec3(0.0, 0.6, 0.8);
    let (a, b) = (Quat::identity(), Quat::from_axis_angle(axis, FRAC_PI_3));
    for k in 0..=8 {
        let t = k as f32 / 8.0;
        let expected = Quat::from_axis_angle(axis, FRAC_PI_3 * t);
        same_rotation(a.slerp(b, t), expected);
        same_rotation(a.slerp(-b, t), expected); // the shorter way
    }
    let close = Quat::from_axis_angle(axis, 1e-4);
    same_rotation(a.slerp(close, 0.5), Quat::from_axis_angle(axis, 0.5e-4));
}

#[test]
fn known_complex_numbers() {
    let i = Complex::new(0.0f32, 1.0);
    let close = |a: Complex<f32>, b: Complex<f32>| assert!((a - b).norm() < 1e-5, "{a:?} {b:?}");
    close((i * PI).exp(), Complex::new(-1.0, 0.0));
    close(Complex::new(-1.0, 0.0).sqrt(), i);
    close(Complex::new(-1.0, 0.0).ln(), i * PI);
    close(i.powf(3.0), -i);
    close(i / i, Complex::new(1.0, 0.0));
}

/// A grid of samples, with steps that are no multiples of cells.
fn samples() -> impl Iterator<Item = Vec3> {
    (0..20_000).map(|n| {
        vec3(
            n as f32 * 0.137,
            n as f32 * 0.071 - 300.0,
            n as f32 * -0.053,
        )
    })
}

#[test]
fn noise_has_its_range() {
    let kinds: [(&str, fn(Vec3) -> f32); 8] = [
        ("value 1", |p| value_noise1(p.x)),
        ("value 2", |p| value_noise2(p.xy())),
        ("value 3", |p| value_noise3(p)),
        ("perlin 1", |p| perlin1(p.x)),
        ("perlin 2", |p| perlin2(p.xy())),
        ("perlin 3", |p| perlin3(p)),
        ("simplex 2", |p| simplex2(p.xy())),
        ("simplex 3", |p| simplex3(p)),
    ];
    for (name, noise) in kinds {
        let values: Vec<f32> = samples().map(noise).collect();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let largest = values.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        assert!((0.6..=1.0).contains(&largest), "{name}: {largest}");
        assert!(mean.abs() < 0.05, "{name}: {mean}");
        // Continuous, also where cells meet.
        for p in samples().take(4000) {
            let step = (noise(p + 1e-3) - noise(p)).abs();
            assert!(step < 0.02, "{name} at {p}: {step}");
        }
    }
}

#[test]
fn perlin_noise_is_zero_at_integers() {
    for n in -20..20 {
        let p = vec3(n as f32, (n * 7) as f32, (3 - n) as f32);
        assert_eq!((perlin1(p.x), perlin2(p.xy()), perlin3(p)), (0.0, 0.0, 0.0));
    }
}

/// Programs may store what they made from noise, so it stays as it is.
#[test]
fn noise_does_not_change() {
    let p = vec3(0.3, 1.7, -2.4);
    let found = [
        value_noise1(p.x),
        value_noise2(p.xy()),
        value_noise3(p),
        perlin1(p.x),
        perlin2(p.xy()),
        perlin3(p),
        simplex2(p.xy()),
        simplex3(p),
        fbm(|p| simplex3(p), p, 4, 2.0, 0.5),
    ];
    expect!["-0.86681 -0.47726 -0.09908 0.02574 0.41712 0.03564 0.57337 0.11804 0.29639"]
        .assert_eq(&found.map(|x| format!("{x:.5}")).join(" "));
}

/// Quaternions are elements of fields.
#[kernel]
fn turn(q: &Field<Quat, 1>, v: &Field<Vec3, 1>, by: Quat) {
    for [i] in q {
        q[i] = (by * q[i]).normalized();
        v[i] = q[i].rotate(v[i]);
    }
}

#[test]
fn fields_of_quaternions() {
    for world in crate::backend::worlds() {
        let q = world.field::<Quat, 1>("q", 3).unwrap();
        let v = world.field::<Vec3, 1>("v", 3).unwrap();
        q.fill(Quat::default()).unwrap();
        v.fill(vec3(1.0, 0.0, 0.0)).unwrap();
        turn(
            &q,
            &v,
            Quat::from_axis_angle(vec3(0.0, 0.0, 1.0), FRAC_PI_2),
        )
        .unwrap();
        near(v.get(2).unwrap(), vec3(0.0, 1.0, 0.0));
        same_rotation(
            q.get(0).unwrap(),
            Quat::new(0.0, 0.0, 0.70710677, 0.70710677),
        );
    }
}
