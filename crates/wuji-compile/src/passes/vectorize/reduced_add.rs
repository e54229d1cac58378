//! Additions of all lanes to one number: the lanes are summed first.
//!
//! The weights of a layer of a neural network, one neuron per lane, add to the adjoints of the same inputs.

use super::emit::{Emitter, Mask};
use crate::rewrite::scalar_identity;
use wuji_ir::entities::Inst;
use wuji_ir::module::{Term, Values};
use wuji_ir::ops::{AtomicOp, BinOp, Op, ReduceOp, Sharing};

impl Emitter<'_> {
    /// Emits the additions with one address for all lanes; returns the other operations.
    pub(super) fn add_reduced(&mut self, insts: Vec<Inst>, mask: &Mask) -> Vec<Inst> {
        let (reduced, others): (Vec<Inst>, Vec<Inst>) =
            insts.into_iter().partition(|i| self.is_reduced(*i));
        for inst in reduced {
            self.add_lanes(inst, mask);
        }
        others
    }

    fn is_reduced(&self, inst: Inst) -> bool {
        let data = &self.old.insts[inst];
        matches!(data.op, Op::MemAtomic(AtomicOp::Add, _, Sharing::Owned))
            && !self.used.contains(&data.results[0])
            && self.shapes.is_uniform(data.args[0])
            && !self.shapes.is_uniform(data.args[1])
    }

    fn add_lanes(&mut self, inst: Inst, mask: &Mask) {
        let data = &self.old.insts[inst];
        self.b.span = self.old.spans[inst];
        let scalar = self.scalar_of(data.args[1]);
        let mut parts = self.many(data.args[1]);
        if let Mask::Some(on) = mask {
            let neutral = self.constant(scalar_identity(AtomicOp::Add, scalar));
            let neutral = self.splat(neutral);
            for (part, on) in parts.iter_mut().zip(on) {
                *part = self.b.select(*on, *part, neutral);
            }
        }
        let mut whole = parts[0];
        for part in &parts[1..] {
            whole = self.b.binary(BinOp::Add, whole, *part);
        }
        let sum = self.b.value(Op::Reduce(ReduceOp::Add), &[whole]);
        let at = self.one(data.args[0]);
        let op = data.op.clone();
        match mask {
            Mask::All => {
                self.b.push(op, &[at, sum]);
            }
            // Without a lane there is no address.
            Mask::Some(on) => {
                let some = self.any(on);
                let nothing = |b: &mut wuji_ir::build::Builder| b.end(Term::Yield(Values::new()));
                let branch = self.b.push_typed(Op::If, &[some], &[]);
                let yes = self.b.region(&[], |b, _| {
                    b.push(op, &[at, sum]);
                    nothing(b);
                });
                let no = self.b.region(&[], |b, _| nothing(b));
                self.b.func.insts[branch].regions.extend([yes, no]);
            }
        }
    }
}
