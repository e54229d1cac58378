//! Vectors, matrices and structs.

use super::*;
use wuji_ir::types::StructType;

/// The scalars of the result of a body without parameters.
fn compute(out: Type, body: impl FnOnce(&mut Builder<'_>) -> Value) -> Vec<Imm> {
    let m = kernel(Module::default(), &[], &[out], |b, _| smallvec![body(b)]);
    result(&m)
}

fn vector(b: &mut Builder<'_>, xs: &[f32]) -> Value {
    compose(b, Type::Vector(Scalar::F32, xs.len() as u16), xs)
}

fn matrix(b: &mut Builder<'_>, rows: u16, xs: &[f32]) -> Value {
    let columns = xs.len() as u16 / rows;
    compose(b, Type::Matrix(Scalar::F32, rows, columns), xs)
}

fn compose(b: &mut Builder<'_>, ty: Type, xs: &[f32]) -> Value {
    let parts: Vec<Value> = xs.iter().map(|x| b.imm(f32(*x))).collect();
    b.value(Op::Compose(ty), &parts)
}

const F: Type = Type::Scalar(Scalar::F32);
const V2: Type = Type::Vector(Scalar::F32, 2);
const V3: Type = Type::Vector(Scalar::F32, 3);

fn m(rows: u16, columns: u16) -> Type {
    Type::Matrix(Scalar::F32, rows, columns)
}

#[test]
fn element_wise() {
    let out = compute(V3, |b| {
        let x = vector(b, &[1.0, 2.0, 3.0]);
        let two = b.imm(f32(2.0));
        let y = b.value(Op::Splat(V3), &[two]);
        let z = b.binary(BinOp::Mul, x, y);
        let z = b.value(Op::Fma, &[z, x, y]);
        b.unary(UnOp::Neg, z)
    });
    assert_eq!(out, f32s(&[-4.0, -10.0, -20.0]));
    let out = compute(Type::Vector(Scalar::I8, 3), |b| {
        let x = vector(b, &[1.5, -200.0, 300.0]);
        b.convert(x, Scalar::I8)
    });
    let ints: Vec<i128> = out.iter().filter_map(|x| x.as_int()).collect();
    assert_eq!(ints, [1, -128, 127]);
    let out = compute(V2, |b| {
        let x = vector(b, &[1.0, 5.0]);
        let y = vector(b, &[2.0, 3.0]);
        let less = b.compare(CmpOp::Lt, x, y);
        b.select(less, x, y)
    });
    assert_eq!(out, f32s(&[1.0, 3.0]));
    let out = compute(V2, |b| {
        let x = vector(b, &[1.0, 5.0]);
        let y = vector(b, &[2.0, 3.0]);
        let yes = b.bool(false);
        b.select(yes, x, y)
    });
    assert_eq!(out, f32s(&[2.0, 3.0]));
    let out = compute(Type::Vector(Scalar::U32, 2), |b| {
        let x = vector(b, &[1.0, -0.0]);
        b.value(Op::Bitcast(Scalar::U32), &[x])
    });
    assert_eq!(out[1].bits(), 0x8000_0000);
}

#[test]
fn products() {
    let out = compute(F, |b| {
        let x = vector(b, &[1.0, 2.0, 3.0]);
        let y = vector(b, &[4.0, 5.0, 6.0]);
        b.value(Op::Algebra(AlgebraOp::Dot), &[x, y])
    });
    assert_eq!(out, f32s(&[32.0]));
    // Left to right: (1e8 + 1) - 1e8 loses the 1.
    let out = compute(F, |b| {
        let x = vector(b, &[1e8, 1.0, -1e8]);
        b.value(Op::Reduce(ReduceOp::Add), &[x])
    });
    assert_eq!(out, f32s(&[0.0]));
    let out = compute(V3, |b| {
        let x = vector(b, &[1.0, 2.0, 3.0]);
        let y = vector(b, &[4.0, 5.0, 6.0]);
        b.value(Op::Algebra(AlgebraOp::Cross), &[x, y])
    });
    assert_eq!(out, f32s(&[-3.0, 6.0, -3.0]));
    let out = compute(F, |b| {
        let x = vector(b, &[1.0, 2.0]);
        let y = vector(b, &[4.0, 5.0]);
        b.value(Op::Algebra(AlgebraOp::Cross), &[x, y])
    });
    assert_eq!(out, f32s(&[-3.0]));
    let out = compute(m(2, 3), |b| {
        let x = vector(b, &[1.0, 2.0]);
        let y = vector(b, &[3.0, 4.0, 5.0]);
        b.value(Op::Algebra(AlgebraOp::Outer), &[x, y])
    });
    assert_eq!(out, f32s(&[3.0, 4.0, 5.0, 6.0, 8.0, 10.0]));
    let out = compute(m(2, 2), |b| {
        let x = matrix(b, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = matrix(b, 3, &[1.0, 0.0, 0.0, 1.0, 2.0, 2.0]);
        b.value(Op::Algebra(AlgebraOp::MatMul), &[x, y])
    });
    assert_eq!(out, f32s(&[7.0, 8.0, 16.0, 17.0]));
    let out = compute(V2, |b| {
        let x = matrix(b, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = vector(b, &[1.0, 10.0, 100.0]);
        b.value(Op::Algebra(AlgebraOp::MatMul), &[x, y])
    });
    assert_eq!(out, f32s(&[321.0, 654.0]));
    let out = compute(m(3, 2), |b| {
        let x = matrix(b, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        b.value(Op::Algebra(AlgebraOp::Transpose), &[x])
    });
    assert_eq!(out, f32s(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
}

#[test]
fn reductions() {
    let reduce = |op| {
        compute(F, |b| {
            let x = vector(b, &[3.0, -1.0, f32::NAN, 2.0]);
            b.value(Op::Reduce(op), &[x])
        })
    };
    assert_eq!(reduce(ReduceOp::Min), f32s(&[-1.0]));
    assert_eq!(reduce(ReduceOp::Max), f32s(&[3.0]));
    for (op, expected) in [(ReduceOp::And, false), (ReduceOp::Or, true)] {
        let out = compute(Type::Scalar(Scalar::Bool), |b| {
            let parts = [b.bool(true), b.bool(false)];
            let x = b.value(Op::Compose(Type::Vector(Scalar::Bool, 2)), &parts);
            b.value(Op::Reduce(op), &[x])
        });
        assert_eq!(out, [Imm::bool(expected)]);
    }
}

#[test]
fn determinant_and_inverse() {
    for n in 1..=4u16 {
        // Diagonally dominant, so far from singular.
        let size = usize::from(n * n);
        let a: Vec<f32> = (0..size)
            .map(|k| {
                let (r, c) = (k / usize::from(n), k % usize::from(n));
                if r == c {
                    4.0 + r as f32
                } else {
                    (k % 3) as f32 - 1.0
                }
            })
            .collect();
        let product = compute(m(n, n), |b| {
            let x = matrix(b, n, &a);
            let y = b.value(Op::Algebra(AlgebraOp::Inverse), &[x]);
            b.value(Op::Algebra(AlgebraOp::MatMul), &[x, y])
        });
        for (k, x) in product.iter().enumerate() {
            let expected = f64::from(u16::from(k % (usize::from(n) + 1) == 0));
            assert!((x.as_float().expect("a float") - expected).abs() < 1e-5);
        }
    }
    let det = compute(F, |b| {
        let x = matrix(b, 3, &[2.0, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0]);
        b.value(Op::Algebra(AlgebraOp::Determinant), &[x])
    });
    assert_eq!(det, f32s(&[0.0]));
    let det = compute(F, |b| {
        let x = [
            1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 1.0, 2.0,
        ];
        let x = matrix(b, 4, &x);
        b.value(Op::Algebra(AlgebraOp::Determinant), &[x])
    });
    assert_eq!(det, f32s(&[-6.0]));
    let singular = compute(m(2, 2), |b| {
        let x = matrix(b, 2, &[1.0, 2.0, 2.0, 4.0]);
        b.value(Op::Algebra(AlgebraOp::Inverse), &[x])
    });
    assert!(
        singular
            .iter()
            .all(|x| x.as_float().expect("a float").is_infinite())
    );
}

#[test]
fn components() {
    let out = compute(V2, |b| {
        let x = vector(b, &[1.0, 2.0, 3.0]);
        b.value(Op::Shuffle(smallvec![2, 0]), &[x])
    });
    assert_eq!(out, f32s(&[3.0, 1.0]));
    for (index, expected) in [(0, 1.0), (2, 3.0), (3, 0.0), (-1, 0.0)] {
        let out = compute(F, |b| {
            let x = vector(b, &[1.0, 2.0, 3.0]);
            let i = b.int(Scalar::I8, index);
            b.value(Op::ExtractDyn, &[x, i])
        });
        assert_eq!(out, f32s(&[expected]));
    }
    let huge = i128::from(u64::MAX) - 1;
    for (index, expected) in [(1, [1.0, 9.0]), (2, [1.0, 2.0]), (huge, [1.0, 2.0])] {
        let out = compute(V2, |b| {
            let x = vector(b, &[1.0, 2.0]);
            let i = b.int(Scalar::U64, index);
            let nine = b.imm(f32(9.0));
            b.value(Op::InsertDyn, &[x, i, nine])
        });
        assert_eq!(out, f32s(&expected));
    }
    let out = compute(F, |b| {
        let x = matrix(b, 2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let nine = b.imm(f32(9.0));
        let x = b.value(Op::Insert(4), &[x, nine]);
        b.value(Op::Extract(4), &[x])
    });
    assert_eq!(out, f32s(&[9.0]));
}

#[test]
fn structs_nest() {
    let mut module = Module::default();
    let inner = module.structs.intern(StructType {
        name: "Inner".into(),
        fields: vec![("a".into(), V2), ("b".into(), Type::Scalar(Scalar::Bool))],
    });
    let outer = module.structs.intern(StructType {
        name: "Outer".into(),
        fields: vec![
            ("x".into(), Type::Scalar(Scalar::I32)),
            ("inner".into(), Type::Struct(inner)),
            ("y".into(), F),
        ],
    });
    let module = kernel(module, &[], &[Type::Struct(outer)], |b, _| {
        let zero = b.zero(Type::Struct(outer));
        let part = b.value(Op::Extract(1), &[zero]);
        let v = vector(b, &[1.0, 2.0]);
        let part = b.value(Op::Insert(0), &[part, v]);
        let yes = b.bool(true);
        let part = b.value(Op::Insert(1), &[part, yes]);
        let s = b.value(Op::Insert(1), &[zero, part]);
        let y = b.imm(f32(7.0));
        smallvec![b.value(Op::Insert(2), &[s, y])]
    });
    let expected = vec![int(0), f32(1.0), f32(2.0), Imm::bool(true), f32(7.0)];
    assert_eq!(result(&module), expected);
}
