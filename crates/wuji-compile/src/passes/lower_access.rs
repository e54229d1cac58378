//! Accesses of fields, arrays and temps become loads and stores at byte offsets.
//!
//! An offset is built as a sum over the loop indices and other numbers the access's indices are made of,
//! so that the parts neighbouring accesses share come out the same, and constant distances end up as
//! constants. An access that is still checked compares its indices first: a load outside gives zero, a
//! write or atomic outside is dropped and reported.

use crate::analysis::linear::{Linear, Sums};
use crate::passes::Cx;
use crate::passes::demote_atomics::demote_local_atomics;
use crate::rewrite::{Structure, Substitution};
use cranelift_entity::PrimaryMap;
use wuji_ir::build::Builder;
use wuji_ir::entities::{Array, Field, Func, Inst, Region, Tree, Value};
use wuji_ir::layout::TreeMemory;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Scalar, Type};
use wuji_ir::{Error, Result};

pub fn lower_access(m: &mut Module, _: &mut Cx) -> Result<()> {
    demote_local_atomics(m);
    let memory = memories(m)?;
    let (temps, _) = m.temp_offsets();
    let funcs: Vec<Func> = m.funcs.keys().collect();
    for func in funcs {
        let mut f = m.take_func(func);
        // Forms refer to the function as it is before lowering; new instructions only add to it.
        let before = f.clone();
        let structure = Structure::of(&before);
        let sums = Sums::new(&before, &structure);
        let mut lower = Lower {
            b: Builder::new(m, &mut f),
            sums,
            memory: &memory,
            temps: &temps,
            subst: Substitution::new(),
        };
        for region in before.walk_regions() {
            lower.region(region);
        }
        let subst = lower.subst;
        subst.apply(&mut f);
        m.funcs[func] = f;
    }
    Ok(())
}

fn memories(m: &Module) -> Result<PrimaryMap<Tree, TreeMemory>> {
    let mut out = PrimaryMap::new();
    for (id, tree) in m.trees.iter() {
        let memory = TreeMemory::of(tree, &m.fields, &m.structs).ok_or_else(|| {
            Error::new(
                "W0311",
                format!("the layout tree {id} is larger than 2^62 bytes"),
            )
        })?;
        out.push(memory);
    }
    Ok(out)
}

struct Lower<'a> {
    b: Builder<'a>,
    sums: Sums<'a>,
    memory: &'a PrimaryMap<Tree, TreeMemory>,
    temps: &'a [u64],
    subst: Substitution,
}

/// A checked access: whether it is inside, and indices that are inside in any case.
struct Masked {
    inside: Value,
    indices: Vec<Linear>,
    /// The indices as numbers to report.
    found: Values,
}

