//! Accesses of fields, arrays and temps become loads and stores at byte offsets.
//!
//! An offset is an affine expression of loop indices and other values, so that neighbouring accesses share equal parts,
//! and constant distances are constants. An access that is still checked compares its indices first: a load outside
//! yields zero, a write or atomic outside is dropped and reported.

mod accessors;
mod cells;
mod locals;
mod near;
mod offsets;
mod path;
mod sparse;

use accessors::Accessors;

use crate::analysis::affine::{Affine, AffineAnalysis};
use crate::analysis::entries::{Entry, changes_cells, entries, loses_cells, visible};
use crate::nodes::memories;
use crate::passes::Cx;
use crate::rewrite::{Structure, Substitution, demote_local_atomics};
use cranelift_entity::PrimaryMap;
use rustc_hash::FxHashMap;
use wuji_ir::Result;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Inst, Node, Region, Tree, Value};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar, Type};

/// The pass; the [module](self) describes it.
pub fn lower_access(m: &mut Module, cx: &mut Cx) -> Result<()> {
    demote_local_atomics(m);
    let memory = memories(m)?;
    let (temps, _) = m.temp_offsets();
    let mut accessors = if cx.uses("access_lowering") {
        None
    } else {
        Some(Accessors::default())
    };
    // Callees are analyzed before lowering.
    let loses = |f: &Function| {
        let trees = m.trees.keys();
        trees.filter(|t| loses_cells(m, f, *t)).collect()
    };
    let losing: Vec<Vec<Tree>> = m.funcs.values().map(loses).collect();
    for (f, losing) in m.funcs.values_mut().zip(losing) {
        // Affine expressions refer to the function before lowering; new instructions only add to it.
        let before = f.clone();
        let structure = Structure::of(&before);
        let affine = AffineAnalysis::new(&before, &structure);
        let changing: Vec<Tree> = m
            .env
            .trees
            .keys()
            .filter(|t| changes_cells(&m.env, &before, *t))
            .collect();
        let mut found = if cx.uses("entries") {
            entries(&before, &structure)
        } else {
            Vec::new()
        };
        found.retain(|e| !losing.contains(&e.tree));
        let mut lower = Lower {
            b: Builder::new(&mut m.env, f),
            affine,
            memory: &memory,
            entries: found,
            visible: Vec::new(),
            neighbours_wanted: cx.uses("neighbours"),
            changing,
            losing,
            appended: FxHashMap::default(),
            chunk: None,
            neighbours: FxHashMap::default(),
            temps: &temps,
            accessors: accessors.as_mut(),
            subst: Substitution::new(),
            check_reads: cx.options.check_reads,
        };
        for region in before.walk_regions() {
            lower.region(region);
        }
        let subst = lower.subst;
        subst.apply(f);
    }
    m.add_defined();
    Ok(())
}

struct Lower<'a> {
    b: Builder<'a>,
    affine: AffineAnalysis<'a>,
    memory: &'a PrimaryMap<Tree, TreeMemory>,
    /// List entries that the function's loops run over.
    entries: Vec<Entry>,
    /// Those that have been read where the current access is.
    visible: Vec<Entry>,
    neighbours_wanted: bool,
    /// Trees whose cells the function may activate or deactivate, and those whose cells it may deactivate.
    changing: Vec<Tree>,
    losing: Vec<Tree>,
    /// Cells of lists that the function appends, by their numbers.
    appended: FxHashMap<Value, Appended>,
    /// The chunk of the cell that is accessed, if it has just been appended.
    chunk: Option<Value>,
    /// Offsets of blocks near an entry, by the entry's offset, the node, and the distance in blocks.
    neighbours: FxHashMap<(Value, Node, Vec<i64>), Value>,
    temps: &'a [u64],
    /// The accessors, where accesses are calls.
    accessors: Option<&'a mut Accessors>,
    subst: Substitution,
    /// Whether reads outside are reported.
    check_reads: bool,
}

/// A cell that was appended to a list.
struct Appended {
    list: (Tree, Node),
    /// The indices of the list.
    indices: Values,
    /// The offset of its chunk.
    chunk: Value,
}

/// A checked access: whether it is in range, and indices that are safe to use in any case.
struct Masked {
    inside: Value,
    indices: Vec<Affine>,
    /// The index values to report.
    found: Values,
}

