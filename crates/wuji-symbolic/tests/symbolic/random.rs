//! Random expressions and sparse products, in all combinations of stages.

use crate::{Random, assert_close, interpreter, world};
use wuji_symbolic::{Csr, Options, Program, Real, Simplify, Trace};

/// Random expressions of inputs and of each other, most of them with the same few structures.
fn expressions<T: Real>(seed: u64, x: &[T], count: usize) -> Vec<T> {
    let mut random = Random(seed | 1);
    let mut values = x.to_vec();
    for _ in 0..count {
        let pick = |random: &mut Random| values[random.below(values.len())];
        let (a, b, c) = (pick(&mut random), pick(&mut random), pick(&mut random));
        let one = T::from_f64(1.0);
        let value = match random.below(14) {
            0 => a * b + c,
            1 => a * b + b * c + a * c,
            2 => (a - b) / (b.abs() + one),
            3 => (a * a + b * b).sqrt(),
            4 => a / (a.abs() + b.abs() + one),
            5 => T::select(a.less(b) & !b.less_equal(c), a, c),
            6 => a.min(b) + b.max(c),
            7 => (a * T::from_f64(0.25)).sin() * T::from_f64(random.number()),
            8 => -(a - b) * c / (c * c + one),
            9 => T::from_f64(2.0) * (a + b) - a - b,
            10 => (a * T::from_f64(0.1)).tanh().exp(),
            11 => a.floor() * T::from_f64(0.5) + b.abs().sqrt(),
            12 => (a + b + c + one).powi(2) / (a * a + one),
            _ => a.atan2(b.abs() + one) + (c.abs() + one).ln(),
        };
        // Numbers stay small.
        values.push(value / (value.abs() + one));
    }
    values.split_off(x.len())
}

fn every_switch() -> Vec<Options> {
    let all = Options::default();
    let none = Options::none();
    let with = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        options
    };
    vec![
        all,
        none,
        with(|o| o.merge_chains = false),
        with(|o| o.global_decomposition = false),
        with(|o| o.simplify = Simplify::none()),
        with(|o| o.local_decomposition = false),
        with(|o| o.sort_members = false),
        with(|o| o.coalesce = false),
        with(|o| o.detect_blocks = true),
        with(|o| (o.detect_blocks, o.min_complexity) = (true, 1)),
        with(|o| o.min_complexity = 1),
        with(|o| o.max_complexity = 20),
        with(|o| o.hash_mask = 3),
    ]
}

#[test]
fn random_expressions_agree_with_direct_evaluation_whatever_stages_run() {
    let world = interpreter();
    for seed in 1..6u64 {
        let mut random = Random(seed * 77 + 1);
        let x = random.numbers(8);
        let expected = expressions(seed, &x, 24);
        for mut options in every_switch() {
            options.max_groups = 10_000;
            let program = Program::trace_with(&world, &options, &x, |x| expressions(seed, &x, 24));
            let found = program.and_then(|p| p.run(&x)).unwrap();
            assert_close(&found, &expected);
        }
    }
}

/// Values of a block may use each other, directly or through values outside of it.
#[test]
fn random_blocks_agree_with_direct_evaluation() {
    let world = interpreter();
    let (mut kept, mut dissolved) = (0, 0);
    for seed in 1..20u64 {
        let mut random = Random(seed * 31 + 5);
        let x = random.numbers(6);
        let expected = expressions(seed, &x, 20);
        for detect_blocks in [false, true] {
            let options = Options {
                detect_blocks,
                max_groups: 10_000,
                ..Options::default()
            };
            let mut random = Random(seed);
            let program = Program::trace_with(&world, &options, &x, |x| {
                let values = expressions(seed, &x, 20);
                for _ in 0..3 {
                    let first = random.below(14);
                    wuji_symbolic::block(&[values[first], values[first + 2], values[first + 5]]);
                }
                values
            });
            let program = program.unwrap();
            assert_close(&program.run(&x).unwrap(), &expected);
            let ignored = program.explain().dissolved_blocks;
            (kept, dissolved) = (kept + 3 - ignored, dissolved + ignored);
        }
    }
    assert!(
        kept > 20 && dissolved > 10,
        "{kept} kept, {dissolved} dissolved"
    );
}

#[test]
fn compiled_random_expressions_agree_with_direct_evaluation() {
    let world = world();
    let mut random = Random(5);
    let (x, y) = (random.numbers(6), random.numbers(6));
    let program = Program::trace(&world, &x, |x| expressions(3, &x, 30)).unwrap();
    for numbers in [x, y] {
        assert_close(
            &program.run(&numbers).unwrap(),
            &expressions(3, &numbers, 30),
        );
    }
}

pub(crate) fn sparse(random: &mut Random, rows: usize, columns: usize, per_row: usize) -> Csr<f64> {
    let mut triplets = Vec::new();
    for row in 0..rows {
        for _ in 0..per_row {
            triplets.push((row, random.below(columns), random.number()));
        }
    }
    Csr::from_triplets(rows, columns, &triplets).unwrap()
}

#[test]
fn random_sparse_products_agree_with_direct_evaluation() {
    let world = world();
    let mut random = Random(9);
    let (a, b) = (
        sparse(&mut random, 40, 30, 4),
        sparse(&mut random, 30, 20, 3),
    );
    let c = sparse(&mut random, 40, 20, 2);
    let program = Program::trace(&world, (&a, &b, &c), |(a, b, c)| a.mul(&b)?.add(&c)).unwrap();
    for _ in 0..2 {
        let (a, b) = (a.map(|x| x * random_sign()), b.map(|x| x + 0.25));
        let expected = a.mul(&b).unwrap().add(&c).unwrap();
        let found = program.run((&a, &b, &c)).unwrap();
        assert_eq!(found.indices(), expected.indices());
        assert_eq!(found.starts(), expected.starts());
        assert_close(found.values(), expected.values());
    }
}

fn random_sign() -> f64 {
    -1.5
}

#[test]
fn powers_of_a_laplacian_have_few_groups() {
    let world = interpreter();
    let a = crate::programs::mesh_laplacian(7);
    let program = Program::trace(&world, &a, |a| a.mul(&a)?.mul(&a)?.mul(&a)).unwrap();
    let expected = a.mul(&a).unwrap().mul(&a).unwrap().mul(&a).unwrap();
    assert_close(program.run(&a).unwrap().values(), expected.values());
    let without = Options {
        global_decomposition: false,
        ..Options::default()
    };
    let trace = Trace::record(&[a.values().len()], |x| {
        let a = a.with_values(x[0].clone()).unwrap();
        vec![a.mul(&a).unwrap().mul(&a).unwrap().values().to_vec()]
    })
    .unwrap();
    let groups = |options: &Options| {
        wuji_symbolic::pipeline::analyze(&trace, options)
            .unwrap()
            .groups
            .len()
    };
    let (few, many) = (groups(&Options::default()), groups(&without));
    assert!(few * 2 < many, "{few} groups instead of {many}");
}
