//! The forward sweep: needed values, computed again. Nothing but temps is written.

use super::Reverse;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Region, Value};
use wuji_ir::module::{Term, Values};
use wuji_ir::ops::{AccessOp, ControlOp, Op, OpClass, Place};
use wuji_ir::types::Type;

impl Reverse<'_, '_> {
    /// Computes the needed values of a region.
    pub(super) fn forward(&mut self, region: Region) -> Result<()> {
        for inst in &self.f.regions[region].insts {
            self.forward_inst(*inst)?;
        }
        Ok(())
    }

    fn is_needed(&self, v: &Value) -> bool {
        self.needed.contains(*v)
    }

    fn forward_inst(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let needed = data.results.iter().any(|v| self.is_needed(v));
        match data.op.class() {
            OpClass::Control(op) => self.forward_control(inst, op),
            OpClass::Access(AccessOp::Store | AccessOp::Atomic(_), access) => match access.place {
                Place::Temp(t) if self.needed.contains_temp(t) => self.copy(inst),
                Place::Temp(_) | Place::Field(_) | Place::Array(_) | Place::Local(_) => Ok(()),
            },
            OpClass::Call(callee) if needed => self.forward_call(inst, callee),
            OpClass::Constant(_)
            | OpClass::Elementwise(_)
            | OpClass::Component(_)
            | OpClass::Reduce(_)
            | OpClass::Algebra(_)
            | OpClass::Query(_)
            | OpClass::Hint(_)
            | OpClass::Access(..)
            | OpClass::Cell(..)
            | OpClass::TreeAccess(..)
            | OpClass::Memory(_)
            | OpClass::Call(_)
            | OpClass::Random
            | OpClass::Thread(_)
            | OpClass::Check(_) => {
                if needed {
                    self.copy(inst)?;
                }
                Ok(())
            }
        }
    }

    fn copy(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let args = self.values(&data.args)?;
        self.b.span = self.f.spans[inst];
        let types: Vec<Type> = data.results.iter().map(|v| self.f.ty(*v)).collect();
        let copy = self.b.push_typed(data.op.clone(), &args, &types);
        self.map_results(&data.results, copy);
        Ok(())
    }

    fn map_results(&mut self, results: &[Value], copy: Inst) {
        let new = self.b.func.insts[copy].results.clone();
        self.map.extend(results.iter().copied().zip(new));
    }

    fn forward_control(&mut self, inst: Inst, op: ControlOp) -> Result<()> {
        let data = &self.f.insts[inst];
        let results: Values = data
            .results
            .iter()
            .copied()
            .filter(|v| self.is_needed(v))
            .collect();
        if results.is_empty() && !self.updates_temps(inst) {
            return Ok(());
        }
        self.b.span = self.f.spans[inst];
        match op {
            ControlOp::If => self.forward_if(inst, &results),
            ControlOp::For(..) => self.forward_for(inst),
            ControlOp::Loop(_) => self.forward_loop(inst, &results),
            ControlOp::ForEach(..) => self.forward_foreach(inst),
            ControlOp::Block(_) => Ok(()),
        }
    }

    /// Whether something inside updates a temp that is needed.
    fn updates_temps(&self, inst: Inst) -> bool {
        let f = self.f;
        let inside = f.insts[inst].regions.iter().flat_map(|r| f.insts_in(*r));
        inside.into_iter().any(|i| {
            let place = f.insts[i].op.written_access().map(|a| a.place);
            matches!(place, Some(Place::Temp(t)) if self.needed.contains_temp(t))
        })
    }

    fn forward_if(&mut self, inst: Inst, results: &[Value]) -> Result<()> {
        let data = &self.f.insts[inst];
        let condition = self.value(data.args[0])?;
        let types: Vec<Type> = results.iter().map(|v| self.f.ty(*v)).collect();
        let branch = self.b.push_typed(Op::If, &[condition], &types);
        for side in &data.regions {
            let (region, _) = self.region(&[], |this, _| {
                this.forward(*side)?;
                let yields = this.f.regions[*side].term.args();
                let chosen = data.results.iter().zip(yields);
                let chosen: Vec<Value> = chosen
                    .filter(|(r, _)| results.contains(r))
                    .map(|(_, v)| *v)
                    .collect();
                let values = this.values(&chosen)?;
                this.b.end(Term::Yield(values));
                Ok(())
            })?;
            self.b.func.insts[branch].regions.push(region);
        }
        self.map_results(results, branch);
        Ok(())
    }

    /// The numbers of the carried values that are needed.
    pub(super) fn needed_carried(&self, params: &[Value]) -> Vec<usize> {
        let numbers = 0..params.len();
        numbers.filter(|k| self.is_needed(&params[*k])).collect()
    }

