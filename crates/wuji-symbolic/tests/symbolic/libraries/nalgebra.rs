//! Code written against nalgebra runs on numbers, and is traced unchanged.

use nalgebra::{Matrix3, Quaternion, RealField, Rotation3, UnitQuaternion, Vector3};
use wuji::World;
use wuji_symbolic::{Program, Sym, Trace};

/// The energy of a tetrahedron whose rest shape is the unit one.
fn neo_hookean<T: RealField + Copy>(x: &[T]) -> T {
    let point = |n: usize| Vector3::new(x[3 * n], x[3 * n + 1], x[3 * n + 2]);
    let origin = point(0);
    let edges = [point(1) - origin, point(2) - origin, point(3) - origin];
    let f = Matrix3::from_columns(&edges);
    let log = f.determinant().ln();
    let half: T = nalgebra::convert(0.5);
    ((f.transpose() * f).trace() - nalgebra::convert(3.0)) * half - log + log * log * half
}

fn rotated<T: RealField + Copy>(angle: T, p: Vector3<T>) -> Vector3<T> {
    let ((sine, cosine), zero) = (angle.sin_cos(), T::zero());
    let turn = Matrix3::new(
        cosine,
        -sine,
        zero,
        sine,
        cosine,
        zero,
        zero,
        zero,
        T::one(),
    );
    let about = Rotation3::from_matrix_unchecked(turn);
    let half = angle * nalgebra::convert(0.5);
    let q = Quaternion::new(half.cos(), T::zero(), T::zero(), half.sin());
    let twice = UnitQuaternion::new_unchecked(q) * (about * p);
    twice * twice.norm() + twice.cross(&Vector3::new(T::one(), T::zero(), T::zero()))
}

#[test]
fn code_for_real_fields_is_traced_unchanged() {
    let world = World::interpreter().unwrap();
    let x: [f64; 13] = [
        0.1, 0.0, 0.2, 1.1, 0.1, 0.0, 0.0, 0.9, 0.1, 0.2, 0.1, 1.3, 0.7,
    ];
    let compute = |x: Vec<Sym>| {
        let p = rotated(x[12], Vector3::new(x[0], x[3], x[6]));
        vec![neo_hookean(&x), p.x, p.y, p.z]
    };
    let found = Program::trace(&world, &x[..], compute).unwrap();
    let found = found.run(&x[..]).unwrap();
    let p = rotated(x[12], Vector3::new(x[0], x[3], x[6]));
    for (a, b) in found.iter().zip([neo_hookean(&x), p.x, p.y, p.z]) {
        assert!((a - b).abs() < 1e-12, "{a} instead of {b}");
    }
}

#[test]
fn questions_about_values_are_errors_that_name_the_trace() {
    let invert = |x: &[Vec<Sym>]| {
        let m = Matrix3::from_diagonal(&Vector3::new(x[0][0], x[0][1], x[0][2]));
        let inverse = m.try_inverse().unwrap_or_else(Matrix3::zeros);
        vec![inverse.as_slice().to_vec()]
    };
    assert_eq!(Trace::record(&[3], invert).unwrap_err().code, "W0801");
    let root = |x: &[Vec<Sym>]| {
        vec![nalgebra::try_convert::<Sym, f64>(x[0][0]).map_or(Vec::new(), |x| vec![Sym::new(x)])]
    };
    assert_eq!(Trace::record(&[1], root).unwrap().outputs()[0].len(), 0);
    // Of constants there are answers.
    let m = Matrix3::from_diagonal(&Vector3::new(2.0, 4.0, 5.0)).map(Sym::new);
    let inverse = m.try_inverse().unwrap();
    assert_eq!(inverse[(1, 1)].as_const(), Some(0.25));
}
