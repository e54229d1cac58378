//! Branches and jumps. Uniform ones stay what they are; divergent ones become masks.

use super::emit::{Divergent, Emitter, Exit, Flow, JumpTarget, Lanes, Mask, Parts};
use smallvec::SmallVec;
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// Branches with at most this many plain instructions are predicated: that is cheaper than testing whether any lane
/// takes them.
const MOST_PREDICATED: usize = 12;

impl Emitter<'_> {
    /// The instructions of a region from number `from` on, and its terminator.
    pub(super) fn region(&mut self, region: Region, from: usize, mut mask: Mask) -> Exit {
        let old = self.old;
        let insts = &old.regions[region].insts;
        for (k, inst) in insts.iter().enumerate().skip(from) {
            match self.inst(*inst, mask) {
                Flow::On(next) => mask = next,
                Flow::NoLanes => return Exit::NoLanes,
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
            Term::Return(_) | Term::Unreachable => Exit::NoLanes,
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
                    // Lanes that stay overwrite the value when they leave.
                    let around = self.around.clone().unwrap_or_else(|| mask.clone());
                    self.arrive_with(&d, values, &mask, &around);
                    return Exit::NoLanes;
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
                Exit::NoLanes
            }
            Some(JumpTarget::Iteration) | None => Exit::NoLanes,
        }
    }

    /// Active lanes store their values at a join.
    pub(super) fn arrive(&mut self, d: &Divergent, values: &[Lanes], mask: &Mask) {
        self.arrive_with(d, values, mask, mask);
    }

    /// Values are written for all lanes in `writing`.
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

    /// The values of a jump or yield, flattened: scalars, or all parts of varying values.
    pub(super) fn flat(&mut self, values: &[Lanes], varying: &[bool]) -> Values {
        let mut out = Values::new();
        for (v, varies) in values.iter().zip(varying) {
            match v {
                Lanes::One(v) if !varies => out.push(*v),
                _ => out.extend(self.spread_out(v)),
            }
        }
        out
    }

    pub(super) fn flat_types(&self, values: &[Value], varying: &[bool]) -> Vec<Type> {
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

    pub(super) fn varying(&self, values: &[Value]) -> Vec<bool> {
        values.iter().map(|v| !self.shapes.is_uniform(*v)).collect()
    }

    /// The inverse of [`Emitter::flat`]: defines values from flat ones, and returns the rest.
    pub(super) fn define<'v>(
        &mut self,
        values: &[Value],
        varying: &[bool],
        flat: &'v [Value],
    ) -> &'v [Value] {
        let (lanes, rest) = self.unflatten(varying, flat);
        for (v, lanes) in values.iter().zip(lanes) {
            self.set(*v, lanes);
        }
        rest
    }

    /// Splits off flat values, and returns the rest.
    pub(super) fn unflatten<'v>(
        &self,
        varying: &[bool],
        flat: &'v [Value],
    ) -> (Vec<Lanes>, &'v [Value]) {
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

    /// Clears the mask of the lanes that continue.
    pub(super) fn clear_waiting(&mut self, d: &Divergent) {
        if let Some((live, _)) = &d.next {
            let empty = self.empty_mask();
            self.store_locals(live, &empty);
        }
    }

    /// The values of the lanes that continue with the next iteration, and their mask.
    pub(super) fn next_turn(
        &mut self,
        exit: Exit,
        d: &Divergent,
        initial: &[Lanes],
    ) -> (Vec<Lanes>, Parts) {
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
            (_, None) => (initial.to_vec(), self.empty_mask()),
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

    /// Exits a divergent loop when its mask is empty.
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

    /// Whether the rest of a region must not run with an empty mask.
    fn needs_lanes(&self, region: Region, from: usize) -> bool {
        let data = &self.old.regions[region];
        (data.insts[from..].iter()).any(|i| !self.old.insts[*i].is_pure())
    }

    /// The rest of a region, under a test for active lanes.
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
            Exit::Next(..) | Exit::NoLanes => {
                self.b.end(Term::Yield(zeros.clone()));
                false
            }
            Exit::Ended => false,
        };
        self.b.region = outer;
        let otherwise = self.b.region(&[], |b, _| b.end(Term::Yield(zeros)));
        self.b.func.insts[branch].regions.extend([then, otherwise]);
        if !arrives {
            return Exit::NoLanes;
        }
        let results: Values = self.b.func.insts[branch].results.iter().copied().collect();
        let (lanes, rest) = self.unflatten(&varying, &results);
        Exit::Yield(lanes, Mask::Some(rest.into()))
    }

    pub(super) fn control(&mut self, inst: Inst, mask: Mask) -> Flow {
        // Other lanes may leave inside.
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
            Some(ControlOp::Block(label)) if divergent => self.divergent_block(inst, label, mask),
            Some(ControlOp::For(label, _)) if divergent => {
                let bounds = &old.insts[inst].args[..3];
                if bounds.iter().all(|v| self.shapes.is_uniform(*v)) {
                    self.divergent_for(inst, label, mask)
                } else {
                    self.divergent_loop(inst, label, mask, true)
                }
            }
            Some(ControlOp::Loop(label)) if divergent => {
                self.divergent_loop(inst, label, mask, false)
            }
            Some(
                ControlOp::Block(_)
                | ControlOp::For(..)
                | ControlOp::Loop(_)
                | ControlOp::ForEach(..),
            )
            | None => self.uniform_loop(inst, mask),
        }
    }

    /// All lanes take the same side.
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
        let (mut ended, mut empty) = (true, true);
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
                    (ended, empty) = (false, false);
                }
                Exit::Next(..) | Exit::NoLanes => {
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
        if empty {
            return Flow::NoLanes;
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
            (None, None) => Flow::NoLanes,
            (Some(m), None) | (None, Some(m)) => Flow::On(m),
            (Some(a), Some(b)) => {
                let (a, b) = (self.mask_parts(&a), self.mask_parts(&b));
                Flow::On(Mask::Some(self.or(&a, &b)))
            }
        }
    }

    /// One side of a divergent branch: the values that it yields, and the lanes that reach its end.
    fn side(&mut self, inst: Inst, side: usize, mask: Mask) -> (Vec<Parts>, Option<Mask>) {
        let data = &self.old.insts[inst];
        let region = data.regions[side];
        if self.is_cheap(region) {
            return match self.region(region, 0, mask) {
                Exit::Yield(values, mask) => (
                    values.iter().map(|v| self.spread_out(v)).collect(),
                    Some(mask),
                ),
                Exit::Next(..) | Exit::NoLanes | Exit::Ended => (Vec::new(), None),
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
            Exit::Next(..) | Exit::NoLanes | Exit::Ended => {
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

    /// Whether a side is short and can run with an empty mask.
    fn is_cheap(&self, region: Region) -> bool {
        let insts = &self.old.regions[region].insts;
        insts.len() <= MOST_PREDICATED && insts.iter().all(|i| self.old.insts[*i].is_pure())
    }

    fn divergent_block(&mut self, inst: Inst, label: Label, mask: Mask) -> Flow {
        let data = &self.old.insts[inst];
        let d = self.landing(inst, None, None);
        self.targets.insert(label, JumpTarget::Divergent(d.clone()));
        if let Exit::Yield(values, mask) = self.region(data.regions[0], 0, mask.clone()) {
            self.arrive(&d, &values, &mask);
        }
        self.land(inst, &d, mask)
    }

    /// Locals for the values that lanes bring to the join of an instruction.
    pub(super) fn landing(
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
            let empty = self.empty_mask();
            self.store_locals(arrived, &empty);
        }
        Divergent {
            label: None,
            direct,
            results,
            arrived,
            next,
        }
    }

    /// The join: all lanes that left are active again.
    pub(super) fn land(&mut self, inst: Inst, d: &Divergent, before: Mask) -> Flow {
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
}
