//! Packed fields: layouts, kernels and host access.

use crate::backend::worlds;
use wuji::WorldBuilder;
use wuji::prelude::*;

#[kernel]
fn advect(x: &Field<Vec3, 1>, v: &Field<Vec3, 1>, kind: &Field<i32, 1>, dt: f32) {
    for [i] in x {
        x[[i]] += v[[i]] * dt;
        if x[[i]][0] > 1.0 {
            kind[[i]] = 3;
        }
    }
}

#[test]
fn particles_in_words_move_like_particles_in_floats() -> wuji::Result<()> {
    for world in worlds() {
        let (x, v, kind) = world.layout(|root| {
            let particle = root.dense(I, 200);
            let words = particle.bit_structs(64);
            (
                words.place::<Vec3, 1>("x", qfixed(21, true, 2.0)),
                words
                    .shared_exponent()
                    .place::<Vec3, 1>("v", qfloat(7, 17, true)),
                words.place::<i32, 1>("kind", qint(4, false)),
            )
        })?;
        for i in 0..200 {
            let t = i as f32 / 200.0;
            x.set([i], Vec3::new(t, -t, 0.5))?;
            v.set([i], Vec3::new(1.0, t, -1e-3))?;
        }
        advect(&x, &v, &kind, 0.25)?;
        for i in 0..200 {
            let t = i as f32 / 200.0;
            let (found, wanted) = (x.get([i])?, [t + 0.25, -t + 0.25 * t, 0.5 - 0.25e-3]);
            for (found, wanted) in [found[0], found[1], found[2]].iter().zip(wanted) {
                assert!((found - wanted).abs() < 8e-6, "{i}: {found} {wanted}");
            }
            assert_eq!(kind.get([i])?, if t + 0.25 > 1.0 { 3 } else { 0 }, "{i}");
        }
        assert_eq!(x.tree().memory_used(), 200 * 2 * 8);
    }
    Ok(())
}

#[kernel]
fn life(x: &Field<u32, 2>, y: &Field<u32, 2>) {
    for [i, j] in x {
        let mut n = 0u32;
        for a in -1..2 {
            for b in -1..2 {
                if a != 0 || b != 0 {
                    n += x[[i + a, j + b]];
                }
            }
        }
        y[[i, j]] = if n == 3 || n == 2 && x[[i, j]] == 1 {
            1
        } else {
            0
        };
    }
}

fn life_by_hand(x: &[u32], (h, w): (usize, usize)) -> Vec<u32> {
    let at = |i: isize, j: isize| {
        let inside = (0..h as isize).contains(&i) && (0..w as isize).contains(&j);
        if inside {
            x[i as usize * w + j as usize]
        } else {
            0
        }
    };
    (0..h * w)
        .map(|k| {
            let (i, j) = ((k / w) as isize, (k % w) as isize);
            let around = (-1..2).flat_map(|a| (-1..2).map(move |b| (a, b)));
            let n: u32 = around
                .filter(|d| *d != (0, 0))
                .map(|(a, b)| at(i + a, j + b))
                .sum();
            u32::from(n == 3 || n == 2 && at(i, j) == 1)
        })
        .collect()
}

#[test]
fn cells_of_one_bit_live_and_die() -> wuji::Result<()> {
    for world in worlds() {
        let (h, w) = (37, 96);
        let place = |name: &str| {
            world.layout(|root| {
                let words = root.dense(IJ, [h, w / 32]);
                words
                    .bit_array(J, 32, 32)
                    .place::<u32, 2>(name, qint(1, false))
            })
        };
        let (x, y) = (place("x")?, place("y")?);
        let mut state: Vec<u32> = (0..h * w)
            .map(|k| ((k * k * 7 + k / 3) % 3) & 1)
            .map(|b| b as u32)
            .collect();
        x.copy_from(&state)?;
        for _ in 0..3 {
            life(&x, &y)?;
            life(&y, &x)?;
            state = life_by_hand(&life_by_hand(&state, (h, w)), (h, w));
            assert_eq!(x.to_vec()?, state);
        }
        x.fill(1)?;
        assert_eq!(x.to_vec()?, vec![1; h * w]);
        assert_eq!(x.tree().memory_used() as usize, h * w / 8);
    }
    Ok(())
}

