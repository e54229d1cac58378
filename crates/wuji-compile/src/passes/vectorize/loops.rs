//! Loops. Uniform loops stay loops; divergent ones run until their mask is empty.

use super::emit::{Divergent, Emitter, Exit, Flow, JumpTarget, Lanes, Mask, Parts};
use smallvec::SmallVec;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Type};

impl Emitter<'_> {
    /// Locals for lanes that continue, if there are several `continue`s.
    #[allow(clippy::type_complexity)]
    fn waiting(
        &mut self,
        inst: Inst,
        first: usize,
    ) -> Option<(SmallVec<[Local; 4]>, Vec<SmallVec<[Local; 4]>>)> {
        if self.shapes.is_direct(inst) {
            return None;
        }
        let data = &self.old.insts[inst];
        let mask = self.mask_type();
        let live = self.new_locals("next", mask, None);
        let carried = data.args[first..]
            .iter()
            .map(|v| {
                let ty = self.vector(self.scalar_of(*v));
                self.new_locals("carried", ty, None)
            })
            .collect();
        Some((live, carried))
    }

    /// A loop that lanes leave or continue at different times. With `counts` it is a `for` with varying bounds.
    pub(super) fn divergent_loop(
        &mut self,
        inst: Inst,
        label: Label,
        mask: Mask,
        counts: bool,
    ) -> Flow {
        let data = &self.old.insts[inst];
        let body = data.regions[0];
        let first = if counts { 3 } else { 0 };
        let params: Values = self.old.regions[body].params[first.min(1)..].into();
        let varying = self.varying(&params);
        let next = self.waiting(inst, first);
        let direct = self.shapes.is_direct(inst).then_some(body);
        let mut d = self.landing(inst, direct, next);
        let mut live = self.mask_parts(&mask);
        let initial: Vec<Lanes> = data.args[first..].iter().map(|v| self.get(*v)).collect();
        let mut count = None;
        if counts {
            let (lo, hi) = (self.many(data.args[0]), self.many(data.args[1]));
            let down = self.step_of(data) < 0;
            let order = if down { CmpOp::Gt } else { CmpOp::Lt };
            let begins: Parts = (0..self.parts)
                .map(|p| self.b.compare(order, lo[p], hi[p]))
                .collect();
            // Lanes without iterations leave with the initial values.
            let rest: Parts = begins.iter().map(|b| self.b.unary(UnOp::Not, *b)).collect();
            let skip = self.and(&Mask::Some(live.clone()), &rest);
            self.arrive(&d, &initial, &skip);
            live = match self.and(&Mask::Some(live), &begins) {
                Mask::Some(parts) => parts,
                Mask::All => begins,
            };
            count = Some((lo, hi));
        }
        let outer = self.b.region;
        let entered = counts.then(|| {
            let any = self.any(&live);
            let entered = self.b.push_typed(Op::If, &[any], &[]);
            self.b.region = self.b.func.add_region(&[]);
            entered
        });
        let inside = self.b.region;

        let fresh = self.b.func.fresh_label();
        let mut args: Values = live.iter().copied().collect();
        let mut types = vec![self.mask_type(); self.parts];
        if let Some((lo, _)) = &count {
            let index = self.vector(self.scalar_of(data.args[0]));
            args.extend(lo.iter().copied());
            types.extend(std::iter::repeat_n(index, self.parts));
        }
        args.extend(self.flat(&initial, &varying));
        types.extend(self.flat_types(&params, &varying));
        let looped = self.b.push_typed(Op::Loop(fresh), &args, &[]);
        let region = self.b.func.add_region(&types);
        self.b.func.insts[looped].regions.push(region);
        self.b.region = region;
        let given: Values = self.b.func.regions[region].params.clone();
        let (on, mut rest) = given.split_at(self.parts);
        let on: Parts = on.into();
        let mut index = Parts::new();
        if counts {
            index = rest[..self.parts].into();
            rest = &rest[self.parts..];
            self.set(body_index(self.old, body), Lanes::Many(index.clone()));
        }
        self.define(&params, &varying, rest);
        d.label = Some((fresh, Vec::new()));
        self.clear_waiting(&d);
        self.targets.insert(label, JumpTarget::Divergent(d.clone()));
        let exit = self.region(body, 0, Mask::Some(on));
        let (values, mut live) = self.next_turn(exit, &d, &initial);
        let mut moved = Parts::new();
        if let Some((_, hi)) = &count {
            live = self.count_on(data, &d, &index, hi, &values, live, &mut moved);
        }
        if counts || d.next.is_some() {
            let any = self.any(&live);
            self.break_unless(any, fresh, Values::new());
        }
        let mut args: Values = live.iter().copied().collect();
        args.extend(moved);
        args.extend(self.flat(&values, &varying));
        self.b.end(Term::Continue(fresh, args));
        self.b.region = inside;
        if let Some(entered) = entered {
            self.b.end(Term::Yield(Values::new()));
            self.b.region = outer;
            let otherwise = self.b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
            let regions = &mut self.b.func.insts[entered].regions;
            regions.extend([inside, otherwise]);
        }
        self.land(inst, &d, mask)
    }

    fn step_of(&self, data: &InstData) -> i128 {
        self.old
            .constant(data.args[2])
            .and_then(Imm::as_int)
            .unwrap_or(1)
    }

    /// Advances the index of each lane. Lanes at their bound leave with their carried values.
    #[allow(clippy::too_many_arguments)]
    fn count_on(
        &mut self,
        data: &InstData,
        d: &Divergent,
        index: &Parts,
        hi: &Parts,
        values: &[Lanes],
        live: Parts,
        moved: &mut Parts,
    ) -> Parts {
        let s = self.scalar_of(data.args[0]);
        let step = self.step_of(data);
        let by = self.constant(Imm::int(s, step));
        let by = self.splat(by);
        let unsigned = s.unsigned();
        let size = self.constant(Imm::int(unsigned, step.abs()));
        let size = self.splat(size);
        // The distance to the bound is exact as an unsigned integer.
        let more: Parts = (0..self.parts)
            .map(|p| {
                let (from, to) = if step > 0 {
                    (index[p], hi[p])
                } else {
                    (hi[p], index[p])
                };
                let distance = self.b.binary(BinOp::Sub, to, from);
                let distance = if unsigned == s {
                    distance
                } else {
                    self.b.value(Op::Bitcast(unsigned), &[distance])
                };
                self.b.compare(CmpOp::Gt, distance, size)
            })
            .collect();
        let done: Parts = more.iter().map(|m| self.b.unary(UnOp::Not, *m)).collect();
        let on = Mask::Some(live);
        let leaving = self.and(&on, &done);
        self.arrive(d, values, &leaving);
        moved.extend(index.iter().map(|i| self.b.binary(BinOp::Add, *i, by)));
        match self.and(&on, &more) {
            Mask::Some(parts) => parts,
            Mask::All => more,
        }
    }

    pub(super) fn break_unless(&mut self, any: Value, label: Label, values: Values) {
        let branch = self.b.push_typed(Op::If, &[any], &[]);
        let stay = self.b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
        let go = self.b.region(&[], |b, _| b.end(Term::Break(label, values)));
        self.b.func.insts[branch].regions.extend([stay, go]);
    }

    /// A `for` with uniform bounds that some lanes leave early.
    pub(super) fn divergent_for(&mut self, inst: Inst, label: Label, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        let body = data.regions[0];
        let params: Values = self.old.regions[body].params[1..].into();
        let varying = self.varying(&params);
        let next = self.waiting(inst, 3);
        let direct = self.shapes.is_direct(inst).then_some(body);
        let mut d = self.landing(inst, direct, next);
        let initial: Vec<Lanes> = data.args[3..].iter().map(|v| self.get(*v)).collect();
        let fresh = self.b.func.fresh_label();
        let mut args: Values = data.args[..3].iter().map(|v| self.one(*v)).collect();
        let live = self.mask_parts(&mask);
        args.extend(live);
        args.extend(self.flat(&initial, &varying));
        let mut types = vec![self.mask_type(); self.parts];
        types.extend(self.flat_types(&params, &varying));
        let Op::For(_, kind) = data.op else {
            return Flow::On(mask);
        };
        let looped = self.b.push_typed(Op::For(fresh, kind), &args, &types);
        let outer = self.b.region;
        let mut all = vec![self.old.ty(data.args[0])];
        all.extend(&types);
        let region = self.b.func.add_region(&all);
        self.b.func.insts[looped].regions.push(region);
        self.b.region = region;
        let given: Values = self.b.func.regions[region].params.clone();
        self.set(body_index(self.old, body), Lanes::One(given[0]));
        let on: Parts = given[1..1 + self.parts].into();
        self.define(&params, &varying, &given[1 + self.parts..]);
        // If the loop exits on an empty mask, no lane has reached its end.
        let mut empty = self.empty_mask().to_vec();
        empty.extend(&given[1 + self.parts..]);
        d.label = Some((fresh, empty.clone()));
        self.clear_waiting(&d);
        self.targets.insert(label, JumpTarget::Divergent(d.clone()));
        let exit = self.region(body, 0, Mask::Some(on));
        let checked = d.next.is_none() && matches!(exit, Exit::Next(..));
        let (values, live) = self.next_turn(exit, &d, &initial);
        // Uniform stores assume that there is a lane.
        if !checked {
            let any = self.any(&live);
            self.break_unless(any, fresh, empty.into());
        }
        let mut args: Values = live.iter().copied().collect();
        args.extend(self.flat(&values, &varying));
        self.b.end(Term::Continue(fresh, args));
        self.b.region = outer;
        let made: Values = self.b.func.insts[looped].results.iter().copied().collect();
        let (end, rest) = made.split_at(self.parts);
        let ended = Mask::Some(end.into());
        let (carried, _) = self.unflatten(&varying, rest);
        self.arrive(&d, &carried, &ended);
        self.land(inst, &d, mask)
    }

    /// A loop or block with uniform control flow.
    pub(super) fn uniform_loop(&mut self, inst: Inst, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        let body = data.regions[0];
        let is_for = matches!(data.op, Op::For(..));
        let (first, own) = if is_for { (3, 1) } else { (0, 0) };
        let params: Values = self.old.regions[body].params[own..].into();
        let on_continue = self.varying(&params);
        let on_break = self.varying(&data.results);
        // The carried values of a `for` are also its results.
        let (on_continue, on_break) = if is_for {
            let both = on_continue.iter().zip(&on_break);
            let either: Vec<bool> = both.map(|(a, b)| *a || *b).collect();
            (either.clone(), either)
        } else {
            (on_continue, on_break)
        };
        let fresh = self.b.func.fresh_label();
        let mut op = data.op.clone();
        op.set_label(fresh);
        let mut args: Values = data.args[..first].iter().map(|v| self.one(*v)).collect();
        let initial: Vec<Lanes> = data.args[first..].iter().map(|v| self.get(*v)).collect();
        args.extend(self.flat(&initial, &on_continue));
        let types = self.flat_types(&data.results, &on_break);
        let looped = self.b.push_typed(op, &args, &types);
        let outer = self.b.region;
        let mut given_types: Vec<Type> = data.args[..own].iter().map(|v| self.old.ty(*v)).collect();
        given_types.extend(self.flat_types(&params, &on_continue));
        let region = self.b.func.add_region(&given_types);
        self.b.func.insts[looped].regions.push(region);
        self.b.region = region;
        let given: Values = self.b.func.regions[region].params.clone();
        if own == 1 {
            self.set(body_index(self.old, body), Lanes::One(given[0]));
        }
        self.define(&params, &on_continue, &given[own..]);
        if let Some(label) = data.op.label() {
            let target = JumpTarget::Uniform {
                label: fresh,
                on_break: on_break.clone(),
                on_continue,
            };
            self.targets.insert(label, target);
        }
        match self.region(body, 0, mask.clone()) {
            Exit::Yield(values, _) => {
                let flat = self.flat(&values, &on_break);
                self.b.end(Term::Yield(flat));
            }
            Exit::Next(..) | Exit::NoLanes => self.b.end(Term::Unreachable),
            Exit::Ended => {}
        }
        self.b.region = outer;
        let made: Values = self.b.func.insts[looped].results.iter().copied().collect();
        self.define(&data.results, &on_break, &made);
        Flow::On(mask)
    }
}

/// The index of a `for`.
fn body_index(f: &Function, body: Region) -> Value {
    f.regions[body].params[0]
}
