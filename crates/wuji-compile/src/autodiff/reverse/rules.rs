//! The reverse sweep of pure operations.

use super::Reverse;
use super::adjoint::Adjoint;
use crate::autodiff::partials::{Needs, Partial, partial};
use crate::autodiff::shape::Pure;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::Values;
use wuji_ir::ops::{AlgebraOp, BinOp, ComponentOp, ElementwiseOp, Op, ReduceOp, UnOp};
use wuji_ir::types::{Scalar, Type};

/// What the adjoint of the `k`-th argument reads in `Reverse::algebra`.
pub(in crate::autodiff) fn algebra_needs(op: AlgebraOp, k: usize) -> Needs {
    match op {
        AlgebraOp::Transpose => Needs::NOTHING,
        AlgebraOp::Inverse => Needs::RESULT,
        AlgebraOp::Determinant => Needs::args(1),
        AlgebraOp::MatMul | AlgebraOp::Dot | AlgebraOp::Cross | AlgebraOp::Outer => {
            Needs::args(1 << (1 - k))
        }
    }
}

impl Reverse<'_, '_> {
    /// Adds to the adjoints of the arguments what the adjoint of the result implies.
    pub(super) fn pure(&mut self, inst: Inst, op: Pure<'_>, adjoint: &Adjoint) -> Result<()> {
        match op {
            Pure::Elementwise(op) => self.elementwise(inst, op, adjoint),
            Pure::Component(op) => self.component(inst, op, adjoint),
            Pure::Reduce(op) => self.reduce(inst, op, adjoint),
            Pure::Algebra(op) => self.algebra(inst, op, adjoint),
        }
    }

    fn elementwise(&mut self, inst: Inst, op: ElementwiseOp, adjoint: &Adjoint) -> Result<()> {
        let data = &self.f.insts[inst];
        // Values that the derivative does not read may be absent; another one takes their place.
        let known = |v: &Value| self.map.get(v).copied();
        let args: Vec<Option<Value>> = data.args.iter().map(known).collect();
        let result = known(&data.results[0]);
        let spare = args.iter().copied().flatten().next().or(result);
        let spare = spare.unwrap_or_else(|| Value::from_u32(0));
        let args: Values = args.into_iter().map(|v| v.unwrap_or(spare)).collect();
        for (k, a) in data.args.iter().enumerate() {
            if !self.activity.is_active(*a) {
                continue;
            }
            let by = partial(&mut self.b, op, &args, result.unwrap_or(spare), k);
            if by == Partial::Zero {
                continue;
            }
            let added = self.each(adjoint, |this, x, part| {
                let by = this.part_of(by, part);
                by.times(&mut this.b, x).unwrap_or(x)
            });
            let added = self.converted(&added, self.f.ty(*a).elem());
            self.add(*a, added);
        }
        Ok(())
    }

    /// The derivative of one component.
    fn part_of(&mut self, by: Partial, part: Option<u32>) -> Partial {
        let mut extract = |v: Value| match part {
            Some(k) if self.b.func.ty(v).as_scalar().is_none() => {
                self.b.value(Op::Extract(k), &[v])
            }
            Some(_) | None => v,
        };
        match by {
            Partial::Where(condition) => Partial::Where(extract(condition)),
            Partial::Factor(factor) => Partial::Factor(extract(factor)),
            Partial::Zero | Partial::One | Partial::MinusOne => by,
        }
    }

    /// Applies a function to the components that are there, or to the whole.
    fn each(
        &mut self,
        adjoint: &Adjoint,
        mut apply: impl FnMut(&mut Self, Value, Option<u32>) -> Value,
    ) -> Adjoint {
        match adjoint {
            Adjoint::Whole(x) => Adjoint::Whole(apply(self, *x, None)),
            Adjoint::Parts(parts) => {
                let parts = parts.iter().enumerate();
                let parts = parts.map(|(k, x)| x.map(|x| apply(self, x, Some(k as u32))));
                Adjoint::Parts(parts.collect())
            }
        }
    }

    fn converted(&mut self, adjoint: &Adjoint, to: Option<Scalar>) -> Adjoint {
        match to {
            Some(to) => self.each(adjoint, |this, x, _| this.b.convert(x, to)),
            None => adjoint.clone(),
        }
    }

