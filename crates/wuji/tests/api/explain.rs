//! The report of `World::explain` about loops is the same on every machine, for vectors of 256 bits.

use expect_test::{Expect, expect};
use wuji::prelude::*;
use wuji::{Result, Tier};

fn world() -> World {
    World::builder()
        .vector_bits(256)
        .tier(Tier::Best)
        .lazy(false)
        .build()
        .unwrap()
}

/// Lines without the name of the file.
fn check(world: &World, expected: &Expect) {
    let lines: Vec<String> = world
        .explain()
        .iter()
        .map(|r| {
            let line = r.to_string();
            line.split_once(".rs:")
                .map_or(line.clone(), |(_, l)| l.to_owned())
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[kernel]
fn julia(pixels: &Field<f32, 2>) {
    for [i, j] in pixels {
        let mut z = vec2(i as f32 / 32.0 - 1.0, j as f32 / 32.0 - 0.5) * 2.0;
        let mut n = 0u32;
        while z.norm_sqr() < 400.0 && n < 50 {
            z = vec2(z.x * z.x - z.y * z.y - 0.8, z.x * z.y * 2.0 + 0.156);
            n += 1;
        }
        pixels[[i, j]] = 1.0 - n as f32 * 0.02;
    }
}

#[test]
fn julia_is_vectors() -> Result<()> {
    let w = world();
    julia(&w.field::<f32, 2>("pixels", [64, 32])?)?;
    check(&w, &expect!["32:5: julia.1: 8 lanes, 4 vectors at a time"]);
    Ok(())
}

#[kernel]
fn gravity(x: &Field<Vec3, 1>, v: &Field<Vec3, 1>) {
    for [i] in x {
        let mut a = vec3(0.0, 0.0, 0.0);
        for j in 0..100 {
            let d = x[[j]] - x[[i]];
            let inv = (d.norm_sqr() + 1e-3).rsqrt();
            a += d * (inv * inv * inv);
        }
        v[[i]] += a;
    }
}

#[test]
fn n_body_is_vectors() -> Result<()> {
    let w = world();
    let (x, v) = (
        w.field::<Vec3, 1>("x", [100])?,
        w.field::<Vec3, 1>("v", [100])?,
    );
    gravity(&x, &v)?;
    check(
        &w,
        &expect!["53:5: gravity.1: 8 lanes, 4 vectors at a time, interleaved"],
    );
    Ok(())
}

const CELLS: f32 = 32.0;

#[kernel]
fn to_grid(
    x: &Field<Vec2, 1>,
    v: &Field<Vec2, 1>,
    momentum: &Field<Vec2, 2>,
    mass: &Field<f32, 2>,
) {
    for [p] in x {
        let at = x[[p]] * CELLS;
        let base = (at - vec2(0.5, 0.5)).cast::<i32>();
        for a in 0..3 {
            for b in 0..3 {
                let to = [base.x + a, base.y + b];
                let weight =
                    1.0 / (1.0 + (at.x - to[0] as f32).abs() + (at.y - to[1] as f32).abs());
                momentum[to] += v[[p]] * weight;
                mass[to] += weight;
            }
        }
    }
}

#[kernel]
fn to_particles(x: &Field<Vec2, 1>, v: &Field<Vec2, 1>, momentum: &Field<Vec2, 2>) {
    for [p] in x {
        let at = x[[p]] * CELLS;
        let base = (at - vec2(0.5, 0.5)).cast::<i32>();
        let mut sum = vec2(0.0, 0.0);
        for a in 0..3 {
            for b in 0..3 {
                let from = [base.x + a, base.y + b];
                let weight =
                    1.0 / (1.0 + (at.x - from[0] as f32).abs() + (at.y - from[1] as f32).abs());
                sum += momentum[from] * weight;
            }
        }
        v[[p]] = sum;
    }
}

#[test]
fn particles_and_grids_are_vectors() -> Result<()> {
    let w = world();
    let (x, v) = w.layout(|root| {
        let p = root.dense(I, 1000);
        (p.place::<Vec2, 1>("x"), p.place::<Vec2, 1>("v"))
    })?;
    let (momentum, mass) = w.layout(|root| {
        let c = root.dense(IJ, [32, 32]);
        (c.place::<Vec2, 2>("momentum"), c.place::<f32, 2>("mass"))
    })?;
    to_grid(&x, &v, &momentum, &mass)?;
    to_particles(&x, &v, &momentum)?;
    check(
        &w,
        &expect![[r#"
            88:5: to_grid.1.fill.T1.S1: 8 lanes, 4 vectors at a time, interleaved
            88:5: to_grid.1: 8 lanes, interleaved
            88:5: to_grid.1.merge.T1.S1: 8 lanes, 2 vectors at a time, interleaved
            105:5: to_particles.1: 8 lanes, interleaved"#]],
    );
    Ok(())
}

#[kernel]
fn sparse_jacobi(x: &Field<f32, 3>, y: &Field<f32, 3>) {
    for [i, j, k] in x {
        let sum = x[[i - 1, j, k]]
            + x[[i + 1, j, k]]
            + x[[i, j - 1, k]]
            + x[[i, j + 1, k]]
            + x[[i, j, k - 1]]
            + x[[i, j, k + 1]];
        y[[i, j, k]] = sum / 6.0;
    }
}

#[test]
fn sparse_stencils_are_vectors() -> Result<()> {
    let w = world();
    let (x, y) = w.layout(|root| {
        let block = root.pointer(IJK, [8, 8, 8]).dense(IJK, [8, 8, 8]);
        (block.place::<f32, 3>("x"), block.place::<f32, 3>("y"))
    })?;
    x.set([1, 2, 3], 1.0)?;
    sparse_jacobi(&x, &y)?;
    check(&w, &expect!["147:5: sparse_jacobi.1: 8 lanes, interleaved"]);
    Ok(())
}

#[kernel]
fn asked_not_to(x: &Field<f32, 1>) {
    for [i] in scalar(x) {
        x[[i]] += 1.0;
    }
}

#[kernel]
fn tickets(x: &Field<i32, 1>, next: &Field<i32, 0>) {
    for [i] in x {
        x[[i]] = next.at([0i32; 0]).fetch_add(1);
    }
}

#[kernel]
fn tickets_all_the_same(x: &Field<i32, 1>, next: &Field<i32, 0>) {
    for [i] in simd(x) {
        x[[i]] = next.at([0i32; 0]).fetch_add(1);
    }
}

#[kernel]
fn few(x: &Field<f32, 2>) {
    for [i, j] in x {
        x[[i, j]] += 1.0;
    }
}

#[test]
fn scalar_loops_state_the_reason() -> Result<()> {
    let w = world();
    asked_not_to(&w.field::<f32, 1>("x", [100])?)?;
    let (x, next) = (
        w.field::<i32, 1>("x", [100])?,
        w.field::<i32, 0>("next", [0i64; 0])?,
    );
    tickets(&x, &next)?;
    tickets_all_the_same(&x, &next)?;
    few(&w.field::<f32, 2>("x", [100, 2])?)?;
    check(
        &w,
        &expect![[r#"
            173:5: asked_not_to.1: scalar: it says `scalar`
            180:5: tickets.1: scalar: most of it runs lane by lane
            187:5: tickets_all_the_same.1: 8 lanes
            194:5: few.1: scalar: it has 2 iterations"#]],
    );
    Ok(())
}

#[kernel]
fn near(list: &Field<Vec2, 3>, sum: &Field<f32, 2>, other: &Field<f32, 2>, out: &Field<f32, 3>) {
    for [i, j, l] in list {
        let at = list[[i, j, l]].floor().cast::<i32>();
        let x = assume_in_range(at.x, i * 4, 0, 4);
        let y = assume_in_range(at.y, j * 4, 0, 4);
        sum[[x, y]] += 1.0;
        sum[[x + 1, y + 1]] += 2.0;
        out[[i, j, l]] = other[[x, y]];
    }
}

#[kernel]
fn anywhere(list: &Field<Vec2, 3>, sum: &Field<f32, 2>) {
    for [i, j, l] in list {
        sum[list[[i, j, l]].floor().cast::<i32>()] += 1.0;
    }
}

#[kernel]
fn too_few(list: &Field<Vec2, 3>, sum: &Field<f32, 2>) {
    for [i, j, l] in list {
        let at = list[[i, j, l]].floor().cast::<i32>();
        let x = assume_in_range(at.x, i * 4, -20, 20);
        let y = assume_in_range(at.y, j * 4, -20, 20);
        sum[[x, y]] += 1.0;
    }
}

#[kernel]
fn asked_for(list: &Field<Vec2, 3>, sum: &Field<f32, 2>) {
    for [i, j, l] in cache(sum, list) {
        let at = list[[i, j, l]].floor().cast::<i32>();
        let x = assume_in_range(at.x, i * 4, -20, 20);
        let y = assume_in_range(at.y, j * 4, -20, 20);
        sum[[x, y]] += 1.0;
    }
}

#[test]
fn pads_are_chosen_by_cost() -> Result<()> {
    let w = World::builder()
        .vector_bits(256)
        .threads(2)
        .tier(Tier::Best)
        .build()?;
    let (list, out, sum, other) = w.layout(|root| {
        let block = root.pointer(IJ, 8);
        let list = block.dynamic_chunked(K, 1024, 256);
        let node = block.dense(IJ, 4);
        (
            list.place::<Vec2, 3>("list"),
            list.place::<f32, 3>("out"),
            node.place::<f32, 2>("sum"),
            node.place::<f32, 2>("other"),
        )
    })?;
    near(&list, &sum, &other, &out)?;
    anywhere(&list, &sum)?;
    too_few(&list, &sum)?;
    asked_for(&list, &sum)?;
    check(
        &w,
        &expect![[r#"
            223:5: near.1: no scratchpad for `other`: reading it is as fast without
            223:5: near.1: `sum` in a scratchpad of 25 elements, for blocks of 13 iterations or more
            223:5: near.1: scalar: its iterations are blocks, and the inner ones share a scratchpad
            235:5: anywhere.1: no scratchpad for `sum`: its distance from the block is unknown; `assume_in_range` states it
            235:5: anywhere.1: 4 lanes, interleaved
            242:5: too_few.1: no scratchpad for `sum`: a block adds to 256 elements of `sum` at most, and there are 1600 around it
            242:5: too_few.1: 4 lanes, interleaved
            252:5: asked_for.1: `sum` in a scratchpad of 1600 elements
            252:5: asked_for.1: scalar: its iterations are blocks, and the inner ones share a scratchpad"#]],
    );
    Ok(())
}

#[test]
fn unsupported_vector_widths_are_rejected() -> Result<()> {
    let w = World::builder().vector_bits(100).build()?;
    let x = w.field::<f32, 1>("x", [100])?;
    expect![[r#"
        error[W0303]: there are no vectors of 100 bits
          --> crates/wuji/tests/api/explain.rs:306:17
          = help: say 128, 256 or 512"#]]
    .assert_eq(&asked_not_to(&x).unwrap_err().to_string());
    Ok(())
}

#[kernel]
fn relax(x: &Field<f32, 1>, n: i32) {
    let mut rounds = 0;
    while rounds < 3 {
        for i in 1..n {
            x[[i]] = 0.5 * x[[i - 1]];
        }
        for i in 0..4 {
            x[[i]] = x[[i + 1]];
        }
        for i in 0..n {
            x[[i]] += 1.0;
        }
        rounds += 1;
    }
    if n > 2 {
        for i in 0..100_000 {
            x[[i]] = x[[i / 2]];
        }
    }
}

#[test]
fn dependent_loops_under_other_control_flow_are_serial() -> Result<()> {
    let w = world();
    let lines = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let said = lines.clone();
    w.set_log_level(wuji::Level::Warn);
    w.on_log(move |level, line| said.lock().unwrap().push(format!("{level:?} {line}")));
    let x = w.field::<f32, 1>("x", 100_000)?;
    relax(&x, 100_000)?;
    check(
        &w,
        &expect![[r#"
            314:9: relax: one thread: the loop is under a `while`, and its iterations may depend on each other; to run them in parallel, make it a kernel of its own, and launch that in a loop
            326:9: relax: one thread: the loop is under an `if`, and its iterations may depend on each other; to run them in parallel, move the `if` into the loop, or the loop into a kernel of its own
            320:9: relax.0.3: 8 lanes, 4 vectors at a time"#]],
    );
    let lines = lines.lock().unwrap();
    assert!(lines.iter().all(|l| l.starts_with("Warn warning[W0313]: ")));
    let lines: Vec<&str> = lines
        .iter()
        .map(|l| l.split_once(".rs:").map_or(l.as_str(), |(_, l)| l))
        .collect();
    expect!["326:9: relax: one thread: the loop is under an `if`, and its iterations may depend on each other; to run them in parallel, move the `if` into the loop, or the loop into a kernel of its own"].assert_eq(&lines.join("\n"));
    Ok(())
}

/// Marches along a ray that bounces: lanes leave both loops early.
#[kernel]
fn trace(x: &Field<f32, 2>) {
    for [i, j] in x {
        let (mut at, mut light) = (i as f32 * 0.01, 1.0);
        for _ in 0..3 {
            let (mut t, mut hit) = (0.005, false);
            for _ in 0..64 {
                let mut d = 1e9;
                for k in unroll(0..4) {
                    let p = at + t * (0.3 + 0.1 * k as f32);
                    d = d.min((p - p.floor() - 0.5 + j as f32 * 0.001).abs());
                }
                t += d;
                hit = d < 0.001;
                if t > 5.0 || hit {
                    break;
                }
            }
            if !hit {
                light = 0.0;
                break;
            }
            light *= 0.5;
            at += t;
        }
        x[[i, j]] = light;
    }
}

#[test]
fn rays_that_bounce_are_vectors() -> Result<()> {
    let w = world();
    trace(&w.field::<f32, 2>("x", [64, 64])?)?;
    check(&w, &expect!["361:5: trace.1: 8 lanes"]);
    Ok(())
}
