//! Operations on large vectors and matrices, as loops.

use super::{Rewriter, is_large, large};
use smallvec::SmallVec;
use wuji_ir::entities::*;
use wuji_ir::module::Values;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Type};

impl Rewriter<'_> {
    /// Component by component.
    pub(super) fn elementwise(&mut self, inst: Inst, at: u32, op: &Op, args: &[Value]) {
        let to = self.target(inst, at, args, true);
        let (_, n) = self.key(to);
        self.each(n, |this, k| {
            let lane: Values = args
                .iter()
                .map(|a| match this.values.get(a).copied() {
                    Some(array) => this.load(array, k, Guard::InBounds),
                    None => *a,
                })
                .collect();
            let x = this.b.value(op.clone(), &lane);
            this.store(to, k, x);
        });
        self.define(inst, to);
    }

    pub(super) fn component(&mut self, inst: Inst, at: u32, op: ComponentOp<'_>, args: &[Value]) {
        let to_struct = matches!(
            self.b.func.insts[inst]
                .results
                .first()
                .map(|r| self.b.func.ty(*r)),
            Some(Type::Struct(_))
        );
        let of_struct = matches!(self.b.func.ty(args[0]), Type::Struct(_));
        if to_struct || of_struct {
            return self.other(inst, args);
        }
        match op {
            ComponentOp::Splat(_) => {
                let to = self.target(inst, at, args, false);
                self.fill(to, args[0]);
                self.define(inst, to);
            }
            ComponentOp::Compose(_) => {
                let to = self.target(inst, at, args, false);
                self.put_together(to, args);
                self.define(inst, to);
            }
            ComponentOp::Extract(k) => {
                let from = self.array(args[0]);
                let at = self.index(k);
                let x = self.load(from, at, Guard::InBounds);
                self.replace(inst, x);
            }
            ComponentOp::ExtractDyn => {
                let from = self.array(args[0]);
                let x = self.load(from, args[1], Guard::Checked);
                self.replace(inst, x);
            }
            ComponentOp::Insert(k) => {
                let (from, to) = self.copied(inst, at, args);
                self.copy(from, to);
                let at = self.index(k);
                self.store(to, at, args[1]);
                self.define(inst, to);
            }
            ComponentOp::InsertDyn => {
                let (from, to) = self.copied(inst, at, args);
                self.copy(from, to);
                self.store_if_inside(to, args[1], args[2]);
                self.define(inst, to);
            }
            ComponentOp::Shuffle(mask) => {
                let from = self.array(args[0]);
                let to = self.target(inst, at, args, false);
                for (k, source) in mask.iter().enumerate() {
                    let source = self.index(u32::from(*source));
                    let x = self.load(from, source, Guard::InBounds);
                    let k = self.index(k as u32);
                    self.store(to, k, x);
                }
                self.define(inst, to);
            }
        }
    }

    /// The array of the first argument, and one for the result.
    fn copied(&mut self, inst: Inst, at: u32, args: &[Value]) -> (Local, Local) {
        let from = self.array(args[0]);
        (from, self.target(inst, at, &args[..1], true))
    }

    fn replace(&mut self, inst: Inst, by: Value) {
        let result = self.b.func.result(inst);
        self.substitution.set(result, by);
    }

    fn fill(&mut self, to: Local, value: Value) {
        let (_, n) = self.key(to);
        self.each(n, |this, k| this.store(to, k, value));
    }

    /// The components of all arguments; a loop where they are one constant.
    fn put_together(&mut self, to: Local, args: &[Value]) {
        let constant = |this: &Self, v: Value| this.b.func.constant(v);
        let first = constant(self, args[0]);
        let (_, n) = self.key(to);
        if first.is_some() && args.len() as u32 == n {
            let same = args.iter().all(|a| constant(self, *a) == first);
            if same {
                return self.fill(to, args[0]);
            }
        }
        let mut next = 0;
        for arg in args {
            let ty = self.b.func.ty(*arg);
            let count = ty.lanes().unwrap_or(1);
            let array = ty.as_scalar().is_none().then(|| self.array(*arg));
            for k in 0..count {
                let x = match array {
                    Some(array) => {
                        let k = self.index(k);
                        self.load(array, k, Guard::InBounds)
                    }
                    None => *arg,
                };
                let at = self.index(next + k);
                self.store(to, at, x);
            }
            next += count;
        }
    }

    /// A store to a run-time component; nothing happens outside.
    fn store_if_inside(&mut self, to: Local, index: Value, value: Value) {
        let (_, n) = self.key(to);
        let inside = self.is_inside(index, n);
        let access = Access {
            guard: Guard::InBounds,
            ..Access::write(Place::Local(to))
        };
        self.b.if_else(
            inside,
            &[],
            |b| {
                b.push(Op::Store(access), &[index, value]);
                Values::new()
            },
            |_| Values::new(),
        );
    }

    /// The first component, then one more at a time.
    pub(super) fn reduce(&mut self, inst: Inst, op: BinOp, arg: Value) {
        let from = self.array(arg);
        let (_, n) = self.key(from);
        let zero = self.index(0);
        let first = self.load(from, zero, Guard::InBounds);
        let all = self.fold(1, n, Some(first), |this, k, sum| {
            let x = this.load(from, k, Guard::InBounds);
            sum.map(|sum| this.b.binary(op, sum, x))
        });
        if let Some(all) = all {
            self.replace(inst, all);
        }
    }

    pub(super) fn algebra(&mut self, inst: Inst, at: u32, op: AlgebraOp, args: &[Value]) {
        let shape = |ty: Type| match ty {
            Type::Matrix(_, r, c) => (u32::from(r), u32::from(c)),
            Type::Vector(_, n) => (u32::from(n), 1),
            Type::Scalar(_) | Type::Struct(_) => (1, 1),
        };
        let shapes: Vec<(u32, u32)> = args.iter().map(|a| shape(self.b.func.ty(*a))).collect();
        match op {
            AlgebraOp::MatMul => {
                let (x, y) = (self.array(args[0]), self.array(args[1]));
                let to = self.target(inst, at, args, false);
                self.matmul((x, shapes[0]), (y, shapes[1].1), to);
                self.define(inst, to);
            }
            AlgebraOp::Transpose => {
                let x = self.array(args[0]);
                let to = self.target(inst, at, args, false);
                let (rows, columns) = shapes[0];
                self.each(rows, |this, r| {
                    this.each(columns, |this, c| {
                        let from = this.flat(r, columns, c);
                        let x = this.load(x, from, Guard::InBounds);
                        let at = this.flat(c, rows, r);
                        this.store(to, at, x);
                    });
                });
                self.define(inst, to);
            }
            AlgebraOp::Outer => {
                let (x, y) = (self.array(args[0]), self.array(args[1]));
                let to = self.target(inst, at, args, false);
                let (rows, columns) = (shapes[0].0, shapes[1].0);
                self.each(rows, |this, r| {
                    this.each(columns, |this, c| {
                        let a = this.load(x, r, Guard::InBounds);
                        let b = this.load(y, c, Guard::InBounds);
                        let product = this.b.binary(BinOp::Mul, a, b);
                        let at = this.flat(r, columns, c);
                        this.store(to, at, product);
                    });
                });
                self.define(inst, to);
            }
            AlgebraOp::Dot => {
                let (x, y) = (self.array(args[0]), self.array(args[1]));
                let n = shapes[0].0;
                let product = |this: &mut Self, k: Value| {
                    let a = this.load(x, k, Guard::InBounds);
                    let b = this.load(y, k, Guard::InBounds);
                    this.b.binary(BinOp::Mul, a, b)
                };
                let zero = self.index(0);
                let first = product(self, zero);
                let all = self.fold(1, n, Some(first), |this, k, sum| {
                    let next = product(this, k);
                    sum.map(|sum| this.b.binary(BinOp::Add, sum, next))
                });
                if let Some(all) = all {
                    self.replace(inst, all);
                }
            }
            // Of four rows at most: never large.
            AlgebraOp::Cross | AlgebraOp::Determinant | AlgebraOp::Inverse => {
                self.other(inst, args);
            }
        }
    }

    /// The first product, then one more added at a time.
    fn matmul(
        &mut self,
        (x, (rows, inner)): (Local, (u32, u32)),
        (y, columns): (Local, u32),
        to: Local,
    ) {
        self.each(rows, |this, r| {
            this.each(columns, |this, c| {
                let product = |this: &mut Self, k: Value| {
                    let left = this.flat(r, inner, k);
                    let right = this.flat(k, columns, c);
                    let a = this.load(x, left, Guard::InBounds);
                    let b = this.load(y, right, Guard::InBounds);
                    this.b.binary(BinOp::Mul, a, b)
                };
                let zero = this.index(0);
                let first = product(this, zero);
                let sum = this.fold(1, inner, Some(first), |this, k, sum| {
                    let next = product(this, k);
                    sum.map(|sum| this.b.binary(BinOp::Add, sum, next))
                });
                let at = this.flat(r, columns, c);
                if let Some(sum) = sum {
                    this.store(to, at, sum);
                }
            });
        });
    }

    fn flat(&mut self, row: Value, columns: u32, column: Value) -> Value {
        let columns = self.index(columns);
        let start = self.b.binary(BinOp::Mul, row, columns);
        self.b.binary(BinOp::Add, start, column)
    }

    /// An access of a variable that is an array now.
    pub(super) fn local_access(
        &mut self,
        inst: Inst,
        _: u32,
        op: AccessOp,
        access: &Access,
        array: Local,
        args: &[Value],
    ) {
        let component = match access.path.first() {
            None => None,
            Some(Step::Const(k)) => Some((self.index(*k), true)),
            Some(Step::Dynamic) => Some((args[0], false)),
        };
        let operand = args.last().copied();
        let (_, n) = self.key(array);
        match (op, component, operand) {
            (AccessOp::Load, None, _) => self.read(inst, array),
            (AccessOp::Load, Some((k, known)), _) => {
                let guard = if known {
                    Guard::InBounds
                } else {
                    Guard::Checked
                };
                let x = self.load(array, k, guard);
                self.replace(inst, x);
            }
            (AccessOp::Store, None, Some(value)) => {
                let from = self.array(value);
                self.copy(from, array);
            }
            (AccessOp::Store, Some((k, true)), Some(value)) => self.store(array, k, value),
            (AccessOp::Store, Some((k, false)), Some(value)) => {
                self.store_if_inside(array, k, value);
            }
            (AccessOp::Atomic(atomic), None, Some(value)) => {
                let from = self.array(value);
                let result = self.b.func.result(inst);
                let (s, _) = self.key(array);
                let old = self.fresh(s, n);
                self.each(n, |this, k| {
                    let x = this.load(from, k, Guard::InBounds);
                    let before = this.update(atomic, array, k, x);
                    this.store(old, k, before);
                });
                self.values.insert(result, old);
            }
            (AccessOp::Atomic(atomic), Some((k, true)), Some(value)) => {
                let before = self.update(atomic, array, k, value);
                self.replace(inst, before);
            }
            (AccessOp::Atomic(atomic), Some((k, false)), Some(value)) => {
                let inside = self.is_inside(k, n);
                let (s, _) = self.key(array);
                let access = Access {
                    guard: Guard::InBounds,
                    ..Access::write(Place::Local(array))
                };
                let chosen = self.b.if_else(
                    inside,
                    &[Type::Scalar(s)],
                    |b| {
                        let before = b.value(Op::Atomic(atomic, access), &[k, value]);
                        [before].into_iter().collect()
                    },
                    |b| [b.imm(Imm::zero(s))].into_iter().collect(),
                );
                let before = self.b.func.result(chosen);
                self.replace(inst, before);
            }
            // A variable that is exchanged is no array; a write has an operand.
            (AccessOp::CompareExchange, ..) | (_, _, None) => self.other(inst, args),
        }
    }

    fn update(&mut self, op: AtomicOp, array: Local, index: Value, value: Value) -> Value {
        let access = Access {
            guard: Guard::InBounds,
            ..Access::write(Place::Local(array))
        };
        self.b.value(Op::Atomic(op, access), &[index, value])
    }

    /// A variable as a whole: itself, or a copy if it changes before the value is used.
    fn read(&mut self, inst: Inst, array: Local) {
        let result = self.b.func.result(inst);
        if self.plan.read_in_place.contains(&inst) {
            self.values.insert(result, array);
            self.aliases.insert(result, array);
            return;
        }
        let (s, n) = self.key(array);
        let to = self.fresh(s, n);
        self.copy(array, to);
        self.values.insert(result, to);
    }

    /// An access of a field, an array or a variable that is none: component by component.
    pub(super) fn access(&mut self, inst: Inst, op: AccessOp, access: &Access, args: &[Value]) {
        let exchange = op == AccessOp::CompareExchange;
        let local = matches!(access.place, Place::Local(_) | Place::Temp(_));
        if exchange || local {
            return self.other(inst, args);
        }
        let fixed = args.len() - op.operands();
        let (indices, operands) = args.split_at(fixed);
        let ty = match (op, operands.first()) {
            (_, Some(value)) => self.b.func.ty(*value),
            (_, None) => self.b.func.ty(self.b.func.result(inst)),
        };
        let Some((s, n)) = large(ty) else {
            return self.other(inst, args);
        };
        let mut path: SmallVec<[Step; 2]> = access.path.clone();
        path.push(Step::Dynamic);
        let part = Access {
            path,
            ..access.clone()
        };
        let from = operands.first().map(|v| self.array(*v));
        let gives = self.b.func.insts[inst].results.first().copied();
        let to = gives.map(|_| self.fresh(s, n));
        self.each(n, |this, k| {
            let mut lane: Values = indices.iter().copied().collect();
            lane.push(k);
            if let Some(from) = from {
                lane.push(this.load(from, k, Guard::InBounds));
            }
            let new = this.b.push(op.on(part.clone()), &lane);
            if let Some(to) = to {
                let x = this.b.func.result(new);
                this.store(to, k, x);
            }
        });
        if let (Some(value), Some(to)) = (gives, to) {
            debug_assert!(is_large(self.b.func.ty(value)));
            self.values.insert(value, to);
        }
    }
}
