//! Emits the vectorized body of a loop.
//!
//! A varying value becomes one or more vectors, its *parts*. A strided value stays a scalar, that of the first
//! lane, until the vector is needed. A uniform value does not change. Code that accesses memory or has effects runs
//! only if at least one lane is active.

use super::interleave::Groups;
use super::locals::{Role, Roles, local_of};
use super::shapes::{Shape, Shapes};
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};
use wuji_ir::build::Builder;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

pub(super) type Parts = SmallVec<[Value; 4]>;

/// The vectorized form of a value of the scalar loop.
#[derive(Clone, Debug)]
pub(super) enum Lanes {
    One(Value),
    /// The value of the first lane, and the step from lane to lane.
    Strided(Value, i64),
    Many(Parts),
}

/// The mask of active lanes.
#[derive(Clone, Debug)]
pub(super) enum Mask {
    All,
    Some(Parts),
}

/// How control continues after an instruction.
pub(super) enum Flow {
    On(Mask),
    /// No lane is active, though code may follow.
    NoLanes,
    /// The region has its terminator.
    Ended,
}

/// How a region ends.
pub(super) enum Exit {
    Yield(Vec<Lanes>, Mask),
    /// The end of a loop's body, with the values for the next iteration.
    Next(Vec<Lanes>, Mask),
    NoLanes,
    Ended,
}

/// The target of jumps to a label.
#[derive(Clone)]
pub(super) enum JumpTarget {
    /// All lanes jump together, with these values varying.
    Uniform {
        label: Label,
        on_break: Vec<bool>,
        on_continue: Vec<bool>,
    },
    /// Lanes store their values in locals.
    Divergent(Divergent),
    /// The end of the iteration.
    Iteration,
}

#[derive(Clone)]
pub(super) struct Divergent {
    /// The loop to exit when no lane is active, and the values of its `break`.
    pub(super) label: Option<(Label, Vec<Value>)>,
    /// The body whose end is the only `continue`.
    pub(super) direct: Option<Region>,
    /// For each result, a local per part.
    pub(super) results: Vec<SmallVec<[Local; 4]>>,
    /// The mask of lanes that have left by `break`.
    pub(super) arrived: Option<SmallVec<[Local; 4]>>,
    /// The mask of lanes that continue, and their values.
    pub(super) next: Option<(SmallVec<[Local; 4]>, Vec<SmallVec<[Local; 4]>>)>,
}

/// The scalar loop, with the results of the analyses.
#[derive(Copy, Clone)]
pub(super) struct Source<'a> {
    /// The original function; values and regions keep their numbers in the new one.
    pub(super) old: &'a Function,
    pub(super) structure: &'a Structure,
    pub(super) shapes: &'a Shapes<'a>,
    pub(super) roles: &'a Roles,
    pub(super) groups: &'a Groups,
    pub(super) used: &'a FxHashSet<Value>,
    /// Trees whose offsets fit in 31 bits.
    pub(super) small_trees: &'a FxHashSet<Tree>,
    /// Stores that are non-temporal when all lanes are active.
    pub(super) streamed: &'a FxHashSet<Inst>,
}

