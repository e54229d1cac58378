//! `pow` with a constant exponent: roots and products, where they are as accurate as the function has to be.

use super::Simplifier;
use crate::options::Math;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::Span;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Type};

/// Where the parts of a power go.
#[derive(Copy, Clone)]
struct Here {
    ty: Type,
    span: Span,
}

impl Simplifier<'_, '_> {
    /// What a power with a constant exponent comes down to. A constant base makes no difference, so that folding it changes nothing.
    pub(super) fn power(&mut self, inst: Inst) -> Option<Value> {
        let data = &self.f.insts[inst];
        if data.op != Op::Binary(BinOp::Pow) {
            return None;
        }
        let (x, y) = (data.args[0], data.args[1]);
        let exponent = self.folder().uniform(y)?.as_float()?;
        let here = Here {
            ty: self.f.ty(self.f.result(inst)),
            span: self.f.spans[inst],
        };
        // By definition.
        const ALWAYS: [f64; 2] = [0.5, 2.0];
        // Within 4 ulp: no more than four roundings, and no step leaves the range before the result does.
        const LOOSE: [f64; 7] = [-2.0, -1.0, -0.5, 1.5, 3.0, 4.0, 5.0];
        let strict = self.cx.options.math == Math::Strict || self.f.traits.precise;
        let loose = !strict && LOOSE.contains(&exponent);
        if !(loose || ALWAYS.contains(&exponent)) || !self.cx.fuel() {
            return None;
        }
        Some(self.product_or_root(x, exponent, here))
    }

    fn product_or_root(&mut self, x: Value, exponent: f64, here: Here) -> Value {
        let times = |s: &mut Self, a, b| s.part(BinOp::Mul, a, b, here);
        if exponent == 0.5 || exponent == -0.5 {
            return self.root(x, exponent, here);
        }
        if exponent == 1.5 {
            let root = self.root(x, 0.5, here);
            let product = times(self, x, root);
            return self.unless_minus_infinity(x, f64::INFINITY, product, here);
        }
        if exponent < 0.0 {
            let one = self.number(1.0, here);
            let inverse = self.part(BinOp::Div, one, x, here);
            if exponent == -1.0 {
                return inverse;
            }
            return times(self, inverse, inverse);
        }
        let square = times(self, x, x);
        if exponent == 2.0 {
            return square;
        }
        if exponent == 3.0 {
            return times(self, square, x);
        }
        let fourth = times(self, square, square);
        if exponent == 4.0 {
            return fourth;
        }
        times(self, fourth, x)
    }

    /// The root of -0 is 0, and that of minus infinity infinity, unlike `sqrt`.
    fn root(&mut self, x: Value, exponent: f64, here: Here) -> Value {
        let zero = self.number(0.0, here);
        // Fast math would drop a plain sum.
        let unsigned = self.part(BinOp::PreciseAdd, x, zero, here);
        let (op, end) = if exponent < 0.0 {
            (UnOp::Rsqrt, 0.0)
        } else {
            (UnOp::Sqrt, f64::INFINITY)
        };
        let args = [unsigned].into_iter().collect();
        let root = self.emit(Op::Unary(op), args, here.ty, here.span);
        self.unless_minus_infinity(x, end, root, here)
    }

    fn unless_minus_infinity(&mut self, x: Value, then: f64, other: Value, here: Here) -> Value {
        let (infinity, then) = (
            self.number(f64::NEG_INFINITY, here),
            self.number(then, here),
        );
        let bools = here.ty.with_elem(wuji_ir::types::Scalar::Bool);
        let args = [x, infinity].into_iter().collect();
        let is = self.emit(Op::Compare(CmpOp::Eq), args, bools, here.span);
        let args = [is, then, other].into_iter().collect();
        self.emit(Op::Select, args, here.ty, here.span)
    }

    fn part(&mut self, op: BinOp, a: Value, b: Value, here: Here) -> Value {
        let args = [a, b].into_iter().collect();
        self.emit(Op::Binary(op), args, here.ty, here.span)
    }

    fn number(&mut self, value: f64, here: Here) -> Value {
        let scalar = here.ty.elem().unwrap_or(wuji_ir::types::Scalar::F64);
        self.constant(here.ty, Imm::float(scalar, value), here.span)
    }
}
