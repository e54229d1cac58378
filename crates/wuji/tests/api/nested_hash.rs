//! Hash nodes below other nodes: what belongs to a deactivated cell is gone, and its memory is recycled.
//! Every test runs interpreted and compiled, on one thread and on several, eager and lazy.

use expect_test::expect;
use wuji::prelude::*;
use wuji::{Node, Result};

/// Runs a test in every kind of world, for a table below every kind of sparse node.
fn everywhere(test: impl Fn(&World, &str) -> Result<()>) {
    let native = |threads| World::builder().threads(threads).build();
    let lazy = World::builder().threads(2).lazy(true).build();
    let worlds = [World::interpreter(), native(1), native(4), lazy];
    for world in worlds {
        let world = world.unwrap();
        for kind in ["bitmasked", "pointer", "hash", "dense in pointer"] {
            test(&world, kind).unwrap_or_else(|e| panic!("{world:?}, below {kind}: {e}"));
        }
    }
}

/// A node with 16 x 16 cells.
fn parent<'a>(root: Node<'a>, kind: &str) -> Node<'a> {
    match kind {
        "bitmasked" => root.bitmasked(IJ, 16),
        "pointer" => root.pointer(IJ, 16),
        "hash" => root.hash_sized(IJ, 16),
        _ => root.pointer(IJ, 16),
    }
}

/// Tables of 64 x 64 cells below it.
fn table<'a>(node: Node<'a>, kind: &str) -> Node<'a> {
    match kind {
        "dense in pointer" => node.dense(IJ, 4).hash_sized(IJ, 16),
        _ => node.hash_sized(IJ, 64),
    }
}

struct Setup {
    parents: Cells<2>,
    cells: Cells<2>,
    x: Field<i32, 2>,
}

fn setup(w: &World, kind: &str) -> Result<Setup> {
    w.layout(|root| {
        let parent = parent(root, kind);
        let cell = table(parent, kind);
        Setup {
            parents: parent.cells("parents"),
            cells: cell.cells("cells"),
            x: cell.place("x"),
        }
    })
}

#[kernel]
fn scatter(x: &Field<i32, 2>, n: i32, step: i32) {
    for k in 0..n {
        x[[k * step % 1024, k * 7 % 1024]] += k + 1;
    }
}

#[kernel]
fn total(x: &Field<i32, 2>) -> (i64, i64) {
    let mut sum = 0;
    let mut count = 0;
    for at in x {
        sum += x[at] as i64;
        count += 1;
    }
    (sum, count)
}

/// Deactivates parents, and activates cells below some of them again, in one task.
#[kernel]
fn replace(parents: &Cells<2>, x: &Field<i32, 2>) {
    for [i, j] in parents {
        parents.deactivate([i, j]);
        if (i + j) % 2 == 0 {
            x[[i * 64 + 3, j * 64 + 5]] = 1;
        }
    }
}

#[test]
fn cells_below_a_deactivated_cell_are_gone() {
    everywhere(|w, kind| {
        let Setup { parents, cells, x } = setup(w, kind)?;
        scatter(&x, 3000, 3)?;
        let (sum, count) = total(&x)?;
        assert_eq!(sum, 3000 * 3001 / 2);
        assert_eq!(x.count_active()?, count as u64);
        assert_eq!(cells.count_active()?, count as u64);
        let (coordinates, values) = x.export()?;
        // One parent of many.
        let [i, j] = coordinates[0].map(|c| c / 64);
        let inside = |at: &[i32; 2]| at.map(|c| c / 64) == [i, j];
        parents.deactivate([i, j])?;
        let left = coordinates
            .iter()
            .zip(&values)
            .filter(|(at, _)| !inside(at));
        let left: (Vec<[i32; 2]>, Vec<i32>) = left.map(|(at, v)| (*at, *v)).unzip();
        assert_eq!(x.export()?, left);
        assert_eq!(x.get(coordinates[0])?, 0);
        assert!(!x.is_active(coordinates[0])?);
        // Activated again, it is empty.
        parents.activate([i, j])?;
        assert_eq!(x.export()?, left);
        let first = [i * 64 + 63, j * 64 + 1];
        x.set(first, 5)?;
        assert_eq!(x.count_active()?, left.0.len() as u64 + 1);
        assert_eq!(x.get(coordinates[0])?, 0);
        parents.deactivate_all()?;
        assert_eq!(total(&x)?, (0, 0));
        Ok(())
    });
}

