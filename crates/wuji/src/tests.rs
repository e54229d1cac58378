//! Layouts and host access, against a walk over memory that shares nothing with `address`.

use crate::axes::*;
use crate::layout::TreeBody;
use crate::{Element, Error, Field, World};
use expect_test::{Expect, expect};
use std::collections::BTreeMap;
use wuji_ir::entities::Node;
use wuji_ir::layout::{Axis, Child};
use wuji_ir::types::Structs;

fn world() -> World {
    World::interpreter().unwrap()
}

/// Walks all memory of a tree in order, and calls `visit` with the field, its coordinates and the
/// offset of each element.
fn walk(body: &TreeBody, visit: &mut impl FnMut(usize, Vec<i64>, usize)) {
    struct Walk<'a, F>(&'a TreeBody, &'a mut F);
    type Place = BTreeMap<usize, u64>;

    fn cell_size(body: &TreeBody, node: Node) -> (usize, usize) {
        let (mut at, mut align) = (0usize, 1);
        for child in &body.shape.data.nodes[node].children {
            let (size, a) = match child {
                Child::Place(f) => {
                    let mut structs = Structs::default();
                    let ty = body.shape.fields[f.as_u32() as usize]
                        .elem
                        .enter(&mut structs);
                    let (s, a) = structs.size_align(ty);
                    (s as usize, a as usize)
                }
                Child::Node(n) => {
                    let (s, a) = cell_size(body, *n);
                    (s * body.shape.data.nodes[*n].cells() as usize, a)
                }
            };
            at = at.next_multiple_of(a) + size;
            align = align.max(a);
        }
        (at.next_multiple_of(align), align)
    }

    impl<F: FnMut(usize, Vec<i64>, usize)> Walk<'_, F> {
        fn cell(&mut self, node: Node, at: &Place, mut offset: usize) {
            for child in &self.0.shape.data.nodes[node].children.clone() {
                match child {
                    Child::Place(f) => {
                        let f = f.as_u32() as usize;
                        let mut structs = Structs::default();
                        let placed = &self.0.shape.fields[f];
                        let ty = placed.elem.enter(&mut structs);
                        let (size, align) = structs.size_align(ty);
                        offset = offset.next_multiple_of(align as usize);
                        let coordinates = placed
                            .axes
                            .iter()
                            .map(|(axis, from)| from + at[&axis.number()] as i64)
                            .collect();
                        (self.1)(f, coordinates, offset);
                        offset += size as usize;
                    }
                    Child::Node(n) => {
                        let data = self.0.shape.data.nodes[*n].clone();
                        let (size, align) = cell_size(self.0, *n);
                        offset = offset.next_multiple_of(align);
                        for cell in 0..data.cells() {
                            let mut below = at.clone();
                            let mut rest = cell;
                            for (axis, extent) in data.extents.iter().rev() {
                                let c = below.entry(axis.number()).or_insert(0);
                                *c = *c * extent + rest % extent;
                                rest /= extent;
                            }
                            self.cell(*n, &below, offset);
                            offset += size;
                        }
                    }
                }
            }
        }
    }
    Walk(body, visit).cell(body.shape.data.root(), &Place::new(), 0);
}

