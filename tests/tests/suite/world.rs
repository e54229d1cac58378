//! Worlds, fields, arrays and launches through the Rust API, on the CPU and on the interpreter.

use expect_test::{Expect, expect};
use std::cell::Cell;
use std::sync::{Arc, Mutex};
use wuji::prelude::*;
use wuji::{Error, Result};

fn cpu(threads: usize) -> World {
    World::builder().threads(threads).build().unwrap()
}

/// Every kind of world in which a test should have the same result.
fn worlds() -> Vec<World> {
    vec![World::interpreter().unwrap(), cpu(1), cpu(3)]
}

/// Checks an error message; positions are reduced to the file, because line numbers change.
fn check_error<T: std::fmt::Debug>(result: Result<T>, expected: &Expect) {
    let mut error: Error = result.unwrap_err();
    let at = error.at.take();
    assert!(
        at.is_some_and(|at| at.file.ends_with("world.rs") && at.line > 0),
        "{error}"
    );
    expected.assert_eq(&error.to_string());
}

#[kernel]
fn saxpy(x: &Field<f32, 1>, y: &Field<f32, 1>, a: f32) {
    for [i] in x {
        y[[i]] += a * x[[i]];
    }
}

/// Pairs of fields with 60 elements, in all kinds of layouts.
fn pairs(w: &World) -> Vec<(Field<f32, 1>, Field<f32, 1>)> {
    vec![
        (w.field("x", 60).unwrap(), w.field("y", 60).unwrap()),
        w.layout(|root| {
            let cell = root.dense(I, 60);
            (cell.place("x"), cell.place("y"))
        })
        .unwrap(),
        w.layout(|root| (root.dense(I, 60).place("x"), root.dense(I, 60).place("y")))
            .unwrap(),
        w.layout(|root| {
            let block = root.dense(I, 4);
            (block.dense(I, 15).place("x"), block.dense(I, 15).place("y"))
        })
        .unwrap(),
        w.layout(|root| {
            let block = root.dense(I, 3).dense(I, 5);
            (
                block.dense(I, 4).place("x"),
                block.dense(I, 2).dense(I, 2).place("y"),
            )
        })
        .unwrap(),
    ]
}

#[test]
fn saxpy_in_every_layout() {
    for w in worlds() {
        for (x, y) in pairs(&w) {
            let values: Vec<f32> = (0..60).map(|k| k as f32 * 0.25).collect();
            x.copy_from(&values).unwrap();
            y.fill(1.0).unwrap();
            saxpy(&x, &y, 2.0).unwrap();
            let expected: Vec<f32> = values.iter().map(|v| 1.0 + 2.0 * v).collect();
            assert_eq!(y.to_vec().unwrap(), expected);
            assert_eq!(x.to_vec().unwrap(), values);
            // With itself: iterations are independent.
            saxpy(&x, &x, 2.0).unwrap();
            let tripled: Vec<f32> = values.iter().map(|v| 3.0 * v).collect();
            assert_eq!(x.to_vec().unwrap(), tripled);
        }
    }
}

#[func]
fn complex_sqr(z: Vec2) -> Vec2 {
    vec2(z.x * z.x - z.y * z.y, z.x * z.y * 2.0)
}

const WIDTH: f32 = 32.0;

#[kernel]
fn julia(pixels: &Field<f32, 2>, c: Vec2) {
    for [i, j] in pixels {
        let mut z = vec2(i as f32 / WIDTH - 1.0, j as f32 / WIDTH - 0.5) * 2.0;
        let mut n = 0;
        while z.norm_sqr() < 400.0 && n < 50 {
            z = complex_sqr(z) + c;
            n += 1;
        }
        pixels[[i, j]] = 1.0 - n as f32 * 0.02;
    }
}

fn julia_by_hand(i: i64, j: i64, c: Vec2) -> f32 {
    let mut z = vec2(i as f32 / WIDTH - 1.0, j as f32 / WIDTH - 0.5) * 2.0;
    let mut n = 0;
    while z.norm_sqr() < 400.0 && n < 50 {
        z = complex_sqr(z) + c;
        n += 1;
    }
    1.0 - n as f32 * 0.02
}

#[test]
fn julia_is_the_same_everywhere() {
    let c = vec2(-0.8, 0.156);
    let strict = World::builder()
        .threads(2)
        .math(Math::Strict)
        .build()
        .unwrap();
    for w in [World::interpreter().unwrap(), strict] {
        let rows = w.field::<f32, 2>("rows", [64, 32]).unwrap();
        let blocks = w
            .layout(|root| {
                root.dense(JI, [4, 16])
                    .dense(IJ, [4, 8])
                    .place::<f32, 2>("blocks")
            })
            .unwrap();
        for pixels in [rows, blocks] {
            julia(&pixels, c).unwrap();
            for ([i, j], found) in pixels.iter().unwrap() {
                assert_eq!(found, julia_by_hand(i, j, c), "{i}, {j}");
            }
        }
    }
}

