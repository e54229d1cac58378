//! Divergence analysis: the shape of each value across lanes, and divergent control flow.
//!
//! A value is the same in all lanes (*uniform*), increases by a constant from lane to lane (*strided*), or is
//! anything else (*varying*). Control flow is *divergent* where lanes may take different paths. The analysis starts
//! with everything uniform except the index and iterates to a fixed point; it is monotonic, so it terminates.

use super::locals::{Role, Roles};
use crate::analysis::affine::AffineAnalysis;
use crate::rewrite::Structure;
use rustc_hash::{FxHashMap, FxHashSet};
use wuji_ir::entities::*;
use wuji_ir::module::*;
use wuji_ir::ops::*;
use wuji_ir::types::{Imm, Scalar};

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    Uniform,
    /// Integers only, modulo the width of the type.
    Strided(i64),
    Varying,
}

/// The jumps to a label.
#[derive(Clone, Debug, Default)]
pub(super) struct Jumps {
    /// Regions that end in `continue`.
    pub(super) continues: Vec<Region>,
    /// Regions that end in `break`.
    pub(super) breaks: Vec<Region>,
}

pub(super) struct Shapes<'a> {
    f: &'a Function,
    structure: &'a Structure,
    body: Region,
    /// Values that are not in the map are uniform.
    shapes: FxHashMap<Value, Shape>,
    /// Divergent branches, loops and blocks.
    pub(super) divergent: FxHashSet<Inst>,
    /// Instructions that some lanes may leave by a jump to a divergent target.
    pub(super) escapes: FxHashSet<Inst>,
    pub(super) jumps: FxHashMap<Label, Jumps>,
    changed: bool,
}

