//! Branches and loops. Where all lanes go the same way they stay what they are; elsewhere masks say who
//! takes part.

use super::emit::{Divergent, Emitter, Exit, Flow, JumpTarget, Lanes, Mask, Parts};
use smallvec::SmallVec;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// A branch with so many plain instructions costs less than asking whether anybody takes it.
const MOST_PREDICATED: usize = 12;

impl Emitter<'_> {
    /// The instructions of a region from number `from` on, and its terminator.
    pub(super) fn region(&mut self, region: Region, from: usize, mut mask: Mask) -> Exit {
        let old = self.old;
        let insts = &old.regions[region].insts;
        for (k, inst) in insts.iter().enumerate().skip(from) {
            match self.inst(*inst, mask) {
                Flow::On(next) => mask = next,
                Flow::Nobody => return Exit::Nobody,
                Flow::Ended => {
                    self.b.end(Term::Unreachable);
                    return Exit::Ended;
                }
            }
            if self.shapes.escapes.contains(inst) {
                self.around = None;
                self.flush(&mask);
                if self.leave_if_empty(region, &mask) {
                    continue;
                }
                if self.needs_lanes(region, k + 1) {
                    return self.guarded_rest(region, k + 1, mask);
                }
            }
        }
        self.flush(&mask);
        self.b.span = old.regions[region].term_span;
        self.term(region, mask)
    }

    fn term(&mut self, region: Region, mask: Mask) -> Exit {
        let old = self.old;
        let term = &old.regions[region].term;
        let values: Vec<Lanes> = term.args().iter().map(|v| self.get(*v)).collect();
        match term {
            Term::Yield(_) => Exit::Yield(values, mask),
            Term::Break(label, _) => self.jump(*label, region, &values, mask, true),
            Term::Continue(label, _) => self.jump(*label, region, &values, mask, false),
            Term::Return(_) | Term::Unreachable => Exit::Nobody,
        }
    }

    fn jump(
        &mut self,
        label: Label,
        from: Region,
        values: &[Lanes],
        mask: Mask,
        leaves: bool,
    ) -> Exit {
        match self.targets.get(&label).cloned() {
            Some(JumpTarget::Uniform {
                label,
                on_break,
                on_continue,
            }) => {
                let varying = if leaves { on_break } else { on_continue };
                let args = self.flat(values, &varying);
                self.b.end(if leaves {
                    Term::Break(label, args)
                } else {
                    Term::Continue(label, args)
                });
                Exit::Ended
            }
            Some(JumpTarget::Divergent(d)) => {
                if leaves {
                    // Those that stay will write again when they leave.
                    let around = self.around.clone().unwrap_or_else(|| mask.clone());
                    self.arrive_with(&d, values, &mask, &around);
                    return Exit::Nobody;
                }
                if d.direct == Some(from) {
                    return Exit::Next(values.to_vec(), mask);
                }
                if let Some((live, carried)) = &d.next {
                    let on = self.mask_parts(&mask);
                    let before = self.load_locals(live);
                    let after = self.or(&before, &on);
                    self.store_locals(live, &after);
                    for (locals, v) in carried.iter().zip(values) {
                        let v = self.spread_out(v);
                        self.update_locals(locals, &mask, &v);
                    }
                }
                Exit::Nobody
            }
            Some(JumpTarget::Iteration) | None => Exit::Nobody,
        }
    }

    /// Lanes leave what they bring.
    fn arrive(&mut self, d: &Divergent, values: &[Lanes], mask: &Mask) {
        self.arrive_with(d, values, mask, mask);
    }

    /// Results are written for all lanes in `writing`.
    fn arrive_with(&mut self, d: &Divergent, values: &[Lanes], mask: &Mask, writing: &Mask) {
        for (locals, v) in d.results.iter().zip(values) {
            let v = self.spread_out(v);
            self.update_locals(locals, writing, &v);
        }
        if let Some(arrived) = &d.arrived {
            let on = self.mask_parts(mask);
            let before = self.load_locals(arrived);
            let after = self.or(&before, &on);
            self.store_locals(arrived, &after);
        }
    }

    /// Values as a jump or a yield hands them on: scalars, or all parts of those that vary.
    fn flat(&mut self, values: &[Lanes], varying: &[bool]) -> Values {
        let mut out = Values::new();
        for (v, varies) in values.iter().zip(varying) {
            match v {
                Lanes::One(v) if !varies => out.push(*v),
                _ => out.extend(self.spread_out(v)),
            }
        }
        out
    }

    fn flat_types(&self, values: &[Value], varying: &[bool]) -> Vec<Type> {
        let mut out = Vec::new();
        for (v, varies) in values.iter().zip(varying) {
            if *varies {
                let ty = self.vector(self.scalar_of(*v));
                out.extend(std::iter::repeat_n(ty, self.parts));
            } else {
                out.push(self.old.ty(*v));
            }
        }
        out
    }

    fn varying(&self, values: &[Value]) -> Vec<bool> {
        values.iter().map(|v| !self.shapes.is_uniform(*v)).collect()
    }

    /// Takes flat values apart again; gives what is behind them.
    fn define<'v>(&mut self, values: &[Value], varying: &[bool], flat: &'v [Value]) -> &'v [Value] {
        let (lanes, rest) = self.apart(varying, flat);
        for (v, lanes) in values.iter().zip(lanes) {
            self.set(*v, lanes);
        }
        rest
    }

    /// The opposite of [`Emitter::flat`], and what is behind it.
    fn apart<'v>(&self, varying: &[bool], flat: &'v [Value]) -> (Vec<Lanes>, &'v [Value]) {
        let mut rest = flat;
        let mut lanes = Vec::new();
        for varies in varying {
            let n = if *varies { self.parts } else { 1 };
            let (mine, more) = rest.split_at(n);
            lanes.push(if *varies {
                Lanes::Many(mine.into())
            } else {
                Lanes::One(mine[0])
            });
            rest = more;
        }
        (lanes, rest)
    }

    /// Nobody waits for the next turn yet.
    fn clear_waiting(&mut self, d: &Divergent) {
        if let Some((live, _)) = &d.next {
            let nobody = self.nobody();
            self.store_locals(live, &nobody);
        }
    }

    /// What the lanes that go on bring to the next turn, and which they are.
    fn next_turn(&mut self, exit: Exit, d: &Divergent, initial: &[Lanes]) -> (Vec<Lanes>, Parts) {
        match (exit, &d.next) {
            (Exit::Next(values, mask), _) => {
                let live = self.mask_parts(&mask);
                (values, live)
            }
            (_, Some((live, carried))) => {
                let live = self.load_locals(live);
                let values = carried
                    .iter()
                    .map(|c| Lanes::Many(self.load_locals(c)))
                    .collect();
                (values, live)
            }
            (_, None) => (initial.to_vec(), self.nobody()),
        }
    }

    fn zero_values(&mut self, types: &[Type]) -> Values {
        types
            .iter()
            .map(|ty| match *ty {
                Type::Vector(s, _) => self.zeros(s),
                _ => self.constant(Imm::zero(ty.elem().unwrap_or(Scalar::Bool))),
            })
            .collect()
    }

    /// In the body of a loop that is left when nobody is in it any more: leaves it.
    fn leave_if_empty(&mut self, region: Region, mask: &Mask) -> bool {
        let target = self.targets.values().find_map(|t| match t {
            JumpTarget::Divergent(d) if d.direct == Some(region) => d.label.clone(),
            _ => None,
        });
        let (Some((label, values)), Mask::Some(m)) = (target, mask) else {
            return false;
        };
        let any = self.any(m);
        self.break_unless(any, label, values.into());
        true
    }

    /// Whether what follows must not run without lanes.
    fn needs_lanes(&self, region: Region, from: usize) -> bool {
        let data = &self.old.regions[region];
        data.insts[from..].iter().any(|i| {
            let inst = &self.old.insts[*i];
            inst.op.effect() != Effect::Pure || !inst.regions.is_empty()
        })
    }

    /// The rest of a region, if anybody is left.
    fn guarded_rest(&mut self, region: Region, from: usize, mask: Mask) -> Exit {
        let on = self.mask_parts(&mask);
        let any = self.any(&on);
        let values = match &self.old.regions[region].term {
            Term::Yield(v) => v.clone(),
            _ => Values::new(),
        };
        let varying = self.varying(&values);
        let mut types = self.flat_types(&values, &varying);
        types.extend(std::iter::repeat_n(self.mask_type(), self.parts));
        let zeros = self.zero_values(&types);
        let branch = self.b.push_typed(Op::If, &[any], &types);
        let outer = self.b.region;
        let then = self.b.func.add_region(&[]);
        self.b.region = then;
        let exit = self.region(region, from, mask);
        let arrives = match exit {
            Exit::Yield(values, mask) => {
                let mut flat = self.flat(&values, &varying);
                flat.extend(self.mask_parts(&mask));
                self.b.end(Term::Yield(flat));
                true
            }
            Exit::Next(..) | Exit::Nobody => {
                self.b.end(Term::Yield(zeros.clone()));
                false
            }
            Exit::Ended => false,
        };
        self.b.region = outer;
        let otherwise = self.b.region(&[], |b, _| b.end(Term::Yield(zeros)));
        self.b.func.insts[branch].regions.extend([then, otherwise]);
        if !arrives {
            return Exit::Nobody;
        }
        let results: Values = self.b.func.insts[branch].results.iter().copied().collect();
        let (lanes, rest) = self.apart(&varying, &results);
        Exit::Yield(lanes, Mask::Some(rest.into()))
    }

    pub(super) fn control(&mut self, inst: Inst, mask: Mask) -> Flow {
        // Inside, others may have left.
        let around = self.around.take();
        let flow = self.branch_or_loop(inst, mask);
        self.around = around;
        flow
    }

    fn branch_or_loop(&mut self, inst: Inst, mask: Mask) -> Flow {
        let old = self.old;
        let divergent = self.shapes.divergent.contains(&inst);
        match old.insts[inst].op.control() {
            Some(ControlOp::If) if divergent => self.divergent_if(inst, mask),
            Some(ControlOp::If) => self.uniform_if(inst, mask),
            Some(ControlOp::Block(label)) if divergent => self.parted_block(inst, label, mask),
            Some(ControlOp::For(label, _)) if divergent => {
                let bounds = &old.insts[inst].args[..3];
                if bounds.iter().all(|v| self.shapes.is_uniform(*v)) {
                    self.parted_for(inst, label, mask)
                } else {
                    self.parted_loop(inst, label, mask, true)
                }
            }
            Some(ControlOp::Loop(label)) if divergent => self.parted_loop(inst, label, mask, false),
            Some(
                ControlOp::Block(_)
                | ControlOp::For(..)
                | ControlOp::Loop(_)
                | ControlOp::ForEach(..),
            )
            | None => self.joint_loop(inst, mask),
        }
    }

    /// All lanes go the same way.
    fn uniform_if(&mut self, inst: Inst, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        let varying = self.varying(&data.results);
        let escapes = self.shapes.escapes.contains(&inst);
        let mut types = self.flat_types(&data.results, &varying);
        if escapes {
            types.extend(std::iter::repeat_n(self.mask_type(), self.parts));
        }
        let condition = self.one(data.args[0]);
        let zeros = self.zero_values(&types);
        let branch = self.b.push_typed(Op::If, &[condition], &types);
        let outer = self.b.region;
        let (mut ended, mut nobody) = (true, true);
        for side in &data.regions {
            let region = self.b.func.add_region(&[]);
            self.b.func.insts[branch].regions.push(region);
            self.b.region = region;
            match self.region(*side, 0, mask.clone()) {
                Exit::Yield(values, mask) => {
                    let mut flat = self.flat(&values, &varying);
                    if escapes {
                        flat.extend(self.mask_parts(&mask));
                    }
                    self.b.end(Term::Yield(flat));
                    (ended, nobody) = (false, false);
                }
                Exit::Next(..) | Exit::Nobody => {
                    self.b.end(Term::Yield(zeros.clone()));
                    ended = false;
                }
                Exit::Ended => {}
            }
        }
        self.b.region = outer;
        if ended {
            return Flow::Ended;
        }
        if nobody {
            return Flow::Nobody;
        }
        let results: Values = self.b.func.insts[branch].results.iter().copied().collect();
        let rest = self.define(&data.results, &varying, &results);
        Flow::On(if escapes {
            Mask::Some(rest.into())
        } else {
            mask
        })
    }

    fn divergent_if(&mut self, inst: Inst, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        let condition = self.many(data.args[0]);
        let refused: Parts = condition
            .iter()
            .map(|c| self.b.unary(UnOp::Not, *c))
            .collect();
        let then = self.and(&mask, &condition);
        let otherwise = self.and(&mask, &refused);
        let outer = self.around.replace(mask.clone());
        let (yes, first) = self.side(inst, 0, then);
        let (no, second) = self.side(inst, 1, otherwise);
        self.around = outer;
        for (k, result) in data.results.iter().enumerate() {
            let parts = match (yes.get(k), no.get(k)) {
                (Some(a), Some(b)) => self.select(&condition, a, b),
                (Some(a), None) | (None, Some(a)) => a.clone(),
                (None, None) => {
                    let zero = self.zeros(self.scalar_of(*result));
                    smallvec::smallvec![zero; self.parts]
                }
            };
            self.set(*result, Lanes::Many(parts));
        }
        if !self.shapes.escapes.contains(&inst) {
            return Flow::On(mask);
        }
        match (first, second) {
            (None, None) => Flow::Nobody,
            (Some(m), None) | (None, Some(m)) => Flow::On(m),
            (Some(a), Some(b)) => {
                let (a, b) = (self.mask_parts(&a), self.mask_parts(&b));
                Flow::On(Mask::Some(self.or(&a, &b)))
            }
        }
    }

    /// One side of a branch that lanes part at: what it yields, and which lanes come out of it.
    fn side(&mut self, inst: Inst, side: usize, mask: Mask) -> (Vec<Parts>, Option<Mask>) {
        let data = &self.old.insts[inst];
        let region = data.regions[side];
        if self.is_cheap(region) {
            return match self.region(region, 0, mask) {
                Exit::Yield(values, mask) => (
                    values.iter().map(|v| self.spread_out(v)).collect(),
                    Some(mask),
                ),
                Exit::Next(..) | Exit::Nobody | Exit::Ended => (Vec::new(), None),
            };
        }
        let on = self.mask_parts(&mask);
        let any = self.any(&on);
        let varying = vec![true; data.results.len()];
        let mut types = self.flat_types(&data.results, &varying);
        let results = types.len();
        types.extend(std::iter::repeat_n(self.mask_type(), self.parts));
        let zeros = self.zero_values(&types);
        let branch = self.b.push_typed(Op::If, &[any], &types);
        let outer = self.b.region;
        let then = self.b.func.add_region(&[]);
        self.b.region = then;
        let arrives = match self.region(region, 0, mask) {
            Exit::Yield(values, mask) => {
                let mut flat = self.flat(&values, &varying);
                flat.extend(self.mask_parts(&mask));
                self.b.end(Term::Yield(flat));
                true
            }
            Exit::Next(..) | Exit::Nobody | Exit::Ended => {
                self.b.end(Term::Yield(zeros.clone()));
                false
            }
        };
        self.b.region = outer;
        let otherwise = self.b.region(&[], |b, _| b.end(Term::Yield(zeros)));
        self.b.func.insts[branch].regions.extend([then, otherwise]);
        if !arrives {
            return (Vec::new(), None);
        }
        let made: Values = self.b.func.insts[branch].results.iter().copied().collect();
        let values = made[..results]
            .chunks(self.parts)
            .map(|c| c.iter().copied().collect())
            .collect();
        (values, Some(Mask::Some(made[results..].into())))
    }

    /// Whether a side can run with nobody in it, and quickly.
    fn is_cheap(&self, region: Region) -> bool {
        let insts = &self.old.regions[region].insts;
        insts.len() <= MOST_PREDICATED
            && insts.iter().all(|i| {
                let inst = &self.old.insts[*i];
                inst.op.effect() == Effect::Pure && inst.regions.is_empty()
            })
    }

    fn parted_block(&mut self, inst: Inst, label: Label, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        let d = self.landing(inst, None, None);
        self.targets.insert(label, JumpTarget::Divergent(d.clone()));
        if let Exit::Yield(values, mask) = self.region(data.regions[0], 0, mask.clone()) {
            self.arrive(&d, &values, &mask);
        }
        self.land(inst, &d, mask)
    }

    /// Locals for what lanes bring out of an instruction.
    fn landing(
        &mut self,
        inst: Inst,
        direct: Option<Region>,
        next: Option<(SmallVec<[Local; 4]>, Vec<SmallVec<[Local; 4]>>)>,
    ) -> Divergent {
        let data = &self.old.insts[inst];
        let results = data
            .results
            .iter()
            .map(|r| {
                let ty = self.vector(self.scalar_of(*r));
                self.new_locals("exit", ty, None)
            })
            .collect();
        let arrived = self.shapes.escapes.contains(&inst).then(|| {
            let ty = self.mask_type();
            self.new_locals("arrived", ty, None)
        });
        if let Some(arrived) = &arrived {
            let nobody = self.nobody();
            self.store_locals(arrived, &nobody);
        }
        Divergent {
            label: None,
            direct,
            results,
            arrived,
            next,
        }
    }

    /// Everybody who left is together again.
    fn land(&mut self, inst: Inst, d: &Divergent, before: Mask) -> Flow {
        let data = &self.old.insts[inst];
        for (result, locals) in data.results.iter().zip(&d.results) {
            let parts = self.load_locals(locals);
            self.set(*result, Lanes::Many(parts));
        }
        Flow::On(match &d.arrived {
            Some(arrived) => Mask::Some(self.load_locals(arrived)),
            None => before,
        })
    }

    /// Where lanes wait for the next turn when there are several ways to it.
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

    /// A loop that lanes leave, or go through, at different times. With `counts` it is a `for` whose
    /// bounds vary.
    fn parted_loop(&mut self, inst: Inst, label: Label, mask: Mask, counts: bool) -> Flow {
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
            // Those without a turn leave with what they came with.
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

    /// The next index of each lane. Lanes that have none leave with what they carry.
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
        // The distance to the bound is exact as an unsigned number.
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

    fn break_unless(&mut self, any: Value, label: Label, values: Values) {
        let branch = self.b.push_typed(Op::If, &[any], &[]);
        let stay = self.b.region(&[], |b, _| b.end(Term::Yield(Values::new())));
        let go = self.b.region(&[], |b, _| b.end(Term::Break(label, values)));
        self.b.func.insts[branch].regions.extend([stay, go]);
    }

    /// A `for` with the same bounds for all lanes, which some leave early or cut short.
    fn parted_for(&mut self, inst: Inst, label: Label, mask: Mask) -> Flow {
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
        // Whoever leaves the loop when it is empty says that nobody came to its end.
        let mut empty = self.nobody().to_vec();
        empty.extend(&given[1 + self.parts..]);
        d.label = Some((fresh, empty));
        self.clear_waiting(&d);
        self.targets.insert(label, JumpTarget::Divergent(d.clone()));
        let exit = self.region(body, 0, Mask::Some(on));
        let (values, live) = self.next_turn(exit, &d, &initial);
        let mut args: Values = live.iter().copied().collect();
        args.extend(self.flat(&values, &varying));
        self.b.end(Term::Continue(fresh, args));
        self.b.region = outer;
        let made: Values = self.b.func.insts[looped].results.iter().copied().collect();
        let (end, rest) = made.split_at(self.parts);
        let ended = Mask::Some(end.into());
        let (carried, _) = self.apart(&varying, rest);
        self.arrive(&d, &carried, &ended);
        self.land(inst, &d, mask)
    }

    /// A loop or block that all lanes go through together.
    fn joint_loop(&mut self, inst: Inst, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        let body = data.regions[0];
        let is_for = matches!(data.op, Op::For(..));
        let (first, own) = if is_for { (3, 1) } else { (0, 0) };
        let params: Values = self.old.regions[body].params[own..].into();
        let on_continue = self.varying(&params);
        let on_break = self.varying(&data.results);
        // What a `for` hands on is also its result.
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
            Exit::Next(..) | Exit::Nobody => self.b.end(Term::Unreachable),
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
