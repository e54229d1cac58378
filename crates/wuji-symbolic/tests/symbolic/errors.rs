//! What cannot be traced, and what changed between trace and run.

use crate::interpreter;
use num_traits::{ToPrimitive, Zero};
use wuji_symbolic::{Csr, Options, Program, Real, Sym, Trace};

fn refused(compute: impl FnOnce(&[Sym]) -> Vec<Sym>) -> wuji::Error {
    Trace::record(&[2], |x| vec![compute(&x[0])]).unwrap_err()
}

#[test]
fn a_branch_on_a_value_is_an_error_that_names_the_line() {
    let line = line!() + 1;
    let error = refused(|x| if x[0] < x[1] { vec![x[0]] } else { vec![x[1]] });
    assert_eq!(error.code, "W0801");
    let at = error.at.clone().unwrap();
    assert_eq!((at.line, at.file.as_str()), (line, file!()));
    assert!(error.to_string().contains("select"), "{error}");
}

#[test]
fn loops_until_convergence_end_with_an_error() {
    let error = refused(|x| {
        let mut y = x[0];
        // Ends only when the comparison holds.
        while x[1].partial_cmp(&y) != Some(std::cmp::Ordering::Greater) {
            y *= 0.5;
        }
        vec![y]
    });
    assert_eq!(error.code, "W0801");
}

#[test]
fn questions_about_values_are_errors() {
    let questions: [fn(Sym) -> bool; 5] = [
        |x| x.is_zero(),
        |x| x == Sym::new(1.0),
        |x| x.to_f64().is_some(),
        |x| num_traits::Float::is_nan(x),
        |x| x.partial_cmp(&Sym::new(2.0)).is_some(),
    ];
    for question in questions {
        let error = refused(|x| vec![Sym::new(if question(x[0]) { 1.0 } else { 0.0 })]);
        assert_eq!(error.code, "W0801");
        assert!(error.at.unwrap().file.ends_with("errors.rs"));
    }
}

#[test]
fn values_of_another_trace_are_refused() {
    let mut kept = None;
    Trace::record(&[1], |x| {
        kept = Some(x[0][0]);
        Vec::new()
    })
    .unwrap();
    let kept = kept.unwrap();
    assert_eq!(refused(|x| vec![x[0] + kept]).code, "W0802");
    assert_eq!(refused(|_| vec![kept]).code, "W0802");
    // Without a trace, nothing is recorded, and nothing panics.
    let lost = kept + kept * 2.0;
    assert!(lost.as_const().is_none());
    assert_eq!(refused(|_| vec![lost]).code, "W0802");
}

#[test]
fn panics_of_the_traced_function_are_its_own() {
    let caught = std::panic::catch_unwind(|| {
        let _ = Trace::record(&[1], |_| std::panic::resume_unwind(Box::new(5)));
    });
    assert_eq!(caught.unwrap_err().downcast_ref::<i32>(), Some(&5));
    assert!(Trace::record(&[1], |x| vec![vec![x[0][0] + 1.0]]).is_ok());
}

#[test]
fn a_changed_pattern_is_found() {
    let world = interpreter();
    let at = |column: usize| Csr::from_triplets(2, 2, &[(0, 0, 1.0), (1, column, 2.0)]).unwrap();
    let program = Program::trace(&world, &at(1), |a| a.mul(&a)).unwrap();
    assert!(program.run(&at(1)).is_ok());
    let error = program.run(&at(0)).unwrap_err();
    assert_eq!(error.code, "W0803");
    assert!(error.message.contains("pattern"), "{error}");
    let other = Csr::from_triplets(2, 2, &[(0, 0, 1.0)]).unwrap();
    assert_eq!(program.run(&other).unwrap_err().code, "W0803");
    assert_eq!(program.run(&at(1).to_csc()).unwrap_err().code, "W0803");
    let vector = Program::trace(&world, &[1.0, 2.0][..], |x| x[0] + x[1]).unwrap();
    assert_eq!(vector.run(&[1.0][..]).unwrap_err().code, "W0803");
    assert_eq!(
        vector.run((&[1.0, 2.0][..], &[1.0][..])).unwrap_err().code,
        "W0803"
    );
}

#[test]
fn inconsistent_matrices_are_refused() {
    let new = |starts: &[usize], columns: &[usize], values: &[f64]| {
        Csr::new(2, 2, starts.to_vec(), columns.to_vec(), values.to_vec()).map(|_| ())
    };
    assert!(new(&[0, 1, 2], &[0, 1], &[1.0, 2.0]).is_ok());
    let wrong: [(&[usize], &[usize], &[f64]); 6] = [
        (&[0, 1, 2], &[0, 1], &[1.0]),
        (&[0, 1], &[0], &[1.0]),
        (&[0, 2, 1], &[0, 1], &[1.0, 2.0]),
        (&[1, 1, 2], &[0, 1], &[1.0, 2.0]),
        (&[0, 2, 2], &[1, 0], &[1.0, 2.0]),
        (&[0, 1, 2], &[0, 2], &[1.0, 2.0]),
    ];
    for (starts, columns, values) in wrong {
        assert_eq!(new(starts, columns, values).unwrap_err().code, "W0806");
    }
    let a = Csr::from_triplets(2, 3, &[(1, 2, 1.0)]).unwrap();
    assert_eq!(a.mul(&a).unwrap_err().code, "W0806");
    assert_eq!(a.add(&a.transpose()).unwrap_err().code, "W0806");
    assert_eq!(
        Csr::from_triplets(1, 1, &[(0, 1, 1.0)]).unwrap_err().code,
        "W0806"
    );
}

#[test]
fn errors_of_the_traced_function_are_returned() {
    let world = interpreter();
    let a = Csr::from_triplets(2, 3, &[(1, 2, 1.0)]).unwrap();
    let error = Program::trace(&world, &a, |a| a.mul(&a)).unwrap_err();
    assert_eq!(error.code, "W0806");
}

#[test]
fn too_many_kinds_of_expressions_are_an_error() {
    let options = Options {
        max_groups: 3,
        ..Options::default()
    };
    let world = interpreter();
    let compute = |x: Vec<Sym>| vec![x[0] + x[1], x[0] * x[1], x[0] / x[1], -x[0]];
    let error = Program::trace_with(&world, &options, &[1.0, 2.0][..], compute).unwrap_err();
    assert_eq!(error.code, "W0805");
    let large = Trace::record(&[2000], |x| vec![vec![x[0].iter().sum()]]).unwrap();
    assert_eq!(large.dot().unwrap_err().code, "W0805");
}

#[test]
fn too_many_elements_are_an_error_before_they_take_memory() {
    let error = Trace::record(&[1 << 31], |_| Vec::new()).unwrap_err();
    assert_eq!(error.code, "W0805");
}

#[test]
fn expressions_that_grow_without_locals_are_an_error() {
    let grow = |x: Vec<Sym>| (0..14).fold(x[0], |y, _| y * y + y.sin());
    let world = interpreter();
    let x = [0.1];
    let without = Options {
        local_decomposition: false,
        global_decomposition: false,
        max_complexity: u32::MAX,
        ..Options::default()
    };
    let error = Program::trace_with(&world, &without, &x[..], grow).unwrap_err();
    assert_eq!(error.code, "W0805");
    let program = Program::trace(&world, &x[..], grow).unwrap();
    let expected = (0..14).fold(0.1f64, |y, _| y * y + y.sin());
    assert!((program.run(&x[..]).unwrap() - expected).abs() < 1e-12);
}