/// Sets every element to a number of its own, and finds each where the walk says.
fn check<const D: usize>(fields: &[Field<i32, D>]) {
    let mut n = 0;
    for field in fields {
        let count = field.len().unwrap() as i32;
        let values: Vec<i32> = (n..n + count).collect();
        field.copy_from(&values).unwrap();
        n += count;
        assert_eq!(field.to_vec().unwrap(), values);
        for (at, value) in field.iter().unwrap() {
            assert_eq!(field.get(at).unwrap(), value, "{at:?}");
        }
    }
    let body = fields[0].tree_inner().body().unwrap();
    let mut seen = 0;
    walk(body, &mut |f, at, offset| {
        let at: [i64; D] = at.try_into().unwrap();
        let value = fields[f].get(at).unwrap();
        let guard = body.memory.lock().unwrap();
        assert_eq!(i32::read(&guard.bytes()[offset..]), value, "{at:?}");
        seen += 1;
    });
    assert_eq!(seen, n);
    for field in fields {
        let last = field.to_vec().unwrap().len() as i64 - 1;
        for (k, (at, value)) in field.iter().unwrap().enumerate() {
            let mirrored = last as i32 - k as i32;
            field.set(at, mirrored).unwrap();
            assert_eq!(field.get(at).unwrap(), mirrored);
            field.set(at, value).unwrap();
        }
        field.fill(-1).unwrap();
        assert!(field.to_vec().unwrap().iter().all(|v| *v == -1));
    }
}

#[test]
fn one_dense_node_of_each_rank() {
    let w = world();
    check::<0>(&[w.scalar("s").unwrap()]);
    check::<1>(&[w.field("x", [7]).unwrap()]);
    check::<2>(&[w.field("x", [3, 5]).unwrap()]);
    check::<3>(&[w.field("x", [3, 1, 5]).unwrap()]);
    check::<8>(&[w.field("x", [2, 3, 1, 2, 2, 1, 3, 2]).unwrap()]);
}

#[test]
fn rows_columns_and_blocks() {
    let w = world();
    check::<2>(&[w
        .layout(|root| root.dense(JI, [5, 3]).place("columns"))
        .unwrap()]);
    check::<2>(&[w
        .layout(|root| root.dense(IJ, [3, 2]).dense(IJ, [2, 5]).place("blocks"))
        .unwrap()]);
    check::<2>(&[w
        .layout(|root| root.dense(I, 3).dense(J, 4).dense(I, 2).place("strips"))
        .unwrap()]);
    check::<3>(&[w
        .layout(|root| {
            root.dense(KIJ, [2, 3, 2])
                .dense([J, K], [3, 2])
                .dense(IJK, 2)
                .place("deep")
        })
        .unwrap()]);
}

#[test]
fn arrays_of_structs_structs_of_arrays_and_both() {
    let w = world();
    check::<1>(&<[_; 2]>::from(
        w.layout(|root| {
            let cell = root.dense(I, 6);
            (cell.place("a"), cell.place("b"))
        })
        .unwrap(),
    ));
    check::<1>(&<[_; 2]>::from(
        w.layout(|root| (root.dense(I, 6).place("a"), root.dense(I, 9).place("b")))
            .unwrap(),
    ));
    check::<1>(&<[_; 2]>::from(
        w.layout(|root| {
            let block = root.dense(I, 3);
            (block.dense(I, 4).place("a"), block.dense(I, 4).place("b"))
        })
        .unwrap(),
    ));
}

#[test]
fn elements_of_other_sizes_keep_their_alignment() {
    let w = world();
    let (a, b, c) = w
        .layout(|root| {
            let cell = root.dense(I, 5);
            (
                cell.place::<u8, 1>("a"),
                cell.place::<f64, 1>("b"),
                cell.place::<i16, 1>("c"),
            )
        })
        .unwrap();
    assert_eq!(a.tree().memory_used(), 5 * 24);
    b.fill(-0.5).unwrap();
    a.fill(0xff).unwrap();
    c.copy_from(&[1, 2, 3, 4, 5]).unwrap();
    assert_eq!(a.to_vec().unwrap(), [0xff; 5]);
    assert_eq!(b.to_vec().unwrap(), [-0.5; 5]);
    assert_eq!(c.get(3).unwrap(), 4);
}