#[test]
fn a_parent_is_replaced_in_one_task() {
    everywhere(|w, kind| {
        let Setup { parents, x, .. } = setup(w, kind)?;
        for round in 0..4 {
            scatter(&x, 2000, 3 + round)?;
            let before = parents.active()?;
            replace(&parents, &x)?;
            let kept = before.iter().filter(|[i, j]| (i + j) % 2 == 0);
            let kept: Vec<[i32; 2]> = kept.copied().collect();
            let expected: Vec<[i32; 2]> =
                kept.iter().map(|[i, j]| [i * 64 + 3, j * 64 + 5]).collect();
            // An iteration that writes to its own cell after it deactivated it leaves it active.
            assert_eq!(parents.active()?, kept, "round {round}");
            let mut found = x.export()?.0;
            found.sort_unstable();
            let mut expected = expected;
            expected.sort_unstable();
            assert_eq!(found, expected, "round {round}");
        }
        Ok(())
    });
}

#[test]
fn memory_is_recycled() {
    for kind in ["bitmasked", "pointer", "hash", "dense in pointer"] {
        let w = World::builder().threads(1).build().unwrap();
        let Setup { parents, x, .. } = setup(&w, kind).unwrap();
        let mut used = 0;
        for round in 0..10 {
            scatter(&x, 5000, 3).unwrap();
            assert_eq!(total(&x).unwrap().0, 5000 * 5001 / 2);
            if round == 0 {
                used = w.memory_used();
            }
            assert_eq!(w.memory_used(), used, "below {kind}, round {round}");
            parents.deactivate_all().unwrap();
        }
    }
}

