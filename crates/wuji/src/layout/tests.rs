//! Which sparse layouts there are, and what is wrong with others.

use crate::axes::*;
use crate::layout::Node;
use crate::{Error, Result, World};
use expect_test::{Expect, expect};
use wuji_ir::layout::NodeKind;

fn world() -> World {
    World::interpreter().unwrap()
}

const KINDS: [&str; 6] = ["root", "dense", "bitmasked", "pointer", "hash", "dynamic"];

/// A node of a kind; `list` is the axis of a dynamic one.
fn hang<'a>(node: Node<'a>, kind: &str, list: Axes) -> Node<'a> {
    match kind {
        "root" => node,
        "dense" => node.dense(I, 4),
        "bitmasked" => node.bitmasked(I, 4),
        "pointer" => node.pointer(I, 4),
        "hash" => node.hash_sized(I, 4),
        "dynamic" => node.dynamic(list, 8),
        _ => unreachable!(),
    }
}

/// The matrix of `docs/sparse.md`.
#[test]
fn which_node_hangs_below_which() {
    let w = world();
    for parent in KINDS {
        for child in &KINDS[1..] {
            let built = w.layout(|root| {
                let node = hang(hang(root, parent, L), child, M);
                let rank = node.build.state.borrow().data.axes(node.node).len();
                match rank {
                    1 => drop(node.place::<i32, 1>("x")),
                    _ => drop(node.place::<i32, 2>("x")),
                }
            });
            built.unwrap_or_else(|e| panic!("{child} below {parent}: {e}"));
        }
    }
}

#[test]
fn forks_hold_children_of_all_kinds() {
    let w = world();
    w.layout(|root| {
        let top = root.pointer(IJ, 16);
        top.cells::<2>("blocks");
        top.place::<i32, 2>("count");
        top.dense(IJ, 8).place::<f32, 2>("fine");
        top.bitmasked(IJ, 4).morton().place::<f32, 2>("masked");
        top.dynamic(L, 1000).place::<f32, 3>("list");
        top.pointer(IJ, 2).dense(IJ, 4).place::<f32, 2>("deep");
        root.hash(IJ).dense(IJ, 8).place::<f32, 2>("far");
        root.place::<i32, 0>("total");
    })
    .unwrap();
}

#[test]
fn a_hash_node_has_all_coordinates_of_i32() {
    let w = world();
    let (blocks, inner, x, particles) = w
        .layout(|root| {
            let top = root.hash(IJK);
            let leaf = top.pointer(IJK, 4).dense(IJK, 8);
            (
                top.cells::<3>("blocks"),
                top.pointer(IJK, 16).cells::<3>("inner"),
                leaf.place::<f32, 3>("x"),
                top.dynamic(L, 64).place::<u8, 4>("particles"),
            )
        })
        .unwrap();
    assert_eq!(x.offset().unwrap(), [-(1 << 31); 3]);
    assert_eq!(x.shape().unwrap(), [1 << 32; 3]);
    assert_eq!(x.len().unwrap(), u64::MAX);
    assert_eq!(blocks.offset().unwrap(), [-(1 << 26); 3]);
    assert_eq!(blocks.shape().unwrap(), [1 << 27; 3]);
    assert_eq!(inner.offset().unwrap(), [-(1 << 30); 3]);
    let origin = -(1 << 26);
    assert_eq!(particles.offset().unwrap(), [origin, origin, origin, 0]);
    assert_eq!(particles.shape().unwrap()[3], 64);
    // Blocks that do not divide 2^31 reach beyond it.
    let y = w
        .layout(|root| root.hash(I).dense(I, 3).place::<f32, 1>("y"))
        .unwrap();
    assert_eq!(y.offset().unwrap(), [-2_147_483_649]);
    assert_eq!(y.shape().unwrap(), [4_294_967_298]);
}

#[test]
fn an_unbounded_hash_node_below_others_has_all_coordinates_along_its_axes() {
    let w = world();
    let (x, cells) = w
        .layout(|root| {
            let table = root.pointer(I, 8).bitmasked(I, 2).hash([J, K]);
            (
                table.dense(IJK, 4).place::<f32, 3>("x"),
                table.cells::<3>("cells"),
            )
        })
        .unwrap();
    assert_eq!(x.offset().unwrap(), [0, -(1 << 31), -(1 << 31)]);
    assert_eq!(x.shape().unwrap(), [64, 1 << 32, 1 << 32]);
    assert_eq!(cells.offset().unwrap(), [0, -(1 << 29), -(1 << 29)]);
    assert_eq!(cells.shape().unwrap(), [16, 1 << 30, 1 << 30]);
}