impl<'a> Shapes<'a> {
    /// Analyzes the body of the `for.parallel` instruction `inst`.
    pub(super) fn of(
        f: &'a Function,
        structure: &'a Structure,
        inst: Inst,
        roles: &Roles,
    ) -> Shapes<'a> {
        let body = f.insts[inst].regions[0];
        let index = f.regions[body].params[0];
        let mut this = Shapes {
            f,
            structure,
            body,
            shapes: FxHashMap::default(),
            divergent: FxHashSet::default(),
            escapes: FxHashSet::default(),
            jumps: FxHashMap::default(),
            changed: false,
        };
        this.shapes.insert(index, Shape::Strided(1));
        this.collect_jumps(body);
        let mut affine = AffineAnalysis::new(f, structure);
        loop {
            this.changed = false;
            this.region(body, roles, &mut affine);
            this.mark_divergent_jumps();
            if !this.changed {
                break;
            }
        }
        this.note_escapes();
        this
    }

    pub(super) fn shape(&self, v: Value) -> Shape {
        self.shapes.get(&v).copied().unwrap_or(Shape::Uniform)
    }

    pub(super) fn is_uniform(&self, v: Value) -> bool {
        self.shape(v) == Shape::Uniform
    }

    /// Whether the end of the body is the only `continue` of a loop.
    pub(super) fn is_direct(&self, inst: Inst) -> bool {
        let data = &self.f.insts[inst];
        data.op
            .label()
            .and_then(|l| self.jumps.get(&l))
            .is_some_and(|j| j.continues[..] == [data.regions[0]])
    }

    fn raise(&mut self, v: Value, shape: Shape) {
        let old = self.shape(v);
        let new = match (old, shape) {
            (Shape::Uniform, new) => new,
            (Shape::Varying, _) | (_, Shape::Varying) => Shape::Varying,
            (Shape::Strided(_), Shape::Uniform) => old,
            (Shape::Strided(a), Shape::Strided(b)) if a == b => old,
            (Shape::Strided(_), Shape::Strided(_)) => Shape::Varying,
        };
        if new != old {
            self.shapes.insert(v, new);
            self.changed = true;
        }
    }

    /// Parameters and results of regions are uniform or varying, never strided.
    fn vary_if(&mut self, v: Value, varies: bool) {
        if varies {
            self.raise(v, Shape::Varying);
        }
    }

    fn mark_divergent(&mut self, inst: Inst) {
        self.changed |= self.divergent.insert(inst);
    }

    fn collect_jumps(&mut self, region: Region) {
        let f = self.f;
        match &f.regions[region].term {
            Term::Break(l, _) => self.jumps.entry(*l).or_default().breaks.push(region),
            Term::Continue(l, _) => self.jumps.entry(*l).or_default().continues.push(region),
            Term::Yield(_) | Term::Return(_) | Term::Unreachable => {}
        }
        for inst in &f.regions[region].insts {
            for r in &f.insts[*inst].regions {
                self.collect_jumps(*r);
            }
        }
    }

    fn region(&mut self, region: Region, roles: &Roles, affine: &mut AffineAnalysis) {
        let f = self.f;
        for inst in &f.regions[region].insts {
            self.inst(*inst, roles, affine);
        }
    }

    fn inst(&mut self, inst: Inst, roles: &Roles, affine: &mut AffineAnalysis) {
        let f = self.f;
        let data = &f.insts[inst];
        let any_varies = |s: &Self, vs: &[Value]| vs.iter().any(|v| !s.is_uniform(*v));
        match data.op.control() {
            Some(ControlOp::If) => {
                if !self.is_uniform(data.args[0]) {
                    self.mark_divergent(inst);
                }
                let divergent = self.divergent.contains(&inst);
                for r in &data.regions {
                    self.region(*r, roles, affine);
                    if let Term::Yield(values) = &f.regions[*r].term {
                        for (result, v) in data.results.iter().zip(values) {
                            self.vary_if(*result, divergent || !self.is_uniform(*v));
                        }
                    }
                }
            }
            Some(ControlOp::Loop(label)) => self.looping(inst, label, 0, roles, affine),
            Some(ControlOp::For(label, _)) => {
                if any_varies(self, &data.args[..3]) {
                    self.mark_divergent(inst);
                    let index = f.regions[data.regions[0]].params[0];
                    self.raise(index, Shape::Varying);
                }
                self.looping(inst, label, 3, roles, affine);
            }
            Some(ControlOp::Block(label)) => {
                self.region(data.regions[0], roles, affine);
                let divergent = self.divergent.contains(&inst);
                if let Term::Yield(values) = &f.regions[data.regions[0]].term {
                    for (result, v) in data.results.iter().zip(values) {
                        self.vary_if(*result, !self.is_uniform(*v));
                    }
                }
                self.breaks(inst, label, divergent);
            }
            Some(ControlOp::ForEach(..)) | None => self.plain(data, roles, affine),
        }
    }

    /// An instruction without regions.
    fn plain(&mut self, data: &InstData, roles: &Roles, affine: &mut AffineAnalysis) {
        // Stores and reports have no results.
        let Some(&first) = data.results.first() else {
            return;
        };
        let any_varies = data.args.iter().any(|v| !self.is_uniform(*v));
        match data.op.lanes() {
            LaneClass::PerVector => {
                let shape = self.pure(data, affine);
                self.raise(first, shape);
            }
            LaneClass::LocalAccess => {
                let varies = match data.op.access().map(|a| a.place) {
                    Some(Place::Local(l)) => match roles.of(l) {
                        Role::Private | Role::Sum(_) => true,
                        Role::Shared => any_varies,
                    },
                    Some(Place::Field(_) | Place::Array(_) | Place::Temp(_)) | None => true,
                };
                self.vary_if(first, varies);
            }
            LaneClass::MemoryAccess => self.vary_if(first, any_varies),
            LaneClass::LaneByLane | LaneClass::Branching | LaneClass::Never => {
                for r in &data.results {
                    self.raise(*r, Shape::Varying);
                }
            }
        }
    }

    fn looping(
        &mut self,
        inst: Inst,
        label: Label,
        first: usize,
        roles: &Roles,
        affine: &mut AffineAnalysis,
    ) {
        let f = self.f;
        let data = &f.insts[inst];
        let body = data.regions[0];
        let own = usize::from(first > 0);
        let divergent = self.divergent.contains(&inst);
        // With several `continue`s, lanes that continue together may have taken different paths.
        let mixed = divergent && !self.is_direct(inst);
        for (k, param) in f.regions[body].params[own..].iter().enumerate() {
            let varies = mixed
                || !self.is_uniform(data.args[first + k])
                || self.handed_on(label, k).any(|v| !self.is_uniform(v));
            self.vary_if(*param, varies);
            if let (Op::For(..), Some(result)) = (&data.op, data.results.get(k)) {
                let varies = divergent || !self.is_uniform(*param);
                self.vary_if(*result, varies);
                // The carried value at the end of the loop is also a result of `break`.
                let other = !divergent && !self.is_uniform(*result);
                self.vary_if(*param, other);
            }
        }
        self.region(body, roles, affine);
        self.breaks(inst, label, divergent);
    }

    /// The k-th value of every `continue`.
    fn handed_on(&self, label: Label, k: usize) -> impl Iterator<Item = Value> + use<'a> {
        let f = self.f;
        let regions = self.jumps.get(&label).map(|j| j.continues.clone());
        regions
            .unwrap_or_default()
            .into_iter()
            .filter_map(move |r| f.regions[r].term.args().get(k).copied())
    }

    fn breaks(&mut self, inst: Inst, label: Label, divergent: bool) {
        let f = self.f;
        let regions = self.jumps.get(&label).map(|j| j.breaks.clone());
        for r in regions.unwrap_or_default() {
            for (result, v) in f.insts[inst].results.iter().zip(f.regions[r].term.args()) {
                self.vary_if(*result, divergent || !self.is_uniform(*v));
            }
        }
        for result in &f.insts[inst].results {
            self.vary_if(*result, divergent);
        }
    }

    fn pure(&self, data: &InstData, affine: &mut AffineAnalysis) -> Shape {
        let f = self.f;
        let shapes: Vec<Shape> = data.args.iter().map(|v| self.shape(*v)).collect();
        if shapes.iter().all(|s| *s == Shape::Uniform) {
            return Shape::Uniform;
        }
        let stride = |k: usize| match shapes[k] {
            Shape::Uniform => Some(0i64),
            Shape::Strided(s) => Some(s),
            Shape::Varying => None,
        };
        let constant = |k: usize| f.constant(data.args[k]).and_then(Imm::as_int);
        let int = |v: Value| f.ty(v).as_scalar().is_some_and(Scalar::is_int);
        if !int(data.results[0]) {
            return Shape::Varying;
        }
        let both = || stride(0).zip(stride(1));
        let found = if data.op == Op::Unary(UnOp::Freeze) {
            stride(0)
        } else if data.op == Op::Unary(UnOp::Neg) {
            stride(0).and_then(i64::checked_neg)
        } else if data.op == Op::Binary(BinOp::Add) {
            both().and_then(|(a, b)| a.checked_add(b))
        } else if data.op == Op::Binary(BinOp::Sub) {
            both().and_then(|(a, b)| a.checked_sub(b))
        } else if data.op == Op::Binary(BinOp::Mul) {
            let product = match (constant(0), constant(1)) {
                (Some(c), _) => stride(1).zip(i64::try_from(c).ok()),
                (_, Some(c)) => stride(0).zip(i64::try_from(c).ok()),
                (None, None) => None,
            };
            product.and_then(|(a, c)| a.checked_mul(c))
        } else if data.op == Op::Binary(BinOp::Shl) {
            let width = f.ty(data.args[0]).elem().map_or(0, Scalar::bits);
            let amount = constant(1).filter(|c| (0..width.min(31).into()).contains(c));
            amount.and_then(|c| stride(0)?.checked_mul(1 << c))
        } else if let Op::Convert(to) = data.op {
            self.converted(data, to, affine).and(stride(0))
        } else if let Op::Bitcast(to) = data.op
            && to.is_int()
            && int(data.args[0])
        {
            stride(0)
        } else {
            None
        };
        match found {
            Some(0) => Shape::Uniform,
            // Other widths and large strides are not worth it.
            Some(s) if s.unsigned_abs() < 1 << 30 => Shape::Strided(s),
            Some(_) | None => Shape::Varying,
        }
    }

    /// Whether a conversion preserves the stride: always when truncating, otherwise if the value cannot wrap.
    fn converted(&self, data: &InstData, to: Scalar, affine: &mut AffineAnalysis) -> Option<()> {
        let from = self.f.ty(data.args[0]).as_scalar().filter(|s| s.is_int())?;
        if to.bits() <= from.bits() {
            return Some(());
        }
        self.is_straight(data.args[0], affine).then_some(())
    }

    /// Whether the lanes of a strided value do not wrap around in its type.
    fn is_straight(&self, v: Value, affine: &mut AffineAnalysis) -> bool {
        let expr = affine.expr(v);
        let range = affine.range_of(&expr);
        let fits = |v: Value, (lo, hi): (i128, i128)| {
            let limits = self.f.ty(v).as_scalar().and_then(Scalar::int_range);
            limits.is_some_and(|(least, most)| least <= lo && hi <= most)
        };
        // The range of an atom is that of its type, which says nothing about the lanes.
        let straight = |atom: Value, affine: &mut AffineAnalysis| {
            if atom == self.f.regions[self.body].params[0] || self.is_uniform(atom) {
                return true;
            }
            let Some(data) = self.f.def(atom).map(|inst| &self.f.insts[inst]) else {
                return false;
            };
            let same = matches!(data.op, Op::Unary(UnOp::Freeze) | Op::Bitcast(_));
            same && self.is_straight(data.args[0], affine) && {
                let expr = affine.expr(data.args[0]);
                fits(atom, affine.range_of(&expr))
            }
        };
        fits(v, range) && expr.terms.iter().all(|(atom, _)| straight(*atom, affine))
    }

    /// Marks divergence that jumps cause: their target and every instruction that they leave, unless all active
    /// lanes jump together.
    fn mark_divergent_jumps(&mut self) {
        let jumps: Vec<(Label, Region)> = self
            .jumps
            .iter()
            .flat_map(|(l, j)| {
                let all = j.continues.iter().chain(&j.breaks);
                all.map(|r| (*l, *r)).collect::<Vec<_>>()
            })
            .collect();
        for (label, from) in jumps {
            let way = self.way_out(label, from);
            let Some((target, inner)) = way.split_last() else {
                continue;
            };
            let own_label = self.f.insts[*target].regions.contains(&self.body);
            let parts = inner.iter().any(|i| self.divergent.contains(i));
            if own_label || parts || self.divergent.contains(target) {
                for inst in inner {
                    if !matches!(self.f.insts[*inst].op, Op::If) {
                        self.mark_divergent(*inst);
                    }
                }
            }
            if parts && !own_label {
                self.mark_divergent(*target);
            }
        }
    }

    /// The instructions that enclose a region, innermost first, up to the one with the label.
    fn way_out(&self, label: Label, from: Region) -> Vec<Inst> {
        let mut way = Vec::new();
        let mut region = from;
        while let Some(owner) = self.structure.owner[region].expand() {
            way.push(owner);
            if self.f.insts[owner].op.label() == Some(label) {
                return way;
            }
            match self.structure.region_of[owner].expand() {
                Some(r) => region = r,
                None => break,
            }
        }
        Vec::new()
    }

    fn note_escapes(&mut self) {
        for (label, jumps) in self.jumps.clone() {
            for from in jumps.continues.iter().chain(&jumps.breaks) {
                let way = self.way_out(label, *from);
                let Some((target, inner)) = way.split_last() else {
                    continue;
                };
                let own = self.f.insts[*target].regions.contains(&self.body);
                if own || self.divergent.contains(target) {
                    self.escapes.extend(inner.iter().copied());
                }
            }
        }
    }
}
