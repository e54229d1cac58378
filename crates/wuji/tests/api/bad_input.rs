//! Whatever the public API is given, it answers: with a result, or with an error that has a code. Never a panic, an
//! abort, or a wait without end.

// Windows of one axis, and ranges that run backwards, are what is meant here.
#![allow(clippy::single_range_in_vec_init, clippy::reversed_empty_ranges)]

use std::cell::Cell;
use std::sync::Arc;
use wuji::axes::{self, Axes, Extents};
use wuji::prelude::*;
use wuji::{Error, Node};

/// Numbers that people do not expect.
const ODD: [i128; 16] = [
    0,
    1,
    -1,
    2,
    3,
    64,
    1 << 20,
    i32::MAX as i128,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 61,
    i64::MAX as i128,
    i64::MIN as i128,
    u64::MAX as i128,
    i128::MAX,
];

fn worlds() -> [World; 2] {
    [World::cpu().unwrap(), World::interpreter().unwrap()]
}

/// An error has a code that the index knows, and reads well.
fn is_told(error: &Error) {
    let page = wuji_ir::codes::find(error.code);
    assert!(page.is_some_and(|p| p.code == error.code), "{error}");
    assert!(!error.message.is_empty() && !error.message.ends_with('.'));
    assert!(error.to_string().starts_with("error[W0"), "{error}");
}

fn code<T>(result: wuji::Result<T>) -> &'static str {
    match result {
        Ok(_) => "",
        Err(error) => {
            is_told(&error);
            error.code
        }
    }
}

#[kernel]
fn add_one(x: &Field<f32, 1>) {
    for [i] in x {
        x[[i]] += 1.0;
    }
}

#[kernel]
fn copy(from: &Field<f32, 1>, to: &Field<f32, 1>) {
    for [i] in to {
        to[[i]] = from[[i]];
    }
}

// Settings.

#[test]
fn settings_of_worlds() {
    for threads in [0, 1025, usize::MAX] {
        let built = World::builder().threads(threads).build();
        assert_eq!(code(built.map(|_| ())), "W0115", "{threads}");
    }
    for bits in [1, 64, 129, 1024, u32::MAX] {
        let world = World::builder().vector_bits(bits).build().unwrap();
        let x = world.field("x", [4]).unwrap();
        assert_eq!(code(add_one(&x)), "W0303", "{bits}");
    }
    for name in ["", "simplfy", "lower_access", "\u{0}", "promote"] {
        let world = World::builder().without(&[name]).build().unwrap();
        let x = world.field("x", [4]).unwrap();
        assert!(["W0300", "W0301"].contains(&code(add_one(&x))), "{name:?}");
    }
    for limit in [0, 1, u64::MAX] {
        let world = World::builder().memory_limit(limit).build().unwrap();
        let x = world.layout(|r| r.pointer(I, 4).dense(I, 4).place::<f32, 1>("x"));
        match x {
            Ok(x) => {
                let _ = code(x.set([3], 1.0));
                let _ = code(add_one(&x));
            }
            // The table of pointers counts, too.
            Err(error) => assert_eq!((error.code, limit < 32), ("W0110", true)),
        }
    }
}

// Layouts.

type Make = for<'a> fn(Node<'a>, Axes, Extents) -> Node<'a>;

const NODES: [Make; 7] = [
    |n, a, e| n.dense(a, e),
    |n, a, e| n.bitmasked(a, e),
    |n, a, e| n.pointer(a, e),
    |n, a, _| n.hash(a),
    |n, a, e| n.hash_sized(a, e),
    |n, a, e| n.dynamic(a, e),
    |n, a, e| n.dense(a, e).morton(),
];

/// Uses a field at its corners and beyond them.
fn poke<const D: usize>(x: &Field<f32, D>) {
    let (shape, offset) = (x.shape().unwrap(), x.offset().unwrap());
    let last: [i64; D] = std::array::from_fn(|k| offset[k] + (shape[k] - 1) as i64);
    let _ = code(x.get(offset));
    let _ = code(x.set(last, 1.0));
    let _ = code(x.is_active(last));
    for wrong in [i64::MIN, i64::MAX] {
        assert!(D == 0 || x.get([wrong; D]).is_err() || shape[0] > 1 << 62);
        let _ = code(x.set([wrong; D], 1.0));
        let _ = code(x.activate([wrong; D]));
        let _ = code(x.deactivate([wrong; D]));
        assert_eq!(code(x.is_active([wrong; D])), "");
    }
    let _ = code(x.deactivate_all());
    let _ = (code(x.count_active()), code(x.active()), code(x.export()));
    let _ = (x.len().unwrap(), x.is_empty().unwrap());
    let _ = x.tree().memory_report().map(|r| r.to_string());
    let _ = x.tree().clear();
}

