//! Every derivative against finite differences, and at the points where it has a rule.

use super::*;
use wuji_ir::interp::{Config, Machine};
use wuji_ir::module::{Function, Module, Param, Term, Values};
use wuji_ir::types::{BOOL, Imm};

/// Every elementwise operation on floats. Those of integers have no derivative.
fn operations() -> Vec<ElementwiseOp> {
    let mut all = Vec::new();
    let unary = UnOp::ALL.iter().copied();
    all.extend(
        unary
            .filter(|op| op.defined_on().contains(Scalar::F64))
            .map(ElementwiseOp::Unary),
    );
    let binary = BinOp::ALL.iter().copied();
    all.extend(
        binary
            .filter(|op| op.defined_on().contains(Scalar::F64))
            .map(ElementwiseOp::Binary),
    );
    all.extend(CmpOp::ALL.iter().copied().map(ElementwiseOp::Compare));
    all.extend([
        ElementwiseOp::Select,
        ElementwiseOp::Fma,
        ElementwiseOp::Convert(Scalar::F64),
        ElementwiseOp::Convert(Scalar::I32),
        ElementwiseOp::Bitcast(Scalar::F64),
        ElementwiseOp::Bitcast(Scalar::I64),
    ]);
    all
}

/// The instruction of an operation.
fn instruction(op: ElementwiseOp) -> Op {
    match op {
        ElementwiseOp::Unary(op) => Op::Unary(op),
        ElementwiseOp::Binary(op) => Op::Binary(op),
        ElementwiseOp::Compare(op) => Op::Compare(op),
        ElementwiseOp::Select => Op::Select,
        ElementwiseOp::Fma => Op::Fma,
        ElementwiseOp::Convert(to) => Op::Convert(to),
        ElementwiseOp::Bitcast(to) => Op::Bitcast(to),
    }
}

/// The types of an operation's arguments, those that are floats of type `ty`.
fn argument_types(op: ElementwiseOp, ty: Type) -> Vec<Type> {
    match op {
        ElementwiseOp::Unary(_) | ElementwiseOp::Convert(_) | ElementwiseOp::Bitcast(_) => vec![ty],
        ElementwiseOp::Binary(_) | ElementwiseOp::Compare(_) => vec![ty; 2],
        ElementwiseOp::Select => vec![BOOL, ty, ty],
        ElementwiseOp::Fma => vec![ty; 3],
    }
}

/// A kernel of parameters of these types whose result `body` builds.
fn kernel(types: &[Type], body: impl FnOnce(&mut Builder, &[Value]) -> Value) -> Module {
    let mut m = Module::new("k");
    for (k, ty) in types.iter().enumerate() {
        m.env.params.push(Param {
            name: format!("p{k}"),
            ty: *ty,
        });
    }
    let mut f = Function::new("k", types, &[]);
    let params = f.params().to_vec();
    let mut b = Builder::new(&mut m.env, &mut f);
    let result = body(&mut b, &params);
    b.end(Term::Return(Values::from_slice(&[result])));
    f.results = vec![f.ty(result)];
    m.kernel = Some(m.add_func(f));
    m
}

/// The kernel of the operation itself.
fn primal(op: ElementwiseOp, ty: Type) -> Module {
    kernel(&argument_types(op, ty), |b, args| {
        b.value(instruction(op), args)
    })
}

/// The kernel of the derivative by argument `k`, times one.
fn derivative(op: ElementwiseOp, ty: Type, k: usize) -> Module {
    kernel(&argument_types(op, ty), |b, args| {
        let result = b.value(instruction(op), args);
        let one = splat(b, args[k], 1.0);
        let found = partial(b, op, args, result, k).times(b, one);
        found.unwrap_or_else(|| b.zero(ty))
    })
}

fn arguments(op: ElementwiseOp, scalar: Scalar, args: &[f64]) -> Vec<Imm> {
    let types = argument_types(op, Type::Scalar(scalar));
    let one = |(ty, x): (&Type, &f64)| match ty.elem() {
        Some(Scalar::Bool) => Imm::bool(*x != 0.0),
        _ => Imm::float(scalar, *x),
    };
    types.iter().zip(args).map(one).collect()
}

fn run(module: &Module, args: &[Imm]) -> f64 {
    let mut machine = Machine::new(module, Config::default()).unwrap();
    let result = machine.run(args).unwrap().result.unwrap();
    result[0].as_float().unwrap()
}

fn at(op: ElementwiseOp, scalar: Scalar, k: usize, args: &[f64]) -> f64 {
    let module = derivative(op, Type::Scalar(scalar), k);
    run(&module, &arguments(op, scalar, args))
}

