//! Fields below sparse nodes: an access walks from the root to its cell, one step per node.
//!
//! Dense steps are arithmetic; the others are `Walk` operations on offsets that later passes merge and
//! expand. Nothing here branches on whether a cell exists: what is absent is at offset 0, where a tree
//! has nothing but zeros, so reads go there and find them, and steps further down find that there
//! is nothing to be made below it.

use super::{Lower, Masked};
use crate::analysis::affine::Affine;
use crate::analysis::entries::Entry;
use crate::nodes::lists::morton_bits;
use wuji_ir::entities::{Field, Inst, Node, Tree, Value};
use wuji_ir::infer::dynamic_index;
use wuji_ir::layout::{CellOrder, Dynamic, NodeData, NodeKind};
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};

/// What a walk does about cells that are absent.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum How {
    /// Ends among the zeros.
    Look,
    /// As `Look`, and says whether the cell is there.
    Ask,
    /// Makes them.
    Make,
}

impl How {
    pub(super) fn of(op: &Op, access: &Access) -> How {
        match (op, access.activation) {
            (Op::Load(_), _) | (_, Activation::KnownActive) => How::Look,
            (_, Activation::Never) => How::Ask,
            (_, Activation::IfAbsent) => How::Make,
        }
    }
}

/// One node on the way to a field.
#[derive(Clone)]
pub(super) struct Level {
    pub(super) node: Node,
    pub(super) data: NodeData,
    offset: i64,
    first: i64,
    cell: i64,
    /// Of each of the node's axes: which index of the field runs along it, and how many coordinates a
    /// cell of this node spans.
    axes: Vec<(usize, u64)>,
}

/// Where a walk has come to.
pub(super) struct Walk {
    tree: Tree,
    /// Offset of the cell, or of where the next node starts.
    pub(super) at: Affine,
    /// What is left of each index below the nodes seen so far.
    rest: Vec<Affine>,
    /// The last cell that had to be found; 0 when it, or one above, is absent. `None`: surely there.
    cell: Option<Value>,
    /// Whether bits and lengths on the way say that the cell is active. `None`: surely.
    set: Option<Value>,
}

impl Walk {
    pub(super) fn at(tree: Tree, at: Affine, rest: Vec<Affine>) -> Walk {
        Walk {
            tree,
            at,
            rest,
            cell: None,
            set: None,
        }
    }
}

