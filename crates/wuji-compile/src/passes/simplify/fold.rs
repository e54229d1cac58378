//! What a pure operation comes down to, looking at the operations its arguments come from. Exact under
//! `docs/ir.md`; a few more rules in fast math.

use crate::options::Options;
use wuji_ir::entities::Value;
use wuji_ir::eval;
use wuji_ir::module::{Function, Values};
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// What to put in the place of an operation.
#[derive(Debug)]
pub(super) enum Fold {
    Value(Value),
    /// A constant in every component of a type.
    Const(Type, Imm),
    /// The same result from another operation.
    Op(Op, Values),
    /// Another operation on a value and a constant in every component of the value's type.
    OpConst(Op, Value, Imm),
}

pub(super) struct Folder<'a> {
    pub(super) f: &'a Function,
    pub(super) fast: bool,
    pub(super) options: &'a Options,
}

impl Folder<'_> {
    fn op(&self, v: Value) -> Option<(&Op, &[Value])> {
        let data = &self.f.insts[self.f.def(v)?];
        Some((&data.op, &data.args))
    }

    /// The constant in every component of a value.
    pub(super) fn uniform(&self, v: Value) -> Option<Imm> {
        let (op, args) = self.op(v)?;
        if let Op::Splat(_) = op {
            return self.f.constant(args[0]);
        }
        self.f.constant(v)
    }

    /// A result of constants, as the machine computes it: in fast math it flushes subnormal numbers.
    fn constant<const N: usize>(
        &self,
        ty: Type,
        operands: [Imm; N],
        eval: impl FnOnce([Imm; N]) -> Option<Imm>,
    ) -> Option<Fold> {
        let result = eval(operands.map(|x| self.flushed(x)))?;
        Some(Fold::Const(ty, self.flushed(result)))
    }

    fn flushed(&self, x: Imm) -> Imm {
        if !self.options.flushes(x.ty) {
            return x;
        }
        let smallest = if x.ty == Scalar::F32 {
            f64::from(f32::MIN_POSITIVE)
        } else {
            f64::MIN_POSITIVE
        };
        if x.as_float().is_some_and(|v| v.abs() < smallest) {
            Imm::from_bits(x.ty, x.bits() & (1 << (x.ty.bits() - 1)))
        } else {
            x
        }
    }

    fn uniform_int(&self, v: Value) -> Option<i128> {
        self.uniform(v)?.as_int()
    }

    /// `op` on values of type `ty`.
    pub(super) fn fold(&self, op: &Op, args: &[Value], ty: Type) -> Option<Fold> {
        match op.class() {
            OpClass::Elementwise(op) => match op {
                ElementwiseOp::Unary(u) => self.unary(u, args[0], ty),
                ElementwiseOp::Binary(b) => self.binary(b, args[0], args[1], ty),
                ElementwiseOp::Compare(c) => self.compare(c, args[0], args[1], ty),
                ElementwiseOp::Select => self.select(args, ty),
                ElementwiseOp::Fma => self.fma(args, ty),
                ElementwiseOp::Convert(to) => self.convert(args[0], to, ty),
                ElementwiseOp::Bitcast(to) => self.bitcast(args[0], to, ty),
            },
            OpClass::Component(op) => match op {
                ComponentOp::Splat(_) => None,
                ComponentOp::Compose(_) => self.compose(args, ty),
                ComponentOp::Extract(k) => self.extract(args[0], k),
                ComponentOp::Insert(k) => self.insert(args, k),
                ComponentOp::ExtractDyn => self.extract_dyn(args, ty),
                ComponentOp::InsertDyn => self.insert_dyn(args, ty),
                ComponentOp::Shuffle(mask) => self.shuffle(args[0], mask, ty),
            },
            OpClass::Algebra(op) => {
                if op != AlgebraOp::Transpose {
                    return None;
                }
                let (inner, inner_args) = self.op(args[0])?;
                if *inner == Op::Algebra(AlgebraOp::Transpose) {
                    return Some(Fold::Value(inner_args[0]));
                }
                let is_splat = matches!(inner, Op::Splat(_));
                is_splat.then(|| Fold::Op(Op::Splat(ty), one(inner_args[0])))
            }
            OpClass::Constant(_)
            | OpClass::Reduce(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Thread(_) => None,
            // Not pure: not asked.
            OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Control(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Check(_) => None,
        }
    }

    fn unary(&self, op: UnOp, a: Value, ty: Type) -> Option<Fold> {
        if let Some(imm) = self.uniform(a) {
            // These only change the sign bit.
            if matches!(op, UnOp::Neg | UnOp::Abs | UnOp::Freeze | UnOp::StopGrad) {
                return eval::unary(op, imm).map(|imm| Fold::Const(ty, imm));
            }
            if self.options.is_written_out(op) {
                return None;
            }
            return self.constant(ty, [imm], |[x]| eval::unary(op, x));
        }
        let (inner, args) = self.op(a)?;
        if let Op::Unary(inner) = *inner {
            let undoes_itself = matches!(op, UnOp::Neg | UnOp::Not);
            let is_idempotent = matches!(
                op,
                UnOp::Abs
                    | UnOp::Floor
                    | UnOp::Ceil
                    | UnOp::Round
                    | UnOp::RoundEven
                    | UnOp::Trunc
                    | UnOp::Sign
                    | UnOp::Freeze
                    | UnOp::StopGrad
            );
            if inner == op && undoes_itself {
                return Some(Fold::Value(args[0]));
            }
            if inner == op && is_idempotent {
                return Some(Fold::Value(a));
            }
            let same_magnitude = op == UnOp::Abs && inner == UnOp::Neg;
            return same_magnitude.then(|| Fold::Op(Op::Unary(UnOp::Abs), one(args[0])));
        }
        let Op::Compare(c) = inner else {
            return None;
        };
        if op != UnOp::Not {
            return None;
        }
        let ordered = self.f.ty(args[0]).elem().is_some_and(|s| !s.is_float());
        let inverse = match c {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            // With NaN, neither of the two holds.
            CmpOp::Lt if ordered => CmpOp::Ge,
            CmpOp::Le if ordered => CmpOp::Gt,
            CmpOp::Gt if ordered => CmpOp::Le,
            CmpOp::Ge if ordered => CmpOp::Lt,
            CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge => return None,
        };
        Some(Fold::Op(Op::Compare(inverse), two(args[0], args[1])))
    }

    fn binary(&self, op: BinOp, a: Value, b: Value, ty: Type) -> Option<Fold> {
        let s = ty.elem()?;
        let (ca, cb) = (self.uniform(a), self.uniform(b));
        if let (Some(x), Some(y)) = (ca, cb) {
            return self.constant(ty, [x, y], |[x, y]| eval::binary(op, x, y));
        }
        if ca.is_some() && op.commutes(s) {
            return Some(Fold::Op(Op::Binary(op), two(b, a)));
        }
        if s.is_float() {
            self.float_binary(op, a, b, cb, ty)
        } else {
            self.int_binary(op, a, b, ca, cb, ty)
        }
    }

    fn int_binary(
        &self,
        op: BinOp,
        a: Value,
        b: Value,
        ca: Option<Imm>,
        cb: Option<Imm>,
        ty: Type,
    ) -> Option<Fold> {
        let s = ty.elem()?;
        let zero = || Some(Fold::Const(ty, Imm::zero(s)));
        let left_zero = ca.is_some_and(|c| c.bits() == 0);
        let is = |n: i128| cb.is_some_and(|c| c == Imm::int(s, n));
        let keep = Some(Fold::Value(a));
        if op == BinOp::Add {
            if is(0) {
                return keep;
            }
            for (x, y) in [(a, b), (b, a)] {
                if let Some((Op::Binary(BinOp::Sub), args)) = self.op(x)
                    && args[1] == y
                {
                    return Some(Fold::Value(args[0]));
                }
            }
            return self.reassociate(BinOp::Add, a, cb?);
        }
        if op == BinOp::Sub {
            if a == b {
                return zero();
            }
            if let Some(c) = cb {
                // One form for `x + c` and `x - c`, so that equal ones are seen to be equal.
                let minus = Imm::int(s, -c.as_int()?);
                return Some(Fold::OpConst(Op::Binary(BinOp::Add), a, minus));
            }
            if let Some((Op::Binary(BinOp::Add), x)) = self.op(a) {
                if x[0] == b {
                    return Some(Fold::Value(x[1]));
                }
                if x[1] == b {
                    return Some(Fold::Value(x[0]));
                }
            }
            let negates = left_zero && s.is_signed_int();
            return negates.then(|| Fold::Op(Op::Unary(UnOp::Neg), one(b)));
        }
        if op == BinOp::Mul {
            if is(0) {
                return zero();
            }
            if is(1) {
                return keep;
            }
            return self.reassociate(BinOp::Mul, a, cb?);
        }
        if op == BinOp::Div {
            if left_zero || is(0) {
                return zero();
            }
            if is(1) {
                return keep;
            }
            let shift = self.power_of_two(cb?)?;
            return Some(Fold::OpConst(Op::Binary(BinOp::Shr), a, shift));
        }
        if op == BinOp::Rem {
            if left_zero || is(0) || is(1) {
                return zero();
            }
            let c = cb?;
            self.power_of_two(c)?;
            let mask = Imm::int(s, c.as_int()? - 1);
            return Some(Fold::OpConst(Op::Binary(BinOp::And), a, mask));
        }
        if op == BinOp::Shl || op == BinOp::Shr {
            if left_zero {
                return zero();
            }
            let width = u64::from(s.bits());
            return (cb?.bits() % width == 0).then_some(Fold::Value(a));
        }
        if op == BinOp::Min || op == BinOp::Max {
            if a == b {
                return keep;
            }
            let (lo, hi) = s.int_range()?;
            let c = cb?;
            let (weakest, strongest) = if op == BinOp::Min { (hi, lo) } else { (lo, hi) };
            if c.as_int() == Some(weakest) {
                return keep;
            }
            if c.as_int() == Some(strongest) {
                return Some(Fold::Const(ty, c));
            }
            return self.reassociate(op, a, c);
        }
        self.bitwise(op, a, b, cb, ty)
    }

    fn bitwise(&self, op: BinOp, a: Value, b: Value, cb: Option<Imm>, ty: Type) -> Option<Fold> {
        let s = ty.elem()?;
        let zero = Imm::zero(s);
        let all_ones = Imm::from_bits(s, u64::MAX);
        let keep = Some(Fold::Value(a));
        if op == BinOp::And {
            if a == b || cb == Some(all_ones) {
                return keep;
            }
            if cb == Some(zero) {
                return Some(Fold::Const(ty, zero));
            }
            if let Some(stronger) = self.stronger(a, b).or_else(|| self.stronger(b, a)) {
                return Some(Fold::Value(stronger));
            }
            return self.reassociate(BinOp::And, a, cb?);
        }
        if op == BinOp::Or {
            if a == b || cb == Some(zero) {
                return keep;
            }
            if cb == Some(all_ones) {
                return Some(Fold::Const(ty, all_ones));
            }
            return self.reassociate(BinOp::Or, a, cb?);
        }
        if op == BinOp::Xor {
            if a == b {
                return Some(Fold::Const(ty, zero));
            }
            if cb == Some(zero) {
                return keep;
            }
            if cb == Some(all_ones) {
                return Some(Fold::Op(Op::Unary(UnOp::Not), one(a)));
            }
            return self.reassociate(BinOp::Xor, a, cb?);
        }
        None
    }

    /// The second condition, if it implies the first one: `x != c` and `x < c`.
    fn stronger(&self, weak: Value, strong: Value) -> Option<Value> {
        let (Op::Compare(CmpOp::Ne), a) = self.op(weak)? else {
            return None;
        };
        let (Op::Compare(CmpOp::Lt | CmpOp::Gt), b) = self.op(strong)? else {
            return None;
        };
        let same = a[0] == b[0] && self.uniform(a[1])? == self.uniform(b[1])?;
        let is_float = self.f.ty(a[0]).elem()?.is_float();
        (same && !is_float).then_some(strong)
    }

    /// `(x op c1) op c2` is `x op (c1 op c2)`, for integers.
    fn reassociate(&self, op: BinOp, a: Value, c: Imm) -> Option<Fold> {
        let (inner, args) = self.op(a)?;
        if *inner != Op::Binary(op) {
            return None;
        }
        let c = eval::binary(op, self.uniform(args[1])?, c)?;
        Some(Fold::OpConst(Op::Binary(op), args[0], c))
    }

    /// `(x * d) * c` as `x * (d * c)`, in fast math, where the factor is in range.
    fn scale(&self, a: Value, c: Imm) -> Option<Fold> {
        let (Op::Binary(BinOp::Mul), args) = self.op(a)? else {
            return None;
        };
        let factor = eval::binary(BinOp::Mul, self.uniform(args[1])?, c)?;
        let in_range = factor.as_float().is_some_and(f64::is_normal);
        in_range.then_some(Fold::OpConst(Op::Binary(BinOp::Mul), args[0], factor))
    }

    /// The exponent of an unsigned power of two.
    fn power_of_two(&self, c: Imm) -> Option<Imm> {
        let power = c.ty.is_unsigned_int() && c.bits().is_power_of_two();
        power.then(|| Imm::int(c.ty, i128::from(c.bits().trailing_zeros())))
    }

    fn float_binary(
        &self,
        op: BinOp,
        a: Value,
        b: Value,
        cb: Option<Imm>,
        ty: Type,
    ) -> Option<Fold> {
        let s = ty.elem()?;
        let is = |x: f64| cb.is_some_and(|c| c == Imm::float(s, x));
        let keep = Some(Fold::Value(a));
        let minus = Some(Fold::Op(Op::Unary(UnOp::Neg), one(a)));
        if op == BinOp::Add || op == BinOp::Sub {
            let (zero, opposite) = if op == BinOp::Add {
                (-0.0, BinOp::Sub)
            } else {
                (0.0, BinOp::Add)
            };
            if is(zero) || (self.fast && is(-zero)) {
                return keep;
            }
            let (inner, args) = self.op(b)?;
            let negated = *inner == Op::Unary(UnOp::Neg);
            return negated.then(|| Fold::Op(Op::Binary(opposite), two(a, args[0])));
        }
        if op == BinOp::Mul || op == BinOp::Div {
            if is(1.0) {
                return keep;
            }
            if is(-1.0) {
                return minus;
            }
        }
        if op == BinOp::Mul && self.fast {
            return self.scale(a, cb?);
        }
        if op == BinOp::Div {
            let c = cb?;
            let x = c.as_float()?;
            let inverse = Imm::float(s, 1.0 / x);
            let y = inverse.as_float()?;
            // The reciprocal of a power of two is one: both forms round the same number.
            let exact = x * y == 1.0 && is_power_of_two(x) && is_power_of_two(y);
            let fast = self.fast && y.is_normal() && x.is_normal();
            // A reciprocal that counts as zero is none.
            let usable = self.flushed(inverse) == inverse;
            return (usable && (exact || fast)).then_some(Fold::OpConst(
                Op::Binary(BinOp::Mul),
                a,
                inverse,
            ));
        }
        if (op == BinOp::Min || op == BinOp::Max) && a == b {
            return keep;
        }
        if op == BinOp::Pow {
            if is(1.0) {
                return keep;
            }
            if is(0.0) || is(-0.0) {
                return Some(Fold::Const(ty, Imm::float(s, 1.0)));
            }
        }
        None
    }

    fn compare(&self, op: CmpOp, a: Value, b: Value, ty: Type) -> Option<Fold> {
        let s = self.f.ty(a).elem()?;
        let (ca, cb) = (self.uniform(a), self.uniform(b));
        let constant = |x: bool| Some(Fold::Const(ty, Imm::bool(x)));
        if let (Some(x), Some(y)) = (ca, cb) {
            return self.constant(ty, [x, y], |[x, y]| eval::compare(op, x, y).map(Imm::bool));
        }
        if a == b {
            return match op {
                CmpOp::Lt | CmpOp::Gt => constant(false),
                CmpOp::Ne if !s.is_float() => constant(false),
                CmpOp::Eq | CmpOp::Le | CmpOp::Ge if !s.is_float() => constant(true),
                CmpOp::Ne | CmpOp::Eq | CmpOp::Le | CmpOp::Ge => None,
            };
        }
        if ca.is_some() {
            let swapped = match op {
                CmpOp::Eq | CmpOp::Ne => op,
                CmpOp::Lt => CmpOp::Gt,
                CmpOp::Le => CmpOp::Ge,
                CmpOp::Gt => CmpOp::Lt,
                CmpOp::Ge => CmpOp::Le,
            };
            return Some(Fold::Op(Op::Compare(swapped), two(b, a)));
        }
        let c = cb?;
        if s == Scalar::Bool {
            let same = (op == CmpOp::Eq) == c.as_bool()?;
            return Some(if same {
                Fold::Value(a)
            } else {
                Fold::Op(Op::Unary(UnOp::Not), one(a))
            });
        }
        let (lo, hi) = s.int_range()?;
        let value = c.as_int()?;
        match op {
            CmpOp::Lt if value == lo => constant(false),
            CmpOp::Ge if value == lo => constant(true),
            CmpOp::Gt if value == hi => constant(false),
            CmpOp::Le if value == hi => constant(true),
            // The sign of a number xor a constant.
            CmpOp::Lt | CmpOp::Ge if value == 0 => {
                let (Op::Binary(BinOp::Xor), args) = self.op(a)? else {
                    return None;
                };
                let is_negated = self.uniform_int(args[1])? < 0;
                let op = if (op == CmpOp::Lt) == is_negated {
                    CmpOp::Ge
                } else {
                    CmpOp::Lt
                };
                Some(Fold::OpConst(Op::Compare(op), args[0], c))
            }
            CmpOp::Lt | CmpOp::Ge | CmpOp::Gt | CmpOp::Le => None,
            // Exact for wrapping sums, unlike the ordered comparisons.
            CmpOp::Eq | CmpOp::Ne => {
                let (Op::Binary(BinOp::Add), args) = self.op(a)? else {
                    return None;
                };
                let moved = Imm::int(s, value - self.uniform_int(args[1])?);
                Some(Fold::OpConst(Op::Compare(op), args[0], moved))
            }
        }
    }

    fn select(&self, args: &[Value], ty: Type) -> Option<Fold> {
        let (c, a, b) = (args[0], args[1], args[2]);
        if a == b {
            return Some(Fold::Value(a));
        }
        if let Some(imm) = self.uniform(c) {
            return Some(Fold::Value(if imm.as_bool()? { a } else { b }));
        }
        if let Some((Op::Unary(UnOp::Not), inner)) = self.op(c) {
            let args: Values = [inner[0], b, a].into_iter().collect();
            return Some(Fold::Op(Op::Select, args));
        }
        if self.f.ty(c) != ty {
            return None;
        }
        // A choice of `bool`s is logic.
        let (ca, cb) = (
            self.uniform(a).and_then(Imm::as_bool),
            self.uniform(b).and_then(Imm::as_bool),
        );
        match (ca, cb) {
            (Some(true), Some(false)) => Some(Fold::Value(c)),
            (Some(false), Some(true)) => Some(Fold::Op(Op::Unary(UnOp::Not), one(c))),
            (None, Some(false)) => Some(Fold::Op(Op::Binary(BinOp::And), two(c, a))),
            (Some(true), None) => Some(Fold::Op(Op::Binary(BinOp::Or), two(c, b))),
            _ => None,
        }
    }

    fn fma(&self, args: &[Value], ty: Type) -> Option<Fold> {
        let s = ty.elem()?;
        let (a, b, c) = (
            self.uniform(args[0]),
            self.uniform(args[1]),
            self.uniform(args[2]),
        );
        if let (Some(a), Some(b), Some(c)) = (a, b, c) {
            return self.constant(ty, [a, b, c], |[a, b, c]| eval::fma(a, b, c));
        }
        let one = Some(Imm::float(s, 1.0));
        if a == one {
            return Some(Fold::Op(Op::Binary(BinOp::Add), two(args[1], args[2])));
        }
        if b == one {
            return Some(Fold::Op(Op::Binary(BinOp::Add), two(args[0], args[2])));
        }
        None
    }

    fn convert(&self, a: Value, to: Scalar, ty: Type) -> Option<Fold> {
        let from = self.f.ty(a).elem()?;
        if from == to {
            return Some(Fold::Value(a));
        }
        if let Some(imm) = self.uniform(a) {
            return self.constant(ty, [imm], |[x]| Some(eval::convert(x, to)));
        }
        let (Op::Convert(_), args) = self.op(a)? else {
            return None;
        };
        let origin = self.f.ty(args[0]).elem()?;
        let keeps_value = match (origin.int_range(), from.int_range()) {
            (Some((lo, hi)), Some((lo2, hi2))) => lo2 <= lo && hi <= hi2,
            (None, None) => origin.bits() <= from.bits(),
            (Some(_), None) => origin == Scalar::Bool,
            (None, Some(_)) => false,
        };
        // Narrowing twice keeps the same low bits as narrowing once.
        let keeps_low_bits =
            origin.is_int() && from.is_int() && to.is_int() && to.bits() <= from.bits();
        (keeps_value || keeps_low_bits).then(|| Fold::Op(Op::Convert(to), one(args[0])))
    }

    fn bitcast(&self, a: Value, to: Scalar, ty: Type) -> Option<Fold> {
        if self.f.ty(a).elem()? == to {
            return Some(Fold::Value(a));
        }
        if let Some(imm) = self.uniform(a) {
            return eval::bitcast(imm, to).map(|imm| Fold::Const(ty, imm));
        }
        let (Op::Bitcast(_), args) = self.op(a)? else {
            return None;
        };
        Some(Fold::Op(Op::Bitcast(to), one(args[0])))
    }

    fn compose(&self, args: &[Value], ty: Type) -> Option<Fold> {
        let first = *args.first()?;
        if ty.elem().is_some() && args.iter().all(|a| *a == first) {
            return Some(Fold::Op(Op::Splat(ty), one(first)));
        }
        // All components of one value, in order: that value.
        let (Op::Extract(0), inner) = self.op(first)? else {
            return None;
        };
        let whole = inner[0];
        let same = self.f.ty(whole) == ty
            && args.iter().enumerate().all(|(k, a)| {
                matches!(self.op(*a), Some((Op::Extract(n), inner))
                    if *n as usize == k && inner[0] == whole)
            });
        same.then_some(Fold::Value(whole))
    }

    fn extract(&self, whole: Value, k: u32) -> Option<Fold> {
        let (op, args) = self.op(whole)?;
        if *op == Op::Algebra(AlgebraOp::Transpose)
            && let Type::Matrix(_, rows, cols) = self.f.ty(args[0])
        {
            let (rows, cols) = (u32::from(rows), u32::from(cols));
            let from = (k % rows) * cols + k / rows;
            return Some(Fold::Op(Op::Extract(from), one(args[0])));
        }
        let OpClass::Component(op) = op.class() else {
            return None;
        };
        match op {
            ComponentOp::Compose(_) => Some(Fold::Value(*args.get(k as usize)?)),
            ComponentOp::Splat(_) => Some(Fold::Value(args[0])),
            ComponentOp::Insert(n) if n == k => Some(Fold::Value(args[1])),
            ComponentOp::Insert(_) => Some(Fold::Op(Op::Extract(k), one(args[0]))),
            ComponentOp::Shuffle(mask) => {
                let from = u32::from(*mask.get(k as usize)?);
                Some(Fold::Op(Op::Extract(from), one(args[0])))
            }
            ComponentOp::Extract(_) | ComponentOp::ExtractDyn | ComponentOp::InsertDyn => None,
        }
    }

    fn insert(&self, args: &[Value], k: u32) -> Option<Fold> {
        let (whole, part) = (args[0], args[1]);
        if let Some((Op::Extract(n), inner)) = self.op(part)
            && *n == k
            && inner[0] == whole
        {
            return Some(Fold::Value(whole));
        }
        let (op, inner) = self.op(whole)?;
        if *op == Op::Insert(k) {
            return Some(Fold::Op(Op::Insert(k), two(inner[0], part)));
        }
        let (ty, mut parts): (Type, Values) = if let Op::Compose(ty) = op {
            (*ty, inner.iter().copied().collect())
        } else if let Op::Splat(ty) = op
            && ty.lanes()? <= 16
        {
            (*ty, (0..ty.lanes()?).map(|_| inner[0]).collect())
        } else {
            return None;
        };
        *parts.get_mut(k as usize)? = part;
        Some(Fold::Op(Op::Compose(ty), parts))
    }

    /// A constant component number: the component, or none of them.
    fn component(&self, whole: Value, index: Value) -> Option<Option<u32>> {
        let k = self.uniform_int(index)?;
        let lanes = i128::from(self.f.ty(whole).lanes()?);
        Some((0..lanes).contains(&k).then_some(k as u32))
    }

    fn extract_dyn(&self, args: &[Value], ty: Type) -> Option<Fold> {
        if let Some((Op::Splat(_), _)) = self.op(args[0])
            && self.uniform(args[0]).is_some_and(|c| c.bits() == 0)
        {
            return Some(Fold::Const(ty, Imm::zero(ty.elem()?)));
        }
        Some(match self.component(args[0], args[1])? {
            Some(k) => Fold::Op(Op::Extract(k), one(args[0])),
            None => Fold::Const(ty, Imm::zero(ty.elem()?)),
        })
    }

    fn insert_dyn(&self, args: &[Value], _: Type) -> Option<Fold> {
        Some(match self.component(args[0], args[1])? {
            Some(k) => Fold::Op(Op::Insert(k), two(args[0], args[2])),
            None => Fold::Value(args[0]),
        })
    }

    fn shuffle(&self, a: Value, mask: &[u8], ty: Type) -> Option<Fold> {
        let identity = mask.iter().enumerate().all(|(k, m)| k == usize::from(*m));
        if identity && self.f.ty(a) == ty {
            return Some(Fold::Value(a));
        }
        let (op, args) = self.op(a)?;
        if let Op::Splat(_) = op {
            return Some(Fold::Op(Op::Splat(ty), one(args[0])));
        }
        if let Op::Compose(_) = op {
            let parts: Values = mask.iter().map(|m| args[usize::from(*m)]).collect();
            return Some(Fold::Op(Op::Compose(ty), parts));
        }
        let Op::Shuffle(inner) = op else {
            return None;
        };
        let mask = mask.iter().map(|m| inner[usize::from(*m)]).collect();
        Some(Fold::Op(Op::Shuffle(mask), one(args[0])))
    }
}

fn one(a: Value) -> Values {
    [a].into_iter().collect()
}

fn two(a: Value, b: Value) -> Values {
    [a, b].into_iter().collect()
}

fn is_power_of_two(x: f64) -> bool {
    x.is_normal() && x.to_bits() << 12 == 0
}
