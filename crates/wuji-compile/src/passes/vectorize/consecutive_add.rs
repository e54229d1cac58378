//! Additions of neighbouring lanes to neighbouring numbers of thread-private memory: one vector addition.
//!
//! The gradient of a stencil adds to the neighbours of each element.

use super::emit::{Emitter, Mask};
use super::shapes::{Shape, Shapes};
use wuji_ir::entities::{Inst, Value};
use wuji_ir::module::{Function, InstData};
use wuji_ir::ops::{AtomicOp, Op, Sharing};

/// Whether lanes add to consecutive numbers.
pub(super) fn adds_consecutive(f: &Function, shapes: &Shapes<'_>, data: &InstData) -> bool {
    let adds = matches!(data.op, Op::MemAtomic(AtomicOp::Add, _, Sharing::Owned));
    let bytes = |v: Value| f.ty(v).as_scalar().map(|s| i64::from(s.bytes()));
    adds && bytes(data.args[1]).is_some_and(|n| shapes.shape(data.args[0]) == Shape::Strided(n))
}

impl Emitter<'_> {
    /// Emits the additions of all lanes to consecutive numbers; returns the other operations.
    pub(super) fn add_consecutive(&mut self, insts: Vec<Inst>, mask: &Mask) -> Vec<Inst> {
        // An update has no mask.
        if !matches!(mask, Mask::All) {
            return insts;
        }
        let (consecutive, others): (Vec<Inst>, Vec<Inst>) =
            insts.into_iter().partition(|i| self.is_consecutive(*i));
        for inst in consecutive {
            self.add_vectors(inst);
        }
        others
    }

    fn is_consecutive(&self, inst: Inst) -> bool {
        let data = &self.old.insts[inst];
        !data.results.iter().any(|r| self.used.contains(r))
            && adds_consecutive(self.old, self.shapes, data)
    }

    /// An update stays an update: other iterations of the parallel loop may add to the same numbers.
    fn add_vectors(&mut self, inst: Inst) {
        let data = &self.old.insts[inst];
        self.b.span = self.old.spans[inst];
        let stride = self.scalar_of(data.args[1]).bytes().into();
        let values = self.many(data.args[1]);
        for (p, v) in values.iter().enumerate() {
            let at = self.run(data.args[0], stride, p);
            self.b.push(data.op.clone(), &[at, *v]);
        }
    }
}