#[kernel]
fn scatter(grid: &Field<f32, 2>, count: &Field<i32, 2>, n: i32) {
    for p in 0..n {
        let (i, j) = (p % 7, p % 11);
        grid[[i * 9, j * 5]] += 0.5;
        count[[i * 9, j * 5]] += 1;
    }
}

#[test]
fn cells_of_sparse_trees_hold_packed_elements() -> wuji::Result<()> {
    for world in worlds() {
        let (grid, count) = world.layout(|root| {
            let cell = root.pointer(IJ, 8).dense(IJ, 8).bit_struct(32);
            (
                cell.place::<f32, 2>("grid", qfixed_scaled(20, true, 0.25)),
                cell.place::<i32, 2>("count", qint(12, true)),
            )
        })?;
        scatter(&grid, &count, 770)?;
        for (at, value) in grid.iter()? {
            let hit = at[0] % 9 == 0 && at[0] < 63 && at[1] % 5 == 0 && at[1] < 55;
            assert_eq!(value, if hit { 5.0 } else { 0.0 }, "{at:?}");
            assert_eq!(count.get(at)?, if hit { 10 } else { 0 }, "{at:?}");
        }
        assert!(grid.is_active([9, 5])?);
    }
    Ok(())
}

#[kernel]
fn out_of_range(x: &Field<f32, 1>, n: i32) {
    for i in 0..n {
        x[[i]] = 1.0;
    }
}

#[test]
fn a_write_outside_of_a_packed_field_names_it() -> wuji::Result<()> {
    for world in worlds() {
        let x = world.layout(|root| {
            let cell = root.dense(I, 8).bit_struct(16);
            cell.place::<f32, 1>("density", qfloat(5, 11, true))
        })?;
        let error = out_of_range(&x, 9)
            .and_then(|()| world.synchronize())
            .unwrap_err();
        assert!(error.to_string().contains("density"), "{error}");
        assert!(error.to_string().contains('8'), "{error}");
    }
    Ok(())
}

#[test]
fn gradients_pass_through_packed_fields() -> wuji::Result<()> {
    #[kernel]
    fn energy(x: &Field<f32, 1>, e: &Field<f32, 0>) {
        for [i] in x {
            e[[]] += x[[i]] * x[[i]];
        }
    }
    let world = World::cpu()?;
    let x = world.layout(|root| {
        let cell = root.dense(I, 16).bit_struct(32);
        cell.place::<f32, 1>("x", qfixed(24, true, 4.0))
    })?;
    let e = world.scalar::<f32>("e")?;
    let x = x.needs_grad()?;
    let e = e.needs_grad()?;
    x.copy_from(&(0..16).map(|k| k as f32 / 8.0).collect::<Vec<_>>())?;
    world.tape(&e, || energy(&x, &e))?;
    for i in 0..16 {
        assert!((x.grad()?.get([i])? - 2.0 * i as f32 / 8.0).abs() < 1e-5);
    }
    Ok(())
}

#[kernel]
fn grow(x: &Field<f32, 1>, n: &Field<i32, 1>, h: &Field<f32, 1>) {
    for [i] in x {
        n[[i]] = i * 3;
        x[[i]] = i as f32;
        h[[i]] = i as f32 * 20000.0;
    }
}

#[test]
fn debug_worlds_report_numbers_that_do_not_fit() -> wuji::Result<()> {
    report_numbers_that_do_not_fit(World::builder().threads(2))?;
    report_numbers_that_do_not_fit(World::builder().interpreter())
}

fn report_numbers_that_do_not_fit(builder: WorldBuilder) -> wuji::Result<()> {
    let world = builder.debug(true).build()?;
    let place = |bits: u32, max: f64| {
        world.layout(|root| {
            let cell = root.dense(I, 8).bit_structs(32);
            (
                cell.place::<f32, 1>("x", qfixed(12, true, max)),
                cell.place::<i32, 1>("n", qint(bits, true)),
                cell.place::<f32, 1>("h", qfloat(5, 11, true)),
            )
        })
    };
    let error = |(x, n, h): (Field<f32, 1>, Field<i32, 1>, Field<f32, 1>)| {
        let run = grow(&x, &n, &h).and_then(|()| world.synchronize());
        run.map_or_else(|e| e.to_string(), |()| String::new())
    };
    let text = error(place(5, 8.0)?);
    assert!(
        text.contains("field `n` cannot store 18: it has 5 bits, for -16 to 15"),
        "{text}"
    );
    assert!(text.contains("quantized.rs:"), "{text}");
    let text = error(place(8, 4.0)?);
    assert!(text.contains("field `x` cannot store 4"), "{text}");
    let text = error(place(8, 8.0)?);
    assert!(text.contains("field `h` cannot store 80000"), "{text}");
    Ok(())
}