#[test]
fn blocks_are_numbered_like_their_elements() {
    let w = world();
    let blocks = w
        .layout(|root| {
            let node = root.pointer(IJ, [8, 4]);
            let inner = node.dense(IJ, 4).bitmasked(IJ, 2);
            inner.offset([-32, 8]).place::<f32, 2>("x");
            node.cells::<2>("blocks")
        })
        .unwrap();
    assert_eq!(blocks.offset().unwrap(), [-4, 1]);
    assert_eq!(blocks.shape().unwrap(), [8, 4]);
    let own = w
        .layout(|root| {
            let node = root.pointer(I, 8);
            node.dense(I, 4).offset([-3]).place::<f32, 1>("x");
            node.offset([100]).cells::<1>("blocks")
        })
        .unwrap();
    assert_eq!(own.offset().unwrap(), [100]);
}

#[test]
fn chunks_of_lists() {
    let chunk = |most: i64, asked: Option<u32>| {
        let x = world()
            .layout(|root| {
                let list = match asked {
                    None => root.dynamic(L, most),
                    Some(chunk) => root.dynamic_chunked(L, most, chunk),
                };
                list.place::<f32, 1>("x")
            })
            .unwrap();
        let tree = x.tree();
        let nodes = &tree.inner.body().unwrap().shape.data.nodes;
        nodes
            .values()
            .find_map(|n| match n.kind {
                NodeKind::Dynamic(list) => Some(list.chunk),
                _ => None,
            })
            .unwrap()
    };
    assert_eq!(chunk(1, None), 1);
    assert_eq!(chunk(20, None), 20);
    assert_eq!(chunk(100, None), 32);
    assert_eq!(chunk(10_000, None), 156);
    assert_eq!(chunk(i32::MAX.into(), None), 1024);
    // A chunk is at most as long as its list.
    assert_eq!(chunk(100, Some(8)), 8);
    assert_eq!(chunk(100, Some(100)), 100);
    assert_eq!(chunk(100, Some(1000)), 100);
}

