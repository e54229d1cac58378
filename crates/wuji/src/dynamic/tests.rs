use super::*;
use crate::dynamic;
use crate::prelude::*;
use wuji_ir::types::Type;

/// A tree of one field `x` of `f32x2`, 4 by 6, with blocks of a kind.
fn blocks(world: &World, kind: NodeKind, offset: Option<&[i64]>) -> dynamic::Field {
    let mut layout = Layout::new(world);
    let outer = layout.node(0, kind, &[1, 0], &[3, 2]).unwrap();
    let inner = layout.dense(outer, &[0, 1], &[2, 2]).unwrap();
    let ty = Type::Vector(Scalar::F32, 2);
    let number = layout.place(inner, "x", ty, offset).unwrap();
    dynamic::Field::of(&layout.finish().unwrap(), number).unwrap()
}

fn bits(numbers: &[f32]) -> Vec<u64> {
    numbers.iter().map(|x| u64::from(x.to_bits())).collect()
}

#[test]
fn elements_by_slots_and_bytes() {
    let world = World::builder().threads(2).build().unwrap();
    for kind in [
        NodeKind::Dense,
        NodeKind::Pointer,
        NodeKind::Bitmasked,
        NodeKind::Hash,
    ] {
        let x = blocks(&world, kind, Some(&[-2, 10]));
        assert_eq!(x.domain().unwrap(), [(-2, 4), (10, 6)]);
        assert_eq!(x.ty().to_string(), "f32x2");
        x.set(&[1, 15], &bits(&[1.0, 2.0])).unwrap();
        x.set_part(&[-2, 10], 1, bits(&[3.0])[0]).unwrap();
        assert_eq!(x.get(&[1, 15]).unwrap()[..], bits(&[1.0, 2.0]));
        assert_eq!(x.get_part(&[-2, 10], 1).unwrap(), bits(&[3.0])[0]);
        let mut bytes = Vec::new();
        x.read(|piece| bytes.extend_from_slice(piece)).unwrap();
        assert_eq!(bytes.len() as u64, x.bytes().unwrap());
        assert_eq!(bytes[4..8], 3f32.to_ne_bytes());
        assert_eq!(
            bytes[184..],
            [1f32.to_ne_bytes(), 2f32.to_ne_bytes()].concat()
        );
        let other = blocks(&world, kind, None);
        let mut rest = &bytes[..];
        let write = |piece: &mut [u8]| {
            let (now, later) = rest.split_at(piece.len());
            piece.copy_from_slice(now);
            rest = later;
        };
        other.write(write).unwrap();
        assert_eq!(other.get(&[3, 5]).unwrap()[..], bits(&[1.0, 2.0]));
        x.fill(&bits(&[7.0, 8.0])).unwrap();
        assert_eq!(x.get(&[1, 15]).unwrap()[..], bits(&[7.0, 8.0]));
        other.copy_from(&x).unwrap();
        assert_eq!(other.get(&[3, 5]).unwrap()[..], bits(&[7.0, 8.0]));
    }
}

#[test]
fn wrong_use_is_told() {
    let world = World::interpreter().unwrap();
    let x = blocks(&world, NodeKind::Dense, None);
    let code = |result: Result<()>| result.unwrap_err().code;
    assert_eq!(code(x.get(&[1]).map(|_| ())), "W0111");
    assert_eq!(code(x.get(&[4, 0]).map(|_| ())), "W0111");
    assert_eq!(code(x.set(&[0, 0], &[0])), "W0112");
    assert_eq!(code(x.get_part(&[0, 0], 2).map(|_| ())), "W0111");
    assert_eq!(code(x.append(&[0], &[0, 0]).map(|_| ())), "W0126");
    assert_eq!(code(x.deactivate(&[0, 0])), "W0125");
    let tree = x.tree();
    assert_eq!(code(dynamic::Field::of(&tree, 1).map(|_| ())), "W0111");
    let kernel =
        |module: Module| Kernel::load(&world, module, std::slice::from_ref(&tree)).map(|_| ());
    assert_eq!(code(kernel(Module::default())), "W0118");
    let mut module = Module::default();
    enter(&mut module, &blocks(&world, NodeKind::Pointer, None).tree()).unwrap();
    assert_eq!(code(kernel(module)), "W0118");
    tree.destroy();
    assert_eq!(code(x.fill(&[0, 0])), "W0131");
    world.close();
    assert_eq!(code(x.fill(&[0, 0])), "W0132");
    assert_eq!(code(kernel(Module::default())), "W0118");
}

#[test]
fn cells_are_numbered_from_zero() {
    let world = World::builder().threads(2).build().unwrap();
    let mut layout = Layout::new(&world);
    let outer = layout.node(0, NodeKind::Pointer, &[0], &[4]).unwrap();
    let inner = layout.dense(outer, &[0], &[4]).unwrap();
    let ty = Type::Scalar(Scalar::F32);
    // An offset in the middle of a cell.
    layout.place(inner, "x", ty, Some(&[-6])).unwrap();
    let cells = layout.cells(outer, "cells").unwrap();
    let cells = dynamic::Field::of(&layout.finish().unwrap(), cells).unwrap();
    assert_eq!(cells.domain().unwrap(), [(0, 4)]);
}
