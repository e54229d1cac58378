//! Tangents of operations on values.

use super::Forward;
use crate::autodiff::partials::{is_differentiable, partial};
use wuji_ir::build::Builder;
use wuji_ir::entities::Value;
use wuji_ir::module::{InstData, Values};
use wuji_ir::ops::*;
use wuji_ir::types::Type;

/// The tangent of an elementwise operation, from those of its arguments; `None` if it is zero.
pub(super) fn elementwise_tangent(
    b: &mut Builder,
    op: ElementwiseOp,
    args: &[Value],
    result: Value,
    tangents: &[Option<Value>],
) -> Option<Value> {
    match op {
        ElementwiseOp::Select => chosen(b, args[0], result, tangents[1], tangents[2]),
        // Of equal operands, the result is the second.
        ElementwiseOp::Binary(BinOp::Min | BinOp::Max) => {
            let is_first = b.compare(CmpOp::Ne, result, args[1]);
            chosen(b, is_first, result, tangents[0], tangents[1])
        }
        ElementwiseOp::Unary(_)
        | ElementwiseOp::Binary(_)
        | ElementwiseOp::Compare(_)
        | ElementwiseOp::Fma
        | ElementwiseOp::Convert(_)
        | ElementwiseOp::Bitcast(_) => {
            let mut sum = None;
            for (k, tangent) in tangents.iter().enumerate() {
                if let Some(tangent) = *tangent
                    && is_differentiable(op, k)
                {
                    let elem = b.func.ty(result).elem();
                    let tangent = elem.map_or(tangent, |to| b.convert(tangent, to));
                    let term = partial(b, op, args, result, k).times(b, tangent);
                    sum = added(b, sum, term);
                }
            }
            sum
        }
    }
}

/// The tangent of one of two values.
fn chosen(
    b: &mut Builder,
    condition: Value,
    result: Value,
    first: Option<Value>,
    second: Option<Value>,
) -> Option<Value> {
    if first.is_none() && second.is_none() {
        return None;
    }
    let ty = b.func.ty(result);
    let first = first.unwrap_or_else(|| b.zero(ty));
    let second = second.unwrap_or_else(|| b.zero(ty));
    Some(b.select(condition, first, second))
}

fn added(b: &mut Builder, sum: Option<Value>, term: Option<Value>) -> Option<Value> {
    match (sum, term) {
        (Some(a), Some(c)) => Some(b.binary(BinOp::Add, a, c)),
        (one, other) => one.or(other),
    }
}

impl Forward<'_> {
    /// Computes the tangents of a kept operation.
    pub(super) fn operation(&mut self, data: &InstData) {
        for seed in 0..self.seeds.len() {
            let varied = data.results.iter().any(|r| self.varied(seed, *r));
            if varied && let Some(tangent) = self.operation_tangent(seed, data) {
                self.set_tangent(seed, data.results[0], tangent);
            }
        }
    }

    fn operation_tangent(&mut self, seed: usize, data: &InstData) -> Option<Value> {
        let parts: Vec<Option<Value>> = data.args.iter().map(|a| self.tangent(seed, *a)).collect();
        let args = &data.args;
        match data.op.class() {
            OpClass::Elementwise(op) => {
                elementwise_tangent(&mut self.b, op, args, data.results[0], &parts)
            }
            OpClass::Component(op) => {
                let index = match op {
                    ComponentOp::ExtractDyn | ComponentOp::InsertDyn => Some(1),
                    ComponentOp::Splat(_)
                    | ComponentOp::Compose(_)
                    | ComponentOp::Extract(_)
                    | ComponentOp::Insert(_)
                    | ComponentOp::Shuffle(_) => None,
                };
                Some(self.linear(seed, data, index))
            }
            OpClass::Thread(_) => Some(self.linear(seed, data, Some(1))),
            OpClass::Reduce(ReduceOp::Add) => Some(self.linear(seed, data, None)),
            OpClass::Reduce(op) => self.fold(op.binary(), args[0], parts[0]?),
            OpClass::Algebra(op) => match op {
                AlgebraOp::Transpose => Some(self.linear(seed, data, None)),
                AlgebraOp::MatMul | AlgebraOp::Dot | AlgebraOp::Cross | AlgebraOp::Outer => {
                    self.bilinear(&data.op, args, &parts)
                }
                AlgebraOp::Determinant => self.determinant(args[0], parts[0]?),
                AlgebraOp::Inverse => Some(self.inverse(data.results[0], parts[0]?)),
            },
            OpClass::Constant(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Check(_) => None,
        }
    }

    /// The operation on the tangents of its arguments, except that an index stays.
    fn linear(&mut self, seed: usize, data: &InstData, index: Option<usize>) -> Value {
        let args: Values = (0..data.args.len())
            .map(|k| {
                if index == Some(k) {
                    data.args[k]
                } else {
                    self.tangent_or_zero(seed, data.args[k])
                }
            })
            .collect();
        self.b.value(data.op.clone(), &args)
    }

    /// A product: each argument in turn is replaced by its tangent.
    fn bilinear(&mut self, op: &Op, args: &[Value], parts: &[Option<Value>]) -> Option<Value> {
        let mut sum = None;
        for (k, tangent) in parts.iter().enumerate() {
            if let Some(tangent) = tangent {
                let mut args: Values = args.iter().copied().collect();
                args[k] = *tangent;
                let term = self.b.value(op.clone(), &args);
                sum = added(&mut self.b, sum, Some(term));
            }
        }
        sum
    }

    /// Of a product, minimum or maximum of components, one after the other.
    fn fold(&mut self, op: BinOp, x: Value, tangent: Value) -> Option<Value> {
        let xs = self.components(x);
        let ts = self.components(tangent);
        let (mut value, mut sum) = (*xs.first()?, *ts.first()?);
        for (x, t) in xs.into_iter().zip(ts).skip(1) {
            let result = self.b.binary(op, value, x);
            let op = ElementwiseOp::Binary(op);
            let parts = [Some(sum), Some(t)];
            sum = elementwise_tangent(&mut self.b, op, &[value, x], result, &parts)?;
            value = result;
        }
        Some(sum)
    }

    /// The determinant is linear in each row. This holds for singular matrices too.
    fn determinant(&mut self, x: Value, tangent: Value) -> Option<Value> {
        let ty = self.b.func.ty(x);
        let Type::Matrix(_, rows, columns) = ty else {
            return None;
        };
        let (xs, ts) = (self.components(x), self.components(tangent));
        let columns = usize::from(columns);
        let mut sum = None;
        for row in 0..usize::from(rows) {
            let mut mixed = xs.clone();
            let range = row * columns..(row + 1) * columns;
            mixed[range.clone()].copy_from_slice(&ts[range]);
            let matrix = self.b.value(Op::Compose(ty), &mixed);
            let term = self.b.value(Op::Algebra(AlgebraOp::Determinant), &[matrix]);
            sum = added(&mut self.b, sum, Some(term));
        }
        sum
    }

    /// `-R T R`, where `R` is the inverse.
    fn inverse(&mut self, result: Value, tangent: Value) -> Value {
        let product = Op::Algebra(AlgebraOp::MatMul);
        let left = self.b.value(product.clone(), &[result, tangent]);
        let both = self.b.value(product, &[left, result]);
        self.b.unary(UnOp::Neg, both)
    }

    fn components(&mut self, x: Value) -> Vec<Value> {
        let count = self.b.func.ty(x).lanes().unwrap_or(0);
        (0..count)
            .map(|k| self.b.value(Op::Extract(k), &[x]))
            .collect()
    }
}
