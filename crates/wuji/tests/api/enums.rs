//! Enums and `Option` in kernels, fields and arguments.
//!
//! rustc reports none of the functions as unused.

#![deny(dead_code)]

use crate::agree::worlds;
use wuji::prelude::*;

#[derive(Element, Clone, Copy, Debug, PartialEq)]
enum State {
    Solid,
    Liquid,
    Gas,
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
enum Level {
    Low = 10,
    High = 300,
    Off = -1,
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
enum Shape {
    Nothing,
    Ball(f32),
    Brick { size: Vec3, state: State },
    Pair(i32, u8),
}

impl Shape {
    #[func]
    fn volume(&self) -> f32 {
        match self {
            Shape::Nothing => 0.0,
            Shape::Ball(r) => 4.0 * *r * r * r,
            Shape::Brick { size, .. } => size.product(),
            Shape::Pair(a, b) => (*a + *b as i32) as f32,
        }
    }

    #[func]
    fn grow(&mut self, by: f32) {
        *self = match *self {
            Shape::Ball(r) => Shape::Ball(r + by),
            Shape::Brick { size, state } => Shape::Brick {
                size: size + by,
                state,
            },
            other => other,
        };
    }
}

/// A generic one.
#[derive(Element, Clone, Copy, Debug, PartialEq)]
enum Either<A, B> {
    Left(A),
    Right(B),
    Neither,
}

#[func]
fn next(state: State) -> State {
    match state {
        State::Solid => State::Liquid,
        State::Liquid | State::Gas => State::Gas,
    }
}

#[func]
fn shape(n: i32) -> Shape {
    match n {
        0 => Shape::Nothing,
        1 => Shape::Ball(1.5),
        2 => Shape::Brick {
            size: vec3(1.0, 2.0, 3.0),
            state: State::Gas,
        },
        _ => Shape::Pair(n, 7),
    }
}

#[func]
fn root(x: f32) -> Option<f32> {
    if x < 0.0 { None } else { Some(x.sqrt()) }
}

#[func]
fn sum_of_roots(a: f32, b: f32) -> Option<f32> {
    let first = root(a)?;
    let Some(second) = root(b) else {
        return None;
    };
    Some(first + second)
}

#[func]
fn swapped<A: Element, B: Element>(e: Either<A, B>) -> Either<B, A> {
    match e {
        Either::Left(a) => Either::Right(a),
        Either::Right(b) => Either::Left(b),
        Either::Neither => Either::Neither,
    }
}

agree! {
    fn plain_enums(n: i32) -> (State, bool, i32, bool) {
        let mut s = State::Solid;
        for _ in 0..n {
            s = next(s);
        }
        let warm = s != State::Solid;
        let number = s as i32 * 10 + State::Gas as i32;
        (s, warm, number, matches!(s, State::Liquid | State::Gas if n < 2))
    } with (0), (1), (2), (7);

    fn discriminants(n: i32) -> (i64, u8, bool) {
        let level = if n == 0 { Level::Low } else if n == 1 { Level::High } else { Level::Off };
        (level as i64, Level::Low as u8, level == Level::High)
    } with (0), (1), (2);

    fn enums_with_data(n: i32) -> (f32, Shape, bool) {
        let mut s = shape(n);
        let before = s.volume();
        s.grow(0.5);
        let same = s == shape(n);
        (before + s.volume(), s, same)
    } with (0), (1), (2), (3);

    fn patterns(n: i32) -> i32 {
        let s = shape(n);
        let a = match s {
            Shape::Ball(r) if r > 2.0 => 1,
            Shape::Ball(..) => 2,
            Shape::Brick { state: State::Solid, .. } => 3,
            Shape::Brick { size, state: State::Gas } if size.x > 0.0 => 4,
            Shape::Pair(k @ 3..=4, _) => k * 100,
            Shape::Pair(_, 7) => 5,
            Shape::Nothing | Shape::Brick { .. } | Shape::Pair(..) => 6,
        };
        let b = match (s, n) {
            (Shape::Ball(r), k) => r as i32 + k,
            (_, 0) => 50,
            (Shape::Pair(x, y), 3 | 5) => x + y as i32,
            _ => 60,
        };
        a * 1000 + b
    } with (0), (1), (2), (3), (4), (5);

    fn options(x: f32) -> (f32, bool, Option<f32>) {
        let r = root(x);
        let mut s = 0.0;
        if let Some(v) = r {
            s += v;
        } else {
            s -= 1.0;
        }
        let kept = if let Some(v) = r && v > 1.5 { v } else { -2.0 };
        s += r.unwrap_or(3.0) + root(4.0).unwrap() + r.unwrap_or_default() + kept;
        let mut left = Some(3);
        while let Some(k) = left {
            s += k as f32;
            left = if k > 0 { Some(k - 1) } else { None };
        }
        let some = (x > 0.0).then_some(x);
        (s, r.is_some() && r != None || left.is_some(), some.or(r))
    } with (4.0), (-4.0), (1.0), (0.0);

    fn question_marks(a: f32, b: f32) -> Option<f32> {
        sum_of_roots(a, b)
    } with (4.0, 9.0), (-1.0, 9.0), (4.0, -1.0);

    fn generic_enums(n: i32) -> (Either<i32, f32>, Either<f32, i32>, Option<Option<u8>>) {
        let e = if n > 0 { Either::Left(n) } else { Either::Neither };
        let f: Either<f32, i32> = swapped(e);
        let nested = if n > 1 { Some(Some(3u8)) } else if n > 0 { Some(None) } else { None };
        (e, f, nested)
    } with (0), (1), (2);

    fn let_else(n: i32) -> i32 {
        let mut s = 0;
        for k in 0..n {
            let Shape::Pair(a, _) = shape(k) else {
                s += 1;
                continue;
            };
            s += a * 10;
        }
        s
    } with (0), (3), (6);
}

#[kernel]
fn melt(states: &Field<State, 1>, shapes: &Field<Shape, 1>, found: &Field<Option<Vec2>, 1>) -> i32 {
    let mut gas = 0;
    for [i] in states {
        states[[i]] = next(states[[i]]);
        if states[[i]] == State::Gas {
            gas += 1;
        }
        shapes[[i]] = shape(i);
        if let Shape::Ball(r) = shapes[[i]] {
            found[[i]] = Some(vec2(r, 1.0));
        }
    }
    gas
}

#[kernel]
fn chosen(world: &World, shape: Shape, level: Level, other: Option<f32>) -> Shape {
    assert!(
        level == Level::High,
        "level is {:?}, with {:?}",
        level,
        other
    );
    let mut grown = shape;
    grown.grow(other.unwrap_or(0.0));
    grown
}

#[test]
fn fields_hold_enums() {
    for world in worlds() {
        let states = world.field::<State, 1>("states", [4]).unwrap();
        let shapes = world.field::<Shape, 1>("shapes", [4]).unwrap();
        let found = world.field::<Option<Vec2>, 1>("found", [4]).unwrap();
        assert_eq!(states.get([0]).unwrap(), State::Solid);
        states.set([2], State::Liquid).unwrap();
        assert_eq!(melt(&states, &shapes, &found).unwrap(), 1);
        let expected = [State::Liquid, State::Liquid, State::Gas, State::Liquid];
        assert_eq!(states.to_vec().unwrap(), expected);
        let expected: Vec<Shape> = (0..4).map(|n| shape(n)).collect();
        assert_eq!(shapes.to_vec().unwrap(), expected);
        let expected = [None, Some(vec2(1.5, 1.0)), None, None];
        assert_eq!(found.to_vec().unwrap(), expected);
    }
}

#[test]
fn arguments_and_results_are_enums() {
    for world in worlds() {
        let grown = chosen(&world, Shape::Ball(2.0), Level::High, Some(0.5)).unwrap();
        assert_eq!(grown, Shape::Ball(2.5));
        let error = chosen(&world, Shape::Nothing, Level::Off, None).unwrap_err();
        assert_eq!(
            error.message,
            "assertion failed in kernel `chosen`: level is Off, with None"
        );
        let error = chosen(&world, Shape::Nothing, Level::Low, Some(0.5)).unwrap_err();
        assert_eq!(
            error.message,
            "assertion failed in kernel `chosen`: level is Low, with Some(0.5)"
        );
    }
}

#[kernel]
fn unwrapped(world: &World, x: f32) -> f32 {
    root(x).unwrap()
}

#[test]
fn nothing_has_no_value() {
    for world in worlds() {
        assert_eq!(unwrapped(&world, 9.0).unwrap(), 3.0);
        let error = unwrapped(&world, -9.0).unwrap_err();
        assert!(
            error
                .message
                .ends_with("called `Option::unwrap()` on a `None` value"),
            "{error}"
        );
    }
}

agree! {
    fn names_in_alternatives(k: i32, x: f32) -> (f32, f32, i32, i32) {
        let shape = if k == 0 {
            Shape::Ball(x)
        } else if k == 1 {
            Shape::Brick { size: vec3(x, 2.0, 3.0), state: State::Gas }
        } else {
            Shape::Pair(k, 4)
        };
        let first = match shape {
            Shape::Ball(r) if r > 2.0 => r,
            Shape::Pair(a @ (2 | 3), b) => (a + b as i32) as f32,
            _ => -1.0,
        };
        let pair = if k == 2 { (Some(x), None) } else { (None, Some(2.0 * x)) };
        let mut either = 0.0;
        if let (Some(v), None) | (None, Some(v)) = pair {
            either = v;
        }
        let nested = match (Some(k), k) {
            (Some(a @ 0 | a @ 2), _) | (_, a @ 7..) => a * 10,
            (_, mut b) => {
                b += 1;
                b
            }
        };
        let number = match k {
            n @ 0 | n @ 1 => n + 5,
            n => -n,
        };
        (first, either, nested, number)
    } with (0, 1.0), (0, 4.0), (1, 3.0), (2, 0.5), (3, 9.0);
}
