//! Local arrays are not lowered; their indices are clamped.

use super::Lower;
use wuji_ir::entities::Inst;
use wuji_ir::module::{InstData, Term, Values};
use wuji_ir::ops::*;

impl Lower<'_> {
    /// An access of a local array, with the index clamped into range.
    pub(super) fn local(&mut self, inst: Inst) {
        let data = self.b.func.insts[inst].clone();
        let Some(access) = data.op.access().cloned() else {
            return;
        };
        self.b.span = self.b.func.spans[inst];
        if access.dynamic_steps() > 0 {
            return self.local_component(&data, &access);
        }
        let indexed = self.index_count(&access) == 1;
        if access.guard == Guard::InBounds || !indexed {
            let here = self.b.region;
            self.b.func.regions[here].insts.push(inst);
            return;
        }
        let ty = self.accessed_type(&access);
        let masked = self.mask(&access, &data.args[..1]);
        let index = masked.found[0];
        let mut op = data.op.clone();
        if let Some(a) = op.access_mut() {
            a.guard = Guard::InBounds;
        }
        if let (Op::Load(_), false) = (&op, self.check_reads) {
            let zero = self.b.i64(0);
            let safe = self.b.select(masked.inside, index, zero);
            let value = self.b.value(op, &[safe]);
            let zero = self.b.zero(ty);
            let value = self.b.select(masked.inside, value, zero);
            self.subst.set(data.results[0], value);
            return;
        }
        let types: Vec<_> = data.results.iter().map(|r| self.b.func.ty(*r)).collect();
        let branch = self.b.push_typed(Op::If, &[masked.inside], &types);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let mut args = data.args.clone();
        args[0] = index;
        let touched = self.b.push(op.clone(), &args);
        let old: Values = self.b.func.insts[touched].results.iter().copied().collect();
        self.b.end(Term::Yield(old));
        self.b.region = no;
        self.report(self.outside(&op, access.place), &masked.found);
        let zeros: Values = types.iter().map(|t| self.b.zero(*t)).collect();
        self.b.end(Term::Yield(zeros));
        self.b.region = outer;
        for (k, r) in data.results.iter().enumerate() {
            let new = self.b.func.insts[branch].results[k];
            self.subst.set(*r, new);
        }
        self.b.func.insts[branch].regions.extend([yes, no]);
    }

    /// A run-time component of a local: the whole element is read, changed and written.
    pub(super) fn local_component(&mut self, data: &InstData, access: &Access) {
        let rank = self.index_count(access) - access.dynamic_steps();
        let at = access
            .path
            .iter()
            .position(|s| *s == Step::Dynamic)
            .unwrap_or(0);
        let whole = Access {
            path: access.path[..at].into(),
            ..access.clone()
        };
        let (index, rest) = data.args.split_at(rank);
        let step = rest[0];
        let load = self.b.push(Op::Load(whole.clone()), index);
        let vector = self.b.func.result(load);
        if let Op::Load(_) = data.op {
            let value = self.b.value(Op::ExtractDyn, &[vector, step]);
            self.subst.set(data.results[0], value);
        } else {
            let changed = self.b.value(Op::InsertDyn, &[vector, step, rest[1]]);
            let mut args: Values = index.into();
            args.push(changed);
            let store = self.b.push(Op::Store(whole), &args);
            self.pop_and_lower(store);
        }
        self.pop_and_lower(load);
    }

    /// Lowers an instruction that was just appended, if it needs it.
    pub(super) fn pop_and_lower(&mut self, inst: Inst) {
        let needs = self.b.func.insts[inst]
            .op
            .access()
            .is_some_and(|a| a.guard.is_checked() && self.index_count(a) == 1);
        if !needs {
            return;
        }
        let here = self.b.region;
        let Some(at) = self.b.func.regions[here]
            .insts
            .iter()
            .position(|i| *i == inst)
        else {
            return;
        };
        let rest = self.b.func.regions[here].insts.split_off(at);
        self.local(inst);
        self.b.func.regions[here].insts.extend(&rest[1..]);
    }
}
