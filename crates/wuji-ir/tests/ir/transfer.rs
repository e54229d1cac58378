//! Elements of fields, to and from arrays.

use wuji_ir::entities::{Field, Tree};
use wuji_ir::interp::{Config, Machine};
use wuji_ir::text::parse;
use wuji_ir::transfer::{arrays, export, import};
use wuji_ir::types::{Imm, Scalar};

const TREE: &str = r#"
    struct s0 "nothing" { }
    struct s1 "pair" { a: f32, b: i32 }
    tree T0 {
      pointer S1 [i: 8, j: 4] { place f0, f1 }
      place f2
    }
    field f0 "x": s1 in T0.S1 (i from -4, j)
    field f1 "cells": s0 in T0.S1 (i, j)
    field f2 "one": i32 in T0.S0 ()
    "#;

#[test]
fn exported_elements_can_be_imported() {
    let m = parse(TREE, "tree.wir").unwrap();
    let [x, cells, one] = [0, 1, 2].map(Field::from_u32);
    let long = |n: i64| Imm::int(Scalar::I64, i128::from(n));
    let pair = |a: f64, b: i32| [Imm::float(Scalar::F32, a), Imm::int(Scalar::I32, b.into())];

    let into = import(&m, &[x, cells]);
    let mut machine = Machine::new(&into, Config::default()).unwrap();
    let at: Vec<Imm> = [-4, 3, 0, 1].map(long).to_vec();
    machine.bind_values(arrays(0)[0], &[2, 2], &at).unwrap();
    let values = [pair(1.5, 7), pair(-2.0, 8)].concat();
    machine.bind_values(arrays(0)[1], &[2], &values).unwrap();
    let at: Vec<Imm> = [7, 0].map(long).to_vec();
    machine.bind_values(arrays(1)[0], &[1, 2], &at).unwrap();
    assert!(machine.run(&[]).unwrap().reports.is_empty());
    let active = vec![vec![-4, 3], vec![0, 1], vec![3, 0]];
    assert_eq!(machine.active(x), Ok(active));
    let state = machine.take_tree(Tree::from_u32(0));

    let from = export(&m, &[one, x]);
    let mut machine = Machine::new(&from, Config::default()).unwrap();
    machine.put_tree(Tree::from_u32(0), state).unwrap();
    // Room for two of three elements.
    for (k, rank) in [0, 2].into_iter().enumerate() {
        let rows = vec![long(0); 2 * rank];
        machine
            .bind_values(arrays(k)[0], &[2, rank as i64], &rows)
            .unwrap();
        machine.bind_values(arrays(k)[2], &[1], &[long(0)]).unwrap();
    }
    machine
        .bind_values(arrays(1)[1], &[2], &[pair(0.0, 0); 2].concat())
        .unwrap();
    let zeros = vec![Imm::zero(Scalar::I32); 2];
    machine.bind_values(arrays(0)[1], &[2], &zeros).unwrap();
    assert!(machine.run(&[]).unwrap().reports.is_empty());
    assert_eq!(machine.array(arrays(0)[2]), [long(1)]);
    assert_eq!(machine.array(arrays(1)[2]), [long(3)]);
    assert_eq!(machine.array(arrays(1)[0]), [-4, 3, 0, 1].map(long));
    assert_eq!(
        machine.array(arrays(1)[1]),
        [pair(1.5, 7), pair(-2.0, 8)].concat()
    );
}
