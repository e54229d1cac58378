//! Semantics of kernels on sparse data: activation, deactivation, which cells loops visit, which errors are reported.
//! Every test runs interpreted and compiled, on one thread and on several.

use expect_test::{Expect, expect};
use wuji::prelude::*;
use wuji::{Error, Result};

/// Runs a test in every kind of world.
fn everywhere(test: impl Fn(&World) -> Result<()>) {
    let native = |threads| World::builder().threads(threads).build();
    let worlds = [World::interpreter(), native(1), native(4)];
    for world in worlds {
        let world = world.unwrap();
        test(&world).unwrap_or_else(|e| panic!("{world:?}: {e}"));
    }
}

fn blocks(w: &World) -> Result<(Cells<2>, Field<f32, 2>)> {
    w.layout(|root| {
        let block = root.pointer(IJ, 16);
        let x = block.dense(IJ, 4).place::<f32, 2>("x");
        (block.cells::<2>("blocks"), x)
    })
}

#[kernel]
fn gather(x: &Field<f32, 2>, y: &Field<f32, 2>) {
    for [i, j] in x {
        y[[i, j]] = x[[i - 4, j]] + x[[i + 4, j]] + x[[i, j - 40]];
    }
}

#[test]
fn reads_do_not_activate() {
    everywhere(|w| {
        let (bx, x) = blocks(w)?;
        let (by, y) = blocks(w)?;
        x.set([5, 5], 2.0)?;
        x.set([9, 5], 3.0)?;
        gather(&x, &y)?;
        assert_eq!(bx.active()?, [[1, 1], [2, 1]]);
        assert_eq!(by.active()?, [[1, 1], [2, 1]]);
        assert_eq!((y.get([5, 5])?, y.get([9, 5])?), (3.0, 2.0));
        Ok(())
    });
}

#[derive(Element, Copy, Clone, PartialEq, Debug)]
struct Node {
    mass: f32,
    momentum: Vec2,
}

#[kernel]
fn scatter(source: &Field<f32, 1>, grid: &Field<Node, 2>) {
    for [i] in source {
        grid.no_activate([i, i]).mass += source[[i]];
        grid.no_activate([i, i]).momentum = vec2(1.0, source[[i]]);
        grid.no_activate([i + 1, i]) = Node {
            mass: -1.0,
            momentum: vec2(0.0, 0.0),
        };
    }
}

#[test]
fn writes_without_activation() {
    everywhere(|w| {
        let source = w.field::<f32, 1>("source", 31)?;
        source.fill(0.5)?;
        let (cells, grid) = w.layout(|root| {
            let cell = root.pointer(IJ, 8).bitmasked(IJ, 4);
            (cell.cells::<2>("cells"), cell.place::<Node, 2>("grid"))
        })?;
        let one = Node {
            mass: 1.0,
            momentum: vec2(0.0, 0.0),
        };
        grid.set([3, 3], one)?;
        grid.set([21, 20], one)?;
        scatter(&source, &grid)?;
        assert_eq!(cells.active()?, [[3, 3], [21, 20]]);
        let (_, values) = grid.export()?;
        assert_eq!((values[0].mass, values[1].mass), (1.5, -1.0));
        assert_eq!(values[0].momentum, vec2(1.0, 0.5));
        Ok(())
    });
}

#[kernel]
fn grow(x: &Field<f32, 2>) -> i32 {
    let mut visits = 0;
    for [i, j] in x {
        visits += 1;
        x[[i + 4, j]] = 1.0;
        x[[i, j + 4]] = 1.0;
    }
    visits
}

#[kernel]
fn shrink(blocks: &Cells<2>) -> i32 {
    let mut visits = 0;
    for [i, j] in blocks {
        visits += 1;
        blocks.deactivate([i, j]);
        blocks.deactivate([i + 1, j]);
    }
    visits
}

#[test]
fn loops_visit_the_cells_active_at_their_start() {
    everywhere(|w| {
        let (cells, x) = blocks(w)?;
        x.set([0, 0], 1.0)?;
        let mut expected = 1;
        for step in 1..6 {
            assert_eq!(grow(&x)?, expected * 16);
            expected = (step + 1) * (step + 2) / 2;
            assert_eq!(cells.count_active()?, expected as u64);
        }
        assert_eq!(shrink(&cells)?, expected);
        assert_eq!(cells.count_active()?, 0);
        assert_eq!(shrink(&cells)?, 0);
        Ok(())
    });
}