#[test]
fn offsets_move_the_origin() {
    let w = world();
    let x = w
        .layout(|root| {
            let blocks = root.dense(IJ, [4, 2]).dense(IJ, 3);
            blocks.offset([-6, 100]).place::<i32, 2>("x")
        })
        .unwrap();
    assert_eq!(x.offset().unwrap(), [-6, 100]);
    assert_eq!(x.shape().unwrap(), [12, 6]);
    check(std::slice::from_ref(&x));
    x.set([-6, 100], 1).unwrap();
    x.set([5, 105], 2).unwrap();
    let all = x.to_vec().unwrap();
    assert_eq!((all[0], all[71]), (1, 2));
    assert!(x.get([0, 0]).is_err());
    assert!(x.get([6, 100]).is_err());
    assert!(x.get([-7, 100]).is_err());
}

#[test]
fn windows_see_their_box() {
    let w = world();
    let x = w
        .layout(|root| root.dense(IJ, 2).dense(IJ, [3, 4]).place::<i32, 2>("x"))
        .unwrap();
    let values: Vec<i32> = (0..48).collect();
    x.copy_from(&values).unwrap();
    let rows = x.window([2..4, 0..8]).unwrap();
    assert_eq!(rows.to_vec().unwrap(), &values[16..32]);
    let part = x.window([1..5, 3..6]).unwrap();
    assert_eq!(part.shape(), [4, 3]);
    let expected: Vec<i32> = (1..5)
        .flat_map(|i| (3..6).map(move |j| i * 8 + j))
        .collect();
    assert_eq!(part.to_vec().unwrap(), expected);
    part.fill(-1).unwrap();
    assert_eq!(x.to_vec().unwrap().iter().filter(|v| **v == -1).count(), 12);
    part.copy_from(&expected).unwrap();
    assert_eq!(x.to_vec().unwrap(), values);
    assert!(x.window([2..2, 0..8]).unwrap().to_vec().unwrap().is_empty());
}

#[test]
fn trees_far_larger_than_they_are_touched() {
    // More than there is memory for, which has to be asked for.
    let wide = World::builder().interpreter().memory_limit(1 << 40);
    let w = wide.build().unwrap();
    let x = w.field::<f32, 2>("x", [1 << 20, 1 << 14]).unwrap();
    assert_eq!(x.len().unwrap(), 1 << 34);
    x.set([(1 << 20) - 1, (1 << 14) - 1], 4.0).unwrap();
    x.set([1 << 19, 3], 5.0).unwrap();
    assert_eq!(x.get([(1 << 20) - 1, (1 << 14) - 1]).unwrap(), 4.0);
    assert_eq!(x.get([1 << 19, 3]).unwrap(), 5.0);
    assert_eq!(x.get([77, 77]).unwrap(), 0.0);
    assert_eq!(w.memory_used(), 1 << 36);
}

#[test]
fn memory_goes_with_the_last_field_of_a_tree() {
    let w = world();
    let (a, b) = w
        .layout(|root| {
            let cell = root.dense(I, 1000);
            (cell.place::<f32, 1>("a"), cell.place::<f32, 1>("b"))
        })
        .unwrap();
    assert_eq!(w.memory_used(), 8000);
    let again = b.clone();
    drop((a, b));
    assert_eq!(w.memory_used(), 8000);
    drop(again);
    assert_eq!(w.memory_used(), 0);
}

#[test]
fn worlds_share_nothing() {
    let (v, w) = (world(), world());
    let x = v.field::<f32, 1>("x", [10]).unwrap();
    assert_eq!((v.memory_used(), w.memory_used()), (40, 0));
    drop(v);
    x.set(3, 1.0).unwrap();
    assert_eq!(x.world().memory_used(), 40);
    assert_ne!(x.world(), &w);
}

#[test]
fn equal_structures_are_one_shape() {
    let w = world();
    let a = w.field::<f32, 2>("a", [4, 5]).unwrap();
    let b = w.field::<f32, 2>("b", [4, 5]).unwrap();
    let c = w.field::<f32, 2>("c", [5, 4]).unwrap();
    let d = w.field::<i32, 2>("d", [4, 5]).unwrap();
    let shape = |tree: crate::Tree| std::sync::Arc::as_ptr(&tree.inner.body().unwrap().shape);
    assert_eq!(shape(a.tree()), shape(b.tree()));
    assert_ne!(shape(a.tree()), shape(c.tree()));
    assert_ne!(shape(a.tree()), shape(d.tree()));
}