impl Lower<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        self.b.region = region;
        let first = insts.first().copied();
        for inst in insts {
            let data = &self.b.func.insts[inst];
            let reads_entry = matches!(data.op, Op::TreeAccess(TreeAccessOp::Entry, _, _));
            if first == Some(inst) || reads_entry {
                self.visible = visible(&self.entries, self.affine.structure, inst);
            }
            // Hints have no use after this pass.
            if let OpClass::Hint(op) = data.op.class() {
                match op {
                    HintOp::Cache(_) => {}
                    HintOp::AssumeRange(..) | HintOp::Unique(_) => {
                        let (result, value) = (data.results[0], data.args[0]);
                        self.subst.set(result, value);
                    }
                }
                continue;
            }
            if let Op::Cell(op, field) = data.op {
                self.cell_op(inst, op, field);
                continue;
            }
            match data.op.access().map(|a| a.place) {
                None => self.b.func.regions[region].insts.push(inst),
                Some(Place::Local(_)) => self.local(inst),
                Some(Place::Field(_) | Place::Array(_) | Place::Temp(_)) => self.access(inst),
            }
        }
    }

    fn access(&mut self, inst: Inst) {
        let data = self.b.func.insts[inst].clone();
        self.b.span = self.b.func.spans[inst];
        let Some(access) = data.op.access().cloned() else {
            return;
        };
        let indices = self.index_count(&access);
        let (index_args, operands) = data.args.split_at(indices);
        let ty = self.accessed_type(&access);
        let field = match access.place {
            Place::Field(f) => Some(f),
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => None,
        };
        let sparse = field.is_some_and(|f| self.is_sparse(f));
        self.chunk = field.and_then(|f| self.appended_chunk(f, index_args));
        let result = match access.guard {
            _ if field.is_some() && self.accessors.is_some() => {
                self.called_access((&data.op, &access, ty), index_args, operands)
            }
            _ if sparse => self.sparse_access((&data.op, &access, ty), index_args, operands),
            Guard::InBounds => {
                let limits = self.limits(&access);
                let exprs: Vec<Affine> = index_args
                    .iter()
                    .zip(limits)
                    .map(|(v, limit)| self.index_form(*v, limit))
                    .collect();
                let offset = self.offset(&access, &exprs);
                self.emit(&data.op, &access, ty, offset, operands)
            }
            Guard::Checked | Guard::Silent => {
                self.masked_access(&data.op, &access, ty, index_args, operands)
            }
        };
        if let (Some(old), Some(new)) = (data.results.first(), result) {
            self.subst.set(*old, new);
        }
    }

    /// Indices and dynamic steps together.
    fn index_count(&self, access: &Access) -> usize {
        self.b.env.place_elem(self.b.func, access.place).1 + access.dynamic_steps()
    }

    fn accessed_type(&self, access: &Access) -> Type {
        let mut ty = self.b.env.place_elem(self.b.func, access.place).0;
        for step in &access.path {
            let k = match step {
                Step::Const(k) => *k,
                Step::Dynamic => 0,
            };
            ty = self.b.env.structs.component(ty, k).unwrap_or(ty);
        }
        ty
    }

    fn space(&self, place: Place) -> Space {
        match place {
            Place::Field(f) => Space::Tree(self.b.env.fields[f].tree, f),
            Place::Array(a) => Space::Array(a),
            Place::Temp(_) | Place::Local(_) => Space::Temps,
        }
    }

    /// The memory operation itself; returns its result, if it has one.
    fn emit(
        &mut self,
        op: &Op,
        access: &Access,
        ty: Type,
        offset: Value,
        operands: &[Value],
    ) -> Option<Value> {
        let OpClass::Access(op, _) = op.class() else {
            return None;
        };
        let space = self.space(access.place);
        let mut args: Values = smallvec::smallvec![offset];
        args.extend(operands.iter().copied());
        let op = match op {
            AccessOp::Load => Op::MemLoad(space, ty),
            AccessOp::Store => {
                self.b.push(Op::MemStore(space), &args);
                return None;
            }
            AccessOp::Atomic(a) => Op::MemAtomic(a, space, Sharing::Shared),
            AccessOp::CompareExchange => Op::MemCompareExchange(space),
        };
        Some(self.b.value(op, &args))
    }

    // ---- checks ----

    /// Start and length along every index: indices first, then dynamic steps. Lengths are `i64`.
    fn domain(&mut self, access: &Access) -> Vec<(i64, Value)> {
        let mut out = Vec::new();
        match access.place {
            Place::Field(f) => {
                for (lo, extent) in self.b.env.fields[f].domain(&self.b.env.trees) {
                    let extent = self.b.i64(extent as i64);
                    out.push((lo, extent));
                }
            }
            Place::Array(a) => {
                for k in 0..self.b.env.arrays[a].rank {
                    let extent = self.b.extent(a, k);
                    out.push((0, extent));
                }
            }
            Place::Local(l) => {
                if let Some(len) = self.b.func.locals[l].len {
                    let len = self.b.i64(len.into());
                    out.push((0, len));
                }
            }
            Place::Temp(_) => {}
        }
        let mut ty = self.b.env.place_elem(self.b.func, access.place).0;
        for step in &access.path {
            let k = match step {
                Step::Const(k) => *k,
                Step::Dynamic => {
                    let n = self.b.env.structs.arity(ty);
                    let n = self.b.i64(n.into());
                    out.push((0, n));
                    0
                }
            };
            ty = self.b.env.structs.component(ty, k).unwrap_or(ty);
        }
        out
    }

    /// Start and, where it is known, length along every index, as in [`Lower::domain`].
    fn limits(&self, access: &Access) -> Vec<(i64, Option<u64>)> {
        let m = &*self.b.env;
        let mut out: Vec<(i64, Option<u64>)> = match access.place {
            Place::Field(f) => {
                let domain = m.fields[f].domain(&m.trees);
                domain.into_iter().map(|(lo, e)| (lo, Some(e))).collect()
            }
            Place::Array(a) => vec![(0, None); m.arrays[a].rank.into()],
            Place::Local(_) | Place::Temp(_) => Vec::new(),
        };
        let mut ty = m.place_elem(self.b.func, access.place).0;
        for step in &access.path {
            let k = match step {
                Step::Const(k) => *k,
                Step::Dynamic => {
                    out.push((0, Some(m.structs.arity(ty).into())));
                    0
                }
            };
            ty = m.structs.component(ty, k).unwrap_or(ty);
        }
        out
    }

    /// An index in range, as an affine expression. The expression equals the value up to wrapping: it may only be
    /// used where wrapping would be out of range.
    fn index_form(&mut self, v: Value, (lo, extent): (i64, Option<u64>)) -> Affine {
        let expr = self.affine.expr(v);
        let Some(ty) = self.b.func.ty(v).as_scalar() else {
            return expr;
        };
        // Offsets wrap at 64 bits, too.
        let (Some((least, most)), true) = (ty.int_range(), ty.bits() < 64) else {
            return expr;
        };
        let lo = i128::from(lo);
        let last = extent.map_or(most, |e| most.min(lo + i128::from(e) - 1));
        let wrap = 1i128 << ty.bits();
        let (a, b) = self.affine.range_of(&expr);
        if a > last - wrap && b < least.max(lo) + wrap {
            expr
        } else {
            Affine::atom(v)
        }
    }

    /// Compares every index with its domain, in its own type.
    fn mask(&mut self, access: &Access, index_args: &[Value]) -> Masked {
        let domain = self.domain(access);
        self.mask_within(domain, index_args)
    }

    /// Compares indices with ranges: smallest number and extent.
    fn mask_within(&mut self, domain: Vec<(i64, Value)>, index_args: &[Value]) -> Masked {
        let mut inside: Option<Value> = None;
        let (mut indices, mut found) = (Vec::new(), Values::new());
        for ((lo, extent), index) in domain.into_iter().zip(index_args) {
            let (wide, fits) = self.widen(*index);
            found.push(wide);
            let known = self.b.func.constant(extent).and_then(Imm::as_int);
            let (least, most) = self.affine.range(*index);
            if let Some(extent) = known.and_then(|e| u64::try_from(e).ok())
                && least >= i128::from(lo)
                && most < i128::from(lo) + i128::from(extent)
            {
                indices.push(self.index_form(*index, (lo, Some(extent))));
                continue;
            }
            let from_lo = if lo == 0 {
                wide
            } else {
                let lo = self.b.i64(lo);
                self.b.binary(BinOp::Sub, wide, lo)
            };
            let bits = self.b.value(Op::Bitcast(Scalar::U64), &[from_lo]);
            let extent = self.b.value(Op::Bitcast(Scalar::U64), &[extent]);
            let mut ok = self.b.compare(CmpOp::Lt, bits, extent);
            if let Some(fits) = fits {
                ok = self.b.binary(BinOp::And, ok, fits);
            }
            inside = Some(match inside {
                Some(all) => self.b.binary(BinOp::And, all, ok),
                None => ok,
            });
            indices.push(Affine::atom(wide));
        }
        let inside = match inside {
            Some(v) => v,
            None => self.b.bool(true),
        };
        Masked {
            inside,
            indices,
            found,
        }
    }

    /// An index as `i64`, frozen when it may come from memory; for `u64` also whether it fits there.
    fn widen(&mut self, index: Value) -> (Value, Option<Value>) {
        let mut index = if self.affine.is_steady(index) {
            index
        } else {
            self.b.unary(UnOp::Freeze, index)
        };
        let fits = (self.b.func.ty(index).as_scalar() == Some(Scalar::U64)).then(|| {
            let most = self.b.int(Scalar::U64, i64::MAX.into());
            let fits = self.b.compare(CmpOp::Le, index, most);
            // Reports show the largest `i64` for larger indices.
            index = self.b.binary(BinOp::Min, index, most);
            fits
        });
        (self.b.convert(index, Scalar::I64), fits)
    }

    fn masked_access(
        &mut self,
        op: &Op,
        access: &Access,
        ty: Type,
        index_args: &[Value],
        operands: &[Value],
    ) -> Option<Value> {
        let masked = self.mask(access, index_args);
        if index_args.is_empty() {
            let offset = self.offset(access, &[]);
            return self.emit(op, access, ty, offset, operands);
        }
        // Reading the first element of a field is always possible, so a load needs no branch.
        let readable = matches!(access.place, Place::Field(_));
        if let (Op::Load(_), true, false) = (op, readable, self.check_reads) {
            let first: Vec<Affine> = self
                .starts(access)
                .into_iter()
                .map(Affine::constant)
                .collect();
            let first = self.offset(access, &first);
            let offset = self.offset(access, &masked.indices);
            let offset = self.b.select(masked.inside, offset, first);
            let value = self.emit(op, access, ty, offset, operands)?;
            let zero = self.b.zero(ty);
            return Some(self.b.select(masked.inside, value, zero));
        }
        let result = !matches!(op, Op::Store(_));
        let types: &[Type] = if result { &[ty] } else { &[] };
        let branch = self.b.push_typed(Op::If, &[masked.inside], types);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let offset = self.offset(access, &masked.indices);
        let value = self.emit(op, access, ty, offset, operands);
        self.b.end(Term::Yield(value.into_iter().collect()));
        self.b.region = no;
        let rank = index_args.len() - access.dynamic_steps();
        self.report(self.outside(op, access.place), &masked.found[..rank]);
        let zero: Values = if result {
            [self.b.zero(ty)].into_iter().collect()
        } else {
            Values::new()
        };
        self.b.end(Term::Yield(zero));
        self.b.region = outer;
        self.b.func.insts[branch].regions.extend([yes, no]);
        result.then(|| self.b.func.result(branch))
    }

    /// What an access outside of its place reports: a read does only where reads are checked.
    fn outside(&self, op: &Op, place: Place) -> Option<SiteKind> {
        if op.access().is_some_and(|a| a.guard == Guard::Silent) {
            None
        } else if matches!(op, Op::Load(_)) {
            self.check_reads.then_some(SiteKind::ReadOutOfRange(place))
        } else {
            Some(SiteKind::OutOfRange(place))
        }
    }

    fn report(&mut self, kind: Option<SiteKind>, found: &[Value]) {
        let Some(kind) = kind else {
            return;
        };
        let span = self.b.span;
        let site = self.b.env.sites.push(SiteData { kind, span });
        self.b.push(Op::Report(site), found);
    }

    /// The smallest value of every index.
    fn starts(&self, access: &Access) -> Vec<i64> {
        let mut out: Vec<i64> = match access.place {
            Place::Field(f) => self.b.env.fields[f].axes.iter().map(|a| a.1).collect(),
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => Vec::new(),
        };
        out.extend(std::iter::repeat_n(0, access.dynamic_steps()));
        out
    }
}
