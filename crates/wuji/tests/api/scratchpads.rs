//! `cache(x)` and `assume_in_range` change the speed of a kernel, not its results.

use crate::backend::{builder, on_gpu};
use expect_test::{Expect, expect};
use wuji::prelude::*;
use wuji::{Error, Result};

fn everywhere(test: impl Fn(&World) -> Result<()>) {
    let mut worlds = vec![World::interpreter()];
    if on_gpu() {
        worlds.push(builder().build());
    } else {
        worlds.push(World::builder().threads(1).build());
        worlds.push(World::builder().threads(4).build());
    }
    for world in worlds {
        let world = world.unwrap();
        test(&world).unwrap_or_else(|e| panic!("{world:?}: {e}"));
    }
}

#[kernel]
fn gather(x: &Field<i64, 2>, y: &Field<i64, 2>) {
    for [i, j] in x {
        let mut sum = 0;
        for [a, b] in grid([-2..3, -2..3]) {
            sum += x[[i + a, j + b]] * (a * 7 + b) as i64;
        }
        y[[i, j]] = sum;
    }
}

#[kernel]
fn gather_cached(x: &Field<i64, 2>, y: &Field<i64, 2>) {
    for [i, j] in cache(x, x) {
        let mut sum = 0;
        for [a, b] in grid([-2..3, -2..3]) {
            sum += x[[i + a, j + b]] * (a * 7 + b) as i64;
        }
        y[[i, j]] = sum;
    }
}

fn plane(w: &World, kind: &str) -> Result<(Field<i64, 2>, Field<i64, 2>)> {
    w.layout(|root| {
        let block = match kind {
            "pointer" => root.pointer(IJ, 8),
            "hash" => root.hash(IJ),
            _ => root.pointer(IJ, 4).hash_sized(IJ, 2),
        };
        let cell = block.dense(IJ, 8);
        (cell.place("x"), cell.place("y"))
    })
}

#[test]
fn gathering() {
    everywhere(|w| {
        for kind in ["pointer", "hash", "hash below pointer"] {
            let (x, y) = plane(w, kind)?;
            for n in 0..40i64 {
                let at = [n * n % 63, n * 7 % 64];
                x.window([at[0]..at[0] + 1, at[1]..at[1] + 1])?
                    .fill(n + 1)?;
            }
            gather(&x, &y)?;
            let expected = y.export()?;
            y.fill(0)?;
            gather_cached(&x, &y)?;
            assert_eq!(y.export()?, expected);
        }
        Ok(())
    });
}

#[kernel]
fn scatter(particles: &Field<Vec2, 3>, mass: &Field<i64, 2>) {
    for [i, j, l] in particles {
        let p = particles[[i, j, l]];
        let base = (p - 0.5).floor().cast::<i32>();
        for [a, b] in grid([0..3, 0..3]) {
            mass[base + ivec2(a, b)] += (a * 3 + b + 1) as i64;
        }
    }
}

/// Particles are in the block that their list belongs to, more or less.
#[kernel]
fn scatter_cached(particles: &Field<Vec2, 3>, mass: &Field<i64, 2>) {
    for [i, j, l] in cache(mass, particles) {
        let p = particles[[i, j, l]];
        let base = (p - 0.5).floor().cast::<i32>();
        let base = ivec2(
            assume_in_range(base.x, i * 8, -1, 8),
            assume_in_range(base.y, j * 8, -1, 8),
        );
        for [a, b] in grid([0..3, 0..3]) {
            mass[base + ivec2(a, b)] += (a * 3 + b + 1) as i64;
        }
    }
}

/// The same, without a word about pads.
#[kernel]
fn scatter_near(particles: &Field<Vec2, 3>, mass: &Field<i64, 2>) {
    for [i, j, l] in particles {
        let p = particles[[i, j, l]];
        let base = (p - 0.5).floor().cast::<i32>();
        let base = ivec2(
            assume_in_range(base.x, i * 8, -1, 8),
            assume_in_range(base.y, j * 8, -1, 8),
        );
        for [a, b] in grid([0..3, 0..3]) {
            mass[base + ivec2(a, b)] += (a * 3 + b + 1) as i64;
        }
    }
}

#[kernel]
fn sow(particles: &Field<Vec2, 3>, n: i32, drift: f32) {
    for k in 0..n {
        let at = ivec2(k * 31 % 16 - 8, k * 17 % 16 - 8);
        let within = vec2((k % 83) as f32 / 83.0, (k % 61) as f32 / 61.0) * 8.0;
        let p = at.cast::<f32>() * 8.0 + within * (1.0 + drift);
        particles.append(at, p);
    }
}