#[kernel]
fn flicker(cells: &Cells<1>, x: &Field<i32, 1>) -> i32 {
    let mut dirty = 0;
    for i in 0..1000 {
        if x[[i]] != 0 {
            dirty += 1;
        }
        x[[i]] = i + 1;
    }
    for [i] in cells {
        if i % 2 == 0 {
            cells.deactivate([i]);
        }
    }
    for i in 0..1000 {
        let there = cells.is_active([i]);
        if there != (i % 2 == 1) || x[[i]] != there as i32 * (i + 1) {
            dirty += 1000;
        }
        cells.activate([i]);
        if x[[i]] != there as i32 * (i + 1) {
            dirty += 1_000_000;
        }
    }
    for [i] in cells {
        cells.deactivate([i]);
    }
    dirty
}

#[test]
fn recycled_cells_are_zero() {
    everywhere(|w| {
        for kind in ["bitmasked", "pointer", "hash"] {
            let (cells, x) = w.layout(|root| {
                let cell = match kind {
                    "bitmasked" => root.bitmasked(I, 1000),
                    "pointer" => root.pointer(I, 1000),
                    _ => root.hash(I),
                };
                (cell.cells::<1>("cells"), cell.place::<i32, 1>("x"))
            })?;
            for _ in 0..5 {
                assert_eq!(flicker(&cells, &x)?, 0, "{kind}");
                assert_eq!(cells.count_active()?, 0, "{kind}");
            }
        }
        Ok(())
    });
}

#[kernel]
fn sort_in(lists: &Field<i32, 2>, n: i32) -> i32 {
    let mut lost = 0;
    for i in 0..n {
        let slot = lists.append([i % 7], i);
        if slot < 0 {
            lost += 1;
        }
    }
    lost
}

#[test]
fn concurrent_appends() {
    everywhere(|w| {
        let lists = w.layout(|root| {
            let list = root.pointer(I, 8).dynamic_chunked(J, 1000, 17);
            list.place::<i32, 2>("lists")
        })?;
        assert_eq!(sort_in(&lists, 6000)?, 0);
        let (coordinates, values) = lists.export()?;
        assert_eq!(coordinates.len(), 6000);
        let mut seen = vec![false; 6000];
        for ([i, j], v) in coordinates.into_iter().zip(values) {
            assert_eq!(v % 7, i);
            assert!(j < lists.length(i)?);
            assert!(!std::mem::replace(&mut seen[v as usize], true));
        }
        // Elements that do not fit are reported, and all others are stored.
        let full = sort_in(&lists, 6000).unwrap_err();
        assert_eq!(full.code, "W0408");
        assert_eq!(lists.count_active()?, 7000);
        assert_eq!(lists.length(3)?, 1000);
        assert_eq!(lists.length(7)?, 0);
        lists.deactivate([3, 0])?;
        assert_eq!(lists.length(3)?, 0);
        assert_eq!(lists.append(3, 5)?, 0);
        Ok(())
    });
}

#[func]
fn touch(cells: &Cells<2>, at: Vector<i32, 2>) -> bool {
    let before = cells.is_active(at);
    cells.activate(at);
    before
}

#[kernel]
fn touch_all(cells: &Cells<2>, n: i32) -> i32 {
    let mut before = 0;
    for [i, j] in grid([-n..n, -n..n]) {
        if touch(cells, ivec2(i, j)) {
            before += 1;
        }
    }
    before
}

#[test]
fn functions_take_cells() {
    everywhere(|w| {
        // Nothing but bits.
        let cells = w.layout(|root| root.hash(IJ).bitmasked(IJ, 8).cells::<2>("cells"))?;
        assert_eq!(touch_all(&cells, 5)?, 0);
        assert_eq!(touch_all(&cells, 9)?, 100);
        assert_eq!(cells.count_active()?, 324);
        cells.import(&[[100, 100], [-5, -5]])?;
        assert_eq!(cells.count_active()?, 325);
        Ok(())
    });
}

#[kernel]
fn mark(x: &Field<i32, 1>) {
    for [i] in x {
        x[[i]] += i;
    }
}

