//! What people write in ordinary Rust: loops over arrays, items, closures as arguments, references.
//!
//! rustc reports none of the functions as unused.

#![deny(dead_code)]

use crate::agree::worlds;
use wuji::prelude::*;

const TABLE: [f32; 4] = [0.5, 1.5, -2.0, 8.0];

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Ball {
    at: Vec2,
    speed: Vec2,
    hits: i32,
}

impl Ball {
    #[func]
    fn step(&mut self, dt: f32) {
        self.at += self.speed * dt;
        if self.at.y < 0.0 {
            self.bounce();
        }
    }

    #[func]
    fn bounce(&mut self) {
        self.at.y = -self.at.y;
        self.speed.y *= -0.5;
        self.hits += 1;
    }

    #[func]
    fn energy(&self) -> f32 {
        self.speed.norm_sqr() * 0.5 + self.height()
    }

    #[func]
    fn height(&self) -> f32 {
        self.at.y
    }

    /// Reads and changes another ball.
    #[func]
    fn collide(&mut self, other: &mut Ball) -> bool {
        if self.at.distance(other.at) > 1.0 {
            return false;
        }
        let speed = self.speed;
        self.speed = other.speed;
        other.speed = speed;
        self.hits += 1;
        other.hits += 1;
        true
    }
}

#[func]
fn advance(x: &mut f32, v: &mut f32, dt: f32) -> f32 {
    *v -= *x * dt;
    *x += *v * dt;
    let before = *x;
    half(x);
    before
}

#[func]
fn half(x: &mut f32) {
    *x *= 0.5;
}

#[func]
fn sort3(a: &mut [i32; 3]) {
    for i in 0..3 {
        for j in 0..2 - i.min(2) {
            if a[j] > a[j + 1] {
                a.swap(j, j + 1);
            }
        }
    }
}

#[func]
fn total(a: &[f32; 4]) -> f32 {
    let mut s = 0.0;
    for v in a {
        s += v;
    }
    s
}

#[func]
fn integrate<F: Fn(f32) -> f32>(f: F, from: f32, to: f32) -> f32 {
    let n = 8;
    let h = (to - from) / n as f32;
    let mut sum = 0.0;
    for k in 0..n {
        sum += f(from + (k as f32 + 0.5) * h) * h;
    }
    sum
}

#[func]
fn twice(f: impl Fn(i32) -> i32, n: i32) -> i32 {
    f(f(n))
}

#[func]
fn folded<T: Num, const N: usize>(a: [T; N], f: impl Fn(T, T) -> T) -> T {
    let mut all = a[0];
    for k in 1..N {
        all = f(all, a[k]);
    }
    all
}

#[func]
fn passed_on(f: impl Fn(f32) -> f32, x: f32) -> f32 {
    integrate(&f, 0.0, x) + f(x)
}