#[kernel]
fn chain(from: &Field<i32, 1>, to: &Field<i32, 1>, n: i32) {
    let mut k = 1;
    while k < n {
        to[[k]] = from[[k - 1]] + 1;
        k += 1;
    }
}

#[test]
fn aliased_field_arguments_share_memory() {
    for w in worlds() {
        let x = w.field::<i32, 1>("x", 40).unwrap();
        let y = w.field::<i32, 1>("y", 40).unwrap();
        x.fill(5).unwrap();
        chain(&x, &y, 40).unwrap();
        assert_eq!(y.to_vec().unwrap()[1..], [6; 39]);
        let code = w.kernels();
        chain(&y, &x, 40).unwrap();
        assert_eq!(w.kernels(), code, "roles swapped, structure kept");
        x.fill(5).unwrap();
        chain(&x, &x, 40).unwrap();
        assert_eq!(
            w.kernels(),
            code + 1,
            "one field is another structure than two"
        );
        let counted: Vec<i32> = (5..45).collect();
        assert_eq!(x.to_vec().unwrap(), counted);
        // A clone of a handle is the same field.
        x.fill(7).unwrap();
        chain(&x, &x.clone(), 40).unwrap();
        assert_eq!(w.kernels(), code + 1);
        assert_eq!(x.get(39).unwrap(), 46);
    }
}

#[test]
fn two_fields_of_one_cell_are_independent() {
    for w in worlds() {
        let (a, b) = w
            .layout(|root| {
                let cell = root.dense(I, 10).dense(I, 4);
                (cell.place::<i32, 1>("a"), cell.place::<i32, 1>("b"))
            })
            .unwrap();
        a.fill(1).unwrap();
        chain(&a, &b, 40).unwrap();
        assert_eq!(a.to_vec().unwrap(), [1; 40]);
        assert_eq!(b.to_vec().unwrap()[1..], [2; 39]);
        chain(&b, &b, 40).unwrap();
        assert_eq!(b.get(39).unwrap(), 39);
        assert_eq!(a.to_vec().unwrap(), [1; 40]);
    }
}

#[kernel]
fn scale(_world: &World, data: &mut [f32], by: f32) {
    for i in 0..data.len() {
        data[i] *= by;
    }
}

#[kernel]
fn total(_world: &World, data: &[f32]) -> f32 {
    let mut sum = 0.0;
    let mut i = 0;
    while i < data.len() {
        sum += data[i];
        i += 1;
    }
    sum
}

#[test]
fn slices_are_modified_in_place() {
    for w in worlds() {
        let mut data: Vec<f32> = (0..1000).map(|k| k as f32).collect();
        scale(&w, &mut data, 0.5).unwrap();
        assert_eq!(data[999], 499.5);
        assert_eq!(total(&w, &data[..10]).unwrap(), 22.5);
        scale(&w, &mut [], 0.5).unwrap();
        assert_eq!(total(&w, &[]).unwrap(), 0.0);
    }
}

#[kernel]
fn transpose(_world: &World, from: &Array<f32, 2>, to: &mut ArrayMut<f32, 2>) {
    for [i, j] in from {
        to[[j, i]] = from[[i, j]];
    }
}

#[test]
fn arrays_have_shapes_and_strides() {
    for w in worlds() {
        let from: Vec<f32> = (0..12).map(|k| k as f32).collect();
        let mut to = vec![-1.0; 12];
        transpose(
            &w,
            &Array::new(&from, [3, 4]).unwrap(),
            &mut ArrayMut::new(&mut to, [4, 3]).unwrap(),
        )
        .unwrap();
        assert_eq!(to[..4], [0.0, 4.0, 8.0, 1.0]);
        // Every second column of the source; rows of the target in reverse order.
        let mut to = vec![-1.0; 10];
        transpose(
            &w,
            &Array::strided(&from, [3, 2], [4, 2], 1).unwrap(),
            &mut ArrayMut::strided(&mut to, [2, 3], [-5, 1], 5).unwrap(),
        )
        .unwrap();
        assert_eq!(to, [3.0, 7.0, 11.0, -1.0, -1.0, 1.0, 5.0, 9.0, -1.0, -1.0]);
        let mut none: [f32; 0] = [];
        transpose(
            &w,
            &Array::new(&[], [0, 7]).unwrap(),
            &mut ArrayMut::new(&mut none, [7, 0]).unwrap(),
        )
        .unwrap();
    }
}