#[test]
fn blocks_of_any_size_below_a_hash_table() {
    everywhere(|w| {
        let (cells, x) = w.layout(|root| {
            let node = root.hash(I).pointer(I, 5);
            (
                node.cells::<1>("cells"),
                node.dense(I, 3).place::<i32, 1>("x"),
            )
        })?;
        for i in [i32::MIN, -4, -3, 7, i32::MAX] {
            x.set(i, 1)?;
        }
        let expected = [i32::MIN, -4, -3, 7, i32::MAX].map(|i| [i.div_euclid(3)]);
        assert_eq!(cells.active()?, expected);
        mark(&x)?;
        assert_eq!(x.get(7)?, 8);
        assert_eq!(x.get(-4)?, -3);
        assert_eq!(x.get(i32::MAX - 1)?, i32::MAX - 1);
        Ok(())
    });
}

#[test]
fn windows_of_sparse_fields() {
    everywhere(|w| {
        let (cells, x) = blocks(w)?;
        let window = x.window([3..6, 8..10])?;
        assert_eq!(window.to_vec()?, [0.0; 6]);
        assert_eq!(cells.count_active()?, 0);
        window.copy_from(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        assert_eq!(window.to_vec()?, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(cells.active()?, [[0, 2], [1, 2]]);
        x.window([63..64, 0..5])?.fill(9.0)?;
        assert_eq!(cells.active()?, [[0, 2], [1, 2], [15, 0], [15, 1]]);
        x.fill(0.5)?;
        assert_eq!(x.to_vec()?.iter().sum::<f32>(), 32.0);
        x.tree().clear()?;
        assert_eq!(cells.count_active()?, 0);
        x.import(&[[1, 1], [60, 60]], &[4.0, 5.0])?;
        assert_eq!(x.to_vec()?.iter().sum::<f32>(), 9.0);
        Ok(())
    });
}

#[test]
fn elements_at_the_root_of_a_sparse_tree() {
    everywhere(|w| {
        let (total, list) = w.layout(|root| {
            (
                root.place::<f64, 0>("total"),
                root.dynamic(L, 100).place::<(u8, Vec2), 1>("list"),
            )
        })?;
        total.set((), 2.5)?;
        assert_eq!(total.get(())?, 2.5);
        assert_eq!(total.to_vec()?, [2.5]);
        assert!(total.is_active(())?);
        assert_eq!(total.export()?, (vec![[]], vec![2.5]));
        list.append((), (3, vec2(1.0, 2.0)))?;
        list.append((), (4, vec2(3.0, 4.0)))?;
        let (_, values) = list.export()?;
        assert_eq!(values, [(3, vec2(1.0, 2.0)), (4, vec2(3.0, 4.0))]);
        Ok(())
    });
}

#[kernel]
fn fill_blocks(x: &Field<f32, 1>, n: i32) {
    for i in 0..n {
        x[[i * 1024]] = 1.0;
    }
}

#[test]
fn memory_is_reusable_after_it_ran_out() {
    let w = World::builder()
        .threads(2)
        .memory_limit(4 << 20)
        .build()
        .unwrap();
    let (cells, x) = w
        .layout(|root| {
            let block = root.pointer(I, 1 << 16);
            let x = block.dense(I, 1024).place::<f32, 1>("x");
            (block.cells::<1>("blocks"), x)
        })
        .unwrap();
    fill_blocks(&x, 500).unwrap();
    let error = fill_blocks(&x, 5000).and_then(|()| w.flush()).unwrap_err();
    assert_eq!(error.code, "W0407", "{error}");
    // Everything that was there is there still, and some of the new.
    let many = cells.count_active().unwrap();
    assert!((500..1500).contains(&many), "{many}");
    for i in 0..500 {
        assert_eq!(x.get(i * 1024).unwrap(), 1.0);
    }
    fill_blocks(&x, 500).unwrap();
    cells.deactivate_all().unwrap();
    assert_eq!(cells.count_active().unwrap(), 0);
    // Whichever threads let them go, others get them.
    for _ in 0..3 {
        fill_blocks(&x, many as i32).unwrap();
        assert_eq!(cells.count_active().unwrap(), many);
        cells.deactivate_all().unwrap();
    }
    fill_blocks(&x, 500).unwrap();
    assert_eq!(x.get(1024 * 499).unwrap(), 1.0);
    assert!(w.memory_used() <= 5 << 20, "{}", w.memory_used());
    x.tree().clear().unwrap();
    assert_eq!(w.memory_used(), 8 << 16);
}

#[test]
fn a_report_of_memory() {
    let w = World::builder().threads(1).build().unwrap();
    let (top, x, list) = w
        .layout(|root| {
            let top = root.hash(IJ);
            let leaf = top.pointer(IJ, 4).dense(IJ, 8);
            (
                top.cells::<2>("top"),
                leaf.place::<f32, 2>("x"),
                top.dynamic_chunked(L, 100, 10).place::<i32, 3>("list"),
            )
        })
        .unwrap();
    x.set([-1, -1], 1.0).unwrap();
    x.set([0, 0], 1.0).unwrap();
    x.set([9, 0], 1.0).unwrap();
    for n in 0..11 {
        list.append([0, 0], n).unwrap();
    }
    let check = |expected: Expect| {
        expected.assert_eq(&x.tree().memory_report().unwrap().to_string());
    };
    check(expect![[r#"
        node                                       active    allocated         free            bytes
        root                                            1            1            0                0
          hash [i, j]                                   2            2            0              432
            pointer [i: 4, j: 4]                        3            3            0              768
            dynamic [l: 100]                           11           20            0               80
        together                                                                                1280"#]]);
    top.deactivate([0, 0]).unwrap();
    check(expect![[r#"
        node                                       active    allocated         free            bytes
        root                                            1            1            0                0
          hash [i, j]                                   1            2            1              432
            pointer [i: 4, j: 4]                        1            3            2              768
            dynamic [l: 100]                            0           20           20               80
        together                                                                                1280"#]]);
    x.set([5, 5], 1.0).unwrap();
    check(expect![[r#"
        node                                       active    allocated         free            bytes
        root                                            1            1            0                0
          hash [i, j]                                   2            2            0              432
            pointer [i: 4, j: 4]                        2            3            1              768
            dynamic [l: 100]                            0           20           20               80
        together                                                                                1280"#]]);
}

/// Everything that something can be wrong with.
struct Setup {
    cells: Cells<2>,
    x: Field<f32, 2>,
    y: Field<f32, 1>,
    far: Field<f32, 2>,
    list: Field<i32, 1>,
}

impl Setup {
    fn new(w: &World) -> Result<Setup> {
        let (cells, x) = blocks(w)?;
        Ok(Setup {
            cells,
            x,
            y: w.field::<f32, 1>("y", 3)?,
            far: w.layout(|root| root.hash(IJ).dense(IJ, 4).place("far"))?,
            list: w.layout(|root| root.dynamic(L, 3).place("list"))?,
        })
    }
}

/// The message without its position, which is in this file; the same everywhere.
fn message<T: std::fmt::Debug>(wrong: impl Fn(&Setup) -> Result<T>, expected: Expect) {
    let interpreter = World::builder().interpreter().lazy(false).build();
    let texts = [interpreter, World::builder().lazy(false).build()].map(|w| {
        let mut error: Error = wrong(&Setup::new(&w.unwrap()).unwrap()).unwrap_err();
        let at = error.at.take();
        assert!(at.is_some_and(|at| at.file.ends_with("sparse_semantics.rs")));
        error.to_string()
    });
    assert_eq!(texts[0], texts[1]);
    expected.assert_eq(&texts[0]);
}

#[kernel]
fn appends(x: &Field<f32, 2>) {
    for [i, _] in x {
        x.append([i], 1.0);
    }
}

#[kernel]
fn deactivates(x: &Field<f32, 2>) {
    for [i, j] in x {
        x.deactivate([i, j]);
    }
}

#[kernel]
fn in_order(x: &Field<f32, 2>) {
    for [i, j] in serial(x) {
        x[[i, j]] = 1.0;
    }
}

#[kernel]
fn inside(x: &Field<f32, 2>, y: &Field<f32, 1>) {
    for [n] in y {
        for [i, j] in x {
            y[[n]] += x[[i, j]];
        }
    }
}

#[kernel]
fn shape(x: &Field<f32, 2>) -> i32 {
    x.shape().x
}

#[kernel]
fn push(list: &Field<i32, 1>, n: i32) {
    for i in 0..n {
        list.append([], i);
    }
}

#[kernel]
fn outside(cells: &Cells<2>) {
    for i in 0..3 {
        cells.activate([i, 16]);
    }
}

#[test]
fn what_is_wrong() {
    message(
        |s| appends(&s.x),
        expect![[r#"
        error[W0250]: `x` is in a dense node, which is not a list
          = help: lists are made with `dynamic` in the layout"#]],
    );
    message(
        |s| deactivates(&s.x),
        expect![[r#"
        error[W0251]: `x` is in a dense node, whose cells cannot be deactivated one by one
          = note: they come and go with the cell around them
          = help: take the cells of a sparse node above: `node.cells(..)` in the layout, `&Cells<D>` in the kernel"#]],
    );
    message(
        |s| in_order(&s.x),
        expect![[r#"
            error[W0252]: an ordinary loop cannot run over `x`, whose elements need not exist
              = note: a loop in the serial code of a kernel, without `serial(..)`, visits those that do
              = help: loop over a range and ask `x.is_active(..)`, or up to `x.length(..)` of a list"#]],
    );
    message(
        |s| inside(&s.x, &s.y),
        expect![[r#"
            error[W0252]: an ordinary loop cannot run over `x`, whose elements need not exist
              = note: a loop in the serial code of a kernel, without `serial(..)`, visits those that do
              = help: loop over a range and ask `x.is_active(..)`, or up to `x.length(..)` of a list"#]],
    );
    message(
        |s| shape(&s.far),
        expect![[r#"
            error[W0227]: `x` is too large for coordinates of type `i32`
              = note: below `hash(..)` a field has every coordinate there is"#]],
    );
    message(
        |s| push(&s.list, 5),
        expect![[r#"
        error[W0408]: kernel `push` appended to a full list of field `list`
          = note: a list holds at most 3 elements; `append` returned -1
          = note: 2 problems in this launch
          = help: make the extent of the dynamic node larger"#]],
    );
    message(
        |s| outside(&s.cells),
        expect![[r#"
        error[W0401]: kernel `outside` wrote to field `blocks` outside of its bounds
          = note: the index is [0, 16], its elements are [0..16, 0..16]
          = note: 3 problems in this launch
          = help: such a write is dropped; guard it with an `if`"#]],
    );
    message(
        |s| s.x.append(3, 1.0),
        expect![[r#"
        error[W0126]: `x` is in a dense node, which is not a list
          = help: lists are made with `dynamic` in the layout"#]],
    );
    message(
        |s| s.x.length(3),
        expect![[r#"
        error[W0126]: `x` is in a dense node, which is not a list
          = help: lists are made with `dynamic` in the layout"#]],
    );
    message(
        |s| s.x.deactivate([3, 3]),
        expect![[r#"
        error[W0125]: `x` is in a dense node, whose cells cannot be deactivated one by one
          = note: they come and go with the cell around them
          = help: deactivate a cell of a sparse node above: `let blocks = node.cells("blocks")` in the layout"#]],
    );
    message(
        |s| s.y.deactivate_all(),
        expect![[r#"
        error[W0125]: all nodes above `y` are dense: nothing can be deactivated
          = help: `fill` its elements with zero"#]],
    );
    message(
        |s| s.cells.activate([3, 17]),
        expect![[r#"
        error[W0111]: field `blocks` has no element [3, 17]
          = note: its elements are [0..16, 0..16]"#]],
    );
    message(
        |s| s.x.set([-1, 17], 1.0),
        expect![[r#"
        error[W0111]: field `x` has no element [-1, 17]
          = note: its elements are [0..64, 0..64]"#]],
    );
    message(
        |s| s.x.import(&[[1, 2], [64, 0]], &[1.0, 2.0]),
        expect![[r#"
            error[W0111]: field `x` has no element [64, 0]
              = note: its elements are [0..64, 0..64]"#]],
    );
    message(
        |s| s.x.import(&[[1, 2]], &[]),
        expect![[r#"
        error[W0112]: 0 values for 1 elements of field `x`
          = help: give one value for each element"#]],
    );
    message(
        |s| s.far.to_vec(),
        expect![[r#"
        error[W0129]: field `far` has no bounds, so its elements cannot be listed row by row
          = help: take a `window` of it, or those that exist: `export`, `iter`"#]],
    );
    message(
        |s| s.far.copy_from(&[]),
        expect![[r#"
        error[W0129]: field `far` has no bounds, so its elements cannot be listed row by row
          = help: take a `window` of it, or those that exist: `export`, `iter`"#]],
    );
    message(
        |s| s.far.window([0..1 << 31, 0..1 << 31])?.to_vec(),
        expect!["error[W0110]: no memory for a copy of 4611686018427387904 elements"],
    );
}