    fn forward_for(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let Op::For(_, kind) = data.op else {
            return Ok(());
        };
        let body = data.regions[0];
        let params = self.f.regions[body].params.clone();
        let kept = self.needed_carried(&params[1..]);
        let mut args = self.values(&data.args[..3])?;
        let mut types = vec![self.f.ty(params[0])];
        for k in &kept {
            args.push(self.value(data.args[3 + k])?);
            types.push(self.f.ty(params[1 + k]));
        }
        let label = self.b.func.fresh_label();
        let copy = self.b.push_typed(Op::For(label, kind), &args, &types[1..]);
        let (region, _) = self.region(&types, |this, new| {
            this.map.insert(params[0], new[0]);
            for (k, v) in kept.iter().zip(&new[1..]) {
                this.map.insert(params[1 + k], *v);
            }
            this.forward(body)?;
            let next = this.f.regions[body].term.args();
            let next: Vec<Value> = kept.iter().map(|k| next[*k]).collect();
            let next = this.values(&next)?;
            this.b.end(Term::Continue(label, next));
            Ok(())
        })?;
        self.b.func.insts[copy].regions.push(region);
        let new = self.b.func.insts[copy].results.clone();
        for (k, v) in kept.iter().zip(new) {
            self.map.insert(data.results[*k], v);
        }
        Ok(())
    }

    fn forward_loop(&mut self, inst: Inst, results: &[Value]) -> Result<()> {
        let data = &self.f.insts[inst];
        let body = data.regions[0];
        let params = self.f.regions[body].params.clone();
        let kept = self.needed_carried(&params);
        let exit = self.exit(body)?;
        let numbers: Vec<usize> = (0..data.results.len())
            .filter(|k| results.contains(&data.results[*k]))
            .collect();
        let mut args = Values::new();
        let mut types = Vec::new();
        for k in &kept {
            args.push(self.value(data.args[*k])?);
            types.push(self.f.ty(params[*k]));
        }
        let label = self.b.func.fresh_label();
        let result_types: Vec<Type> = results.iter().map(|v| self.f.ty(*v)).collect();
        let copy = self.b.push_typed(Op::Loop(label), &args, &result_types);
        let (region, _) = self.region(&types, |this, new| {
            for (k, v) in kept.iter().zip(new) {
                this.map.insert(params[*k], *v);
            }
            this.forward(body)?;
            let condition = this.value(exit.condition)?;
            let left: Vec<Value> = numbers.iter().map(|k| exit.results[*k]).collect();
            let left = this.values(&left)?;
            let next: Vec<Value> = kept.iter().map(|k| exit.carried[*k]).collect();
            let next = this.values(&next)?;
            this.leave_or_repeat(
                condition,
                Term::Break(label, left),
                Term::Continue(label, next),
            );
            Ok(())
        })?;
        self.b.func.insts[copy].regions.push(region);
        self.map_results(results, copy);
        Ok(())
    }

    /// Ends the body of a `loop`.
    pub(super) fn leave_or_repeat(&mut self, condition: Value, leave: Term, repeat: Term) {
        let branch = self.b.push_typed(Op::If, &[condition], &[]);
        for term in [leave, repeat] {
            let region = self.b.region(&[], |b, _| b.end(term));
            self.b.func.insts[branch].regions.push(region);
        }
        self.b.end(Term::Unreachable);
    }

    fn forward_foreach(&mut self, inst: Inst) -> Result<()> {
        let body = self.f.insts[inst].regions[0];
        let (copy, _) = self.foreach(inst, |this| this.forward(body))?;
        debug_assert!(self.b.func.insts[copy].results.is_empty());
        Ok(())
    }

    /// A parallel loop over the domain of another one. Its index parameters are mapped.
    pub(super) fn foreach(
        &mut self,
        inst: Inst,
        fill: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<(Inst, super::Frame)> {
        let data = &self.f.insts[inst];
        let Op::ForEach(_, domain, hints) = &data.op else {
            return Err(self.refuse(inst, "W0330", "not a parallel loop", ""));
        };
        let args = self.values(&data.args)?;
        let label = self.b.func.fresh_label();
        let op = Op::ForEach(label, domain.clone(), *hints);
        let copy = self.b.push_typed(op, &args, &[]);
        let params = self.f.regions[data.regions[0]].params.clone();
        let types: Vec<Type> = params.iter().map(|p| self.f.ty(*p)).collect();
        let (region, frame) = self.region(&types, |this, new| {
            this.map
                .extend(params.iter().copied().zip(new.iter().copied()));
            fill(this)?;
            this.b.end(Term::Continue(label, Values::new()));
            Ok(())
        })?;
        self.b.func.insts[copy].regions.push(region);
        Ok((copy, frame))
    }
}