    fn component(&mut self, inst: Inst, op: ComponentOp, adjoint: &Adjoint) -> Result<()> {
        let data = &self.f.insts[inst];
        let ty = self.f.ty(data.results[0]);
        let arg = data.args.first().copied();
        match op {
            ComponentOp::Splat(_) => {
                let sum = self.sum_of(adjoint, ty);
                if let (Some(sum), Some(a)) = (sum, arg) {
                    self.add(a, Adjoint::Whole(sum));
                }
            }
            ComponentOp::Compose(_) => {
                for (k, a) in data.args.iter().enumerate() {
                    if self.activity.is_active(*a)
                        && let Some(x) = adjoint.part(&mut self.b, k)
                    {
                        self.add(*a, Adjoint::Whole(x));
                    }
                }
            }
            ComponentOp::Extract(k) => {
                let x = adjoint.whole(&mut self.b, ty);
                self.add_part(data.args[0], k as usize, x);
            }
            ComponentOp::Insert(k) => {
                let k = k as usize;
                if let Some(x) = adjoint.part(&mut self.b, k) {
                    self.add(data.args[1], Adjoint::Whole(x));
                }
                let arity = self.b.env.structs.arity(ty) as usize;
                let others = (0..arity).map(|j| {
                    if j == k {
                        return None;
                    }
                    adjoint.part(&mut self.b, j)
                });
                let others = Adjoint::Parts(others.collect());
                self.add(data.args[0], others);
            }
            ComponentOp::ExtractDyn => {
                let at = self.value(data.args[1])?;
                let x = adjoint.whole(&mut self.b, ty);
                let zero = self.b.zero(self.f.ty(data.args[0]));
                let x = self.b.value(Op::InsertDyn, &[zero, at, x]);
                self.add(data.args[0], Adjoint::Whole(x));
            }
            ComponentOp::InsertDyn => {
                let at = self.value(data.args[1])?;
                let x = adjoint.whole(&mut self.b, ty);
                let part = self.b.value(Op::ExtractDyn, &[x, at]);
                self.add(data.args[2], Adjoint::Whole(part));
                let zero = self.b.zero(self.f.ty(data.args[2]));
                let rest = self.b.value(Op::InsertDyn, &[x, at, zero]);
                self.add(data.args[0], Adjoint::Whole(rest));
            }
            ComponentOp::Shuffle(mask) => {
                for (k, from) in mask.iter().enumerate() {
                    if let Some(x) = adjoint.part(&mut self.b, k) {
                        self.add_part(data.args[0], usize::from(*from), x);
                    }
                }
            }
        }
        Ok(())
    }

    /// The sum of all components.
    fn sum_of(&mut self, adjoint: &Adjoint, ty: Type) -> Option<Value> {
        if adjoint.sparse_parts().is_none() {
            let x = adjoint.whole(&mut self.b, ty);
            return Some(self.b.value(Op::Reduce(ReduceOp::Add), &[x]));
        }
        let lanes = self.b.env.structs.arity(ty) as usize;
        (0..lanes).fold(None, |sum, k| match (sum, adjoint.part(&mut self.b, k)) {
            (Some(x), Some(y)) => Some(self.b.binary(BinOp::Add, x, y)),
            (x, y) => x.or(y),
        })
    }

    fn reduce(&mut self, inst: Inst, op: ReduceOp, adjoint: &Adjoint) -> Result<()> {
        let data = &self.f.insts[inst];
        let a = data.args[0];
        let ty = self.f.ty(a);
        let mut x = adjoint.whole(&mut self.b, self.f.ty(data.results[0]));
        if op == ReduceOp::Add {
            let x = self.b.value(Op::Splat(ty), &[x]);
            self.add(a, Adjoint::Whole(x));
            return Ok(());
        }
        // Component by component, as the result was computed.
        let v = self.value(a)?;
        let lanes = ty.lanes().unwrap_or(1);
        let parts: Vec<Value> = (0..lanes)
            .map(|k| self.b.value(Op::Extract(k), &[v]))
            .collect();
        let binary = op.binary();
        let mut partials = vec![parts[0]];
        for part in &parts[1..] {
            let last = partials[partials.len() - 1];
            partials.push(self.b.binary(binary, last, *part));
        }
        let step = ElementwiseOp::Binary(binary);
        for k in (1..parts.len()).rev() {
            let args = [partials[k - 1], parts[k]];
            let own = partial(&mut self.b, step, &args, partials[k], 1);
            let rest = partial(&mut self.b, step, &args, partials[k], 0);
            if let Some(own) = own.times(&mut self.b, x) {
                self.add_part(a, k, own);
            }
            match rest.times(&mut self.b, x) {
                Some(rest) => x = rest,
                None => return Ok(()),
            }
        }
        self.add_part(a, 0, x);
        Ok(())
    }

