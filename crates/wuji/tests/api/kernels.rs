//! Kernels on fields and arrays, interpreted and compiled.

use wuji::prelude::*;

/// The interpreter, and machine code that rounds as written.
fn worlds() -> [World; 2] {
    let compiled = World::builder().math(Math::Strict).threads(2).build();
    [World::interpreter().unwrap(), compiled.unwrap()]
}

const N: f32 = 320.0;

#[func]
fn complex_sqr(z: Vec2) -> Vec2 {
    vec2(z.x * z.x - z.y * z.y, z.x * z.y * 2.0)
}

#[func]
fn clamp01<T: Num>(x: T, lo: T, hi: T) -> T {
    if x < lo {
        return lo;
    }
    let y = if x > hi { hi } else { x };
    y
}

#[kernel]
fn paint(pixels: &Field<f32, 2>, t: f32) {
    for [i, j] in pixels {
        let c = vec2(-0.8, t.cos() * 0.2);
        let mut z = vec2(i as f32 / N - 1.0, j as f32 / N - 0.5) * 2.0;
        let mut n = 0;
        while z.norm() < 20.0 && n < 50 {
            z = complex_sqr(z) + c;
            n += 1;
        }
        pixels[[i, j]] = 1.0 - n as f32 * 0.02;
    }
}

#[test]
fn julia() {
    for w in worlds() {
        let pixels = w.field::<f32, 2>("pixels", [8, 4]).unwrap();
        paint(&pixels, 0.3).unwrap();
        for ([i, j], found) in pixels.iter().unwrap() {
            let c = vec2(-0.8, 0.3f32.cos() * 0.2);
            let mut z = vec2(i as f32 / N - 1.0, j as f32 / N - 0.5) * 2.0;
            let mut n = 0;
            while z.norm() < 20.0 && n < 50 {
                z = complex_sqr(z) + c;
                n += 1;
            }
            assert_eq!(found, 1.0 - n as f32 * 0.02, "{i} {j}");
        }
    }
}

#[kernel]
fn laplace<const D: usize>(u: &Field<f32, D>, v: &Field<f32, D>) {
    for i in v {
        let mut s = 0.0;
        for d in unroll(0..D) {
            s += u[i + unit(d)] + u[i - unit(d)];
        }
        v[i] = s - 2.0 * D as f32 * u[i];
    }
}

#[test]
fn stencil_in_any_dimension() {
    for w in worlds() {
        let (u, v) = (
            w.field::<f32, 1>("u", [5]).unwrap(),
            w.field::<f32, 1>("v", [5]).unwrap(),
        );
        u.copy_from(&[1.0, 4.0, 9.0, 16.0, 25.0]).unwrap();
        laplace(&u, &v).unwrap();
        assert_eq!(v.to_vec().unwrap(), [2.0, 2.0, 2.0, 2.0, -34.0]);
        let (u, v) = (
            w.field::<f32, 2>("u", [3, 3]).unwrap(),
            w.field::<f32, 2>("v", [3, 3]).unwrap(),
        );
        u.set([1, 1], 1.0).unwrap();
        laplace(&u, &v).unwrap();
        assert_eq!(
            v.to_vec().unwrap(),
            [0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0]
        );
    }
}

trait Extra {
    #[func]
    fn taxi(self, k: f32) -> f32;
}
impl Extra for Vec2 {
    #[func]
    fn taxi(self, k: f32) -> f32 {
        (self.x.abs() + self.y.abs()) * k
    }
}

#[kernel]
fn misc(p: &Field<Vec2, 1>, q: &Field<u64, 1>) {
    for [i] in p {
        p[[i]] += p[[i + 1]] * 0.5;
        p[[i]].x -= clamp01(p[[i]].y, 0.0, 1.0);
        let mut n = 0;
        let k = n + 1;
        loop {
            n += 1;
            if n > 7 {
                break;
            }
            if n == 3 {
                continue;
            }
        }
        q[[i]] = n;
        let w = clamp01(k, 2, 9);
        let w = w as f32 * 0.5;
        let f = |a: f32| a * w;
        let r = if w > 0.5 { f(1.0) } else { -w };
        p[[0]].y = r + p[[i]].taxi(3.0);
    }
}

