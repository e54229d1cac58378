//! Structured control flow becomes blocks and phis; `for_loop` has counted loops.

use super::function::{FunctionGen, Hoisted, Join, JumpTarget, YieldTo};
use crate::emit::{Block, Ty, Val};
use inkwell::llvm_sys::LLVMIntPredicate::*;
use inkwell::llvm_sys::LLVMOpcode;
use wuji_ir::Result;
use wuji_ir::entities::{Func, Inst, Label, Value};
use wuji_ir::types::Scalar;

impl FunctionGen<'_, '_, '_> {
    pub(super) fn join(&self, name: &std::ffi::CStr) -> Join {
        Join {
            block: self.unit.emit.append_block(self.fun, name),
            incoming: Vec::new(),
        }
    }

    /// Continues at a join; returns the phis of the incoming values.
    pub(super) fn enter(&self, join: &Join, tys: &[Ty]) -> Vec<Val> {
        let e = &self.unit.emit;
        e.position(join.block);
        match &join.incoming[..] {
            // No incoming edge: the code is dead, so any value will do.
            [] => tys.iter().map(|t| e.zero(*t)).collect(),
            [(_, values)] => values.clone(),
            many => tys
                .iter()
                .enumerate()
                .map(|(k, ty)| {
                    let phi = e.phi(*ty);
                    for (from, values) in many {
                        e.add_incoming(phi, values[k], *from);
                    }
                    phi
                })
                .collect(),
        }
    }

    pub(super) fn return_values(&self, values: &[Val]) {
        let e = &self.unit.emit;
        let value = match values {
            [] => None,
            [one] => Some(*one),
            many => {
                let mut all = e.zero(self.result);
                for (k, v) in many.iter().enumerate() {
                    all = e.insert(all, *v, k as u32);
                }
                Some(all)
            }
        };
        if cfg!(target_arch = "x86_64") && self.streams_vectors() {
            e.intrinsic("llvm.x86.sse.sfence", &[], &[]);
        }
        e.ret(self.result, value);
    }

    pub(super) fn return_zero(&self) {
        let e = &self.unit.emit;
        let zero = (!self.f.results.is_empty()).then(|| e.zero(self.result));
        e.ret(self.result, zero);
    }

    pub(super) fn if_else(&mut self, inst: Inst) -> Result<()> {
        let data = &self.f.insts[inst];
        let condition = self.get(data.args[0])?;
        let e = &self.unit.emit;
        let then = e.append_block(self.fun, c"then");
        let otherwise = e.append_block(self.fun, c"else");
        e.cond_br(condition, then, otherwise);
        let join = self.join(c"endif");
        self.yields.push(YieldTo::If(join));
        let outside = std::mem::replace(&mut self.converged, false);
        for (block, region) in [(then, data.regions[0]), (otherwise, data.regions[1])] {
            self.unit.emit.position(block);
            self.region(region)?;
        }
        self.converged = outside;
        if let Some(YieldTo::If(join)) = self.yields.pop() {
            self.leave(inst, &join)?;
        }
        Ok(())
    }

    pub(super) fn block(&mut self, inst: Inst, label: Label) -> Result<()> {
        let exit = self.join(c"endblock");
        self.targets.insert(label, JumpTarget { exit, next: None });
        self.yields.push(YieldTo::Block(label));
        self.region(self.f.insts[inst].regions[0])?;
        self.yields.pop();
        if let Some(target) = self.targets.remove(&label) {
            self.leave(inst, &target.exit)?;
        }
        Ok(())
    }

    /// The results of an instruction are the phis at its exit.
    pub(super) fn leave(&mut self, inst: Inst, exit: &Join) -> Result<()> {
        let results = &self.f.insts[inst].results;
        let tys = self.tys(results)?;
        let values = self.enter(exit, &tys);
        self.define_all(results, &values);
        Ok(())
    }

    pub(super) fn endless_loop(&mut self, inst: Inst, label: Label) -> Result<()> {
        let data = &self.f.insts[inst];
        let region = data.regions[0];
        let initial = self.all(&data.args)?;
        let params = &self.f.regions[region].params;
        let tys = self.tys(params)?;

        let before = self.unit.emit.current();
        let head = self.unit.emit.append_block(self.fun, c"loop");
        self.unit.emit.br(head);
        self.unit.emit.position(head);
        let phis: Vec<Val> = tys.iter().map(|t| self.unit.emit.phi(*t)).collect();
        for (phi, v) in phis.iter().zip(&initial) {
            self.unit.emit.add_incoming(*phi, *v, before);
        }
        self.define_all(params, &phis);

        let (exit, next) = (self.join(c"endloop"), Some(self.join(c"again")));
        self.targets.insert(label, JumpTarget { exit, next });
        let outside = std::mem::replace(&mut self.converged, false);
        self.region(region)?;
        self.converged = outside;
        let Some(target) = self.targets.remove(&label) else {
            return Ok(());
        };
        if let Some(next) = &target.next {
            let values = self.enter(next, &tys);
            if next.incoming.is_empty() {
                self.return_zero();
            } else {
                if !self.f.traits.uninterrupted {
                    self.poll_interrupt();
                }
                let latch = self.unit.emit.current();
                self.unit.emit.br(head);
                for (phi, v) in phis.iter().zip(&values) {
                    self.unit.emit.add_incoming(*phi, *v, latch);
                }
            }
        }
        self.leave(inst, &target.exit)
    }

    /// Returns from the function when the runtime has set the interrupt flag.
    pub(super) fn poll_interrupt(&mut self) {
        if self.unit.gpu.is_some() {
            return self.poll_periodically();
        }
        self.poll_now();
    }

    pub(super) fn poll_now(&mut self) {
        let flag = self.hoisted(Hoisted::Interrupt);
        let e = &self.unit.emit;
        let value = e.load_fresh(e.int_ty(32), flag, 4);
        self.unit.scopes.mark_context(e, value);
        let stop = e.icmp(LLVMIntNE, value, e.const_int(e.int_ty(32), 0));
        let leave = e.append_block(self.fun, c"interrupted");
        let next = e.append_block(self.fun, c"next");
        let branch = e.cond_br(stop, leave, next);
        let weight = |w: u64| e.md_value(e.const_int(e.int_ty(32), w));
        let weights = e.md_node(&[e.md_string("branch_weights"), weight(1), weight(1 << 20)]);
        e.set_md(branch, e.kinds.prof, weights);
        e.position(leave);
        if self.unit.gpu.is_none() {
            self.ask_runtime(next);
        }
        self.return_zero();
        self.unit.emit.position(next);
    }

    /// Goes on unless the runtime says that the function is to be left.
    fn ask_runtime(&mut self, next: Block) {
        let context = self.context();
        let poller = self.unit.poller();
        let e = &self.unit.emit;
        let answer = e.call(poller, &[context]);
        let stop = e.icmp(LLVMIntNE, answer, e.const_int(e.int_ty(32), 0));
        let leave = e.append_block(self.fun, c"stopped");
        e.cond_br(stop, leave, next);
        e.position(leave);
    }

    pub(super) fn call(&mut self, inst: Inst, callee: Func) -> Result<()> {
        let data = &self.f.insts[inst];
        let mut args = vec![self.context()];
        args.extend(self.all(&data.args)?);
        let fun = self.unit.callee(callee)?;
        let traits = self.unit.module.funcs[callee].traits;
        let value = if self.unit.gpu.is_some() && traits.once {
            self.call_once(fun, &args)
        } else {
            self.unit.emit.call(fun, &args)
        };
        if traits.inline {
            // An inlined body is in the same loops as the call.
            self.mark_loops(value);
        }
        match &data.results[..] {
            [] => {}
            [one] => self.set(*one, value),
            many => {
                for (k, result) in many.iter().enumerate() {
                    let part = self.unit.emit.extract(value, k as u32);
                    self.set(*result, part);
                }
            }
        }
        Ok(())
    }

    pub(super) fn report(&mut self, site: u32, args: &[Value]) -> Result<()> {
        let mut values = vec![
            self.context(),
            self.unit
                .emit
                .const_int(self.unit.emit.int_ty(32), self.unit.site_word(site)),
        ];
        for arg in args {
            let (v, s) = (self.get(*arg)?, self.scalar(*arg)?);
            values.push(self.to_slot(v, s));
        }
        let reporter = self.unit.reporter(args.len());
        self.unit.emit.call(reporter, &values);
        Ok(())
    }

    /// A scalar in an 8-byte slot.
    fn to_slot(&self, v: Val, s: Scalar) -> Val {
        let e = &self.unit.emit;
        let bits = if s.is_float() {
            e.bitcast(v, e.int_ty(s.bits()))
        } else {
            v
        };
        if s.bits() == 64 {
            bits
        } else if s.is_signed_int() {
            e.cast(LLVMOpcode::LLVMSExt, bits, e.i64_ty())
        } else {
            e.cast(LLVMOpcode::LLVMZExt, bits, e.i64_ty())
        }
    }
}