impl Lower<'_> {
    /// Whether some cell on the way to a field can be absent.
    pub(super) fn is_sparse(&self, field: Field) -> bool {
        let data = &self.b.env.fields[field];
        !self.b.env.trees[data.tree]
            .sparse_path(data.node)
            .is_empty()
    }

    pub(super) fn levels(&self, field: Field) -> Vec<Level> {
        let data = &self.b.env.fields[field];
        let tree = &self.b.env.trees[data.tree];
        let memory = &self.memory[data.tree];
        let path = tree.path(data.node);
        let mut levels = Vec::new();
        for (k, node) in path.iter().enumerate() {
            let own = &tree.nodes[*node];
            let axes = own.extents.iter().map(|(axis, _)| {
                let index = data.axes.iter().position(|a| a.0 == *axis).unwrap_or(0);
                let below = path[k + 1..]
                    .iter()
                    .flat_map(|n| &tree.nodes[*n].extents)
                    .filter(|e| e.0 == *axis)
                    .fold(1u64, |n, e| n.saturating_mul(e.1));
                (index, below)
            });
            levels.push(Level {
                node: *node,
                axes: axes.collect(),
                data: own.clone(),
                offset: memory.node_offset[*node] as i64,
                first: memory.first_cell[*node] as i64,
                cell: memory.cell_size[*node] as i64,
            });
        }
        levels
    }

    /// An access of a field that may be absent. Gives its result, if it has one.
    pub(super) fn sparse_access(
        &mut self,
        (op, access, ty): (&Op, &Access, Type),
        index_args: &[Value],
        operands: &[Value],
    ) -> Option<Value> {
        if let Op::Load(_) = op
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
        if let Op::Load(_) = op {
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
            |s| s.report(place, &masked.found[..rank]),
        )
    }

    /// The indices where they are inside, the smallest ones elsewhere.
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
        let (at, there) = self.sparse_offset(access, field, exprs, How::of(op, access));
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

    /// Offset of an access whose indices are inside, and whether its cell is there; `None` when that is sure, or does
    /// not matter.
    pub(super) fn sparse_offset(
        &mut self,
        access: &Access,
        field: Field,
        exprs: &[Affine],
        how: How,
    ) -> (Affine, Option<Value>) {
        let rank = exprs.len() - access.dynamic_steps();
        let levels = self.levels(field);
        let walk = self.walk(field, &levels, &exprs[..rank], how);
        let within = self.path_offset(access, &exprs[rank..]);
        let place = self.memory[walk.tree].place(field) as i64;
        let at = self.sum(&walk.at, &Affine::constant(place), 1);
        let at = self.sum(&at, &within, 1);
        let there = match how {
            How::Look => None,
            How::Ask | How::Make => self.exists(&walk),
        };
        (at, there)
    }

    /// Whether the cell a walk has come to is there; `None` when that is sure.
    fn exists(&mut self, walk: &Walk) -> Option<Value> {
        let found = walk.cell.map(|cell| {
            let zero = self.b.i64(0);
            self.b.compare(CmpOp::Ne, cell, zero)
        });
        match (found, walk.set) {
            (Some(a), Some(b)) => Some(self.b.binary(BinOp::And, a, b)),
            (a, b) => a.or(b),
        }
    }

    /// From the root to the cell of an element whose indices are inside.
    fn walk(&mut self, field: Field, levels: &[Level], indices: &[Affine], how: How) -> Walk {
        let (mut walk, start) = self.start(field, levels, indices, how);
        for level in &levels[start..] {
            self.enter(&mut walk, level);
            self.step(&mut walk, level, how);
        }
        walk
    }

    /// Where a walk starts: at the root, or at the entry of a list that the loop is at. Also which level
    /// comes next.
    fn start(
        &mut self,
        field: Field,
        levels: &[Level],
        indices: &[Affine],
        how: How,
    ) -> (Walk, usize) {
        let data = self.b.env.fields[field].clone();
        let mut rest: Vec<Affine> = Vec::new();
        for (expr, (_, lo)) in indices.iter().zip(&data.axes) {
            rest.push(self.sum(expr, &Affine::constant(*lo), -1));
        }
        let root = self.memory[data.tree].node_offset[self.b.env.trees[data.tree].root()];
        let mut walk = Walk {
            tree: data.tree,
            at: Affine::constant(root as i64),
            rest,
            cell: None,
            set: None,
        };
        for (k, level) in levels.iter().enumerate().rev() {
            let Some(entry) = self.entry_of(data.tree, level.node) else {
                continue;
            };
            // The entry is a chunk, and does not lead back to the length of its list.
            if matches!(level.data.kind, NodeKind::Dynamic { .. }) && how != How::Look {
                continue;
            }
            let Some(low) = self.at_entry(&entry, field, levels, k, &walk.rest) else {
                continue;
            };
            walk.rest = low;
            walk.at = Affine::atom(entry.offset);
            match level.data.kind {
                // The entry is the cell: the next node starts in it.
                NodeKind::Pointer | NodeKind::Hash | NodeKind::Root | NodeKind::Dense => {}
                NodeKind::Dynamic { .. } => {
                    let cell = walk.rest[level.axes[0].0].clone();
                    let (number, low) = self.divide(&cell, level.axes[0].1);
                    walk.rest[level.axes[0].0] = low;
                    walk.at = self.sum(&walk.at, &number, level.cell);
                }
                NodeKind::Bitmasked => {
                    let number = self.number(&mut walk, level);
                    // The mask is there; which of its bits the index is about need not be set.
                    self.note(&mut walk, level, &number, how);
                    walk.at = self.sum(&walk.at, &number, level.cell);
                    walk.at.constant += level.first;
                }
            }
            return (walk, k + 1);
        }
        (walk, 1)
    }

    /// The entry of a node's list that the code around is at.
    fn entry_of(&self, tree: Tree, node: Node) -> Option<Entry> {
        let found = self.entries.iter();
        let mut found = found.filter(|e| e.tree == tree && e.node == node);
        let first = found.next()?;
        // Loops are over one list; with several, nobody knows which.
        found.next().is_none().then(|| first.clone())
    }

    /// What is left of the indices below an entry, when they surely lie in it.
    fn at_entry(
        &mut self,
        entry: &Entry,
        field: Field,
        levels: &[Level],
        k: usize,
        rest: &[Affine],
    ) -> Option<Vec<Affine>> {
        let level = &levels[k];
        let axes = self.b.env.trees[entry.tree].axes(level.node);
        let data = self.b.env.fields[field].clone();
        let mut out = rest.to_vec();
        for (axis, coord) in axes.iter().zip(&entry.coords) {
            let index = data.axes.iter().position(|a| a.0 == *axis)?;
            let by = spans(levels, k, *axis);
            let (high, low) = self.split(&rest[index], by)?;
            let same = match coord {
                Some(v) => high == Affine::atom(*v),
                None => high == Affine::constant(0),
            };
            if !same {
                return None;
            }
            out[index] = low;
        }
        Some(out)
    }

    /// From a cell to where the next node starts in it.
    pub(super) fn enter(&mut self, walk: &mut Walk, level: &Level) {
        walk.at = self.sum(&walk.at, &Affine::constant(level.offset), 1);
    }

    /// The coordinates of the cell in its container, in the order of the node's axes.
    fn coordinates(&mut self, walk: &mut Walk, level: &Level) -> Vec<Affine> {
        let mut out = Vec::new();
        for (index, below) in &level.axes {
            let (high, low) = self.divide(&walk.rest[*index].clone(), *below);
            walk.rest[*index] = low;
            out.push(high);
        }
        out
    }

    /// The number of the cell in its container.
    fn number(&mut self, walk: &mut Walk, level: &Level) -> Affine {
        let coordinates = self.coordinates(walk, level);
        match level.data.order {
            CellOrder::RowMajor => {
                let mut number = Affine::default();
                for ((_, extent), c) in level.data.extents.iter().zip(&coordinates) {
                    number = self.scale(&number, *extent as i64);
                    number = self.sum(&number, c, 1);
                }
                number
            }
            CellOrder::Morton => {
                let values: Vec<Value> = coordinates.iter().map(|c| self.materialize(c)).collect();
                Affine::atom(self.morton(&level.data, &values))
            }
        }
    }

    /// Bits of the coordinates, interleaved.
    fn morton(&mut self, data: &NodeData, coordinates: &[Value]) -> Value {
        let mut out = self.b.i64(0);
        for (at, (axis, bit)) in morton_bits(data).into_iter().enumerate() {
            let mask = self.b.i64(1 << bit);
            let x = self.b.binary(BinOp::And, coordinates[axis], mask);
            let shift = self.b.i64(at as i64 - bit);
            let x = self.b.binary(BinOp::Shl, x, shift);
            out = self.b.binary(BinOp::Or, out, x);
        }
        out
    }

    /// From where a node starts to one of its cells.
    pub(super) fn step(&mut self, walk: &mut Walk, level: &Level, how: How) {
        let find = match how {
            How::Look | How::Ask => TreeAccessOp::Find,
            How::Make => TreeAccessOp::Ensure,
        };
        match level.data.kind {
            NodeKind::Root => {}
            NodeKind::Dense => {
                let number = self.number(walk, level);
                walk.at = self.sum(&walk.at, &number, level.cell);
            }
            NodeKind::Bitmasked => {
                let number = self.number(walk, level);
                self.note(walk, level, &number, how);
                walk.at = self.sum(&walk.at, &number, level.cell);
                walk.at.constant += level.first;
            }
            NodeKind::Pointer => {
                let number = self.number(walk, level);
                let args = [self.materialize(&walk.at), self.materialize(&number)];
                self.found(walk, level, find, &args);
            }
            NodeKind::Hash => {
                let coordinates = self.coordinates(walk, level);
                let args: Vec<Value> = coordinates.iter().map(|c| self.materialize(c)).collect();
                self.found(walk, level, find, &args);
            }
            NodeKind::Dynamic(Dynamic { chunk }) => {
                let number = self.number(walk, level);
                let (chunk, within) = self.divide(&number, chunk.into());
                let container = walk.at.clone();
                let args = [self.materialize(&container), self.materialize(&chunk)];
                self.found(walk, level, find, &args);
                let cell = std::mem::replace(&mut walk.at, container);
                self.note(walk, level, &number, how);
                walk.at = self.sum(&cell, &within, level.cell);
            }
        }
    }

    fn found(&mut self, walk: &mut Walk, level: &Level, find: TreeAccessOp, args: &[Value]) {
        let cell = self
            .b
            .value(Op::TreeAccess(find, walk.tree, level.node), args);
        walk.cell = Some(cell);
        walk.at = Affine::atom(cell);
    }

    /// Bits and lengths: looked at, or set.
    fn note(&mut self, walk: &mut Walk, level: &Level, number: &Affine, how: How) {
        let op = match how {
            How::Look => return,
            How::Ask => TreeAccessOp::Test,
            How::Make => TreeAccessOp::Touch,
        };
        let args = [self.materialize(&walk.at), self.materialize(number)];
        let op = Op::TreeAccess(op, walk.tree, level.node);
        if how == How::Make {
            self.b.push(op, &args);
            return;
        }
        let set = self.b.value(op, &args);
        walk.set = Some(match walk.set {
            Some(all) => self.b.binary(BinOp::And, all, set),
            None => set,
        });
    }

    // ---- cells ----

    /// Questions and orders about cells.
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

    /// Compares indices with the domain of a field; `skip` says which index is not among them.
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
        let walk = self.walk(field, &levels, &safe, How::Ask);
        match self.exists(&walk) {
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
                s.walk(field, &levels, &masked.indices, How::Make);
                None
            },
            |s| s.report(Place::Field(field), &masked.found),
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
                let mut walk = s.walk_above(field, above, &masked.indices, How::Look);
                s.enter(&mut walk, last);
                let args: Vec<Value> = match last.data.kind {
                    NodeKind::Hash => {
                        let coordinates = s.coordinates(&mut walk, last);
                        coordinates.iter().map(|c| s.materialize(c)).collect()
                    }
                    NodeKind::Dynamic { .. } => vec![s.materialize(&walk.at)],
                    _ => {
                        let number = s.number(&mut walk, last);
                        vec![s.materialize(&walk.at), s.materialize(&number)]
                    }
                };
                s.b.push(
                    Op::TreeAccess(TreeAccessOp::Drop, walk.tree, last.node),
                    &args,
                );
                None
            },
            |_| {},
        )
    }

    /// To the cell that the field's node is in, not using entries: the caller wants the node's own place.
    fn walk_above(&mut self, field: Field, above: &[Level], indices: &[Affine], how: How) -> Walk {
        let data = self.b.env.fields[field].clone();
        let mut rest: Vec<Affine> = Vec::new();
        for (expr, (_, lo)) in indices.iter().zip(&data.axes) {
            rest.push(self.sum(expr, &Affine::constant(*lo), -1));
        }
        let root = self.memory[data.tree].node_offset[self.b.env.trees[data.tree].root()];
        let mut walk = Walk {
            tree: data.tree,
            at: Affine::constant(root as i64),
            rest,
            cell: None,
            set: None,
        };
        for level in above.iter().skip(1) {
            self.enter(&mut walk, level);
            self.step(&mut walk, level, how);
        }
        walk
    }

    /// Which index of the field runs along its list; the verifier has seen that one does.
    fn list_index(&self, field: Field) -> usize {
        dynamic_index(self.b.env, field).unwrap_or(0)
    }

    /// To the list that indices lead to.
    fn walk_to_list(
        &mut self,
        field: Field,
        skip: usize,
        mut indices: Vec<Affine>,
        how: How,
    ) -> (Walk, Node) {
        let start = self.b.env.fields[field].axes[skip].1;
        indices.insert(skip, Affine::constant(start));
        let levels = self.levels(field);
        let (last, above) = (&levels[levels.len() - 1], &levels[..levels.len() - 1]);
        let mut walk = self.walk_above(field, above, &indices, how);
        self.enter(&mut walk, last);
        (walk, last.node)
    }

    fn append(&mut self, field: Field, args: &[Value]) -> Option<Value> {
        let skip = self.list_index(field);
        let masked = self.mask_field(field, args, Some(skip));
        let i32_type = Type::Scalar(Scalar::I32);
        let branch = self.b.push_typed(Op::If, &[masked.inside], &[i32_type]);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let (walk, node) = self.walk_to_list(field, skip, masked.indices.clone(), How::Make);
        let container = self.materialize(&walk.at);
        let number = self.b.value(
            Op::TreeAccess(TreeAccessOp::Push, walk.tree, node),
            &[container],
        );
        let zero = self.b.i64(0);
        let failed = self.b.compare(CmpOp::Lt, number, zero);
        let most = self.b.env.trees[walk.tree].nodes[node].cells() as i64;
        self.when(
            failed,
            None,
            |s| {
                // Without memory the list is not full, and that has been reported.
                let length = s.b.value(
                    Op::TreeAccess(TreeAccessOp::Length, walk.tree, node),
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
        self.report(Place::Field(field), &found);
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
        let (walk, node) = self.walk_to_list(field, skip, safe, How::Look);
        let container = self.materialize(&walk.at);
        let length = self.b.value(
            Op::TreeAccess(TreeAccessOp::Length, walk.tree, node),
            &[container],
        );
        let zero = self.b.i64(0);
        let length = self.b.select(masked.inside, length, zero);
        self.b.convert(length, Scalar::I32)
    }
}

/// How many coordinates along an axis one entry of the list of level `k` spans.
fn spans(levels: &[Level], k: usize, axis: wuji_ir::layout::Axis) -> u64 {
    let below: u64 = levels[k + 1..]
        .iter()
        .flat_map(|l| &l.data.extents)
        .filter(|e| e.0 == axis)
        .fold(1u64, |n, e| n.saturating_mul(e.1));
    let own = levels[k].data.extents.iter().find(|e| e.0 == axis);
    let factor = match (levels[k].data.kind, own) {
        (NodeKind::Bitmasked, Some((_, extent))) => *extent,
        (NodeKind::Dynamic(Dynamic { chunk }), Some(_)) => chunk.into(),
        _ => 1,
    };
    below.saturating_mul(factor)
}