#[test]
fn vectors_and_control() {
    for w in worlds() {
        let p = w.field::<Vec2, 1>("p", [1]).unwrap();
        let q = w.field::<u64, 1>("q", [1]).unwrap();
        p.set([0], vec2(1.0, 0.25)).unwrap();
        misc(&p, &q).unwrap();
        assert_eq!(q.get([0]).unwrap(), 8);
        assert_eq!(p.get([0]).unwrap(), vec2(0.75, 1.0 + 3.0));
    }
}

#[kernel]
fn total(x: &Field<f32, 1>) -> f32 {
    let mut s = 0.0;
    for [i] in x {
        s += x[[i]];
    }
    s
}

#[test]
fn reductions_are_results() {
    for w in worlds() {
        let x = w.field::<f32, 1>("x", [100]).unwrap();
        x.fill(0.5).unwrap();
        assert_eq!(total(&x).unwrap(), 50.0);
    }
}

#[kernel]
fn several(world: &World, a: &mut [f32], b: &[f32], k: f32) -> f32 {
    let n = a.len();
    let mut sum = 0.0;
    let mut count = 0;
    for i in 0..n {
        a[i] = b[i] * k;
    }
    let half = n / 2;
    for i in block_size(64, (0..n).step_by(2)) {
        a[i] += 1.0;
        count += 1;
    }
    for i in (0..half).rev() {
        sum += a[i];
    }
    for i in serial(0..n) {
        if i > 3 {
            break;
        }
        sum = sum + 100.0;
    }
    for i in 0..=3u8 {
        count += i as i32;
    }
    sum + count as f32 * 10000.0
}

#[test]
fn loops_over_ranges_and_slices() {
    for w in worlds() {
        let b: Vec<f32> = (0..10).map(|k| k as f32).collect();
        let mut a = vec![0.0; 10];
        let found = several(&w, &mut a, &b, 2.0).unwrap();
        let expected: Vec<f32> = (0..10)
            .map(|k| k as f32 * 2.0 + (k % 2 == 0) as i32 as f32)
            .collect();
        assert_eq!(a, expected);
        let sum: f32 = expected[..5].iter().sum();
        assert_eq!(found, sum + 400.0 + (5.0 + 6.0) * 10000.0);
        let mut empty: [f32; 0] = [];
        assert_eq!(several(&w, &mut empty, &[], 2.0).unwrap(), 60000.0);
    }
}

#[kernel]
fn transpose(a: &Array<i32, 2>, b: &mut ArrayMut<i32, 2>) -> i64 {
    for [i, j] in a {
        b[[j, i]] = a[[i, j]];
    }
    for p in b {
        b[p] += 100;
    }
    a.shape()[0] * 10 + b.shape().y
}

#[kernel]
fn fill_grid(world: &World, b: &mut ArrayMut<i32, 2>, n: i32) {
    for [i, j] in grid([1..n, 0..n - 1]) {
        b[[i, j]] = i * 10 + j;
    }
}

