//! Operations that run lane by lane: atomics, calls, reports.
//!
//! They are deferred until something depends on them; then each lane executes all of them in order.

use super::emit::{Emitter, Lanes, Mask, Parts};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use wuji_ir::entities::{Inst, Local, Value};
use wuji_ir::module::{LocalData, LocalRole, Term, Values};
use wuji_ir::ops::{Access, CmpOp, ForKind, Guard, Op, Place, Step};
use wuji_ir::types::{Imm, Scalar, Type};

impl Emitter<'_> {
    /// Whether a value is still pending.
    pub(super) fn waits_for(&self, args: &[Value]) -> bool {
        self.pending
            .iter()
            .any(|i| self.old.insts[*i].results.iter().any(|r| args.contains(r)))
    }

    /// Executes the pending operations for the active lanes.
    pub(super) fn flush(&mut self, mask: &Mask) {
        if self.pending.is_empty() {
            return;
        }
        let insts = std::mem::take(&mut self.pending);
        self.b.span = self.old.spans[insts[0]];
        let insts = self.add_reduced(insts, mask);
        let insts = self.add_consecutive(insts, mask);
        let insts = self.add_interleaved(insts, mask);
        if insts.is_empty() {
            return;
        }
        let wanted: Vec<Value> = insts
            .iter()
            .flat_map(|i| self.old.insts[*i].results.iter().copied())
            .filter(|r| self.used.contains(r))
            .collect();
        let prepared = self.prepare(&insts);
        let on = self.mask_parts(mask);
        let parts = self.one_by_one(&insts, &prepared, &wanted, &on);
        for (result, parts) in wanted.iter().zip(parts) {
            self.set(*result, Lanes::Many(parts));
        }
    }

    /// The varying arguments as vectors; `None` for uniform ones and for results of pending operations.
    fn prepare(&mut self, insts: &[Inst]) -> Vec<Vec<Option<Parts>>> {
        let own: Vec<Value> = insts
            .iter()
            .flat_map(|i| self.old.insts[*i].results.iter().copied())
            .collect();
        insts
            .iter()
            .map(|i| {
                let data = &self.old.insts[*i];
                data.args
                    .iter()
                    .enumerate()
                    .map(|(k, a)| {
                        if own.contains(a) || self.shapes.is_uniform(*a) {
                            return None;
                        }
                        let space = data.op.space().filter(|_| k == 0);
                        Some(match space {
                            Some(space) => self.offsets(space, *a),
                            None => self.many(*a),
                        })
                    })
                    .collect()
            })
            .collect()
    }

    /// An argument of one lane.
    fn argument(
        &mut self,
        arg: Value,
        prepared: &Option<Parts>,
        part: usize,
        pick: &impl Fn(&mut Self, Value) -> Value,
    ) -> Value {
        match prepared {
            None => self.one(arg),
            Some(parts) => {
                let v = pick(self, parts[part]);
                let v = if self.scalar_of(arg) == Scalar::Bool {
                    self.b.convert(v, Scalar::Bool)
                } else {
                    v
                };
                // Offsets are passed in 64 bits.
                let narrow = self.scalar_of(arg) == Scalar::I64
                    && self.b.func.ty(v) == Type::Scalar(Scalar::I32);
                if narrow {
                    self.b.convert(v, Scalar::I64)
                } else {
                    v
                }
            }
        }
    }

    /// Emits all operations of one lane. Their results stay in the map until the next lane.
    fn lane(
        &mut self,
        insts: &[Inst],
        prepared: &[Vec<Option<Parts>>],
        part: usize,
        pick: &impl Fn(&mut Self, Value) -> Value,
    ) {
        for (inst, prepared) in insts.iter().zip(prepared) {
            let data = &self.old.insts[*inst];
            let mut args = Values::new();
            for (a, p) in data.args.iter().zip(prepared) {
                args.push(self.argument(*a, p, part, pick));
            }
            self.b.span = self.old.spans[*inst];
            let types: SmallVec<[Type; 2]> = data.results.iter().map(|r| self.old.ty(*r)).collect();
            let made = self.b.push_typed(data.op.clone(), &args, &types);
            let results: Values = self.b.func.insts[made].results.iter().copied().collect();
            for (r, v) in data.results.iter().zip(results) {
                self.set(*r, Lanes::One(v));
            }
        }
    }

    /// Spills a vector to the stack, so that its lanes can be indexed.
    fn on_stack(&mut self, v: Value) -> Local {
        let ty = self.b.func.ty(v);
        let local = self.b.func.locals.push(LocalData {
            name: "lanes".to_owned(),
            ty,
            len: None,
            shared: false,
            role: LocalRole::Variable,
        });
        let v = match ty {
            Type::Vector(Scalar::Bool, n) => {
                let ty = Type::Vector(Scalar::U8, n);
                self.b.func.locals[local].ty = ty;
                self.b.convert(v, Scalar::U8)
            }
            _ => v,
        };
        self.b.store(Place::Local(local), &[], v);
        local
    }

    fn at_lane(&mut self, local: Local, number: Value) -> Value {
        let mut access = Access::read(Place::Local(local));
        access.path.push(Step::Dynamic);
        access.guard = Guard::InBounds;
        self.b.value(Op::Load(access), &[number])
    }

    fn one_by_one(
        &mut self,
        insts: &[Inst],
        prepared: &[Vec<Option<Parts>>],
        wanted: &[Value],
        mask: &Parts,
    ) -> Vec<Parts> {
        let mut results: Vec<Parts> = vec![Parts::new(); wanted.len()];
        let (zero, one, count) = (
            self.constant(Imm::int(Scalar::I32, 0)),
            self.constant(Imm::int(Scalar::I32, 1)),
            self.constant(Imm::int(Scalar::I32, i128::from(self.lanes))),
        );
        // Lanes are loaded from memory: extracting one from a register costs as much, each time.
        let mut stack: FxHashMap<Value, Local> = FxHashMap::default();
        for v in prepared.iter().flatten().flatten().flatten() {
            if !stack.contains_key(v) {
                let local = self.on_stack(*v);
                stack.insert(*v, local);
            }
        }
        let on_stack: Vec<Local> = mask
            .iter()
            .map(|m| {
                let bytes = self.b.convert(*m, Scalar::U8);
                self.on_stack(bytes)
            })
            .collect();
        for (part, on_stack) in on_stack.into_iter().enumerate() {
            let types: Vec<Type> = wanted
                .iter()
                .map(|r| self.vector(self.scalar_of(*r)))
                .collect();
            let initial: Values = wanted
                .iter()
                .map(|r| self.zeros(self.scalar_of(*r)))
                .collect();
            let label = self.b.func.fresh_label();
            let mut args: Values = [zero, count, one].into_iter().collect();
            args.extend(initial);
            let looped = self
                .b
                .push_typed(Op::For(label, ForKind::Boundary), &args, &types);
            let outer = self.b.region;
            let mut params = vec![Type::Scalar(Scalar::I32)];
            params.extend(&types);
            let region = self.b.func.add_region(&params);
            self.b.func.insts[looped].regions.push(region);
            self.b.region = region;
            let given: Values = self.b.func.regions[region].params.clone();
            let number = given[0];
            let on = self.at_lane(on_stack, number);
            let no = self.constant(Imm::zero(Scalar::U8));
            let on = self.b.compare(CmpOp::Ne, on, no);
            let branch = self.b.push_typed(Op::If, &[on], &types);
            let yes = self.b.func.add_region(&[]);
            self.b.region = yes;
            self.lane(insts, prepared, part, &|e, v| match stack.get(&v) {
                Some(local) => e.at_lane(*local, number),
                None => e.b.value(Op::ExtractDyn, &[v, number]),
            });
            let changed: Values = wanted
                .iter()
                .zip(&given[1..])
                .map(|(r, old)| {
                    let v = self.one(*r);
                    self.b.value(Op::InsertDyn, &[*old, number, v])
                })
                .collect();
            self.b.end(Term::Yield(changed));
            let unchanged: Values = given[1..].into();
            let no = self.b.region(&[], |b, _| b.end(Term::Yield(unchanged)));
            self.b.func.insts[branch].regions.extend([yes, no]);
            self.b.region = region;
            let next: Values = self.b.func.insts[branch].results.iter().copied().collect();
            self.b.end(Term::Continue(label, next));
            self.b.region = outer;
            let made: Values = self.b.func.insts[looped].results.iter().copied().collect();
            for (out, v) in results.iter_mut().zip(made) {
                out.push(v);
            }
        }
        results
    }
}