#[test]
fn layouts_with_odd_extents() {
    let world = World::interpreter().unwrap();
    for make in NODES {
        for extent in ODD {
            let made = world.layout(|root| make(root, I, Extents::All(extent)).place("x"));
            if let Err(error) = &made {
                is_told(error);
                assert!(error.at.is_some(), "{error}");
            }
            if let (Ok(x), true) = (&made, extent <= 64) {
                poke::<1>(x);
            }
            for below in NODES {
                let made = world.layout(|root| {
                    let node = make(root, IJ, Extents::Each([extent, 2].into_iter().collect()));
                    below(node, K, Extents::All(extent)).place::<f32, 3>("x")
                });
                let _ = code(made);
            }
        }
    }
}

/// As above, compiled: services for odd layouts are real kernels.
#[test]
fn layouts_with_odd_extents_are_used() {
    let world = World::builder().tier(Tier::Fast).build().unwrap();
    for make in NODES {
        for extent in [1, 3, i128::from(i32::MAX)] {
            if let Ok(x) = world.layout(|root| make(root, I, Extents::All(extent)).place("x")) {
                if extent < 4 {
                    poke::<1>(&x);
                } else {
                    let _ = code(x.set([extent as i64 - 1], 1.0));
                    let _ = code(x.get([i64::MAX]));
                }
            }
        }
    }
}

#[test]
fn axes_and_ranks() {
    let world = World::interpreter().unwrap();
    let none: [Axes; 0] = [];
    assert_eq!(
        code(world.layout(|r| r.dense(none, 2).place::<f32, 0>("x"))),
        "W0102"
    );
    assert_eq!(
        code(world.layout(|r| r.dense([I, I], 2).place::<f32, 1>("x"))),
        "W0102"
    );
    let all = [axes::IJKLMNOP, axes::IJKLMNOP];
    assert_eq!(
        code(world.layout(|r| r.dense(all, 1).place::<f32, 8>("x"))),
        "W0102"
    );
    assert_eq!(
        code(world.layout(|r| r.dense(IJ, [1; 5]).place::<f32, 2>("x"))),
        "W0102"
    );
    assert_eq!(
        code(world.layout(|r| r.dense(IJ, [0i32; 0]).place::<f32, 2>("x"))),
        "W0102"
    );
    assert_eq!(code(world.field::<f32, 9>("x", [1; 9])), "W0103");
    assert_eq!(code(world.field::<f32, 200>("x", 1)), "W0103");
    assert_eq!(code(world.field::<f32, 2>("x", [4])), "W0102");
    assert_eq!(code(world.field::<f32, 3>("x", u64::MAX)), "W0106");
    assert_eq!(code(world.layout(|r| r.place::<f32, 3>("x"))), "W0103");
    assert_eq!(
        code(world.layout(|r| r.dense(I, 4).offset([0; 9]).place::<f32, 1>("x"))),
        "W0104"
    );
    for from in [i64::MIN, i64::MAX] {
        let x = world.layout(|r| r.dense(I, 4).offset([from]).place::<f32, 1>("x"));
        if let Ok(x) = &x {
            assert_eq!(x.offset().unwrap(), [from]);
            assert_eq!(code(x.set([from + 3], 1.0)), "");
            assert_eq!(code(x.get([from.wrapping_sub(1)])), "W0111");
            assert_eq!(code(x.window([from..from])), "");
            assert_eq!(x.iter().unwrap().count(), 4);
        }
        let _ = code(x);
    }
    assert_eq!(code(world.layout(|_| ())), "W0105");
    // Names are for people; anything goes.
    for name in ["", "\u{0}\n", "x", "`", &"long".repeat(10_000)] {
        let x = world.field::<f32, 1>(name, [2]).unwrap();
        assert_eq!(x.name(), name);
        assert_eq!(code(x.get([2])), "W0111");
        assert_eq!(code(add_one(&x)), "");
    }
}