#[test]
fn arrays_of_two_axes() {
    for w in worlds() {
        let data: Vec<i32> = (0..6).collect();
        let mut out = vec![0; 6];
        let a = Array::new(&data, [2, 3]).unwrap();
        let mut b = ArrayMut::new(&mut out, [3, 2]).unwrap();
        #[kernel]
        fn run(world: &World, a: &Array<i32, 2>, b: &mut ArrayMut<i32, 2>) -> i64 {
            for [i, j] in a {
                b[[j, i]] = a[[i, j]];
            }
            for p in b {
                b[p] += 100;
            }
            a.shape()[0] * 10 + b.shape().y
        }
        assert_eq!(run(&w, &a, &mut b).unwrap(), 22);
        assert_eq!(out, [100, 103, 101, 104, 102, 105]);
        let mut out = vec![0; 9];
        let mut b = ArrayMut::new(&mut out, [3, 3]).unwrap();
        fill_grid(&w, &mut b, 3).unwrap();
        assert_eq!(out, [0, 0, 0, 10, 11, 0, 20, 21, 0]);
        // Without a field or a world there is nowhere to run.
        let mut b = ArrayMut::new(&mut out, [3, 3]).unwrap();
        let error = transpose(&a, &mut b).unwrap_err();
        assert_eq!(error.code, "W0116");
    }
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Particle {
    position: Vec2,
    velocity: Vec2,
    hits: u32,
}

#[func]
fn gravity(p: Particle, dt: f32) -> Particle {
    Particle {
        velocity: p.velocity + vec2(0.0, -10.0) * dt,
        ..p
    }
}

/// A function that takes a field, and one that takes it along.
#[func]
fn neighbours(count: &Field<i32, 2>, at: IVec2) -> i32 {
    let mut n = 0;
    for [i, j] in grid([-1..2, -1..2]) {
        if i != 0 || j != 0 {
            n += count[at + ivec2(i, j)];
        }
    }
    n
}

#[func]
fn survives(count: &Field<i32, 2>, at: IVec2) -> bool {
    let n = neighbours(count, at);
    n == 3 || n == 2 && count[at] == 1
}

#[kernel]
fn life(old: &Field<i32, 2>, new: &Field<i32, 2>) -> i32 {
    let mut alive = 0;
    for p in new {
        let next = survives(old, p) as i32;
        new[p] = next;
        alive += next;
    }
    alive
}

#[test]
fn functions_of_fields() {
    for w in worlds() {
        let a = w.field::<i32, 2>("a", [5, 5]).unwrap();
        let b = w.field::<i32, 2>("b", [5, 5]).unwrap();
        for i in 1..4 {
            a.set([2, i], 1).unwrap();
        }
        assert_eq!(life(&a, &b).unwrap(), 3);
        for i in 1..4 {
            assert_eq!(b.get([i, 2]).unwrap(), 1);
        }
    }
}

#[kernel]
fn simulate(particles: &Field<Particle, 1>, grid_mass: &Field<f32, 2>, dt: f32, steps: i32) {
    for [i] in particles {
        let mut p = particles[[i]];
        for _ in 0..steps {
            p = gravity(p, dt);
            p.position += p.velocity * dt;
        }
        particles[[i]] = p;
        particles[[i]].hits += 1;
        particles[[i]].velocity.x *= 0.5;
        let base = p.position.floor().cast::<i32>();
        for [di, dj] in grid([0..2, 0..2]) {
            grid_mass[base + ivec2(di, dj)] += 0.25;
        }
    }
}

#[test]
fn structs_in_fields() {
    for w in worlds() {
        let particles = w.field::<Particle, 1>("particles", [3]).unwrap();
        let mass = w.field::<f32, 2>("mass", [8, 8]).unwrap();
        for i in 0..3 {
            let p = Particle {
                position: vec2(i as f32 + 1.5, 3.5),
                velocity: vec2(2.0, 0.0),
                hits: 7,
            };
            particles.set([i], p).unwrap();
        }
        simulate(&particles, &mass, 0.125, 2).unwrap();
        let p = particles.get([1]).unwrap();
        let mut q = Particle {
            position: vec2(2.5, 3.5),
            velocity: vec2(2.0, 0.0),
            hits: 8,
        };
        for _ in 0..2 {
            q = gravity(q, 0.125);
            q.position += q.velocity * 0.125;
        }
        q.velocity.x *= 0.5;
        assert_eq!(p, q);
        let total: f32 = mass.to_vec().unwrap().iter().sum();
        assert_eq!(total, 3.0);
    }
}

#[kernel]
fn atomics(x: &Field<i32, 1>, v: &Field<Vec2, 1>, old: &Field<i32, 1>) {
    for i in 0..1 {
        old[0] = x.at([i]).fetch_add(5);
        old[1] = x.at(i).fetch_sub(1);
        old[2] = x.at([i]).fetch_max(100);
        old[3] = x.at([i]).fetch_min(7);
        old[4] = x.at([i]).fetch_or(8);
        old[5] = x.at([i]).fetch_and(12);
        old[6] = x.at([i]).fetch_xor(5);
        old[7] = x.at([i]).exchange(42);
        old[8] = x.at([i]).compare_exchange(42, 43);
        old[9] = x.at([i]).compare_exchange(42, 44);
        old[10] = x.at([i]).fetch_mul(2);
        x[i] -= 6;
        x[i] |= 1;
        x[i] &= 0xff;
        x[i] ^= 2;
        v[i] += vec2(1.0, 2.0);
        v[i] *= 3.0;
        v[i].y -= 1.0;
        v[i][0] += 0.5;
    }
}

#[test]
fn atomics_give_the_old_value() {
    for w in worlds() {
        let x = w.field::<i32, 1>("x", [1]).unwrap();
        let v = w.field::<Vec2, 1>("v", [1]).unwrap();
        let old = w.field::<i32, 1>("old", [11]).unwrap();
        x.set([0], 10).unwrap();
        atomics(&x, &v, &old).unwrap();
        assert_eq!(
            old.to_vec().unwrap(),
            [10, 15, 14, 100, 7, 15, 12, 9, 42, 43, 43]
        );
        assert_eq!(x.get([0]).unwrap(), ((80 | 1) & 0xff) ^ 2);
        assert_eq!(v.get([0]).unwrap(), vec2(3.5, 5.0));
    }
}

#[kernel]
fn reductions(x: &Field<Vec2, 2>) -> (Vec2, u32, i32, bool) {
    let mut sum = Vec2::ZERO;
    let mut bits = 0u32;
    let mut product = 1;
    let mut any = false;
    let scale = 2.0;
    for [i, j] in x {
        if (i + j) % 2 == 0 {
            sum += x[[i, j]] * scale;
        }
        sum.x -= 1.0;
        bits |= 1 << (i as u32);
        if i == j {
            product *= i + 1;
        }
        any |= x[[i, j]].y > 5.0;
    }
    sum += 0.5;
    (sum, bits, product, any)
}

#[test]
fn several_reductions_in_one_loop() {
    for w in worlds() {
        let x = w.field::<Vec2, 2>("x", [3, 3]).unwrap();
        for i in 0..3 {
            for j in 0..3 {
                x.set([i, j], vec2(i as f32, j as f32 * 3.0)).unwrap();
            }
        }
        assert_eq!(
            reductions(&x).unwrap(),
            (vec2(10.0 - 9.0 + 0.5, 30.0 + 0.5), 7, 6, true)
        );
    }
}

#[kernel]
fn shapes(x: &Field<f32, 2>, a: &[i32]) -> (IVec2, IVec2, usize, usize, i64) {
    (x.shape(), x.offset(), x.len(), a.len(), a.shape()[0])
}

#[test]
fn extents_are_known() {
    for w in worlds() {
        let x = w
            .layout(|root| {
                root.dense(wuji::axes::IJ, [4, 6])
                    .offset([-2, 0])
                    .place::<f32, 2>("x")
            })
            .unwrap();
        assert_eq!(
            shapes(&x, &[1, 2, 3]).unwrap(),
            (ivec2(4, 6), ivec2(-2, 0), 24, 3, 3)
        );
    }
}

#[kernel]
fn talk(x: &Field<i32, 1>, limit: i32) {
    println!(
        "limit {limit}, {} and {:.2} {{}}",
        vec2(1.0, 2.5),
        1.0f32 / 3.0
    );
    for [i] in serial(x) {
        print!("{i}: {};", x[[i]]);
    }
    for [i] in x {
        assert!(x[[i]] < limit, "x[{i}] = {} is too large", x[[i]]);
        assert_eq!(x[[i]] % 2, 0, "odd at {}", i);
    }
}

#[test]
fn messages() {
    for w in worlds() {
        use std::sync::{Arc, Mutex};
        let said = Arc::new(Mutex::new(String::new()));
        let heard = said.clone();
        w.on_print(move |text| heard.lock().unwrap().push_str(text));
        let x = w.field::<i32, 1>("x", [3]).unwrap();
        x.copy_from(&[2, 4, 6]).unwrap();
        talk(&x, 10).unwrap();
        let text = said.lock().unwrap().clone();
        assert!(text.starts_with("limit 10, "), "{text}");
        assert!(text.contains("0.33 {}\n0: 2;1: 4;2: 6;"), "{text}");
        let error = talk(&x, 6).unwrap_err();
        assert!(error.message.contains("x[2] = 6 is too large"), "{error}");
        assert!(error.at.is_some());
        x.set([1], 5).unwrap();
        let error = talk(&x, 10).unwrap_err();
        assert!(error.message.contains("odd at 1"), "{error}");
    }
}

#[kernel]
fn dice(x: &Field<f32, 1>, n: &Field<i32, 1>) {
    for [i] in x {
        x[[i]] = random::<f32>() + random_range(10.0, 20.0);
        n[[i]] = random_range(-3, 4) + if random::<bool>() { 100 } else { 0 };
    }
}

#[test]
fn random_numbers_are_in_range() {
    for w in worlds() {
        let x = w.field::<f32, 1>("x", [200]).unwrap();
        let n = w.field::<i32, 1>("n", [200]).unwrap();
        dice(&x, &n).unwrap();
        let (x, n) = (x.to_vec().unwrap(), n.to_vec().unwrap());
        assert!(x.iter().all(|x| (10.0..21.0).contains(x)));
        assert!(
            n.iter()
                .all(|n| (-3..4).contains(n) || (97..104).contains(n))
        );
        assert!((-3..4).all(|k| n.iter().any(|n| *n == k || *n == k + 100)));
        assert!(x.iter().any(|v| *v != x[0]));
    }
}

#[kernel]
fn same_twice(a: &Field<i32, 1>, b: &Field<i32, 1>) {
    for [i] in a {
        let t = a[[i]];
        b[[i]] = t + 1;
        a[[i]] += 10;
    }
}

#[test]
fn one_field_bound_to_two_arguments() {
    for w in worlds() {
        let a = w.field::<i32, 1>("a", [2]).unwrap();
        same_twice(&a, &a).unwrap();
        assert_eq!(a.to_vec().unwrap(), [11, 11]);
    }
}

/// Named like a function of the language, so only the launch can tell.
fn clamp(x: f32) -> f32 {
    x + 1.0
}

#[kernel]
fn calls_host(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = clamp(x[[i]]);
    }
}

