//! Operator overloading for emitting arithmetic: operators on [`Num`] append instructions to a function.

use super::numbers::{self, Numbers};
use std::cell::{Cell, RefCell};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Shl, Shr, Sub};
use wuji_ir::entities::{Func, Inst, Region, Value};
use wuji_ir::module::{Function, Span, Term, Values};
use wuji_ir::ops::{BinOp, CmpOp, Op, UnOp};
use wuji_ir::types::{Imm, Scalar, Type};

/// The properties of a float type.
#[derive(Copy, Clone, Debug)]
pub(super) struct Format {
    pub(super) float: Scalar,
    /// The signed integers of the same width.
    pub(super) int: Scalar,
    /// Fraction bits of a normal number.
    pub(super) fraction: u32,
    /// The exponent bias.
    pub(super) bias: i64,
    pub(super) numbers: &'static Numbers,
}

impl Format {
    /// The format of `f64`, or of `f32`, which also computes `f16`.
    pub(super) fn of(scalar: Scalar) -> Format {
        match scalar {
            Scalar::F64 => Format {
                float: Scalar::F64,
                int: Scalar::I64,
                fraction: 52,
                bias: 1023,
                numbers: &numbers::F64,
            },
            _ => Format {
                float: Scalar::F32,
                int: Scalar::I32,
                fraction: 23,
                bias: 127,
                numbers: &numbers::F32,
            },
        }
    }

    /// Bits of the significand, including the implicit one.
    pub(super) fn precision(self) -> u32 {
        self.fraction + 1
    }

    /// One number for `f32`, the other for `f64`.
    pub(super) fn pick<T>(self, narrow: T, wide: T) -> T {
        match self.float {
            Scalar::F64 => wide,
            _ => narrow,
        }
    }

    /// A number whose last bit is worth 1, used for rounding.
    fn large(self) -> f64 {
        1.5 * 2f64.powi(self.fraction as i32)
    }

    fn sign_bit(self) -> i128 {
        -(1 << (self.float.bits() - 1))
    }
}

/// What the machine does with numbers of the format.
#[derive(Copy, Clone, Debug)]
pub(super) struct Machine {
    /// It has an `exp2` instruction.
    pub(super) has_exp2: bool,
    /// Subnormal numbers count as zero.
    pub(super) flushes: bool,
}

/// A function under construction.
#[derive(Debug)]
pub(super) struct Writer {
    f: RefCell<Function>,
    region: Cell<Region>,
    pub(super) format: Format,
    pub(super) machine: Machine,
}

impl Writer {
    pub(super) fn new(
        name: String,
        params: &[Scalar],
        results: &[Scalar],
        format: Format,
        machine: Machine,
    ) -> Writer {
        let types = |s: &[Scalar]| s.iter().map(|s| Type::Scalar(*s)).collect::<Vec<_>>();
        let f = Function::new(name, &types(params), &types(results));
        Writer {
            region: Cell::new(f.entry),
            f: RefCell::new(f),
            format,
            machine,
        }
    }