agree! {
    fn items_by_value(x: f32) -> f32 {
        let mut s = 0.0;
        for v in [1.0, x, 3.0] {
            s = s * 2.0 + v;
        }
        let mut a = [1.0, 2.0, x];
        for v in a {
            a[0] += v;
            s += v * a[0];
        }
        for v in TABLE {
            s = s * 0.5 + v;
        }
        for k in [1u8; 3] {
            s += k as f32;
        }
        s
    } with (0.5), (-2.0);

    fn items_by_reference(x: f32) -> (f32, usize) {
        let a = [1.0, x, 3.0];
        let (mut s, mut n) = (0.0, 0);
        for v in a.iter() {
            s = s * 2.0 + v * 2.0 + *v;
        }
        for v in &a {
            s += v.abs();
        }
        for &v in a.iter().rev() {
            s = s * 3.0 - v;
        }
        for (k, v) in a.iter().enumerate() {
            s += *v * k as f32;
            n += k;
        }
        for (k, v) in a.iter().rev().enumerate() {
            s = s * 0.5 + v * k as f32;
        }
        for (k, &v) in a.iter().enumerate().rev() {
            s = s * 0.5 + v * k as f32;
        }
        for v in a.iter().copied() {
            s -= v;
        }
        for (u, v) in a.iter().zip(TABLE.iter()) {
            s += u * v;
        }
        for (k, (u, v)) in a.into_iter().zip([2.0, 4.0]).enumerate() {
            s += (u - v) * k as f32;
        }
        (s, n + a.len())
    } with (0.5), (-2.0);

    fn items_change(x: f32) -> Vec3 {
        let mut a = [1.0, x, 3.0];
        for v in a.iter_mut() {
            *v = *v * 2.0 + 1.0;
        }
        for (k, v) in a.iter_mut().enumerate() {
            *v += k as f32;
        }
        for v in &mut a {
            *v -= 0.5;
        }
        let mut grid = [[0.0; 3]; 2];
        for row in grid.iter_mut() {
            for (k, v) in row.iter_mut().enumerate() {
                *v = a[k];
            }
        }
        grid[1].swap(0, 2);
        grid.swap(0, 1);
        a.reverse();
        let mut last = [7.0; 4];
        last.fill(x);
        vec3(a[0], a[1], a[2]) + Vec3::from_array(grid[0]) * 10.0 + Vec3::splat(last[3])
    } with (0.5), (-2.0);

    fn loops_leave(n: i32) -> i32 {
        let mut s = 0;
        'all: for row in [[1, 2, 3], [4, 5, 6]] {
            for v in row {
                if v == n { continue 'all; }
                if v == n + 2 { break 'all; }
                s = s * 10 + v;
            }
        }
        for v in unroll([1, 2, 3]) {
            s += v;
        }
        s
    } with (0), (2), (5);

    fn items_inside(n: i32) -> i32 {
        const STEP: i32 = 3;
        const SIZES: [i32; 3] = [1, 2, 4];
        fn scaled(k: i32) -> i32 {
            k * STEP
        }
        #[func]
        fn square(k: i32) -> i32 {
            k * k
        }
        use std::f32::consts::PI;
        let mut s = 0;
        for size in SIZES {
            s += scaled(size) + square(n);
        }
        s + PI as i32
    } with (2), (5);

    fn changed_arguments(x: f32) -> (f32, f32, f32) {
        let (mut p, mut v) = (x, 1.0);
        let mut before = 0.0;
        for _ in 0..3 {
            before += advance(&mut p, &mut v, 0.1);
        }
        let mut pair = vec2(x, 2.0);
        half(&mut pair.x);
        let mut list = [1.0, 2.0, x];
        half(&mut list[1]);
        for k in 0..3 {
            half(&mut list[k]);
        }
        (p + list[1] + list[2], v + pair.x, before)
    } with (1.0), (-0.25);

    fn changed_receivers(y: f32) -> (Ball, Ball, f32, bool) {
        let mut a = Ball { at: vec2(0.0, y), speed: vec2(1.0, -3.0), hits: 0 };
        let mut b = Ball { at: vec2(0.5, 0.0), ..a };
        let mut balls = [a, b];
        for _ in 0..4 {
            a.step(0.125);
        }
        balls[1].step(0.25);
        let e = a.energy() + b.energy();
        let hit = a.collide(&mut b);
        b.collide(&mut balls[0]);
        (a, b, e + balls[1].at.y + balls[0].speed.x, hit)
    } with (0.5), (3.0);

    fn changed_arrays(n: i32) -> (i32, f32) {
        let mut a = [3, n, 1];
        sort3(&mut a);
        let b = [1.0, 2.0, 3.0, n as f32];
        (a[0] * 100 + a[1] * 10 + a[2], total(&b) + total(&TABLE))
    } with (2), (5), (0);

    fn swapped(a: f32, b: f32) -> (f32, f32) {
        let (mut x, mut y) = (a, b);
        std::mem::swap(&mut x, &mut y);
        let mut p = [1.0, 2.0];
        let mut q = [x, y];
        std::mem::swap(&mut p, &mut q);
        (x * 10.0 + y + p[0], q[1])
    } with (1.0, 2.0);

    fn closure_arguments(x: f32, n: i32) -> (f32, i32, f32) {
        let w = x * 2.0;
        let square = |t: f32| t * t;
        let a = integrate(|t| t * w, 0.0, 1.0) + integrate(square, 0.0, x) + integrate(|t: f32| -> f32 { t.abs() }, -1.0, 1.0);
        let b = twice(|k| k * 3 + n, 1);
        let c = folded([x, 2.0, 3.0], |p, q| p * q) + folded([1, n], |p, q| p.max(q)) as f32;
        (a, b, c + passed_on(square, 2.0) + integrate(|u| integrate(|v| u * v, 0.0, 1.0), 0.0, 1.0))
    } with (0.5, 2), (3.0, -1);

    fn cloned(x: f32) -> Ball {
        let b = Ball { at: vec2(x, x), speed: Vec2::ZERO, hits: 1 };
        select(x > 0.0, b.clone(), Ball { hits: 2, ..b })
    } with (1.0), (-1.0);
}

#[func]
fn gathered(x: &Field<f32, 1>, i: i32, sum: &mut f32, count: &mut i32) -> bool {
    let v = x[[i]];
    if v == 0.0 {
        return false;
    }
    *sum += v;
    *count += 1;
    true
}

#[kernel]
fn sums(x: &Field<f32, 1>, balls: &Field<Ball, 1>) -> i32 {
    const REACH: i32 = 1;
    let mut all = 0;
    for [i] in x {
        let (mut sum, mut count) = (0.0, 0);
        for k in [-REACH, 0, REACH] {
            if !gathered(x, i + k, &mut sum, &mut count) {
                continue;
            }
        }
        all += count;
        let mut ball = balls[[i]];
        ball.step(sum);
        balls[[i]] = ball;
    }
    for v in [1, 2, 3] {
        all += v;
    }
    all
}

#[test]
fn kernels_lend_their_variables() {
    for world in worlds() {
        let x = world.field::<f32, 1>("x", [4]).unwrap();
        let balls = world.field::<Ball, 1>("balls", [4]).unwrap();
        x.copy_from(&[1.0, 0.0, 2.0, 4.0]).unwrap();
        let ball = Ball {
            at: vec2(0.0, 1.0),
            speed: vec2(1.0, 0.0),
            hits: 0,
        };
        balls.fill(ball).unwrap();
        assert_eq!(sums(&x, &balls).unwrap(), 1 + 2 + 2 + 2 + 6);
        let at: Vec<f32> = balls.to_vec().unwrap().iter().map(|b| b.at.x).collect();
        assert_eq!(at, [1.0, 3.0, 6.0, 6.0]);
    }
}

#[kernel]
fn lend_elements(x: &Field<f32, 1>, balls: &Field<Ball, 1>) {
    for [i] in x {
        half(&mut x[[i]]);
        half(&mut balls[[i]].at.x);
    }
}

#[test]
fn kernels_lend_elements() {
    for world in worlds() {
        let x = world.field::<f32, 1>("x", [2]).unwrap();
        let balls = world.field::<Ball, 1>("balls", [2]).unwrap();
        x.copy_from(&[1.0, 3.0]).unwrap();
        balls
            .fill(Ball {
                at: vec2(8.0, 1.0),
                speed: Vec2::ZERO,
                hits: 0,
            })
            .unwrap();
        lend_elements(&x, &balls).unwrap();
        assert_eq!(x.to_vec().unwrap(), [0.5, 1.5]);
        assert_eq!(balls.get([1]).unwrap().at, vec2(4.0, 1.0));
    }
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Quad {
    corners: [Vec2; 4],
    weights: [f32; 3],
    number: u8,
}

#[func]
fn quad(size: f32) -> Quad {
    let corners = [
        Vec2::ZERO,
        vec2(size, 0.0),
        vec2(size, size),
        vec2(0.0, size),
    ];
    Quad {
        corners,
        weights: [1.0; 3],
        number: 3,
    }
}

agree! {
    fn arrays_in_structs(size: f32, k: i32) -> (Quad, Vec2, f32, usize) {
        let mut q = quad(size);
        q.corners[1].x += 1.0;
        q.corners[k as usize] += 0.5;
        q.weights[k as usize % 3] = 4.0;
        q.weights[2] *= 2.0;
        let mut middle = Vec2::ZERO;
        for c in q.corners {
            middle += c;
        }
        let mut sum = 0.0;
        for (k, w) in q.weights.iter().enumerate() {
            sum += w * k as f32;
        }
        let r = Quad { number: 9, ..q };
        let Quad { weights, .. } = r;
        let mut s = r;
        s.corners = [vec2(sum, weights[0]); 4];
        if s == r { sum = -1.0; }
        (s, middle + q.corners[k], sum + weights[1], q.corners.len())
    } with (2.0, 0), (1.0, 3);
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Couple {
    ab: [i32; 2],
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Table {
    rows: [[f32; 3]; 2],
    couples: [Couple; 2],
    deep: [[[i32; 2]; 2]; 2],
}

#[func]
fn table(x: f32) -> Table {
    Table {
        rows: [[x; 3], [1.0, 2.0, 3.0]],
        couples: [Couple { ab: [1, 2] }, Couple { ab: [3, 4] }],
        deep: [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    }
}

agree! {
    fn nested_arrays_in_structs(x: f32, i: usize, j: usize) -> (Table, f32, i32) {
        let mut t = table(x);
        t.rows[1][2] += 0.5;
        t.rows[i][j] *= 2.0;
        t.rows[i][1] = 7.0;
        t.rows[0][j] -= 1.0;
        let row = t.rows[i];
        let mut sum = 0.0;
        for r in t.rows {
            for v in r {
                sum = sum * 2.0 + v;
            }
        }
        t.rows[i] = [row[2], row[1], row[0]];
        t.couples[i].ab[j % 2] += 10;
        t.couples[1].ab = [9, t.couples[i].ab[1]];
        t.deep[i][1][j % 2] = 20;
        t.deep[1 - i][j % 2] = t.deep[i][1];
        let Table { rows, deep, .. } = t;
        (t, sum + rows[1][0], deep[1][i][0] + t.rows.len() as i32)
    } with (2.0, 0, 1), (3.0, 1, 2);
}

#[kernel]
fn change_tables(tables: &Field<Table, 1>, k: i32) {
    for [i] in tables {
        tables[[i]].rows[0][2] += 1.0;
        tables[[i]].rows[1][k] = tables[[i]].rows[0][k];
        tables[[i]].deep[1][k % 2][1] = i;
    }
}

#[test]
fn fields_hold_structs_with_nested_arrays() {
    for world in worlds() {
        let tables = world.field::<Table, 1>("tables", [4]).unwrap();
        tables.fill(table(4.0)).unwrap();
        change_tables(&tables, 2).unwrap();
        let mut expected = table(4.0);
        expected.rows[0][2] = 5.0;
        expected.rows[1][2] = 5.0;
        expected.deep[1][0][1] = 3;
        assert_eq!(tables.get([3]).unwrap(), expected);
    }
}

impl Ball {
    #[func]
    fn measured(&self, f: impl Fn(Vec2) -> f32, scale: f32) -> f32 {
        f(self.at) * scale
    }

    #[func]
    fn changed(&mut self, f: impl Fn(f32) -> f32) {
        self.at = vec2(f(self.at.x), f(self.at.y));
    }
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Two<T> {
    a: T,
    b: T,
}

impl<T: Num + Element> Two<T> {
    #[func]
    fn joined(self, f: impl Fn(T, T) -> T) -> T {
        f(self.a, self.b)
    }
}

agree! {
    fn closures_of_methods(x: f32, n: i32) -> (Ball, f32, f32, i32) {
        let mut ball = Ball { at: vec2(x, 2.0), speed: Vec2::ZERO, hits: n };
        let far = ball.measured(|p| p.x * 10.0 + p.y, 2.0);
        let twice = |v: f32| v * 2.0 + x;
        ball.changed(twice);
        ball.changed(|v| v - 1.0);
        let near = Ball { hits: 1, ..ball }.measured(|p| p.norm_sqr(), 1.0);
        let sum = Two { a: x, b: 3.0 }.joined(|a, b| a * b);
        let both = Two { a: n, b: 5 };
        (ball, far + near, sum, both.joined(|a, b| a * 100 + b))
    } with (1.5, 7);
}

#[kernel]
fn move_quads(quads: &Field<Quad, 1>) {
    for [i] in quads {
        quads[[i]].corners[0] += vec2(1.0, 2.0);
        quads[[i]].corners[i % 4] = vec2(9.0, 9.0);
        quads[[i]].weights[2] = quads[[i]].corners[(i + 1) % 4].x;
    }
}

#[test]
fn fields_hold_structs_with_arrays() {
    for world in worlds() {
        let quads = world.field::<Quad, 1>("quads", [3]).unwrap();
        quads.fill(quad(1.0)).unwrap();
        move_quads(&quads).unwrap();
        let mut expected = quad(1.0);
        expected.corners[0] = vec2(1.0, 2.0);
        expected.corners[2] = vec2(9.0, 9.0);
        expected.weights[2] = 0.0;
        assert_eq!(quads.get([2]).unwrap(), expected);
    }
}