#[test]
fn trees_that_are_deep_or_wide() {
    let world = World::interpreter().unwrap();
    for depth in [60, 64, 65, 1000, 10_000] {
        let made = world.layout(|root| {
            let node = (0..depth).fold(root, |node, _| node.dense(I, 1));
            node.place::<f32, 1>("x")
        });
        assert_eq!(made.is_ok(), depth <= 64, "{depth}");
        let _ = code(made);
    }
    let fields = world.layout(|root| {
        let node = root.dense(I, 4);
        (0..1000)
            .map(|k| node.place::<f32, 1>(&format!("x{k}")))
            .collect::<Vec<_>>()
    });
    let fields = fields.unwrap();
    fields[999].fill(1.0).unwrap();
    assert_eq!(fields[998].to_vec().unwrap(), [0.0; 4]);
    assert_eq!(fields[999].to_vec().unwrap(), [1.0; 4]);
}

#[test]
fn fields_that_escape_their_layout() {
    for world in worlds() {
        let mut escaped = None;
        let failed = world.layout(|root| {
            escaped = Some(root.dense(I, 4).place::<f32, 1>("x"));
            root.dense(I, 0).place::<f32, 1>("y")
        });
        assert_eq!(code(failed), "W0101");
        let x = escaped.unwrap();
        assert_eq!(x.name(), "");
        let codes = [
            code(x.shape()),
            code(x.offset()),
            code(x.len()),
            code(x.get([0])),
            code(x.set([0], 1.0)),
            code(x.to_vec()),
            code(x.fill(0.0)),
            code(x.copy_from(&[0.0; 4])),
            code(x.iter().map(|_| ())),
            code(x.window([0..1]).map(|_| ())),
            code(x.is_active([0])),
            code(x.activate([0])),
            code(x.deactivate([0])),
            code(x.deactivate_all()),
            code(x.append((), 1.0)),
            code(x.length(())),
            code(x.count_active()),
            code(x.active()),
            code(x.export()),
            code(x.import(&[], &[])),
            code(x.tree().clear()),
            code(x.tree().memory_report().map(|_| ())),
            code(add_one(&x)),
        ];
        assert_eq!(codes, ["W0113"; 23]);
        assert_eq!(x.tree().memory_used(), 0);
        let _ = format!("{x:?} {:?}", x.tree());
    }
}

// Elements.

#[test]
fn windows_and_slices_of_wrong_sizes() {
    for world in worlds() {
        let x = world.field::<f32, 2>("x", [3, 4]).unwrap();
        for (a, b) in [
            (0..4, 0..4),
            (-1..2, 0..1),
            (2..1, 0..4),
            (0..3, i64::MIN..i64::MAX),
        ] {
            assert_eq!(code(x.window([a, b]).map(|_| ())), "W0111");
        }
        let empty = x.window([1..1, 0..4]).unwrap();
        assert_eq!(empty.shape(), [0, 4]);
        assert!(empty.to_vec().unwrap().is_empty());
        empty.fill(1.0).unwrap();
        empty.copy_from(&[]).unwrap();
        for n in [0, 1, 11, 13, 100_000] {
            assert_eq!(code(x.copy_from(&vec![1.0; n])), "W0112");
            assert_eq!(
                code(x.window([0..1, 0..2]).unwrap().copy_from(&vec![1.0; n])),
                "W0112"
            );
        }
        assert_eq!(code(x.import(&[[0, 0]], &[])), "W0112");
        assert_eq!(code(x.import(&[[0, 4]], &[1.0])), "W0111");
        assert_eq!(code(x.get([u64::MAX, 0])), "W0111");
        assert_eq!(code(x.get([usize::MAX; 2])), "W0111");
        x.fill(f32::NAN).unwrap();
        assert!(x.to_vec().unwrap().iter().all(|v| v.is_nan()));
    }
}