pub(super) struct Emitter<'a> {
    pub(super) b: Builder<'a>,
    pub(super) old: &'a Function,
    structure: &'a Structure,
    body: Region,
    pub(super) shapes: &'a Shapes<'a>,
    pub(super) roles: &'a Roles,
    pub(super) groups: &'a Groups,
    pub(super) used: &'a FxHashSet<Value>,
    pub(super) small_trees: &'a FxHashSet<Tree>,
    pub(super) streamed: &'a FxHashSet<Inst>,
    pub(super) lanes: u16,
    pub(super) parts: usize,
    /// Where constants and values from outside are broadcast, once.
    pub(super) prelude: Region,
    pub(super) map: FxHashMap<Value, Lanes>,
    pub(super) targets: FxHashMap<Label, JumpTarget>,
    pub(super) locals: FxHashMap<Local, SmallVec<[Local; 4]>>,
    /// The active lanes around a branch. Values that some of them carry may be written for all of them.
    pub(super) around: Option<Mask>,
    /// Operations that are deferred and executed lane by lane.
    pub(super) pending: Vec<Inst>,
    spread: FxHashMap<Value, Value>,
    numbers: FxHashMap<(Scalar, usize), Value>,
    constants: FxHashMap<Imm, Value>,
    outside: FxHashSet<Value>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        b: Builder<'a>,
        source: Source<'a>,
        lanes: u16,
        parts: usize,
        prelude: Region,
        body: Region,
    ) -> Emitter<'a> {
        let Source {
            old,
            structure,
            shapes,
            roles,
            groups,
            used,
            small_trees,
            streamed,
        } = source;
        Emitter {
            b,
            old,
            structure,
            body,
            shapes,
            roles,
            groups,
            used,
            small_trees,
            streamed,
            lanes,
            parts,
            prelude,
            map: FxHashMap::default(),
            targets: FxHashMap::default(),
            locals: FxHashMap::default(),
            around: None,
            pending: Vec::new(),
            spread: FxHashMap::default(),
            numbers: FxHashMap::default(),
            constants: FxHashMap::default(),
            outside: FxHashSet::default(),
        }
    }

    // Values

    pub(super) fn vector(&self, s: Scalar) -> Type {
        Type::Vector(s, self.lanes)
    }

    pub(super) fn mask_type(&self) -> Type {
        self.vector(Scalar::Bool)
    }

    pub(super) fn scalar_of(&self, v: Value) -> Scalar {
        self.old.ty(v).elem().unwrap_or(Scalar::I64)
    }

    pub(super) fn set(&mut self, v: Value, lanes: Lanes) {
        self.map.insert(v, lanes);
    }

    pub(super) fn get(&self, v: Value) -> Lanes {
        self.map.get(&v).cloned().unwrap_or(Lanes::One(v))
    }

    /// The scalar of a uniform value.
    pub(super) fn one(&self, v: Value) -> Value {
        match self.get(v) {
            Lanes::One(v) | Lanes::Strided(v, _) => v,
            Lanes::Many(parts) => parts[0],
        }
    }

    /// A value as vectors.
    pub(super) fn many(&mut self, v: Value) -> Parts {
        let lanes = self.get(v);
        self.spread_out(&lanes)
    }

    pub(super) fn spread_out(&mut self, lanes: &Lanes) -> Parts {
        match lanes {
            Lanes::Many(parts) => parts.clone(),
            Lanes::One(v) => {
                let splat = self.splat(*v);
                smallvec![splat; self.parts]
            }
            Lanes::Strided(base, stride) => {
                let s = self.b.func.ty(*base).elem().unwrap_or(Scalar::I64);
                let first = self.splat(*base);
                (0..self.parts)
                    .map(|p| {
                        let steps = self.steps(s, *stride, p);
                        self.b.binary(BinOp::Add, first, steps)
                    })
                    .collect()
            }
        }
    }

    /// Broadcasts a scalar. Values from outside are broadcast before the loop.
    pub(super) fn splat(&mut self, v: Value) -> Value {
        if let Some(known) = self.spread.get(&v) {
            return *known;
        }
        let s = self.b.func.ty(v).elem().unwrap_or(Scalar::I64);
        let op = Op::Splat(self.vector(s));
        if !self.is_outside(v) {
            return self.b.value(op, &[v]);
        }
        let made = self.in_prelude(|e| e.b.value(op, &[v]));
        self.spread.insert(v, made);
        made
    }

    pub(super) fn in_prelude<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let here = std::mem::replace(&mut self.b.region, self.prelude);
        let made = make(self);
        self.b.region = here;
        made
    }

    /// A constant that the whole loop may use.
    pub(super) fn constant(&mut self, imm: Imm) -> Value {
        if let Some(known) = self.constants.get(&imm) {
            return *known;
        }
        let v = self.in_prelude(|e| e.b.imm(imm));
        self.outside.insert(v);
        self.constants.insert(imm, v);
        v
    }

    /// Whether a value is defined before the loop.
    pub(super) fn is_outside(&self, v: Value) -> bool {
        self.outside.contains(&v)
            || ((v.as_u32() as usize) < self.old.values.len()
                && self.structure.is_invariant(self.old, v, self.body))
    }

    /// `0, stride, 2 * stride, ...` for a part.
    fn steps(&mut self, s: Scalar, stride: i64, part: usize) -> Value {
        let numbers = self.lane_numbers(s, part);
        if stride == 1 {
            return numbers;
        }
        let by = self.constant(Imm::int(s, i128::from(stride)));
        let by = self.splat(by);
        self.in_prelude(|e| e.b.binary(BinOp::Mul, numbers, by))
    }

    /// The lane numbers of a part.
    pub(super) fn lane_numbers(&mut self, s: Scalar, part: usize) -> Value {
        if let Some(known) = self.numbers.get(&(s, part)) {
            return *known;
        }
        let ty = self.vector(s);
        let (lanes, first) = (usize::from(self.lanes), part * usize::from(self.lanes));
        let made = self.in_prelude(|e| {
            let numbers: Vec<Value> = (first..first + lanes)
                .map(|k| e.b.int(s, k as i128))
                .collect();
            e.b.value(Op::Compose(ty), &numbers)
        });
        self.numbers.insert((s, part), made);
        made
    }

    pub(super) fn zeros(&mut self, s: Scalar) -> Value {
        let zero = self.constant(Imm::zero(s));
        self.splat(zero)
    }

    // Masks

    pub(super) fn mask_parts(&mut self, mask: &Mask) -> Parts {
        match mask {
            Mask::Some(parts) => parts.clone(),
            Mask::All => {
                let yes = self.constant(Imm::bool(true));
                let all = self.splat(yes);
                smallvec![all; self.parts]
            }
        }
    }

    /// The mask without active lanes.
    pub(super) fn empty_mask(&mut self) -> Parts {
        let none = self.zeros(Scalar::Bool);
        smallvec![none; self.parts]
    }

    pub(super) fn and(&mut self, mask: &Mask, with: &Parts) -> Mask {
        match mask {
            Mask::All => Mask::Some(with.clone()),
            Mask::Some(parts) => Mask::Some(
                parts
                    .iter()
                    .zip(with)
                    .map(|(a, b)| self.b.binary(BinOp::And, *a, *b))
                    .collect(),
            ),
        }
    }

    pub(super) fn or(&mut self, a: &Parts, b: &Parts) -> Parts {
        a.iter()
            .zip(b)
            .map(|(a, b)| self.b.binary(BinOp::Or, *a, *b))
            .collect()
    }

    /// Whether any lane is active.
    pub(super) fn any(&mut self, mask: &Parts) -> Value {
        let mut whole = mask[0];
        for part in &mask[1..] {
            whole = self.b.binary(BinOp::Or, whole, *part);
        }
        self.b.value(Op::Reduce(ReduceOp::Or), &[whole])
    }

    pub(super) fn select(&mut self, mask: &Parts, yes: &Parts, no: &Parts) -> Parts {
        (0..self.parts)
            .map(|p| self.b.select(mask[p], yes[p], no[p]))
            .collect()
    }

    // Locals

    pub(super) fn new_locals(
        &mut self,
        name: &str,
        ty: Type,
        len: Option<u32>,
    ) -> SmallVec<[Local; 4]> {
        (0..self.parts)
            .map(|_| {
                self.b.func.locals.push(LocalData {
                    name: name.to_owned(),
                    ty,
                    len,
                    shared: false,
                    role: LocalRole::Variable,
                })
            })
            .collect()
    }

    pub(super) fn load_locals(&mut self, locals: &[Local]) -> Parts {
        locals
            .iter()
            .map(|l| self.b.load(Place::Local(*l), &[]))
            .collect()
    }

    pub(super) fn store_locals(&mut self, locals: &[Local], values: &Parts) {
        for (l, v) in locals.iter().zip(values) {
            self.b.store(Place::Local(*l), &[], *v);
        }
    }

    /// Active lanes take the new values, the others keep theirs.
    pub(super) fn update_locals(&mut self, locals: &[Local], mask: &Mask, values: &Parts) {
        match mask {
            Mask::All => self.store_locals(locals, values),
            Mask::Some(m) => {
                let old = self.load_locals(locals);
                let new = self.select(m, values, &old);
                self.store_locals(locals, &new);
            }
        }
    }

    // Instructions

    pub(super) fn inst(&mut self, inst: Inst, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        self.b.span = self.old.spans[inst];
        let lanes = data.op.lanes();
        if matches!(lanes, LaneClass::LaneByLane | LaneClass::Never) {
            if self.waits_for(&data.args) {
                self.flush(&mask);
            }
            self.pending.push(inst);
            return Flow::On(mask);
        }
        if data.op.effect() != Effect::Pure || self.waits_for(&data.args) {
            self.flush(&mask);
        }
        self.b.span = self.old.spans[inst];
        match lanes {
            LaneClass::Branching => return self.control(inst, mask),
            LaneClass::MemoryAccess => {
                if let Op::MemLoad(space, ty) = data.op {
                    self.mem_load(inst, space, ty, &mask);
                } else if let Op::MemStore(space) = data.op {
                    self.mem_store(inst, space, &mask);
                }
            }
            LaneClass::LocalAccess => {
                if let Some(local) = local_of(&data.op) {
                    self.local_access(inst, local, &mask);
                }
            }
            LaneClass::PerVector => self.pure(data),
            // Handled above.
            LaneClass::LaneByLane | LaneClass::Never => {}
        }
        Flow::On(mask)
    }

    fn pure(&mut self, data: &InstData) {
        let Some(&result) = data.results.first() else {
            return;
        };
        match self.shapes.shape(result) {
            Shape::Uniform => {
                let args: Values = data.args.iter().map(|a| self.one(*a)).collect();
                let v = self.b.value(data.op.clone(), &args);
                self.set(result, Lanes::One(v));
            }
            Shape::Strided(stride) => {
                let args: Values = data.args.iter().map(|a| self.one(*a)).collect();
                let v = self.b.value(data.op.clone(), &args);
                self.set(result, Lanes::Strided(v, stride));
            }
            Shape::Varying => {
                let args: Vec<Parts> = data.args.iter().map(|a| self.many(*a)).collect();
                let parts = (0..self.parts)
                    .map(|p| {
                        let args: Values = args.iter().map(|a| a[p]).collect();
                        self.b.value(data.op.clone(), &args)
                    })
                    .collect();
                self.set(result, Lanes::Many(parts));
            }
        }
    }

    /// A local variable or array.
    fn local_access(&mut self, inst: Inst, local: Local, mask: &Mask) {
        let data = &self.old.insts[inst];
        let operands = usize::from(matches!(data.op, Op::Store(_)));
        let index = &data.args[..data.args.len() - operands];
        match self.roles.of(local) {
            Role::Shared => self.shared_access(data, local, index, mask),
            Role::Private | Role::Sum(_) => self.private_access(data, local, index, mask),
        }
    }

    fn private_access(&mut self, data: &InstData, local: Local, index: &[Value], mask: &Mask) {
        let locals = self.lanes_of_local(local);
        let uniform = index.iter().all(|i| self.shapes.is_uniform(*i));
        let index: Values = index.to_vec().into();
        if !uniform {
            return self.scattered_access(data, local, index[0], mask);
        }
        let at: Values = index.iter().map(|i| self.one(*i)).collect();
        let access = |l: Local| {
            let mut access = data
                .op
                .access()
                .cloned()
                .unwrap_or_else(|| Access::read(Place::Local(l)));
            access.place = Place::Local(l);
            access
        };
        if let (Op::Load(_), Some(result)) = (&data.op, data.results.first()) {
            let parts = locals
                .iter()
                .map(|l| self.b.value(Op::Load(access(*l)), &at))
                .collect();
            self.set(*result, Lanes::Many(parts));
            return;
        }
        let value = data.args[data.args.len() - 1];
        let values = self.many(value);
        for (p, l) in locals.iter().enumerate() {
            let value = match mask {
                Mask::All => values[p],
                Mask::Some(m) => {
                    let old = self.b.value(Op::Load(access(*l)), &at);
                    self.b.select(m[p], values[p], old)
                }
            };
            let mut args = at.clone();
            args.push(value);
            self.b.push(Op::Store(access(*l)), &args);
        }
    }

    /// The vectors of a private local.
    pub(super) fn lanes_of_local(&mut self, local: Local) -> SmallVec<[Local; 4]> {
        if let Some(known) = self.locals.get(&local) {
            return known.clone();
        }
        let data = self.b.func.locals[local].clone();
        let s = data.ty.elem().unwrap_or(Scalar::I64);
        let ty = self.vector(s);
        let made = self.new_locals(&format!("lanes.{}", data.name), ty, data.len);
        self.locals.insert(local, made.clone());
        made
    }

    /// Accesses that are not private to a lane.
    fn shared_access(&mut self, data: &InstData, local: Local, index: &[Value], mask: &Mask) {
        let uniform = data.args.iter().all(|i| self.shapes.is_uniform(*i));
        if uniform {
            let args: Values = data.args.iter().map(|a| self.one(*a)).collect();
            let inst = self.b.push(data.op.clone(), &args);
            if let Some(result) = data.results.first() {
                let v = self.b.func.result(inst);
                self.set(*result, Lanes::One(v));
            }
            return;
        }
        let index: Values = index.to_vec().into();
        match index.first() {
            Some(index) => self.scattered_access(data, local, *index, mask),
            None => {
                // Any iteration's value may remain in the variable: that of the first lane will do.
                let value = self.many(data.args[0])[0];
                let value = self.b.value(Op::Extract(0), &[value]);
                self.b.push(data.op.clone(), &[value]);
            }
        }
    }

    /// A gather or scatter on a local array.
    fn scattered_access(&mut self, data: &InstData, local: Local, index: Value, mask: &Mask) {
        let private = !matches!(self.roles.of(local), Role::Shared);
        let locals = if private {
            self.lanes_of_local(local)
        } else {
            smallvec![local; self.parts]
        };
        // Inactive lanes may have any index; index 0 is safe.
        let indices = self.many(index);
        let indices = match mask {
            Mask::All => indices,
            Mask::Some(m) => {
                let zero = self.zeros(self.scalar_of(index));
                let zeros = smallvec![zero; self.parts];
                self.select(m, &indices, &zeros)
            }
        };
        let access = |l: Local, lane: u32| {
            let mut access = data
                .op
                .access()
                .cloned()
                .unwrap_or_else(|| Access::read(Place::Local(l)));
            access.place = Place::Local(l);
            if private {
                access.path.push(Step::Const(lane));
            }
            access
        };
        let lanes = u32::from(self.lanes);
        if let (Op::Load(_), Some(result)) = (&data.op, data.results.first()) {
            let ty = self.vector(self.scalar_of(*result));
            let parts = (0..self.parts)
                .map(|p| {
                    let loaded: Values = (0..lanes)
                        .map(|k| {
                            let at = self.b.value(Op::Extract(k), &[indices[p]]);
                            self.b.value(Op::Load(access(locals[p], k)), &[at])
                        })
                        .collect();
                    self.b.value(Op::Compose(ty), &loaded)
                })
                .collect();
            self.set(*result, Lanes::Many(parts));
            return;
        }
        let values = self.many(data.args[data.args.len() - 1]);
        for p in 0..self.parts {
            for k in 0..lanes {
                let at = self.b.value(Op::Extract(k), &[indices[p]]);
                let mut value = self.b.value(Op::Extract(k), &[values[p]]);
                if let Mask::Some(m) = mask {
                    let on = self.b.value(Op::Extract(k), &[m[p]]);
                    let mut read = access(locals[p], k);
                    read.activation = Activation::Never;
                    let old = self.b.value(Op::Load(read), &[at]);
                    value = self.b.select(on, value, old);
                }
                self.b.push(Op::Store(access(locals[p], k)), &[at, value]);
            }
        }
    }
}