#[test]
fn scattering() {
    everywhere(|w| {
        // With drift some particles are outside of what is assumed.
        for drift in [0.0, 0.4] {
            let (particles, mass) = w.layout(|root| {
                let block = root.hash(IJ);
                (
                    block.dynamic(K, 512).place::<Vec2, 3>("particles"),
                    block.dense(IJ, 8).place::<i64, 2>("mass"),
                )
            })?;
            sow(&particles, 3000, drift)?;
            scatter(&particles, &mass)?;
            let expected = mass.export()?;
            mass.fill(0)?;
            scatter_cached(&particles, &mass)?;
            assert_eq!(mass.export()?, expected);
            mass.fill(0)?;
            scatter_near(&particles, &mass)?;
            assert_eq!(mass.export()?, expected);
        }
        Ok(())
    });
}

/// Adds to two fields around each particle, and moves it.
#[kernel]
fn transfer(particles: &Field<Vec2, 3>, momentum: &Field<Vec2, 2>, mass: &Field<f32, 2>) {
    for [i, j, l] in particles {
        let p = particles[[i, j, l]];
        let base = (p - 0.5).floor().cast::<i32>();
        for a in unroll(0..3) {
            for b in unroll(0..3) {
                momentum[base + ivec2(a, b)] += vec2((a + 1) as f32, (l % 8) as f32);
                mass[base + ivec2(a, b)] += (a * 3 + b + 1) as f32;
            }
        }
    }
}

#[kernel]
fn transfer_cached(
    particles: &Field<Vec2, 3>,
    counts: &Field<i32, 3>,
    momentum: &Field<Vec2, 2>,
    mass: &Field<f32, 2>,
) {
    for [i, j, l] in cache(momentum, cache(mass, particles)) {
        let p = particles[[i, j, l]];
        let base = (p - 0.5).floor().cast::<i32>();
        let base = ivec2(
            assume_in_range(base.x, i * 8, -1, 8),
            assume_in_range(base.y, j * 8, -1, 8),
        );
        counts[[i, j, l]] += 1;
        for a in unroll(0..3) {
            for b in unroll(0..3) {
                momentum[base + ivec2(a, b)] += vec2((a + 1) as f32, (l % 8) as f32);
                mass[base + ivec2(a, b)] += (a * 3 + b + 1) as f32;
            }
        }
    }
}

/// Sums of floats, which a GPU may sort by cell. All of them are small integers, so they do not depend on the order.
#[test]
fn sums_of_floats() {
    everywhere(|w| {
        // Many particles in few cells, all in one, and some outside of what is assumed.
        for (n, drift) in [(3000, 0.0), (8000, 0.0), (200, -1.0), (5000, 0.4)] {
            let (particles, counts, momentum, mass) = w.layout(|root| {
                let block = root.hash(IJ);
                let list = block.dynamic_chunked(K, 512, 256);
                (
                    list.place::<Vec2, 3>("particles"),
                    list.place::<i32, 3>("counts"),
                    block.dense(IJ, 8).place::<Vec2, 2>("momentum"),
                    block.dense(IJ, 8).place::<f32, 2>("mass"),
                )
            })?;
            sow(&particles, n, drift)?;
            transfer(&particles, &momentum, &mass)?;
            let expected = (momentum.export()?, mass.export()?);
            momentum.fill(Vec2::splat(0.0))?;
            mass.fill(0.0)?;
            transfer_cached(&particles, &counts, &momentum, &mass)?;
            assert_eq!((momentum.export()?, mass.export()?), expected);
            let (_, counts) = counts.export()?;
            assert!(counts.len() == n as usize && counts.iter().all(|c| *c == 1));
        }
        Ok(())
    });
}

#[kernel]
fn unknown(x: &Field<i32, 1>, n: i32) {
    for [i] in x {
        let k = assume_in_range(i + 1, i, 0, n);
        x[[k]] += 1;
    }
}

#[kernel]
fn empty(x: &Field<i32, 1>) {
    for [i] in x {
        let k = assume_in_range(i + 1, i, 3, 3);
        x[[k]] += 1;
    }
}

fn message(result: Result<()>, expected: Expect) {
    let mut error: Error = result.unwrap_err();
    assert!(error.at.take().is_some());
    expected.assert_eq(&error.to_string());
}

#[test]
fn what_is_wrong() {
    let w = World::interpreter().unwrap();
    let x = w.field::<i32, 1>("x", 8).unwrap();
    message(
        unknown(&x, 3),
        expect![[r#"
            error[W0253]: the range of `assume_in_range` is two constants, the first below the second
              = help: as in `assume_in_range(j, i, -1, 2)`: `j` is one of `i - 1`, `i`, `i + 1`"#]],
    );
    message(
        empty(&x),
        expect![[r#"
            error[W0253]: the range of `assume_in_range` is two constants, the first below the second
              = help: as in `assume_in_range(j, i, -1, 2)`: `j` is one of `i - 1`, `i`, `i + 1`"#]],
    );
}
