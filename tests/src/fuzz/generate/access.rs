//! Loads, stores and atomics that respect the roles of their places.

use super::Generator;
use super::roles::{Allowed, Rights, commutes};
use wuji_ir::entities::{Local, Value};
use wuji_ir::infer;
use wuji_ir::module::{LocalData, LocalRole};
use wuji_ir::ops::*;
use wuji_ir::types::{BOOL, Imm, Scalar, Type};

/// An access that the roles allow: its place, path and type.
struct Candidate {
    place: usize,
    path: Vec<Step>,
    ty: Type,
}

fn access(place: Place, path: &[Step], write: bool) -> Access {
    let mut access = if write {
        Access::write(place)
    } else {
        Access::read(place)
    };
    access.path = path.iter().copied().collect();
    access
}

impl Generator<'_> {
    fn candidates(&mut self, fits: impl Fn(&Allowed, Type, bool) -> bool) -> Vec<Candidate> {
        let mut out = Vec::new();
        for (number, info) in self.places.iter().enumerate() {
            for (path, ty) in &info.paths {
                let allowed = self.body.rights.at(info, number, path);
                if fits(&allowed, *ty, info.writable) {
                    out.push(Candidate {
                        place: number,
                        path: path.clone(),
                        ty: *ty,
                    });
                }
            }
        }
        if self.dice.chance(60) && out.iter().any(|c| self.hot.contains(&c.place)) {
            out.retain(|c| self.hot.contains(&c.place));
        }
        out
    }

    /// Indices and run-time components of an access.
    fn address(&mut self, at: &Candidate) -> Vec<Value> {
        let info = self.places[at.place].clone();
        let own = match self.body.rights.at(&info, at.place, &at.path) {
            Allowed::Own(own) => Some(own.clone()),
            _ => None,
        };
        let mut args = match own {
            Some(own) => self.own_indices(&own),
            None => info.domain.iter().map(|d| self.any_index(*d)).collect(),
        };
        args.extend(self.dynamic_steps(info.elem, &at.path));
        args
    }

    fn dynamic_steps(&mut self, elem: Type, path: &[Step]) -> Vec<Value> {
        let mut args = Vec::new();
        let mut ty = elem;
        for step in path {
            match step {
                Step::Const(k) => ty = self.m.structs.component(ty, *k).unwrap_or(ty),
                Step::Dynamic => {
                    let count = u64::from(self.m.structs.arity(ty));
                    args.push(self.any_index((0, count)));
                    ty = self.m.structs.component(ty, 0).unwrap_or(ty);
                }
            }
        }
        args
    }

    /// A load of a type from a field or array, if there is one.
    pub(super) fn load(&mut self, ty: Type) -> Option<Value> {
        if self.dice.chance(30)
            && let Some(answer) = self.ask(ty)
        {
            return Some(answer);
        }
        let candidates = self.candidates(|allowed, found, _| {
            found == ty && matches!(allowed, Allowed::Read | Allowed::Anything | Allowed::Own(_))
        });
        if candidates.is_empty() {
            return None;
        }
        let at = &candidates[self.dice.below(candidates.len())];
        let args = self.address(at);
        let place = self.places[at.place].place;
        let op = Op::Load(access(place, &at.path, false));
        Some(self.b().value(op, &args))
    }

    /// A store, atomic or exchange of a field or array.
    pub(super) fn write(&mut self) {
        let candidates = self.candidates(|allowed, _, writable| {
            writable && !matches!(allowed, Allowed::Read | Allowed::Nothing)
        });
        if candidates.is_empty() {
            return;
        }
        // Every place with the same probability, regardless of its number of paths.
        let mut places: Vec<usize> = candidates.iter().map(|c| c.place).collect();
        places.dedup();
        let place = *self.dice.pick(&places);
        let candidates: Vec<Candidate> = candidates
            .into_iter()
            .filter(|c| c.place == place)
            .collect();
        let at = &candidates[self.dice.below(candidates.len())];
        let info = self.places[at.place].clone();
        match self.body.rights.at(&info, at.place, &at.path) {
            Allowed::Nothing | Allowed::Read => {}
            Allowed::Same(value) => {
                let mut args = self.address(at);
                args.push(value);
                let access = self.writing(info.place, &at.path);
                self.b().push(Op::Store(access), &args);
            }
            Allowed::Atomic(op) => {
                if !commutes(self, op, at.ty, info.tally) {
                    return;
                }
                let operand = self.commuting_operand(op, at.ty, info.tally);
                let mut args = self.address(at);
                args.push(operand);
                let access = self.writing(info.place, &at.path);
                self.b().push(Op::Atomic(op, access), &args);
            }
            Allowed::Anything | Allowed::Own(_) => self.free_write(at),
        }
    }

    /// The access of a write, with its activation.
    fn writing(&mut self, place: Place, path: &[Step]) -> Access {
        let mut access = access(place, path, true);
        if let Place::Field(f) = place {
            let activation = self.body.rights.activation(self.m.fields[f].tree);
            access.activation = match activation {
                Some(activation) => activation,
                None if self.dice.chance(20) => Activation::Never,
                None => Activation::IfAbsent,
            };
        }
        access
    }

    fn free_write(&mut self, at: &Candidate) {
        let info = self.places[at.place].clone();
        let serial = matches!(self.body.rights, Rights::All) && self.body.in_kernel;
        let ops: Vec<AtomicOp> = AtomicOp::ALL
            .iter()
            .copied()
            .filter(|op| {
                let scalars = self.m.structs.flatten(at.ty);
                scalars.iter().all(|s| infer::atomic(*op, *s).is_ok())
                    && (serial
                        || *op == AtomicOp::Exchange
                        || commutes(self, *op, at.ty, info.tally))
            })
            .collect();
        let path = self.writing(info.place, &at.path);
        match self.dice.weighted(&[5, 4, 1]) {
            1 if !ops.is_empty() => {
                let op = *self.dice.pick(&ops);
                let counts = matches!(op, AtomicOp::Add | AtomicOp::Mul) && info.tally;
                let operand = if counts {
                    self.commuting_operand(op, at.ty, true)
                } else {
                    self.storable(at.ty, info.tally, 3)
                };
                let mut args = self.address(at);
                args.push(operand);
                let old = self.b().value(Op::Atomic(op, path), &args);
                self.keep(old);
            }
            2 if at.ty.as_scalar().is_some() => {
                let expected = match self.load(at.ty) {
                    Some(value) if self.dice.chance(60) => value,
                    _ => self.value(at.ty, 2),
                };
                let expected = self.without_nan(expected);
                let new = self.storable(at.ty, info.tally, 2);
                let mut args = self.address(at);
                args.extend([expected, new]);
                let old = self.b().value(Op::CompareExchange(path), &args);
                self.keep(old);
            }
            _ => {
                let value = self.storable(at.ty, info.tally, 3);
                let mut args = self.address(at);
                args.push(value);
                self.b().push(Op::Store(path), &args);
            }
        }
    }

    /// A value that may be stored: in a tally, floats are small integers.
    pub(super) fn storable(&mut self, ty: Type, tally: bool, depth: usize) -> Value {
        let floats = self.m.structs.flatten(ty).iter().any(|s| s.is_float());
        if tally && floats {
            self.small(ty)
        } else {
            self.value(ty, depth)
        }
    }

    fn small(&mut self, ty: Type) -> Value {
        match ty.elem() {
            Some(s) if s.is_float() => {
                let counts = ty.with_elem(Scalar::I32);
                let x = self.value(counts, 2);
                let mask = self.splat(counts, Imm::int(Scalar::I32, 7));
                let x = self.b().binary(BinOp::And, x, mask);
                self.b().convert(x, s)
            }
            Some(_) => self.value(ty, 2),
            None => self.by_component(ty, Self::small),
        }
    }

    fn by_component(&mut self, ty: Type, mut part: impl FnMut(&mut Self, Type) -> Value) -> Value {
        let types: Vec<Type> = (0..self.m.structs.arity(ty))
            .filter_map(|k| self.m.structs.component(ty, k))
            .collect();
        let parts: Vec<Value> = types.into_iter().map(|t| part(self, t)).collect();
        self.b().value(Op::Compose(ty), &parts)
    }

    pub(super) fn splat(&mut self, ty: Type, imm: Imm) -> Value {
        let x = self.b().imm(imm);
        match ty {
            Type::Scalar(_) => x,
            Type::Vector(..) | Type::Matrix(..) | Type::Struct(_) => {
                self.b().value(Op::Splat(ty), &[x])
            }
        }
    }

    /// An operand for which an atomic gives the same result in any order.
    fn commuting_operand(&mut self, op: AtomicOp, ty: Type, tally: bool) -> Value {
        let s = match ty.elem() {
            Some(s) if s.is_float() => s,
            Some(_) => return self.value(ty, 3),
            None => return self.by_component(ty, |g, t| g.commuting_operand(op, t, tally)),
        };
        match op {
            AtomicOp::Add if s == Scalar::F16 => {
                // This few digits hold only some thousand ones.
                let once = match self.body.indices.first().copied() {
                    Some((index, lo, hi)) if self.body.in_kernel => {
                        let kind = self.ty(index).as_scalar().unwrap_or(Scalar::I64);
                        let at = self.dice.between(lo, hi.max(lo));
                        let at = self.b().int(kind, i128::from(at));
                        self.b().compare(CmpOp::Eq, index, at)
                    }
                    _ => self.b().bool(false),
                };
                let one = self.b().convert(once, s);
                match ty {
                    Type::Scalar(_) => one,
                    _ => self.b().value(Op::Splat(ty), &[one]),
                }
            }
            AtomicOp::Add if self.dice.chance(20) => {
                // Adding negative zeros changes nothing, not even a negative zero.
                let x = self.small(ty);
                let zero = self.splat(ty, Imm::float(s, -0.0));
                let condition = self.value(BOOL, 1);
                self.b().select(condition, x, zero)
            }
            AtomicOp::Add => self.small(ty),
            AtomicOp::Mul => {
                let c = self.value(BOOL, 2);
                let plus = self.splat(ty, Imm::float(s, 1.0));
                let minus = self.splat(ty, Imm::float(s, -1.0));
                self.b().select(c, plus, minus)
            }
            AtomicOp::Min
            | AtomicOp::Max
            | AtomicOp::And
            | AtomicOp::Or
            | AtomicOp::Xor
            | AtomicOp::Exchange
                if tally =>
            {
                self.small(ty)
            }
            AtomicOp::Min
            | AtomicOp::Max
            | AtomicOp::And
            | AtomicOp::Or
            | AtomicOp::Xor
            | AtomicOp::Exchange => {
                // Which of two zeros is smaller depends on the order.
                let x = self.value(ty, 3);
                let zero = self.splat(ty, Imm::float(s, 0.0));
                self.b().binary(BinOp::Add, x, zero)
            }
        }
    }

    /// Zero in place of NaN, whose bits are unspecified.
    pub(super) fn without_nan(&mut self, x: Value) -> Value {
        let ty = self.ty(x);
        if !ty.elem().is_some_and(Scalar::is_float) {
            return x;
        }
        let nan = self.b().compare(CmpOp::Ne, x, x);
        let zero = self.b().zero(ty);
        self.b().select(nan, zero, x)
    }

    /// A variable or local array that can be stored to here.
    fn new_local(&mut self, ty: Type, len: Option<u32>) -> Local {
        let number = self.body.f.locals.len();
        self.body.f.locals.push(LocalData {
            name: format!("n{number}"),
            ty,
            len,
            shared: false,
            role: LocalRole::Variable,
        })
    }

    pub(super) fn new_variable(&mut self, ty: Type) -> Local {
        let local = self.new_local(ty, None);
        self.body.variables.push((local, true));
        local
    }

    fn new_array(&mut self) {
        let ty = self.any_type();
        let len = self.dice.between(1, 9) as u32;
        let local = self.new_local(ty, Some(len));
        self.body.arrays.push(local);
    }

    /// Reads part of a local of the right type.
    pub(super) fn load_local(&mut self, ty: Type) -> Option<Value> {
        let mut found = Vec::new();
        let variables = self.body.variables.iter().map(|v| v.0);
        for local in variables.chain(self.body.arrays.iter().copied()) {
            let whole = self.body.f.locals[local].ty;
            for (path, t) in self.paths(whole) {
                if t == ty {
                    found.push((local, path));
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        let (local, path) = found.swap_remove(self.dice.below(found.len()));
        let args = self.local_address(local, &path);
        let op = Op::Load(access(Place::Local(local), &path, false));
        Some(self.b().value(op, &args))
    }

    fn local_address(&mut self, local: Local, path: &[Step]) -> Vec<Value> {
        let data = self.body.f.locals[local].clone();
        let mut args: Vec<Value> = data
            .len
            .map(|n| self.any_index((0, u64::from(n))))
            .into_iter()
            .collect();
        args.extend(self.dynamic_steps(data.ty, path));
        args
    }

    /// Stores to a variable or local array, old or new.
    pub(super) fn store_local(&mut self) {
        let fresh = self.dice.chance(30);
        let mut locals: Vec<Local> = self
            .body
            .variables
            .iter()
            .filter(|v| v.1)
            .map(|v| v.0)
            .collect();
        locals.extend(&self.body.arrays);
        if locals.is_empty() || (fresh && locals.len() < 8) {
            if self.dice.chance(45) {
                self.new_array();
            } else {
                let ty = self.any_type();
                let local = self.new_variable(ty);
                let value = self.value(ty, 2);
                self.b().store(Place::Local(local), &[], value);
            }
            return;
        }
        let local = *self.dice.pick(&locals);
        let paths = self.paths(self.body.f.locals[local].ty);
        let (path, ty) = if self.dice.chance(50) {
            paths[0].clone()
        } else {
            self.dice.pick(&paths).clone()
        };
        let access = access(Place::Local(local), &path, true);
        let ops: Vec<AtomicOp> = AtomicOp::ALL
            .iter()
            .copied()
            .filter(|op| {
                let scalars = self.m.structs.flatten(ty);
                scalars.iter().all(|s| infer::atomic(*op, *s).is_ok())
            })
            .collect();
        let value = self.value(ty, 3);
        let mut args = self.local_address(local, &path);
        args.push(value);
        if self.dice.chance(15) && !ops.is_empty() {
            let op = *self.dice.pick(&ops);
            let old = self.b().value(Op::Atomic(op, access), &args);
            self.keep(old);
        } else {
            self.b().push(Op::Store(access), &args);
        }
    }
}
