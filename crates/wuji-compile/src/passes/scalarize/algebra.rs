//! Vector and matrix algebra spelled out on scalars, in the order that `docs/ir.md` fixes.
//!
//! Matrices are slices of components, row by row.

use smallvec::SmallVec;
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::ops::{AlgebraOp, BinOp, CmpOp, UnOp};
use wuji_ir::types::{Imm, Scalar, Type};

pub(super) type Parts = SmallVec<[Value; 4]>;

/// An operation on the scalars of its arguments, with their types.
pub(super) fn lower(b: &mut Builder<'_>, op: AlgebraOp, args: &[(Type, Parts)]) -> Parts {
    let columns = |k: usize| match args[k].0 {
        Type::Matrix(_, _, c) => usize::from(c),
        Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) => 1,
    };
    let scalar = args[0].0.elem().unwrap_or(Scalar::F32);
    let x = &args[0].1;
    match op {
        AlgebraOp::MatMul => matmul(b, x, &args[1].1, columns(0), columns(1)),
        AlgebraOp::Transpose => transpose(x, columns(0)),
        AlgebraOp::Dot => {
            let pairs = x.iter().copied().zip(args[1].1.iter().copied());
            sum_of_products(b, pairs).into_iter().collect()
        }
        AlgebraOp::Cross => cross(b, x, &args[1].1),
        AlgebraOp::Outer => outer(b, x, &args[1].1),
        AlgebraOp::Determinant => [determinant(b, x, columns(0))].into_iter().collect(),
        AlgebraOp::Inverse => inverse(b, x, columns(0), scalar),
    }
}

/// The first product, then one more added at a time.
fn sum_of_products(
    b: &mut Builder<'_>,
    pairs: impl IntoIterator<Item = (Value, Value)>,
) -> Option<Value> {
    pairs.into_iter().fold(None, |sum, (x, y)| {
        let product = b.binary(BinOp::Mul, x, y);
        Some(match sum {
            Some(sum) => b.binary(BinOp::Add, sum, product),
            None => product,
        })
    })
}

/// `rows` by `inner` times `inner` by `cols`.
fn matmul(b: &mut Builder<'_>, x: &[Value], y: &[Value], inner: usize, cols: usize) -> Parts {
    let mut out = Parts::new();
    for row in x.chunks(inner.max(1)) {
        for c in 0..cols {
            let column = (0..inner).map(|k| y[k * cols + c]);
            out.extend(sum_of_products(b, row.iter().copied().zip(column)));
        }
    }
    out
}

fn transpose(x: &[Value], cols: usize) -> Parts {
    let rows = x.len() / cols.max(1);
    (0..cols)
        .flat_map(|c| (0..rows).map(move |r| x[r * cols + c]))
        .collect()
}

/// `a * d - b * c`.
fn minus_product(b: &mut Builder<'_>, (x, y): (Value, Value), (z, w): (Value, Value)) -> Value {
    let left = b.binary(BinOp::Mul, x, y);
    let right = b.binary(BinOp::Mul, z, w);
    b.binary(BinOp::Sub, left, right)
}

/// Of length 3, or of length 2 with one component as the result.
fn cross(b: &mut Builder<'_>, x: &[Value], y: &[Value]) -> Parts {
    let mut term = |i: usize, j: usize| minus_product(b, (x[i], y[j]), (x[j], y[i]));
    match x.len() {
        2 => [term(0, 1)].into_iter().collect(),
        _ => [term(1, 2), term(2, 0), term(0, 1)].into_iter().collect(),
    }
}

fn outer(b: &mut Builder<'_>, x: &[Value], y: &[Value]) -> Parts {
    let mut out = Parts::new();
    for r in x {
        for c in y {
            out.push(b.binary(BinOp::Mul, *r, *c));
        }
    }
    out
}

/// A matrix without one row and one column.
fn minor(x: &[Value], n: usize, row: usize, col: usize) -> Parts {
    (0..n * n)
        .filter(|k| k / n != row && k % n != col)
        .map(|k| x[k])
        .collect()
}

/// By cofactors along the first row.
fn determinant(b: &mut Builder<'_>, x: &[Value], n: usize) -> Value {
    match n {
        1 => x[0],
        2 => minus_product(b, (x[0], x[3]), (x[1], x[2])),
        _ => {
            let mut sum = x[0];
            for c in 0..n {
                let cofactor = determinant(b, &minor(x, n, 0, c), n - 1);
                let term = b.binary(BinOp::Mul, x[c], cofactor);
                sum = match c {
                    0 => term,
                    _ if c % 2 == 1 => b.binary(BinOp::Sub, sum, term),
                    _ => b.binary(BinOp::Add, sum, term),
                };
            }
            sum
        }
    }
}

/// The adjugate times `1 / determinant`.
fn inverse(b: &mut Builder<'_>, x: &[Value], n: usize, s: Scalar) -> Parts {
    let one = b.float(s, 1.0);
    let det = determinant(b, x, n);
    let scale = b.binary(BinOp::Div, one, det);
    if n == 1 {
        return [scale].into_iter().collect();
    }
    let mut out = Parts::new();
    for r in 0..n {
        for c in 0..n {
            // Transposed: the cofactor of row c, column r.
            let mut cofactor = determinant(b, &minor(x, n, c, r), n - 1);
            if (r + c) % 2 == 1 {
                cofactor = b.unary(UnOp::Neg, cofactor);
            }
            out.push(b.binary(BinOp::Mul, cofactor, scale));
        }
    }
    out
}

/// `index == k`; `None` when the type of the index cannot hold `k`.
pub(super) fn is_component(b: &mut Builder<'_>, index: Value, k: usize) -> Option<Value> {
    let ty = b.func.ty(index).as_scalar()?;
    let (_, hi) = ty.int_range()?;
    if k as i128 > hi {
        return None;
    }
    let k = b.imm(Imm::int(ty, k as i128));
    Some(b.compare(CmpOp::Eq, index, k))
}

/// Component at a run-time index, zero outside.
pub(super) fn extract(b: &mut Builder<'_>, x: &[Value], index: Value, s: Scalar) -> Value {
    let mut found = b.imm(Imm::zero(s));
    for (k, v) in x.iter().enumerate() {
        if let Some(here) = is_component(b, index, k) {
            found = b.select(here, *v, found);
        }
    }
    found
}

/// One component replaced at a run-time index, unchanged outside.
pub(super) fn insert(b: &mut Builder<'_>, x: &[Value], index: Value, new: Value) -> Parts {
    x.iter()
        .enumerate()
        .map(|(k, v)| match is_component(b, index, k) {
            Some(here) => b.select(here, new, *v),
            None => *v,
        })
        .collect()
}
