//! Programs: fields, sparse matrices, blocks, reductions.

use crate::{Random, assert_close, interpreter, world};
use wuji_symbolic::{Csr, Options, Program, Real, Sym, Trace};

/// The Laplacian of a grid.
pub(crate) fn grid_laplacian(n: usize) -> Csr<f64> {
    let mut triplets = Vec::new();
    for i in 0..n {
        for j in 0..n {
            let here = i * n + j;
            let right = (j + 1 < n).then_some(here + 1);
            let below = (i + 1 < n).then_some(here + n);
            for other in [right, below].into_iter().flatten() {
                let weight = 1.0 + (here % 7) as f64;
                triplets.extend([(here, here, weight), (other, other, weight)]);
                triplets.extend([(here, other, -weight), (other, here, -weight)]);
            }
        }
    }
    Csr::from_triplets(n * n, n * n, &triplets).unwrap()
}

/// The Laplacian of a grid of triangles, whose diagonals have random directions.
pub(crate) fn mesh_laplacian(n: usize) -> Csr<f64> {
    let mut random = Random(17);
    let mut triplets = grid_laplacian(n).triplets();
    for i in 1..n {
        for j in 1..n {
            let corners = [
                (i - 1) * n + j - 1,
                i * n + j,
                (i - 1) * n + j,
                i * n + j - 1,
            ];
            let (a, b) = match random.below(2) {
                0 => (corners[0], corners[1]),
                _ => (corners[2], corners[3]),
            };
            triplets.extend([(a, b, -1.5), (b, a, -1.5), (a, a, 1.5), (b, b, 1.5)]);
        }
    }
    Csr::from_triplets(n * n, n * n, &triplets).unwrap()
}

#[test]
fn a_program_runs_on_fields_and_in_place() {
    let world = world();
    let x = world.field::<f32, 1>("x", 100).unwrap();
    let numbers: Vec<f32> = (0..100).map(|n| n as f32).collect();
    x.copy_from(&numbers).unwrap();
    let program = Program::trace(&world, &x, |x| {
        x.windows(2)
            .map(|w| w[1] * w[1] - w[0])
            .collect::<Vec<Sym>>()
    })
    .unwrap();
    let expected: Vec<f32> = numbers.windows(2).map(|w| w[1] * w[1] - w[0]).collect();
    assert_eq!(program.run(&x).unwrap(), expected);
    assert_eq!(program.run(&numbers).unwrap(), expected);
    program.input(0).unwrap().fill(2.0).unwrap();
    program.launch().unwrap();
    assert_eq!(program.output(0).unwrap().to_vec().unwrap(), [2.0; 99]);
    assert!(program.input(1).is_none() && program.output(1).is_none());
}

#[test]
fn outputs_may_be_inputs_constants_and_each_other() {
    let world = interpreter();
    let x = [3.0, 4.0];
    let program = Program::trace(&world, &x[..], |x| {
        let sum = x[0] * x[1] + x[0] * 2.0 + 1.0;
        (
            vec![x[1], sum, Sym::new(7.0), sum, sum * sum],
            sum,
            Vec::<Sym>::new(),
        )
    })
    .unwrap();
    let (all, one, none) = program.run(&x[..]).unwrap();
    assert_eq!(all, [4.0, 19.0, 7.0, 19.0, 361.0]);
    assert_eq!((one, none.len()), (19.0, 0));
}

#[test]
fn a_value_that_is_several_outputs_is_computed_and_stored_in_one_loop() {
    let world = interpreter();
    let x = [2.0, 3.0, 4.0];
    let program = Program::trace(&world, &x[..], |x| {
        let weights = [x[0] * x[1], x[1] * x[2]];
        vec![weights[0], weights[1], weights[1], weights[0]]
    })
    .unwrap();
    assert_eq!(program.run(&x[..]).unwrap(), [6.0, 12.0, 12.0, 6.0]);
    assert_eq!(program.explain().groups.len(), 1);
}

#[test]
fn a_program_without_inputs_or_outputs_runs() {
    let world = interpreter();
    let empty: [f64; 0] = [];
    let program = Program::trace(&world, &empty[..], |_| Vec::<Sym>::new()).unwrap();
    assert!(program.run(&empty[..]).unwrap().is_empty());
}

#[test]
fn a_long_sum_is_a_few_groups() {
    let world = interpreter();
    let mut random = Random(3);
    let x = random.numbers(5000);
    let program = Program::trace(&world, &x, |x| x.iter().map(|x| *x * *x).sum::<Sym>()).unwrap();
    let expected: f64 = x.iter().map(|x| x * x).sum();
    assert_close(&[program.run(&x).unwrap()], &[expected]);
    assert!(program.explain().groups.len() < 12, "{}", program.explain());
}

fn rotation<T: Real>(x: T, y: T, tag: bool) -> [T; 2] {
    let length = (x * x + y * y).sqrt();
    let both = [x / length + y, y / length - x];
    if tag {
        T::block(&both);
    }
    both
}

#[test]
fn tagged_values_are_computed_together() {
    let world = interpreter();
    let mut random = Random(4);
    let x = random.numbers(64);
    let pairs = |x: &[Sym], tag: bool| -> Vec<Sym> {
        x.chunks(2)
            .flat_map(|p| rotation(p[0], p[1], tag))
            .collect()
    };
    let plain = Program::trace(&world, &x, |x| pairs(&x, false)).unwrap();
    let tagged = Program::trace(&world, &x, |x| pairs(&x, true)).unwrap();
    let expected: Vec<f64> = x
        .chunks(2)
        .flat_map(|p| rotation(p[0], p[1], false))
        .collect();
    assert_close(&plain.run(&x).unwrap(), &expected);
    assert_close(&tagged.run(&x).unwrap(), &expected);
    assert_eq!(plain.explain().intermediates, 32);
    assert_eq!(tagged.explain().intermediates, 0);
    assert_eq!(tagged.explain().groups.len(), 1);
}

