//! Vector and matrix operations, component by component in the order that `docs/ir.md` fixes.

use crate::eval;
use crate::ops::{AlgebraOp, BinOp, UnOp};
use crate::types::{Imm, Scalar, Type};

/// Works on the scalars of its arguments; `None` where an operation is not defined on the type.
type Scalars = Option<Vec<Imm>>;

/// An operation on arguments of given types.
pub(super) fn algebra(op: AlgebraOp, args: &[(Type, &[Imm])]) -> Scalars {
    let (ty, a) = *args.first()?;
    let second = || args.get(1).map(|(_, b)| *b);
    let (rows, columns) = match ty {
        Type::Matrix(_, r, c) => (usize::from(r), usize::from(c)),
        Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) => (a.len(), 1),
    };
    Some(match op {
        AlgebraOp::MatMul => matmul(a, second()?, rows, columns, second()?.len() / columns)?,
        AlgebraOp::Transpose => transpose(a, rows, columns),
        AlgebraOp::Dot => vec![dot(a.iter().copied().zip(second()?.iter().copied()))?],
        AlgebraOp::Cross => cross(a, second()?)?,
        AlgebraOp::Outer => outer(a, second()?)?,
        AlgebraOp::Determinant => vec![determinant(a, rows)?],
        AlgebraOp::Inverse => inverse(a, rows, ty.elem()?)?,
    })
}

fn mul(a: Imm, b: Imm) -> Option<Imm> {
    eval::binary(BinOp::Mul, a, b)
}

fn sub(a: Imm, b: Imm) -> Option<Imm> {
    eval::binary(BinOp::Sub, a, b)
}

/// First product, then one more added at a time.
fn dot(pairs: impl Iterator<Item = (Imm, Imm)>) -> Option<Imm> {
    let mut sum = None;
    for (a, b) in pairs {
        let product = mul(a, b)?;
        sum = Some(match sum {
            None => product,
            Some(sum) => eval::binary(BinOp::Add, sum, product)?,
        });
    }
    sum
}

/// `rows` by `inner` times `inner` by `columns`.
fn matmul(a: &[Imm], b: &[Imm], rows: usize, inner: usize, columns: usize) -> Scalars {
    let mut out = Vec::with_capacity(rows * columns);
    for r in 0..rows {
        for c in 0..columns {
            out.push(dot(
                (0..inner).map(|k| (a[r * inner + k], b[k * columns + c]))
            )?);
        }
    }
    Some(out)
}

fn transpose(a: &[Imm], rows: usize, columns: usize) -> Vec<Imm> {
    (0..columns)
        .flat_map(|c| (0..rows).map(move |r| a[r * columns + c]))
        .collect()
}

/// Length 3 gives a vector, length 2 a scalar.
fn cross(a: &[Imm], b: &[Imm]) -> Scalars {
    let part = |i: usize, j: usize| sub(mul(a[i], b[j])?, mul(a[j], b[i])?);
    if a.len() == 2 {
        return Some(vec![part(0, 1)?]);
    }
    Some(vec![part(1, 2)?, part(2, 0)?, part(0, 1)?])
}

fn outer(a: &[Imm], b: &[Imm]) -> Scalars {
    a.iter()
        .flat_map(|x| b.iter().map(|y| mul(*x, *y)))
        .collect()
}

/// By cofactors along the first row: `a00 * M00 - a01 * M01 + a02 * M02 - ...`, left to right.
fn determinant(a: &[Imm], n: usize) -> Option<Imm> {
    if n == 1 {
        return Some(a[0]);
    }
    let mut sum = mul(a[0], determinant(&minor(a, n, 0, 0), n - 1)?)?;
    for c in 1..n {
        let term = mul(a[c], determinant(&minor(a, n, 0, c), n - 1)?)?;
        let op = if c % 2 == 1 { BinOp::Sub } else { BinOp::Add };
        sum = eval::binary(op, sum, term)?;
    }
    Some(sum)
}

/// Adjugate times `1 / determinant`. Odd cofactors are negated minors.
fn inverse(a: &[Imm], n: usize, elem: Scalar) -> Scalars {
    let one = Imm::float(elem, 1.0);
    let scale = eval::binary(BinOp::Div, one, determinant(a, n)?)?;
    let mut out = Vec::with_capacity(n * n);
    for r in 0..n {
        for c in 0..n {
            let minor = match n {
                1 => one,
                _ => determinant(&minor(a, n, c, r), n - 1)?,
            };
            let cofactor = match (r + c) % 2 {
                0 => minor,
                _ => eval::unary(UnOp::Neg, minor)?,
            };
            out.push(mul(cofactor, scale)?);
        }
    }
    Some(out)
}

/// Without one row and one column.
fn minor(a: &[Imm], n: usize, row: usize, column: usize) -> Vec<Imm> {
    (0..n * n)
        .filter(|k| k / n != row && k % n != column)
        .map(|k| a[k])
        .collect()
}