#[func]
fn endless(x: &Field<f32, 1>, n: i32) -> f32 {
    if n == 0 { 0.0 } else { endless(x, n - 1) }
}

#[kernel]
fn recursive_data(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] = endless(x, i);
    }
}

#[kernel]
fn bad_constant_index(x: &Field<Vec2, 1>, k: usize) {
    let a = [1.0, 2.0];
    for [i] in x {
        x[[i]].x = a[2 + (k - k) * 0] + a[5];
    }
}

#[test]
fn errors_of_lowering_have_positions() {
    for w in worlds() {
        let x = w.field::<f32, 1>("x", [2]).unwrap();
        let error = calls_host(&x).unwrap_err();
        assert_eq!(error.code, "W0240");
        assert!(error.message.contains("clamp"), "{error}");
        let at = error.at.unwrap();
        assert!(at.file.ends_with("kernels.rs") && at.line > 300, "{at}");
        assert_eq!(recursive_data(&x).unwrap_err().code, "W0241");
        let v = w.field::<Vec2, 1>("v", [2]).unwrap();
        assert_eq!(bad_constant_index(&v, 1).unwrap_err().code, "W0213");
    }
}

#[kernel]
fn early(x: &Field<i32, 1>, n: i32) -> i32 {
    if n < 0 {
        return -1;
    }
    for [i] in x {
        if i == 1 {
            continue;
        }
        x[[i]] = n;
    }
    if n > 10 {
        return 10;
    }
    n
}