#[test]
fn blocks_that_depend_on_each_other_are_ignored() {
    let world = interpreter();
    let x = [0.5, 0.25];
    let compute = |x: Vec<Sym>| {
        let p = (x[0] * x[1] + x[0]).sqrt();
        let c2 = (x[1] + x[0] * x[0]).sqrt();
        let c1 = (p * x[1] + x[0]).exp();
        let p2 = (c2 * x[0] + x[1]).exp();
        wuji_symbolic::block(&[p, p2]);
        wuji_symbolic::block(&[c1, c2]);
        vec![c1, p2, c1 * p2 + p + c2]
    };
    let program = Program::trace(&world, &x[..], compute).unwrap();
    let expected = Trace::record(&[2], |x| vec![compute(x[0].clone())]).unwrap();
    let expected = expected.evaluate(&[&x]).unwrap();
    assert_close(&program.run(&x[..]).unwrap(), &expected[0]);
    assert!(program.explain().dissolved_blocks > 0);
}

#[test]
fn affine_positions_need_no_table() {
    let world = interpreter();
    let x = vec![1.0f64; 300];
    let compute = |x: Vec<Sym>| -> Vec<Sym> { x.chunks(3).map(|p| p[0] * p[1] + p[2]).collect() };
    let program = Program::trace(&world, &x, compute).unwrap();
    assert_eq!(program.explain().index_bytes, 0);
    let options = Options {
        coalesce: false,
        ..Options::default()
    };
    let program = Program::trace_with(&world, &options, &x, compute).unwrap();
    assert_eq!(program.explain().index_bytes, 100 * 4 * 4);
    assert_eq!(program.run(&x).unwrap(), vec![2.0; 100]);
}

#[test]
fn constants_that_differ_are_a_table() {
    let world = interpreter();
    let x = [2.0f64; 4];
    let program = Program::trace(&world, &x[..], |x| {
        let scaled = x.iter().zip([0.5, 1.5, 2.5, 3.5]);
        scaled.map(|(x, c)| *x * c + 3.0).collect::<Vec<Sym>>()
    })
    .unwrap();
    assert_eq!(program.run(&x[..]).unwrap(), [4.0, 6.0, 8.0, 10.0]);
    let explained = program.explain();
    assert_eq!((explained.groups.len(), explained.constant_bytes), (1, 32));
}

#[test]
fn matrices_by_columns_are_inputs_and_outputs() {
    let world = interpreter();
    let a = grid_laplacian(3).to_csc();
    let program = Program::trace(&world, &a, |a| {
        let rows = a.to_csr();
        rows.mul(&rows).map(|m| m.to_csc())
    })
    .unwrap();
    let expected = a.to_csr().mul(&a.to_csr()).unwrap().to_csc();
    let found = program.run(&a).unwrap();
    assert_eq!(found.indices(), expected.indices());
    assert_close(found.values(), expected.values());
}

#[test]
fn a_sum_of_products_with_transposes_agrees() {
    let world = world();
    let l = grid_laplacian(5);
    let mut random = Random(8);
    let diagonal: Vec<_> = (0..25).map(|i| (i, i, random.number())).collect();
    let m = Csr::from_triplets(25, 25, &diagonal).unwrap();
    let k = crate::random::sparse(&mut random, 25, 25, 3);
    let program = Program::trace(&world, (&l, &m, &k), |(l, m, k)| {
        l.mul(&m)?.mul(&l.transpose())?.add(&k)
    })
    .unwrap();
    let expected = l
        .mul(&m)
        .and_then(|lm| lm.mul(&l.transpose()))
        .and_then(|x| x.add(&k))
        .unwrap();
    assert_close(
        program.run((&l, &m, &k)).unwrap().values(),
        expected.values(),
    );
}

#[test]
fn threads_run_one_program() {
    let world = interpreter();
    let program = Program::trace(&world, &[0.0; 8][..], |x| {
        x.iter().map(|x| *x * 2.0 + 1.0).collect::<Vec<Sym>>()
    })
    .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let program = &program;
            scope.spawn(move || {
                for n in 0..20 {
                    let x = [f64::from(thread * 100 + n); 8];
                    assert_eq!(program.run(&x[..]).unwrap(), x.map(|x| 2.0 * x + 1.0));
                }
            });
        }
    });
}

#[test]
fn sums_are_left_alone_where_cancellation_matters() {
    let world = interpreter();
    let mut options = Options {
        merge_chains: false,
        ..Options::default()
    };
    let compute = |x: Vec<Sym>| vec![x[0] + x[1] - x[0], x[0] * 2.0 + x[1] - x[0] * 2.0];
    let x = [1e20, 1.0];
    let program = Program::trace_with(&world, &options, &x[..], compute).unwrap();
    assert_eq!(program.run(&x[..]).unwrap(), [1.0, 1.0]);
    options.simplify.sums = false;
    let program = Program::trace_with(&world, &options, &x[..], compute).unwrap();
    assert_eq!(program.run(&x[..]).unwrap(), [0.0, 0.0]);
}
