//! Accesses of fields below sparse nodes.

use super::path::AccessMode;
use super::{Lower, Masked};
use crate::analysis::affine::Affine;
use wuji_ir::entities::Value;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::Type;

impl Lower<'_> {
    /// An access of a field whose cell may be absent. Returns its result, if it has one.
    pub(super) fn sparse_access(
        &mut self,
        (op, access, ty): (&Op, &Access, Type),
        index_args: &[Value],
        operands: &[Value],
    ) -> Option<Value> {
        // Loads near an entry do not compare their indices.
        if let Op::Load(_) = op
            && (access.guard == Guard::InBounds || !self.check_reads)
            && let Some(value) = self.near_load((op, access, ty), index_args)
        {
            return Some(value);
        }
        if access.guard == Guard::InBounds {
            let limits = self.limits(access);
            let exprs: Vec<Affine> = index_args
                .iter()
                .zip(limits)
                .map(|(v, limit)| self.index_form(*v, limit))
                .collect();
            return self.sparse_inside((op, access, ty), &exprs, operands);
        }
        let masked = self.mask(access, index_args);
        if index_args.is_empty() {
            return self.sparse_inside((op, access, ty), &[], operands);
        }
        if let (Op::Load(_), false) = (op, self.check_reads) {
            let starts = self.starts(access);
            let safe = self.safe_indices(&masked, &starts);
            let value = self.sparse_inside((op, access, ty), &safe, operands)?;
            let zero = self.b.zero(ty);
            return Some(self.b.select(masked.inside, value, zero));
        }
        let rank = index_args.len() - access.dynamic_steps();
        let place = access.place;
        self.when(
            masked.inside,
            (!matches!(op, Op::Store(_))).then_some(ty),
            |s| s.sparse_inside((op, access, ty), &masked.indices, operands),
            |s| s.report(s.outside(op, place), &masked.found[..rank]),
        )
    }

    /// The indices if they are in range, otherwise the smallest ones.
    pub(super) fn safe_indices(&mut self, masked: &Masked, starts: &[i64]) -> Vec<Affine> {
        let mut out = Vec::new();
        for (index, start) in masked.found.iter().zip(starts) {
            let start = self.b.i64(*start);
            out.push(Affine::atom(self.b.select(masked.inside, *index, start)));
        }
        out
    }

    /// `if`, with a result of type `ty` that is zero on the other side.
    pub(super) fn when(
        &mut self,
        cond: Value,
        ty: Option<Type>,
        then: impl FnOnce(&mut Self) -> Option<Value>,
        otherwise: impl FnOnce(&mut Self),
    ) -> Option<Value> {
        let types: Vec<Type> = ty.into_iter().collect();
        let branch = self.b.push_typed(Op::If, &[cond], &types);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let value = then(self).filter(|_| ty.is_some());
        self.b.end(Term::Yield(value.into_iter().collect()));
        self.b.region = no;
        otherwise(self);
        let zero: Values = types.iter().map(|t| self.b.zero(*t)).collect();
        self.b.end(Term::Yield(zero));
        self.b.region = outer;
        self.b.func.insts[branch].regions.extend([yes, no]);
        ty.map(|_| self.b.func.result(branch))
    }

    fn sparse_inside(
        &mut self,
        (op, access, ty): (&Op, &Access, Type),
        exprs: &[Affine],
        operands: &[Value],
    ) -> Option<Value> {
        let Place::Field(field) = access.place else {
            return None;
        };
        let (at, there) = self.sparse_offset(access, field, exprs, AccessMode::of(op, access));
        let Some(there) = there else {
            let offset = self.materialize(&at);
            return self.emit(op, access, ty, offset, operands);
        };
        self.when(
            there,
            (!matches!(op, Op::Store(_))).then_some(ty),
            |s| {
                let offset = s.materialize(&at);
                s.emit(op, access, ty, offset, operands)
            },
            |_| {},
        )
    }
}