    fn algebra(&mut self, inst: Inst, op: AlgebraOp, adjoint: &Adjoint) -> Result<()> {
        let data = &self.f.insts[inst];
        let x = adjoint.whole(&mut self.b, self.f.ty(data.results[0]));
        match op {
            AlgebraOp::Transpose => {
                let added = self.algebraic(AlgebraOp::Transpose, &[x]);
                self.add(data.args[0], Adjoint::Whole(added));
            }
            AlgebraOp::Inverse => {
                let inverse = self.value(data.results[0])?;
                let t = self.algebraic(AlgebraOp::Transpose, &[inverse]);
                let added = self.algebraic(AlgebraOp::MatMul, &[t, x]);
                let added = self.algebraic(AlgebraOp::MatMul, &[added, t]);
                let added = self.b.unary(UnOp::Neg, added);
                self.add(data.args[0], Adjoint::Whole(added));
            }
            AlgebraOp::Determinant => {
                let a = self.value(data.args[0])?;
                let cofactors = self.cofactors(a);
                let added = self.by_scalar(cofactors, x);
                self.add(data.args[0], Adjoint::Whole(added));
            }
            AlgebraOp::MatMul | AlgebraOp::Dot | AlgebraOp::Cross | AlgebraOp::Outer => {
                for k in 0..2 {
                    let a = data.args[k];
                    if self.activity.is_active(a) {
                        let other = self.value(data.args[1 - k])?;
                        let added = self.product(op, k, other, x);
                        self.add(a, Adjoint::Whole(added));
                    }
                }
            }
        }
        Ok(())
    }

    fn algebraic(&mut self, op: AlgebraOp, args: &[Value]) -> Value {
        self.b.value(Op::Algebra(op), args)
    }

    fn by_scalar(&mut self, v: Value, x: Value) -> Value {
        let ty = self.b.func.ty(v);
        let x = self.b.value(Op::Splat(ty), &[x]);
        self.b.binary(BinOp::Mul, v, x)
    }

    /// What the adjoint `x` of a product adds to its k-th factor.
    fn product(&mut self, op: AlgebraOp, k: usize, other: Value, x: Value) -> Value {
        match op {
            AlgebraOp::Dot => self.by_scalar(other, x),
            AlgebraOp::Cross => self.cross(k, other, x),
            AlgebraOp::Outer => {
                let matrix = if k == 0 {
                    x
                } else {
                    self.algebraic(AlgebraOp::Transpose, &[x])
                };
                self.algebraic(AlgebraOp::MatMul, &[matrix, other])
            }
            AlgebraOp::MatMul
            | AlgebraOp::Transpose
            | AlgebraOp::Determinant
            | AlgebraOp::Inverse => {
                if k == 1 {
                    let t = self.algebraic(AlgebraOp::Transpose, &[other]);
                    return self.algebraic(AlgebraOp::MatMul, &[t, x]);
                }
                match self.b.func.ty(other) {
                    Type::Matrix(..) => {
                        let t = self.algebraic(AlgebraOp::Transpose, &[other]);
                        self.algebraic(AlgebraOp::MatMul, &[x, t])
                    }
                    Type::Vector(..) | Type::Scalar(_) | Type::Struct(_) => {
                        self.algebraic(AlgebraOp::Outer, &[x, other])
                    }
                }
            }
        }
    }

    fn cross(&mut self, k: usize, other: Value, x: Value) -> Value {
        if self.b.func.ty(x).as_scalar().is_none() {
            let args = if k == 0 { [other, x] } else { [x, other] };
            return self.algebraic(AlgebraOp::Cross, &args);
        }
        // a.x * b.y - a.y * b.x
        let ty = self.b.func.ty(other);
        let first = self.b.value(Op::Extract(0), &[other]);
        let second = self.b.value(Op::Extract(1), &[other]);
        let turned = if k == 0 {
            let first = self.b.unary(UnOp::Neg, first);
            [second, first]
        } else {
            let second = self.b.unary(UnOp::Neg, second);
            [second, first]
        };
        let turned = self.b.value(Op::Compose(ty), &turned);
        self.by_scalar(turned, x)
    }

    /// The matrix of cofactors: the derivative of the determinant, also of singular matrices.
    fn cofactors(&mut self, a: Value) -> Value {
        let ty = self.b.func.ty(a);
        let Type::Matrix(s, n, _) = ty else {
            return a;
        };
        if n == 1 {
            let one = self.b.float(s, 1.0);
            return self.b.value(Op::Splat(ty), &[one]);
        }
        let n = u32::from(n);
        let part: Vec<Value> = (0..n * n)
            .map(|k| self.b.value(Op::Extract(k), &[a]))
            .collect();
        let minor = Type::Matrix(s, n as u16 - 1, n as u16 - 1);
        let mut out = Values::new();
        for row in 0..n {
            for column in 0..n {
                let rest = (0..n * n).filter(|k| k / n != row && k % n != column);
                let rest: Values = rest.map(|k| part[k as usize]).collect();
                let rest = self.b.value(Op::Compose(minor), &rest);
                let det = self.algebraic(AlgebraOp::Determinant, &[rest]);
                let odd = (row + column) % 2 == 1;
                out.push(if odd {
                    self.b.unary(UnOp::Neg, det)
                } else {
                    det
                });
            }
        }
        self.b.value(Op::Compose(ty), &out)
    }
}