#[test]
fn handles_travel() {
    fn travels<T: Send + Sync + Clone>() {}
    travels::<World>();
    travels::<Field<f32, 2>>();
    travels::<crate::Tree>();
}

/// The message without its position, which moves with every edit of this file.
fn message<T: std::fmt::Debug>(result: crate::Result<T>, expected: Expect) {
    let mut error: Error = result.unwrap_err();
    assert!(
        error
            .at
            .take()
            .is_none_or(|at| at.file.ends_with("tests.rs"))
    );
    expected.assert_eq(&error.to_string());
}

#[test]
fn what_is_wrong_with_a_layout() {
    let w = world();
    message(
        w.field::<f32, 2>("x", [4, 0]),
        expect![[r#"
            error[W0101]: axis `j` has extent 0
              = help: an extent is at least 1"#]],
    );
    message(
        w.layout(|root| root.dense(I, -3).place::<f32, 1>("x")),
        expect![[r#"
            error[W0101]: axis `i` has extent -3
              = help: an extent is at least 1"#]],
    );
    message(
        w.layout(|root| root.dense([I, J, I], 3).place::<f32, 2>("x")),
        expect![[r#"
            error[W0102]: a dense node splits axis `i` twice
              = help: split it again in a node below this one"#]],
    );
    message(
        w.layout(|root| root.dense(IJ, [1, 2, 3]).place::<f32, 2>("x")),
        expect![[r#"
            error[W0102]: 2 axes have 3 extents
              = help: give one extent for each axis, or one number for all of them"#]],
    );
    message(
        w.layout(|root| root.dense(IJ, 8).place::<f32, 3>("x")),
        expect![[r#"
            error[W0103]: field `x` has rank 3, but 2 axes (`i`, `j`) are split above it
              = help: place it as a field of rank 2"#]],
    );
    message(
        w.layout(|root| root.place::<f32, 1>("x")),
        expect![[r#"
            error[W0103]: field `x` has rank 1, but no axis is split above it
              = help: place it as a field of rank 0"#]],
    );
    message(
        w.field::<f32, 9>("x", [1; 9]),
        expect![[r#"
            error[W0103]: field `x` has rank 9
              = help: a field has at most 8 indices"#]],
    );
    message(
        w.layout(|root| root.dense(I, 8).offset([1, 2]).place::<f32, 1>("x")),
        expect![[r#"
            error[W0104]: field `x` of rank 1 has an offset of 2 numbers
              = help: give one number for each index"#]],
    );
    message(
        w.layout(|root| root.dense(I, 8).offset([i64::MAX - 3]).place::<f32, 1>("x")),
        expect!["error[W0104]: the coordinates of field `x` along axis `i` do not fit in 64 bits"],
    );
    message(
        w.layout(|_| ()),
        expect![[r#"
            error[W0105]: the layout places no field
              = help: use `place`"#]],
    );
    message(
        w.layout(|root| {
            root.dense(I, 8);
            root.place::<f32, 0>("x")
        }),
        expect![[r#"
            error[W0105]: the dense node over `i` holds nothing
              = help: place a field in its cells, or leave the node out"#]],
    );
    message(
        w.field::<u8, 3>("x", [u64::MAX, u64::MAX, 2u64]),
        expect![[r#"
            error[W0106]: the layout is larger than 2^62 bytes
              = help: make the extents smaller"#]],
    );
    assert_eq!(
        w.field::<u8, 1>("x", [1u64 << 60]).unwrap_err().code,
        "W0110"
    );
    assert_eq!(w.memory_used(), 0);
}

#[test]
fn what_is_wrong_with_an_access() {
    let w = world();
    let x = w
        .layout(|root| root.dense(IJ, [4, 6]).offset([-2, 0]).place::<f32, 2>("x"))
        .unwrap();
    message(
        x.get([2, 0]),
        expect![[r#"
            error[W0111]: field `x` has no element [2, 0]
              = note: its elements are [-2..2, 0..6]"#]],
    );
    message(
        x.set([usize::MAX, 0], 1.0),
        expect![[r#"
            error[W0111]: field `x` has no element [9223372036854775807, 0]
              = note: its elements are [-2..2, 0..6]"#]],
    );
    message(
        x.window([0..3, 0..6]),
        expect![[r#"
            error[W0111]: field `x` has no window [0..3, 0..6]
              = note: its elements are [-2..2, 0..6]"#]],
    );
    message(
        x.copy_from(&[1.0; 23]),
        expect![[r#"
            error[W0112]: 23 values for 24 elements of field `x`
              = help: give one value for each element, row by row"#]],
    );
    let mut kept = None;
    let failed = w.layout(|root| {
        kept = Some(root.place::<f32, 0>("s"));
        root.dense(I, 0);
    });
    assert!(failed.is_err());
    message(
        kept.unwrap().get(()),
        expect![[r#"
            error[W0113]: this field belongs to a layout that is not complete
              = note: `layout` returned an error, or has not returned yet
              = help: use the fields that `layout` returns"#]],
    );
}

#[test]
fn what_is_wrong_with_a_world() {
    message(
        World::builder().threads(0).build(),
        expect![[r#"
            error[W0115]: a world needs at least one thread
              = help: leave the number out to use all cores"#]],
    );
    message(
        World::builder().threads(1_000_000).build(),
        expect!["error[W0115]: 1000000 threads are more than the 1024 a world can have"],
    );
}

#[test]
fn axes_beyond_eight_are_kept_long_enough_to_be_refused() {
    let nine = Axes::from([IJKLMNOP, I]);
    assert_eq!(nine.count(), 9);
    assert_eq!(nine.list().len(), 9);
    assert_eq!(nine.list()[8], Axis::new(0).unwrap());
}

/// Bytes of this process that are in memory.
#[cfg(target_os = "linux")]
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: i64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[cfg(target_os = "linux")]
#[test]
fn dropping_a_tree_gives_its_pages_back() {
    const SIZE: i64 = 256 << 20;
    let w = world();
    let before = resident();
    let x = w.field::<u8, 1>("x", [SIZE as u64]).unwrap();
    assert!(resident() - before < SIZE / 2, "reserved, not touched");
    x.fill(1).unwrap();
    assert!(resident() - before > SIZE / 2, "touched");
    drop(x);
    assert!(resident() - before < SIZE / 2, "dropped");
    assert_eq!(w.memory_used(), 0);
}

#[derive(Copy, Clone, Debug)]
struct Nothing;

impl Element for Nothing {
    const SIZE: usize = 0;
    const ALIGN: usize = 1;
    const SCALARS: usize = 0;

    fn ir_type(structs: &mut Structs) -> wuji_ir::types::Type {
        let ty = wuji_ir::types::StructType {
            name: "Nothing".into(),
            fields: Vec::new(),
        };
        wuji_ir::types::Type::Struct(structs.intern(ty))
    }

    fn zero() -> Nothing {
        Nothing
    }

    fn read(_: &[u8]) -> Nothing {
        Nothing
    }

    fn write(self, _: &mut [u8]) {}

    fn to_slots(self, _: &mut [u64]) {}

    fn from_slots(_: &[u64]) -> Nothing {
        Nothing
    }
}

#[test]
fn elements_have_a_size() {
    message(
        world().field::<Nothing, 1>("x", [1u64 << 63]),
        expect![[r#"
            error[W0107]: field `x` has elements without a size
              = help: give the element type a field; the cells of a node are `cells`"#]],
    );
}