    pub(super) fn param(&self, number: usize) -> Num<'_> {
        self.num(self.f.borrow().params()[number])
    }

    /// Finishes the function with these results.
    pub(super) fn finish(self, results: &[Value]) -> Function {
        self.end(Term::Return(results.into()));
        self.f.into_inner()
    }

    fn num(&self, value: Value) -> Num<'_> {
        Num { w: self, value }
    }

    fn push(&self, op: Op, args: &[Value], results: &[Type]) -> Inst {
        let mut f = self.f.borrow_mut();
        let inst = f.add_inst(op, args.into(), results, Span::UNKNOWN);
        f.regions[self.region.get()].insts.push(inst);
        inst
    }

    fn emit(&self, op: Op, args: &[Value], result: Scalar) -> Num<'_> {
        let inst = self.push(op, args, &[Type::Scalar(result)]);
        let value = self.f.borrow().result(inst);
        self.num(value)
    }

    fn end(&self, term: Term) {
        self.f.borrow_mut().regions[self.region.get()].term = term;
    }

    fn results(&self, inst: Inst) -> Vec<Num<'_>> {
        let values = self.f.borrow().insts[inst].results.clone();
        values.into_iter().map(|v| self.num(v)).collect()
    }

    /// A number of the format.
    pub(super) fn float(&self, value: f64) -> Num<'_> {
        let ty = self.format.float;
        self.emit(Op::Const(Imm::float(ty, value)), &[], ty)
    }

    pub(super) fn int(&self, ty: Scalar, value: i128) -> Num<'_> {
        self.emit(Op::Const(Imm::int(ty, value)), &[], ty)
    }

    pub(super) fn infinity(&self) -> Num<'_> {
        self.float(f64::INFINITY)
    }

    pub(super) fn nan(&self) -> Num<'_> {
        self.float(f64::NAN)
    }

    /// `2^n` for an `n` in the range of normal numbers.
    pub(super) fn power_of_two<'w>(&'w self, n: Num<'w>) -> Num<'w> {
        let field = n + self.format.bias as i32;
        (field << self.format.fraction as i32).as_float()
    }

    pub(super) fn call<'w>(
        &'w self,
        callee: Func,
        args: &[Num<'w>],
        results: &[Scalar],
    ) -> Vec<Num<'w>> {
        let args: Vec<Value> = args.iter().map(|a| a.value).collect();
        let types: Vec<Type> = results.iter().map(|s| Type::Scalar(*s)).collect();
        self.results(self.push(Op::Call(callee), &args, &types))
    }

    fn inside<'w>(&'w self, params: &[Type], fill: impl FnOnce(Vec<Num<'w>>) -> Term) -> Region {
        let region = self.f.borrow_mut().add_region(params);
        let outer = self.region.replace(region);
        let values = self.f.borrow().regions[region].params.clone();
        let term = fill(values.into_iter().map(|v| self.num(v)).collect());
        self.end(term);
        self.region.set(outer);
        region
    }

    /// `if`; both sides yield numbers of these types.
    pub(super) fn branch<'w>(
        &'w self,
        condition: Num<'w>,
        results: &[Scalar],
        then: impl FnOnce() -> Vec<Num<'w>>,
        otherwise: impl FnOnce() -> Vec<Num<'w>>,
    ) -> Vec<Num<'w>> {
        let types: Vec<Type> = results.iter().map(|s| Type::Scalar(*s)).collect();
        let inst = self.push(Op::If, &[condition.value], &types);
        let a = self.inside(&[], |_| Term::Yield(values(&then())));
        let b = self.inside(&[], |_| Term::Yield(values(&otherwise())));
        self.f.borrow_mut().insts[inst].regions.extend([a, b]);
        self.results(inst)
    }

    /// A number of the format that is updated while a condition holds.
    pub(super) fn repeat<'w>(
        &'w self,
        start: Num<'w>,
        continues: impl FnOnce(Num<'w>) -> Num<'w>,
        step: impl FnOnce(Num<'w>) -> Num<'w>,
    ) -> Num<'w> {
        let label = self.f.borrow_mut().fresh_label();
        let ty = Type::Scalar(start.scalar());
        let inst = self.push(Op::Loop(label), &[start.value], &[ty]);
        let body = self.inside(&[ty], |carried| {
            let held = carried[0];
            let condition = continues(held);
            let branch = self.push(Op::If, &[condition.value], &[]);
            let a = self.inside(&[], |_| Term::Continue(label, values(&[step(held)])));
            let b = self.inside(&[], |_| Term::Break(label, values(&[held])));
            self.f.borrow_mut().insts[branch].regions.extend([a, b]);
            Term::Unreachable
        });
        self.f.borrow_mut().insts[inst].regions.push(body);
        self.results(inst)[0]
    }
}

fn values(numbers: &[Num<'_>]) -> Values {
    numbers.iter().map(|n| n.value).collect()
}

/// A value of the function under construction.
#[derive(Copy, Clone, Debug)]
pub(super) struct Num<'w> {
    w: &'w Writer,
    pub(super) value: Value,
}