#[kernel]
fn update(x: &Field<f32, 1>, n: &Field<i32, 1>, v: &Field<Vec3, 1>, kind: i32, value: f32) {
    for [i] in x {
        if kind == 0 {
            x[[i]] = value;
        }
        if kind == 1 {
            x[[i]] += value;
        }
        if kind == 2 {
            n[[i]] += 12;
        }
        if kind == 3 {
            v[[i]] = vec3(value, value * 0.0001, 0.0);
        }
        if kind == 4 {
            v[[i]].y = value;
        }
    }
}

/// The message of the error of an update of a 12-bit number, a 5-bit integer, or floats that share 5 bits of exponent.
fn updated(builder: WorldBuilder, kind: i32, values: &[f32]) -> wuji::Result<String> {
    let world = builder.build()?;
    let (x, n, v) = world.layout(|root| {
        let cell = root.dense(I, 4).bit_structs(64);
        (
            cell.place::<f32, 1>("x", qfixed(12, true, 8.0)),
            cell.place::<i32, 1>("n", qint(5, true)),
            cell.shared_exponent()
                .place::<Vec3, 1>("v", qfloat(5, 9, true)),
        )
    })?;
    for value in values {
        let run = update(&x, &n, &v, kind, *value).and_then(|()| world.synchronize());
        if let Err(e) = run {
            assert!(e.to_string().contains("quantized.rs:"), "{e}");
            return Ok(e.to_string());
        }
    }
    Ok(String::new())
}

#[test]
fn lost_precision_is_reported() -> wuji::Result<()> {
    for interpreter in [false, true] {
        let world = || {
            let builder = World::builder().threads(2);
            if interpreter {
                builder.interpreter()
            } else {
                builder
            }
        };
        let debug = || world().debug(true);
        let expect = |text: String, expected: &str| assert!(text.contains(expected), "{text}");
        // Multiples of 1/256.
        expect(
            updated(debug(), 0, &[0.5, 0.002, -0.0019])?,
            "a multiple of 0.00390625",
        );
        expect(
            updated(debug(), 1, &[0.25, 0.001])?,
            "field `x` cannot add 0.001: it becomes 0",
        );
        expect(
            updated(debug(), 3, &[1.0, 1e-3, 0.0, 1e-7])?,
            "a fraction with a shared exponent of at least -14",
        );
        expect(updated(debug(), 4, &[-1e-8])?, "field `v` cannot store -");
        // Sums are checked, too.
        expect(
            updated(debug(), 2, &[0.0, 0.0])?,
            "field `n` cannot store 24: it has 5 bits",
        );
        expect(
            updated(debug(), 1, &[7.0, 1.5])?,
            "field `x` cannot store 8.5",
        );
        // 0.3 is 77 / 256 with an error of 0.0026, less than 2^-8 of it.
        assert_eq!(updated(debug().check_precision(8), 0, &[0.5, 0.3])?, "");
        expect(
            updated(world().check_precision(9), 0, &[0.5, 0.3])?,
            "field `x` cannot store 0.3: it becomes 0.30078125",
        );
        for value in [0.001, 0.0, f32::MIN_POSITIVE] {
            assert_eq!(updated(debug().check_precision(None), 0, &[value])?, "");
            assert_eq!(updated(world(), 0, &[value])?, "");
        }
    }
    Ok(())
}

#[test]
fn bits_beyond_all_words_are_errors() -> wuji::Result<()> {
    let world = World::cpu()?;
    let code = |bits: u32| {
        let placed = world.layout(|root| {
            let group = root.dense(I, 4).bit_struct(64).shared_exponent();
            group.place::<Vec3, 1>("v", qfloat(6, bits, true))
        });
        placed.map_or_else(|e| e.code, |_| "")
    };
    assert_eq!(code(u32::MAX), "W0150");
    assert_eq!(code(20), "W0151");
    assert_eq!(code(19), "");
    let array = world.layout(|root| {
        let words = root.dense(I, 4).bit_array(I, 2, 64);
        words.place::<i64, 1>("x", qint(u32::MAX, true))
    });
    assert_eq!(array.unwrap_err().code, "W0150");
    Ok(())
}