#[test]
fn early_returns() {
    for w in worlds() {
        let x = w.field::<i32, 1>("x", [3]).unwrap();
        assert_eq!(early(&x, -5).unwrap(), -1);
        assert_eq!(x.to_vec().unwrap(), [0, 0, 0]);
        assert_eq!(early(&x, 50).unwrap(), 10);
        assert_eq!(early(&x, 5).unwrap(), 5);
        assert_eq!(x.to_vec().unwrap(), [5, 0, 5]);
    }
}

#[kernel]
fn scalar_field(total: &Field<f64, 0>, x: &Field<f64, 3>) {
    for p in x {
        total[[]] += x[p];
    }
}

#[test]
fn fields_without_axes() {
    for w in worlds() {
        let total = w.scalar::<f64>("total").unwrap();
        let x = w.field::<f64, 3>("x", [2, 3, 4]).unwrap();
        x.fill(0.5).unwrap();
        scalar_field(&total, &x).unwrap();
        assert_eq!(total.get([0i32; 0]).unwrap(), 12.0);
    }
}

#[kernel]
fn extremes(x: &Field<f32, 1>, v: &Field<IVec2, 1>) -> (f32, f32, IVec2, i32) {
    let mut low = f32::INFINITY;
    let mut high = f32::NEG_INFINITY;
    let mut corner = ivec2(100, 100);
    let mut most = -1;
    for [i] in x {
        if i % 2 == 0 {
            low = low.min(x[[i]]);
        }
        high = max(x[[i]], high);
        corner = corner.min(v[[i]]);
        most = v[[i]].x.max(most);
    }
    (low, high, corner, most)
}