/// The right operand of an operator: a value, or a literal, which takes the type of the left operand.
pub(super) trait Operand<'w> {
    fn beside(self, left: Num<'w>) -> Num<'w>;
}

impl<'w> Operand<'w> for Num<'w> {
    fn beside(self, _: Num<'w>) -> Num<'w> {
        self
    }
}

impl<'w> Operand<'w> for f64 {
    fn beside(self, left: Num<'w>) -> Num<'w> {
        left.w.float(self)
    }
}

impl<'w> Operand<'w> for i32 {
    fn beside(self, left: Num<'w>) -> Num<'w> {
        left.w.int(left.scalar(), i128::from(self))
    }
}

impl<'w> Operand<'w> for i64 {
    fn beside(self, left: Num<'w>) -> Num<'w> {
        left.w.int(left.scalar(), i128::from(self))
    }
}

impl<'w> Num<'w> {
    pub(super) fn scalar(self) -> Scalar {
        let ty = self.w.f.borrow().ty(self.value);
        ty.as_scalar().unwrap_or(self.w.format.float)
    }

    fn binary(self, op: BinOp, other: impl Operand<'w>) -> Num<'w> {
        let other = other.beside(self);
        let args = [self.value, other.value];
        self.w.emit(Op::Binary(op), &args, self.scalar())
    }

    fn unary(self, op: UnOp) -> Num<'w> {
        self.w.emit(Op::Unary(op), &[self.value], self.scalar())
    }

    fn compare(self, op: CmpOp, other: impl Operand<'w>) -> Num<'w> {
        let other = other.beside(self);
        let args = [self.value, other.value];
        self.w.emit(Op::Compare(op), &args, Scalar::Bool)
    }

    pub(super) fn lt(self, other: impl Operand<'w>) -> Num<'w> {
        self.compare(CmpOp::Lt, other)
    }

    pub(super) fn gt(self, other: impl Operand<'w>) -> Num<'w> {
        self.compare(CmpOp::Gt, other)
    }

    pub(super) fn le(self, other: impl Operand<'w>) -> Num<'w> {
        self.compare(CmpOp::Le, other)
    }

    pub(super) fn ge(self, other: impl Operand<'w>) -> Num<'w> {
        self.compare(CmpOp::Ge, other)
    }

    pub(super) fn eq(self, other: impl Operand<'w>) -> Num<'w> {
        self.compare(CmpOp::Eq, other)
    }

    pub(super) fn ne(self, other: impl Operand<'w>) -> Num<'w> {
        self.compare(CmpOp::Ne, other)
    }

    pub(super) fn is_nan(self) -> Num<'w> {
        self.ne(self)
    }

    /// The negation of a condition.
    pub(super) fn not(self) -> Num<'w> {
        self.unary(UnOp::Not)
    }

    /// Selects by a condition.
    pub(super) fn select(self, yes: Num<'w>, no: impl Operand<'w>) -> Num<'w> {
        let no = no.beside(yes);
        let args = [self.value, yes.value, no.value];
        self.w.emit(Op::Select, &args, yes.scalar())
    }

    /// `self * factor + sum`, rounded once.
    pub(super) fn fma(self, factor: impl Operand<'w>, sum: impl Operand<'w>) -> Num<'w> {
        let (factor, sum) = (factor.beside(self), sum.beside(self));
        let args = [self.value, factor.value, sum.value];
        self.w.emit(Op::Fma, &args, self.scalar())
    }

    pub(super) fn abs(self) -> Num<'w> {
        self.unary(UnOp::Abs)
    }

    /// The `exp2` instruction of the target.
    pub(super) fn exp2(self) -> Num<'w> {
        self.unary(UnOp::Exp2)
    }

    pub(super) fn sqrt(self) -> Num<'w> {
        self.unary(UnOp::Sqrt)
    }

    pub(super) fn floor(self) -> Num<'w> {
        self.unary(UnOp::Floor)
    }

    pub(super) fn trunc(self) -> Num<'w> {
        self.unary(UnOp::Trunc)
    }