#[test]
fn a_report_of_memory() {
    let w = World::builder().threads(1).build().unwrap();
    let (parents, x) = w
        .layout(|root| {
            let parent = root.pointer(IJ, 4);
            let table = parent.hash_sized(IJ, 1000);
            (
                parent.cells::<2>("parents"),
                table.dense(IJ, 4).place::<f32, 2>("x"),
            )
        })
        .unwrap();
    for at in [[0, 0], [100, 5], [8000, 7]] {
        x.set(at, 1.0).unwrap();
    }
    parents.deactivate([0, 0]).unwrap();
    expect![[r#"
        node                                       active    allocated         free            bytes
        root                                            1            1            0              128
          pointer [i: 4, j: 4]                          1            2            1               16
            hash [i: 1000, j: 1000]                     1            3            2              192
        together                                                                                 336"#]].assert_eq(&x.tree().memory_report().unwrap().to_string());
}

/// The same coordinates in tables that are children of one cell.
#[test]
fn siblings_do_not_mix() {
    everywhere(|w, kind| {
        let (x, y, cells) = w.layout(|root| {
            let node = parent(root, kind);
            let first = table(node, kind);
            let second = table(node, kind);
            (
                first.place::<i32, 2>("x"),
                second.dense(K, 4).place::<i32, 3>("y"),
                first.cells::<2>("cells"),
            )
        })?;
        x.set([70, 70], 1)?;
        y.set([70, 70, 3], 2)?;
        y.set([71, 70, 0], 3)?;
        assert_eq!((x.get([70, 70])?, y.get([70, 70, 3])?), (1, 2));
        cells.deactivate([70, 70])?;
        assert_eq!((x.get([70, 70])?, y.get([70, 70, 3])?), (0, 2));
        assert_eq!((x.count_active()?, y.count_active()?), (0, 8));
        Ok(())
    });
}

#[kernel]
fn sum_of_neighbours(x: &Field<i32, 2>, y: &Field<i32, 2>) {
    for [i, j] in x {
        y[[i, j]] = x[[i - 1, j]] + x[[i + 1, j]] * 10 + x[[i, j - 1]] * 100 + x[[i, j + 1]] * 1000;
    }
}

#[test]
fn neighbours_in_other_tables() {
    everywhere(|w, kind| {
        let (x, y) = w.layout(|root| {
            let node = parent(root, kind);
            let cell = node.hash_sized(IJ, 8).dense(IJ, 4);
            (cell.place::<i32, 2>("x"), cell.place::<i32, 2>("y"))
        })?;
        for at in [[31, 31], [32, 31], [31, 32], [63, 64], [64, 63]] {
            x.set(at, at[0] + at[1])?;
        }
        sum_of_neighbours(&x, &y)?;
        let model = |i: i32, j: i32| -> Result<i32> { x.get([i, j]) };
        for i in 28..68 {
            for j in 28..68 {
                if x.is_active([i, j])? {
                    let expected = model(i - 1, j)?
                        + model(i + 1, j)? * 10
                        + model(i, j - 1)? * 100
                        + model(i, j + 1)? * 1000;
                    assert_eq!(y.get([i, j])?, expected, "{i} {j}");
                }
            }
        }
        Ok(())
    });
}

#[kernel]
fn fill_list(list: &Field<i32, 3>, n: i32) {
    for k in 0..n {
        list.append([k % 5 * 100, k % 3 * 200], k);
    }
}

#[test]
fn lists_masks_and_packed_numbers_below() {
    everywhere(|w, kind| {
        let (parents, list, bits, packed) = w.layout(|root| {
            let node = parent(root, kind);
            let cell = table(node, kind);
            (
                node.cells::<2>("parents"),
                cell.dynamic(L, 100).place::<i32, 3>("list"),
                cell.bitmasked(IJ, 2).place::<f32, 2>("bits"),
                cell.bit_struct(32)
                    .place::<f32, 2>("packed", qfixed(12, true, 2.0)),
            )
        })?;
        for round in 0..2 {
            fill_list(&list, 300)?;
            assert_eq!(list.count_active()?, 300, "round {round}");
            assert_eq!(list.length([100, 200])?, 20);
            bits.set([201, 401], 4.0)?;
            packed.set([100, 200], 1.5)?;
            assert_eq!(bits.active()?, [[201, 401]]);
            assert!((packed.get([100, 200])? - 1.5).abs() < 0.01);
            parents.deactivate_all()?;
            assert_eq!(list.count_active()?, 0);
            assert_eq!((bits.get([201, 401])?, packed.get([100, 200])?), (0.0, 0.0));
        }
        Ok(())
    });
}

#[test]
fn a_world_is_saved_and_loaded() {
    let folder = std::env::temp_dir().join(format!("wuji-nested-hash-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("world");
    everywhere(|w, kind| {
        let fresh = if format!("{w:?}").contains("nterpret") {
            World::interpreter()
        } else {
            World::builder().threads(2).build()
        }?;
        let Setup { parents, x, .. } = setup(&fresh, kind)?;
        scatter(&x, 500, 5)?;
        parents.activate([15, 15])?;
        let (before, active) = (x.export()?, parents.active()?);
        fresh.save(&path)?;
        parents.deactivate_all()?;
        scatter(&x, 100, 9)?;
        fresh.load(&path)?;
        assert_eq!((x.export()?, parents.active()?), (before, active));
        Ok(())
    });
    std::fs::remove_dir_all(&folder).unwrap();
}

/// More cells than the first tables have room for, below one parent and below many.
#[test]
fn tables_grow() {
    for kind in ["bitmasked", "pointer", "hash"] {
        let w = World::builder().threads(4).build().unwrap();
        let (parents, x) = w
            .layout(|root| {
                let node = parent(root, kind);
                let cell = node.hash_sized(IJ, 4096);
                (node.cells::<2>("parents"), cell.place::<i32, 2>("x"))
            })
            .unwrap();
        for round in 0..3 {
            spread(&x, 100_000).unwrap();
            assert_eq!(
                total(&x).unwrap(),
                (100_000, 100_000),
                "below {kind}, round {round}"
            );
            spread(&x, 100_000).unwrap();
            assert_eq!(
                total(&x).unwrap(),
                (200_000, 100_000),
                "below {kind}, round {round}"
            );
            parents.deactivate_all().unwrap();
            assert_eq!(total(&x).unwrap(), (0, 0));
        }
    }
}

#[kernel]
fn spread(x: &Field<i32, 2>, n: i32) {
    for k in 0..n {
        x[[k % 10 * 5000 + k / 1000, k % 1000 * 31]] += 1;
    }
}