/// The message without its position, which moves with every edit of this file.
fn message(describe: impl FnOnce(Node<'_>), expected: Expect) {
    let result: Result<()> = world().layout(describe);
    let mut error: Error = result.unwrap_err();
    let at = error.at.take();
    assert!(at.is_some_and(|at| at.file.ends_with("tests.rs")));
    expected.assert_eq(&error.to_string());
}

#[test]
fn what_is_wrong_with_a_sparse_layout() {
    message(
        |root| drop(root.pointer(I, 4).hash(I).place::<f32, 1>("x")),
        expect![[r#"
            error[W0120]: a hash node without bounds splits axis `i`, which the pointer node over `i` splits, too
              = note: a field has every coordinate along an axis without bounds, so the hash node is the first that splits it
              = help: use `hash_sized` here, or put the hash node above"#]],
    );
    message(
        |root| {
            drop(
                root.hash(IJ)
                    .pointer(I, 16)
                    .hash([J, K])
                    .place::<f32, 3>("x"),
            )
        },
        expect![[r#"
            error[W0120]: a hash node without bounds splits axis `j`, which the hash node over `i`, `j` splits, too
              = note: a field has every coordinate along an axis without bounds, so the hash node is the first that splits it
              = help: use `hash_sized` here, or put the hash node above"#]],
    );
    message(
        |root| drop(root.dynamic([L, M], 4).place::<f32, 2>("x")),
        expect![[r#"
            error[W0121]: a dynamic node splits 2 axes
              = note: a dynamic node is a list, which has one index
              = help: split the other axes in a node above or below it"#]],
    );
    message(
        |root| drop(root.pointer(IJ, 4).dynamic(J, 4).place::<f32, 2>("x")),
        expect![[r#"
            error[W0121]: a dynamic node splits axis `j`, which the pointer node over `i`, `j` splits, too
              = note: the index along a list is an axis of its own
              = help: use an axis that no other node on the way splits, such as `L`"#]],
    );
    message(
        |root| drop(root.dynamic(L, 4).dense(L, 4).place::<f32, 1>("x")),
        expect![[r#"
            error[W0121]: a dense node splits axis `l`, along which the dynamic node above it is a list
              = note: the index along a list is an axis of its own
              = help: use another axis for one of the two"#]],
    );
    message(
        |root| {
            drop(
                root.dynamic(L, 4)
                    .pointer(I, 4)
                    .bitmasked([I, L], 4)
                    .place::<f32, 2>("x"),
            )
        },
        expect![[r#"
            error[W0121]: a bitmasked node splits axis `l`, along which the dynamic node above it is a list
              = note: the index along a list is an axis of its own
              = help: use another axis for one of the two"#]],
    );
    message(
        |root| drop(root.dynamic(L, 0).place::<f32, 1>("x")),
        expect![[r#"
            error[W0101]: axis `l` has extent 0
              = help: an extent is at least 1"#]],
    );
    message(
        |root| drop(root.dynamic(L, 1u64 << 31).place::<f32, 1>("x")),
        expect![[r#"
            error[W0101]: a list has room for 2147483648 cells
              = help: `append` gives an `i32`, so it is at most 2147483647"#]],
    );
    message(
        |root| drop(root.dynamic_chunked(L, 100, 0).place::<f32, 1>("x")),
        expect![[r#"
            error[W0123]: a dynamic node has chunks of 0 cells
              = help: a chunk is at least 1 cell; 32 to 1024 are usual"#]],
    );
    message(
        |root| drop(root.bitmasked(IJ, [8, 6]).morton().place::<f32, 2>("x")),
        expect![[r#"
            error[W0122]: the bitmasked node over `i`, `j` is put along a Z-curve, but has extent 6 along `j`
              = help: a Z-curve needs extents that are powers of two"#]],
    );
    message(
        |root| drop(root.hash(IJ).morton().place::<f32, 2>("x")),
        expect![[r#"
            error[W0122]: the hash node over `i`, `j` has no cells that can be put along a Z-curve
              = help: `morton` follows `dense`, `bitmasked` or `pointer`"#]],
    );
    message(
        |root| drop(root.morton().dense(I, 4).place::<f32, 1>("x")),
        expect![[r#"
            error[W0122]: the root has no cells that can be put along a Z-curve
              = help: `morton` follows `dense`, `bitmasked` or `pointer`"#]],
    );
    message(
        |root| drop(root.pointer(IJ, 1u64 << 32).morton().place::<f32, 2>("x")),
        expect![[r#"
            error[W0122]: the pointer node over `i`, `j` has too many cells for a Z-curve
              = help: make the extents smaller"#]],
    );
    message(
        |root| drop(root.pointer(IJ, [4, 4, 4]).place::<f32, 2>("x")),
        expect![[r#"
            error[W0102]: 2 axes have 3 extents
              = help: give one extent for each axis, or one number for all of them"#]],
    );
    message(
        |root| drop(root.bitmasked(I, 0).place::<f32, 1>("x")),
        expect![[r#"
            error[W0101]: axis `i` has extent 0
              = help: an extent is at least 1"#]],
    );
    message(
        |root| drop(root.pointer([I, I], 4).place::<f32, 1>("x")),
        expect![[r#"
            error[W0102]: a pointer node splits axis `i` twice
              = help: split it again in a node below this one"#]],
    );
    message(
        |root| {
            root.pointer(IJ, 4);
            drop(root.dense(I, 4).place::<f32, 1>("x"))
        },
        expect![[r#"
            error[W0105]: the pointer node over `i`, `j` holds nothing
              = help: place a field in its cells, or leave the node out"#]],
    );
    message(
        |root| drop(root.hash(I).dense(I, 4).offset([4]).place::<f32, 1>("x")),
        expect![[r#"
            error[W0104]: field `x` has an offset along axis `i`, which has no bounds
              = note: below `hash(..)` a field has elements at every coordinate, negative ones too
              = help: leave the offset out, or use `hash_sized`"#]],
    );
    message(
        |root| {
            let node = root.pointer(I, 4);
            node.cells::<1>("blocks");
            drop(node.dense(I, 8).offset([-3]).place::<f32, 1>("x"))
        },
        expect![[r#"
            error[W0124]: the cells `blocks` have no coordinates that go with those of field `x`
              = note: the offset -3 along axis `i` is in the middle of a cell
              = help: say where the cells start: `.offset([..]).cells(..)`, counted in cells"#]],
    );
    message(
        |root| {
            let node = root.pointer(I, 4);
            node.cells::<1>("blocks");
            node.dense(I, 8).place::<f32, 1>("x");
            drop(node.dense(I, 8).offset([8]).place::<f32, 1>("y"))
        },
        expect![[r#"
            error[W0124]: the cells `blocks` have no coordinates that go with those of field `y`
              = note: field `x` in the same cells starts elsewhere along axis `i`
              = help: say where the cells start: `.offset([..]).cells(..)`, counted in cells"#]],
    );
    message(
        |root| drop(root.pointer(IJ, 4).cells::<1>("blocks")),
        expect![[r#"
            error[W0103]: field `blocks` has rank 1, but 2 axes (`i`, `j`) are split above it
              = help: place it as a field of rank 2"#]],
    );
    message(
        |root| {
            let node = root.pointer(I, 1u64 << 40).pointer(I, 1u64 << 40);
            drop(node.place::<f32, 1>("x"))
        },
        expect!["error[W0104]: the coordinates of field `x` along axis `i` do not fit in 64 bits"],
    );
}
