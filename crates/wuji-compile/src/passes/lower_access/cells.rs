//! Operations on cells: `is_active`, `activate`, `deactivate`, `append` and `length`.

use super::path::{AccessMode, Step, TreePath};
use super::{Appended, Lower, Masked};
use crate::analysis::affine::Affine;
use crate::nodes::level_functions;
use wuji_ir::entities::{Field, Inst, Node, Value};
use wuji_ir::infer::dynamic_index;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{I32, I64, Scalar};

impl Lower<'_> {
    /// Lowers an operation on a cell.
    pub(super) fn cell_op(&mut self, inst: Inst, op: CellOp, field: Field) {
        let data = self.b.func.insts[inst].clone();
        self.b.span = self.b.func.spans[inst];
        self.chunk = None;
        let result = match op {
            CellOp::IsActive => Some(self.is_active(field, &data.args)),
            CellOp::Activate => self.activate(field, &data.args),
            CellOp::Deactivate => self.deactivate(field, &data.args),
            CellOp::DeactivateChunk => self.deactivate_chunk(field, &data.args),
            CellOp::Append => Some(self.append(inst, field)),
            CellOp::Length => Some(self.length(field, &data.args)),
        };
        if let (Some(old), Some(new)) = (data.results.first(), result) {
            self.subst.set(*old, new);
        }
    }

    /// Compares indices with the domain of a field; index `skip` is missing.
    fn mask_field(&mut self, field: Field, args: &[Value], skip: Option<usize>) -> Masked {
        let domain = self.b.env.fields[field].domain(&self.b.env.trees);
        let mut limits = Vec::new();
        for (k, (lo, extent)) in domain.into_iter().enumerate() {
            if Some(k) != skip {
                limits.push((lo, self.b.i64(extent as i64)));
            }
        }
        self.mask_within(limits, args)
    }

    /// Smallest indices, but that along the list.
    fn field_starts(&self, field: Field, skip: Option<usize>) -> Vec<i64> {
        let axes = self.b.env.fields[field].axes.iter().enumerate();
        axes.filter(|(k, _)| Some(*k) != skip)
            .map(|(_, a)| a.1)
            .collect()
    }

    /// Where reads are checked: reports a query or a deactivation outside.
    fn report_outside(
        &mut self,
        field: Field,
        (inside, found): (Value, &[Value]),
        kind: fn(Place) -> SiteKind,
    ) {
        if self.check_reads {
            let kind = kind(Place::Field(field));
            self.when(inside, None, |_| None, |s| s.report(Some(kind), found));
        }
    }

    /// The indices of a list, with the smallest one along it.
    fn with_start(&mut self, field: Field, found: &[Value], along: usize) -> Values {
        let start = self.b.i64(self.b.env.fields[field].axes[along].1);
        let mut all: Values = found.into();
        all.insert(along, start);
        all
    }

    fn is_active(&mut self, field: Field, args: &[Value]) -> Value {
        let masked = self.mask_field(field, args, None);
        let at = (masked.inside, &masked.found[..]);
        self.report_outside(field, at, SiteKind::ReadOutOfRange);
        let starts = self.field_starts(field, None);
        let safe = self.safe_indices(&masked, &starts);
        let levels = self.levels(field);
        let path = self.path_to(field, &levels, &safe, AccessMode::Test);
        match self.exists(&path) {
            Some(there) => self.b.binary(BinOp::And, masked.inside, there),
            None => masked.inside,
        }
    }

    fn activate(&mut self, field: Field, args: &[Value]) -> Option<Value> {
        let masked = self.mask_field(field, args, None);
        self.when(
            masked.inside,
            None,
            |s| {
                let levels = s.levels(field);
                s.path_to(field, &levels, &masked.indices, AccessMode::Activate);
                None
            },
            |s| {
                s.report(
                    Some(SiteKind::OutOfRange(Place::Field(field))),
                    &masked.found,
                )
            },
        )
    }

    fn deactivate(&mut self, field: Field, args: &[Value]) -> Option<Value> {
        let masked = self.mask_field(field, args, None);
        let at = (masked.inside, &masked.found[..]);
        self.report_outside(field, at, SiteKind::OutOfRange);
        self.when(
            masked.inside,
            None,
            |s| {
                let levels = s.levels(field);
                let (last, above) = levels.split_last()?;
                let mut path = s.path_above(field, above, &masked.indices, AccessMode::Read);
                s.enter(&mut path, last);
                let args = level_functions(last.data.kind).drop_operands(&mut Step {
                    lower: &mut *s,
                    path: &mut path,
                    level: last,
                    mode: AccessMode::Read,
                });
                s.b.push(
                    Op::TreeAccess(TreeAccessOp::Drop, path.tree, last.node),
                    &args,
                );
                None
            },
            |_| {},
        )
    }

    /// Frees the chunk that begins at a cell of a list.
    fn deactivate_chunk(&mut self, field: Field, args: &[Value]) -> Option<Value> {
        let along = self.list_index(field);
        let masked = self.mask_field(field, args, None);
        let node = self.b.env.fields[field].node;
        let tree = &self.b.env.trees[self.b.env.fields[field].tree];
        let chunk = tree.nodes[node].kind.format().cells_per_allocation();
        let start = self.b.env.fields[field].axes[along].1;
        let number = self.sum(&masked.indices[along], &Affine::constant(start), -1);
        let (chunk, within) = self.divide(&number, chunk);
        let (chunk, within) = (self.materialize(&chunk), self.materialize(&within));
        let (zero, one) = (self.b.i64(0), self.b.i64(1));
        let first = self.b.compare(CmpOp::Eq, within, zero);
        let begins = self.b.binary(BinOp::And, masked.inside, first);
        self.when(
            begins,
            None,
            |s| {
                let mut others = masked.indices.clone();
                others.remove(along);
                let (path, node) = s.path_to_list(field, along, others, AccessMode::Read);
                let container = s.materialize(&path.at);
                let drop = Op::TreeAccess(TreeAccessOp::Drop, path.tree, node);
                s.b.push(drop, &[container, chunk, one]);
                None
            },
            |_| {},
        )
    }

    /// Which index of the field runs along its list; the verifier has checked that one does.
    fn list_index(&self, field: Field) -> usize {
        dynamic_index(self.b.env, field).unwrap_or(0)
    }

    /// To the list at these indices.
    fn path_to_list(
        &mut self,
        field: Field,
        skip: usize,
        mut indices: Vec<Affine>,
        mode: AccessMode,
    ) -> (TreePath, Node) {
        let start = self.b.env.fields[field].axes[skip].1;
        indices.insert(skip, Affine::constant(start));
        let levels = self.levels(field);
        let (last, above) = (&levels[levels.len() - 1], &levels[..levels.len() - 1]);
        let mut path = self.path_above(field, above, &indices, mode);
        self.enter(&mut path, last);
        (path, last.node)
    }

    fn append(&mut self, inst: Inst, field: Field) -> Value {
        let InstData { args, results, .. } = self.b.func.insts[inst].clone();
        let skip = self.list_index(field);
        let masked = self.mask_field(field, &args, Some(skip));
        let branch = self.b.push_typed(Op::If, &[masked.inside], &[I32, I64]);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let (path, node) =
            self.path_to_list(field, skip, masked.indices.clone(), AccessMode::Activate);
        let container = self.materialize(&path.at);
        let push = self.b.push(
            Op::TreeAccess(TreeAccessOp::Push, path.tree, node),
            &[container],
        );
        let pushed = self.b.func.insts[push].results.clone();
        let (number, chunk) = (pushed[0], pushed[1]);
        let zero = self.b.i64(0);
        let failed = self.b.compare(CmpOp::Lt, number, zero);
        let most = self.b.env.trees[path.tree].nodes[node].cells() as i64;
        self.when(
            failed,
            None,
            |s| {
                // When memory has run out, the list is not full, and that has been reported.
                let length = s.b.value(
                    Op::TreeAccess(TreeAccessOp::Length, path.tree, node),
                    &[container],
                );
                let most = s.b.i64(most);
                let full = s.b.compare(CmpOp::Ge, length, most);
                s.when(
                    full,
                    None,
                    |s| {
                        let span = s.b.span;
                        let site = s.b.env.sites.push(SiteData {
                            kind: SiteKind::ListFull(field),
                            span,
                        });
                        s.b.push(Op::Report(site), &[most]);
                        None
                    },
                    |_| {},
                )
            },
            |_| {},
        );
        let number = self.b.convert(number, Scalar::I32);
        self.b
            .end(Term::Yield([number, chunk].into_iter().collect()));
        self.b.region = no;
        let found = self.with_start(field, &masked.found, skip);
        self.report(Some(SiteKind::OutOfRange(Place::Field(field))), &found);
        let (none, absent) = (self.b.int(Scalar::I32, -1), self.b.i64(0));
        self.b
            .end(Term::Yield([none, absent].into_iter().collect()));
        self.b.region = outer;
        self.b.func.insts[branch].regions.extend([yes, no]);
        let found = self.b.func.insts[branch].results.clone();
        let appended = Appended {
            list: (path.tree, node),
            indices: args,
            chunk: found[1],
        };
        if !self.losing.contains(&path.tree) {
            self.appended.insert(results[0], appended);
        }
        found[0]
    }

    /// The chunk of the cell that an access indexes, if it has just been appended.
    pub(super) fn appended_chunk(&self, field: Field, indices: &[Value]) -> Option<Value> {
        let data = &self.b.env.fields[field];
        let along = dynamic_index(self.b.env, field).ok()?;
        let appended = self.appended.get(indices.get(along)?)?;
        let others = |k: usize| k != along;
        let rank = data.axes.len();
        let same = (0..rank)
            .filter(|k| others(*k))
            .map(|k| indices[k])
            .eq(appended.indices.iter().copied());
        // Numbers are counted from 0.
        let is_number = data.axes[along].1 == 0;
        (same && is_number && appended.list == (data.tree, data.node)).then_some(appended.chunk)
    }

    fn length(&mut self, field: Field, args: &[Value]) -> Value {
        let skip = self.list_index(field);
        let masked = self.mask_field(field, args, Some(skip));
        let found = self.with_start(field, &masked.found, skip);
        self.report_outside(field, (masked.inside, &found), SiteKind::ReadOutOfRange);
        let starts = self.field_starts(field, Some(skip));
        let safe = self.safe_indices(&masked, &starts);
        let (path, node) = self.path_to_list(field, skip, safe, AccessMode::Read);
        let container = self.materialize(&path.at);
        let length = self.b.value(
            Op::TreeAccess(TreeAccessOp::Length, path.tree, node),
            &[container],
        );
        let zero = self.b.i64(0);
        let length = self.b.select(masked.inside, length, zero);
        self.b.convert(length, Scalar::I32)
    }
}
