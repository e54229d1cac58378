//! Every operation and every kind of table on the interpreter and on compiled code; `WUJI_TEST_BACKEND=cuda` selects the first GPU.

use crate::operations::every;
use crate::{Random, interpreter, world};
use wuji::World;
use wuji_symbolic::{Csr, Number, Options, Program, Real, Sym, Trace};

fn worlds() -> [World; 2] {
    [world(), interpreter()]
}

fn all_operations<T: Number + Into<f64>>(tolerance: f64) {
    let mut random = Random(71);
    let numbers = random.numbers(40);
    let of = |x: &[Sym]| -> Vec<Sym> {
        let pairs = x.chunks(2);
        pairs
            .flat_map(|p| [every(p), vec![p[0] % p[1]]].concat())
            .collect()
    };
    let trace = Trace::record(&[40], |x| vec![of(&x[0])]).unwrap();
    let inputs: Vec<T> = numbers.iter().map(|x| T::from_f64(*x)).collect();
    let rounded: Vec<f64> = inputs.iter().map(|x| (*x).into()).collect();
    let expected = trace.evaluate(&[&rounded]).unwrap().concat();
    for (number, world) in worlds().iter().enumerate() {
        for options in [Options::default(), Options::none()] {
            let program = Program::trace_with(world, &options, &inputs, |x| of(&x)).unwrap();
            let found = program.run(&inputs).unwrap();
            assert_eq!(found.len(), expected.len());
            for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let found: f64 = (*found).into();
                assert!(
                    (found - expected).abs() <= tolerance * expected.abs().max(1.0),
                    "output {n} in world {number}: {found} instead of {expected}"
                );
            }
        }
    }
}

#[test]
fn every_operation_agrees_in_f64() {
    all_operations::<f64>(1e-12);
}

#[test]
fn every_operation_agrees_in_f32() {
    all_operations::<f32>(2e-5);
}

/// Inputs from fields, tables of indices and constants, intermediates, several levels, blocks, outputs that are inputs.
#[test]
fn memory_is_that_of_the_world() {
    let a = crate::programs::mesh_laplacian(8);
    let mut random = Random(72);
    let weights = random.numbers(64);
    for world in worlds() {
        let field = world.field::<f64, 1>("weights", 64).unwrap();
        field.copy_from(&weights).unwrap();
        let compute = |a: &Csr<Sym>, w: &[Sym]| {
            let squared = a.mul(a)?;
            let rows = (0..64).map(|r| squared.row(r).map(|(c, v)| *v * w[c]).sum::<Sym>());
            let rows: Vec<Sym> = rows.collect();
            let scaled: Vec<Sym> = (rows.chunks(2).enumerate())
                .flat_map(|(n, pair)| {
                    let length = (pair[0] * pair[0] + pair[1] * pair[1]).sqrt();
                    let both = [pair[0] / length + 0.1 * n as f64, pair[1] / length];
                    Sym::block(&both);
                    both
                })
                .collect();
            wuji::Result::Ok((squared, scaled, rows.iter().sum::<Sym>(), w.to_vec()))
        };
        let program = Program::trace(&world, (&a, &field), |(a, w)| compute(&a, &w)).unwrap();
        let (squared, scaled, sum, same) = program.run((&a, &field)).unwrap();
        let trace = Trace::record(&[a.values().len(), 64], |x| {
            let a = a.with_values(x[0].clone()).unwrap();
            let (squared, scaled, sum, same) = compute(&a, &x[1]).unwrap();
            vec![squared.values().to_vec(), scaled, vec![sum], same]
        });
        let expected = trace.unwrap().evaluate(&[a.values(), &weights]).unwrap();
        crate::assert_close(squared.values(), &expected[0]);
        crate::assert_close(&scaled, &expected[1]);
        crate::assert_close(&[sum], &expected[2]);
        crate::assert_close(&same, &expected[3]);
        // Kernels and other programs can write to the input in place.
        let (entries, result) = (program.input(0).unwrap(), program.output(0).unwrap());
        entries.fill(0.0).unwrap();
        program.launch().unwrap();
        assert!(result.to_vec().unwrap().iter().all(|x| *x == 0.0));
    }
}

#[test]
fn a_field_of_another_world_is_copied() {
    let [world, other] = worlds();
    let own = world.field::<f64, 1>("x", 3).unwrap();
    let foreign = other.field::<f64, 1>("x", 3).unwrap();
    foreign.copy_from(&[1.0, 2.0, 3.0]).unwrap();
    let program = Program::trace(&world, &own, |x| x[0] * x[1] + x[2]).unwrap();
    assert_eq!(program.run(&foreign).unwrap(), 5.0);
}