impl Lower<'_> {
    fn region(&mut self, region: Region) {
        let insts = std::mem::take(&mut self.b.func.regions[region].insts);
        self.b.region = region;
        for inst in insts {
            let data = &self.b.func.insts[inst];
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
        let result = match access.guard {
            Guard::InBounds => {
                let limits = self.limits(&access);
                let forms: Vec<Linear> = index_args
                    .iter()
                    .zip(limits)
                    .map(|(v, limit)| self.index_form(*v, limit))
                    .collect();
                let offset = self.offset(&access, &forms);
                self.emit(&data.op, &access, ty, offset, operands)
            }
            Guard::Checked => self.masked_access(&data.op, &access, ty, index_args, operands),
        };
        if let (Some(old), Some(new)) = (data.results.first(), result) {
            self.subst.set(*old, new);
        }
    }

    /// Indices and dynamic steps together.
    fn index_count(&self, access: &Access) -> usize {
        self.b.module.place_elem(self.b.func, access.place).1 + access.dynamic_steps()
    }

    fn accessed_type(&self, access: &Access) -> Type {
        let mut ty = self.b.module.place_elem(self.b.func, access.place).0;
        for step in &access.path {
            let k = match step {
                Step::Const(k) => *k,
                Step::Dynamic => 0,
            };
            ty = self.b.module.structs.component(ty, k).unwrap_or(ty);
        }
        ty
    }

    fn space(&self, place: Place) -> Space {
        match place {
            Place::Field(f) => Space::Tree(self.b.module.fields[f].tree, f),
            Place::Array(a) => Space::Array(a),
            Place::Temp(_) | Place::Local(_) => Space::Temps,
        }
    }

    /// The memory operation itself; gives its result, if it has one.
    fn emit(
        &mut self,
        op: &Op,
        access: &Access,
        ty: Type,
        offset: Value,
        operands: &[Value],
    ) -> Option<Value> {
        let space = self.space(access.place);
        let mut args: Values = smallvec::smallvec![offset];
        args.extend(operands.iter().copied());
        let op = match op {
            Op::Load(_) => Op::MemLoad(space, ty),
            Op::Store(_) => {
                self.b.push(Op::MemStore(space), &args);
                return None;
            }
            Op::Atomic(a, _) => Op::MemAtomic(*a, space),
            _ => Op::MemCompareExchange(space),
        };
        Some(self.b.value(op, &args))
    }

    // ---- checks ----

    /// Start and length along every index: indices first, then dynamic steps. Lengths are `i64`.
    fn domain(&mut self, access: &Access) -> Vec<(i64, Value)> {
        let mut out = Vec::new();
        match access.place {
            Place::Field(f) => {
                for (lo, extent) in self.b.module.fields[f].domain(&self.b.module.trees) {
                    let extent = self.b.i64(extent as i64);
                    out.push((lo, extent));
                }
            }
            Place::Array(a) => {
                for k in 0..self.b.module.arrays[a].rank {
                    let extent = self.b.value(Op::ArrayExtent(a, k), &[]);
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
        let mut ty = self.b.module.place_elem(self.b.func, access.place).0;
        for step in &access.path {
            let k = match step {
                Step::Const(k) => *k,
                Step::Dynamic => {
                    let n = self.b.module.structs.arity(ty);
                    let n = self.b.i64(n.into());
                    out.push((0, n));
                    0
                }
            };
            ty = self.b.module.structs.component(ty, k).unwrap_or(ty);
        }
        out
    }

    /// Start and, where it is known, length along every index, as in [`Lower::domain`].
    fn limits(&self, access: &Access) -> Vec<(i64, Option<u64>)> {
        let m = &*self.b.module;
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

    /// An index that is inside, as a sum. A sum is what its value is up to wrapping: it may only be used
    /// where wrapping would lead outside.
    fn index_form(&mut self, v: Value, (lo, extent): (i64, Option<u64>)) -> Linear {
        let form = self.sums.form(v);
        let Some(ty) = self.b.func.ty(v).as_scalar() else {
            return form;
        };
        // Offsets wrap with 64 bits themselves.
        let (Some((least, most)), true) = (ty.int_range(), ty.bits() < 64) else {
            return form;
        };
        let lo = i128::from(lo);
        let last = extent.map_or(most, |e| most.min(lo + i128::from(e) - 1));
        let wrap = 1i128 << ty.bits();
        let (a, b) = self.sums.range_of(&form);
        if a > last - wrap && b < least.max(lo) + wrap {
            form
        } else {
            Linear::atom(v)
        }
    }

    /// Compares every index with its domain, in its own type.
    fn mask(&mut self, access: &Access, index_args: &[Value]) -> Masked {
        let domain = self.domain(access);
        let mut inside: Option<Value> = None;
        let (mut indices, mut found) = (Vec::new(), Values::new());
        for ((lo, extent), index) in domain.into_iter().zip(index_args) {
            let (wide, fits) = self.widen(*index);
            found.push(wide);
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
            indices.push(Linear::atom(wide));
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
        let mut index = if self.sums.is_steady(index) {
            index
        } else {
            self.b.unary(UnOp::Freeze, index)
        };
        let fits = (self.b.func.ty(index).as_scalar() == Some(Scalar::U64)).then(|| {
            let most = self.b.int(Scalar::U64, i64::MAX.into());
            let fits = self.b.compare(CmpOp::Le, index, most);
            // Reports show the largest `i64` for what is beyond it.
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
        if let (Op::Load(_), true) = (op, readable) {
            let first: Vec<Linear> = self
                .starts(access)
                .into_iter()
                .map(Linear::constant)
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
        if !matches!(op, Op::Load(_)) {
            let rank = index_args.len() - access.dynamic_steps();
            self.report(access.place, &masked.found[..rank]);
        }
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

    fn report(&mut self, place: Place, found: &[Value]) {
        let span = self.b.span;
        let site = self.b.module.sites.push(SiteData {
            kind: SiteKind::OutOfRange(place),
            span,
        });
        self.b.push(Op::Report(site), found);
    }

    /// The smallest value of every index.
    fn starts(&self, access: &Access) -> Vec<i64> {
        let mut out: Vec<i64> = match access.place {
            Place::Field(f) => self.b.module.fields[f].axes.iter().map(|a| a.1).collect(),
            Place::Array(_) | Place::Local(_) | Place::Temp(_) => Vec::new(),
        };
        out.extend(std::iter::repeat_n(0, access.dynamic_steps()));
        out
    }

    // ---- offsets ----

    /// Byte offset of an access whose indices are inside.
    fn offset(&mut self, access: &Access, indices: &[Linear]) -> Value {
        let rank = indices.len() - access.dynamic_steps();
        let (indices, steps) = indices.split_at(rank);
        let within = self.path_offset(access, steps);
        match access.place {
            Place::Field(f) => {
                let at = self.field_offset(f, indices);
                let sum = self.sum(&at, &within, 1);
                self.materialize(&sum)
            }
            Place::Array(a) => self.array_offset(a, indices, &within),
            Place::Temp(t) => {
                let base = self.temps[t.as_u32() as usize] as i64;
                let sum = self.sum(&within, &Linear::constant(base), 1);
                self.materialize(&sum)
            }
            Place::Local(_) => self.materialize(&within),
        }
    }

    fn path_offset(&mut self, access: &Access, steps: &[Linear]) -> Linear {
        let mut ty = self.b.module.place_elem(self.b.func, access.place).0;
        let mut at = Linear::default();
        let mut steps = steps.iter();
        for step in &access.path {
            let structs = &self.b.module.structs;
            let k = match step {
                Step::Const(k) => {
                    let offset = structs.component_offset(ty, *k) as i64;
                    at.constant = at.constant.wrapping_add(offset);
                    *k
                }
                Step::Dynamic => {
                    let size = ty.elem().map_or(1, |s| i64::from(s.bytes()));
                    if let Some(form) = steps.next() {
                        at = self.sum(&at, form, size);
                    }
                    0
                }
            };
            ty = self.b.module.structs.component(ty, k).unwrap_or(ty);
        }
        at
    }

    /// From the root down: the cell in every node, times the size of a cell.
    fn field_offset(&mut self, field: Field, indices: &[Linear]) -> Linear {
        let data = self.b.module.fields[field].clone();
        let memory = &self.memory[data.tree];
        let tree = &self.b.module.trees[data.tree];
        let path = tree.path(data.node);
        let nodes: Vec<NodeStep> = path
            .iter()
            .map(|n| NodeStep {
                extents: tree.nodes[*n].extents.to_vec(),
                offset: memory.node_offset[*n] as i64,
                cell: memory.cell_size[*n] as i64,
            })
            .collect();
        let mut at = Linear::constant(memory.place(field) as i64);
        // What is left of each index below the nodes seen so far.
        let mut rest: Vec<Linear> = Vec::new();
        for (form, (_, lo)) in indices.iter().zip(&data.axes) {
            rest.push(self.sum(form, &Linear::constant(*lo), -1));
        }
        for (level, node) in nodes.iter().enumerate() {
            at.constant = at.constant.wrapping_add(node.offset);
            let mut cell = Linear::default();
            for (axis, extent) in &node.extents {
                let Some(k) = data.axes.iter().position(|a| a.0 == *axis) else {
                    continue;
                };
                let below: u64 = nodes[level + 1..]
                    .iter()
                    .flat_map(|n| &n.extents)
                    .filter(|e| e.0 == *axis)
                    .map(|e| e.1)
                    .product();
                let (high, low) = self.divide(&rest[k], below);
                cell = self.scale(&cell, *extent as i64);
                cell = self.sum(&cell, &high, 1);
                rest[k] = low;
            }
            at = self.sum(&at, &cell, node.cell);
        }
        at
    }

    /// Quotient and remainder of a sum that is not negative.
    fn divide(&mut self, sum: &Linear, by: u64) -> (Linear, Linear) {
        if by == 1 {
            return (sum.clone(), Linear::default());
        }
        let by = by as i64;
        // The part that is a multiple goes up whole when the other part is known to be small.
        let mut high = Linear::constant(sum.constant.div_euclid(by));
        let mut low = Linear::constant(sum.constant.rem_euclid(by));
        for (v, c) in &sum.terms {
            let term = Linear::atom(*v);
            if c % by == 0 {
                high = self.sum(&high, &term, c / by);
            } else {
                low = self.sum(&low, &term, *c);
            }
        }
        let range = self.range(&low);
        if 0 <= range.0 && range.1 < i128::from(by) {
            return (high, low);
        }
        let value = self.materialize(sum);
        let (q, r) = if by & (by - 1) == 0 {
            let shift = self.b.i64(i64::from(by.trailing_zeros()));
            let mask = self.b.i64(by - 1);
            (
                self.b.binary(BinOp::Shr, value, shift),
                self.b.binary(BinOp::And, value, mask),
            )
        } else {
            let value = self.b.value(Op::Bitcast(Scalar::U64), &[value]);
            let by = self.b.int(Scalar::U64, by.into());
            let q = self.b.binary(BinOp::Div, value, by);
            let r = self.b.binary(BinOp::Rem, value, by);
            let q = self.b.value(Op::Bitcast(Scalar::I64), &[q]);
            (q, self.b.value(Op::Bitcast(Scalar::I64), &[r]))
        };
        (Linear::atom(q), Linear::atom(r))
    }

    /// Ranges are known for what was there before lowering.
    fn range(&mut self, sum: &Linear) -> (i128, i128) {
        let known = self.sums.func.values.len();
        if sum.terms.iter().all(|(v, _)| (v.as_u32() as usize) < known) {
            self.sums.range_of(sum)
        } else {
            (i128::MIN, i128::MAX)
        }
    }

    fn array_offset(&mut self, array: Array, indices: &[Linear], within: &Linear) -> Value {
        let data = self.b.module.arrays[array].clone();
        let size = self.b.module.structs.size_align(data.elem).0 as i64;
        let mut at: Option<Value> = None;
        if data.contiguous {
            for (k, form) in indices.iter().enumerate() {
                // The last index is scaled with the constants, so that neighbours share the rest.
                let last = k + 1 == indices.len();
                let scaled = if last {
                    self.scale(form, size)
                } else {
                    form.clone()
                };
                let scaled = if last {
                    self.sum(&scaled, within, 1)
                } else {
                    scaled
                };
                at = Some(match at {
                    None => self.materialize(&scaled),
                    Some(row) => {
                        let extent = self.b.value(Op::ArrayExtent(array, k as u8), &[]);
                        let mut row = self.b.binary(BinOp::Mul, row, extent);
                        if last {
                            let size = self.b.i64(size);
                            row = self.b.binary(BinOp::Mul, row, size);
                        }
                        let own = self.materialize(&scaled);
                        self.b.binary(BinOp::Add, row, own)
                    }
                });
            }
        } else {
            for (k, form) in indices.iter().enumerate() {
                let stride = self.b.value(Op::ArrayStride(array, k as u8), &[]);
                let index = self.materialize(form);
                let part = self.b.binary(BinOp::Mul, index, stride);
                at = Some(match at {
                    None => part,
                    Some(sum) => self.b.binary(BinOp::Add, sum, part),
                });
            }
            let own = self.materialize(within);
            at = at.map(|sum| self.b.binary(BinOp::Add, sum, own));
        }
        match at {
            Some(v) => v,
            None => self.materialize(within),
        }
    }

    /// `a + factor * b`. Offsets of accesses that are inside fit `i64`; where a part does not, it is
    /// computed as a value, modulo 2^64.
    fn sum(&mut self, a: &Linear, b: &Linear, factor: i64) -> Linear {
        if let Some(sum) = a.add_scaled(b, factor) {
            return sum;
        }
        let (x, y) = (self.materialize(a), self.materialize(b));
        let factor = self.b.i64(factor);
        let y = self.b.binary(BinOp::Mul, y, factor);
        Linear::atom(self.b.binary(BinOp::Add, x, y))
    }

    fn scale(&mut self, a: &Linear, factor: i64) -> Linear {
        self.sum(&Linear::default(), a, factor)
    }

    /// A sum as an `i64` value: the terms that change least first, the constant last, so that hoisting
    /// and sharing find equal parts.
    fn materialize(&mut self, sum: &Linear) -> Value {
        let mut terms: Vec<(usize, Value, i64)> = sum
            .terms
            .iter()
            .map(|(v, c)| (self.depth(*v), *v, *c))
            .collect();
        terms.sort();
        let mut out: Option<Value> = None;
        for (_, v, c) in terms {
            let mut term = self.b.convert(v, Scalar::I64);
            if c != 1 {
                let c = self.b.i64(c);
                term = self.b.binary(BinOp::Mul, term, c);
            }
            out = Some(match out {
                Some(o) => self.b.binary(BinOp::Add, o, term),
                None => term,
            });
        }
        match out {
            Some(o) if sum.constant == 0 => o,
            Some(o) => {
                let c = self.b.i64(sum.constant);
                self.b.binary(BinOp::Add, o, c)
            }
            None => self.b.i64(sum.constant),
        }
    }

    /// How deep in regions a value is defined; new values are local.
    fn depth(&self, v: Value) -> usize {
        let f = self.sums.func;
        if v.as_u32() as usize >= f.values.len() {
            return usize::MAX;
        }
        let structure = self.sums.structure;
        let mut depth = 0;
        let mut at = structure.def_region(f, v);
        while let Some(r) = at {
            depth += 1;
            at = structure.owner[r]
                .expand()
                .and_then(|o| structure.region_of[o].expand());
        }
        depth
    }

    // ---- locals ----

    /// Local arrays stay what they are, with an index that is inside.
    fn local(&mut self, inst: Inst) {
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
        let index = masked.indices[0].terms[0].0;
        let mut op = data.op.clone();
        if let Some(a) = op.access_mut() {
            a.guard = Guard::InBounds;
        }
        if let Op::Load(_) = op {
            let zero = self.b.i64(0);
            let safe = self.b.select(masked.inside, index, zero);
            let value = self.b.value(op, &[safe]);
            let zero = self.b.zero(ty);
            let value = self.b.select(masked.inside, value, zero);
            self.subst.set(data.results[0], value);
            return;
        }
        let branch = self.b.push_typed(Op::If, &[masked.inside], &[]);
        let outer = self.b.region;
        let (yes, no) = (self.b.func.add_region(&[]), self.b.func.add_region(&[]));
        self.b.region = yes;
        let mut args = data.args.clone();
        args[0] = index;
        self.b.push(op, &args);
        self.b.end(Term::Yield(Values::new()));
        self.b.region = no;
        self.report(access.place, &masked.found);
        self.b.end(Term::Yield(Values::new()));
        self.b.region = outer;
        self.b.func.insts[branch].regions.extend([yes, no]);
    }

    /// A run-time component of a local: the whole element is read, changed and written.
    fn local_component(&mut self, data: &InstData, access: &Access) {
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
    fn pop_and_lower(&mut self, inst: Inst) {
        let needs = self.b.func.insts[inst]
            .op
            .access()
            .is_some_and(|a| a.guard == Guard::Checked && self.index_count(a) == 1);
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

/// One node on the way from the root to a field.
struct NodeStep {
    extents: Vec<(wuji_ir::layout::Axis, u64)>,
    offset: i64,
    cell: i64,
}
