//! The reverse sweep of branches and parallel loops.

use super::adjoint::Adjoint;
use super::{Frame, Reverse};
use std::collections::BTreeSet;
use wuji_ir::Result;
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::{TempData, Term, Values};
use wuji_ir::ops::{Access, ControlOp, Op, Place};

impl Reverse<'_, '_> {
    pub(super) fn control(&mut self, inst: Inst, op: ControlOp) -> Result<()> {
        match op {
            ControlOp::If => self.branch(inst),
            ControlOp::For(..) => self.counted_loop(inst),
            ControlOp::Loop(_) => self.open_loop(inst),
            ControlOp::ForEach(..) => self.parallel_loop(inst),
            ControlOp::Block(_) => Ok(()),
        }
    }

    fn branch(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let condition = self.value(data.args[0])?;
        let adjoints: Vec<Option<Adjoint>> = data.results.iter().map(|r| self.take(*r)).collect();
        let branch = self.b.push_typed(Op::If, &[condition], &[]);
        let mut sides = Vec::new();
        for side in &data.regions {
            let (region, frame) = self.region(&[], |this, _| {
                this.forward(*side)?;
                let yields = this.f.regions[*side].term.args();
                for (v, adjoint) in yields.iter().zip(&adjoints) {
                    if let Some(adjoint) = adjoint {
                        this.add(*v, adjoint.clone());
                    }
                }
                this.reverse(*side)
            })?;
            self.b.func.insts[branch].regions.push(region);
            sides.push((region, frame));
        }
        let outer: BTreeSet<Value> = sides.iter().flat_map(|s| s.1.keys().copied()).collect();
        for (region, frame) in &sides {
            let yields = self.within(*region, |this| this.added_to(frame, outer.iter()));
            self.b.func.regions[*region].term = Term::Yield(yields);
        }
        for v in outer {
            let sum = self.b.func.add_result(branch, self.f.ty(v));
            self.add(v, Adjoint::Whole(sum));
        }
        Ok(())
    }

    /// What a region adds to the adjoints of values, one after the other.
    pub(super) fn added_to<'v>(
        &mut self,
        frame: &Frame,
        values: impl Iterator<Item = &'v Value>,
    ) -> Values {
        values
            .map(|v| {
                let ty = self.f.ty(*v);
                match frame.get(v) {
                    Some(adjoint) => adjoint.whole(&mut self.b, ty),
                    None => self.b.zero(ty),
                }
            })
            .collect()
    }

    /// Iterations add to the adjoints of values from outside in temps.
    fn parallel_loop(&mut self, inst: Inst) -> Result<()> {
        let body = self.f.insts[inst].regions[0];
        let before = self.b.func.regions[self.b.region].insts.len();
        let mut shared = Vec::new();
        self.foreach(inst, |this| {
            this.forward(body)?;
            this.reverse(body)?;
            let frame = this.frames.last().cloned().unwrap_or_default();
            for (v, adjoint) in frame {
                let ty = this.f.ty(v);
                let sum = this.b.env.temps.push(TempData { ty });
                let access = Access::write(Place::Temp(sum));
                this.add_to_memory(&access, &[], ty, &adjoint);
                shared.push((v, sum));
            }
            Ok(())
        })?;
        let here = self.b.region;
        let rest = self.b.func.regions[here].insts.split_off(before);
        for (v, sum) in &shared {
            let zero = self.b.zero(self.f.ty(*v));
            self.b.store(Place::Temp(*sum), &[], zero);
        }
        self.b.func.regions[here].insts.extend(rest);
        for (v, sum) in shared {
            let x = self.b.load(Place::Temp(sum), &[]);
            self.add(v, Adjoint::Whole(x));
        }
        Ok(())
    }
}
