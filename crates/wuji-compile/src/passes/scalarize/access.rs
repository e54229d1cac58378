//! Loads, stores and atomics, one per scalar.

use super::Scalarizer;
use super::algebra::{self, Parts};
use smallvec::SmallVec;
use wuji_ir::entities::{Local, Value};
use wuji_ir::module::Values;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

/// A run-time component among the scalars of a local: `step` scalars apart.
struct Choice {
    index: Value,
    count: usize,
    step: usize,
}

impl Scalarizer<'_> {
    pub(super) fn access(&mut self, op: AccessOp, access: &Access, args: &[Value]) -> Parts {
        match access.place {
            Place::Local(local) => self.local_access(op, access, local, args),
            Place::Field(_) | Place::Array(_) | Place::Temp(_) => {
                self.place_access(op, access, args)
            }
        }
    }

    /// Not lowered to bytes yet: the path is extended to every scalar.
    fn place_access(&mut self, op: AccessOp, access: &Access, args: &[Value]) -> Parts {
        let (mut ty, rank) = self.b.env.place_elem(self.old, access.place);
        for step in &access.path {
            let k = match step {
                Step::Const(k) => *k,
                Step::Dynamic => 0,
            };
            ty = self.b.env.structs.component(ty, k).unwrap_or(ty);
        }
        let mut paths = Vec::new();
        self.leaves(ty, &mut access.path.clone(), &mut paths);
        let fixed = rank + access.dynamic_steps();
        let indices = self.get_all(&args[..fixed], super::Lists::Flat);
        let operands: Vec<Parts> = args[fixed..].iter().map(|a| self.get(*a)).collect();
        let mut out = Parts::new();
        for (k, path) in paths.into_iter().enumerate() {
            let part = Access {
                path,
                ..access.clone()
            };
            let mut args = indices.clone();
            args.extend(operands.iter().map(|o| o[k]));
            let inst = self.b.push(op.on(part), &args);
            out.extend(self.b.func.insts[inst].results.first().copied());
        }
        out
    }

    fn leaves(&self, ty: Type, path: &mut SmallVec<[Step; 2]>, out: &mut Vec<SmallVec<[Step; 2]>>) {
        if ty.as_scalar().is_some() {
            out.push(path.clone());
            return;
        }
        for k in 0..self.b.env.structs.arity(ty) {
            if let Some(t) = self.b.env.structs.component(ty, k) {
                path.push(Step::Const(k));
                self.leaves(t, path, out);
                path.pop();
            }
        }
    }

    fn local_access(
        &mut self,
        op: AccessOp,
        access: &Access,
        local: Local,
        args: &[Value],
    ) -> Parts {
        let (ty, rank) = self.b.env.place_elem(self.old, access.place);
        let args: Vec<Parts> = args.iter().map(|a| self.get(*a)).collect();
        let (index, args) = args.split_at(rank);
        let (components, operands) = args.split_at(access.dynamic_steps());
        let index: Values = index.iter().flatten().copied().collect();
        let (start, scalars, choice) = self.follow(ty, access, components);
        let locals = self.locals[local].clone();
        // A run-time component is one scalar, so there is either a choice or a plain run of scalars.
        match choice {
            None => {
                let mut out = Parts::new();
                for k in 0..scalars.len() {
                    let old = self.touch(op, access, locals[start + k], &index, operands, k, None);
                    out.extend(old);
                }
                out
            }
            Some(choice) => {
                let mut found = None;
                if let Some(s) = scalars.first()
                    && op != AccessOp::Store
                {
                    found = Some(self.b.imm(wuji_ir::types::Imm::zero(*s)));
                }
                for c in 0..choice.count {
                    let Some(here) = algebra::is_component(&mut self.b, choice.index, c) else {
                        continue;
                    };
                    let local = locals[start + c * choice.step];
                    let old = self.touch(op, access, local, &index, operands, 0, Some(here));
                    if let (Some(old), Some(so_far)) = (old, found) {
                        found = Some(self.b.select(here, old, so_far));
                    }
                }
                found.into_iter().collect()
            }
        }
    }

    /// The scalars an access of a local reaches: where they start, their types, and the run-time
    /// component among them.
    fn follow(
        &self,
        ty: Type,
        access: &Access,
        components: &[Parts],
    ) -> (usize, Vec<Scalar>, Option<Choice>) {
        let mut ty = ty;
        let mut start = 0;
        let mut choice = None;
        let mut components = components.iter();
        for step in &access.path {
            match step {
                Step::Const(k) => {
                    start += self.component(ty, *k).start;
                    ty = self.b.env.structs.component(ty, *k).unwrap_or(ty);
                }
                Step::Dynamic => {
                    let inner = self.b.env.structs.component(ty, 0).unwrap_or(ty);
                    if let Some(index) = components.next() {
                        choice = Some(Choice {
                            index: index[0],
                            count: self.b.env.structs.arity(ty) as usize,
                            step: self.width(inner),
                        });
                    }
                    ty = inner;
                }
            }
        }
        (start, self.scalars(ty), choice)
    }

    /// Touches one scalar of a local. With a condition, a write happens only where it holds. Gives
    /// what was there before, except for a plain store.
    #[allow(clippy::too_many_arguments)]
    fn touch(
        &mut self,
        op: AccessOp,
        access: &Access,
        local: Local,
        index: &[Value],
        operands: &[Parts],
        k: usize,
        only_if: Option<Value>,
    ) -> Option<Value> {
        let scalar = Access {
            place: Place::Local(local),
            path: SmallVec::new(),
            activation: access.activation,
            guard: access.guard,
        };
        if self.b.func.locals[local].shared && only_if.is_none() {
            return self.touch_shared(op, scalar, index, operands, k);
        }
        let plain_store = op == AccessOp::Store && only_if.is_none();
        let old = (!plain_store).then(|| {
            let read = Access {
                activation: Activation::Never,
                ..scalar.clone()
            };
            self.b.value(Op::Load(read), index)
        });
        let new = match op {
            AccessOp::Load => return old,
            AccessOp::Store => operands[0][k],
            AccessOp::Atomic(atomic) => match atomic.binary() {
                Some(op) => self.b.binary(op, old?, operands[0][k]),
                None => operands[0][k],
            },
            AccessOp::CompareExchange => {
                let same = self.same_bits(old?, operands[0][k]);
                self.b.select(same, operands[1][k], old?)
            }
        };
        let new = match (only_if, old) {
            (Some(here), Some(old)) => self.b.select(here, new, old),
            _ => new,
        };
        let mut args: Values = index.iter().copied().collect();
        args.push(new);
        self.b.push(Op::Store(scalar), &args);
        if op == AccessOp::Store { None } else { old }
    }

    /// Touches one scalar of a shared array, as it is: other threads do so, too.
    fn touch_shared(
        &mut self,
        op: AccessOp,
        scalar: Access,
        index: &[Value],
        operands: &[Parts],
        k: usize,
    ) -> Option<Value> {
        let mut args: Values = index.iter().copied().collect();
        args.extend(operands.iter().map(|o| o[k]));
        let inst = self.b.push(op.on(scalar), &args);
        self.b.func.insts[inst].results.first().copied()
    }

    fn same_bits(&mut self, a: Value, b: Value) -> Value {
        let bits = match self.b.func.ty(a).as_scalar() {
            Some(Scalar::F16) => Scalar::U16,
            Some(Scalar::F32) => Scalar::U32,
            Some(Scalar::F64) => Scalar::U64,
            _ => return self.b.compare(CmpOp::Eq, a, b),
        };
        let a = self.b.value(Op::Bitcast(bits), &[a]);
        let b = self.b.value(Op::Bitcast(bits), &[b]);
        self.b.compare(CmpOp::Eq, a, b)
    }

    fn at(&mut self, offset: Value, bytes: u64) -> Value {
        if bytes == 0 {
            return offset;
        }
        let bytes = self.b.i64(bytes as i64);
        self.b.binary(BinOp::Add, offset, bytes)
    }

    pub(super) fn mem_load(&mut self, space: Space, ty: Type, args: &[Value]) -> Parts {
        let offset = self.get(args[0])[0];
        let mut out = Parts::new();
        for (s, bytes) in self.b.env.structs.scalar_offsets(ty) {
            let at = self.at(offset, bytes);
            out.push(self.b.value(Op::MemLoad(space, Type::Scalar(s)), &[at]));
        }
        out
    }

    pub(super) fn mem_store(&mut self, space: Space, args: &[Value]) -> Parts {
        let ty = self.old.ty(args[1]);
        let (offset, value) = (self.get(args[0])[0], self.get(args[1]));
        for ((_, bytes), v) in self.b.env.structs.scalar_offsets(ty).into_iter().zip(value) {
            let at = self.at(offset, bytes);
            self.b.push(Op::MemStore(space), &[at, v]);
        }
        Parts::new()
    }

    pub(super) fn mem_atomic(
        &mut self,
        op: AtomicOp,
        space: Space,
        sharing: Sharing,
        args: &[Value],
    ) -> Parts {
        let ty = self.old.ty(args[1]);
        let (offset, operand) = (self.get(args[0])[0], self.get(args[1]));
        let mut out = Parts::new();
        for ((_, bytes), v) in self
            .b
            .env
            .structs
            .scalar_offsets(ty)
            .into_iter()
            .zip(operand)
        {
            let at = self.at(offset, bytes);
            out.push(self.b.value(Op::MemAtomic(op, space, sharing), &[at, v]));
        }
        out
    }
}