#[kernel]
fn chain_arrays(_world: &World, from: &SharedArray<i32, 1>, to: &SharedArray<i32, 1>) {
    let mut k = 1;
    while k < to.len() {
        to[[k]] = from[[k - 1]] + 1;
        k += 1;
    }
}

fn array(cells: &[Cell<i32>]) -> SharedArray<'_, i32, 1> {
    SharedArray::new(cells, [40]).unwrap()
}

#[test]
fn arrays_may_overlap() {
    for w in worlds() {
        let mut memory = [5; 41];
        let cells = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
        // The same elements: each is one more than the previous one.
        chain_arrays(&w, &array(&cells[..40]), &array(&cells[..40])).unwrap();
        let counted: Vec<i32> = (5..45).collect();
        assert_eq!(memory[..40], counted);
        // Shifted by one: element k - 1 of one array is element k of the other.
        memory.fill(5);
        let cells = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
        chain_arrays(&w, &array(&cells[1..]), &array(&cells[..40])).unwrap();
        assert_eq!(memory[1..40], [6; 39]);
        // Disjoint: other code, the same semantics.
        let code = w.kernels();
        let mut memory = vec![5; 80];
        let cells = Cell::from_mut(&mut memory[..]).as_slice_of_cells();
        chain_arrays(&w, &array(&cells[..40]), &array(&cells[40..])).unwrap();
        assert_eq!(w.kernels(), code + 1);
        assert_eq!((memory[39], memory[40], memory[79]), (5, 5, 6));
    }
}

#[kernel]
fn swap_parts(_world: &World, data: &mut [(u8, f64)], vectors: &mut [Vec3]) {
    for i in 0..data.len() {
        let (a, b) = data[i];
        data[i] = (b as u8, a as f64);
        vectors[i] = vectors[i].zyx();
    }
}

#[test]
fn arrays_of_tuples_and_vectors() {
    for w in worlds() {
        let mut data: Vec<(u8, f64)> = (0..7).map(|k| (k, 100.0 + f64::from(k))).collect();
        let mut vectors = vec![vec3(1.0, 2.0, 3.0); 7];
        swap_parts(&w, &mut data, &mut vectors).unwrap();
        assert_eq!(data[3], (103, 3.0));
        assert_eq!(vectors, vec![vec3(3.0, 2.0, 1.0); 7]);
    }
}

#[kernel]
fn extent(x: &Field<Vec2, 1>) -> (Vec2, Vec2) {
    let mut low = x[[0]];
    let mut high = x[[0]];
    let mut k = 1;
    while k < 5 {
        low = low.min(x[[k]]);
        high = high.max(x[[k]]);
        k += 1;
    }
    (low, high)
}

#[test]
fn results_can_have_any_type() {
    for w in worlds() {
        let x = w.field::<Vec2, 1>("x", 5).unwrap();
        let values = [(1.0, 2.0), (-3.0, 4.0), (0.0, -6.0), (5.0, 0.0), (1.0, 1.0)];
        x.copy_from(&values.map(|(a, b)| vec2(a, b))).unwrap();
        assert_eq!(extent(&x).unwrap(), (vec2(-3.0, -6.0), vec2(5.0, 4.0)));
    }
}

#[kernel]
fn spread(particles: &Field<f32, 1>, grid: &Field<i32, 1>) {
    for [p] in particles {
        let cell = particles[[p]] as i32;
        grid[[cell]] += 1;
    }
}

