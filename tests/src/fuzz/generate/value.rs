//! Expressions of any type.

use super::Generator;
use super::types::any_imm;
use wuji_ir::entities::Value;
use wuji_ir::infer;
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, I64, Imm, Scalar, Type, U64};

impl Generator<'_> {
    /// A value of a type, as an expression of about this depth.
    pub(super) fn value(&mut self, ty: Type, depth: usize) -> Value {
        self.budget -= 1;
        if depth == 0 || self.budget <= 0 {
            return self.leaf(ty);
        }
        for _ in 0..4 {
            if let Some(value) = self.operation(ty, depth - 1) {
                return self.keep(value);
            }
        }
        self.leaf(ty)
    }

    /// An existing value, or a constant.
    fn leaf(&mut self, ty: Type) -> Value {
        let known: Vec<Value> = self
            .body
            .visible
            .iter()
            .copied()
            .filter(|v| self.ty(*v) == ty)
            .collect();
        if !known.is_empty() && self.dice.chance(85) {
            // Prefer values that are rarely used.
            let from = if self.dice.chance(50) {
                known.len().saturating_sub(3)
            } else {
                0
            };
            return *self.dice.pick(&known[from..]);
        }
        self.constant(ty)
    }

    fn constant(&mut self, ty: Type) -> Value {
        match ty {
            Type::Scalar(s) => {
                let imm = any_imm(self.dice, s);
                self.b().imm(imm)
            }
            Type::Vector(s, _) | Type::Matrix(s, _, _) if self.dice.chance(40) => {
                let imm = any_imm(self.dice, s);
                self.splat(ty, imm)
            }
            Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => {
                let types: Vec<Type> = (0..self.m.structs.arity(ty))
                    .filter_map(|k| self.m.structs.component(ty, k))
                    .collect();
                let parts: Vec<Value> = types.into_iter().map(|t| self.leaf(t)).collect();
                self.b().value(Op::Compose(ty), &parts)
            }
        }
    }

    fn values<const N: usize>(&mut self, types: [Type; N], depth: usize) -> [Value; N] {
        types.map(|ty| self.value(ty, depth))
    }

    fn apply<const N: usize>(&mut self, op: Op, types: [Type; N], depth: usize) -> Option<Value> {
        let args = self.values(types, depth);
        Some(self.b().value(op, &args))
    }

    fn operation(&mut self, ty: Type, depth: usize) -> Option<Value> {
        match self.dice.weighted(&[14, 5, 6, 5, 4, 2, 2]) {
            0 => self.compute(ty, depth),
            1 => self.aggregate(ty, depth),
            2 => self.load(ty),
            3 => self.load_local(ty),
            4 => self.out_of_aggregate(ty, depth),
            5 => self.call_for(ty),
            _ => self.choice(ty, depth),
        }
    }

    /// Element by element.
    fn compute(&mut self, ty: Type, depth: usize) -> Option<Value> {
        let s = ty.elem()?;
        match self.dice.weighted(&[4, 8, 2, 2, 3, 2, 6]) {
            0 => {
                let ops: Vec<UnOp> = UnOp::ALL
                    .iter()
                    .copied()
                    .filter(|op| infer::unary(*op, ty).is_ok())
                    .collect();
                let op = *self.dice.pick(&ops);
                self.apply(Op::Unary(op), [ty], depth)
            }
            1 => {
                let ops: Vec<BinOp> = BinOp::ALL
                    .iter()
                    .copied()
                    .filter(|op| infer::binary(*op, ty).is_ok())
                    .collect();
                let op = *self.dice.pick(&ops);
                let [a, b] = self.pair(ty, depth);
                Some(self.b().binary(op, a, b))
            }
            2 => {
                let condition = if self.dice.chance(50) {
                    BOOL
                } else {
                    ty.with_elem(Scalar::Bool)
                };
                self.apply(Op::Select, [condition, ty, ty], depth)
            }
            3 if s.is_float() => self.apply(Op::Fma, [ty, ty, ty], depth),
            4 => {
                let from = if self.dice.chance(60) {
                    self.any_plain_type().elem().unwrap_or(s)
                } else {
                    *self.dice.pick(&Scalar::ALL)
                };
                self.apply(Op::Convert(s), [ty.with_elem(from)], depth)
            }
            5 => {
                let same: Vec<Scalar> = Scalar::ALL
                    .into_iter()
                    .filter(|t| t.bits() == s.bits())
                    .collect();
                let from = *self.dice.pick(&same);
                let x = self.value(ty.with_elem(from), depth);
                let x = if s.is_float() { x } else { self.without_nan(x) };
                Some(self.b().value(Op::Bitcast(s), &[x]))
            }
            6 if s == Scalar::Bool => {
                let of = if self.dice.chance(70) {
                    self.any_plain_type().elem().unwrap_or(s)
                } else {
                    *self.dice.pick(&Scalar::ALL)
                };
                let op = match of {
                    Scalar::Bool => *self.dice.pick(&[CmpOp::Eq, CmpOp::Ne]),
                    _ => *self.dice.pick(CmpOp::ALL),
                };
                let of = ty.with_elem(of);
                let [a, b] = self.pair(of, depth);
                Some(self.b().compare(op, a, b))
            }
            _ => None,
        }
    }

    /// Two operands: sometimes equal, sometimes with a constant that algebraic rules match.
    fn pair(&mut self, ty: Type, depth: usize) -> [Value; 2] {
        let a = self.value(ty, depth);
        let b = match (self.dice.weighted(&[14, 2, 4]), ty.elem()) {
            (1, _) => a,
            (2, Some(s)) => {
                let imm = match (s.is_float(), s.int_range()) {
                    (true, _) => {
                        let known = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, f64::NAN, f64::INFINITY];
                        Imm::float(s, *self.dice.pick(&known))
                    }
                    (false, Some((lo, hi))) => {
                        let known = [0, 1, -1, 2, 3, 4, 8, 10, lo, hi, hi + 1];
                        Imm::int(s, *self.dice.pick(&known))
                    }
                    (false, None) => any_imm(self.dice, s),
                };
                self.splat(ty, imm)
            }
            _ => self.value(ty, depth),
        };
        if self.dice.chance(50) { [a, b] } else { [b, a] }
    }

    /// Vectors, matrices and structs from other things.
    fn aggregate(&mut self, ty: Type, depth: usize) -> Option<Value> {
        if let Type::Scalar(_) = ty {
            return None;
        }
        let arity = self.m.structs.arity(ty);
        match (self.dice.below(7), ty) {
            (0, Type::Vector(s, _) | Type::Matrix(s, _, _)) => {
                self.apply(Op::Splat(ty), [Type::Scalar(s)], depth)
            }
            (1, _) if arity > 0 => {
                let k = self.dice.below(arity as usize) as u32;
                let part = self.m.structs.component(ty, k)?;
                self.apply(Op::Insert(k), [ty, part], depth)
            }
            (2, Type::Vector(s, _) | Type::Matrix(s, _, _)) => {
                let whole = self.value(ty, depth);
                let index = self.any_index((0, u64::from(arity)));
                self.checked_index(index, arity);
                let part = self.value(Type::Scalar(s), depth);
                Some(self.b().value(Op::InsertDyn, &[whole, index, part]))
            }
            (3, Type::Vector(s, n)) => {
                let m = self.dice.between(1, 4) as u16;
                let mask = (0..n).map(|_| self.dice.below(m.into()) as u8).collect();
                self.apply(Op::Shuffle(mask), [Type::Vector(s, m)], depth)
            }
            (4, _) if ty.elem() != Some(Scalar::Bool) => self.algebra(ty, depth),
            (5, Type::Matrix(s, r, c)) => self.apply(
                Op::Algebra(AlgebraOp::Transpose),
                [Type::Matrix(s, c, r)],
                depth,
            ),
            _ => {
                let types: Vec<Type> = (0..arity)
                    .filter_map(|k| self.m.structs.component(ty, k))
                    .collect();
                let parts: Vec<Value> = types
                    .into_iter()
                    .map(|t| self.value(t, depth.min(1)))
                    .collect();
                Some(self.b().value(Op::Compose(ty), &parts))
            }
        }
    }

    fn algebra(&mut self, ty: Type, depth: usize) -> Option<Value> {
        let k = self.dice.between(1, 3) as u16;
        match ty {
            Type::Vector(s, 3) if self.dice.chance(50) => {
                let v = Type::Vector(s, 3);
                self.apply(Op::Algebra(AlgebraOp::Cross), [v, v], depth)
            }
            Type::Vector(s, n) => self.apply(
                Op::Algebra(AlgebraOp::MatMul),
                [Type::Matrix(s, n, k), Type::Vector(s, k)],
                depth,
            ),
            Type::Matrix(s, r, c) if r == c && s.is_float() && self.dice.chance(40) => {
                self.apply(Op::Algebra(AlgebraOp::Inverse), [ty], depth)
            }
            Type::Matrix(s, r, c) if self.dice.chance(40) => self.apply(
                Op::Algebra(AlgebraOp::Outer),
                [Type::Vector(s, r), Type::Vector(s, c)],
                depth,
            ),
            Type::Matrix(s, r, c) => self.apply(
                Op::Algebra(AlgebraOp::MatMul),
                [Type::Matrix(s, r, k), Type::Matrix(s, k, c)],
                depth,
            ),
            Type::Scalar(_) | Type::Struct(_) => None,
        }
    }

    /// Scalars from vectors and matrices, anything from structs, and scalars from other sources.
    fn out_of_aggregate(&mut self, ty: Type, depth: usize) -> Option<Value> {
        let owners: Vec<(Type, u32)> = self
            .types
            .iter()
            .flat_map(|t| (0..self.m.structs.arity(*t)).map(move |k| (*t, k)))
            .filter(|(t, k)| self.m.structs.component(*t, *k) == Some(ty))
            .collect();
        let choice = self.dice.below(7);
        if choice == 0 && !owners.is_empty() {
            let (owner, k) = *self.dice.pick(&owners);
            return self.apply(Op::Extract(k), [owner], depth);
        }
        let s = ty.as_scalar()?;
        match choice {
            1 => {
                let whole = self.any_shape(s);
                let value = self.value(whole, depth);
                let count = self.m.structs.arity(whole);
                let index = self.any_index((0, u64::from(count)));
                self.checked_index(index, count);
                Some(self.b().value(Op::ExtractDyn, &[value, index]))
            }
            2 => {
                let ops: Vec<ReduceOp> = ReduceOp::ALL
                    .iter()
                    .copied()
                    .filter(|op| match op {
                        ReduceOp::And | ReduceOp::Or => !s.is_float(),
                        ReduceOp::Add | ReduceOp::Mul | ReduceOp::Min | ReduceOp::Max => {
                            s != Scalar::Bool
                        }
                    })
                    .collect();
                let op = *self.dice.pick(&ops);
                let whole = self.any_shape(s);
                self.apply(Op::Reduce(op), [whole], depth)
            }
            3 if s != Scalar::Bool => {
                let v = Type::Vector(s, self.dice.between(1, 4) as u16);
                self.apply(Op::Algebra(AlgebraOp::Dot), [v, v], depth)
            }
            4 if s.is_float() => {
                let n = self.dice.between(1, 4) as u16;
                self.apply(
                    Op::Algebra(AlgebraOp::Determinant),
                    [Type::Matrix(s, n, n)],
                    depth,
                )
            }
            4 if s != Scalar::Bool => {
                let v = Type::Vector(s, 2);
                self.apply(Op::Algebra(AlgebraOp::Cross), [v, v], depth)
            }
            5 if ty == I64 => {
                let axes: Vec<Op> = self
                    .m
                    .arrays
                    .iter()
                    .flat_map(|(a, d)| (0..d.rank).map(move |k| Op::ArrayExtent(a, k)))
                    .collect();
                if axes.is_empty() {
                    None
                } else {
                    let op = self.dice.pick(&axes).clone();
                    Some(self.b().value(op, &[]))
                }
            }
            5 | 6 if ty == U64 && !self.waits => Some(self.b().value(Op::Random, &[])),
            6 if s != Scalar::Bool && !self.waits && self.dice.chance(30) => {
                let bits = self.b().value(Op::Random, &[]);
                Some(self.b().convert(bits, s))
            }
            _ => None,
        }
    }

    /// Frontends check component indices; sometimes we do not.
    fn checked_index(&mut self, index: Value, count: u32) {
        if self.dice.chance(60) && !self.waits {
            self.b().push(Op::CheckIndex(count), &[index]);
        }
    }

    /// An `if` that yields the value.
    fn choice(&mut self, ty: Type, depth: usize) -> Option<Value> {
        if self.body.nesting > 6 {
            return None;
        }
        let condition = self.condition(depth);
        let inst = self.b().push_typed(Op::If, &[condition], &[ty]);
        for _ in 0..2 {
            let side = self.region(&[], |g, _| {
                let value = g.value(ty, depth);
                g.b()
                    .end(wuji_ir::module::Term::Yield([value].into_iter().collect()));
            });
            self.body.f.insts[inst].regions.push(side);
        }
        Some(self.body.f.result(inst))
    }

    /// A `bool` that is rarely constant.
    pub(super) fn condition(&mut self, depth: usize) -> Value {
        if let Some((index, lo, hi)) = self.body.indices.last().copied()
            && self.dice.chance(40)
        {
            let s = self.ty(index).as_scalar().unwrap_or(Scalar::I64);
            let at = self.dice.between(lo, hi.max(lo));
            let op = *self.dice.pick(CmpOp::ALL);
            let at = self.b().imm(Imm::int(s, i128::from(at)));
            return self.b().compare(op, index, at);
        }
        self.value(BOOL, depth.max(2))
    }
}
