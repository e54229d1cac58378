//! Operations on cells: `is_active`, `activate`, `deactivate`, `append` and `length`.

use super::path::{AccessMode, Step, TreePath};
use super::{Lower, Masked};
use crate::analysis::affine::Affine;
use crate::nodes::level_functions;
use wuji_ir::entities::{Field, Inst, Node, Value};
use wuji_ir::infer::dynamic_index;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

impl Lower<'_> {
    /// Lowers an operation on a cell.
    pub(super) fn cell_op(&mut self, inst: Inst, op: CellOp, field: Field) {
        let data = self.b.func.insts[inst].clone();
        self.b.span = self.b.func.spans[inst];
        let result = match op {
            CellOp::IsActive => Some(self.is_active(field, &data.args)),
            CellOp::Activate => self.activate(field, &data.args),
            CellOp::Deactivate => self.deactivate(field, &data.args),
            CellOp::Append => self.append(field, &data.args),
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

    fn is_active(&mut self, field: Field, args: &[Value]) -> Value {
        let masked = self.mask_field(field, args, None);
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

    fn append(&mut self, field: Field, args: &[Value]) -> Option<Value> {
        let skip = self.list_index(field);
        let masked = self.mask_field(field, args, Some(skip));
        let i32_type = Type::Scalar(Scalar::I32);
        let branch = self.b.push_typed(Op::If, &[masked.inside], &[i32_type]);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let (path, node) =
            self.path_to_list(field, skip, masked.indices.clone(), AccessMode::Activate);
        let container = self.materialize(&path.at);
        let number = self.b.value(
            Op::TreeAccess(TreeAccessOp::Push, path.tree, node),
            &[container],
        );
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
        self.b.end(Term::Yield([number].into_iter().collect()));
        self.b.region = no;
        let mut found = masked.found.clone();
        let start = self.b.i64(self.b.env.fields[field].axes[skip].1);
        found.insert(skip, start);
        self.report(Some(SiteKind::OutOfRange(Place::Field(field))), &found);
        let none = self.b.int(Scalar::I32, -1);
        self.b.end(Term::Yield([none].into_iter().collect()));
        self.b.region = outer;
        self.b.func.insts[branch].regions.extend([yes, no]);
        Some(self.b.func.result(branch))
    }

    fn length(&mut self, field: Field, args: &[Value]) -> Value {
        let skip = self.list_index(field);
        let masked = self.mask_field(field, args, Some(skip));
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