#[test]
fn an_out_of_range_write_is_the_error_of_its_launch() {
    for w in worlds() {
        let particles = w.field::<f32, 1>("particles", 6).unwrap();
        let grid = w
            .layout(|root| root.dense(I, 8).offset([-4]).place::<i32, 1>("grid"))
            .unwrap();
        particles
            .copy_from(&[0.0, -4.0, 3.5, 4.0, 4.5, 3.0])
            .unwrap();
        check_error(
            spread(&particles, &grid),
            &expect![[r#"
                error[W0401]: kernel `spread` wrote to field `grid` outside of its bounds
                  = note: the index is [4], its elements are [-4..4]
                  = note: 2 problems in this launch
                  = help: such a write is dropped; guard it with an `if`"#]],
        );
        // All other writes are done, and the next launch is not affected.
        assert_eq!(grid.to_vec().unwrap(), [1, 0, 0, 0, 1, 0, 0, 2]);
        particles.fill(0.0).unwrap();
        spread(&particles, &grid).unwrap();
        // The same code, with fields of other names.
        let other = w
            .layout(|root| root.dense(I, 8).offset([-4]).place::<i32, 1>("other"))
            .unwrap();
        particles.fill(1e9).unwrap();
        let code = w.kernels();
        check_error(
            spread(&particles, &other),
            &expect![[r#"
                error[W0401]: kernel `spread` wrote to field `other` outside of its bounds
                  = note: the index is [1000000000], its elements are [-4..4]
                  = note: 6 problems in this launch
                  = help: such a write is dropped; guard it with an `if`"#]],
        );
        assert_eq!(w.kernels(), code);
    }
}

#[kernel]
fn checked(x: &Field<i32, 1>, limit: i32) {
    for [i] in x {
        let v = x[[i]];
        assert!(v < limit, "x[{}] is {}", i, v);
        x[[i]] = v + 1;
    }
}

#[test]
fn assertions_name_values() {
    for w in worlds() {
        let x = w.field::<i32, 1>("x", 4).unwrap();
        x.copy_from(&[1, 2, 30, 4]).unwrap();
        check_error(
            checked(&x, 10),
            &expect!["error[W0403]: assertion failed in kernel `checked`: x[2] is 30"],
        );
        assert_eq!(x.to_vec().unwrap(), [2, 3, 30, 5]);
    }
}

#[kernel]
fn speak(x: &Field<f32, 1>) {
    print!("begin");
    for [i] in x {
        if i % 2 == 0 {
            print!("{}: {:.2}", i, x[[i]]);
        }
    }
    print!("end");
}

#[test]
fn prints_follow_program_order() {
    for w in worlds() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        w.on_print(move |line| sink.lock().unwrap().push(line.to_owned()));
        let x = w.field::<f32, 1>("x", 1000).unwrap();
        x.fill(0.125).unwrap();
        speak(&x).unwrap();
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 502);
        assert_eq!(lines[0], "begin");
        for (k, line) in lines[1..501].iter().enumerate() {
            assert_eq!(*line, format!("{}: 0.12", 2 * k));
        }
        assert_eq!(lines[501], "end");
    }
}

#[kernel]
fn throw(dice: &Field<u32, 2>) {
    for [i, j] in dice {
        dice[[i, j]] = random::<u32>() ^ random::<u32>();
    }
}

#[test]
fn random_numbers_depend_only_on_seed_and_launch() {
    let world = |threads, seed| {
        World::builder()
            .threads(threads)
            .seed(seed)
            .build()
            .unwrap()
    };
    let interpreter = World::builder().interpreter().seed(5).build().unwrap();
    let mut seen = Vec::new();
    for w in [world(1, 5), world(4, 5), interpreter, world(1, 6)] {
        let rows = w.field::<u32, 2>("rows", [16, 40]).unwrap();
        throw(&rows).unwrap();
        let first = rows.to_vec().unwrap();
        let columns = w
            .layout(|root| root.dense(JI, [40, 16]).place::<u32, 2>("columns"))
            .unwrap();
        throw(&columns).unwrap();
        seen.push((first, columns.to_vec().unwrap()));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    assert_ne!(seen[0], seen[3]);
    assert_ne!(seen[0].0, seen[0].1, "another launch");
}

#[test]
fn wrong_arguments_are_errors() {
    let (v, w) = (cpu(1), cpu(1));
    let x = v.field::<f32, 1>("x", 8).unwrap();
    let y = w.field::<f32, 1>("y", 8).unwrap();
    check_error(
        saxpy(&x, &y, 1.0),
        &expect![[r#"
            error[W0114]: kernel `saxpy` got fields of two worlds
              = help: copy the data into one world: `to_vec` and `copy_from`"#]],
    );
    let mut lost = None;
    let failed = v.layout(|root| {
        lost = Some(root.dense(I, 8).place::<f32, 1>("lost"));
        root.dense(I, 0);
    });
    assert!(failed.is_err());
    check_error(
        saxpy(&lost.unwrap(), &x, 1.0),
        &expect![[r#"
            error[W0113]: this field belongs to a layout that is not complete
              = note: `layout` returned an error, or has not returned yet
              = help: use the fields that `layout` returns"#]],
    );
    assert!(Array::new(&[1.0f32; 5], [2, 3]).is_err());
}

#[kernel]
fn count(n: &Field<i64, 0>, x: &Field<i64, 1>) -> i64 {
    let before = n[[]];
    for [i] in x {
        x[[i]] = x[[i]] + 1;
    }
    n[[]] = before + 1;
    before
}

#[test]
fn threads_share_a_world() {
    let w = cpu(3);
    let n = w.scalar::<i64>("n").unwrap();
    let x = w.field::<i64, 1>("x", 5000).unwrap();
    let mut seen: Vec<i64> = std::thread::scope(|scope| {
        let launch = || {
            let (n, x) = (n.clone(), x.clone());
            scope.spawn(move || (0..50).map(|_| count(&n, &x).unwrap()).collect::<Vec<_>>())
        };
        let threads: Vec<_> = (0..8).map(|_| launch()).collect();
        let results = threads.into_iter().map(|t| t.join().unwrap());
        results.flatten().collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..400).collect::<Vec<i64>>());
    assert_eq!(n.get(()).unwrap(), 400);
    assert!(x.to_vec().unwrap().iter().all(|v| *v == 400));
    assert_eq!(w.kernels(), 1);
}

#[test]
fn several_worlds_coexist() {
    let fast = World::builder().math(Math::Fast).build().unwrap();
    let run = |w: &World| {
        let x = w.field::<f32, 1>("x", 100).unwrap();
        let y = w.field::<f32, 1>("y", 100).unwrap();
        x.fill(1.0).unwrap();
        saxpy(&x, &y, 3.0).unwrap();
        y
    };
    let (v, w) = (cpu(2), World::interpreter().unwrap());
    let (a, b, c) = (run(&v), run(&w), run(&fast));
    assert_eq!(v.memory_used(), 400);
    drop(v);
    // The field keeps its world alive.
    assert_eq!(a.get(99).unwrap(), 3.0);
    saxpy(&a, &a, 1.0).unwrap();
    assert_eq!(a.get(99).unwrap(), 6.0);
    assert_eq!(b.to_vec().unwrap(), c.to_vec().unwrap());
    let kept = a.world().clone();
    drop(a);
    assert_eq!(kept.memory_used(), 0);
}

#[test]
fn unchecked_worlds_run_kernels_with_accesses_in_range() {
    // SAFETY: saxpy accesses only the elements it loops over, in fields of one size.
    #[allow(unsafe_code)]
    let builder = unsafe { World::builder().threads(2).unchecked() };
    let w = builder.build().unwrap();
    for (x, y) in pairs(&w) {
        x.fill(2.0).unwrap();
        y.fill(1.0).unwrap();
        saxpy(&x, &y, 3.0).unwrap();
        assert_eq!(y.to_vec().unwrap(), [7.0; 60]);
    }
}

#[kernel]
fn mark(x: &Field<u8, 2>, i: i64, j: i64) -> u8 {
    x[[i, j]] = 7;
    x[[i, j]] + x[[i, j - 1]]
}

#[test]
fn extents_beyond_32_bits() {
    let wide = World::builder().threads(1).memory_limit(1 << 40);
    let w = wide.build().unwrap();
    let x = w.field::<u8, 2>("x", [3u64, 1 << 33]).unwrap();
    assert_eq!(mark(&x, 2, (1 << 33) - 1).unwrap(), 7);
    assert_eq!(x.get([2, (1i64 << 33) - 1]).unwrap(), 7);
    assert!(mark(&x, 2, 1 << 33).is_err());
    assert!(mark(&x, 3, 0).is_err());
}

#[kernel]
fn increment(n: &Field<i64, 0>) {
    n[[]] = n[[]] + 1;
}

#[kernel]
fn add_all(x: &Field<f32, 1>, data: &[f32], a: f32) {
    for [i] in x {
        x[[i]] += a * data[i];
    }
}

/// Prints the overhead of launches: `cargo test --release -p wuji-tests launches_cost -- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn launches_cost() {
    let w = cpu(2);
    let time = |what: &str, launch: &dyn Fn()| {
        let mut best = f64::MAX;
        for _ in 0..20 {
            let start = std::time::Instant::now();
            (0..2000).for_each(|_| launch());
            best = best.min(start.elapsed().as_nanos() as f64 / 2000.0);
        }
        println!("{what}: {best:.0} ns");
    };
    let n = w.scalar::<i64>("n").unwrap();
    time("serial", &|| increment(&n).unwrap());
    let (x, y) = (
        w.field::<f32, 1>("x", 1024).unwrap(),
        w.field::<f32, 1>("y", 1024).unwrap(),
    );
    time("parallel 1024", &|| saxpy(&x, &y, 0.5).unwrap());
    let data = vec![1f32; 1024];
    time("with array", &|| add_all(&x, &data, 0.5).unwrap());
    time("get", &|| assert!(n.get(()).unwrap() > 0));
}