#[test]
fn sparse_fields_with_odd_requests() {
    for world in worlds() {
        let x = world.layout(|r| r.hash(IJ).pointer(IJ, 4).dynamic(L, 3).place::<f32, 3>("x"));
        let x = x.unwrap();
        for k in 0..3 {
            assert_eq!(x.append([i32::MIN, i32::MAX], 1.0).unwrap(), k);
        }
        assert_eq!(code(x.append([i32::MIN, i32::MAX], 1.0)), "W0408");
        assert_eq!(x.length([i32::MIN, i32::MAX]).unwrap(), 3);
        assert_eq!(x.length([i64::MAX, 0]).unwrap(), 0);
        assert_eq!(code(x.append([i64::MIN, 0], 1.0)), "W0111");
        assert_eq!(code(x.to_vec()), "W0129");
        assert_eq!(code(x.copy_from(&[1.0])), "W0129");
        let all = i64::from(i32::MIN)..i64::from(i32::MAX) + 1;
        let huge = x.window([all.clone(), all, 0..3]).unwrap();
        assert_eq!(code(huge.to_vec()), "W0110");
        assert_eq!(code(huge.copy_from(&[])), "W0112");
        let wrong = [[i32::MAX, 0, 3], [0, 0, -1]];
        assert_eq!(code(x.import(&wrong, &[1.0, 2.0])), "W0111");
        assert_eq!(x.count_active().unwrap(), 3);
        x.deactivate_all().unwrap();
        assert_eq!(x.count_active().unwrap(), 0);
    }
}

#[test]
fn copies_that_do_not_fit_memory() {
    let world = World::cpu().unwrap();
    // Reserved, not touched; a copy of it would be.
    if let Ok(x) = world.field::<u8, 1>("x", [1u64 << 45]) {
        assert_eq!(code(x.to_vec()), "W0110");
        assert_eq!(code(x.window([0..1 << 44]).unwrap().to_vec()), "W0110");
        assert_eq!(code(x.iter().map(|_| ())), "W0110");
        assert_eq!(code(x.set([(1i64 << 45) - 1], 7)), "");
        assert_eq!(x.get([(1i64 << 45) - 1]).unwrap(), 7);
    }
}

#[test]
fn dense_fields_keep_to_the_limit() {
    let world = World::builder().memory_limit(1 << 20).build().unwrap();
    assert_eq!(code(world.field::<u8, 1>("x", [(1 << 20) + 1])), "W0110");
    let x = world.field::<u8, 1>("x", [1 << 19]).unwrap();
    assert_eq!(code(world.field::<f64, 1>("y", [1 << 17])), "W0110");
    drop(x);
    assert_eq!(code(world.field::<f64, 1>("y", [1 << 17])), "");
}

// Arrays.

#[derive(Element, Clone, Copy, Default, Debug, PartialEq)]
struct Pair {
    a: f32,
    b: i32,
}

#[kernel]
fn sum_array(_world: &World, a: &Array<f32, 1>) -> f32 {
    let mut sum = 0.0;
    for [i] in a {
        sum += a[[i]];
    }
    sum
}

#[kernel]
fn fill_array(_world: &World, a: &mut ArrayMut<f32, 2>) {
    for [i, j] in a {
        a[[i, j]] = 1.0;
    }
}

#[kernel]
fn sum_pairs(_world: &World, a: &Array<Pair, 1>) -> f32 {
    let mut sum = 0.0;
    for [i] in a {
        sum += a[[i]].a;
    }
    sum
}

#[kernel]
fn add_arrays(_world: &World, a: &SharedArray<f32, 1>, b: &SharedArray<f32, 1>) {
    for [i] in a {
        a[[i]] += b[[i]];
    }
}

#[test]
fn arrays_of_odd_shapes() {
    let data = [1.0f32; 12];
    let odd = [isize::MIN, -1, 0, 1, 4, isize::MAX];
    let extents = [0, 1, 2, 12, 13, usize::MAX / 2, usize::MAX];
    let world = World::cpu().unwrap();
    for a in extents {
        for b in extents {
            let _ = code(Array::new(&data, [a, b]));
            for (s, t) in odd.iter().flat_map(|s| odd.iter().map(move |t| (*s, *t))) {
                for start in [0, 11, 12, usize::MAX] {
                    let made = Array::strided(&data, [a, b], [s, t], start);
                    let Ok(array) = made else {
                        assert_eq!(code(made), "W0117");
                        continue;
                    };
                    for at in [[0, 0], [a / 2, 0], [0, b / 2], [a, b], [usize::MAX; 2]] {
                        if let Some(value) = array.get(at) {
                            assert_eq!(value, 1.0);
                        }
                    }
                    assert_eq!(array.transposed().shape(), [b, a]);
                }
            }
        }
    }
    assert_eq!(code(Array::new(&data, [1; 9])), "W0117");
    assert_eq!(Array::new(&data, []).unwrap().get([]), Some(1.0));
    assert_eq!(code(Array::<f32, 0>::new(&[], [])), "W0117");

    // Through kernels: no elements, one with a stride that leads nowhere, all the same one.
    let sum =
        |shape, stride, start| sum_array(&world, &Array::strided(&data, shape, stride, start)?);
    assert_eq!(sum([0], [isize::MAX], usize::MAX).unwrap(), 0.0);
    assert_eq!(sum([1], [isize::MIN], 5).unwrap(), 1.0);
    assert_eq!(sum([1000], [0], 11).unwrap(), 1000.0);
    assert_eq!(sum([12], [-1], 11).unwrap(), 12.0);
    let mut target = [0.0f32; 12];
    let overlapping =
        |t: &mut [f32], strides| fill_array(&world, &mut ArrayMut::strided(t, [3, 3], strides, 0)?);
    assert_eq!(code(overlapping(&mut target, [0, 0])), "W0117");
    assert_eq!(code(overlapping(&mut target, [1, 1])), "W0117");
    assert_eq!(target, [0.0; 12]);
    assert_eq!(code(overlapping(&mut target, [4, 1])), "");
    assert_eq!(target[3], 0.0);

    // Structs are copied, which a stride of 0 can make very long.
    let pair = [Pair { a: 2.0, b: 1 }];
    let pairs = |n| sum_pairs(&world, &Array::strided(&pair, [n], [0], 0)?);
    assert_eq!(pairs(3).unwrap(), 6.0);
    assert_eq!(code(pairs(1 << 60)), "W0110");
    assert_eq!(code(pairs(1 << 48)), "W0110");
}

