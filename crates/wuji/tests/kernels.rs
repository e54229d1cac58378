//! The kernel language, run by the interpreter, which is its definition.

use wuji::prelude::*;

fn world() -> World {
    World::interpreter().unwrap()
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
    let w = world();
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
    let w = world();
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

trait Extra {
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
    let w = world();
    let p = w.field::<Vec2, 1>("p", [1]).unwrap();
    let q = w.field::<u64, 1>("q", [1]).unwrap();
    p.set([0], vec2(1.0, 0.25)).unwrap();
    misc(&p, &q).unwrap();
    assert_eq!(q.get([0]).unwrap(), 8);
    assert_eq!(p.get([0]).unwrap(), vec2(0.75, 1.0 + 3.0));
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
    let w = world();
    let x = w.field::<f32, 1>("x", [100]).unwrap();
    x.fill(0.5).unwrap();
    assert_eq!(total(&x).unwrap(), 50.0);
}