    pub(super) fn leading_zeros(self) -> Num<'w> {
        self.unary(UnOp::LeadingZeros)
    }

    pub(super) fn min(self, other: impl Operand<'w>) -> Num<'w> {
        self.binary(BinOp::Min, other)
    }

    pub(super) fn max(self, other: impl Operand<'w>) -> Num<'w> {
        self.binary(BinOp::Max, other)
    }

    /// Converts by value to another type.
    pub(super) fn to(self, ty: Scalar) -> Num<'w> {
        if self.scalar() == ty {
            return self;
        }
        self.w.emit(Op::Convert(ty), &[self.value], ty)
    }

    pub(super) fn to_float(self) -> Num<'w> {
        self.to(self.w.format.float)
    }

    /// The bits of a float, as a signed integer.
    pub(super) fn bits(self) -> Num<'w> {
        let ty = self.w.format.int;
        self.w.emit(Op::Bitcast(ty), &[self.value], ty)
    }

    /// The float that has these bits.
    pub(super) fn as_float(self) -> Num<'w> {
        let ty = self.w.format.float;
        self.w.emit(Op::Bitcast(ty), &[self.value], ty)
    }

    /// The sign bit of a float.
    pub(super) fn sign(self) -> Num<'w> {
        let mask = self.w.int(self.w.format.int, self.w.format.sign_bit());
        self.bits() & mask
    }

    /// Changes the sign if the sign bit `sign` is set.
    pub(super) fn flipped(self, sign: Num<'w>) -> Num<'w> {
        (self.bits() ^ sign).as_float()
    }

    /// A nonnegative number with the sign of another one.
    pub(super) fn signed_as(self, other: Num<'w>) -> Num<'w> {
        (self.bits() | other.sign()).as_float()
    }

    /// Evaluates the polynomial with these coefficients, constant first.
    pub(super) fn polynomial(self, coefficients: &[f64]) -> Num<'w> {
        let Some((last, rest)) = coefficients.split_last() else {
            return self.w.float(0.0);
        };
        let last = self.w.float(*last);
        rest.iter().rev().fold(last, |sum, c| sum.fma(self, *c))
    }

    /// The integer nearest to `self * factor`, which is below `2^(p - 3)`: as a float, and as an integer with
    /// garbage in its upper bits. Adding a number whose last bit is worth 1 rounds to integers, which is faster
    /// than a rounding and a conversion.
    pub(super) fn nearest(self, factor: f64) -> (Num<'w>, Num<'w>) {
        let large = self.w.format.large();
        let sum = self.fma(factor, large);
        (sum - large, sum.bits())
    }

    /// The same, with a clean integer.
    pub(super) fn nearest_whole(self, factor: f64) -> (Num<'w>, Num<'w>) {
        let (n, bits) = self.nearest(factor);
        let large = self.w.float(self.w.format.large()).bits();
        (n, bits - large)
    }

    /// `self * 2^n`, rounded once, for a number near 1 and any `n` whose half is in the exponent range.
    pub(super) fn scaled(self, n: Num<'w>) -> Num<'w> {
        let half = n >> 1;
        self * self.w.power_of_two(half) * self.w.power_of_two(n - half)
    }

    /// `self * 2^n` for a number near 1, if that is a normal number.
    pub(super) fn with_exponent(self, n: Num<'w>) -> Num<'w> {
        (self.bits() + (n << self.w.format.fraction as i32)).as_float()
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<'w, R: Operand<'w>> $trait<R> for Num<'w> {
            type Output = Num<'w>;
            fn $method(self, right: R) -> Num<'w> {
                self.binary(BinOp::$op, right)
            }
        }
    )*};
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    BitAnd bitand And;
    BitOr bitor Or;
    BitXor bitxor Xor;
    Shl shl Shl;
    Shr shr Shr;
}

impl<'w> Neg for Num<'w> {
    type Output = Num<'w>;
    fn neg(self) -> Num<'w> {
        self.unary(UnOp::Neg)
    }
}