#[test]
fn smallest_and_largest() {
    for w in worlds() {
        let x = w.field::<f32, 1>("x", [50]).unwrap();
        let v = w.field::<IVec2, 1>("v", [50]).unwrap();
        for i in 0..50 {
            x.set([i], ((i * 37) % 50) as f32).unwrap();
            v.set([i], ivec2((i * 7) % 50 + 3, 60 - i)).unwrap();
        }
        assert_eq!(extremes(&x, &v).unwrap(), (0.0, 49.0, ivec2(3, 11), 52));
    }
}

#[kernel]
fn outer_variables(x: &Field<f32, 1>, mut scale: f32) -> f32 {
    let mut n = 1;
    n += 2;
    let mut weights = [0.0; 3];
    for k in serial(0..3) {
        weights[k] = k as f32 + 0.5;
    }
    scale *= 2.0;
    let f = |a: f32| a * scale + n as f32;
    for [i] in x {
        x[[i]] = f(weights[i % 3]) + weights[0];
    }
    n += 10;
    for [i] in x {
        x[[i]] += n as f32 + weights[1];
    }
    scale
}

#[test]
fn loops_see_the_variables_around_them() {
    for w in worlds() {
        let x = w.field::<f32, 1>("x", [4]).unwrap();
        assert_eq!(outer_variables(&x, 1.5).unwrap(), 3.0);
        let expected: Vec<f32> = (0..4)
            .map(|i| ((i % 3) as f32 + 0.5) * 3.0 + 3.0 + 0.5 + 13.0 + 1.5)
            .collect();
        assert_eq!(x.to_vec().unwrap(), expected);
    }
}