#[test]
fn arrays_that_overlap() {
    for world in worlds() {
        let mut data = vec![1.0f32; 8];
        let cells = Cell::from_mut(&mut data[..]).as_slice_of_cells();
        let one = SharedArray::new(&cells[..6], [6]).unwrap();
        let other = SharedArray::new(&cells[2..], [6]).unwrap();
        // Racing, so any of the orders; but each element is one of the sums there can be.
        add_arrays(&world, &one, &other).unwrap();
        add_arrays(&world, &one, &one).unwrap();
        assert!(data.iter().all(|v| (1.0..=64.0).contains(v)), "{data:?}");
    }
}

// Worlds and threads.

#[test]
fn fields_of_two_worlds() {
    let [one, other] = worlds();
    let (x, y) = (one.field("x", [4]).unwrap(), other.field("y", [4]).unwrap());
    assert_eq!(code(copy(&x, &y)), "W0114");
    assert_eq!(code(copy(&y, &x)), "W0114");
    assert_eq!(code(copy(&x, &x)), "");
    assert_eq!(code(y.copy_from_field(&x)), "");
    drop((one, other));
    // Fields keep their worlds.
    assert_eq!(code(add_one(&x)), "");
    let tree = x.tree();
    drop(x);
    assert_eq!(tree.memory_used(), 16);
}

#[test]
fn two_worlds_and_many_threads() {
    let worlds = [
        World::cpu().unwrap(),
        World::builder().threads(3).build().unwrap(),
    ];
    let fields: Vec<Field<f32, 1>> = worlds
        .iter()
        .map(|w| w.field("x", [5000]).unwrap())
        .collect();
    let fields = Arc::new(fields);
    let threads: Vec<_> = (0..8)
        .map(|k| {
            let fields = fields.clone();
            std::thread::spawn(move || {
                for turn in 0..25 {
                    add_one(&fields[(k + turn) % 2]).unwrap();
                    let other = fields[k % 2].world().field("t", [64]).unwrap();
                    add_one(&other).unwrap();
                    assert_eq!(other.get([63]).unwrap(), 1.0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().unwrap());
    let total: f32 = fields.iter().map(|f| f.get([4999]).unwrap()).sum();
    assert_eq!(total, 8.0 * 25.0);
}

/// A print callback may launch and print itself, and may panic without leaving locks behind.
#[test]
fn print_handlers_that_launch_and_panic() {
    #[kernel]
    fn speak(x: &Field<f32, 1>) {
        for [i] in x {
            print!("{}", i);
        }
    }
    for world in worlds() {
        let x = world.field::<f32, 1>("x", [3]).unwrap();
        let inner = x.clone();
        world.on_print(move |_| add_one(&inner).unwrap());
        speak(&x).unwrap();
        assert_eq!(x.get([0]).unwrap(), 3.0);
        world.on_print(|line| panic!("{line}"));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| speak(&x)));
        assert!(caught.is_err());
        world.on_print(|_| ());
        assert_eq!(code(speak(&x)), "");
        assert_eq!(code(add_one(&x)), "");
    }
}