fn pow(x: f64, y: f64, k: usize) -> f64 {
    at(ElementwiseOp::Binary(BinOp::Pow), Scalar::F64, k, &[x, y])
}

fn unary_at(op: UnOp, x: f64) -> f64 {
    at(ElementwiseOp::Unary(op), Scalar::F64, 0, &[x])
}

const POINTS: [f64; 9] = [-2.7, -1.3, -0.6, -0.21, 0.17, 0.45, 0.83, 1.9, 3.4];

/// Arguments of an operation: all combinations of the points.
fn points(op: ElementwiseOp) -> Vec<Vec<f64>> {
    let mut all = vec![vec![]];
    for _ in argument_types(op, Type::Scalar(Scalar::F64)) {
        let longer = |head: &Vec<f64>| {
            let head = head.clone();
            POINTS.map(|p| [head.as_slice(), &[p]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

#[test]
fn derivatives_agree_with_finite_differences() {
    for op in operations() {
        for k in 0..argument_types(op, Type::Scalar(Scalar::F64)).len() {
            if is_differentiable(op, k) {
                compare_with_differences(op, k);
            }
        }
    }
}

fn compare_with_differences(op: ElementwiseOp, k: usize) {
    let ty = Type::Scalar(Scalar::F64);
    let (f, df) = (primal(op, ty), derivative(op, ty, k));
    let value = |args: &[f64]| run(&f, &arguments(op, Scalar::F64, args));
    let mut compared = 0;
    for args in points(op) {
        let step = 1e-6;
        let (mut low, mut high) = (args.clone(), args.clone());
        low[k] -= step;
        high[k] += step;
        let expected = (value(&high) - value(&low)) / (2.0 * step);
        let found = run(&df, &arguments(op, Scalar::F64, &args));
        let power_of_negative = op == ElementwiseOp::Binary(BinOp::Pow) && args[0] < 0.0;
        let is_kink =
            matches!(op, ElementwiseOp::Binary(BinOp::Min | BinOp::Max)) && args[0] == args[1];
        let is_jump = expected.abs() > 1e4;
        if expected.is_nan() || power_of_negative || is_kink || is_jump {
            continue;
        }
        compared += 1;
        let error = (found - expected).abs() / (1.0 + expected.abs());
        assert!(
            error < 1e-8,
            "{op:?} by {k} at {args:?}: {found}, not {expected}"
        );
    }
    assert!(compared >= 4, "{op:?} by {k}: nothing compared");
}

#[test]
fn only_differentiable_operations_have_a_derivative() {
    for op in operations() {
        let types = argument_types(op, Type::Scalar(Scalar::F64));
        for k in 0..types.len() {
            kernel(&types, |b, args| {
                let result = b.value(instruction(op), args);
                let zero = partial(b, op, args, result, k) == Partial::Zero;
                assert_eq!(zero, !is_differentiable(op, k), "{op:?} by {k}");
                result
            });
        }
    }
}

#[test]
fn needs_lists_exactly_what_is_read() {
    for op in operations() {
        let types = argument_types(op, Type::Scalar(Scalar::F64));
        for k in 0..types.len() {
            assert_eq!(read_by(op, &types, k), needs(op, k), "{op:?} by {k}");
        }
    }
}

/// What the derivative reads, as the instructions say.
fn read_by(op: ElementwiseOp, types: &[Type], k: usize) -> Needs {
    let mut found = Needs::NOTHING;
    kernel(types, |b, args| {
        let result = b.value(instruction(op), args);
        let before = b.func.insts.len();
        let made = partial(b, op, args, result, k);
        let mut read: Vec<Value> = b
            .func
            .insts
            .values()
            .skip(before)
            .flat_map(|i| i.args.to_vec())
            .collect();
        if let Partial::Where(v) | Partial::Factor(v) = made {
            read.push(v);
        }
        let bits = args
            .iter()
            .enumerate()
            .filter(|(_, a)| read.contains(a))
            .map(|(j, _)| 1 << j);
        found = Needs {
            args: bits.sum(),
            result: read.contains(&result),
        };
        result
    });
    found
}

#[test]
fn factors_have_the_type_of_the_result() {
    let shapes = [
        Type::Scalar(Scalar::F16),
        Type::Scalar(Scalar::F32),
        Type::Vector(Scalar::F16, 3),
        Type::Matrix(Scalar::F64, 2, 3),
    ];
    for op in operations() {
        for ty in shapes {
            let same_width = matches!(op, ElementwiseOp::Bitcast(_));
            for k in 0..argument_types(op, ty).len() {
                if is_differentiable(op, k) && !same_width {
                    let module = derivative(op, ty, k);
                    let kernel = module.kernel_func().unwrap();
                    assert_eq!(kernel.results, [ty], "{op:?}");
                    wuji_ir::verify::verify(&module).unwrap();
                }
            }
        }
    }
}

#[test]
fn powers_are_right_at_zero() {
    // By the base.
    assert_eq!(pow(0.0, 0.0, 0), 0.0);
    assert_eq!(pow(0.0, 1.0, 0), 1.0);
    assert_eq!(pow(0.0, 2.0, 0), 0.0);
    assert_eq!(pow(0.0, 0.5, 0), 0.0);
    assert_eq!(pow(0.0, -1.0, 0), f64::NEG_INFINITY);
    assert_eq!(pow(5.0, 0.0, 0), 0.0);
    // By the exponent.
    assert_eq!(pow(0.0, 0.0, 1), 0.0);
    assert_eq!(pow(0.0, 2.0, 1), 0.0);
    assert_eq!(pow(0.0, -1.0, 1), 0.0);
    assert_eq!(pow(f64::INFINITY, -1.0, 1), 0.0);
}

#[test]
fn powers_of_negative_numbers_have_a_derivative_by_the_base_only() {
    assert_eq!(pow(-2.0, 3.0, 0), 12.0);
    assert_eq!(pow(-2.0, 2.0, 0), -4.0);
    assert_eq!(pow(-2.0, -1.0, 0), -0.25);
    assert_eq!(pow(-2.0, 3.0, 1), 0.0);
    assert!(pow(-2.0, 0.5, 0).is_nan());
}

#[test]
fn kinks_have_the_stated_derivative() {
    assert_eq!(unary_at(UnOp::Abs, 0.0), 0.0);
    assert_eq!(unary_at(UnOp::Sqrt, 0.0), 0.0);
    assert_eq!(unary_at(UnOp::PreciseSqrt, 0.0), 0.0);
    assert_eq!(unary_at(UnOp::Asin, 1.0), f64::INFINITY);
    assert_eq!(unary_at(UnOp::Acos, -1.0), f64::NEG_INFINITY);
    assert_eq!(unary_at(UnOp::Log, 0.0), f64::INFINITY);
    assert_eq!(unary_at(UnOp::Rsqrt, 0.0), f64::NEG_INFINITY);
}

#[test]
fn the_derivative_goes_to_the_operand_that_min_and_max_return() {
    for op in [BinOp::Min, BinOp::Max] {
        let both = |x, y| [0, 1].map(|k| at(ElementwiseOp::Binary(op), Scalar::F64, k, &[x, y]));
        assert_eq!(both(2.0, 2.0), [0.0, 1.0]);
        assert_eq!(both(0.0, -0.0), [0.0, 1.0]);
        assert_eq!(both(2.0, f64::NAN), [1.0, 0.0]);
        assert_eq!(both(f64::NAN, 2.0), [0.0, 1.0]);
    }
}

#[test]
fn atan2_has_a_derivative_everywhere() {
    let both =
        |y, x| [0, 1].map(|k| at(ElementwiseOp::Binary(BinOp::Atan2), Scalar::F64, k, &[y, x]));
    assert_eq!(both(0.0, 0.0), [0.0, 0.0]);
    assert_eq!(both(0.0, -2.0), [-0.5, 0.0]);
    // Squares would overflow, or be zero.
    assert_eq!(both(2e200, 2e200), [2.5e-201, -2.5e-201]);
    assert_eq!(both(-2e-200, 2e-200), [2.5e199, 2.5e199]);
}

#[test]
fn the_remainder_counts_divisors_exactly() {
    let rem = |x: f64, y| at(ElementwiseOp::Binary(BinOp::Rem), Scalar::F64, 1, &[x, y]);
    assert_eq!(rem(7.5, 2.0), -3.0);
    assert_eq!(rem(-7.5, 2.0), 3.0);
    assert_eq!(rem(6.0_f64.next_down(), 2.0), -2.0);
    // The quotient rounds up to 10.
    assert_eq!(rem(1.0, 0.1), -9.0);
    assert_eq!(rem(5.0, f64::INFINITY), 0.0);
}

#[test]
fn halves_are_computed_in_single_precision() {
    // The square of 300 overflows in f16.
    let found = at(ElementwiseOp::Unary(UnOp::Atan), Scalar::F16, 0, &[300.0]);
    assert!((found - 1.0 / 90001.0).abs() < 1e-7, "{found}");
}
