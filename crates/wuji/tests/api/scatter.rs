//! Scattered updates of one field give the same result for any number of threads and private copies.

use wuji::Result;
use wuji::prelude::*;

/// Runs a test in every kind of world.
fn everywhere(test: impl Fn(&World) -> Result<()>) {
    let native = |threads| World::builder().threads(threads).build();
    let worlds = [
        World::interpreter(),
        native(1),
        native(2),
        native(3),
        native(8),
    ];
    for world in worlds {
        let world = world.unwrap();
        test(&world).unwrap_or_else(|e| panic!("{world:?}: {e}"));
    }
}

const N: i64 = 20_000;

#[kernel]
fn count(x: &Field<i32, 1>, sum: &Field<f32, 1>, number: &Field<i32, 1>) {
    for [i] in x {
        let k = x[[i]];
        sum[[k]] += 0.5;
        number[[k]] += 1;
    }
}

#[test]
fn sums_are_complete() {
    everywhere(|w| {
        let x = w.field::<i32, 1>("x", [N])?;
        x.copy_from(&(0..N).map(|i| (i * i % 10) as i32).collect::<Vec<_>>())?;
        let (sum, number) = w.layout(|root| {
            let cell = root.dense(I, 10);
            (cell.place::<f32, 1>("sum"), cell.place::<i32, 1>("number"))
        })?;
        sum.set([2], -0.0)?;
        for round in 1..4 {
            count(&x, &sum, &number)?;
            let each = |squares: i32| round * squares * N as i32 / 10;
            let expected = [1, 2, 0, 0, 2, 1, 2, 0, 0, 2].map(each);
            assert_eq!(number.to_vec()?, expected);
            assert_eq!(sum.to_vec()?, expected.map(|n| n as f32 / 2.0));
        }
        // Untouched elements keep their sign.
        assert!(sum.get([2])?.is_sign_negative());
        Ok(())
    });
}

#[kernel]
fn extremes(x: &Field<i32, 1>, low: &Field<f32, 1>, high: &Field<i64, 1>) {
    for [i] in x {
        low.at([x[[i]] % 3]).fetch_min(x[[i]] as f32);
        high.at([x[[i]] % 3]).fetch_max(x[[i]] as i64);
    }
}

#[kernel]
fn raise(x: &Field<i32, 1>, low: &Field<f32, 1>) {
    for [i] in x {
        low[[x[[i]] % 3]] += 1.0;
    }
}

#[test]
fn one_field_is_updated_in_several_ways() {
    everywhere(|w| {
        let x = w.field::<i32, 1>("x", [N])?;
        x.copy_from(&(0..N as i32).rev().collect::<Vec<_>>())?;
        let low = w.field::<f32, 1>("low", [4])?;
        let high = w.field::<i64, 1>("high", [4])?;
        low.fill(1e9)?;
        low.set([3], f32::NAN)?;
        high.fill(-7)?;
        extremes(&x, &low, &high)?;
        assert_eq!(low.to_vec()?[..3], [0.0, 1.0, 2.0]);
        assert_eq!(high.to_vec()?, [19_998, 19_999, 19_997, -7]);
        // Copies that were made for minima are made anew for sums, and the other way round.
        raise(&x, &low)?;
        assert_eq!(low.to_vec()?[..3], [6667.0, 6668.0, 6668.0]);
        extremes(&x, &low, &high)?;
        assert_eq!(low.to_vec()?[..3], [0.0, 1.0, 2.0]);
        assert!(low.get([3])?.is_nan());
        Ok(())
    });
}

#[derive(Element, Copy, Clone, PartialEq, Debug)]
struct Node {
    momentum: Vec2,
    mass: f32,
}

#[kernel]
fn splat(x: &Field<Vec2, 1>, grid: &Field<Node, 2>) {
    for [p] in x {
        let base = x[[p]].cast::<i32>();
        for i in 0..3 {
            for j in 0..3 {
                let at = base + ivec2(i, j);
                grid[at].momentum += x[[p]] * 0.25;
                grid[at].mass += 1.0;
            }
        }
    }
}

#[test]
fn vectors_and_structs_on_a_blocked_grid() {
    everywhere(|w| {
        let x = w.field::<Vec2, 1>("x", [N])?;
        let at = |p: i64| vec2((p % 7) as f32, (p % 5) as f32);
        x.copy_from(&(0..N).map(at).collect::<Vec<_>>())?;
        let grid = w.layout(|root| {
            let block = root.dense(IJ, 4);
            block.dense(IJ, 4).place::<Node, 2>("grid")
        })?;
        splat(&x, &grid)?;
        splat(&x, &grid)?;
        let all = grid.to_vec()?;
        let mass: f32 = all.iter().map(|n| n.mass).sum();
        assert_eq!(mass, 2.0 * 9.0 * N as f32);
        let momentum: f64 = all.iter().map(|n| f64::from(n.momentum.x)).sum();
        let expected: f64 = (0..N).map(|p| 2.0 * 9.0 * 0.25 * (p % 7) as f64).sum();
        assert_eq!(momentum, expected);
        assert_eq!(all[15 * 16 + 15].mass, 0.0);
        Ok(())
    });
}

#[kernel]
fn beyond(x: &Field<i32, 1>, y: &Field<i32, 1>) {
    for [i] in x {
        y[[i - 5]] += 1;
    }
}

#[test]
fn updates_outside_are_reported() {
    everywhere(|w| {
        let (x, y) = (w.field::<i32, 1>("x", [512])?, w.field::<i32, 1>("y", [8])?);
        let error = beyond(&x, &y).and_then(|()| w.flush()).unwrap_err();
        assert_eq!(error.code, "W0401");
        assert_eq!(y.to_vec()?, [1; 8]);
        Ok(())
    });
}

#[test]
fn copies_are_counted_and_freed() {
    let w = World::builder().threads(4).build().unwrap();
    let x = w.field::<i32, 1>("x", [N]).unwrap();
    let low = w.field::<f32, 1>("low", [4]).unwrap();
    let high = w.field::<i64, 1>("high", [4]).unwrap();
    let fields = 4 * N as u64 + 4 * 4 + 4 * 8;
    assert_eq!(w.memory_used(), fields);
    extremes(&x, &low, &high).unwrap();
    assert_eq!(w.memory_used(), fields + 3 * (4 * 4 + 4 * 8));
    extremes(&x, &low, &high).unwrap();
    assert_eq!(w.memory_used(), fields + 3 * (4 * 4 + 4 * 8));
    drop((low, high));
    assert_eq!(w.memory_used(), 4 * N as u64);
}