#[kernel]
fn index_types(x: &Field<i32, 2>, a: &mut [i32]) {
    for i in 0..3u8 {
        x[[i, 0]] += 1;
        x[[i as usize, 1i64]] += 2;
        x[[i as u32, 2u16]] += 3;
        let p = uvec2(i as u32, 3);
        x[p] += 4;
        a[i] = 5;
        a[i as i64 + 3] = 6;
        let q = [i as i32, 0];
        x[q] += 10;
    }
}

#[kernel]
fn fill_all<T: Num, const D: usize>(x: &Field<T, D>, value: T, by: Particle, m: Mat2) -> Mat2 {
    for p in x {
        x[p] = value + T::ONE;
    }
    m * m + by.velocity.outer(by.position) * by.hits as f32
}

#[test]
fn arguments_of_every_kind() {
    for w in worlds() {
        let x = w.field::<i32, 2>("x", [3, 4]).unwrap();
        let mut a = [0; 6];
        index_types(&x, &mut a).unwrap();
        assert_eq!(x.to_vec().unwrap(), [11, 2, 3, 4].repeat(3));
        assert_eq!(a, [5, 5, 5, 6, 6, 6]);
        let p = Particle {
            position: vec2(1.0, 2.0),
            velocity: vec2(3.0, 4.0),
            hits: 2,
        };
        let m = fill_all(&x, 7, p, mat2(1.0, 2.0, 3.0, 4.0)).unwrap();
        assert_eq!(m, mat2(13.0, 22.0, 23.0, 38.0));
        assert_eq!(x.get([2, 3]).unwrap(), 8);
        let y = w.field::<f64, 3>("y", [2, 2, 2]).unwrap();
        fill_all(&y, 0.5, p, Mat2::ZERO).unwrap();
        assert_eq!(y.to_vec().unwrap(), [1.5; 8]);
        assert_eq!(w.kernels(), 3);
    }
}

#[kernel]
fn reports(x: &Field<Vec2, 1>, k: i32) {
    for [i] in x {
        let mut a = [1.0, 2.0, 3.0];
        a[k] = 5.0;
        x[[i + k]][k] = a[0];
    }
}

#[test]
fn out_of_range_accesses_are_reported() {
    for w in worlds() {
        let x = w.field::<Vec2, 1>("x", [4]).unwrap();
        reports(&x, 0).unwrap();
        let error = reports(&x, 1).and_then(|()| w.flush()).unwrap_err();
        assert!(error.code.starts_with("W04"), "{error}");
        assert!(reports(&x, 7).and_then(|()| w.flush()).is_err());
        assert!(reports(&x, -1).and_then(|()| w.flush()).is_err());
    }
}

#[kernel]
fn host_structs(world: &World, p: &mut [Particle], alive: &mut [bool], order: &[usize]) -> usize {
    let mut moved = 0usize;
    for i in 0..order.len() {
        let k = order[i];
        p[k].position += p[k].velocity;
        p[k].hits += 1;
        alive[k] = !alive[k];
        moved += k;
    }
    moved
}

#[test]
fn host_arrays_of_structs() {
    for w in worlds() {
        let mut p: Vec<Particle> = (0..5)
            .map(|k| Particle {
                position: vec2(k as f32, 0.0),
                velocity: vec2(0.5, 1.0),
                hits: k,
            })
            .collect();
        let mut alive = [true, false, true, false, true];
        let moved = host_structs(&w, &mut p, &mut alive, &[1, 3, 4]).unwrap();
        assert_eq!(moved, 8);
        assert_eq!(alive, [true, true, true, true, false]);
        assert_eq!(p[3].position, vec2(3.5, 1.0));
        assert_eq!(p[3].hits, 4);
        assert_eq!(p[2].hits, 2);
    }
}
